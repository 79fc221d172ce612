"""The sharded sweep: every layout of a model over a hierarchy of devices, one step each (requirements D-140–D-152).

The 27,648 layouts are a product of nine axes. A step's time and a device's memory are sums of quantities that each see only
some of the axes, so each is counted and priced once per value it sees, by the same functions as a single layout.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from rooflab import fits, graph, num, placement
from rooflab.model import Attention, Model
from rooflab.price import Roofline, rates_of, step_time
from rooflab.profiles import Profile, profile
from rooflab.sweep.frame import Frame
from rooflab.sweep.grid import Grid
from rooflab.system import System
from rooflab.units import InputError, nearest, shown
from rooflab.work import Layout, Op, Precision, Step

Number = Any
AXES: dict[str, tuple[Any, ...]] = {
    "cp": (1, 2, 4, 8, 16, 32),
    "tp": (1, 2, 4, 8, 16, 32),
    "pp": (1, 2, 4, 8),
    "dp": (1, 2, 4, 8),
    "kv_shard": ("split", "replicate"),
    "ffn_scope": ("tp", "tp_cp", "tp_cp_dp"),
    "tp_placement": ("inner", "outer"),
    "cp_placement": ("inner", "outer"),
    "ring": ("kv", "qoml"),
}
"""The grid of requirement D-141: 27,648 layouts."""
LARGEST = 2**20  # count
"""The largest degree of an axis."""
LEAST = sys.float_info.min
"""A time that keeps quotients finite where a scope has nothing to do."""
SCOPES = ("full", "attention", "ffn")
OBJECTIVES = {"latency": "min", "devices": "min", "efficiency": "max"}
"""Requirement D-142."""
UNITS = {
    "latency": "s", "throughput": "token/s", "weights": "byte", "kv": "byte", "workspace": "byte", "used": "byte",
    "free": "byte", "memory_share": "1", "efficiency": "1", "devices": "1", "units": "1", "groups": "1",
    **dict.fromkeys(("kv_shard", "ffn_scope", "tp_placement", "cp_placement", "ring"), "text"),
}  # fmt: skip
_PLACES = ("cp", "tp", "tp_placement", "cp_placement")


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """What one sharded sweep is about: everything but the axes."""

    model: Model
    system: System
    context: Number
    batch: Number = 1
    mode: str = "decode"
    scope: str = "full"
    precision: Precision = Precision()
    profile: Profile
    ep: int = 1

    @property
    def step(self) -> Step:
        if self.mode == "decode":
            return Step(decode_sequences=self.batch, decode_context=self.context)
        return Step(prefill_sequences=self.batch, prefill_tokens=self.context)

    def layout(self, **degrees: Any) -> Layout:
        """A layout with the study's expert ranks, which multiply the devices (requirement D-006)."""
        return Layout(**degrees, ep=self.ep, ep_mode="dedicated")

    def operators(self, layout: Layout, scope: str) -> list[Op]:
        used = self.profile
        return graph.operators(
            self.model, self.precision, layout, self.step, counting=used.counting, causal=used.causal,
            outside=used.outside, scope=scope,
        )  # fmt: skip

    def time(self, operators: Sequence[Op], layout: Layout, system: System) -> Number:
        """Seconds of these operators on a system."""
        rates = rates_of(self.profile)["mid"]
        return step_time(operators, Roofline(system, layout, self.profile, rates), self.profile).time


