"""Parameters of vision towers and projectors, where the config determines them; otherwise None and a note."""

from __future__ import annotations

from collections.abc import Callable

from rooflab.hf.keys import Keys
from rooflab.model import Model
from rooflab.units import InputError

SECTIONS = ("vision_config", "visual", "vision_tower_config", "vit_config", "vision_cfg")
OTHERS = ("audio_config", "speech_config", "audio_tower_config", "talker_config", "code2wav_config", "vae_config")
AROUND = frozenset(
    (
        "cohere2_vision", "gemma3", "gemma4", "glm4v", "glm4v_moe", "idefics3", "internvl", "internvl_chat", "kimi_k25",
        "llama4", "llava", "llava_next", "llava_next_video", "llava_onevision", "minimax_m3_vl", "mistral3", "mllama",
        "paligemma", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "shieldgemma2", "smolvlm",
    )
)  # fmt: skip
"""Multimodal model types whose projector is known, too."""
CLIP_L_336 = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 336, "patch_size": 14,  # count
}  # fmt: skip
"""openai/clip-vit-large-patch14-336, which first-generation LLaVA names instead of describing."""


def vision_params(outer: Keys, text: Keys, model: Model) -> int | None:
    """Parameters of the tower and its projector; None where there is none, or the config does not determine it."""
    for key in OTHERS:
        if isinstance(outer.data.get(key), dict):
            outer.note(f"{key}: not counted")
    section = next((s for key in SECTIONS if isinstance(outer.data.get(key), dict) and (s := outer.section(key))), None)
    if section is None:
        return _named_tower(outer, model)
    kind = section.text("model_type") or outer.text("model_type")
    section.model_type = f"{kind}_vision" if f"{kind}_vision" in TOWERS else kind
    around = outer.text("model_type")
    tower = (TOWERS.get(kind) or TOWERS.get(around)) if around in AROUND else None
    if tower is None:
        outer.note(f"vision tower {kind!r}: not counted, its layout is not known")
        return None
    try:
        return tower(section, outer, model)
    except InputError as error:
        outer.note(f"vision tower not counted: {error}")
        return None


def _named_tower(outer: Keys, model: Model) -> int | None:
    name = outer.data.get("mm_vision_tower")
    if not isinstance(name, str):
        return None
    if "clip-vit-large-patch14-336" not in name:
        outer.note(f"vision tower {name[:60]!r}: not counted, the config only names it")
        return None
    projector = linear(1024, model.hidden) + linear(model.hidden, model.hidden)  # count
    return _clip_tower(Keys(dict(CLIP_L_336))) + projector


# ------------------------------------------------------------------------------------------------ pieces


def linear(rows: int, columns: int, bias: bool = True) -> int:
    """Parameters of one linear layer."""
    return rows * columns + (columns if bias else 0)


def layer(
    hidden: int, width: int, *, norm: int = 2, bias: bool = True, mlp_bias: bool = True, gated: bool = False
) -> int:
    """Parameters of one plain vision layer; `norm` is 2 for a norm with bias and 1 without."""
    attention = 4 * linear(hidden, hidden, bias)
    mlp = (2 if gated else 1) * linear(hidden, width, mlp_bias) + linear(width, hidden, mlp_bias)
    return attention + mlp + 2 * norm * hidden


def sizes(v: Keys) -> tuple[int, int, int]:
    """Hidden size, width and layers."""
    hidden = v.count("hidden_size", limit="hidden")
    return hidden, v.count("intermediate_size"), v.count("num_hidden_layers", "depth", limit="layers")


