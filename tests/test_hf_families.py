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