def study(
    model: Model,
    *,
    system: System,
    context: int,
    batch: int = 1,
    mode: str = "decode",
    scope: str = "full",
    precision: Precision | None = None,
    outside: bool = False,
    ep: int = 1,
    reserve: Number = 0.0,
    used: Profile | None = None,
) -> Study:
    """A checked study.

    `outside` adds embedding, head, norms' weights and sends between pipeline stages, which the reference leaves out
    (requirement D-911); `reserve`, a share or bytes, is memory that no layout may use. The scope is full, attention
    (attention weights and cache) or ffn (feed-forward weights).
    """
    if not isinstance(model, Model):
        raise InputError(f"model: {shown(model)} is not a Model; read one with rooflab.hf.load")
    if not isinstance(system, System):
        raise InputError(f"system: {shown(system)} is not a System; take one with rooflab.catalog.system")
    if mode not in ("decode", "prefill"):
        raise InputError(f"mode: {shown(mode)} is not decode or prefill")
    if scope not in SCOPES:
        raise InputError(f"scope: {shown(scope)} is not one of {', '.join(SCOPES)}{nearest(str(scope), SCOPES)}")
    for name, value in (("context", context), ("batch", batch), ("ep", ep)):
        if not num.is_array(value) and not value >= 1:
            raise InputError(f"{name}: {shown(value)} must be at least 1")
    if ep > 1 and not any(getattr(block.ffn, "experts", 0) for block in model.blocks):
        raise InputError(f"ep: {model.name} has no experts to spread over {ep} ranks; use ep=1")
    chosen = used or msgspec.structs.replace(profile("sharded"), outside=outside, reserve=reserve)
    return Study(
        model=model,
        system=system,
        context=context,
        batch=batch,
        mode=mode,
        scope=scope,
        precision=precision or Precision(),
        profile=chosen,
        ep=ep,
    )


def sharded(
    model: Model,
    *,
    system: System,
    context: int,
    batch: int = 1,
    mode: str = "decode",
    scope: str = "full",
    axes: Mapping[str, Sequence[Any]] | None = None,
    precision: Precision | None = None,
    outside: bool = False,
    ep: int = 1,
    vectorise: bool = True,
) -> Frame:
    """Every layout of the grid with its latency, devices, efficiency and memory; infeasible ones kept with the reason.

    Rows are in the order of the axes, the last fastest. `same_as` is the position of the first row that cannot differ
    from this one (requirement D-903). `axes` replaces values of single axes. `vectorise=False` runs without NumPy.
    """
    asked = study(
        model, system=system, context=context, batch=batch, mode=mode, scope=scope, precision=precision,
        outside=outside, ep=ep,
    )  # fmt: skip
    return sweep_layouts(asked, axes or {}, vectorise=vectorise)


def sweep_layouts(asked: Study, axes: Mapping[str, Sequence[Any]], *, vectorise: bool = True) -> Frame:
    """The frame of a study over the grid, with some axes replaced."""
    for name, values in axes.items():
        if name not in AXES:
            raise InputError(f"axes: {shown(name)} is not an axis{nearest(name, AXES)}; use {', '.join(AXES)}")
        if not values:
            raise InputError(f"axes.{name}: give at least one value")
        for value in values:
            _check_axis(name, value)
    grid = Grid({name: axes.get(name, values) for name, values in AXES.items()}, vectorise=vectorise)
    columns = _columns(asked, grid)
    return _frame(asked, grid, columns)


def _check_axis(name: str, value: Any) -> None:
    """A value an axis can take: one of its names, or a degree."""
    known = AXES[name]
    if isinstance(known[0], str):
        if value not in known:
            raise InputError(f"axes.{name}: {shown(value)} is not one of {', '.join(known)}")
    elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InputError(f"axes.{name}: {shown(value)} must be a whole number of at least 1")


def time_axes(asked: Study, part: str) -> tuple[str, ...]:
    """Axes a part's time and weights depend on."""
    if part == "attention":
        return (*_PLACES, "kv_shard", "ring") if asked.mode == "prefill" else (*_PLACES, "kv_shard")
    return (*_PLACES, "dp", "ffn_scope") if part == "ffn" else (*_PLACES, "pp")


def operators_of(asked: Study, part: str, layout: Layout) -> list[Op]:
    """The operators of attention, ffn or what is outside them."""
    if part != "outside":
        return asked.operators(layout, part)
    inner = {op.name for half in ("attention", "ffn") for op in asked.operators(layout, half)}
    return [op for op in asked.operators(layout, "full") if op.name not in inner]


def part_of(asked: Study, part: str, system: System, **degrees: Any) -> tuple[Number, Number, Number]:
    """(seconds, bytes of layer weights, bytes of weights at the ends) of attention, ffn or what is outside them."""
    layout = asked.layout(**degrees)
    operators = operators_of(asked, part, layout)
    layers: Number = 0.0
    ends: dict[str, Number] = {"embedding": 0.0, "head": 0.0}
    for op in operators:
        held = op.resident_bytes * op.count
        if op.part in ends:
            ends[op.part] = ends[op.part] + held
        else:
            layers = layers + held
    both, apart = ends["embedding"] + ends["head"], num.maximum(ends["embedding"], ends["head"])
    outer = both if graph.is_one(layout.pp) else num.where(layout.pp > 1, apart, both)
    return asked.time(operators, layout, system), layers, outer


