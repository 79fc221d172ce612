"""Quantisation sections → number format per class of tensor. Sections are the published ones or follow each method's own
documentation; the expected formats follow from what the section says in words."""

from typing import Any

import published
import pytest

from rooflab import hf
from rooflab.work import FORMATS

DENSE: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "tie_word_embeddings": False,
}
EXPERTS: dict[str, Any] = {
    **DENSE,
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "head_dim": 16,
}


def formats(section: dict[str, Any], config: dict[str, Any] = DENSE) -> dict[str, str]:
    return hf.read({**config, "quantization_config": section}).quantization


def both(form: str) -> dict[str, str]:
    return {"attention": form, "ffn": form}


@pytest.mark.parametrize(
    "file, expected",
    [
        ("deepseek-ai__DeepSeek-V3.json", {"attention": "fp8_block", "ffn": "fp8_block", "expert": "fp8_block"}),
        ("MiniMaxAI__MiniMax-M2.5.json", {"attention": "fp8_block", "expert": "fp8_block"}),
        ("Qwen__Qwen3-32B-FP8.json", both("fp8_block")),
        ("meta-llama__Llama-3.1-405B-Instruct-FP8.json", both("fp8")),
        ("ibm-granite__granite-3.3-8b-instruct-FP8.json", both("fp8")),
        ("mistralai__Devstral-2-123B-Instruct-2512.json", both("fp8")),
        ("Qwen__Qwen2-VL-2B-Instruct-AWQ.json", both("int4")),
        ("openai__gpt-oss-120b.json", {"expert": "mxfp4"}),
        ("moonshotai__Kimi-K2.6.json", {"expert": "int4_g32"}),
        ("nvidia__Kimi-K2.5-NVFP4.json", {"ffn": "nvfp4", "expert": "nvfp4", "kv": "fp8"}),
        ("nvidia__Gemma-4-26B-A4B-NVFP4.json", {"expert": "nvfp4", "kv": "fp8"}),
        ("nvidia__Gemma-4-31B-IT-NVFP4.json", {"ffn": "nvfp4", "kv": "fp8"}),
        ("meta-llama__Meta-Llama-3.1-8B.json", {}),
    ],
)
def test_published_sections(file: str, expected: dict[str, str]):
    assert hf.read(published.config(file)).quantization == expected


@pytest.mark.parametrize(
    "section, form",
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 32}, "int4_g32"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8_weight"),
        ({"quant_method": "gptq", "bits": 3}, "int3"),
        ({"quant_method": "auto-round", "bits": 2}, "int2"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "eetq"}, "int8_weight"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "int4"),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "int8_weight"),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, "int4"),
        (
            {
                "quant_method": "torchao",
                "quant_type": {"default": {"_type": "Float8DynamicActivationFloat8WeightConfig"}},
            },
            "fp8",
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]}, "fp8"),
        (
            {"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}},
            "nvfp4",
        ),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "int4"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}}, "mxfp4"),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}, "input_tensors": {"dtype": "fp8_e4m3"}},
            },
            "fp8",
        ),
    ],
)
def test_methods(section: dict[str, Any], form: str):
    assert formats(section) == both(form)
    assert form in FORMATS


@pytest.mark.parametrize(
    "weights, activations, form",
    [
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8, "type": "int"}, "int8"),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, None, "int8_weight"),
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, {"num_bits": 8, "type": "float"}, "fp8"),
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, None, "fp8_weight"),
        (
            {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
            {"num_bits": 8},
            "fp8_block",
        ),
        ({"num_bits": 4, "type": "int", "group_size": 128}, None, "int4"),
        ({"num_bits": 4, "type": "int", "group_size": 32}, None, "int4_g32"),
        ({"num_bits": 4, "type": "float", "group_size": 16}, {"num_bits": 4, "type": "float"}, "nvfp4"),
        ({"num_bits": 4, "type": "float", "group_size": 32}, None, "mxfp4"),
    ],
)
def test_compressed_tensors(weights: dict[str, Any], activations: Any, form: str):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    assert formats(
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}
    ) == both(form)


def test_groups_with_targets_of_their_own():
    eight = {
        "targets": ["re:.*self_attn.*"],
        "weights": {"num_bits": 8, "type": "float"},
        "input_activations": {"num_bits": 8},
    }
    four = {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}
    found = formats({"quant_method": "compressed-tensors", "config_groups": {"a": eight, "b": four}})
    assert found == {"attention": "fp8", "ffn": "nvfp4"}


def test_layers_with_algorithms_of_their_own():
    layers = {f"model.layers.{i}.mlp.down_proj": {"quant_algo": "NVFP4"} for i in range(4)}
    layers |= {f"model.layers.{i}.self_attn.q_proj": {"quant_algo": "FP8"} for i in range(4)}
    found = formats({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    assert found == {"attention": "fp8", "ffn": "nvfp4"}


@pytest.mark.parametrize(
    "ignore, expected",
    [
        (["lm_head"], both("int4")),
        (["re:.*self_attn.*"], {"ffn": "int4"}),
        (["model.layers.*.self_attn*"], {"ffn": "int4"}),
        ([f"model.layers.{i}.mlp" for i in range(4)], {"attention": "int4"}),
        (["self_attn"], {"ffn": "int4"}),
        (["language_model.model.layers.0.self_attn", "q_proj"], both("int4")),
    ],
)
def test_modules_left_alone(ignore: list[str], expected: dict[str, str]):
    assert formats({"quant_method": "gptq", "bits": 4, "modules_to_not_convert": ignore}) == expected


def test_the_gate_of_a_router_is_not_the_gate_of_a_network():
    found = formats({"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head"]}, EXPERTS)
    assert found == {"attention": "fp8", "expert": "fp8"}


def test_a_mixed_class_is_noted():
    ignore = ["model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"]
    model = hf.read(
        {**DENSE, "quantization_config": {"quant_method": "gptq", "bits": 4, "modules_to_not_convert": ignore}}
    )
    assert model.quantization == both("int4")
    assert any("88 % of the attention weights are int4, the rest 16 bit" in note for note in model.notes)


def test_experts_only():
    assert formats({"quant_method": "mxfp4"}, EXPERTS) == {"expert": "mxfp4"}
    assert formats({"quant_method": "mxfp4"}, DENSE) == {}


@pytest.mark.parametrize(
    "extra, form",
    [
        ({"kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": None}, None),
        ({}, None),
    ],
)
def test_the_cache_is_quantised_only_where_it_says_so(extra: dict[str, Any], form: str | None):
    assert formats({"quant_method": "modelopt", "quant_algo": "FP8", **extra}).get("kv") == form


def test_a_quantised_head_is_said():
    assert formats({"quant_method": "gptq", "bits": 4, "lm_head": True}) == {**both("int4"), "head": "int4"}


def test_an_unknown_method_keeps_the_model_and_says_so():
    model = hf.read({**DENSE, "quantization_config": {"quant_method": "magic"}})
    assert model.quantization == {}
    assert any("magic" in note and "16 bit" in note for note in model.notes)


@pytest.mark.parametrize(
    "name, expected",
    [("bfloat16", "bf16"), ("float16", "fp16"), ("torch.float32", "fp32"), ("float8_e4m3fn", "bf16"), (None, "bf16")],
)
def test_dtype(name: str | None, expected: str):
    for key in ("dtype", "torch_dtype"):
        model = hf.read({**DENSE, key: name})
        assert model.dtype == expected
        assert bool(model.notes) == (name == "float8_e4m3fn")
