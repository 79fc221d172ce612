"""PRICE: how long counted work takes on a system. Knows no models: it sees operators, a system, a layout and a profile.

A `Pricer` turns one operator into a `Cost`; `step_time` combines costs as the profile says. `Roofline` is the pricer that
needs nothing but a datasheet: peak rates times efficiencies. Whatever the pricer, no operator may be faster than its peak
roofline (`Rates` at 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from rooflab import num
from rooflab.collectives import exchange_time
from rooflab.profiles import Profile
from rooflab.system import System
from rooflab.work import Layout, Op

Number = Any
TIED = 4.0 / 3.0
"""Power at which errors of different kinds of kernels add up: 1 if they err together, 2 if each by itself."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of peak rates and fixed costs at one point of the band."""

    compute: Number
    memory: Number
    link: Number
    launch_time: Number
    pass_time: Number
    tiles: bool


def rates_of(profile: Profile, device_launch: Number | None = None) -> dict[str, Rates]:
    """Rates of the mid estimate and of both ends of the band.

    The fast end is the peak roofline: efficiencies of 1, no launch cost, no padding.
    """
    launch = profile.launch_time if device_launch is None or not profile.launch_time else device_launch
    fast, slow = profile.best, profile.worst
    return {
        "mid": Rates(
            compute=profile.compute_efficiency,
            memory=profile.memory_efficiency,
            link=profile.link_efficiency,
            launch_time=launch,
            pass_time=profile.pass_time,
            tiles=profile.tiles,
        ),
        "low": Rates(
            compute=num.maximum(fast[0], profile.compute_efficiency),
            memory=num.maximum(fast[1], profile.memory_efficiency),
            link=num.maximum(fast[2], profile.link_efficiency),
            launch_time=num.minimum(profile.launch_band[0], launch),
            pass_time=0.0 * profile.pass_time,
            tiles=False,
        ),
        "high": Rates(
            compute=num.minimum(slow[0], profile.compute_efficiency),
            memory=num.minimum(slow[1], profile.memory_efficiency),
            link=num.minimum(slow[2], profile.link_efficiency),
            launch_time=num.maximum(profile.launch_band[1], launch),
            pass_time=2.0 * profile.pass_time,
            tiles=profile.tiles,
        ),
    }


class Cost(msgspec.Struct, frozen=True):
    """Seconds of one execution of one operator, by cause."""

    compute: Number
    memory: Number
    comm: Number
    overhead: Number
    basis: str = "roofline"
    low: Number = 1.0
    """Multiple of the time at the fast end of the band; a pricer evaluated at both ends of its rates leaves it at 1."""
    high: Number = 1.0
    floor: Number = 0.0
    """Seconds of the peak roofline, which the fast end does not pass."""

    def ends(self, time: Number) -> tuple[Number, Number]:
        """Seconds at the fast and slow end of the band where the middle is `time`."""
        return num.minimum(num.maximum(time * self.low, self.floor), time), time * self.high


class Pricer(Protocol):
    """Anything that prices one operator; may be slower than the roofline, never faster."""

    def cost(self, op: Op) -> Cost:
        """Seconds of one execution by cause, with the basis of the figure."""
        ...


def compute_time(flop: Number, rate: Number, efficiency: Number) -> Number:
    """Seconds of arithmetic at a share of the peak rate.

    Counts: FLOP with tile padding where the profile pads.
    Source: requirements A-012, A-014.
    Holds: always.
    """
    return flop / (rate * efficiency)


def memory_time(moved: Number, bandwidth: Number, efficiency: Number) -> Number:
    """Seconds of memory traffic at a share of the peak bandwidth.

    Counts: weights, activations and cache entries once each.
    Source: requirements A-012, A-014.
    Holds: always.
    """
    return moved / (bandwidth * efficiency)


def shared_out(group_time: Number, alone: Number, together: Number) -> Number:
    """Seconds of one operator's share of a time that several take together, by what each would take alone.

    Counts: all its executions.
    Source: requirement E-26.
    Holds: profiles that combine a stage or a whole step.
    """
    return group_time * alone / together


def padded_rows(m: Number, tile: Number) -> Number:
    """Rows of a matrix product after rounding up to the tile; fewer rows than a tile round up to 16.

    Counts: idle rows.
    Source: requirement A-013.
    Holds: tensor-core devices.
    """
    return num.round_up(m, num.where(m < tile, num.minimum(tile, 16.0), tile))


def padded_flop(rows: Number, n: Number, k: Number, groups: Number) -> Number:
    """FLOP of a matrix product whose rows, columns and depth are already rounded up to the tile.

    Counts: work of idle lanes.
    Source: requirement A-013.
    Holds: tensor-core devices.
    """
    return 2.0 * groups * n * k * rows


