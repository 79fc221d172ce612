"""`read`: a parsed `config.json` → `Model`. Finds the language model inside, its family, and what lies beside it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rooflab.hf import unknown
from rooflab.hf.attention import HIDDEN, norm_params
from rooflab.hf.decoder import CONTEXT, VOCABULARY, Parts, merged
from rooflab.hf.facts import Facts
from rooflab.hf.families import facts_of
from rooflab.hf.formats import refuse_other_files, translated
from rooflab.hf.keys import Keys
from rooflab.hf.layers import LAYERS
from rooflab.hf.quantization import quantization
from rooflab.hf.special import BUILDERS
from rooflab.hf.vision import vision_params
from rooflab.model import Block, Model, MoE
from rooflab.units import InputError, shown

TEXT_SECTIONS = (
    "text_config",
    "llm_config",
    "language_config",
    "lm_config",
    "language_model",
    "thinker_config",
    "llm_cfg",
)
DTYPES = {"float32": "fp32", "float": "fp32", "fp32": "fp32", "float16": "fp16", "half": "fp16", "fp16": "fp16",
          "bfloat16": "bf16", "bf16": "bf16"}  # fmt: skip
ENCODERS = (
    " albert altclip beit bert camembert clip clip_vision_model convbert convnext data2vec-text deberta deberta-v2 deit dinov2 "
    "dinov3_vit distilbert electra ernie esm eurobert funnel hubert ibert jina_embeddings_v3 layoutlm layoutlmv3 longformer luke "
    "megatron-bert mobilebert modernbert mpnet nomic_bert roberta roformer sam siglip siglip2 siglip_vision_model splinter "
    "squeezebert swin vit wav2vec2 wav2vec2-bert wavlm xlm-roberta xlm-roberta-xl xmod yolos "
)
ENCODER_DECODERS = (
    " bart bigbird_pegasus blenderbot blenderbot-small florence2 fsmt led longt5 m2m_100 marian mbart moonshine mt5 mvp nllb-moe "
    "pegasus plbart prophetnet seamless_m4t seamless_m4t_v2 speech_to_text switch_transformers t5 t5gemma umt5 whisper "
)
DIFFUSION = ("dream", "llada", "llada2_moe", "sdar", "sdar_moe", "diffusion_gemma")
LARGEST = 10**15  # count
"""Parameters above which a config is taken for damaged."""


def read(config: dict[str, Any], name: str = "", source: str = "") -> Model:
    """Translate a parsed config.json into a model; refuse with `InputError` what it does not determine."""
    if not isinstance(config, dict):
        raise InputError(f"a model config must be a JSON object, not {shown(config)}; give the model's config.json")
    config, notes = translated(config)
    outer = Keys(config, notes=notes)
    refuse_other_kinds(outer)
    text = text_section(outer)
    facts, parts = built(text)
    blocks = merged(parts.layers)
    if not blocks:
        raise InputError("the config describes no layers; correct num_hidden_layers")
    note_defaults(text)
    tied = is_tied(outer, text, facts)
    model = Model(
        name=name or text.text("_name_or_path") or outer.text("_name_or_path") or text.model_type,
        hidden=parts.hidden,
        vocab=parts.vocab,
        blocks=blocks,
        tied=parts.fields.pop("tied", tied),
        max_context=context_of(text),
        other_params=parts.other,
        dtype=dtype_of(outer, text),
        source=source,
        **parts.fields,
    )
    model = replace(model, mtp_params=mtp_params(text, facts, parts, model))
    model = replace(
        model,
        quantization=quantization(outer, text, facts, parts.layers),
        vision_params=vision_params(outer, text, model),
    )
    if text.model_type.lower() in DIFFUSION:
        outer.note(
            "a diffusion language model fills in several tokens a step: steps here are those of one that writes in order"
        )
    return checked(replace(model, notes=tuple(outer.notes)))


def built(k: Keys) -> tuple[Facts, Parts]:
    """Facts and layers: of a known family, else of the kin of its name, else of its keys alone."""
    facts = family(k)
    if facts is not None:
        k.extra_defaults = dict(facts.defaults)
        parts = BUILDERS[facts.build](k, facts)
        if not k.has("layer_types", "layers_block_type"):
            unknown.refuse_unlisted(k, parts.layers)
        return facts, parts
    unknown.refuse_uncounted(k)
    said, model_type = list(k.notes), k.model_type
    kin = unknown.by_kin(k)
    if kin is not None:
        k.extra_defaults = dict(kin.defaults)
        try:
            parts = BUILDERS[kin.build](k, kin)
            unknown.note_unread(k, parts.layers)
            return kin, parts
        except InputError:  # its keys are not that family's after all
            k.notes[:], k.model_type, k.extra_defaults = said, model_type, {}
            k.taken.clear()
    facts = unknown.guess(k)
    parts = BUILDERS[facts.build](k, facts)
    unknown.note_unread(k, parts.layers)
    return facts, parts


def refuse_other_kinds(k: Keys) -> None:
    """Refuse what is not a decoder language model."""
    if "_class_name" in k.data or "_diffusers_version" in k.data:
        raise InputError(
            f"this is a diffusion pipeline's config ({shown(k.data.get('_class_name'))}), not a language model's"
        )
    names = [str(name)[:60] for name in k.list("architectures")]
    kind = str(k.data.get("model_type", ""))[:60].lower()
    who, word = names[0] if names else kind, f" {kind} "
    if k.data.get("is_encoder_decoder") is True or word in ENCODER_DECODERS:
        raise InputError(f"{who} is an encoder-decoder; only decoder language models are estimated")
    masked = names and all(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in names)
    if word in ENCODERS or (masked and k.data.get("is_decoder") is not True):
        raise InputError(f"{who} is an encoder; only decoder language models are estimated")


def text_section(outer: Keys) -> Keys:
    """The section with the language model: nested in multimodal configs, else the config itself."""
    k = outer
    for _ in range(3):
        inner = next((section for key in TEXT_SECTIONS if (section := maybe(k, key)) is not None), None)
        inner = inner or only_model(k)
        if inner is None:
            break
        if not inner.text("model_type"):
            inner.data = {**inner.data, "model_type": k.text("model_type")}
        k = inner
    if not k.has(*HIDDEN, *LAYERS):
        refuse_other_files(outer)
    k.model_type = k.text("model_type").strip()[:100]
    return k


def only_model(k: Keys) -> Keys | None:
    """The one nested section with the sizes of a language model, in a config that has none itself."""
    if k.has(*HIDDEN, *LAYERS):
        return None
    found = [
        key
        for key, value in k.data.items()
        if isinstance(value, dict)
        and any(name in value for name in HIDDEN)
        and any(name in value for name in VOCABULARY)
    ]
    if len(found) != 1:
        return None
    k.note(f"the language model is read from the section {found[0][:60]!r}")
    return k.section(found[0])


def maybe(k: Keys, key: str) -> Keys | None:
    """A section where it is an object; other things under that key are not a section."""
    return k.section(key) if isinstance(k.data.get(key), dict) else None


def family(k: Keys) -> Facts | None:
    """The facts of the model type, or of the class it names; None when neither is known."""
    if not k.model_type and isinstance(k.data.get("ssm_cfg"), dict):
        k.model_type = "mamba_ssm"
    facts = facts_of(k.model_type)
    if facts is not None:
        unknown.note_contradiction(k)
    return facts or unknown.by_class(k)


def is_tied(outer: Keys, text: Keys, facts: Facts) -> bool:
    """Whether head and table are one; the language model's own word first, then the outer config's."""
    said = [k.flag("tie_word_embeddings") for k in (text, outer) if k.data.get("tie_word_embeddings") is not None]
    if len(said) > 1 and said[0] != said[1]:
        major = outer.text("transformers_version").partition(".")[0]
        newer = major.isdecimal() and len(major) < 4 and int(major) >= 5
        outer.note(
            f"tie_word_embeddings differs between the sections; taken from the {'outer' if newer else 'inner'} one"
        )
        return said[1] if newer else said[0]
    if said:
        return said[0]
    return text.flag("tie_word_embeddings", default=facts.tied)


def dtype_of(outer: Keys, text: Keys) -> str:
    """Number format of the unquantised weights; fp8 and unknown names are read as bf16 with a note."""
    name = text.text("torch_dtype", "dtype") or outer.text("torch_dtype", "dtype") or "bfloat16"
    name = name.removeprefix("torch.")
    if name not in DTYPES:
        outer.note(f"dtype {name!r} is not a 16- or 32-bit float: unquantised weights are counted in bf16")
    return DTYPES.get(name, "bf16")


def context_of(k: Keys) -> int:
    """Longest context the config allows, 0 when it does not say."""
    return k.count(*CONTEXT, limit="tokens", default=0, low=0)


def note_defaults(k: Keys) -> None:
    """One note for all sizes that came from class defaults."""
    if k.taken:
        said = ", ".join(f"{key} {value}" for key, value in sorted(k.taken.items()))
        k.note(f"not in the file, taken from the reference class of {k.model_type}: {said}")


def mtp_params(k: Keys, facts: Facts, parts: Parts, model: Model) -> int | None:
    """Parameters of the multi-token-prediction modules the checkpoint carries beside the model."""
    keys = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
    if not facts.mtp:
        said = next((key for key in keys if isinstance(k.data.get(key), int) and k.data[key] > 0), "")
        if said:
            k.note(f"{said} = {k.data[said]}: the parameters of its prediction modules are not known and not counted")
        return None
    count = k.count(*keys, limit="small", default=facts.mtp_layers, low=0)
    if not count:
        return None
    hidden = parts.hidden
    layer = deepest(parts.layers)
    own = sum(each.params(hidden) for each in parts.mtp_layers) or layer.params(hidden)  # int
    outside = 2 * hidden * hidden + 2 * hidden + norm_params(facts.norm, hidden)
    if facts.mtp.startswith("copies"):
        outside += 2 * model.vocab * hidden
        if facts.mtp == "copies_biases" and isinstance(layer.ffn, MoE):
            outside += layer.ffn.experts
        return count * (own + outside)
    return count * own + outside


def deepest(layers: list[Block]) -> Block:
    """The last layer with a cache: the kind a prediction module repeats."""
    for layer in reversed(layers):
        if layer.mixer is not None and layer.mixer.kv_elements():
            return layer
    return layers[-1]


def checked(model: Model) -> Model:
    """Refuse a count no model has."""
    total = model.params()
    if not 0 < total <= LARGEST:
        raise InputError(
            f"the config describes {total} parameters, outside 1 to {LARGEST}; check {HIDDEN[0]} and the layers"
        )
    return model
