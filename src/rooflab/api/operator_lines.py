"""The work and the time of one operator: what it counts, what one execution takes, and how the profile adds them up."""

from __future__ import annotations

import math

import msgspec

from rooflab import collectives, explain, kernels, num, price, units
from rooflab.api.asks import Line
from rooflab.api.lines import line, total, written
from rooflab.api.resolve import Setting
from rooflab.fitted import Fitted
from rooflab.measured import Measured
from rooflab.price import Priced, rates_of
from rooflab.units import dimension_of
from rooflab.work import Op

_UNITS = {"pairs": "1", "distinct_experts": "1"}
_BYTES = ("weight_bytes", "activation_bytes", "kv_bytes")
_ONE = ("compute_time", "memory_time", "exchange_time", "launch")
"""What one execution takes."""
_TOGETHER = ("computing", "moving", "exchanging", "launching")
"""What a group of operators takes."""
_FIRST = ("pairs", "distinct_experts")
"""Quantities that others are counted from."""


def operator_lines(item: Priced, step: tuple[Priced, ...], setting: Setting) -> list[Line]:
    """Work, then time, of one operator and of all its executions in a step."""
    op = item.op
    if op is None:
        means = f"what every pass takes beside its operators, as the {setting.profile.name} profile assumes"
        return [total(item.name, {item.name: item.time}, "s", means, "one pass")]
    counted = sorted(op.why, key=lambda reason: reason.quantity not in _FIRST)
    lines = [
        line(r.quantity, r.formula, r.arguments, _UNITS.get(r.quantity) or dimension_of(r.quantity)) for r in counted
    ]
    moved = {each.quantity: each.value for each in lines if each.quantity in _BYTES and each.value}
    if len(moved) > 1:
        lines.append(total("moved", moved, "byte", "bytes one execution moves", "to and from memory"))
    rates = rates_of(setting.profile, setting.system.device.launch_time)["mid"]
    if setting.pricer is None:
        lines += _times(op, price.Roofline(setting.system, setting.layout, setting.profile, rates))
    else:
        lines += kernel_lines(op, setting)
    return lines + _whole(item, op, step, lines, setting)


def _whole(item: Priced, op: Op, step: tuple[Priced, ...], lines: list[Line], setting: Setting) -> list[Line]:
    """The time of all executions, from one execution's times as often as it runs (requirement D-103)."""
    count = float(op.count)
    times = {each.quantity: each.value for each in lines if each.unit == "s" and each.value}
    inputs = {name: times[name] for name in _ONE[:2] if name in times}
    for name, seconds in (("exchange_time", item.comm), ("launch", item.overhead)):
        if seconds:
            inputs[name] = seconds / count
    adds = setting.profile.combine == "sum"
    means = f"time of all {count:,g} executions in the step, as the {setting.profile.name} profile combines them"
    counts = "compute and memory are added up" if adds else "compute and memory overlap: the longer of them counts"
    if inputs:
        added = _added(list(inputs), setting)
        often = {} if count == 1 else {"executions": count}
        formula = f"executions * {f'({added})' if ' + ' in added else added}" if often else added
        whole = written("time", formula, {**often, **inputs}, "s", means, counts)
        if math.isclose(whole.value, item.time, rel_tol=1e-9, abs_tol=1e-18):
            launch = {"launch": item.basis} if "launch" in inputs and setting.pricer is not None else {}
            return [msgspec.structs.replace(whole, bases={**whole.bases, **launch})]
    if op.hides_under and item.comm:
        return [_hidden(item, op, step, times.get("exchange_time", 0.0), count)]
    group = _group(item, step, setting) if item.time else []
    return group or [total("time", {}, "s", means, "nothing is done, or nothing of it is left to wait for")]


def _added(names: list[str], setting: Setting) -> str:
    """Times that are waited for one after another; computing and moving bytes overlap unless the profile adds them."""
    overlap = [name for name in names if name in (*_ONE[:2], *_TOGETHER[:2])]
    if len(overlap) == 2 and setting.profile.combine != "sum":
        names = [f"maximum({', '.join(overlap)})", *(name for name in names if name not in overlap)]
    return " + ".join(names)


def _hidden(item: Priced, op: Op, step: tuple[Priced, ...], one: float, count: float) -> Line:
    """Communication that shows only what exceeds the stages it hides under (requirement D-070)."""
    cover = math.fsum(float(each.time) for each in step if each.op is not None and each.op.stage in op.hides_under)
    inputs = {"executions": count, "exchange_time": one, "cover": cover}
    means = "what is left of the exchange once the stages that it hides under are over"
    return written("time", "maximum(executions * exchange_time - cover, 0)", inputs, "s", means, "all executions")


