"""Hardware and layout chosen together: for each machine the fastest layout that fits, then latency against cost.

Requirements D-160–D-170. Six knobs are multiplied (memory, its bandwidth, the FLOP rate and the bandwidth of the links, from
the innermost level out), and every machine is tried with every layout of the grid.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ParamSpec

import msgspec

from rooflab import graph, num
from rooflab.model import Model
from rooflab.placement import placement_valid
from rooflab.sweep.frame import Frame
from rooflab.sweep.grid import Grid, numpy_or_none
from rooflab.sweep.layouts import AXES, Study, cache_of, operators_of, part_of, parts_of, study, time_axes, workspace_of
from rooflab.sweep.smallest import auto_suggest
from rooflab.system import System
from rooflab.units import InputError, nearest, shown
from rooflab.work import Op, Precision

Number = Any
LAYOUT_AXES: dict[str, tuple[Any, ...]] = {
    name: AXES[name] for name in ("cp", "tp", "pp", "kv_shard", "ffn_scope", "cp_placement")
}
"""Requirement D-162: 1,728 layouts; dp is 1, tp fills the innermost units, the ring is fixed."""
DEPTHS = {"two_stage": (1.0,), "balanced": (1.0, 2.0), "coarse": (0.5, 1.0, 2.0)}
"""Multiples of every knob: 1, 64 and 729 machines."""
Sizes = tuple[list[float], list[float]]
"""Bytes on the busiest device, and whether the layout is allowed, of every layout."""
_BASE_KNOBS = ("memory", "memory_bandwidth", "flop_rate")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The best layout of one machine."""

    latency: float
    """Seconds of a step; infinite where nothing fits."""
    layout: dict[str, Any]
    """Empty where nothing fits."""


class Codesign(msgspec.Struct, frozen=True, kw_only=True):
    """Machines with their best layouts, the frontier of latency and cost, and what doubling each knob buys."""

    machines: Frame
    pareto: list[int]
    baseline: int | None
    """The fastest machine, cheapest of those."""
    doublings: list[dict[str, Any]]
    """Per knob: baseline and doubled value, latency, speed-up; largest first."""


_known: dict[str, Any] = {}
"""Searches made last, so that other weights of the cost need no new one."""
_MOST_KNOWN = 16


def _remember(key: str, found: Any) -> None:
    while len(_known) >= _MOST_KNOWN:
        del _known[next(iter(_known))]
    _known[key] = found


def _digest(asked: Study, *more: Any) -> str:
    """A key of everything a search depends on but the weights."""
    return hashlib.sha256(msgspec.json.encode((asked, *more), order="deterministic", enc_hook=str)).hexdigest()


def knobs_of(system: System) -> tuple[str, ...]:
    """The fields that are multiplied: the device's three and each link level's bandwidth."""
    return (*_BASE_KNOBS, *[f"links.{level}.bandwidth" for level in range(len(system.links))])


def cost_of(multiples: Mapping[str, float], weights: Mapping[str, float] | None = None) -> float:
    """Cost score of a machine: the sum over the knobs of weight × multiple of the default (requirement D-163).

    With weights of 1 a machine at its defaults costs as many as it has knobs; the score is unitless and no price.
    """
    named = weights or {}
    return math.fsum(named.get(name, 1.0) * value for name, value in multiples.items())


def machine(system: System, multiples: Mapping[str, Any]) -> System:
    """The system with its knobs multiplied; a multiple may be an array."""
    device = system.device
    links = list(system.links)
    changes: dict[str, Any] = {}
    for name, factor in multiples.items():
        if name == "flop_rate":
            changes["flop_rate"] = {dtype: rate * factor for dtype, rate in device.flop_rate.items()}
            if device.vector_rate is not None:
                changes["vector_rate"] = device.vector_rate * factor
        elif name in _BASE_KNOBS:
            changes[name] = getattr(device, name) * factor
        else:
            level = int(name.split(".")[1])
            links[level] = msgspec.structs.replace(links[level], bandwidth=links[level].bandwidth * factor)
    device = msgspec.structs.replace(device, **changes)
    return msgspec.structs.replace(system, device=device, links=tuple(links))


