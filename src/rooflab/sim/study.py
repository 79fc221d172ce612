"""Questions that take many runs: load curves with intervals, the highest load within limits, policies side by side, capacity."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rooflab.sim.cluster import Loop, Transfer, Watch, simulate
from rooflab.sim.measure import Measures, Spread, measure
from rooflab.sim.run import Run
from rooflab.sim.schedule import Limits, Policy
from rooflab.sim.split import Stage, simulate_split
from rooflab.sim.surface import StepSurface
from rooflab.sim.traffic import Traffic
from rooflab.sweep import pools
from rooflab.units import InputError, format

Make = Callable[[float, int], Traffic]
"""(load, seed) to a traffic."""
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
      2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip
"""Student's t at 95 % for 1 to 30 degrees of freedom."""
FIGURES = ("ttft", "ttft_from_admission", "tpot", "itl", "e2e", "queue_time")
MOST_REPLICAS = 1024  # count
SEARCHED = 12
"""Runs that a search takes, roughly."""
LARGEST = 65536.0
"""Users that a search goes up to."""
AT = ("mean", "p50", "p90", "p95", "p99")


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """An engine to send traffic to, and what its devices cost."""

    surface: StepSurface
    limits: Limits
    policy: str | Policy = "chunked"
    replicas: int = 1
    routing: str = "round_robin"
    split: tuple[int, int] | None = None
    """Prefill and decode replicas; then `replicas` and `policy` do not count."""
    transfer: Transfer | None = None
    devices_per_replica: int = 1
    price: float | None = None
    power: float | None = None
    loop: Loop = "auto"

    def devices(self) -> int:
        """Devices of all replicas."""
        count = self.replicas if self.split is None else self.split[0] + self.split[1]
        return count * self.devices_per_replica

    def play(self, traffic: Traffic, watch: Watch | None = None) -> Run:
        """One run."""
        if self.split is not None:
            if self.transfer is None:
                raise InputError("disaggregate: give the link that carries the cache between the phases")
            stages = [Stage(self.surface, self.limits, count) for count in self.split]
            return simulate_split(traffic, stages[0], stages[1], self.transfer, watch=watch)
        named = isinstance(self.policy, str)
        return simulate(
            traffic,
            self.surface,
            self.limits,
            policy_name=self.policy if named else "chunked",  # type: ignore[arg-type]
            rule=None if named else self.policy,  # type: ignore[arg-type]
            replicas=self.replicas,
            routing=self.routing,
            watch=watch,
            loop=self.loop,
        )

    def measured(self, run: Run, **more: Any) -> Measures:
        """A run's figures with this setup's cost and energy."""
        return measure(run, devices=self.devices(), price=self.price, power=self.power, **more)


class Stopped(Exception):
    """The study was told to stop."""


