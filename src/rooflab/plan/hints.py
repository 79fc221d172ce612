"""What to change, each with its computed effect (requirement D-111).

A hint is a change of the layout that was evaluated; those that would not help are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from rooflab import fits, placement
from rooflab.estimate import Estimate
from rooflab.plan.checks import Scenario, fewest_kv_heads
from rooflab.units import format

LARGE = 0.70
"""Share of the memory above which one kind of bytes is worth splitting further."""
SMALL = 0.30
"""Share of the memory below which fewer devices would do."""


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to change or to know."""

    category: str
    """SPACE, COMM, COMPUTE or LAYOUT."""
    severity: str
    """warn, info or good."""
    message: str
    change: dict[str, Any]
    """Fields of the layout to set; empty where nothing is to be changed."""
    time: float | None
    """Seconds a token takes less with the change (negative: more)."""
    memory: float | None
    """Bytes a device holds less with the change (negative: more)."""


def hints(asked: Scenario) -> tuple[Hint, ...]:
    """Everything worth knowing about a layout, warnings first."""
    found = asked.estimate()
    order = {"warn": 0, "info": 1, "good": 2}
    return tuple(sorted(_all(asked, found), key=lambda hint: order[hint.severity]))


def _all(asked: Scenario, found: Estimate) -> Iterator[Hint]:
    yield from _space(asked, found)
    yield from _places(asked, found)
    yield from _alternatives(asked, found)
    yield from _shares(asked, found)


def _effect(asked: Scenario, found: Estimate, change: dict[str, Any]) -> tuple[float, float, bool] | None:
    """(seconds saved, bytes a device saved, whether the seconds are of a token) of a change; None where it is refused."""
    layout = msgspec.structs.replace(asked.layout, **change)
    allowed, _ = fits.feasible(fits.layout_rules(asked.model, layout, asked.system, asked.profile))
    if not allowed:
        return None
    other = asked.estimate(layout)
    saved = float(found.memory.used - other.memory.used)
    if not found.memory.fits or found.mid is None or other.mid is None:
        return 0.0, saved, True  # what does not fit has no time
    before, after = (x.mid.tpot if x.mid.tpot is not None else x.mid.ttft for x in (found, other))  # type: ignore[union-attr]
    return float(before - after), saved, found.mid.tpot is not None


def _said(effect: tuple[float, float, bool]) -> str:
    """The effect of a change in words."""
    time, memory, token = effect
    parts = []
    if abs(memory) >= 1:
        parts.append(f"{'frees' if memory > 0 else 'takes'} {format(abs(memory), 'byte')} on each device")
    if abs(time) > 0:
        parts.append(
            f"{'saves' if time > 0 else 'costs'} {format(abs(time), 's', 3)} {'a token' if token else 'of the prompt'}"
        )
    return " and ".join(parts) or "changes nothing"


def _hint(category: str, severity: str, text: str, change: dict[str, Any], effect: tuple[float, float, bool]) -> Hint:
    return Hint(
        category=category,
        severity=severity,
        message=f"{text}: {_said(effect)}",
        change=change,
        time=effect[0],
        memory=effect[1],
    )


def _space(asked: Scenario, found: Estimate) -> Iterator[Hint]:
    memory = found.memory
    if memory.fits:
        share = float(memory.used / memory.capacity)
        text = f"fits with {format(float(memory.free), 'byte')} free on each device"
        yield Hint(category="SPACE", severity="good", message=text, change={}, time=None, memory=None)
        if share < SMALL and asked.layout.devices() > 1:
            text = f"only {share * 100:.0f} % of the memory is used: a larger batch or fewer devices would use the machine better"
            yield Hint(category="SPACE", severity="info", message=text, change={}, time=None, memory=None)
        return
    yield Hint(
        category="SPACE",
        severity="warn",
        message=f"over the memory by {format(float(memory.over), 'byte')} on each device",
        change={},
        time=None,
        memory=None,
    )