def codesign_steps(
    model: Model,
    *,
    system: System,
    context: int,
    batch: int = 1,
    mode: str = "decode",
    scope: str = "full",
    depth: str = "balanced",
    weights: Mapping[str, float] | None = None,
    multiples: Sequence[float] | None = None,
    refit: bool = True,
    precision: Precision | None = None,
    outside: bool = False,
    vectorise: bool = True,
    stopped: Callable[[], bool] = bool,
) -> Generator[tuple[int, int], None, Codesign | None]:
    """Explore machines and layouts together, a few machines at a time.

    depth: two_stage (this machine with the suggested layout), balanced (each knob as it is or doubled: 64 machines) or
    coarse (halved, as it is, doubled: 729); `multiples` replaces these. `weights` are of the cost per knob. `refit` chooses
    the layout anew after doubling a knob, so that more memory can matter; without it the layout is kept.
    Yields how many of how many machines are done (with NumPy all at once) and asks whether it is `stopped`: then it returns None.
    """
    if depth not in DEPTHS:
        raise InputError(f"depth: {shown(depth)} is not one of {', '.join(DEPTHS)}{nearest(str(depth), DEPTHS)}")
    asked = study(
        model, system=system, context=context, batch=batch, mode=mode, scope=scope, precision=precision, outside=outside
    )
    knobs = knobs_of(system)
    for name, weight in (weights or {}).items():
        if name not in knobs:
            raise InputError(f"weights: {shown(name)} is not a knob{nearest(name, knobs)}; use {', '.join(knobs)}")
        if not (isinstance(weight, (int, float)) and math.isfinite(weight) and weight >= 0):
            raise InputError(f"weights.{name}: {shown(weight)} must be a number of at least 0")
    values = tuple(float(x) for x in multiples or DEPTHS[depth])
    if not all(math.isfinite(x) and x > 0 for x in values):
        raise InputError("multiples: every multiple must be a finite number above 0")
    layouts = _suggested(asked) if depth == "two_stage" and multiples is None else LAYOUT_AXES
    key = _digest(asked, values, layouts, vectorise)
    sizes: Sizes | None = None
    if key not in _known:
        sizes = _listed_sizes(asked, Grid(dict(layouts), vectorise=vectorise))
        found = yield from _choices(asked, dict.fromkeys(knobs, values), layouts, sizes, vectorise, stopped)
        if found is None:
            return None
        _remember(key, found)
    choices = _known[key]
    machines = _machines(asked, knobs, values, choices, weights)
    pareto = machines.pareto({"cost": "min", "latency": "min"})
    baseline = machines.best("latency", "cost")
    doublings: list[dict[str, Any]] = []
    if baseline is not None:
        second = f"{key} {baseline} {refit}"
        if second not in _known:
            own = (sizes or _listed_sizes(asked, Grid(dict(layouts), vectorise=vectorise))) if refit else None
            _remember(second, _doublings(asked, machines.row(baseline), layouts, own, vectorise))
        doublings = _known[second]
    return Codesign(machines=machines, pareto=pareto, baseline=baseline, doublings=doublings)


Asked = ParamSpec("Asked")


def _to_the_end(
    steps: Callable[Asked, Generator[tuple[int, int], None, Codesign | None]],
) -> Callable[Asked, Codesign]:
    """The same question, answered in one go."""

    @functools.wraps(steps)
    def whole(*given: Asked.args, **named: Asked.kwargs) -> Codesign:
        going = steps(*given, **named)
        while True:
            try:
                next(going)
            except StopIteration as end:
                return end.value

    return whole


codesign = _to_the_end(codesign_steps)