class Runs:
    """Plays the runs of a study, says how far it is, and remembers that it was told to stop."""

    def __init__(self, told: Watch | None = None):
        self._told = told
        """Told (requests finished in all runs, requests expected in all); True stops."""
        self.played = 0
        self.expected = 1
        """Runs that the study takes, roughly."""
        self.stopped = False

    def _watch(self, done: int, count: int) -> bool:
        runs = max(self.expected, self.played + 1)
        if self._told is not None and self._told(self.played * count + done, runs * count):
            self.stopped = True
        return self.stopped

    def partly(self, setup: Setup, traffic: Traffic) -> Run:
        """One run, or what there is of it."""
        run = setup.play(traffic, None if self._told is None else self._watch)
        self.played += 1
        return run

    def play(self, setup: Setup, traffic: Traffic) -> Run:
        """One run.

        Raises Stopped where it did not come to its end.
        """
        if self.stopped or self._watch(0, len(traffic)):
            raise Stopped
        run = self.partly(setup, traffic)
        if not run.complete:
            raise Stopped
        return run


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One load: figures as the mean over replications, with half the 95 % interval; None where a run was overloaded."""

    load: float
    replications: int
    overload: bool
    """In at least half of the replications."""
    figures: dict[str, float | None]
    interval: dict[str, float | None]


_RATES = ("request_rate", "output_throughput", "total_throughput", "goodput", "attainment", "running", "slot_occupancy",
          "kv_occupancy", "cost_per_million_tokens", "energy_per_million_tokens")  # fmt: skip


def figures_of(measures: Measures) -> dict[str, float | None]:
    """Times by name and statistic (ttft_p95) and rates, flat."""
    found: dict[str, float | None] = {}
    for name in FIGURES:
        spread: Spread | None = getattr(measures, name)
        for at in AT:
            found[f"{name}_{at}"] = None if spread is None else getattr(spread, at)
    found.update({name: getattr(measures, name) for name in _RATES})
    return found


def averaged(load: float, all_measures: Sequence[Measures]) -> Point:
    """Means over replications with Student's intervals."""
    tables = [figures_of(measures) for measures in all_measures]
    count = len(tables)
    means: dict[str, float | None] = {}
    widths: dict[str, float | None] = {}
    for name in tables[0]:
        values = [value for table in tables if (value := table[name]) is not None]
        whole = len(values) == count
        mean = means[name] = math.fsum(values) / count if whole else None
        if mean is None or count < 2:
            widths[name] = None
            continue
        variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
        widths[name] = _T[min(count - 1, len(_T)) - 1] * math.sqrt(variance / count)
    grows = 2 * sum(measures.overload for measures in all_measures) >= count  # int
    return Point(load=load, replications=count, overload=grows, figures=means, interval=widths)


def load_sweep(
    setup: Setup,
    make: Make,
    loads: Sequence[float],
    *,
    replications: int = 3,
    seed: int = 0,
    spread: Mapping[str, Any] | None = None,
    watch: Watch | None = None,
    **more: Any,
) -> list[Point]:
    """Load curve (requirement A-051): every load with `replications` seeds.

    `spread`: workers, cluster or executor, as `sweep.pools.results` takes them; the curve is the same in any order. `watch` is
    told (runs played, runs in all); when it returns True the curve ends before the first load that was not played.
    """
    tasks = [(load, seed + number) for load in loads for number in range(replications)]
    played: dict[int, Measures] = {}

    def stop(*_: int) -> bool:
        return watch is not None and watch(len(played), len(tasks))

    inside = None if spread or watch is None else stop
    for found in pools.results(_Task(setup, make, more, inside), tasks, cancel=stop, **(spread or {})):
        if found is not None and found[1] is not None:
            played[found[0]] = found[1]
    curve = []
    for place, load in enumerate(loads):
        ours = [played.get(place * replications + number) for number in range(replications)]
        whole = [measures for measures in ours if measures is not None]
        if len(whole) < replications:
            break
        curve.append(averaged(load, whole))
    return curve


class _Task:
    """One run of a sweep, in a form that can be sent to another process."""

    def __init__(self, setup: Setup, make: Make, more: dict[str, Any], watch: Watch | None):
        self.setup, self.make, self.more, self.watch = setup, make, more, watch

    def __call__(self, task: tuple[float, int]) -> Measures | None:
        load, seed = task
        run = self.setup.play(self.make(load, seed), self.watch or _nobody_waits)
        return self.setup.measured(run, **self.more) if run.complete else None


def _nobody_waits(*_: int) -> bool:
    return pools.stopped()


def side_by_side(
    setup: Setup, traffic: Traffic, policies: Sequence[str], runs: Runs | None = None, **more: Any
) -> dict[str, Measures]:
    """The same traffic under several policies (requirements B-070, B-074); fewer of them when it was stopped."""
    runs = runs or Runs()
    found: dict[str, Measures] = {}
    with contextlib.suppress(Stopped):
        for name in policies:
            changed = msgspec.structs.replace(setup, policy=name)
            found[name] = changed.measured(runs.play(changed, traffic), **more)
    return found


# ---------------------------------------------------------------------------------------------- limits on time