class Roofline:
    """Prices an operator as max(compute, memory) + launch, or as a collective over the system's links."""

    def __init__(self, system: System, layout: Layout, profile: Profile, rates: Rates | None = None):
        self.system, self.layout, self.profile = system, layout, profile
        self.rates = rates if rates is not None else rates_of(profile, system.device.launch_time)["mid"]
        self._peaks: dict[str, Number] = {}
        self._rows: dict[int, tuple[Number, Number]] = {}

    def peak(self, dtype: str) -> Number:
        """FLOP/s of the units that run this format on the device."""
        if dtype not in self._peaks:
            device = self.system.device
            if not self.profile.rate_by_dtype or (dtype == "vector" and not self._has_vector()):
                self._peaks[dtype] = device.rate("bf16")
            else:
                self._peaks[dtype] = device.vector_rate if dtype == "vector" else device.rate(dtype)
        return self._peaks[dtype]

    def _padded(self, op: Op) -> Number:
        """Tile-padded FLOP; operators of a step share their rows, so rounded rows are kept while they are the same object."""
        tile_m, tile_n, tile_k = self.system.device.tile
        kept = self._rows.get(id(op.m))
        if kept is None or kept[0] is not op.m:
            kept = self._rows[id(op.m)] = (op.m, padded_rows(op.m, float(tile_m)))
        return padded_flop(kept[1], num.round_up(op.n, float(tile_n)), num.round_up(op.k, float(tile_k)), op.groups)

    def _has_vector(self) -> bool:
        return self.profile.vector_units and self.system.device.vector_rate is not None

    def cost(self, op: Op) -> Cost:
        """Seconds of one execution: arithmetic, memory traffic, exchange, launch."""
        rates = self.rates
        if op.collective:
            time = exchange_time(
                op,
                self.system,
                self.layout,
                algorithm=self.profile.collective,
                efficiency=rates.link,
                latency=self.profile.link_latency,
            )
            launch = num.where(op.peers > 1, rates.launch_time, 0.0)
            return Cost(0.0, 0.0, time, launch)
        flop = op.flop
        if rates.tiles and op.kind in ("gemm", "grouped_gemm") and self.system.device.tile[0] > 1 and _shaped(op):
            flop = self._padded(op)
        compute = compute_time(flop, self.peak(op.dtype), rates.compute)
        memory = memory_time(op.bytes(), self.system.device.memory_bandwidth, rates.memory)
        return Cost(compute, memory, 0.0, rates.launch_time)


def _shaped(op: Op) -> bool:
    """Whether a product says its dimensions; the sums of a whole pass have none and are not padded."""
    return not (isinstance(op.k, int) and op.k == 0)


class Priced(msgspec.Struct, frozen=True, kw_only=True):
    """One operator with the seconds all its executions take in the step."""

    op: Op | None
    name: str
    compute: Number
    memory: Number
    comm: Number
    overhead: Number
    time: Number
    bound: str
    basis: str
    low: Number = 0.0
    """Seconds at the fast end of the pricer's own band; equal to `time` where it has none."""
    high: Number = 0.0


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one step and, with detail, of its causes (they overlap, so they need not add up to the time)."""

    time: Number
    compute: Number | None = None
    memory: Number | None = None
    comm: Number | None = None
    overhead: Number | None = None
    priced: tuple[Priced, ...] = ()
    low: Number | None = None
    """Seconds at the fast end where the pricer brings its own band: every operator at its fast end."""
    high: Number | None = None

    def share(self, of: str) -> dict[str, float]:
        """Share of the time by `part`, `bound` or `basis`, largest first; scalars only."""
        shares: dict[str, float] = {}
        for item in self.priced:
            part = item.op.part if item.op is not None else "overhead"
            key = part if of == "part" else getattr(item, of)
            shares[key] = shares.get(key, 0.0) + item.time
        ordered = sorted(shares.items(), key=lambda pair: -pair[1])
        return {key: value / self.time if self.time else 0.0 for key, value in ordered}


def group_of(op: Op, index: int, group: str) -> Any:
    """What an operator's time is combined with, under a profile that groups so."""
    if group == "op":
        return index
    if group == "stage":
        return op.stage or index
    if group == "two_stage":
        return "attention" if op.part == "attention" else "linear"
    return "step"


