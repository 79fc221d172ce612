"""The smallest sharding that holds a model on a hierarchy of devices (requirements D-040–D-043)."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from rooflab import fits, graph, placement
from rooflab.model import Model
from rooflab.price import Roofline, rates_of, step_time
from rooflab.profiles import Profile, profile
from rooflab.system import System
from rooflab.units import InputError, shown
from rooflab.work import Layout, Precision, Step

SUGGEST_CP = (1, 2, 4, 8, 16, 32, 48, 64, 96)
SUGGEST_TP = (1, 2, 4, 8, 16, 32)
SUGGEST_PP = (1, 2, 4, 8, 16, 32)
SLACK = 0.10
"""Share of a device's memory a suggestion leaves free (requirement D-041)."""


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """The sharding of fewest devices that fits with slack, or the one that overflows least."""

    cp: int
    tp: int
    pp: int
    cp_placement: str
    devices: int
    units: int
    groups: int
    slack: float
    """Bytes free on the busiest device; negative where it does not fit."""
    latency: float
    """Seconds of one step."""
    fits: bool
    reason: str


def auto_suggest(
    model: Model,
    system: System,
    context: int,
    mode: str = "decode",
    batch: int = 1,
    include_attention: bool = True,
    include_ffn: bool = True,
    *,
    outside: bool = False,
    precision: Precision | None = None,
) -> Suggestion:
    """Memory-minimal (CP, TP, PP, cp_placement) for a model on a hierarchy (requirements D-040–D-043).

    Among layouts that use at most 90 % of a device's memory, whose inner ranks fit one unit and whose heads and layers
    divide, the one with the fewest devices, then units, then latency; if none fits, the one that overflows least.
    `outside` adds embedding and head, which the reference leaves out.
    """
    if mode not in ("decode", "prefill"):
        raise InputError(f"mode: {shown(mode)} is not decode or prefill")
    if not (include_attention or include_ffn):
        raise InputError("scope: include attention, the feed-forward, or both; there is nothing to place")
    scope = "full" if include_attention and include_ffn else "attention" if include_attention else "ffn"
    used = msgspec.structs.replace(profile("sharded"), outside=outside)
    best: tuple[Any, ...] | None = None
    for cp, tp, pp, place in itertools.product(SUGGEST_CP, SUGGEST_TP, SUGGEST_PP, ("inner", "outer")):
        layout = Layout(cp=cp, tp=tp, pp=pp, kv_shard="split", ffn_scope="tp_cp", cp_placement=place)
        if not placement.placement_valid(system, layout) or not _divides(model, layout, system, used):
            continue
        found = _evaluate(model, system, layout, used, precision or Precision(), context, mode, batch, scope)
        key, result = found
        if best is None or key < best[0]:
            best = (key, result)
    if best is None:
        raise InputError(f"model: no sharding over {system.name} divides the heads and layers of {model.name}")
    return best[1]


def _divides(model: Model, layout: Layout, system: System, used: Profile) -> bool:
    """Whether heads and layers divide; widths may round, as in the reference."""
    heads = [m.heads for m in {block.mixer: None for block in model.blocks} if m is not None]
    whole = all(count % layout.tp == 0 for count in heads)
    return whole and layout.pp <= model.layers and layout.devices() <= system.devices


def _evaluate(
    model: Model,
    system: System,
    layout: Layout,
    used: Profile,
    precision: Precision,
    context: int,
    mode: str,
    batch: int,
    scope: str,
) -> tuple[tuple[Any, ...], Suggestion]:
    """(sort key, suggestion) of one layout; layouts that fit sort before those that do not."""
    if mode == "decode":
        step = Step(decode_sequences=batch, decode_context=context)
    else:
        step = Step(prefill_sequences=batch, prefill_tokens=context)
    operators = graph.operators(
        model, precision, layout, step, counting="stages", causal=used.causal, outside=used.outside, scope=scope
    )
    held = fits.weights_per_device(model, layout, operators)
    if scope != "ffn":
        held = held + graph.kv_bytes_per_device(model, precision, layout, context, batch)
        held = held + graph.state_bytes_per_device(model, precision, layout, batch)
    held = held + fits.workspace_bytes(model, precision, layout, used, batch, context, mode)
    slack = system.device.memory - held
    enough = held <= system.device.memory * (1.0 - SLACK)
    rates = rates_of(used)["mid"]
    latency = step_time(operators, Roofline(system, layout, used, rates), used).time if enough else 0.0
    devices, units = int(layout.devices()), int(placement.units_used(system, layout))
    found = Suggestion(
        cp=int(layout.cp),
        tp=int(layout.tp),
        pp=int(layout.pp),
        cp_placement=layout.cp_placement,
        devices=devices,
        units=units,
        groups=int(placement.groups_used(system, layout)),
        slack=float(slack),
        latency=float(latency),
        fits=bool(enough),
        reason="fits with slack" if enough else "no layout fits with 10 % slack; this one overflows least",
    )
    key = (0, devices, units, latency) if enough else (1, -slack, devices, units)
    return key, found