def patches(v: Keys) -> int:
    """Patches of one image."""
    patch = v.count("patch_size", limit="small")
    return (v.count("image_size", limit="width") // patch) ** 2


def patch_embedding(v: Keys, hidden: int, *, bias: bool, frames: int = 1) -> int:
    """The convolution that turns patches into vectors."""
    channels = v.count("num_channels", "in_channels", "in_chans", limit="small", default=3)
    return channels * frames * v.count("patch_size", limit="small") ** 2 * hidden + (hidden if bias else 0)


# ------------------------------------------------------------------------------------------------ towers


def _clip_tower(v: Keys) -> int:
    hidden, width, layers = sizes(v)
    embeddings = hidden + (patches(v) + 1) * hidden + patch_embedding(v, hidden, bias=False)
    return embeddings + layers * layer(hidden, width) + 4 * hidden


def _siglip_tower(v: Keys) -> int:
    hidden, width, layers = sizes(v)
    embeddings = patches(v) * hidden + patch_embedding(v, hidden, bias=True)
    pooling = 0
    if v.model_type == "siglip_vision_model" and v.flag(
        "vision_use_head", default=True
    ):  # a learned query, one attention, one network
        pooling = 3 * hidden + 4 * linear(hidden, hidden) + linear(hidden, width) + linear(width, hidden)
    return embeddings + layers * layer(hidden, width) + 2 * hidden + pooling


def _pixtral_tower(v: Keys) -> int:
    hidden, width, layers = sizes(v)
    each = layer(hidden, width, norm=1, bias=False, mlp_bias=False, gated=True)
    return patch_embedding(v, hidden, bias=False) + hidden + layers * each


def _tower_and_projector(v: Keys, outer: Keys, model: Model) -> int:
    """A CLIP, SigLIP or Pixtral tower with the projector of the model around it."""
    hidden, out, kind = v.count("hidden_size", limit="hidden"), model.hidden, outer.text("model_type")
    tower = {"clip_vision_model": _clip_tower, "pixtral": _pixtral_tower}.get(v.model_type, _siglip_tower)(v)
    if kind in ("gemma3", "shieldgemma2"):
        return tower + hidden * out + hidden
    if kind == "paligemma":
        return tower + linear(hidden, v.count("projection_dim", limit="hidden", default=out))
    if kind == "mistral3":
        merged = hidden * outer.count("spatial_merge_size", limit="small", default=2) ** 2
        bias = outer.flag("multimodal_projector_bias")
        return tower + hidden + merged * hidden + linear(hidden, out, bias) + linear(out, out, bias)
    if kind == "cohere2_vision":
        wide = outer.count("alignment_intermediate_size", limit="width")
        merged = hidden * outer.count("downsample_factor", limit="small", default=2) ** 2
        return tower + linear(merged, wide) + linear(wide // 2, out)
    if kind in ("idefics3", "smolvlm"):
        return tower + hidden * outer.count("scale_factor", limit="small", default=2) ** 2 * out
    newline = {"llava": 0, "llava_next": out, "llava_next_video": out, "llava_onevision": out}
    if kind not in newline:
        raise InputError(f"the projector of {kind or 'this model'} is not known")
    bias = outer.flag("multimodal_projector_bias", default=True)
    chosen = outer.data.get("vision_feature_layer")
    wide = hidden * (len(chosen) if isinstance(chosen, list) else 1)
    return tower + newline[kind] + linear(wide, out, bias) + linear(out, out, bias)


def _minimax_m3(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    patch = patch_embedding(v, hidden, bias=False, frames=v.count("temporal_patch_size", limit="small", default=2))
    merged = model.hidden * v.count("spatial_merge_size", limit="small", default=2) ** 2
    projector = linear(hidden, model.hidden) + 2 * linear(model.hidden, model.hidden) + linear(merged, model.hidden)
    return patch + 2 * hidden + layers * layer(hidden, width) + projector


def _internvl(v: Keys, outer: Keys, model: Model) -> int:
    """InternVL as the reference library writes it; the same tower as InternViT under other keys."""
    hidden, width, layers = sizes(v)
    each = layer(hidden, width) + 2 * hidden - (0 if v.flag("attention_bias") else 3 * hidden)
    each += 2 * hidden if v.flag("use_qk_norm") else 0
    size, patch = v.data.get("image_size", 448), v.data.get("patch_size", 14)
    size, patch = (x[0] if isinstance(x, list) and x else x for x in (size, patch))
    patch = v.whole("patch_size", patch, "small")
    rows = (v.whole("image_size", size) // patch) ** 2
    merged = int(hidden / outer.number("downsample_ratio", 0.5, 0.01, 1.0) ** 2)
    projector = 2 * merged + linear(merged, model.hidden) + linear(model.hidden, model.hidden)
    embedding = linear(3 * patch * patch, hidden)
    return hidden + (rows + 1) * hidden + embedding + layers * each + projector


def _qwen2(v: Keys, outer: Keys, model: Model) -> int:
    hidden = v.count("embed_dim", limit="hidden")
    layers = v.count("depth", limit="layers")
    merged = hidden * v.count("spatial_merge_size", limit="small", default=2) ** 2
    width = int(v.number("mlp_ratio", 4.0, 0.1, 64.0) * hidden)
    patch = patch_embedding(v, hidden, bias=False, frames=v.count("temporal_patch_size", limit="small", default=2))
    merger = 2 * hidden + linear(merged, merged) + linear(merged, v.count("hidden_size", limit="hidden"))
    return patch + layers * layer(hidden, width) + merger


def _qwen2_5(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    merged = hidden * v.count("spatial_merge_size", limit="small", default=2) ** 2
    patch = patch_embedding(v, hidden, bias=False, frames=v.count("temporal_patch_size", limit="small", default=2))
    merger = hidden + linear(merged, merged) + linear(merged, v.count("out_hidden_size", limit="hidden"))
    return patch + layers * layer(hidden, width, norm=1, gated=True) + merger


def _qwen3(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    merged = hidden * v.count("spatial_merge_size", limit="small", default=2) ** 2
    patch = patch_embedding(v, hidden, bias=True, frames=v.count("temporal_patch_size", limit="small", default=2))
    positions = v.count("num_position_embeddings", limit="width") * hidden
    out = v.count("out_hidden_size", limit="hidden")
    merger = linear(merged, merged) + linear(merged, out)
    deep = len(v.list("deepstack_visual_indexes")) * (merger + 2 * merged)
    return patch + positions + layers * layer(hidden, width) + merger + 2 * hidden + deep


def _gemma4(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    heads = v.count("num_attention_heads", limit="heads")
    kv_heads = v.count("num_key_value_heads", limit="heads", default=heads)
    dim = v.count("head_dim", limit="head")
    attention = 2 * hidden * dim * (heads + kv_heads) + 2 * dim
    tables = 2 * v.count("position_embedding_size", limit="width") * hidden
    patch = 3 * v.count("patch_size", limit="small") ** 2 * hidden
    return tables + patch + layers * (attention + 3 * hidden * width + 4 * hidden) + hidden * model.hidden


def _mllama(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    wide = v.count("num_global_layers", limit="layers")
    tiles = v.count("max_num_tiles", limit="small")
    ratios = len(v.list("supported_aspect_ratios")) + 1
    rows = patches(v) + 1
    tables = rows * hidden + ratios * tiles * rows * hidden + 2 * ratios * tiles * hidden + 3
    each = layer(hidden, width, bias=False)
    projector = linear(v.count("vision_output_dim", limit="width"), model.hidden)
    return (
        hidden
        + patch_embedding(v, hidden, bias=False)
        + tables
        + 4 * hidden
        + layers * each
        + wide * (each + 2)
        + projector
    )


def _llama4(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    rows = patches(v) + 1
    into, out = v.count("projector_input_dim", limit="width"), v.count("projector_output_dim", limit="width")
    adapter = width * into + into * out
    projector = v.count("vision_output_dim", limit="width") * model.hidden
    tower = hidden + rows * hidden + patch_embedding(v, hidden, bias=False) + 4 * hidden + layers * layer(hidden, width)
    return tower + adapter + projector


def _moonvit(v: Keys, outer: Keys, model: Model) -> int:
    hidden = v.count("vt_hidden_size", "hidden_size", limit="hidden")
    width = v.count("vt_intermediate_size", "intermediate_size")
    layers = v.count("vt_num_hidden_layers", "num_hidden_layers", limit="layers")
    kernel = v.list("merge_kernel_size") or [2, 2]
    merged = hidden
    for size in kernel[:2]:
        merged *= v.whole("merge_kernel_size", size, "small")
    rows = v.count("init_pos_emb_height", limit="small") * v.count("init_pos_emb_width", limit="small")
    projector = 2 * hidden + linear(merged, merged) + linear(merged, model.hidden)
    return (
        patch_embedding(v, hidden, bias=True) + rows * hidden + layers * layer(hidden, width) + 2 * hidden + projector
    )


def _glm4v(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    out = v.count("out_hidden_size", limit="hidden")
    merge = v.count("spatial_merge_size", limit="small", default=2) ** 2
    patch = patch_embedding(v, hidden, bias=True, frames=v.count("temporal_patch_size", limit="small", default=2))
    each = layer(hidden, out, norm=1, bias=v.flag("attention_bias"), mlp_bias=False, gated=True)
    merger = out * out + 2 * out + 3 * out * width
    return patch + patches(v) * hidden + layers * each + 2 * hidden + merge * hidden * out + out + merger


def _internvit(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    norm = 1 if v.text("norm_type", default="layer_norm") == "rms_norm" else 2
    each = layer(hidden, width, norm=norm) + 2 * hidden - (0 if v.flag("qkv_bias", default=True) else 3 * hidden)
    each += 2 * hidden if v.flag("qk_normalization") else 0
    ratio = outer.number("downsample_ratio", 0.5, 0.01, 1.0)
    merged = int(hidden / ratio**2)
    projector = 2 * merged + linear(merged, model.hidden) + linear(model.hidden, model.hidden)
    return hidden + (patches(v) + 1) * hidden + patch_embedding(v, hidden, bias=True) + layers * each + projector


TOWERS: dict[str, Callable[[Keys, Keys, Model], int]] = {
    "clip_vision_model": _tower_and_projector,
    "siglip_vision_model": _tower_and_projector,
    "pixtral": _tower_and_projector,
    "idefics3_vision": _tower_and_projector,
    "smolvlm_vision": _tower_and_projector,
    "minimax_m3_vl_vision": _minimax_m3,
    "internvl_vision": _internvl,
    "qwen2_vl": _qwen2, "qwen2_vl_vision": _qwen2, "qwen2_5_vl": _qwen2_5, "qwen2_5_vl_vision": _qwen2_5,
    "qwen3_vl": _qwen3, "qwen3_vl_moe": _qwen3, "qwen3_vl_vision": _qwen3, "qwen3_vl_moe_vision": _qwen3,
    "qwen3_5": _qwen3, "qwen3_5_vision": _qwen3, "qwen3_5_moe": _qwen3, "qwen3_5_moe_vision": _qwen3,
    "gemma4_vision": _gemma4, "mllama_vision_model": _mllama, "llama4_vision_model": _llama4,
    "kimi_k25": _moonvit, "kimi_k25_vision": _moonvit, "glm4v": _glm4v, "glm4v_vision": _glm4v, "glm4v_moe": _glm4v,
    "glm4v_moe_vision": _glm4v, "intern_vit_6b": _internvit,
}  # fmt: skip