def parts_of(asked: Study) -> tuple[str, ...]:
    """The parts whose times add up to a step of the study's scope."""
    if asked.scope != "full":
        return (asked.scope,)
    return ("attention", "ffn", "outside") if asked.profile.outside else ("attention", "ffn")


def cache_of(asked: Study, **degrees: Any) -> Number:
    """Cache and state bytes on the busiest device before the cut by pp."""
    layout = asked.layout(**degrees)
    kv = graph.kv_bytes_per_device(asked.model, asked.precision, layout, asked.context, asked.batch)
    return kv + graph.state_bytes_per_device(asked.model, asked.precision, layout, asked.batch)


def workspace_of(asked: Study, **degrees: Any) -> Number:
    """Transient bytes on the busiest device."""
    layout = asked.layout(**degrees)
    return fits.workspace_bytes(
        asked.model, asked.precision, layout, asked.profile, asked.batch, asked.context, asked.mode
    )


def _places_of(asked: Study, **degrees: Any) -> tuple[Number, Number, Number, Number]:
    """(devices, units, groups, whether the inner ranks fit one unit)."""
    layout = asked.layout(**degrees)
    system = asked.system
    return (
        layout.devices() * 1.0,
        placement.units_used(system, layout),
        placement.groups_used(system, layout),
        placement.placement_valid(system, layout) * 1.0,
    )


def useful_flop(asked: Study) -> float:
    """FLOP of one unsharded step of the scope: matrix products and attention (requirement D-143)."""
    kinds = ("gemm", "grouped_gemm", "attention", "latent_attention", "recurrence")
    whole = Layout()
    halves = ("attention", "ffn") if asked.scope == "full" else (asked.scope,)
    operators = [op for half in halves for op in asked.operators(whole, half) if op.kind in kinds]
    return math.fsum(float(op.flop * op.count) for op in operators)


def _columns(asked: Study, grid: Grid) -> dict[str, Any]:
    """All quantities as columns over the grid."""
    time: Any = None
    weights: Any = None
    ends: Any = None
    for part in parts_of(asked):
        tables = grid.table(time_axes(asked, part), partial(part_of, asked, part, asked.system), 3)
        more = [grid.column(table) for table in tables]
        time, weights, ends = (_added(a, b) for a, b in zip((time, weights, ends), more, strict=True))
    share = grid.column(grid.table(["pp"], lambda pp: graph.stage_share(asked.model, Layout(pp=pp)))[0])
    work_axes = ("cp", "tp", "dp", "kv_shard", "ffn_scope")
    workspace = grid.column(grid.table(work_axes, partial(workspace_of, asked))[0])
    places = grid.table((*_PLACES, "pp", "dp"), partial(_places_of, asked), 4)
    devices, units, groups, valid = (grid.column(table) for table in places)
    if asked.scope == "ffn":
        kv = _scaled(time, 0.0)
    else:
        kv = _times(grid.column(grid.table(("cp", "tp", "kv_shard"), partial(cache_of, asked))[0]), share)
    return {
        "latency": time,
        "devices": devices,
        "units": units,
        "groups": groups,
        "placement_valid": valid,
        "weights": _added(_times(weights, share), ends),
        "kv": kv,
        "workspace": workspace,
    }


def _added(a: Any, b: Any) -> Any:
    if a is None:
        return b
    return a + b if num.is_array(b) else [x + y for x, y in zip(a, b, strict=True)]


def _times(a: Any, b: Any) -> Any:
    return a * b if num.is_array(a) else [x * y for x, y in zip(a, b, strict=True)]


def _scaled(a: Any, factor: float) -> Any:
    return a * factor if num.is_array(a) else [x * factor for x in a]


def _mapped(function: Callable[..., Any], *columns: Any) -> Any:
    """A row-wise function: one array call, or once per row."""
    return function(*columns) if num.is_array(columns[0]) else [function(*row) for row in zip(*columns, strict=True)]