def _choices(
    asked: Study,
    knobs: Mapping[str, tuple[float, ...]],
    layouts: Mapping[str, tuple[Any, ...]],
    sizes: Sizes,
    vectorise: bool,
    stopped: Callable[[], bool],
) -> Generator[tuple[int, int], None, list[Choice] | None]:
    """The best layout of every machine: in one go with NumPy, else one set of rates after another."""
    whole = math.prod(len(values) for values in knobs.values())
    if vectorise and numpy_or_none() is not None:
        found = best_layouts(asked, knobs, layouts, sizes=sizes)
        yield whole, whole
        return found
    rated = {name: values for name, values in knobs.items() if name != "memory"}
    columns: list[list[Choice]] = []
    counted: dict[Any, list[Op]] = {}
    for combo in itertools.product(*rated.values()):
        one = {name: (value,) for name, value in zip(rated, combo, strict=True)}
        some = {"memory": knobs["memory"], **one}
        columns.append(best_layouts(asked, some, layouts, vectorise=False, sizes=sizes, counted=counted))
        yield len(columns) * len(knobs["memory"]), whole
        if stopped():
            return None
    return [column[i] for i in range(len(knobs["memory"])) for column in columns]


def _suggested(asked: Study) -> dict[str, tuple[Any, ...]]:
    """The suggested layout as the only one of the grid."""
    found = auto_suggest(
        asked.model, asked.system, int(asked.context), asked.mode, int(asked.batch), asked.scope != "ffn",
        asked.scope != "attention", outside=asked.profile.outside, precision=asked.precision,
    )  # fmt: skip
    return {
        "cp": (found.cp,), "tp": (found.tp,), "pp": (found.pp,), "kv_shard": ("split",), "ffn_scope": ("tp_cp",),
        "cp_placement": (found.cp_placement,),
    }  # fmt: skip


def best_layouts(
    asked: Study,
    knobs: Mapping[str, tuple[float, ...]],
    layouts: Mapping[str, tuple[Any, ...]],
    *,
    vectorise: bool = True,
    sizes: Sizes | None = None,
    counted: dict[Any, list[Op]] | None = None,
) -> list[Choice]:
    """The fastest layout that fits on every machine; machines in row-major order of the knobs.

    Times do not depend on the memory's size, and sizes not on any rate, so each is evaluated without the other.
    """
    ignored = () if asked.profile.outside else ("pp",)  # sends between stages, counted outside the layers, need pp
    order = [name for name in layouts if name not in ignored]
    timed = [name for name in knobs if name != "memory"]
    axes = {_axis(name): knobs[name] for name in timed} | {name: layouts[name] for name in order}
    grid = Grid(axes, vectorise=vectorise)
    latency: Any = None
    counted = {} if counted is None else counted
    for part in parts_of(asked):
        keys = [name for name in (*time_axes(asked, part), *map(_axis, timed)) if name in axes]
        found = grid.table(keys, functools.partial(_timed, asked, part, timed, counted))[0]
        column = grid.column(found)
        latency = column if latency is None else _sum(latency, column)
    space = Grid(dict(layouts), vectorise=vectorise)
    used, allowed = sizes or _listed_sizes(asked, space)
    return _picked(asked, knobs, grid, latency, space, used, allowed, ignored)


def _listed_sizes(asked: Study, space: Grid) -> Sizes:
    """`_sizes` as lists; they are the same on every machine."""
    used, allowed = (c.tolist() if num.is_array(c) else c for c in _sizes(asked, space))
    return used, allowed


def _axis(name: str) -> str:
    return name.replace(".", "_")


def _timed(asked: Study, part: str, timed: Sequence[str], counted: dict[Any, list[Op]], **degrees: Any) -> Number:
    """Seconds of a part on the machines of a call; what a layout executes is the same on all of them."""
    factors = {name: degrees.pop(_axis(name)) for name in timed if _axis(name) in degrees}
    layout = asked.layout(**degrees)
    if any(num.is_array(value) for value in degrees.values()):
        operators = operators_of(asked, part, layout)
    else:
        key = (part, tuple(degrees.items()))
        operators = counted.get(key) or counted.setdefault(key, operators_of(asked, part, layout))
    return asked.time(operators, layout, machine(asked.system, factors))


