"""What would make it fit: one change at a time, each the smallest of its kind, each evaluated by the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from rooflab import fits
from rooflab.api.asks import Change, FitAsk
from rooflab.api.resolve import Setting, setting_of
from rooflab.fits import Memory
from rooflab.units import InputError

_KV_FORMATS = ("fp8", "int4")
_WEIGHT_FORMATS = ("fp8", "int4")
_DEGREES = (2, 4, 8, 16, 32, 64, 128)
_MOST = 2**31  # count


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


def _candidates(ask: FitAsk) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(kind of change, its steps from small to large)."""
    for axis in ("tp", "pp", "attention_dp", "ep", "cp"):
        start = getattr(ask, axis)
        yield axis, [{axis: degree} for degree in _DEGREES if degree > start and degree % start == 0]
    yield "kv", [{"kv": name} for name in _KV_FORMATS]
    yield "weights", [{"weights": name} for name in _WEIGHT_FORMATS]
    yield "weights and kv", [{"weights": name, "kv": "fp8"} for name in _WEIGHT_FORMATS]


def changes_that_fit(ask: FitAsk) -> list[Change]:
    """Single changes that make the ask fit: fewer sequences, shorter requests, narrower formats, more devices."""
    setting = setting_of(ask)
    changes: list[Change] = []
    batch = largest_batch(ask, setting)
    if 0 < batch < ask.batch:
        changes.append(_change(ask, f"batch {ask.batch} → {batch}", {"batch": batch}))
    context = largest_context(ask, setting)
    if ask.output < context < ask.prompt + ask.output:
        shorter = context - ask.output
        changes.append(_change(ask, f"prompt {ask.prompt:,} → {shorter:,}", {"prompt": shorter}))
    for _kind, steps in _candidates(ask):
        for step in steps:
            found = _try(ask, step)
            if found is not None:
                changes.append(found)
                break
    return changes


def _try(ask: FitAsk, step: dict[str, Any]) -> Change | None:
    """The change if its layout is allowed and it fits; the system grows where its outer level can."""
    try:
        changed = msgspec.structs.replace(ask, **step)
        setting = setting_of(changed)
    except InputError:
        return None
    if not _memory_of(changed, setting).fits:
        return None
    old = setting_of(ask)
    words = [
        f"{name} {getattr(old.precision, 'attention' if name == 'weights' else name, getattr(ask, name, ''))} → {value}"
        for name, value in step.items()
    ]
    devices = int(setting.layout.devices())
    text = ", ".join(words)
    if devices != int(old.layout.devices()):
        text += f" ({devices} devices)"
    return _change(ask, text, step)


def _change(ask: FitAsk, text: str, step: dict[str, Any]) -> Change:
    """A change with the memory it leads to."""
    changed = msgspec.structs.replace(ask, **step)
    memory = _memory_of(changed, setting_of(changed))
    return Change(change=text, ask=step, used=float(memory.used), free=float(memory.free))
