"""Damaged configurations: a clear refusal, or an answer that is a possible model. Never another exception, a hang, nonsense.

Laws over the published configurations, so no expected values: what comes back is judged by reason alone.
"""

import copy
import json
import math
import random
import time
from typing import Any

import published
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab import hf
from rooflab.model import Model
from rooflab.units import InputError
from rooflab.work import FORMATS

CONFIGS = {file: json.loads(path.read_text(encoding="utf-8")) for file, path in published.paths().items()}
DAMAGE: list[Any] = [
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, 10**40, 0.5, -2.5, 1e300, math.nan, math.inf, "", "auto", "7", "x" * 5000,
    [], [None], [0] * 5, [-1] * 500, ["full_attention"] * 500, {}, {"a": {"b": [1]}}, [[[[]]]],
]  # fmt: skip


def places(config: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of a config and its sections, as a path."""
    found = []
    for key, value in config.items():
        found.append((*path, key))
        if isinstance(value, dict):
            found += places(value, (*path, key))
    return found


def damaged(config: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy with one value replaced."""
    fresh = copy.deepcopy(config)
    section = fresh
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return fresh


def outcome(config: Any) -> Model | None:
    """The model, or None after a proper refusal; anything else fails the test."""
    start, refusal, model = time.process_time(), "", None
    try:
        model = hf.read(config)
    except InputError as error:
        refusal = str(error)
    assert time.process_time() - start < 5.0
    assert model is not None or 10 < len(refusal) < 1500
    assert "\n" not in refusal
    return model


def possible(model: Model) -> None:
    """What any model satisfies."""
    total, active = model.params(), model.active_params()
    assert isinstance(total, int)
    assert 0 < active <= total <= 10**15
    assert 0 <= model.active_params_without_embedding() <= active
    assert 0 < model.layers <= 3 * 4096
    assert model.vocab > 0
    assert model.hidden > 0
    for context in (0.0, 1.0, 4096.0, 1e6):
        assert 0 <= model.kv_elements(context) < math.inf
        assert 0 <= model.index_elements(context) < math.inf
    assert model.state_elements() >= 0
    assert model.mtp_params is None or model.mtp_params > 0
    assert model.vision_params is None or model.vision_params > 0
    assert set(model.quantization) <= {"attention", "ffn", "expert", "embedding", "head", "kv"}
    assert set(model.quantization.values()) <= FORMATS.keys()
    assert model.dtype in FORMATS
    assert all(isinstance(note, str) and len(note) < 2000 for note in model.notes)


@pytest.mark.parametrize("file", CONFIGS)
def test_one_damaged_value(file: str):
    chance = random.Random(file)
    spots = places(CONFIGS[file])
    refused = 0
    for _ in range(40):
        model = outcome(damaged(CONFIGS[file], chance.choice(spots), chance.choice(DAMAGE)))
        if model is None:
            refused += 1
        else:
            possible(model)
    assert refused < 40  # most keys do not matter


@pytest.mark.parametrize("file", CONFIGS)
def test_one_missing_value(file: str):
    spots = places(CONFIGS[file])
    for path in random.Random(file).sample(spots, min(len(spots), 50)):
        fresh = damaged(CONFIGS[file], path, None)
        section = fresh
        for key in path[:-1]:
            section = section[key]
        del section[path[-1]]
        model = outcome(fresh)
        if model is not None:
            possible(model)


STRUCTURE = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "vocab_size", "moe_intermediate_size", "num_experts", "n_routed_experts", "num_experts_per_tok", "kv_lora_rank",
    "q_lora_rank", "qk_rope_head_dim", "v_head_dim", "sliding_window", "layer_types", "mlp_layer_types", "moe_layer_freq",
    "first_k_dense_replace", "linear_num_value_heads", "mamba_d_state", "num_kv_shared_layers", "quantization_config",
    "text_config", "vision_config", "model_type", "per_layer_config", "block_configs", "hybrid_override_pattern",
)  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-10, 10_000), st.integers(), st.floats(), st.text(max_size=30),
    st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=5), st.none()), max_size=8),
    st.dictionaries(st.sampled_from(STRUCTURE), st.one_of(st.integers(-1, 100), st.none(), st.text(max_size=5)), max_size=4),
)  # fmt: skip


@settings(max_examples=400)
@given(st.sampled_from(sorted(CONFIGS)), st.dictionaries(st.sampled_from(STRUCTURE), VALUES, min_size=1, max_size=4))
def test_several_values_replaced_or_invented(file: str, changes: dict[str, Any]):
    fresh = copy.deepcopy(CONFIGS[file])
    section = fresh.get("text_config", fresh) if isinstance(fresh.get("text_config"), dict) else fresh
    section.update(changes)
    model = outcome(fresh)
    if model is not None:
        possible(model)


KINDS = "".join(chr(code) for code in range(32, 127))


@settings(max_examples=300)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(KINDS, max_size=10)),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(STRUCTURE), inner, max_size=6),
    )
)
def test_any_json_at_all(config: Any):
    model = outcome(config)
    if model is not None:
        possible(model)


def test_deep_sections_do_not_exhaust_the_stack():
    deep: Any = {}
    for _ in range(5000):
        deep = {"text_config": deep, "quantization_config": deep}
    assert outcome(deep) is None


@pytest.mark.parametrize(
    "pattern", ["re:(a+)+$", "re:.*.*.*.*.*.*.*x", "re:(", "*" * 3000, "re:" + "a?" * 50 + "a" * 50, "[", "re:\\"]
)
def test_hostile_patterns_neither_hang_nor_crash(pattern: str):
    weights = {"num_bits": 4, "type": "int", "group_size": 128}
    groups = {"g": {"targets": ["Linear"], "weights": weights}}
    section = {"quant_method": "compressed-tensors", "ignore": [pattern] * 50, "config_groups": groups}
    model = outcome({**CONFIGS["Qwen__Qwen3-8B.json"], "quantization_config": section})
    assert model is not None
    possible(model)