def _places(asked: Scenario, found: Estimate) -> Iterator[Hint]:
    """Groups that leave their unit, and units that are mostly idle."""
    system, layout = asked.system, asked.layout
    if len(system.links) < 2:
        return
    touched = float(placement.units_touched(system, layout, "tp"))
    if layout.tp > 1 and touched > 1:
        inner, outer = system.links[0], system.links[1]
        size = int(placement.unit_size(system))
        text = (
            f"tp {layout.tp} spans {touched:g} units: {format(float(inner.bandwidth), 'byte/s')} inside, "
            f"{format(float(outer.bandwidth), 'byte/s')} between them"
        )
        change = {"tp": size, "tp_placement": "inner"}
        effect = _effect(asked, found, change) if layout.tp > size else None
        if effect is not None and effect[0] > 0:
            yield _hint("COMM", "warn", f"{text}; tp {size} stays inside", change, effect)
        else:
            yield Hint(category="COMM", severity="warn", message=text, change={}, time=None, memory=None)
    busy, size = float(placement.devices_per_unit_used(system, layout)), placement.unit_size(system)
    units = float(placement.units_used(system, layout))
    if units > 1 and busy * 2 <= size:
        text = f"{busy:g} of {size:g} devices work in each of {units:g} units"
        for name in ("cp_placement", "tp_placement"):
            if getattr(layout, name) == "outer":
                change = {name: "inner"}
                effect = _effect(asked, found, change)
                if effect is not None:
                    yield _hint("LAYOUT", "info", f"{text}; placing {name[:2]} inside packs them", change, effect)


def _alternatives(asked: Scenario, found: Estimate) -> Iterator[Hint]:
    """Choices that were evaluated both ways; only those that gain are shown."""
    layout = asked.layout
    heads = fewest_kv_heads(asked.model)
    if heads is not None and layout.tp > heads and any(getattr(b.mixer, "kv_heads", 0) for b in asked.model.blocks):
        other = "split" if layout.kv_shard == "replicate" else "replicate"
        effect = _effect(asked, found, {"kv_shard": other})
        if effect is not None and (effect[0] > 0 or effect[1] > 0):
            way = "splitting each head's width" if other == "split" else "copies of whole heads"
            text = f"tp {layout.tp} exceeds {heads} KV heads; {way}"
            yield _hint("LAYOUT", "info", text, {"kv_shard": other}, effect)
    if layout.cp > 1:
        other = "qoml" if layout.ring == "kv" else "kv"
        change = {"ring": other}
        changed = asked.estimate(msgspec.structs.replace(layout, **change))
        if found.mid is not None and changed.mid is not None and changed.mid.ttft < found.mid.ttft:
            gain = float(found.mid.ttft - changed.mid.ttft)
            text = f"the ring is cheaper when {'queries' if other == 'qoml' else 'keys and values'} travel"
            message = f"{text}: saves {format(gain, 's', 3)} of the prompt's pass"
            yield Hint(category="COMM", severity="info", message=message, change=change, time=0.0, memory=0.0)
        shown = _ring_shows(found)
        if shown > 0:
            message = f"the context-parallel ring is not hidden: {format(shown, 's', 3)} of the prompt's pass"
            yield Hint(category="COMM", severity="warn", message=message, change={}, time=None, memory=None)
    wider = {"tp": "tp_cp", "tp_cp": "tp_cp_dp"}.get(layout.ffn_scope)
    adds = layout.cp if wider == "tp_cp" else layout.dp
    if wider and adds > 1:
        effect = _effect(asked, found, {"ffn_scope": wider})
        if effect is not None and effect[1] > 0:
            yield _hint("SPACE", "info", f"feed-forward over {wider.replace('_', ' × ')}", {"ffn_scope": wider}, effect)


def _ring_shows(found: Estimate) -> float:
    """Seconds of the prefill pass in which the ring is visible."""
    total = 0.0
    for item in found.prefill.priced if found.prefill is not None else ():
        if item.op is not None and item.op.collective == "ring":
            total = total + float(item.time)
    return total


def _shares(asked: Scenario, found: Estimate) -> Iterator[Hint]:
    """One kind of bytes fills the memory: split it further."""
    memory, layout = found.memory, asked.layout
    for kind, held, axes in (
        ("the cache", float(memory.kv), ("cp", "attention_dp")),
        ("weights", float(memory.weights), ("tp", "pp")),
    ):
        share = held / float(memory.capacity)
        if share <= LARGE:
            continue
        for axis in axes:
            change = {axis: int(getattr(layout, axis)) * 2}
            effect = _effect(asked, found, change)
            if effect is not None and effect[1] > 0:
                text = f"{kind} take{'s' if kind == 'the cache' else ''} {share * 100:.0f} % of the memory; {axis} {change[axis]}"
                yield _hint("SPACE", "info", text, change, effect)
                break
