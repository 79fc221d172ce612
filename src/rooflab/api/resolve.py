"""From an ask's names and numbers to the engine's values, saying in notes whatever was assumed on the way."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from rooflab import catalog, hf
from rooflab.api.asks import _Ask, _Loaded, _Placed
from rooflab.estimate import Workload
from rooflab.fits import feasible, layout_rules
from rooflab.fitted import PRICES, RATES, USUAL, Fitted, counts_kernels
from rooflab.model import Attention, LatentAttention, Model, MoE
from rooflab.price import Pricer
from rooflab.profiles import PROFILES, Profile, profile
from rooflab.system import System
from rooflab.units import InputError, nearest, parse, shown
from rooflab.work import FORMATS, Layout, Precision

CLASSES = ("attention", "ffn", "expert", "embedding", "head", "kv", "state", "activation")
_FLOATS = ("fp32", "bf16", "fp16")
_LINEAR = ("attention", "ffn", "expert")
_DEGREES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
"""Degrees a refusal tries to suggest."""
TABLES = (".parquet", ".csv", ".json", ".jsonl")
"""Endings of tables of measured kernels."""
_PLACES = {"pe": "inner", "cube": "outer", "inner": "inner", "outer": "outer"}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a placed question resolves to."""

    model: Model
    precision: Precision
    layout: Layout
    system: System
    profile: Profile
    notes: tuple[str, ...]
    pricer: Pricer | None = None
    """What prices operators; None is the profile's roofline."""


def model_of(source: str | dict[str, Any]) -> Model:
    """The model of a config's content, a path, a catalog name or a hub id; or of a catalog model with figures changed."""
    if isinstance(source, dict) and "like" in source:
        return hf.like(source)
    if isinstance(source, dict):
        return hf.read(source)
    return _named_model(source, _stamp(source))


@lru_cache(maxsize=32)
def _named_model(source: str, stamp: tuple[float, int] | None) -> Model:
    """A model by name or path; the stamp of a file makes a changed one be read again."""
    return hf.load(source)


def _stamp(source: str) -> tuple[float, int] | None:
    """When a file was last written and its size; None where the name is no file."""
    try:
        path = Path(source).expanduser()
        found = (path / "config.json" if path.is_dir() else path).stat()
    except (OSError, ValueError, RuntimeError):
        return None
    return found.st_mtime, found.st_size


@lru_cache(maxsize=32)
def _named_system(name: str) -> System:
    return catalog.system(name)


def system_of(source: str | dict[str, Any], changes: dict[str, Any]) -> System:
    """The system of a name, path or content, with what-if changes applied.

    A file on disk is read anew each time, a catalog entry once.
    """
    if isinstance(source, dict) or source.endswith(".toml"):
        found = catalog.system(source)
    else:
        found = _named_system(source)
    return found.replace(changes) if changes else found


def number_format(name: Any, field: str) -> str:
    """A known number format.

    Raises InputError naming the formats there are.
    """
    plain = str(name).lower().replace("-", "_")
    spelled = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "half": "fp16", "q4_k_m": "q4_k", "q8": "q8_0"}
    plain = spelled.get(plain, plain)
    if plain not in FORMATS:
        raise InputError(
            f"{field}: {shown(name)} is not a number format{nearest(plain, FORMATS)}; use {', '.join(FORMATS)}"
        )
    return plain


def _weights(chosen: str | dict[str, str] | None) -> dict[str, str]:
    """Tensor classes a weights choice sets: one format for all linear weights, or one per class."""
    if chosen is None:
        return {}
    if isinstance(chosen, str) and "=" in chosen:
        pairs = [item.partition("=") for item in chosen.split(",")]
        chosen = {key.strip(): value.strip() for key, _, value in pairs}
    if isinstance(chosen, str):
        return dict.fromkeys(_LINEAR, number_format(chosen, "weights"))
    for name in chosen:
        if name not in CLASSES:
            raise InputError(f"weights: {shown(name)} is not a tensor class; use {', '.join(CLASSES)}")
    return {name: number_format(value, f"weights.{name}") for name, value in chosen.items()}