def refusals(asked: Study, grid: Grid) -> list[tuple[Any, str]]:
    """(where a rule holds, what to say where it does not); heads and layers must divide, widths may round."""
    model = asked.model
    heads = sorted({m.heads for m in (block.mixer for block in model.blocks) if m is not None and m.heads})
    tp, pp = grid.values("tp"), grid.values("pp")
    found = [(_mapped(lambda x, h=h: h % x == 0, tp), f"tp does not divide the {h} heads") for h in heads]
    found.append((_mapped(lambda x: x <= model.layers, pp), f"pp exceeds the {model.layers} layers"))
    return found


def _frame(asked: Study, grid: Grid, columns: dict[str, Any]) -> Frame:
    """Feasibility, reasons, duplicates and derived columns."""
    memory, peak = asked.system.device.memory, asked.system.device.rate("bf16")
    used = _added(_added(columns["weights"], columns["kv"]), columns["workspace"])
    valid = _mapped(lambda x: x > 0, columns.pop("placement_valid"))
    room = memory - fits.reserve_bytes(asked.profile, memory)
    holds = _mapped(lambda x: x <= room, used)
    inner = placement.unit_size(asked.system)
    rules = refusals(asked, grid)
    rules.append(
        (_mapped(lambda x: x <= asked.system.devices, columns["devices"]), "needs more devices than there are")
    )
    rules.append((valid, f"tp and cp inside one unit need more than its {inner:g} devices"))
    over = "the reserve leaves" if asked.profile.reserve else "the device has"
    rules.append((holds, f"needs more memory than {over}"))
    feasible, reason = _judged(grid, rules)
    flop = useful_flop(asked)
    dp = grid.values("dp")
    tokens = asked.batch * (1.0 if asked.mode == "decode" else asked.context)
    table = {
        **{name: grid.values(name) for name in grid.axes},
        "ep": _mapped(lambda x: x * 0 + asked.ep, dp),
        **columns,
        "efficiency": _mapped(
            lambda t, n, d: flop * d / (n * peak * num.maximum(t, LEAST)), columns["latency"], columns["devices"], dp
        ),
        "throughput": _mapped(lambda t, d: tokens * d / num.maximum(t, LEAST), columns["latency"], dp),
        "used": used,
        "memory_share": _mapped(lambda x: x / memory, used),
        "free": _mapped(lambda x: num.maximum(room - x, 0.0), used),
        "fits_memory": holds,
        "placement_valid": valid,
        "same_as": _same_as(asked, grid),
    }
    count = int(feasible.sum()) if num.is_array(feasible) else feasible.count(True)
    distinct = _distinct(table["same_as"])
    totals = {"enumerated": float(grid.size), "feasible": float(count), "distinct": float(distinct)}
    return Frame(columns=table, units=UNITS, feasible=feasible, reason=reason, totals=totals, notes=_notes(asked))


def _notes(asked: Study) -> tuple[str, ...]:
    if asked.profile.outside or asked.scope != "full":
        return ()
    return ("layers only: embedding, output head and sends between pipeline stages are left out unless outside is set",)


def _judged(grid: Grid, rules: list[tuple[Any, str]]) -> tuple[Any, Any]:
    """(where all rules hold, the first reason that fails) for every row."""
    if grid.numpy is None:
        reasons = [next((text for holds, text in rules if not holds[i]), "") for i in range(grid.size)]
        return [not text for text in reasons], reasons
    numpy = grid.numpy
    code = numpy.zeros(grid.size, dtype=numpy.int8)
    for at, (holds, _text) in reversed(list(enumerate(rules))):
        if not holds.all():
            code[~holds] = at + 1
    return code == 0, numpy.array(["", *[text for _, text in rules]], dtype=object)[code]


def _distinct(same_as: Any) -> int:
    if not num.is_array(same_as):
        return sum(at == i for i, at in enumerate(same_as))  # int
    import numpy

    return int((same_as == numpy.arange(len(same_as))).sum())


