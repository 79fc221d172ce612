"""Parameters of towers for images with their projectors, one function a layout, and which model types have which."""

from __future__ import annotations

from collections.abc import Callable

from rooflab.hf.keys import Keys
from rooflab.hf.pieces import layer, linear, patch_embedding, patches, sizes
from rooflab.model import Model
from rooflab.units import InputError


def clip_tower(v: Keys) -> int:
    hidden, width, layers = sizes(v)
    embeddings = hidden + (patches(v) + 1) * hidden + patch_embedding(v, hidden, bias=False)
    return embeddings + layers * layer(hidden, width) + 4 * hidden


def _siglip_tower(v: Keys) -> int:
    hidden, width, layers = sizes(v)
    rows = v.count("num_patches", limit="width") if v.model_type == "siglip2_vision_model" else patches(v)
    embeddings = rows * hidden + patch_embedding(v, hidden, bias=True)
    pooling = 0
    if v.model_type in ("siglip_vision_model", "siglip2_vision_model") and v.flag(
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
    tower = {"clip_vision_model": clip_tower, "pixtral": _pixtral_tower}.get(v.model_type, _siglip_tower)(v)
    if kind in ("gemma3", "shieldgemma2"):
        return tower + hidden * out + hidden
    if kind == "paligemma":
        return tower + linear(hidden, v.count("projection_dim", limit="hidden", default=out))
    if kind in ("mistral3", "mistral_large4", "lighton_ocr"):
        merged = hidden * outer.count("spatial_merge_size", limit="small", default=2) ** 2
        bias = outer.flag("multimodal_projector_bias")
        return tower + hidden + merged * hidden + linear(hidden, out, bias) + linear(out, out, bias)
    if kind == "cohere2_vision":
        wide = outer.count("alignment_intermediate_size", limit="width")
        merged = hidden * outer.count("downsample_factor", limit="small", default=2) ** 2
        return tower + linear(merged, wide) + linear(wide // 2, out)
    if kind == "paddleocr_vl":
        merged = hidden * v.count("spatial_merge_size", limit="small", default=2) ** 2
        return tower + 2 * hidden + linear(merged, merged) + linear(merged, out)
    if kind == "deepseek_vl":
        return tower + linear(hidden, out) + linear(out, out)
    if kind == "vipllava":
        wide = 5 * hidden  # five layers side by side
        return tower + 2 * wide + linear(wide, out) + linear(out, out)
    if kind == "lfm2_vl":
        return tower + _lfm2_projector(hidden, outer, out)
    if kind in ("idefics3", "smolvlm"):
        return tower + hidden * outer.count("scale_factor", limit="small", default=2) ** 2 * out
    newline = {"llava": 0, "llava_next": out, "llava_next_video": out, "llava_onevision": out}
    if kind not in newline:
        raise InputError(f"the projector of {kind or 'this model'} is not known")
    bias = outer.flag("multimodal_projector_bias", default=True)
    chosen = outer.data.get("vision_feature_layer")
    wide = hidden * (len(chosen) if isinstance(chosen, list) else 1)
    return tower + newline[kind] + linear(wide, out, bias) + linear(out, out, bias)


def _lfm2_projector(hidden: int, outer: Keys, out: int) -> int:
    merged = hidden * outer.count("downsample_factor", limit="small", default=2) ** 2
    wide, bias = outer.count("projector_hidden_size", limit="width"), outer.flag("projector_bias", default=True)
    norm = 2 * merged if outer.flag("projector_use_layernorm", default=True) else 0
    return norm + linear(merged, wide, bias) + linear(wide, out, bias)


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
    heads = v.count("num_heads", limit="heads")
    fewer = heads - v.count("num_key_value_heads", limit="heads", default=heads)
    each = layer(hidden, width, norm=1, gated=True) - 2 * linear(hidden, fewer * (hidden // heads))
    return patch + layers * each + merger


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
    rows = v.count("init_pos_emb_height", "pos_emb_height", limit="small")
    rows *= v.count("init_pos_emb_width", "pos_emb_width", limit="small")
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


def _glm_ocr(v: Keys, outer: Keys, model: Model) -> int:
    """As GLM-4V without positions, with norms on queries and keys and a network of its own width."""
    hidden, width, layers = sizes(v)
    out, bias = v.count("out_hidden_size", limit="hidden"), v.flag("attention_bias")
    merge = v.count("spatial_merge_size", limit="small", default=2) ** 2
    patch = patch_embedding(v, hidden, bias=True, frames=v.count("temporal_patch_size", limit="small", default=2))
    head = 2 * (hidden // v.count("num_heads", limit="heads"))
    each = layer(hidden, width, norm=1, bias=bias, mlp_bias=bias, gated=True) + head
    wide = v.count("projection_intermediate_size", default=out * v.count("in_channels", limit="small", default=3))
    return patch + layers * each + hidden + merge * hidden * out + out + out * out + 2 * out + 3 * out * wide


def _step3p7(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    tower = patch_embedding(v, hidden, bias=False) + patches(v) * hidden + 2 * hidden
    halved = 9 * hidden * 2 * hidden + 2 * hidden + 9 * 2 * hidden * 4 * hidden + 4 * hidden
    projector = linear(4 * hidden, model.hidden, outer.flag("projector_bias"))
    return tower + layers * (layer(hidden, width) + 2 * hidden) + halved + projector


def _hy_v4(v: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = sizes(v)
    out, merge = (
        v.count("out_hidden_size", limit="hidden"),
        v.count("spatial_merge_size", limit="small", default=2) ** 2,
    )
    rows = (v.count("max_image_size", limit="width") // v.count("patch_size", limit="small")) ** 2 + 1
    merger = out + linear(merge * hidden, out) + linear(out, out) + hidden
    return patch_embedding(v, hidden, bias=True) + rows * hidden + layers * layer(hidden, width) + merger


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
    "glm4v_moe_vision": _glm4v, "intern_vit_6b": _internvit, "moonvit": _moonvit, "qianfan_ocr_vision": _internvl,
    "qwen2_5_omni_vision_encoder": _qwen2_5, "exaone4_5_vision": _qwen2_5, "qwen3_omni_moe_vision_encoder": _qwen3,
    "siglip2_vision_model": _tower_and_projector, "paddleocr_vl_vision": _tower_and_projector, "glm_ocr_vision": _glm_ocr,
    "glm5_next_vision": _glm_ocr, "step3p5_vision": _step3p7, "hy_v4_vl_vision": _hy_v4,
}  # fmt: skip
