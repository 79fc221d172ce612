"""A-030: families compose from keys. Expected counts: tests/configs/families.json, where the reference library instantiated
small random configurations of every decoder family it has (biases, tying, norms, kinds of layers varied)."""

import json
from pathlib import Path

import pytest

from rooflab import hf
from rooflab.units import InputError

CONFIGS = Path(__file__).parent / "configs"
FAMILIES = json.loads((CONFIGS / "families.json").read_text(encoding="utf-8"))["families"]
TOWERS = json.loads((CONFIGS / "towers.json").read_text(encoding="utf-8"))


def test_every_popular_family_is_there():
    popular = "llama mistral mixtral qwen2 qwen3 qwen3_moe qwen3_next gemma2 gemma3_text gemma4_text phi3 gpt2 gpt_neox falcon"
    hybrid = (
        "mamba mamba2 jamba bamba zamba2 falcon_h1 nemotron_h granitemoehybrid lfm2 recurrent_gemma minimax kimi_linear"
    )
    experts = (
        "deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 glm4_moe glm_moe_dsa gpt_oss dbrx olmoe ernie4_5_moe phimoe"
    )
    assert set(f"{popular} {hybrid} {experts}".split()) <= FAMILIES.keys()
    assert len(FAMILIES) >= 145


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


@pytest.mark.parametrize("name", TOWERS)
def test_towers_for_images_and_sound(name: str):
    found = hf.read(TOWERS[name]["config"])
    assert found.vision_params == TOWERS[name]["towers"]
    assert not [note for note in found.notes if "not counted" in note]


def test_the_part_that_thinks_holds_the_towers():
    """Qwen3-Omni: its towers lie in thinker_config; what speaks is named and not counted."""
    inner = TOWERS["qwen3_omni_moe_thinker"]
    outer = {"model_type": "qwen3_omni_moe", "thinker_config": inner["config"], "talker_config": {"hidden_size": 1024}}
    found = hf.read(outer)
    assert found.vision_params == inner["towers"]
    assert found.params() == hf.read(inner["config"]).params()
    assert "talker_config: not counted" in found.notes


# ------------------------------------------------------------------------------- layers passed more than once, states

SMALL = {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "intermediate_size": 96, "vocab_size": 100}


@pytest.mark.parametrize(
    "mode, caches",
    [("per_loop", 2 + 3 * 4 + 2), ("last_loop", 2 + 4 + 2)],  # before, in the loop, after
)
def test_layers_that_loop_keep_their_weights_once(mode: str, caches: int):
    """Dory: 8 layers, of which 4 run three times; each passage has a cache of its own, or the last one's serves all."""
    config = {
        **SMALL, "model_type": "dory", "num_hidden_layers": 8, "num_key_value_heads": 2, "n_input_layers": 2,
        "n_output_layers": 2, "n_recurrent_loops": 3, "recurrent_kv_cache_mode": mode, "layer_types": ["full_attention"] * 8,
    }  # fmt: skip
    found = hf.read(config)
    layer = 64 * 64 * 3 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * (64 + 64 + 96)  # queries, gate and output; scales a channel
    assert found.params() == 8 * layer + 2 * 100 * 64 + 100
    assert found.kv_elements(1.0) == caches * 2 * 2 * 16
    assert found.layers == 8


def test_two_stacks_that_take_turns():
    """HRM: the fast stack of 2 layers runs 2 × 3 times, the slow one 2 times; each run caches."""
    config = {**SMALL, "model_type": "hrm_text", "num_hidden_layers": 2, "H_cycles": 2, "L_cycles": 3}
    found = hf.read(config)
    layer = 5 * 64 * 64 + 3 * 64 * 96
    assert found.params() == 2 * 2 * layer + 2 * 100 * 64 + 64
    assert found.kv_elements(1.0) == 2 * 2 * (3 + 1) * 2 * 64


def test_convolutions_in_attention_keep_a_state():
    """ZAYA: per layer the last 2 inputs of 4 + 2 heads of 16 channels, and half of one token's values (2 heads of 16).
    Inkling: the last 4 inputs of keys and values (2 heads of 16 each) and of both halves' outputs (64 each)."""
    zaya = next(case["config"] for case in FAMILIES["zaya"])
    found = hf.read(
        {**zaya, **SMALL, "num_key_value_heads": 2, "cca_time0": 2, "cca_time1": 2, "num_experts": 4, "num_hidden_layers": 4,
         "layer_types": ["hybrid"] * 4}
    )  # fmt: skip
    assert found.state_elements() == 4 * (2 * 6 * 16 + 16)
    inkling = next(case["config"] for case in FAMILIES["inkling_text"])
    shape = {"num_key_value_heads": 2, "swa_num_key_value_heads": 2, "swa_num_attention_heads": 4, "swa_head_dim": 16}
    found = hf.read({**inkling, **SMALL, **shape, "conv_kernel_size": 4})
    assert found.state_elements() == 12 * 4 * (2 * 2 * 16 + 2 * 64)


def test_tables_of_word_groups_have_prime_rows():
    """Qwen 4: from 100 on the first four primes are 101, 103, 107, 109: 420 rows, padded to 424, of width 64 / 4."""
    config = next(case["config"] for case in FAMILIES["qwen4_exp_text"])
    shape = {
        "hidden_size": 64,
        "ple_embed_dim": 64,
        "ple_layer_ids": [1],
        "ngram_vocab_size_base": 100,
        "ngram_size": 3,
    }
    shape |= {"heads_per_ngram": 2, "make_ngram_vocab_size_divisible_by": 8}
    assert hf.read({**config, **shape}).lookup_params == 424 * 16


def test_latents_shared_between_layers_are_refused():
    config = next(case["config"] for case in FAMILIES["mistral_large4_text"])
    with pytest.raises(InputError, match="kv_source_layers"):
        hf.read({**config, "kv_source_layers": [0] * config["num_hidden_layers"]})
