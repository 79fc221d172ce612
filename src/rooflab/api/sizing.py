"""A plan held to percentiles: the smallest fleets of the closed form, played under traffic until as many replicas hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rooflab import plan
from rooflab.api.design_asks import PlanAsk, SimulatedReport, TrialReport
from rooflab.api.resolve import setting_of
from rooflab.api.serving import Source, setup_of
from rooflab.api.simulate_asks import SimulateAsk
from rooflab.sim.sizing import Search, Trial
from rooflab.sim.study import MOST_REPLICAS, Setup, Stopped
from rooflab.units import InputError, format

FLEETS = 3
"""Layouts that are played at most."""
DIVIDED_MOST = 24
"""Replicas that are divided at most."""


def limits_of(tpot: float, ttft: float | None) -> dict[str, float]:
    return {"tpot": tpot, **({} if ttft is None else {"ttft": ttft})}


def rate_of(ask: PlanAsk, tpot: float, ttft: float | None) -> tuple[float, str]:
    """Arrivals per second, and where they come from."""
    if ask.rate is not None:
        return ask.rate, f"traffic: {ask.rate:.4g} requests/s, Poisson, as given"
    answer = (ttft or 0.0) + tpot * (ask.output - 1)
    if answer <= 0.0:
        raise InputError("rate: an answer of one token has no duration that users would wait; give a rate")
    return ask.users / answer, (
        f"traffic: {ask.users / answer:.4g} requests/s, Poisson: then {ask.users:,} users are served at once when answers take "
        f"just what the limits allow, {format(answer, 's')}"
    )


def _question(ask: PlanAsk, layout: dict[str, Any], rate: float) -> SimulateAsk:
    """The serving question of one replica of a fleet."""
    same = (
        "model",
        "weights",
        "kv",
        "on",
        "changes",
        "profile",
        "prices",
        "engine",
        "switches",
        "reserve",
        "requests",
        "link",
    )
    return SimulateAsk(
        **{name: getattr(ask, name) for name in same},
        **layout,
        rate=rate,
        prompt=ask.context - ask.output,
        output=ask.output,
        routing="least_loaded",
        disaggregate="1:1" if ask.divide else None,
    )  # fmt: skip


def _engine(question: SimulateAsk) -> tuple[Setup, Source, list[str]]:
    source = Source(question)
    setup, notes, _ = setup_of(question, setting_of(question), source)
    return msgspec.structs.replace(setup, split=None), source, notes


def simulated(
    ask: PlanAsk, fleets: tuple[plan.Sized, ...], tpot: float, ttft: float | None,
    progress: Callable[[int, int], None] | None = None, cancel: Callable[[], bool] | None = None,
) -> tuple[SimulatedReport | None, list[str]]:  # fmt: skip
    """The smallest fleet that holds the percentile among the first layouts, and what a reader must know."""
    if ask.percentile is None:
        given = [name for name in ("rate", "link") if getattr(ask, name) is not None] + ["divide"] * ask.divide
        if given:
            raise InputError(f"{given[0]}: counts only for a percentile; give percentile, for example 'p95'")
        return None, []
    slo, (rate, said) = limits_of(tpot, ttft), rate_of(ask, tpot, ttft)
    if not fleets:
        return None, ["no layout meets the limits on the mean, so none was simulated"]
    notes, found = [said], []
    layouts = {one.layout: one for one in fleets}
    share = [0, min(FLEETS, len(layouts))]

    def told(done: int, expected: int) -> bool:
        if progress is not None:
            progress(share[0] * expected + done, share[1] * expected)
        return cancel is not None and cancel()

    for layout in list(layouts)[:FLEETS]:
        setup, source, assumed = _engine(_question(ask, _degrees(layout), rate))
        search = Search(setup, source, rate, slo, at=ask.percentile, seeds=ask.seeds, told=told)
        try:
            found.append(_report(ask, search, layout, setup))
            notes += [note for note in assumed if note not in notes]
        except InputError as problem:
            notes.append(f"{_spelled(layout)}: {problem}")
        except Stopped:
            notes.append("stopped before every layout was played")
            break
        share[0] += 1
    best = min(found, key=lambda one: (one.total, one.replicas), default=None)
    return best, notes


def _report(ask: PlanAsk, search: Search, layout: Any, setup: Setup) -> SimulatedReport:
    sized = search.fewest(MOST_REPLICAS)
    divided = search.divided(min(DIVIDED_MOST, 2 * sized.replicas + 2)) if ask.divide else None
    each = setup.devices_per_replica
    return SimulatedReport(
        layout=_degrees(layout),
        percentile=str(ask.percentile),
        rate=search.rate,
        seeds=ask.seeds,
        devices_per_replica=each,
        replicas=sized.replicas,
        total=sized.replicas * each,
        least=sized.least,
        sure=sized.sure,
        holds=sized.trial.holds,
        divided=None if divided is None else _trial(divided, search),
        chosen=_trial(sized.trial, search),
        tried=[_trial(one, search) for one in search.tried],
    )


def _trial(found: Trial, search: Search) -> TrialReport:
    figures, interval = found.point.figures, found.point.interval
    names = {name: f"{name}_{search.at}" for name in ("ttft", "tpot")}
    return TrialReport(
        replicas=found.replicas,
        split=found.split,
        within=found.within,
        holds=found.holds,
        ttft=figures[names["ttft"]],
        ttft_interval=interval[names["ttft"]],
        tpot=figures[names["tpot"]],
        tpot_interval=interval[names["tpot"]],
        attainment=figures["attainment"],
    )


def _degrees(layout: Any) -> dict[str, Any]:
    return {name: int(getattr(layout, name)) for name in ("tp", "pp", "cp", "ep", "attention_dp")}


def _spelled(layout: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in _degrees(layout).items() if count > 1) or "one device"
