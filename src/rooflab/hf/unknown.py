"""Model types that no row knows: what their class, their name's kin or their keys say, each assumption noted.

Keys that look like part of the architecture and that nothing here reads are named, never passed over in silence; where
they describe layers of another kind than the ones counted, the config is refused.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache

from msgspec.structs import replace

from rooflab.hf.facts import Facts, Switch
from rooflab.hf.families import ALIASES, FAMILIES, facts_of
from rooflab.hf.keys import Keys, class_defaults
from rooflab.model import Block, MoE, Recurrent
from rooflab.units import InputError

RMS = ("rms_norm_eps", "rms_norm_epsilon", "norm_eps", "rms_eps", "layernorm_rms_eps")
LAYER = ("layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon", "layernorm_eps")
GATED = ("silu", "swish", "swiglu", "geglu", "swigluoai", "reglu")
UNGATED = ("relu", "relu2", "relu_squared", "squared_relu", "xielu")
GATE_KEYS = ("is_gated_act", "use_glu", "gated_mlp", "use_gated_mlp", "mlp_gated", "ffn_gated")
NORM_KEYS = ("use_qk_norm", "qk_norm", "qk_layernorm", "use_qk_layernorm", "qk_normalization")
EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "intermediate_size")


UNCOUNTED = {
    "rwkv": "of RWKV only version 4 (model_type rwkv) is known: later versions mix tokens and channels otherwise",
    "plamo": "its layers' sizes are fixed in its own code",
    "jet_nemotron": "its linear attention is found by a search and described in its own code",
    "nemotron_flash": "its mixture of linear layers is described in its own code",
    "retnet": "retention is not known",
    "hyena": "long convolutions are not known",
    "stripedhyena": "long convolutions are not known",
    "evo": "long convolutions are not known",
    "kyutai": "it predicts several streams of audio codes",
    "moshi": "it predicts several streams of audio codes",
    "blip": "it captions images with an encoder and decoder",
    "git": "it captions images with an encoder and decoder",
}
"""First part of the names of model types that are not counted → why."""


def refuse_uncounted(k: Keys) -> None:
    """Refuse a model type whose kin or keys would only seem to describe it."""
    name = k.model_type.lower()
    for first, why in UNCOUNTED.items():
        if re.fullmatch(rf"{first}([-_\d].*)?", name):
            raise InputError(f"model_type {k.model_type!r} is not estimated: {why}")


# --------------------------------------------------------------------------------------------- class and kin


def class_type(k: Keys) -> str:
    """The model type whose class `architectures` names, empty when it names none that is known."""
    for name in k.list("architectures"):
        word = str(name).split("For")[0].lower()
        for model_type in (*FAMILIES, *ALIASES):
            if model_type.replace("_", "").replace("-", "") == word:
                return model_type
    return ""


def by_class(k: Keys) -> Facts | None:
    """A family by the class named in `architectures`, when the model type is absent or unknown."""
    model_type = class_type(k)
    if not model_type:
        return None
    if k.model_type:
        k.note(f"model_type {k.model_type!r} is not known: read as {model_type}, as architectures says")
    k.model_type = model_type
    return facts_of(model_type)


def note_contradiction(k: Keys) -> None:
    """Say it where `architectures` names another family than `model_type` does."""
    named = class_type(k)
    if named and facts_of(named) != facts_of(k.model_type):
        k.note(f"architectures names {named}, model_type {k.model_type}: read as {k.model_type}, as model_type says")


def by_kin(k: Keys) -> Facts | None:
    """The family whose name begins like this one's and whose keys are likest: a new version of a known model."""
    name = k.model_type.lower()
    stem = _stem(name)
    if len(stem) < 2:
        return None
    kin = [each for each in (*FAMILIES, *ALIASES) if _stem(each) == stem]
    if k.has(*RMS) or k.has(*LAYER):
        kin = [each for each in kin if (_row(each).norm in ("rms", "none")) == k.has(*RMS)]
    if not kin:
        return None
    chosen = max(kin, key=lambda each: (_likeness(k, each), *_closeness(name, each)))
    k.note(
        f"model_type {k.model_type!r} is not known: read as {chosen}, whose name and keys are nearest; what that family fixes "
        "in code (biases, norms, gates) is assumed"
    )
    k.model_type = chosen
    row = _row(chosen)
    return replace(row, expert_width=(*row.expert_width, *(key for key in EXPERT_WIDTH if key not in row.expert_width)))