def precision_of(model: Model, ask: _Ask, used: Profile | None = None) -> tuple[Precision, list[str]]:
    """Formats of every tensor class: the checkpoint's, changed by the ask.

    A plain float for all weights ("fp16") is the format everything is served in, cache and activations too; a narrower one is
    that of the linear weights, and embeddings and head stay 16-bit unless said.
    """
    notes: list[str] = []
    chosen = _weights(ask.weights)
    served = chosen["ffn"] if isinstance(ask.weights, str) and chosen.get("ffn") in _FLOATS and len(chosen) == 3 else ""
    plain = served or (model.dtype if model.dtype in _FLOATS else "bf16")
    if plain == "fp32" and not served:
        plain = "bf16"
        if ask.weights is None:
            notes.append("the config stores 32-bit floats; served in bf16 (weights='fp32' keeps them)")
    formats: dict[str, str] = dict.fromkeys(CLASSES, plain)
    formats.update({key: value for key, value in model.quantization.items() if key in formats})
    if served:
        formats.update(embedding=served, head=served)
    formats["activation"] = plain
    formats.update(chosen)
    if ask.kv is not None:
        formats["kv"] = number_format(ask.kv, "kv")
    metadata = 0.0
    if used is not None and used.metadata:
        metadata = used.metadata
        for name in ("embedding", "head"):
            formats[name] = formats["attention"]
    return Precision(**formats, metadata=metadata), notes


def profile_of(ask: _Placed) -> Profile:
    """The ask's profile with its switches and reserve."""
    chosen = profile(ask.profile)
    changes: dict[str, Any] = {}
    for key, value in ask.switches.items():
        if key not in Profile.__struct_fields__ or key in ("name", "title"):
            known = [n for n in Profile.__struct_fields__ if n not in ("name", "title")]
            raise InputError(f"switches: {shown(key)} is not a switch of a profile{nearest(key, known)}")
        changes[key] = _switch(key, value, getattr(chosen, key))
    if ask.reserve is not None:
        changes["reserve"] = reserve_of(ask.reserve)
    return msgspec.structs.replace(chosen, **changes) if changes else chosen


_CHOICES: dict[str, tuple[str, ...]] = {
    "counting": ("kernels", "stages", "published", "weights"),
    "group": ("op", "stage", "two_stage", "step"),
    "combine": ("max", "sum"),
    "causal": ("exact", "half", "full"),
    "collective": ("auto", "ring", "flat", "hierarchical", "none"),
    "tpot": ("mean_growing", "fixed"),
    "workspace": ("engine", "sharded", "eight_buffers"),
    "kv_shard": ("split", "replicate"),
    "ffn_scope": ("tp", "tp_cp", "tp_cp_dp"),
    "cp_placement": ("inner", "outer"),
}


def _switch(key: str, value: Any, old: Any) -> Any:
    """A switch's new value, checked against the kind of the old one."""
    if key in _CHOICES:
        if value not in _CHOICES[key]:
            raise InputError(f"switches.{key}: {shown(value)} is not one of {', '.join(_CHOICES[key])}")
        return value
    if key == "reserve":
        return reserve_of(value)
    if isinstance(old, bool):
        if not isinstance(value, bool):
            raise InputError(f"switches.{key}: {shown(value)} must be true or false")
        return value
    if isinstance(old, float):
        dimension = "s" if key.endswith("_time") else "1"
        number = parse(value, dimension, f"switches.{key}")
        if key.endswith("_efficiency") and not 0.0 < number <= 1.0:
            raise InputError(f"switches.{key}: {shown(value)} must be above 0 and at most 1: a share of the peak")
        return number
    raise InputError(f"switches.{key}: cannot be changed here")


