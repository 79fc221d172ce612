"""A-030: families compose from keys. Expected counts: tests/configs/families.json, where the reference library instantiated
small random configurations of every decoder family it has (biases, tying, norms, kinds of layers varied)."""

import json
from pathlib import Path

import pytest

from rooflab import hf

FAMILIES = json.loads((Path(__file__).parent / "configs" / "families.json").read_text(encoding="utf-8"))["families"]


def test_every_popular_family_is_there():
    popular = "llama mistral mixtral qwen2 qwen3 qwen3_moe qwen3_next gemma2 gemma3_text gemma4_text phi3 gpt2 gpt_neox falcon"
    hybrid = (
        "mamba mamba2 jamba bamba zamba2 falcon_h1 nemotron_h granitemoehybrid lfm2 recurrent_gemma minimax kimi_linear"
    )
    experts = (
        "deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 glm4_moe glm_moe_dsa gpt_oss dbrx olmoe ernie4_5_moe phimoe"
    )
    assert set(f"{popular} {hybrid} {experts}".split()) <= FAMILIES.keys()
    assert len(FAMILIES) >= 125


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_of_a_family(family: str):
    for case in FAMILIES[family]:
        found = hf.read(case["config"])
        assert found.params() == case["params"], case["config"]
        assert not [note for note in found.notes if "is not known" in note]


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_are_consistent(family: str):
    """Laws: a token touches at most all parameters; caches grow with context and start at nothing; layers are counted once."""
    for case in FAMILIES[family]:
        found = hf.read(case["config"])
        assert 0 < found.active_params_without_embedding() <= found.active_params() <= found.params()
        assert found.kv_elements(0.0) == 0
        assert found.kv_elements(64.0) <= found.kv_elements(65.0) <= found.kv_elements(4096.0)
        assert found.state_elements() >= 0
        assert found.layers > 0


def test_idle_experts_have_no_weights():
    """LongCat-Flash: the reference library instantiates 801,088 parameters, but allocates a gate and an up matrix also for the
    4 experts of each of the 5 layers that do nothing (2 × 24 × 96 each), which no checkpoint has."""
    config = {
        "model_type": "longcat_flash", "vocab_size": 301, "hidden_size": 96, "num_layers": 5, "num_attention_heads": 4,
        "attention_bias": True, "ffn_hidden_size": 72, "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 16, "v_head_dim": 24, "moe_topk": 2, "n_routed_experts": 4, "zero_expert_num": 4,
        "expert_ffn_hidden_size": 24, "tie_word_embeddings": False,
    }  # fmt: skip
    found = hf.read(config)
    assert found.params() == 801_088 - 5 * 4 * 2 * 24 * 96
    assert found.layers == 5
    assert found.kv_elements(1.0) == 5 * 2 * (32 + 16)  # two attentions a layer
    assert any("do nothing" in note for note in found.notes)