def _row(model_type: str) -> Facts:
    return FAMILIES[ALIASES.get(model_type, model_type)]


def _stem(name: str) -> str:
    found = re.match(r"[a-z]+", name.removeprefix("my_"))
    return (found[0].removesuffix("moe") or found[0]) if found else ""


def _closeness(name: str, other: str) -> tuple[float, int]:
    """How alike two names are but for their versions; then the later version."""
    plain, version = re.compile(r"\d+"), re.search(r"\d{1,6}", other)
    alike = SequenceMatcher(None, plain.sub("", name), plain.sub("", other)).ratio()
    return alike, int(version[0]) if version else 0


def _likeness(k: Keys, model_type: str) -> float:
    """Shared keys over all keys of the file and of the class."""
    known = class_defaults().get(model_type, {}).keys() | class_defaults().get(ALIASES.get(model_type, ""), {}).keys()
    mine = {key for key, value in k.data.items() if value is not None}
    return len(known & mine) / max(len(known | (mine & _words())), 1)


@cache
def _words() -> frozenset[str]:
    """Every key that some class has."""
    return frozenset(key for values in class_defaults().values() for key in values)


# ------------------------------------------------------------------------------------------------ keys alone


TELLTALES = {"block_configs": "blockwise", "hybrid_override_pattern": "nemotron_h", "ffn_multipliers": "openelm"}
"""Keys that give a layer-by-layer layout away → its builder."""


def guess(k: Keys) -> Facts:
    """Facts of an unknown model type from the keys it shares with known ones; every assumption is noted."""
    act = k.text("hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act").lower()
    rms = _rms(k, act)
    gated = _gated(k, act, rms)
    tied = "tie_word_embeddings" not in k.data
    qkv, out, network, said = _biases(k)
    norm_key = next((key for key in NORM_KEYS if isinstance(k.data.get(key), bool)), "")
    like_qwen3 = not norm_key and k.has("max_window_layers") and k.has("head_dim") and "attention_bias" in k.data
    k.note(
        f"model_type {k.model_type or 'absent'!r} is not known: read from its keys, assuming {'RMS' if rms else 'layer'} norms, "
        f"{'a gated' if gated else 'an ungated'} feed-forward ({act or 'no activation given'}), {said}"
        + (", norms on queries and keys as in Qwen 3, whose keys it has" if like_qwen3 else "")
        + (", tied embeddings because tie_word_embeddings is absent" if tied else "")
    )
    build = next((builder for key, builder in TELLTALES.items() if k.has(key)), "")
    return Facts(
        build=build,
        norms=1 if build == "nemotron_h" else 2,
        norm="rms" if rms else "layer",
        gated=gated,
        qkv_bias=qkv,
        out_bias=out,
        ffn_bias=network,
        tied=tied,
        qk_norm="head" if norm_key or like_qwen3 else "",
        qk_norm_key=norm_key,
        gate=next((key for key in ("attn_output_gate", "attention_output_gate") if k.has(key)), False),
        shared_gate=k.has("shared_expert_intermediate_size"),  # whose width has this name has a gate
        window=_window(k),
        expert_width=EXPERT_WIDTH,
        ffn_ratio=4 if "n_inner" in k.data else 0,  # absent by null in GPT-2's vocabulary
    )


def _rms(k: Keys, act: str) -> bool:
    said = k.data.get("norm_type") or k.data.get("normalization_type") or k.data.get("layer_norm_type")
    if isinstance(said, str):
        return "rms" in said.lower()
    for key in ("rmsnorm", "use_rmsnorm", "use_rms_norm"):
        if isinstance(k.data.get(key), bool):
            return k.data[key]
    return k.has(*RMS) or (not k.has(*LAYER) and act in GATED)


def _gated(k: Keys, act: str, rms: bool) -> bool:
    for key in GATE_KEYS:
        if isinstance(k.data.get(key), bool):
            return k.data[key]
    return act in GATED or (rms and act not in UNGATED)