class _Total:
    """Running sums of one group."""

    __slots__ = ("comm", "compute", "hides", "memory", "overhead", "stage")

    def __init__(self) -> None:
        self.compute: Number = 0.0
        self.memory: Number = 0.0
        self.comm: Number = 0.0
        self.overhead: Number = 0.0
        self.stage = ""
        self.hides: tuple[str, ...] = ()

    def add(self, cost: Cost, count: Number) -> None:
        self.compute = self.compute + cost.compute * count
        self.memory = self.memory + cost.memory * count
        self.comm = self.comm + cost.comm * count
        self.overhead = self.overhead + cost.overhead * count

    def local(self, combine: str) -> Number:
        if combine == "sum":
            return self.compute + self.memory
        return num.maximum(self.compute, self.memory)


def step_time(
    operators: Sequence[Op], pricer: Pricer, profile: Profile, *, pass_time: Number = 0.0, detail: bool = False
) -> StepTime:
    """Seconds of a step: operators are priced, grouped as the profile says, combined, and communication overlapped.

    With `detail` (scalars only) the result lists every operator with its share of its group's time and what binds it.
    """
    if profile.group == "op" and not (detail or profile.overlap):
        return _plain(operators, pricer, profile, pass_time)
    costs = [pricer.cost(op) for op in operators]
    groups: dict[Any, _Total] = {}
    members: dict[Any, list[int]] = {}
    for index, (op, cost) in enumerate(zip(operators, costs, strict=True)):
        key = group_of(op, index, profile.group)
        total = groups.setdefault(key, _Total())
        total.add(_counted(op, cost), op.count)
        total.stage, total.hides = op.stage, total.hides or op.hides_under
        members.setdefault(key, []).append(index)
    visible = {key: total.local(profile.combine) + total.comm + total.overhead for key, total in groups.items()}
    if profile.overlap:
        _hide(groups, visible)
    time: Number = pass_time
    for value in visible.values():
        time = time + value
    sums = [_added(groups, name) for name in ("compute", "memory", "comm", "overhead")]
    priced = _detail(operators, costs, groups, visible, members, pass_time) if detail else ()
    low, high = _ends(operators, costs, profile, pass_time)
    return StepTime(
        time=time,
        compute=sums[0],
        memory=sums[1],
        comm=sums[2],
        overhead=sums[3] + pass_time,
        priced=priced,
        low=low,
        high=high,
    )


def _plain(operators: Sequence[Op], pricer: Pricer, profile: Profile, pass_time: Number) -> StepTime:
    """The common case without grouping, overlap or detail: only the total is kept."""
    time: Number = pass_time
    costs: list[Cost] = []
    alone: list[Number] = []
    for op in operators:
        cost = _counted(op, pricer.cost(op))
        one = _alone(cost, profile)
        time = time + op.count * one
        if not num.is_array(one):  # a step of arrays keeps no operator, so that its temporaries stay in cache
            costs.append(cost)
            alone.append(one)
    if num.is_array(time):
        return StepTime(time=time)
    low, high = _banded(operators, costs, alone, pass_time)
    return StepTime(time=time, low=low, high=high)


def _plus(a: Number, b: Number) -> Number:
    """a + b without a pass over an array for a zero."""
    if isinstance(b, float) and not b:
        return a
    return b if isinstance(a, float) and not a else a + b


def _alone(cost: Cost, profile: Profile) -> Number:
    """Seconds of one execution of an operator by itself."""
    local = cost.compute + cost.memory if profile.combine == "sum" else num.maximum(cost.compute, cost.memory)
    return _plus(_plus(local, cost.comm), cost.overhead)


def _ends(
    operators: Sequence[Op], costs: list[Cost], profile: Profile, pass_time: Number
) -> tuple[Number | None, Number | None]:
    """Both ends of a step where the pricer brings a band and operators are priced one by one."""
    if profile.group != "op":
        return None, None
    counted = [_counted(op, cost) for op, cost in zip(operators, costs, strict=True)]
    return _banded(operators, counted, [_alone(cost, profile) for cost in counted], pass_time)


def _banded(
    operators: Sequence[Op], costs: list[Cost], alone: list[Number], pass_time: Number
) -> tuple[Number | None, Number | None]:
    """Both ends of a step: kernels of one kind err together, those of different kinds in part. None without a band."""
    if all(cost.high == cost.low for cost in costs):
        return None, None
    middle: Number = pass_time
    kinds: dict[str, tuple[Number, Number]] = {}
    for op, cost, time in zip(operators, costs, alone, strict=True):
        fast, slow = cost.ends(time)
        less, more = kinds.get(op.kind, (0.0, 0.0))
        kinds[op.kind] = (less + op.count * (time - fast), more + op.count * max(slow - time, 0.0))
        middle = middle + op.count * time
    less, more = (_together(errors) for errors in zip(*kinds.values(), strict=True))
    return middle - less, middle + more