def reserve_of(value: Any) -> float:
    """A reserve: a share of the memory below 1, or bytes."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1:
        return float(value)
    if isinstance(value, str) and value.strip().endswith("%"):
        share = parse(value.strip()[:-1], "1", "reserve") / 100.0
        if share >= 1.0:
            raise InputError(f"reserve: {shown(value)} leaves no memory; write for example '10%' or '2 GB'")
        return share
    return parse(value, "byte", "reserve")


def layout_of(ask: _Placed, model: Model, used: Profile) -> tuple[Layout, list[str]]:
    """The ask's layout, with the profile's defaults where it is silent.

    Experts spread over more ranks than the layout has get attention groups of their own, and a note says so.
    """
    notes: list[str] = []
    groups = ask.attention_dp
    experts = any(isinstance(block.ffn, MoE) for block in model.blocks)
    ranks = ask.tp * ask.attention_dp * (1 if (ask.ffn_scope or used.ffn_scope) == "tp" else ask.cp)
    if ask.ep_mode == "overlay" and experts and ask.ep > ranks and ask.ep % ranks == 0 and "attention_dp" in used.axes:
        groups = ask.attention_dp * ask.ep // ranks
        notes.append(
            f"ep={ask.ep} spreads experts over more devices than tp={ask.tp} gives: "
            f"attention runs data-parallel in {groups} groups (attention_dp={groups})"
        )
    layout = Layout(
        tp=ask.tp,
        pp=ask.pp,
        cp=ask.cp,
        dp=ask.dp,
        ep=ask.ep,
        attention_dp=groups,
        ep_mode=ask.ep_mode,
        kv_shard=ask.kv_shard or used.kv_shard,
        ffn_scope=ask.ffn_scope or used.ffn_scope,
        ring=ask.ring,
        tp_placement=_PLACES[ask.tp_placement or "inner"],
        cp_placement=_PLACES[ask.cp_placement or used.cp_placement],
        microbatches=ask.microbatches,
    )
    return layout, notes


def cut_of(ask: _Placed, model: Model, system: System, used: Profile) -> tuple[Layout, list[str]]:
    """The ask's layout and what to say about it; a refused one is an InputError with its reasons."""
    layout, notes = layout_of(ask, model, used)
    holds, reasons = feasible(layout_rules(model, layout, system, used))
    if not holds:
        allowed = _allowed(model, layout, system, used, reasons)
        raise InputError(f"layout: {'; '.join([*reasons, *_count_notes(ask, system)])}{allowed}")
    return layout, [*notes, *_count_notes(ask, system)]


def _count_notes(ask: _Placed, system: System) -> list[str]:
    """A count before the name of a whole system could be taken for so many systems; say that it is not."""
    if isinstance(ask.on, str) and ask.on.strip()[:1].isdigit() and system.name in catalog.system_names():
        return [f"{shown(ask.on)} is {system.devices:,} devices of {system.name}: a count is always of devices"]
    return []


def setting_of(ask: _Placed) -> Setting:
    """Model, formats, layout, system and profile of a placed question; a refused layout is an InputError with its reasons."""
    model = model_of(ask.model)
    used = profile_of(ask)
    precision, notes = precision_of(model, ask, used)
    system = system_of(ask.on, ask.changes)
    layout, more = cut_of(ask, model, system, used)
    pricer, priced = pricer_of(ask, system, layout, used)
    notes = [*model.notes, *notes, *more, *_rate_notes(precision, system, used), *_cache_notes(model, layout), *priced]
    if used.name in PROFILES and pricer is None:
        notes.append(f"profile {used.name} ({used.title}): rates {_rates_text(used)}")
    return Setting(
        model=model,
        precision=precision,
        layout=layout,
        system=system,
        profile=used,
        notes=tuple(notes),
        pricer=pricer,
    )


def prices_of(ask: Any, used: Profile) -> tuple[str, list[str]]:
    """Name of what prices the operators, and what to say about it.

    Rates of one's own mean the roofline at those rates. Raises InputError where both they and fitted prices are asked for.
    """
    own = sorted(RATES.intersection(ask.switches))
    if not own or not counts_kernels(used):
        return ask.prices or (USUAL if counts_kernels(used) else "roofline"), []
    if ask.prices not in (None, "roofline"):
        raise InputError(
            f"switches.{own[0]}: {shown(ask.switches[own[0]])} is a rate of the roofline, and prices are "
            f"{shown(ask.prices)}; leave one of them out"
        )
    return "roofline", [] if ask.prices else [f"prices of the roofline, because {own[0]} is given"]


def prices_of_many(ask: Any, used: Profile, what: str) -> str:
    """Name of what prices the operators of many points at once: tables of one's own price single points only."""
    prices, _ = prices_of(ask, used)
    if prices not in PRICES:
        raise InputError(f"prices: {shown(prices)} prices single points; {what} take {' or '.join(map(repr, PRICES))}")
    return prices


