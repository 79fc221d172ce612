"""Serving questions: from an ask to traffic and engine, one run or a study of many, and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rooflab.api import played
from rooflab.api.answers import _money_notes, header
from rooflab.api.resolve import Setting, setting_of
from rooflab.api.serving import Source, bounded, check, for_a_page, setup_of
from rooflab.api.simulate_asks import (
    BoardAsk,
    BoardReport,
    BoardRun,
    FoundReport,
    MeasuresReport,
    PointReport,
    SimulateAsk,
    SimulateReport,
    SpreadReport,
)
from rooflab.estimate import MILLION
from rooflab.sim import study
from rooflab.sim.board import board
from rooflab.sim.cluster import Watch
from rooflab.sim.measure import Measures, Spread, limits_of
from rooflab.sim.run import Run
from rooflab.sim.schedule import POLICIES
from rooflab.units import InputError, parse, shown

LIST_MOST = 100
SHARE = 0.7
"""Share of the saturated rate when no load is given."""
PROTOCOL = (
    "ttft runs from arrival to the end of the iteration that makes the first token; ttft_from_admission from the iteration in "
    "which the request first took a slot; queue_time lies between arrival and that iteration",
    "tpot is (last − first token) / (tokens − 1) of one request; itl is the gap between two tokens, over all gaps",
    "percentiles are over all served requests after the warm-up, straight between neighbours; intervals are 95 %, from 20 "
    "batches of consecutive arrivals",
    "throughput is tokens over the makespan, first arrival to last completion; goodput counts requests that meet every limit",
    "decisions are taken as vLLM's V1 engine takes them: at the boundaries of iterations, within slots, token budget and "
    "blocks; when a paged cache runs out the latest request is preempted (under priority, the one of the largest number) and "
    "computed again, or fetched from the host where swap gives it room",
    "network and detokenisation are left out; iterations take the estimate's own prices and the host work, and requests the way "
    "to the scheduler, that the notes name",
)


# ---------------------------------------------------------------------------------------------- reports


def spread_report(found: Spread | None) -> SpreadReport | None:
    return None if found is None else SpreadReport(**msgspec.structs.asdict(found))


def measures_report(found: Measures) -> MeasuresReport:
    """Figures as plain data."""
    values: dict[str, Any] = {}
    for name in MeasuresReport.__struct_fields__:
        if name == "energy_per_token":
            energy = found.energy_per_million_tokens
            values[name] = None if energy is None else energy / MILLION
            continue
        value = getattr(found, name)
        values[name] = spread_report(value) if isinstance(value, Spread) else value
    return MeasuresReport(**values)


def _point(found: study.Point) -> PointReport:
    return PointReport(**msgspec.structs.asdict(found))


def _loads(ask: SimulateAsk) -> list[float]:
    """The loads of a curve, from a list or from text."""
    given = (
        ask.loads if isinstance(ask.loads, list) else [item for item in str(ask.loads or "").split(",") if item.strip()]
    )
    if ask.loads and not given:
        raise InputError(f"loads: {shown(ask.loads)} names no rate; write for example '2,4,8'")
    found = [float(parse(value, "1", "loads", positive=True)) for value in given]
    if len(found) > LIST_MOST:
        raise InputError(f"loads: {len(found)} are more than {LIST_MOST} at once")
    return sorted(set(found))


def _policies(ask: SimulateAsk) -> list[str]:
    given = ask.policies
    if given is None:
        return []
    names = list(given) if isinstance(given, list) else [name.strip() for name in given.split(",") if name.strip()]
    if given and not names:
        raise InputError(f"policies: {shown(given)} names none; use all, or some of {', '.join(POLICIES)}")
    names = list(POLICIES) if names == ["all"] else names
    for name in names:
        if name not in POLICIES:
            raise InputError(f"policies: {shown(name)} is not one of {', '.join(POLICIES)}")
    return list(dict.fromkeys(names))


def _load(
    ask: SimulateAsk, setup: study.Setup, source: Source, loads: list[float], runs: study.Runs
) -> tuple[float, list[str]]:
    """The load of the plain run, and what was chosen for want of one; a curve alone has its own."""
    if source.fixed is not None:
        return 1.0, []
    if source.whole:
        return float(ask.concurrency or 1), []
    if ask.rate is not None:
        return ask.rate, []
    if loads and not ask.policies and ask.find in (None, "load"):
        return loads[0], []
    full = study.saturation(setup, source.together(), runs)
    share = SHARE if ask.load is None else ask.load
    chosen = "" if ask.load is not None else ", chosen because none was given"
    return share * full, [f"load: {share:.0%} of the {full:.3g} requests/s that a full queue is served at{chosen}"]


def _found(
    ask: SimulateAsk, setup: study.Setup, source: Source, load: float, slo: dict[str, float], runs: study.Runs
) -> FoundReport | None:
    """What was looked for, or the best so far where the search was stopped; raises Stopped where there is none."""
    more: dict[str, Any] = {"warmup": ask.warmup, "at": ask.at, "runs": runs}
    if ask.find == "load":
        best = study.highest_load(setup, source, slo, seed=ask.seed, whole=source.whole, **more)
        unit = "users" if source.whole else "times the trace's speed" if source.fixed is not None else "requests/s"
        return FoundReport(
            what="load",
            value=f"{'at least ' * best.stopped}{best.load:.4g} {unit}",
            load=best.load,
            replicas=None,
            split=None,
            holds=True,
            measures=measures_report(best.measures),
            tried=[(f"{tried:.4g}", held) for tried, held in best.tried],
        )
    if ask.find is None:
        return None
    traffic = source(load, ask.seed)
    if ask.find == "replicas":
        most = study.fewest_replicas(setup, traffic, slo, **more)
        value = f"{'at most ' * most.stopped}{most.replicas} replicas"
    else:
        count = sum(setup.split) if setup.split is not None else ask.replicas  # int
        most = study.best_split(setup, traffic, slo, count, **more)
        value = f"{most.split[0]}:{most.split[1]}{' so far' * most.stopped}" if most.split else ""
    return FoundReport(
        what=ask.find,
        value=value,
        load=None,
        replicas=most.replicas,
        split=most.split,
        holds=most.holds,
        measures=measures_report(most.measures),
        tried=most.tried,
    )


def _looked_for(
    ask: SimulateAsk, setup: study.Setup, source: Source, load: float, slo: dict[str, float], runs: study.Runs
) -> tuple[FoundReport | None, list[str]]:
    """The same, and that it is not the whole of the search when it was stopped."""
    try:
        found = _found(ask, setup, source, load, slo, runs)
    except study.Stopped:
        return None, ["stopped early: the search has found nothing yet"]
    early = found is not None and runs.stopped
    return found, ["stopped early: the search would have gone on; what it found so far is shown"] if early else []


def _curve(
    ask: SimulateAsk, setup: study.Setup, source: Source, loads: list[float], slo: dict[str, float],
    spread: Mapping[str, Any] | None, watch: Watch | None,
) -> tuple[list[PointReport], list[str]]:  # fmt: skip
    """Points by load, and that some are missing when it was stopped."""
    points = study.load_sweep(
        setup, source, loads, replications=ask.replications, seed=ask.seed, spread=spread, watch=watch, slo=slo
    )
    missing = len(loads) - len(points)
    notes = [f"stopped early: {len(points)} of {len(loads)} loads were played"] if missing else []
    return [_point(point) for point in points], notes


def answer_simulate(
    ask: SimulateAsk,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    spread: Mapping[str, Any] | None = None,
    keep: Callable[[Run], None] | None = None,
) -> SimulateReport:
    """A run, and what else was asked for: a load curve, policies side by side, the highest load, the fewest replicas.

    `progress` is told (requests finished, requests expected) over all runs, or (runs, runs in all) of a curve. `cancel`
    returning True ends it early: the report then has unfinished requests, a curve fewer loads, a search its best so far.
    `spread` (workers, cluster or executor) plays the loads of a curve at once; `keep` is given the run itself, whose tables may
    be too long for a report.
    """
    check(ask)
    setting = setting_of(ask)
    source = Source(ask)
    slo = limits_of(ask.slo)
    setup, notes, per_token = setup_of(ask, setting, source)
    bounded(source, setup)
    loads, runs = _loads(ask), study.Runs(_watch(progress, cancel))
    names = _policies(ask)
    runs.expected = len(names) + (ask.rate is None) + (not loads)
    try:
        load, said = _load(ask, setup, source, loads, runs)
    except study.Stopped:
        raise InputError("stopped before the load was known; give a rate, and there is less to do") from None
    run = measures = curve = None
    traffic = source(load, ask.seed)
    _check_warmup(ask, len(traffic))
    if not loads:
        run = runs.partly(setup, traffic)
        measures = setup.measured(run, slo=slo, warmup=ask.warmup)
        notes += _said(run, measures)
        if keep is not None:
            keep(run)
    if loads:
        curve, stopped = _curve(ask, setup, source, loads, slo, spread, _watch(progress, cancel))
        notes += stopped
    side = study.side_by_side(setup, traffic, names, runs, slo=slo)
    if len(side) < len(names):
        notes.append(f"stopped early: {len(side)} of {len(names)} policies were played")
    found, early = _looked_for(ask, setup, source, load, slo, runs)
    notes += early
    return SimulateReport(
        **header(ask, SimulateReport, [*setting.notes, *notes, *said, *_money_notes(setting)]),
        **_described(ask, setting, setup),
        traffic=traffic.title if len(loads) < 2 else f"{traffic.title}, and {len(loads) - 1} loads more",
        kv_bytes_per_token=per_token,
        slo=slo,
        loop=None if run is None else run.loop,
        run=None if measures is None else measures_report(measures),
        curve=curve,
        policies={name: measures_report(one) for name, one in side.items()} or None,
        found=found,
        refused={} if run is None else {str(n): run.refused[n] for n in sorted(run.refused)[:LIST_MOST]},
        saturated_rate=study.saturation(setup, source.together()) if ask.saturated and not runs.stopped else None,
        **({} if run is None else _seen(ask, run)),
    )


def _described(ask: SimulateAsk, setting: Setting, setup: study.Setup) -> dict[str, Any]:
    """What is played: the same for every load and policy."""
    return {
        "name": setting.model.name,
        "system": setting.system.name,
        "profile": setting.profile.name,
        "devices": setup.devices(),
        "replicas": setup.replicas if setup.split is None else sum(setup.split),  # int
        "policy": ask.policy,
        "protocol": [*PROTOCOL, f"policy {ask.policy}: {POLICIES[ask.policy].title}"],
        "limits": msgspec.to_builtins(setup.limits),
        "kv_tokens": float(setup.limits.blocks * setup.limits.block_tokens),
    }


def _check_warmup(ask: SimulateAsk, requests: int) -> None:
    """Some request is left whose times count."""
    if ask.warmup >= requests:
        raise InputError(f"warmup: {ask.warmup:,} leaves none of the {requests:,} requests; give a smaller number")


def _seen(ask: SimulateAsk, run: Run) -> dict[str, Any]:
    """What a run looked like, as far as it was asked for."""
    return {
        "iterations": played.iterations(run),
        "timeline": played.timeline(run, ask.timeline) if ask.timeline else None,
        "request": None if ask.request is None else played.path(run, ask.request),
        "requests_table": _listed(_table(run, ask.columns)) if ask.requests_table else None,
        "steps_table": _listed(run.steps()) if ask.steps_table else None,
    }


def _table(run: Run, columns: Sequence[str] | None) -> dict[str, Any]:
    found = run.columns()
    return found if columns is None else {name: found[name] for name in columns}


def _listed(table: dict[str, Any]) -> dict[str, list[Any]]:
    """A table as plain data."""
    return {
        name: column if isinstance(column, list) else [played.plain(value) for value in column.tolist()]
        for name, column in table.items()
    }


def _watch(progress: Callable[[int, int], None] | None, cancel: Callable[[], bool] | None) -> Watch | None:
    if progress is None and cancel is None:
        return None

    def watch(done: int, count: int) -> bool:
        if progress is not None:
            progress(done, count)
        return cancel is not None and cancel()

    return watch


def _said(run: Run, measures: Measures) -> list[str]:
    """What a reader of the figures must know."""
    notes = []
    if measures.overload:
        notes.append(
            "overload: the queue grows for as long as requests come, so waiting times say only how long the traffic lasted; "
            "lower the load or add replicas"
        )
    if run.refused:
        first = min(run.refused)
        notes.append(f"{len(run.refused):,} requests can never run and were refused: {first}: {run.refused[first]}")
    if run.why_python is not None:
        notes.append(f"played by the Python loop, slower and to the same result: {run.why_python}")
    if measures.unfinished:
        notes.append(f"stopped early: {measures.unfinished:,} requests are unfinished")
    return notes


def answer_board(ask: BoardAsk) -> BoardReport:
    """The scheduler's board under each policy (requirements B-075 to B-078)."""
    boards = {name: board(ask.answers, ask.slots, name) for name in ask.policies}
    notes = [
        "equal iterations and free admission; real prefill, memory limits and scheduling overhead can shrink or reverse "
        "the benefit",
        "hardware does not enter here",
    ]
    return BoardReport(
        **header(ask, BoardReport, notes),
        policies={name: BoardRun(**msgspec.structs.asdict(shown)) for name, shown in boards.items()},
    )


ANSWERS: dict[type, Callable[[Any], Any]] = {SimulateAsk: answer_simulate, BoardAsk: answer_board}

__all__ = ["ANSWERS", "answer_simulate", "for_a_page"]