def _group(item: Priced, step: tuple[Priced, ...], setting: Setting) -> list[Line]:
    """A share of a time that several operators take together, by what each would take alone."""
    group = setting.profile.group
    keys = [price.group_of(each.op, at, group) if each.op is not None else None for at, each in enumerate(step)]
    own = keys[next(at for at, each in enumerate(step) if each is item)]
    together = [each for key, each in zip(keys, step, strict=True) if key == own]
    sums = {
        name: math.fsum(float(getattr(each, field)) for each in together)
        for name, field in zip(_TOGETHER, ("compute", "memory", "comm", "overhead"), strict=True)
    }
    used = {name: seconds for name, seconds in sums.items() if seconds}
    if not used:
        return []
    where = "step" if group == "step" else "stage"
    means = (
        f"time of the {where}'s {len(together)} operators together, as the {setting.profile.name} profile combines them"
    )
    whole = written("group_time", _added(list(used), setting), used, "s", means, "all executions")
    alone = [_alone(each) for each in together]
    inputs = (whole.value, _alone(item), math.fsum(alone))
    return [whole, line("time", price.shared_out, inputs, "s")]


def _alone(item: Priced) -> float:
    return max(float(item.compute), float(item.memory)) + float(item.comm) + float(item.overhead)


def _exchange(op: Op, pricer: price.Roofline, seconds: float) -> Line | None:
    """The formula that gave a collective's time; None where levels are combined."""
    ends = {"efficiency": pricer.rates.link, "latency": pricer.profile.link_latency}
    found = collectives.closed_form(op, pricer.system, pricer.layout, seconds, **ends)
    return None if found is None else line("exchange_time", *found, "s")


def _times(op: Op, pricer: price.Roofline) -> list[Line]:
    """Seconds of one execution at the profile's rates."""
    if op.collective:
        seconds = float(pricer.cost(op).comm)
        closed = _exchange(op, pricer, seconds)
        means = f"{_collective(op)} of {op.axis}"
        return [closed or total("exchange_time", {"exchange": seconds}, "s", means, "one execution")]
    rates, device = pricer.rates, pricer.system.device
    flop, lines, titles = op.flop, [], {}
    if rates.tiles and op.kind in ("gemm", "grouped_gemm") and device.tile[0] > 1:
        tile_m, tile_n, tile_k = (float(t) for t in device.tile)
        padded = (price.padded_rows(op.m, tile_m), num.round_up(op.n, tile_n), num.round_up(op.k, tile_k), op.groups)
        lines.append(line("padded_flop", price.padded_flop, padded, "FLOP"))
        flop, titles = lines[-1].value, {"flop": lines[-1].title}
    worked = (flop, pricer.peak(op.dtype), rates.compute)
    lines.append(line("compute_time", price.compute_time, worked, "s", titles=titles))
    moved = (op.bytes(), device.memory_bandwidth, rates.memory)
    lines.append(line("memory_time", price.memory_time, moved, "s"))
    return lines


def _collective(op: Op) -> str:
    return str(op.collective).replace("_", "-")


def kernel_lines(op: Op, setting: Setting) -> list[Line]:
    """Seconds of one execution where kernels' prices apply: the share of each peak that the kernel's formula gives there."""
    pricer, device = setting.pricer, setting.system.device
    assert pricer is not None
    cost, fitted = pricer.cost(op), pricer.fallback if isinstance(pricer, Measured) else pricer
    assert isinstance(fitted, Fitted)
    family, source, parameters = kernels.family(op), f"{cost.basis} price", ""
    chosen = fitted.chosen(family, op)[0] if family and cost.basis != "measured" else None
    if chosen is not None:
        source = chosen.source.replace("_", " ")
        values = msgspec.structs.asdict(chosen.parameters).items()
        parameters = ", ".join(f"{name.replace('_', ' ')} {_parameter(name, value)}" for name, value in values if value)
    text = explain.describe(kernels.formula(family)) if chosen is not None else {}
    counts = "; ".join(
        part for part in (text.get("counts", "").rstrip("."), parameters and f"with {parameters}") if part
    )
    if op.collective:
        terms, means = {"exchange": float(cost.comm)}, f"{_collective(op)} of {op.axis}, one execution"
        return [
            msgspec.structs.replace(total("exchange_time", terms, "s", means, counts or "one execution"), source=source)
        ]
    rate, lines = fitted.peak.peak(op.dtype), []
    roofs = (
        ("compute_time", price.compute_time, op.flop, rate, cost.compute),
        ("memory_time", price.memory_time, op.bytes(), device.memory_bandwidth, cost.memory),
    )
    for quantity, function, work, peak, seconds in roofs:
        if not float(work) or not float(seconds):
            continue
        found = line(quantity, function, (float(work), float(peak), float(work) / (float(peak) * float(seconds))), "s")
        means = f"{found.means.rstrip('.')}: the share that the kernel reaches at this shape."
        bases = {**found.bases, "efficiency": cost.basis}
        changes = {"means": means, "bases": bases, "source": source, "counts": (not lines and counts) or found.counts}
        lines.append(msgspec.structs.replace(found, **changes, holds=text.get("holds", "") or found.holds))
    return lines


def _parameter(name: str, value: float) -> str:
    return units.format(value, "s") if name in kernels.SECONDS else f"{value:.3g}"