def _sum(a: Any, b: Any) -> Any:
    return a + b if num.is_array(a) else [x + y for x, y in zip(a, b, strict=True)]


def _sizes(asked: Study, space: Grid) -> tuple[Any, Any]:
    """(bytes on the busiest device, whether the layout is allowed) of every layout, whatever the machine's rates."""

    def used(**degrees: Any) -> Number:
        layout = asked.layout(**degrees)
        share = graph.stage_share(asked.model, layout)
        total: Number = workspace_of(asked, **degrees)
        for part in parts_of(asked):
            keys = {name: value for name, value in degrees.items() if name in (*time_axes(asked, part), "pp")}
            _, layers, ends = part_of(asked, part, asked.system, **keys)
            total = total + layers * share + ends
        return total if asked.scope == "ffn" else total + cache_of(asked, **degrees) * share

    def allowed(cp: Number, tp: Number, pp: Number, cp_placement: str) -> Number:
        layout = asked.layout(cp=cp, tp=tp, pp=pp, cp_placement=cp_placement)
        fine = placement_valid(asked.system, layout) * 1.0 * (layout.devices() <= asked.system.devices)
        for block in asked.model.blocks:
            if block.mixer is not None and block.mixer.heads:
                fine = fine * (block.mixer.heads % tp == 0)
        return fine * (pp <= asked.model.layers)

    return (
        space.column(space.table(list(space.axes), used)[0]),
        space.column(space.table(("cp", "tp", "pp", "cp_placement"), allowed)[0]),
    )


def _picked(
    asked: Study,
    knobs: Mapping[str, tuple[float, ...]],
    grid: Grid,
    latency: Any,
    space: Grid,
    used: Any,
    allowed: Any,
    ignored: tuple[str, ...],
) -> list[Choice]:
    """For every machine the least latency among the layouts that fit its memory; ties go to the first layout."""
    memories = [asked.system.device.memory * factor for factor in knobs["memory"]]
    listed = _listed(space)
    rows = [{name: values[i] for name, values in listed.items()} for i in range(space.size)]
    per = math.prod(len(v) for name, v in space.axes.items() if name not in ignored)
    steps = [_without(space, ignored, i) for i in range(space.size)]
    best: list[list[tuple[float, int] | None]] = []
    for memory in memories:
        fitting = [i for i in range(space.size) if allowed[i] > 0 and used[i] <= memory]
        first: dict[int, int] = {}
        for i in fitting:
            if steps[i] not in first or _devices(rows[i]) < _devices(rows[first[steps[i]]]):
                first[steps[i]] = i
        best.append(_least(grid, latency, per, first))
    rates = [name for name in knobs if name != "memory"]
    order = {combo: i for i, combo in enumerate(itertools.product(*[range(len(knobs[name])) for name in rates]))}
    found: list[Choice] = []
    for combo in itertools.product(*[range(len(values)) for values in knobs.values()]):
        at = dict(zip(knobs, combo, strict=True))
        picked = best[at["memory"]][order[tuple(at[name] for name in rates)]]
        found.append(
            Choice(latency=math.inf, layout={}) if picked is None else Choice(latency=picked[0], layout=rows[picked[1]])
        )
    return found


def _devices(row: Mapping[str, Any]) -> int:
    return row["cp"] * row["tp"] * row["pp"]


def _listed(space: Grid) -> dict[str, list[Any]]:
    columns = {name: space.values(name) for name in space.axes}
    return {name: column.tolist() if num.is_array(column) else column for name, column in columns.items()}


def _without(space: Grid, ignored: tuple[str, ...], row: int) -> int:
    """Position of a layout in the grid without the axes that a step's time does not depend on."""
    position = 0
    stride = space.size
    for name, values in space.axes.items():
        stride //= len(values)
        index = row // stride % len(values)
        if name not in ignored:
            position = position * len(values) + index
    return position