def holds(measures: Measures, slo: Mapping[str, float], at: str = "p95") -> bool:
    """Whether the statistic of every limited time stays within its limit; never under overload or with requests refused."""
    if measures.overload or measures.refused or measures.unfinished:
        return False
    for name, limit in slo.items():
        spread: Spread | None = getattr(measures, name)
        if spread is not None and getattr(spread, at) > limit:
            return False
    return True


def alone(traffic: Traffic) -> Traffic:
    """The same requests, each with the engine to itself."""
    count = len(traffic)
    arrival: list[float | None] = [0.0, *[None] * (count - 1)]
    follows: list[int | None] = [None, *range(count - 1)]
    return msgspec.structs.replace(
        traffic, arrival=arrival, follows=follows, users=None, think=[0.0] * count, session=None, hashes=None
    )


def possible(setup: Setup, traffic: Traffic, slo: Mapping[str, float], at: str, runs: Runs | None = None) -> None:
    """Raises InputError when a request alone on the engine already misses a limit, with the least it takes."""
    single = msgspec.structs.replace(setup, replicas=1)
    measures = single.measured((runs or Runs()).play(single, alone(traffic)))
    for name, limit in slo.items():
        spread: Spread | None = getattr(measures, name)
        if spread is not None and getattr(spread, at) > limit:
            least = format(getattr(spread, at), "s")
            raise InputError(
                f"slo.{name}: {format(limit, 's')} cannot be met: with the engine to itself, {at} is {least}; allow more, or "
                "use a faster system or layout"
            )


class Highest(msgspec.Struct, frozen=True, kw_only=True):
    """The highest load found within the limits, the lowest found beyond them, and every load tried."""

    load: float
    beyond: float | None
    measures: Measures
    tried: list[tuple[float, bool]]
    stopped: bool = False
    """Whether a higher load may hold, since the search did not come to its end."""


def saturation(setup: Setup, traffic: Traffic, runs: Runs | None = None) -> float:
    """Requests per second when all of them wait from the start."""
    count = len(traffic)
    together = msgspec.structs.replace(traffic, arrival=[0.0] * count, follows=None, users=None, think=None)
    span = (runs or Runs()).play(setup, together).makespan()
    return count / span if span else 0.0


def highest_load(
    setup: Setup,
    make: Make,
    slo: Mapping[str, float],
    *,
    at: str = "p95",
    tolerance: float = 0.02,
    seed: int = 0,
    whole: bool = False,
    most: float | None = None,
    runs: Runs | None = None,
    **more: Any,
) -> Highest:
    """The highest load within the limits (requirement A-051), by bisection with the same random numbers at every load.

    `whole`: loads are numbers of users; else rates. Without limits on times, what holds is a queue that does not grow.
    Raises Stopped when it was told to stop before any load held; later, the answer is the highest that held so far.
    """
    runs = runs or Runs()
    runs.expected += SEARCHED
    possible(setup, make(1.0, seed), slo, at, runs)
    tried: list[tuple[float, bool]] = []
    beyond: float | None = None
    stopped = False

    def attempt(load: float) -> tuple[bool, Measures]:
        measures = setup.measured(runs.play(setup, make(load, seed)), slo=slo, **more)
        good = holds(measures, slo, at)
        tried.append((load, good))
        return good, measures

    high = most or (1.0 if whole else 1.3 * saturation(setup, make(1.0, seed), runs))
    low = 1.0 if whole else high / 512.0
    good, best = attempt(low)
    if not good:
        raise InputError(
            f"slo: does not hold even at {low:.3g} {'users' if whole else 'requests/s'}, the lowest load tried"
        )
    try:
        while beyond is None:
            high = min(high * 2.0, most or LARGEST) if whole else high
            good, measures = attempt(high)
            if not good:
                beyond = high
            elif not whole or high >= (most or LARGEST):
                return Highest(load=high, beyond=None, measures=measures, tried=tried)
            else:
                low, best = high, measures
        while (middle := _between(low, beyond, whole, tolerance)) is not None:
            good, measures = attempt(middle)
            if good:
                low, best = middle, measures
            else:
                beyond = middle
    except Stopped:
        stopped = True
    return Highest(load=low, beyond=beyond, measures=best, tried=tried, stopped=stopped)