def _together(errors: Iterable[Number]) -> Number:
    """How far off several kinds are: less than all at once, more than if nothing tied them to each other."""
    return math.fsum(one**TIED for one in errors) ** (1.0 / TIED)


def _counted(op: Op, cost: Cost) -> Cost:
    """A cost without launch where the operator only holds weights and does nothing."""
    idle = not op.collective and isinstance(op.flop, float) and not op.flop and not op.why
    if not idle:
        return cost
    return Cost(cost.compute, cost.memory, cost.comm, 0.0, cost.basis, cost.low, cost.high, cost.floor)


def _added(groups: dict[Any, _Total], name: str) -> Number:
    total: Number = 0.0
    for group in groups.values():
        total = total + getattr(group, name)
    return total


def _hide(groups: dict[Any, _Total], visible: dict[Any, Number]) -> None:
    """Communication that may overlap shows only what exceeds the stages it hides under (requirement D-070)."""
    for key, total in groups.items():
        if not total.hides:
            continue
        cover: Number = 0.0
        for other, group in groups.items():
            if group.stage in total.hides:
                cover = cover + visible[other]
        visible[key] = num.maximum(total.comm - cover, 0.0) + total.local("max") + total.overhead


def _bound(op: Op, cost: Cost) -> str:
    """What binds an operator: compute, weight, kv, activation, comm, overhead or trivial (requirements E-24, D-074)."""
    if op.collective:
        return "comm" if cost.comm > 0 else "trivial"
    largest = max(cost.compute, cost.memory)
    if largest <= 0:
        return "trivial"
    if cost.overhead > largest:
        return "overhead"
    if cost.compute >= cost.memory:
        return "compute"
    kinds = {"weight": op.weight_bytes, "kv": op.kv_bytes, "activation": op.activation_bytes}
    return max(kinds, key=lambda kind: kinds[kind])


BOUNDS = ("compute", "memory", "network", "latency")
"""What a step can wait for (requirement E-24)."""


def binding(operators: Sequence[Op], pricer: Pricer, profile: Profile) -> Number:
    """Position in BOUNDS of what most of a step's time waits for, each operator's whole time given to what binds it."""
    waits: list[Number] = [0.0, 0.0, 0.0, 0.0]
    for op in operators:
        cost = _counted(op, pricer.cost(op))
        one = op.count * _alone(cost, profile)
        if op.collective:
            waits[2] = waits[2] + one
            continue
        local = num.maximum(cost.compute, cost.memory)
        late = (cost.overhead > local) * 1.0
        counted = (cost.compute >= cost.memory) * (1.0 - late)
        waits[0] = waits[0] + one * counted
        waits[1] = waits[1] + one * (1.0 - late - counted)
        waits[3] = waits[3] + one * late
    best, most = 0.0 * waits[0], waits[0]
    for at in (1, 2, 3):
        best, most = num.where(waits[at] > most, float(at), best), num.maximum(waits[at], most)
    return best


def _detail(
    operators: Sequence[Op],
    costs: list[Cost],
    groups: dict[Any, _Total],
    visible: dict[Any, Number],
    members: dict[Any, list[int]],
    pass_time: Number,
) -> tuple[Priced, ...]:
    """Every operator with its share of its group's visible time, by what it would take alone."""
    result: list[Priced | None] = [None] * len(operators)
    for key, indices in members.items():
        alone = [max(costs[i].compute, costs[i].memory) + costs[i].comm + costs[i].overhead for i in indices]
        whole = math.fsum(a * operators[i].count for a, i in zip(alone, indices, strict=True))
        for a, i in zip(alone, indices, strict=True):
            op, cost = operators[i], _counted(operators[i], costs[i])
            share = a * op.count / whole if whole else 0.0
            time = visible[key] * share
            fast, slow = cost.ends(time / op.count) if op.count else (0.0, 0.0)
            result[i] = Priced(
                op=op,
                name=op.name,
                compute=cost.compute * op.count,
                memory=cost.memory * op.count,
                comm=cost.comm * op.count,
                overhead=cost.overhead * op.count,
                time=time,
                bound=_bound(op, cost),
                basis=cost.basis,
                low=fast * op.count,
                high=slow * op.count,
            )
    if pass_time:
        extra = Priced(
            op=None,
            name="pass_overhead",
            compute=0.0,
            memory=0.0,
            comm=0.0,
            overhead=pass_time,
            time=pass_time,
            bound="overhead",
            basis="assumed",
        )
        result.append(extra)
    return tuple(item for item in result if item is not None)