def _least(grid: Grid, latency: Any, per: int, first: Mapping[int, int]) -> list[tuple[float, int] | None]:
    """(least latency, layout) of every set of rates among the layouts given by their position in the timed grid."""
    machines = grid.size // per
    if not first:
        return [None] * machines
    places = sorted(first)
    if grid.numpy is None:
        found: list[tuple[float, int] | None] = []
        for m in range(machines):
            place = min(places, key=lambda i, m=m: (latency[m * per + i], i))
            found.append((latency[m * per + place], first[place]))
        return found
    table = latency.reshape(machines, per)[:, places]
    at = table.argmin(axis=1)
    return [(float(table[m, i]), first[places[i]]) for m, i in enumerate(at.tolist())]


def _machines(
    asked: Study,
    knobs: tuple[str, ...],
    values: tuple[float, ...],
    choices: list[Choice],
    weights: Mapping[str, float] | None,
) -> Frame:
    """A frame with one row per machine."""
    rows = [dict(zip(knobs, combo, strict=True)) for combo in itertools.product(values, repeat=len(knobs))]
    fits = [math.isfinite(choice.latency) for choice in choices]
    base = _figures(asked.system)
    columns: dict[str, Any] = {name: [base[name] * row[name] for row in rows] for name in knobs}
    columns |= {f"{name} ×": [row[name] for row in rows] for name in knobs}
    columns["cost"] = [cost_of(row, weights) for row in rows]
    columns["latency"] = [choice.latency if fine else math.nan for choice, fine in zip(choices, fits, strict=True)]
    columns["devices"] = [
        float(_devices(choice.layout)) if fine else math.nan for choice, fine in zip(choices, fits, strict=True)
    ]
    blank = {"cp": 0, "tp": 0, "pp": 0, "kv_shard": "", "ffn_scope": "", "cp_placement": ""}
    for name in LAYOUT_AXES:
        columns[name] = [{**blank, **choice.layout}[name] for choice in choices]
    columns["dp"] = [1 if fine else 0 for fine in fits]
    reason = ["" if fine else "no layout fits this machine" for fine in fits]
    units = {"latency": "s", "memory": "byte", "memory_bandwidth": "byte/s", "flop_rate": "FLOP/s", "cost": "1"}
    units |= {name: "byte/s" for name in knobs if name.startswith("links.")}
    totals = {"enumerated": float(len(rows)), "feasible": float(sum(fits))}  # int
    return Frame(columns=columns, units=units, feasible=fits, reason=reason, totals=totals)


def _figures(system: System) -> dict[str, float]:
    """The knobs' own figures."""
    device = system.device
    found = {"memory": device.memory, "memory_bandwidth": device.memory_bandwidth, "flop_rate": device.rate("bf16")}
    return found | {f"links.{i}.bandwidth": link.bandwidth for i, link in enumerate(system.links)}


def _doublings(
    asked: Study,
    row: Mapping[str, Any],
    layouts: Mapping[str, tuple[Any, ...]],
    sizes: Sizes | None,
    vectorise: bool,
) -> list[dict[str, Any]]:
    """What doubling each knob of a machine buys: relative speed-up, largest first (requirement D-164).

    With the sizes of all layouts one is chosen anew, without them the layout is kept.
    """
    knobs = knobs_of(asked.system)
    base = {name: row[f"{name} ×"] for name in knobs}
    kept = layouts if sizes else {name: (row[name],) for name in LAYOUT_AXES}
    found = []
    counted: dict[Any, list[Op]] = {}
    for name in knobs:
        doubled = {**base, name: 2.0 * base[name]}
        choice = best_layouts(
            asked, {k: (v,) for k, v in doubled.items()}, kept, vectorise=vectorise, sizes=sizes, counted=counted
        )[0]
        found.append(
            {
                "knob": name,
                "baseline_value": row[name],
                "doubled_value": 2.0 * row[name],
                "latency": choice.latency,
                "speedup": row["latency"] / choice.latency - 1.0,
                "layout": choice.layout,
            }
        )
    return sorted(found, key=lambda item: -item["speedup"])