def _between(low: float, high: float, whole: bool, tolerance: float) -> float | None:
    """The load to try next; None where the two are near enough."""
    if high - low <= (1.0 if whole else tolerance * high):
        return None
    if whole:
        return math.floor((low + high) / 2.0)
    return math.sqrt(low * high) if high > 2.0 * low else (low + high) / 2.0


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The fewest replicas that hold the limits, or the best division of a number of them."""

    replicas: int
    split: tuple[int, int] | None
    holds: bool
    measures: Measures
    tried: list[tuple[str, bool]]
    stopped: bool = False
    """Whether fewer replicas, or another division, may be better, since the search did not come to its end."""


def fewest_replicas(
    setup: Setup,
    traffic: Traffic,
    slo: Mapping[str, float],
    *,
    at: str = "p95",
    most: int = MOST_REPLICAS,
    runs: Runs | None = None,
    **more: Any,
) -> Capacity:
    """The fewest replicas whose percentiles stay within the limits under this traffic.

    Raises InputError when no number of replicas can help, or when `most` are not enough; Stopped when it was told to stop
    before any number held. Later, the answer is the fewest so far.
    """
    runs = runs or Runs()
    runs.expected += SEARCHED
    possible(setup, traffic, slo, at, runs)
    tried: list[tuple[str, bool]] = []

    def attempt(count: int) -> tuple[bool, Measures]:
        changed = msgspec.structs.replace(setup, replicas=count, split=None)
        measures = changed.measured(runs.play(changed, traffic), slo=slo, **more)
        good = holds(measures, slo, at)
        tried.append((str(count), good))
        return good, measures

    low, high = 0, 1
    good, best = attempt(high)
    while not good:
        if high >= most:
            raise InputError(f"slo: {high:,} replicas are not enough; allow more time or slow the traffic")
        low, high = high, min(most, high * 2)
        good, best = attempt(high)
    stopped = False
    try:
        while high - low > 1:
            middle = (low + high) // 2
            good, measures = attempt(middle)
            if good:
                high, best = middle, measures
            else:
                low = middle
    except Stopped:
        stopped = True
    return Capacity(replicas=high, split=None, holds=True, measures=best, tried=tried, stopped=stopped)


def best_split(
    setup: Setup,
    traffic: Traffic,
    slo: Mapping[str, float],
    replicas: int,
    *,
    at: str = "p95",
    runs: Runs | None = None,
    **more: Any,
) -> Capacity:
    """The division of replicas into prefill and decode under which most requests meet every limit.

    Tries every division; of equals the one with the lowest mean time from arrival to end. Raises Stopped when it was told to
    stop before the first was played; later, the answer is the best so far.
    """
    if replicas < 2:
        raise InputError(f"replicas: {replicas} cannot be divided; give at least 2")
    runs = runs or Runs()
    runs.expected += replicas - 1
    best: tuple[tuple[float, float], Capacity] | None = None
    tried: list[tuple[str, bool]] = []
    for before in range(1, replicas):
        split = (before, replicas - before)
        changed = msgspec.structs.replace(setup, split=split)
        try:
            measures = changed.measured(runs.play(changed, traffic), slo=slo, **more)
        except Stopped:
            if best is None:
                raise
            return msgspec.structs.replace(best[1], stopped=True)
        good = holds(measures, slo, at)
        tried.append((f"{split[0]}:{split[1]}", good))
        key = (-(measures.attainment or 0.0), math.inf if measures.e2e is None else measures.e2e.mean)
        if best is None or key < best[0]:
            best = (key, Capacity(replicas=replicas, split=split, holds=good, measures=measures, tried=tried))
    assert best is not None
    return best[1]
