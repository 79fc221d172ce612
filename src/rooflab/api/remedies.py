"""What would make it fit: one change at a time, each the smallest of its kind, each evaluated by the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import msgspec

from rooflab import fits
from rooflab.api.asks import Change, FitAsk
from rooflab.api.resolve import Setting, layout_of, setting_of
from rooflab.fits import Memory
from rooflab.model import MoE
from rooflab.units import InputError, format

_KV_FORMATS = ("fp8", "int4")
_WEIGHT_FORMATS = ("fp8", "int4")
_AXES = ("tp", "pp", "attention_dp", "ep", "cp")
_SPLITS = ("tp", "pp")
_DEGREES = (2, 4, 8, 16, 32, 64, 128)
_MOST = 2**31  # count
_GROWTH = 8
"""Times as many devices a change may ask for as a system has now, where more can join."""


def _memory_of(ask: FitAsk, setting: Setting, batch: float | None = None, context: float | None = None) -> Memory:
    """Memory of a setting at a batch and a full length."""
    whole = float(ask.prompt + ask.output) if context is None else context
    return fits.memory(
        setting.model,
        setting.precision,
        setting.layout,
        setting.system,
        setting.profile,
        batch=float(ask.batch if batch is None else batch),
        context=whole,
        prompt=min(float(ask.prompt), whole),
    )


def _largest(fitting: Callable[[int], bool], most: int) -> int:
    """The largest whole number up to `most` that fits, 0 where none does; what fits must fit below it too."""
    if not fitting(1):
        return 0
    low, high = 1, 2
    while high < most and fitting(high):
        low, high = high, high * 2
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fitting(middle) else (low, middle)
    return low


def largest_batch(ask: FitAsk, setting: Setting) -> int:
    """Sequences of the ask's length that fit in one replica."""
    return _largest(lambda batch: bool(_memory_of(ask, setting, batch=batch).fits), _MOST)


def largest_context(ask: FitAsk, setting: Setting) -> int:
    """Tokens per sequence that fit at the ask's batch, at most the model's own limit."""
    most = setting.model.max_context or _MOST
    if _memory_of(ask, setting, context=float(most)).fits:
        return most
    return _largest(lambda context: bool(_memory_of(ask, setting, context=float(context)).fits), most)


def largest_prompt(ask: FitAsk, setting: Setting) -> int:
    """Prompt tokens below the ask's that fit at its batch and output, 0 where none do."""

    def fitting(prompt: int) -> bool:
        shorter = msgspec.structs.replace(ask, prompt=prompt)
        return bool(_memory_of(shorter, setting).fits)

    return _largest(fitting, ask.prompt)


def _candidates(ask: FitAsk) -> Iterator[list[dict[str, Any]]]:
    """Changes from small to large, one list for each kind."""
    for axis in _AXES:
        yield [{axis: degree} for degree in _degrees(ask, axis)]
    yield [{"kv": name} for name in _KV_FORMATS]
    yield [{"weights": name} for name in _WEIGHT_FORMATS]
    yield [{"weights": name, "kv": "fp8"} for name in _WEIGHT_FORMATS]


def changes_that_fit(ask: FitAsk) -> list[Change]:
    """Single changes that make the ask fit: fewer sequences, shorter prompts, narrower formats, more devices.

    Weights and cache together are offered only where neither alone is enough, more devices with narrower weights only where
    nothing else is.
    """
    setting = setting_of(ask)
    changes: list[Change] = []
    batch = largest_batch(ask, setting)
    if 0 < batch < ask.batch:
        changes.append(_change(ask, f"batch {ask.batch:,} → {batch:,}", {"batch": batch}))
    shorter = largest_prompt(ask, setting)
    if ask.cached < shorter < ask.prompt:
        changes.append(_change(ask, f"prompt {ask.prompt:,} → {shorter:,}", {"prompt": shorter}))
    enough: set[str] = set()
    for steps in _candidates(ask):
        if steps and len(steps[0]) > 1 and enough & set(steps[0]):
            continue
        found = _first(ask, steps)
        if found is not None:
            changes.append(found)
            enough |= set(found.ask)
    if changes:
        return changes
    both = [
        _first(ask, [{axis: d, "weights": w} for d in _degrees(ask, axis)]) for axis in _SPLITS for w in _WEIGHT_FORMATS
    ]
    return [found for found in both if found is not None]


def _first(ask: FitAsk, steps: list[dict[str, Any]]) -> Change | None:
    """The first of some changes, smallest first, that fits."""
    return next((found for step in steps if (found := _try(ask, step)) is not None), None)


def _degrees(ask: FitAsk, axis: str) -> list[int]:
    """Larger degrees of an axis that keep its present ranks whole."""
    start = getattr(ask, axis)
    return [degree for degree in _DEGREES if degree > start and degree % start == 0]


def nothing_helps(memory: Memory, devices: int) -> str:
    """A note for people where no single change is enough: about how many devices the whole would take."""
    needed = (memory.used - memory.reserve) * devices
    room = memory.capacity - memory.reserve
    least = f"at least {max(ceil(needed / room), devices + 1):,} of them would have to share it" if room > 0 else "none"
    return (
        "no change of batch, prompt, formats or layout makes it fit on this system: "
        f"{format(needed, 'byte')} are needed, one device has room for {format(max(room, 0.0), 'byte')}, so {least}"
    )


def _try(ask: FitAsk, step: dict[str, Any]) -> Change | None:
    """The change if its layout is allowed and it fits; a system grows where more units can join its outer level."""
    old = setting_of(ask)
    changed = msgspec.structs.replace(ask, **step)
    try:
        layout, _ = layout_of(changed, old.model, old.profile)
        devices = int(layout.devices())
        if devices > _GROWTH * old.system.devices:
            return None
        if devices > old.system.devices:
            step = {**step, "changes": {**ask.changes, "devices": devices}}
            changed = msgspec.structs.replace(ask, **step)
        setting = setting_of(changed)
    except InputError:
        return None
    if not _memory_of(changed, setting).fits:
        return None
    words = [_words(name, value, old, ask) for name, value in step.items() if name != "changes"]
    more = f" ({devices:,} devices)" if devices != int(old.layout.devices()) else ""
    return _change(ask, ", ".join(words) + more, step)


def _words(name: str, value: Any, old: Setting, ask: FitAsk) -> str:
    """One change in words: the format or degree before and after."""
    if name == "kv":
        before = old.precision.kv
    elif name == "weights":
        kinds = [old.precision.attention, old.precision.ffn, old.precision.expert]
        before = "/".join(dict.fromkeys(kinds if any(isinstance(b.ffn, MoE) for b in old.model.blocks) else kinds[:2]))
    else:
        before = getattr(ask, name)
    return f"{name} {before} → {value}"


def _change(ask: FitAsk, text: str, step: dict[str, Any]) -> Change:
    """A change with the memory it leads to."""
    changed = msgspec.structs.replace(ask, **step)
    memory = _memory_of(changed, setting_of(changed))
    return Change(change=text, ask=step, used=float(memory.used), free=float(memory.free))