def _same_as(asked: Study, grid: Grid) -> Any:
    """Position of the first row that cannot differ from each row (requirement D-903).

    The ring matters in prefill with cp, the cache's cut where tp exceeds the KV heads, a placement where its axis has ranks,
    a wider feed-forward scope where it adds ranks.
    """
    strides, step = {}, 1
    for name in reversed(grid.axes):
        strides[name] = step
        step *= len(grid.axes[name])
    kv = [block.mixer.kv_heads for block in asked.model.blocks if isinstance(block.mixer, Attention)]
    fewest = min(kv, default=LARGEST)
    scopes = grid.axes["ffn_scope"]

    tp_out = _mapped(lambda place: place == "outer", grid.values("tp_placement"))
    cp_in = _mapped(lambda place: place == "inner", grid.values("cp_placement"))

    def first(
        cp: Any,
        tp: Any,
        dp: Any,
        apart: Any,
        inside: Any,
        at: Any,
        ring: Any,
        shard: Any,
        scope: Any,
        tp_at: Any,
        cp_at: Any,
    ) -> Any:
        ringless = (cp == 1) | (asked.mode == "decode")
        at = at - strides["ring"] * num.where(ringless, ring, 0)
        at = at - strides["kv_shard"] * num.where(tp <= fewest, shard, 0)
        at = at - strides["tp_placement"] * num.where(tp == 1, tp_at, 0)
        odd = apart & (tp > 1)  # the group of a wider scope is placed by cp alone, so cp's place still matters
        narrow = scope
        for index in range(len(scopes) - 1, 0, -1):
            wider = (cp > 1) | (odd & inside)
            adds = wider if scopes[index] == "tp_cp" else (dp > 1) | ((scopes[index - 1] == "tp") & wider)
            narrow = num.where((narrow == index) & (adds == 0), index - 1, narrow)
        at = at - strides["cp_placement"] * num.where((cp == 1) & ((odd & (narrow > 0)) == 0), cp_at, 0)
        return at - strides["ffn_scope"] * (scope - narrow)

    rows = grid.numpy.arange(grid.size) if grid.numpy is not None else list(range(grid.size))
    names = ("ring", "kv_shard", "ffn_scope", "tp_placement", "cp_placement")
    degrees = [grid.values(name) for name in ("cp", "tp", "dp")]
    return _mapped(first, *degrees, tp_out, cp_in, rows, *[grid.indices(name) for name in names])


def pareto(frame: Frame) -> list[int]:
    """Positions on the frontier of latency, devices and efficiency; one row of those that tie (requirements D-142, D-151)."""
    return frame.pareto(OBJECTIVES)


def fastest(frame: Frame) -> int | None:
    """The feasible row of least latency, then fewest devices, then least memory (requirement D-145)."""
    return frame.best("latency", "devices", "memory_share")


def smallest_fit(frame: Frame) -> int | None:
    """The feasible row of fewest devices, then least memory, then latency (requirement D-100)."""
    return frame.best("devices", "memory_share", "latency")


def top_by_memory(frame: Frame, count: int = 10) -> list[int]:
    """Feasible rows of least memory share, then devices, then latency, one of those that cannot differ (requirement D-148)."""
    columns = [frame.column(name) for name in ("memory_share", "devices", "latency")]
    same = frame.column("same_as")
    rows = [i for i in frame.positions() if same[i] == i]
    return sorted(rows, key=lambda i: (*[float(column[i]) for column in columns], i))[:count]


def sensitivities(
    asked: Study, row: Mapping[str, Any], *, batches: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)
) -> dict[str, Frame]:
    """One knob at a time around a row: cp, tp, pp, dp and batch, everything else as it is (requirement D-149)."""
    fixed = {name: (row[name],) for name in AXES}
    found = {}
    for name in ("cp", "tp", "pp", "dp"):
        values = sorted({*AXES[name], row[name]})
        found[name] = sweep_layouts(asked, {**fixed, name: tuple(values)})
    per_batch = [sweep_layouts(msgspec.structs.replace(asked, batch=batch), fixed) for batch in batches]
    joined = per_batch[0]
    columns = {
        name: [value for frame in per_batch for value in _plain_list(frame.column(name))] for name in joined.columns
    }
    columns["batch"] = list(batches)
    feasible = [bool(flag) for frame in per_batch for flag in frame.feasible]
    reason = [str(text) for frame in per_batch for text in frame.reason]
    found["batch"] = msgspec.structs.replace(joined, columns=columns, feasible=feasible, reason=reason)
    return found


def _plain_list(column: Any) -> list[Any]:
    return column.tolist() if num.is_array(column) else list(column)
