"""Files that lie beside a `config.json`: those that hold the same figures are translated, the others are named and refused.

Translated: `params.json` as Meta and Mistral ship it, and the metadata of a GGUF file as JSON.
"""

from __future__ import annotations

from typing import Any

from rooflab.hf.keys import Data, Keys
from rooflab.units import InputError, shown

OTHER_FILES: tuple[tuple[str, str], ...] = (
    ("peft_type", "an adapter's adapter_config.json{base}; the model it adapts is what is estimated"),
    (
        "weight_map",
        "a checkpoint's index (model.safetensors.index.json){size}, which says where tensors lie and no shapes",
    ),
    ("tokenizer_class", "a tokenizer's tokenizer_config.json"),
    ("added_tokens", "a tokenizer's tokenizer.json"),
    ("image_processor_type", "an image processor's preprocessor_config.json"),
    ("feature_extractor_type", "a feature extractor's preprocessor_config.json"),
    ("processor_class", "a processor's processor_config.json"),
    ("producer", "a quantiser's hf_quant_config.json, which has no shapes"),
    ("quant_method", "a quantisation section alone, which has no shapes"),
    ("zero_point", "a quantiser's quant_config.json, which has no shapes"),
    ("do_sample", "a generation_config.json, which has no shapes"),
    ("eos_token_id", "a generation_config.json, which has no shapes"),
)
"""A key that gives a file away → what it is; looked for only where there is no size of a model."""


def refuse_other_files(k: Keys) -> None:
    """Refuse a file that is no model's config, by what it is."""
    for key, what in OTHER_FILES:
        if k.has(key):
            base = k.data.get("base_model_name_or_path")
            meta = k.data.get("metadata")
            size = meta.get("total_size") if isinstance(meta, dict) else None
            said = what.format(base=f" for {shown(base)}" if base else "", size=f" of {size} bytes" if size else "")
            raise InputError(f"this is {said}; give the model's config.json")


def translated(config: Data) -> tuple[Data, list[str]]:
    """The config in Hugging Face's vocabulary, with notes of what was read as what; others as they are."""
    if isinstance(config.get("general.architecture"), str):
        return _gguf(config)
    if all(isinstance(config.get(key), int) for key in ("dim", "n_layers", "n_heads")) and "model_type" not in config:
        return _params(config)
    return config, []


# ------------------------------------------------------------------------------------- Meta's and Mistral's params.json

PARAMS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "hidden_dim": "intermediate_size",
    "norm_eps": "rms_norm_eps",
    "tied_embeddings": "tie_word_embeddings",
    "max_seq_len": "max_position_embeddings",
    "quantization": "quantization_config",
}
EXPERTS = {
    "num_experts": "n_routed_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "num_shared_experts": "n_shared_experts",
    "route_every_n": "moe_layer_freq",
}


def _params(config: Data) -> tuple[Data, list[str]]:
    made: Data = {PARAMS.get(key, key): value for key, value in config.items()}
    kind, note = "mistral", "read as a params.json of Mistral or Meta"
    k = Keys(config)
    if config.get("vocab_size") == -1:
        raise InputError(
            "vocab_size = -1 in params.json leaves the vocabulary to the tokenizer; write its number of tokens"
        )
    if not k.has("hidden_dim"):
        kind, made["intermediate_size"] = "llama", _meta_width(k)
    experts = k.section("moe")
    if experts is not None:
        kind = "mixtral" if "expert_hidden_dim" not in experts.data else kind
        made |= {EXPERTS.get(key, key): value for key, value in experts.data.items()}
    if k.has("kv_lora_rank"):
        kind = "deepseek_v3"
    if isinstance(config.get("vision_encoder"), dict):
        note += "; its vision_encoder is not counted"
    made["model_type"] = kind
    for key, value in (("tie_word_embeddings", False), ("sliding_window", None)):
        made.setdefault(key, value)
    return made, [note]


def _meta_width(k: Keys) -> int:
    """Meta's rule: two thirds of four times the width, times a factor, rounded up to a multiple."""
    width = int(2 * 4 * k.count("dim", limit="hidden") / 3)
    if k.has("ffn_dim_multiplier"):
        width = int(k.number("ffn_dim_multiplier", 1.0, 0.01, 64.0) * width)
    multiple = k.count("multiple_of", limit="width", default=256)
    return multiple * -(-width // multiple)


# ------------------------------------------------------------------------------------------------ GGUF

GGUF = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.value_length": "v_head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
}
ARCHITECTURES = {
    "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gemma3": "gemma3_text", "gpt-oss": "gpt_oss", "glm4moe": "glm4_moe",
    "command-r": "cohere", "gptneox": "gpt_neox", "phi2": "phi", "mistral3": "mistral", "hunyuan-dense": "hunyuan_v1_dense",
    "ernie4_5-moe": "ernie4_5_moe", "bailingmoe2": "bailing_moe",
}  # fmt: skip
"""GGUF's names of architectures where they are not the model type."""
SPLIT = (
    "deepseek2",
    "mamba",
    "mamba2",
    "jamba",
    "falcon-h1",
    "nemotron_h",
    "granitehybrid",
    "qwen3next",
    "lfm2",
    "rwkv7",
)
"""Architectures whose metadata leaves out what a config.json has."""


def _gguf(config: Data) -> tuple[Data, list[str]]:
    name = config["general.architecture"]
    if name in SPLIT:
        raise InputError(
            f"GGUF metadata of {name} does not hold every size of its layers; give the model's config.json"
        )
    made: Data = {new: config[f"{name}.{old}"] for old, new in GGUF.items() if f"{name}.{old}" in config}
    tokens = config.get("tokenizer.ggml.tokens")
    if "vocab_size" not in made and isinstance(tokens, list) and tokens:
        made["vocab_size"] = len(tokens)
    experts: Any = made.get("num_experts")
    kind = ARCHITECTURES.get(name, "mixtral" if name == "llama" and experts else name)
    note = "read as the metadata of a GGUF file, which does not say whether head and table are one: as usual for "
    return {**made, "model_type": kind, "hidden_act": "silu"}, [f"{note}{kind}; weights are counted in 16 bit"]