def pricer_of(ask: _Placed, system: System, layout: Layout, used: Profile) -> tuple[Pricer | None, list[str]]:
    """What prices the operators, None for the profile's roofline, and what to say about it.

    Kernels' prices need operators at the grain of kernels, so the coarser profiles keep their roofline.
    """
    prices, said = prices_of(ask, used)
    if prices == "roofline":
        return None, said
    if not counts_kernels(used):
        raise InputError(f"prices: {shown(prices)} are of kernels; the {used.name} profile is coarser; use 'roofline'")
    fitted = Fitted(system, layout, used, ask.engine)
    if prices == "fitted":
        return fitted, [fitted.fits.said(ask.engine)]
    named_prices(prices)
    from rooflab.measure.mine import measured_prices

    try:
        return measured_prices(prices, fitted)
    except InputError as problem:
        raise InputError(f"prices: {str(problem).removeprefix('data: ')}") from None


def named_prices(prices: str | None) -> None:
    """Refuses what names neither prices nor a table of kernels."""
    if prices not in (None, *PRICES) and not prices.endswith(TABLES) and "/" not in prices:
        raise InputError(f"prices: {shown(prices)} is not 'roofline', 'fitted' or the path of a table of kernels")


def _allowed(model: Model, layout: Layout, system: System, used: Profile, reasons: list[str]) -> str:
    """What the first refused degree could be with everything else as it is, as the end of a message."""
    for axis in used.axes:
        if not any(f"{axis}=" in reason or (axis == "tp" and "layout needs" in reason) for reason in reasons):
            continue
        others = {degree: msgspec.structs.replace(layout, **{axis: degree}) for degree in _DEGREES}
        right = [str(d) for d, other in others.items() if feasible(layout_rules(model, other, system, used))[0]]
        if right:
            return f"; {axis} may be {', '.join(right)}"
    return ""


def _rates_text(used: Profile) -> str:
    shares = f"{used.compute_efficiency:.0%} of peak compute, {used.memory_efficiency:.0%} of peak bandwidth"
    return f"{shares}, assumed" if used.name == "operator" else shares


def _rate_notes(precision: Precision, system: System, used: Profile) -> list[str]:
    """What a device without units for a format does instead."""
    if not used.rate_by_dtype:
        return []
    notes: list[str] = []
    for name in {precision.attention, precision.ffn, precision.expert, precision.head}:
        note = system.device.rate_note(FORMATS[name].rate)
        if note and note not in notes:
            notes.append(note)
    return sorted(notes)


def _cache_notes(model: Model, layout: Layout) -> list[str]:
    """Says when ranks hold the same cache: there are more of them than KV heads, or a latent has no heads to share out."""
    tp, notes = layout.tp, []
    layers: dict[int, int] = {}
    for block in model.blocks:
        mixer = block.mixer
        if isinstance(mixer, Attention) and mixer.kv_elements():
            layers[mixer.kv_heads] = layers.get(mixer.kv_heads, 0) + block.count
    for heads, count in layers.items():
        if tp <= heads:
            continue
        copies = tp / heads
        where = f"tp={tp} exceeds {heads} KV heads" + (f" of {count} layers" if len(layers) > 1 else "")
        if layout.kv_shard == "split":
            notes.append(f"{where}: each head's width is split over {copies:g} ranks")
        else:
            notes.append(f"{where}: each is held {copies:g} times, so their cache takes {copies:g}×")
    if tp > 1 and any(isinstance(block.mixer, LatentAttention) for block in model.blocks):
        notes.append(
            f"the latent cache is held whole by every one of the {tp} tp ranks; attention_dp would hold it once"
        )
    return notes


def workload_of(ask: _Loaded, model: Model) -> tuple[Workload, list[str]]:
    """The ask's workload, with a note when it exceeds the model's context."""
    if ask.cached >= ask.prompt:
        raise InputError(f"cached: {ask.cached} must be below prompt ({ask.prompt}); at least one token is computed")
    notes: list[str] = []
    if model.max_context and ask.prompt + ask.output > model.max_context:
        notes.append(
            f"prompt + output = {ask.prompt + ask.output:,} tokens exceed the model's longest context of {model.max_context:,}"
        )
    return Workload(batch=ask.batch, prompt=ask.prompt, output=ask.output, cached=ask.cached), notes