def _biases(k: Keys) -> tuple[Switch, Switch, Switch, str]:
    """Which key speaks of the biases of queries and keys, of the way out and of the network; and that in words."""
    for key in ("use_bias", "bias", "add_bias_linear", "include_bias"):
        if isinstance(k.data.get(key), bool):
            return key, key, "mlp_bias" if "mlp_bias" in k.data else key, f"biases everywhere as {key} says"
    out = "attention_out_bias" if "attention_out_bias" in k.data else "attention_bias"
    if "attention_bias" in k.data:
        return "attention_bias", out, "mlp_bias", "biases as attention_bias says"
    for key in ("qkv_bias", "use_qkv_bias", "add_qkv_bias", "attention_qkv_bias", "attn_bias"):
        if isinstance(k.data.get(key), bool):
            return key, "attention_out_bias", "mlp_bias", f"biases as {key} says"
    if k.has("max_window_layers") and not k.has("head_dim"):
        return True, False, False, "biases on queries, keys and values as in Qwen 2, whose keys it has"
    return False, False, "mlp_bias", "no biases"


def _window(k: Keys) -> str:
    if k.has("max_window_layers"):
        return "qwen"
    if k.has("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"):
        return "pattern"
    return "key" if k.flag("use_sliding_window", default=True) else "none"


# ------------------------------------------------------------------------------------------------ what is left

OTHER_MIXERS = re.compile(
    r"(^|_)(mamba\d?|ssm|rwkv|lru|kda|gdn|delta|gla|retention|hyena|lightning|[ms]?lstm|d_conv|d_state|conv_l_cache|time_mix|"
    r"linear_(attn|attention|num|key|value|conv|head))(_|$)"
)
"""Keys of layers that are not softmax attention."""
NO_SHAPE = re.compile(
    r"token|_ids?$|_index$|eps|rope|rotary|yarn|dropout|drop_|init|scal|coef|theta|eos|bos|pad|seed|version|cache|temperature|"
    r"loss|cap|logit|multiplier|alpha|beta|n_groups?$|topk_group|norm_topk|topk_method|router_(aux|jitter|dtype|z)|aux_|chunk_size|"
    r"beam|image|vision|visual|video|audio|speech|begin|suppress|length|position|max_|min_|precision|type|dtype|float|std|train|"
    r"layer_norm_|norm_eps|act|attn_implementation|flash|fused|quant|label|task|tp|pretraining|penalty|num_labels|partial_|"
    r"window_layers|output_|return_|use_return|gradient|checkpoint|base_model|name|mup|sinkhorn|sampling|freq|fp32|bf16|fp16|"
    r"ep_size|num_logits|qk_head_dim|number_of_conv_states|^_|kernel_impl|^is_|^use_cache|^tie_|tokenizer|prefix|summary|"
    r"problem|finetuning|decoder_start|softmax"
)
"""Parts of key names that say nothing of sizes."""
SWITCHED = re.compile(r"gate|bias|norm|mlp|attn|attention|expert|residual|share")
SHOWN = 8
"""Most keys that a note names."""


def refuse_unlisted(k: Keys, layers: list[Block]) -> None:
    """Refuse a config with keys of layers that are not attention where nothing says which layers those are."""
    others = [key for key, value in k.data.items() if OTHER_MIXERS.search(key.lower()) and _tells(key, value)]
    if others and not any(isinstance(layer.mixer, Recurrent) for layer in layers):
        raise InputError(
            f"the config (model_type {k.model_type or 'absent'!r}) has keys of layers that are not attention "
            f"({', '.join(others[:SHOWN])}) but does not say which layers those are; add layer_types"
        )


def note_unread(k: Keys, layers: list[Block]) -> None:
    """Name the keys that look like sizes or switches of the architecture and that nothing read; refuse other mixers."""
    refuse_unlisted(k, layers)
    telling = [key for key, value in k.data.items() if _tells(key, value)]
    unread = [key for key in telling if key not in k.seen]
    experts = [key for key in unread if "expert" in key.lower() and not isinstance(k.data[key], bool)]
    if experts and not any(isinstance(layer.ffn, MoE) for layer in layers):
        raise InputError(
            f"model_type {k.model_type or 'absent'!r} is not known, and its config speaks of experts in keys that are not known "
            f"({', '.join(experts[:SHOWN])}); say them as num_experts, num_experts_per_tok and moe_intermediate_size"
        )
    if unread:
        more = f" and {len(unread) - SHOWN} more" if len(unread) > SHOWN else ""
        k.note(f"not understood and so not counted: {', '.join(key[:60] for key in unread[:SHOWN])}{more}")


def _tells(key: str, value: object) -> bool:
    if NO_SHAPE.search(key.lower()) and not OTHER_MIXERS.search(key.lower()):
        return False
    if isinstance(value, bool):
        return value and bool(SWITCHED.search(key.lower()))
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, (int, str)) for each in value)
    return isinstance(value, int) and value > 0
