"""Parameters of the towers for images and sound with their projectors, where the config determines them; otherwise None and
a note."""

from __future__ import annotations

from rooflab.hf.audio import AUDIO
from rooflab.hf.keys import Keys
from rooflab.hf.pieces import linear
from rooflab.hf.towers import TOWERS, clip_tower
from rooflab.model import Model
from rooflab.units import InputError

SECTIONS = ("vision_config", "visual", "vision_tower_config", "vit_config", "vision_cfg")
OTHERS = ("audio_config", "speech_config", "audio_tower_config", "talker_config", "code2wav_config", "vae_config")
AROUND = frozenset(
    (
        "cohere2_vision", "cosmos3_omni", "deepseek_vl", "exaone4_5", "gemma3", "gemma4", "glm46v", "glm4v",
        "glm4v_moe", "glm5_next", "glm_ocr", "glmga", "hy_v4_vl", "idefics3", "internvl", "internvl_chat", "kimi_k25",
        "kimi_vl", "lfm2_vl", "lighton_ocr", "llama4", "llava", "llava_next", "llava_next_video", "llava_onevision",
        "minimax_m3_vl", "mistral3", "mistral_large4", "mllama", "paddleocr_vl", "paligemma", "qianfan_ocr",
        "qwen2_5_omni_thinker", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe_thinker",
        "qwen3_vl", "qwen3_vl_moe", "shieldgemma2", "smolvlm", "step3p7", "vipllava",
    )
)  # fmt: skip
"""Multimodal model types whose projector is known, too."""
CLIP_L_336 = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 336, "patch_size": 14,  # count
}  # fmt: skip
"""openai/clip-vit-large-patch14-336, which first-generation LLaVA names instead of describing."""


def vision_params(outer: Keys, text: Keys, model: Model) -> int | None:
    """Parameters of the towers and their projectors; None where there are none, or the config does not determine them."""
    outer = _with_towers(outer)
    sound = _sound(outer, model)
    for key in OTHERS:
        if isinstance(outer.data.get(key), dict) and not (sound and key == "audio_config"):
            outer.note(f"{key}: not counted")
    section = next((s for key in SECTIONS if isinstance(outer.data.get(key), dict) and (s := outer.section(key))), None)
    if section is None:
        return _named_tower(outer, model) if sound is None else sound
    images = _images(section, outer, model)
    return (images or 0) + (sound or 0) or None


def _with_towers(outer: Keys) -> Keys:
    """The section that holds the towers: the config itself, or its part that thinks."""
    inner = outer.section("thinker_config") if isinstance(outer.data.get("thinker_config"), dict) else None
    if inner is None or outer.has(*SECTIONS):
        return outer
    for key in OTHERS:
        if isinstance(outer.data.get(key), dict):
            outer.note(f"{key}: not counted")
    if not inner.text("model_type"):
        inner.data = {**inner.data, "model_type": f"{outer.text('model_type')}_thinker"}
    return inner


def _sound(outer: Keys, model: Model) -> int | None:
    section = outer.section("audio_config") if isinstance(outer.data.get("audio_config"), dict) else None
    tower = AUDIO.get(outer.text("model_type")) if section else None
    if section is None or tower is None:
        return None
    section.model_type = section.text("model_type")
    try:
        return tower(section, outer, model)
    except InputError as error:
        outer.note(f"audio tower not counted: {error}")
        return None


def _images(section: Keys, outer: Keys, model: Model) -> int | None:
    kind = section.text("model_type") or outer.text("model_type")
    section.model_type = f"{kind}_vision" if f"{kind}_vision" in TOWERS else kind
    around = outer.text("model_type")
    tower = (TOWERS.get(section.model_type) or TOWERS.get(around)) if around in AROUND else None
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
    return clip_tower(Keys(dict(CLIP_L_336))) + projector
