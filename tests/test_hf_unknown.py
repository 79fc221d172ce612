"""A-030: configs of model types that nobody knows are read from their keys, and what was assumed or left over is said.

Expected counts are written out by hand from the shapes; published totals name the checkpoint they belong to.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rooflab import hf
from rooflab.model import Model
from rooflab.units import InputError

Config = dict[str, Any]
HIDDEN, LAYERS, HEADS, KV, WIDTH, VOCAB = 64, 6, 4, 2, 96, 100
ACME = {
    "model_type": "acme_lm", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KV, "intermediate_size": WIDTH, "vocab_size": VOCAB, "tie_word_embeddings": False,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "max_position_embeddings": 4096,
}  # fmt: skip
TABLES = 2 * VOCAB * HIDDEN + HIDDEN  # table, head, final norm
QUERY, BOTH = HIDDEN * HIDDEN, 2 * HIDDEN * KV * 16
ATTENTION = 2 * QUERY + BOTH  # queries and output, keys and values
NETWORK, NORMS = 3 * HIDDEN * WIDTH, 2 * HIDDEN
LAYER = ATTENTION + NETWORK + NORMS
PLAIN = LAYERS * LAYER + TABLES
CACHE = 2 * KV * 16
"""Cache elements of one layer and token."""
WINDOWED = 5 * CACHE * 32 + CACHE * 1000
"""Of 1000 tokens where all layers but one see 32."""
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
ROUTED = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
FINE = 8 * 3 * HIDDEN * 24 + 8 * HIDDEN  # eight experts of width 24 and their router
LATENT = {"kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
UP = 16 * HEADS * (16 + 16)  # keys and values of all heads from the latent
MLA = HIDDEN * HEADS * 24 + HIDDEN * 24 + 16 + UP + HEADS * 16 * HIDDEN
MLA_LOW = HIDDEN * 32 + 32 + 32 * HEADS * 24 + HIDDEN * 24 + 16 + UP + HEADS * 16 * HIDDEN
GATED_DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention"] * 5 + ["full_attention"],
}  # fmt: skip
CHANNELS = 2 * 2 * 8 + 4 * 16
DELTA = HIDDEN * (CHANNELS + 4 * 16 + 2 * 4) + 4 * 16 * HIDDEN + CHANNELS * 4 + 2 * 4 + 16
MAMBA = {
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_n_groups": 1,
    "layers_block_type": ["mamba"] * 5 + ["attention"],
}  # fmt: skip
STATE = 8 * 16 * 8 + (128 + 16) * 4
SSM = HIDDEN * (128 + 144 + 8) + 128 * HIDDEN + 144 * 4 + 144 + 3 * 8 + 128
INNER = {key: value for key, value in ACME.items() if key != "model_type"}

CASES: dict[str, tuple[Config, int, int]] = {
    "plain": ({}, PLAIN, 6 * CACHE * 1000),
    "tied": ({"tie_word_embeddings": True}, PLAIN - VOCAB * HIDDEN, 6 * CACHE * 1000),
    "tied where nothing is said": ({"tie_word_embeddings": ...}, PLAIN - VOCAB * HIDDEN, 6 * CACHE * 1000),
    "explicit heads": ({"head_dim": 32}, PLAIN + LAYERS * ATTENTION, 6 * 2 * CACHE * 1000),
    "one key head": ({"num_key_value_heads": 1}, PLAIN - LAYERS * BOTH // 2, 6 * CACHE * 500),
    "as many key heads": ({"num_key_value_heads": ...}, PLAIN + LAYERS * BOTH, 6 * 2 * CACHE * 1000),
    "null key heads": ({"num_key_value_heads": None}, PLAIN + LAYERS * BOTH, 6 * 2 * CACHE * 1000),
    "attention biases": ({"attention_bias": True}, PLAIN + LAYERS * (64 + 32 + 32 + 64), 6 * CACHE * 1000),
    "no biases": ({"attention_bias": False, "mlp_bias": False}, PLAIN, 6 * CACHE * 1000),
    "biases of queries": ({"qkv_bias": True}, PLAIN + LAYERS * (64 + 32 + 32), 6 * CACHE * 1000),
    "network biases": ({"mlp_bias": True}, PLAIN + LAYERS * (2 * WIDTH + HIDDEN), 6 * CACHE * 1000),
    "biases everywhere": ({"use_bias": True}, PLAIN + LAYERS * (192 + 2 * WIDTH + HIDDEN), 6 * CACHE * 1000),
    "query norms": ({"use_qk_norm": True}, PLAIN + LAYERS * 2 * 16, 6 * CACHE * 1000),
    "no query norms": ({"qk_norm": False}, PLAIN, 6 * CACHE * 1000),
    "ungated": ({"hidden_act": "relu2"}, PLAIN - LAYERS * HIDDEN * WIDTH, 6 * CACHE * 1000),
    "layer norms, ungated": (
        {"rms_norm_eps": ..., "layer_norm_eps": 1e-5, "hidden_act": "gelu"},
        PLAIN - LAYERS * HIDDEN * WIDTH + LAYERS * NORMS + HIDDEN, 6 * CACHE * 1000,
    ),
    "wholly windowed": ({"sliding_window": 32}, PLAIN, 6 * CACHE * 32),
    "window switched off": ({"sliding_window": 32, "use_sliding_window": False}, PLAIN, 6 * CACHE * 1000),
    "windows by list": (
        {"sliding_window": 32, "layer_types": ["sliding_attention"] * 5 + ["full_attention"]}, PLAIN, WINDOWED,
    ),
    "windows by pattern": ({"sliding_window": 32, "sliding_window_pattern": 6}, PLAIN, WINDOWED),
    "windows above": (
        {"sliding_window": 32, "use_sliding_window": True, "max_window_layers": 1, "qkv_bias": False}, PLAIN, WINDOWED,
    ),
    "coarse experts": (EXPERTS, PLAIN + LAYERS * (7 * NETWORK + 8 * HIDDEN), 6 * CACHE * 1000),
    "fine experts": (ROUTED, PLAIN + LAYERS * (FINE - NETWORK), 6 * CACHE * 1000),
    "fine experts after dense layers": (
        {**ROUTED, "n_shared_experts": 2, "first_k_dense_replace": 1},
        PLAIN + 5 * (FINE + 3 * HIDDEN * 48 - NETWORK), 6 * CACHE * 1000,
    ),
    "a gated shared expert": (
        {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40},
        PLAIN + LAYERS * (FINE + 3 * HIDDEN * 40 + HIDDEN - NETWORK), 6 * CACHE * 1000,
    ),
    "experts on every other layer": ({**ROUTED, "moe_layer_freq": 2}, PLAIN + 3 * (FINE - NETWORK), 6 * CACHE * 1000),
    "latent attention": ({**LATENT, "q_lora_rank": None}, PLAIN + LAYERS * (MLA - ATTENTION), 6 * 24 * 1000),
    "latent queries": ({**LATENT, "q_lora_rank": 32}, PLAIN + LAYERS * (MLA_LOW - ATTENTION), 6 * 24 * 1000),
    "latent attention and experts": (
        {**LATENT, **ROUTED, "q_lora_rank": 32, "first_k_dense_replace": 2},
        PLAIN + LAYERS * (MLA_LOW - ATTENTION) + 4 * (FINE - NETWORK), 6 * 24 * 1000,
    ),
    "gated delta nets": (GATED_DELTA, PLAIN + 5 * (DELTA - ATTENTION), CACHE * 1000),
    "state spaces": (MAMBA, PLAIN + 5 * (SSM - ATTENTION), CACHE * 1000),
    "key heads a layer": (
        {"num_key_value_heads": [1, 1, 2, 2, 4, 4]}, PLAIN + LAYERS * BOTH // 6, 2 * 16 * (2 + 4 + 8) * 1000,
    ),
    "widths a layer": (
        {"intermediate_size": [96, 96, 48, 48, 24, 24]}, PLAIN - 3 * HIDDEN * 2 * (48 + 72), 6 * CACHE * 1000,
    ),
    "layers by search": (
        {"block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"intermediate_size": 96}}] * 5
            + [{"attention": {"no_op": True}, "ffn": {"intermediate_size": 96}}]},
        PLAIN - ATTENTION - HIDDEN, 5 * CACHE * 1000,
    ),
    "one thing a layer": (
        {"hybrid_override_pattern": "*-*-*-"}, TABLES + 3 * (ATTENTION + NETWORK + NORMS), 3 * CACHE * 1000,
    ),
    **{
        f"nested in {name}": ({**dict.fromkeys(INNER, ...), name: INNER}, PLAIN, 6 * CACHE * 1000)
        for name in ("text_config", "llm_config", "language_config", "lm_config", "llm", "decoder", "transformer_config")
    },
    "nested twice": (
        {**dict.fromkeys(INNER, ...), "thinker_config": {"text_config": INNER, "audio_config": {"d_model": 8}}},
        PLAIN, 6 * CACHE * 1000,
    ),
    "beside an unknown tower": (
        {**dict.fromkeys(INNER, ...), "text_config": INNER, "vision_config": {"model_type": "acme_eye", "hidden_size": 8}},
        PLAIN, 6 * CACHE * 1000,
    ),
}  # fmt: skip


def acme(changes: Config) -> Config:
    return {key: value for key, value in {**ACME, **changes}.items() if value is not ...}


@pytest.mark.parametrize("name", CASES)
def test_a030_an_unknown_type_counts_as_its_keys_say(name: str):
    changes, params, cache = CASES[name]
    found = hf.read(acme(changes))
    assert found.params() == params
    assert found.kv_elements(1000.0) == cache
    assert any("acme" in note and "not known" in note for note in found.notes)


def test_active_parameters_and_state_of_unknown_types():
    found = hf.read(acme({**ROUTED, "n_shared_experts": 2, "first_k_dense_replace": 1}))
    assert found.active_params() == found.params() - 5 * 6 * 3 * HIDDEN * 24  # six of eight experts rest
    assert hf.read(acme(MAMBA)).state_elements() == 5 * STATE
    assert hf.read(acme(GATED_DELTA)).state_elements() == 5 * (4 * 8 * 16 + CHANNELS * 4)


FP8 = {"type": "float", "num_bits": 8, "strategy": "channel"}
GROUPS = {"group_0": {"targets": ["Linear"], "weights": FP8, "input_activations": {"num_bits": 8}}}


@pytest.mark.parametrize(
    "section, expected",
    [
        ({"quant_method": "fp8"}, {"attention": "fp8", "ffn": "fp8"}),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, {"attention": "fp8_block", "ffn": "fp8_block"}),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, {"attention": "int4", "ffn": "int4"}),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, {"attention": "int8_weight", "ffn": "int8_weight"}),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, {"attention": "int4", "ffn": "int4"}),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, {"attention": "int8", "ffn": "int8"}),
        ({"quant_method": "compressed-tensors", "config_groups": GROUPS, "ignore": ["lm_head"]},
         {"attention": "fp8", "ffn": "fp8"}),
        ({"quant_method": "compressed-tensors", "config_groups": GROUPS, "ignore": ["lm_head", "re:.*self_attn.*"]},
         {"ffn": "fp8"}),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["*self_attn*"]},
         {"ffn": "nvfp4", "kv": "fp8"}),
    ],
)  # fmt: skip
def test_quantised_derivatives_of_unknown_types(section: Config, expected: Config):
    found = hf.read(acme({"quantization_config": section}))
    assert found.quantization == expected
    assert found.params() == PLAIN


def test_experts_alone_in_four_bits():
    found = hf.read(acme({**EXPERTS, "quantization_config": {"quant_method": "mxfp4"}}))
    assert found.quantization == {"expert": "mxfp4"}


# ------------------------------------------------------------------------------------ what is said, what is refused


def note(found: Model, words: str) -> str:
    (one,) = [each for each in found.notes if words in each]
    return one


def test_left_over_keys_are_named():
    found = hf.read(
        acme({"acme_latent_rank": 24, "use_acme_gate": True, "rope_theta": 1e4, "num_nextn_predict_layers": 1})
    )
    said = note(found, "not understood")
    for key in ("acme_latent_rank", "use_acme_gate", "num_nextn_predict_layers"):
        assert key in said
    assert "rope_theta" not in said
    assert not [each for each in hf.read(acme({})).notes if "not understood" in each]


def test_prediction_modules_that_are_not_known_are_named():
    """Youtu has DeepSeek-V3's attention, but no source tells what prediction modules of it would hold."""
    found = hf.read(acme({"model_type": "youtu", **LATENT, "q_lora_rank": 32, "num_nextn_predict_layers": 3}))
    assert found.mtp_params is None
    assert "num_nextn_predict_layers = 3" in note(found, "prediction modules")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_n_heads": 8}, r"mamba_d_state.*layer_types"),
        ({"linear_num_value_heads": 4, "linear_key_head_dim": 16}, r"linear_num_value_heads.*layer_types"),
        ({"moe_num_primary_experts": 32, "moe_num_active_primary_experts": 4}, r"moe_num_primary_experts.*num_experts"),
        ({"model_type": "lfm3", "conv_L_cache": 3}, r"conv_L_cache.*layer_types"),
        ({"layer_types": ["telepathy"] * 6}, "telepathy"),
        ({"model_type": "rwkv7"}, "version 4"),
        ({"model_type": "stripedhyena"}, "convolutions"),
        ({"num_key_value_heads": 8}, "does not divide"),
        ({"hidden_size": "64"}, "whole number"),
        ({"hidden_size": 10**9}, "outside"),
        ({"intermediate_size": ...}, "intermediate_size"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_its_keys(changes: Config, words: str):
    with pytest.raises(InputError, match=words) as caught:
        hf.read(acme(changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, row, extra",
    [
        ("qwen3_9", "qwen3", {"head_dim": 16, "max_window_layers": 6, "attention_bias": False}),
        ("glm9", "glm4", {"head_dim": 16, "attention_bias": False}),
        ("deepseek_v9", "deepseek_v3", {**LATENT, **ROUTED, "q_lora_rank": 32, "n_group": 1, "topk_group": 1}),
    ],
)
def test_a_new_version_is_read_as_its_kin(name: str, row: str, extra: Config):
    """What a family fixes in code is taken from the version before: the same count as under its name."""
    found = hf.read(acme({"model_type": name, **extra}))
    assert found.params() == hf.read(acme({"model_type": row, **extra})).params()
    assert "nearest" in note(found, name)


def test_a_class_that_contradicts_the_type_is_said():
    found = hf.read(acme({"model_type": "llama", "architectures": ["Qwen2ForCausalLM"]}))
    assert found.params() == PLAIN
    assert "read as llama" in note(found, "qwen2")


# -------------------------------------------------------------------------------------------------- other files

MISTRAL = {
    "dim": 4096,
    "n_layers": 32,
    "head_dim": 128,
    "hidden_dim": 14336,
    "n_heads": 32,
    "n_kv_heads": 8,
    "norm_eps": 1e-5,
}
LLAMA_2 = {"dim": 4096, "n_layers": 32, "n_heads": 32, "multiple_of": 256, "norm_eps": 1e-5}
LLAMA_3 = {**LLAMA_2, "n_kv_heads": 8, "multiple_of": 1024, "ffn_dim_multiplier": 1.3}
GGUF = {
    "general.architecture": "llama", "llama.block_count": 32, "llama.embedding_length": 4096,
    "llama.feed_forward_length": 14336, "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8,
    "llama.vocab_size": 128256, "llama.context_length": 131072, "llama.attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip


@pytest.mark.parametrize(
    "total, config",
    [
        (7_241_732_096, {**MISTRAL, "vocab_size": 32000}),  # mistralai/Mistral-7B-v0.1
        (
            46_702_792_704,
            {**MISTRAL, "vocab_size": 32000, "moe": {"num_experts": 8, "num_experts_per_tok": 2}},
        ),  # Mixtral-8x7B
        (6_738_415_616, {**LLAMA_2, "vocab_size": 32000}),  # meta-llama/Llama-2-7b
        (8_030_261_248, {**LLAMA_3, "vocab_size": 128256}),  # meta-llama/Meta-Llama-3-8B
        (8_030_261_248, GGUF),
    ],
)
def test_native_files_give_published_totals(total: int, config: Config):
    found = hf.read(config)
    assert found.params() == total
    assert found.kv_elements(1.0) == 2 * 32 * (32 if config.get("multiple_of") == 256 else 8) * 128
    assert any("read as" in each for each in found.notes)


@pytest.mark.parametrize(
    "config, words",
    [
        ({"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B", "r": 16}, "adapter.*Llama-3.1-8B"),
        (
            {"metadata": {"total_size": 16_060_522_496}, "weight_map": {"lm_head.weight": "a.safetensors"}},
            "index.*16060522496",
        ),
        ({"tokenizer_class": "LlamaTokenizer", "model_max_length": 4096}, "tokenizer_config"),
        ({"do_sample": True, "temperature": 0.6, "eos_token_id": 2}, "generation_config"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}, "hf_quant_config"),
        ({"quant_method": "awq", "bits": 4}, "quantisation section"),
        ({**LLAMA_2, "vocab_size": -1}, "tokenizer; write"),
        ({"general.architecture": "mamba2", "mamba2.block_count": 4}, "mamba2.*config.json"),
    ],
)
def test_files_that_are_no_config_are_named(config: Config, words: str):
    with pytest.raises(InputError, match=words):
        hf.read(config)


def test_a_folder_with_a_native_file_is_read(tmp_path: Path):
    (tmp_path / "params.json").write_text(json.dumps({**MISTRAL, "vocab_size": 32000}), encoding="utf-8")
    found = hf.load(str(tmp_path))
    assert found.params() == 7_241_732_096
    assert found.name == tmp_path.name


# ------------------------------------------------------------------------------- published checkpoints, remote code


@pytest.mark.parametrize(
    "total, config",
    [  # totals of the published checkpoints
        (13_896_668_160, {"model_type": "baichuan", "hidden_size": 5120, "intermediate_size": 13696, "num_hidden_layers": 40,
                          "num_attention_heads": 40, "vocab_size": 125696, "tie_word_embeddings": False}),  # Baichuan2-13B
        (7_721_324_544, {"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
                         "num_attention_heads": 32, "vocab_size": 151936, "no_bias": True, "kv_channels": 128,
                         "tie_word_embeddings": False}),  # Qwen/Qwen-7B
        (51_570_323_328, {"model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                          "num_attention_heads": 32, "num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 2,
                          "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4,
                          "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256,
                          "vocab_size": 65536, "tie_word_embeddings": False}),  # ai21labs/Jamba-v0.1
        (8_015_581_184, {"model_type": "llada", "d_model": 4096, "n_heads": 32, "n_kv_heads": 32, "n_layers": 32,
                         "mlp_hidden_size": 12288, "vocab_size": 126464, "embedding_size": 126464, "weight_tying": False,
                         "include_bias": False, "include_qkv_bias": False}),  # GSAI-ML/LLaDA-8B-Base
        (7_615_616_512, {"model_type": "Dream", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
                         "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
                         "tie_word_embeddings": False}),  # Dream-org/Dream-v0-Base-7B, the shape of Qwen2.5-7B
        (20_554_567_680, {"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
                          "num_attention_heads": 64, "vocab_size": 50432, "tie_word_embeddings": False}),  # gpt-neox-20b
        (169_342_464, {"model_type": "rwkv", "hidden_size": 768, "attention_hidden_size": 768, "intermediate_size": 3072,
                       "num_hidden_layers": 12, "vocab_size": 50277}),  # RWKV/rwkv-4-169m-pile
    ],
)  # fmt: skip
def test_published_totals_of_further_families(total: int, config: Config):
    assert hf.read(config).params() == total


def test_mimo_adds_up_with_its_prediction_module():
    """XiaomiMiMo/MiMo-7B-Base: 7,833,409,536 parameters in the checkpoint, its one prediction module among them."""
    found = hf.read(
        {
            "model_type": "mimo", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 36,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "attention_bias": True,
            "vocab_size": 151680, "num_nextn_predict_layers": 1, "tie_word_embeddings": False,
        }
    )  # fmt: skip
    assert found.mtp_params == 7_833_409_536 - found.params()
