"""The compiled loop: which runs it takes, its tables, and its results as columns of arrays.

It gives what the Python loop gives, bit for bit. What it does not take is played in Python, and the run says so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from rooflab.sim import compiled, tabled
from rooflab.sim.clock import ticks, ticks_up
from rooflab.sim.run import Log, Run
from rooflab.sim.schedule import Limits, Policy, RoundRobin, Router
from rooflab.sim.surface import LineSurface, SceneSurface, StepSurface
from rooflab.sim.tabled import State
from rooflab.sim.traffic import Traffic

WIDEST = 1 << 14
LARGEST = 1 << 20
"""Slots and tokens of an iteration that tables are made for."""
AT_ONCE = 1 << 16
"""Events between two looks at who watches."""
_ENDLESS = 1 << 61


def installed() -> bool:
    """Whether Numba is there."""
    return importlib.util.find_spec("numba") is not None


def why_not(
    traffic: Traffic, surface: StepSurface, limits: Limits, rule: Policy, replicas: int, routing: Router
) -> str | None:
    """What keeps a run from the compiled loop; None when nothing does."""
    checks = {
        "Numba is not installed": not installed(),
        "requests follow one another": not traffic.free,
        "prefixes are cached": limits.caching,
        "preempted requests are swapped": limits.host_blocks > 0,
        f"policy {rule.name}": rule.key is not None or not rule.refills,
        "the router looks at the replicas": replicas > 1 and type(routing) is not RoundRobin,
        "a surface of one's own": not isinstance(surface, LineSurface | SceneSurface),
        "more slots than tables have": min(limits.slots, limits.budget) > WIDEST,
        "steps too short or too long for tables": isinstance(surface, LineSurface) and not _tabled(surface, limits),
        "more tokens an iteration than tables have": limits.budget > LARGEST,
        "more blocks than 32 bits count": limits.blocks >> 31 > 0,
        "blocks longer than tables have": limits.block_tokens > LARGEST,
    }
    return next((reason for reason, holds in checks.items() if holds), None)


def _tabled(surface: LineSurface, limits: Limits) -> bool:
    """Whether every line of a surface fits 64 bits."""
    return surface.segment(1, 1)[0] >= 1 and max(surface.terms) * (1 + min(limits.slots, limits.budget)) < tabled.FAR


@cache
def loop() -> Callable[[State, int], int]:
    """The compiled loop; machine code is kept on disk, under a digest of the sources that it was made from."""
    import numba
    import numpy

    config: Any = numba.core.config  # pyright: ignore[reportAttributeAccessIssue]
    modules = (tabled, compiled)
    sources = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
    home = config.CACHE_DIR or str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rooflab")
    before = config.CACHE_DIR, config.OPT
    config.CACHE_DIR = str(Path(home) / f"loop-{hashlib.sha256(sources).hexdigest()[:16]}")
    config.OPT = type(config.OPT)(2)  # a third less time to compile, and as fast
    try:
        for module in modules:
            for name, function in list(vars(module).items()):
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    fast = _kept(numba.njit, function)
                    for place in modules:
                        if vars(place).get(name) is function:
                            setattr(place, name, fast)
        line = numpy.zeros(1, numpy.int64)
        still = _state(
            numpy.zeros((tabled.ROWS, 1), numpy.int64), line[:0], {tabled.SLOTS: 1, tabled.BLOCK: 1}, _blank()
        )
        compiled.play(still, 0)
        tabled.add_gaps(line[:0], line[:0], line[:0], line[:0], line)
    finally:
        config.CACHE_DIR, config.OPT = before
    return compiled.play


def _kept(njit: Callable[..., Any], function: FunctionType) -> Any:
    """A function to be compiled, kept on disk where there is a place for it."""
    try:
        return njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # no folder can be written to
        return njit(error_model="numpy")(function)


def _blank() -> dict[str, Any]:
    """Tables of nothing."""
    import numpy

    whole = numpy.zeros((3, 1), numpy.int64)
    return {"segments": whole[:, :, None].copy(), "others": whole, "nodes": numpy.zeros((1, 1))}


def gap_bins(log: Log) -> dict[int, int]:
    """Gaps between tokens of a log: the bin of a duration to its weight."""
    import numpy

    loop()
    bins = numpy.zeros(64 << 9, numpy.int64)
    tabled.add_gaps(log.iterations, log.ticks, log.first, log.decoding, bins)
    places = numpy.flatnonzero(bins)
    return dict(zip(places.tolist(), bins[places].tolist(), strict=True))


def _tables(surface: StepSurface, slots: int, budget: int) -> dict[str, Any]:
    """Empty tables of a surface's prices; whole ones of a line."""
    import numpy

    if isinstance(surface, LineSurface):
        segments = numpy.zeros((3, slots + 1, 1), numpy.int64)
        for batch in range(1, slots + 1):
            a, b, _ = surface.segment(batch, 1)
            segments[:, batch, 0] = a, b, _ENDLESS
        return {**_blank(), "segments": segments}
    assert isinstance(surface, SceneSurface)
    others = numpy.full((3, max(budget + slots + 2, len(surface.knots))), tabled.UNKNOWN, numpy.int64)
    others[2, : len(surface.knots)] = surface.knots
    return {
        "segments": numpy.zeros((3, slots + 1, len(surface.knots) + 1), numpy.int64),
        "others": others,
        "nodes": numpy.full((tabled.LINES, tabled.LINES), math.nan),
    }


def _fill(e: State, surface: SceneSurface) -> None:
    """The price that was asked for."""
    kind, a, b = (int(value) for value in e.s[[tabled.ASKED, tabled.ASKED_A, tabled.ASKED_B]])
    if kind == tabled.SEGMENT:
        first, slope, end = surface.segment_at(a, b)
        e.segments[:, a, b] = first, slope, min(end, _ENDLESS)
    elif kind == tabled.OTHERS:
        e.others[0, a] = surface.rest_of(a)
    elif kind == tabled.OTHERS_DECODE:
        e.others[1, a] = surface.rest_of_decode(a)
    else:
        e.nodes[tabled.line_index(a), tabled.line_index(b)] = surface.attention_at(a, b)


def _scalars(limits: Limits, rule: Policy, surface: StepSurface, slots: int, longest: int) -> dict[int, int]:
    line = surface.terms if isinstance(surface, LineSurface) else (0, 0, 0, 0)
    return {
        tabled.PARTIAL: -1, tabled.FREE: limits.blocks, tabled.POOL: limits.blocks,
        tabled.BLOCK: limits.block_tokens, tabled.SLOTS: slots, tabled.BUDGET: limits.budget,
        tabled.PAGED: limits.kv == "paged", tabled.CHUNKED: limits.chunked, tabled.WHOLE: limits.whole_prompt,
        tabled.AHEAD: limits.asynchronous, tabled.MIXES: rule.mixes, tabled.LONGEST: min(longest, 1 << 60),
        tabled.LINE: isinstance(surface, LineSurface), tabled.BITS: surface.bits,
        tabled.KNOTS: len(getattr(surface, "knots", ())),
        **dict(zip((tabled.FIXED, tabled.SEQUENCE, tabled.CONTEXT, tabled.PROMPT_TOKEN), line, strict=True)),
    }  # fmt: skip


def _state(requests: Any, order: Any, scalars: dict[int, int], tables: dict[str, Any]) -> State:
    """A replica that has not begun."""
    import numpy

    size = min(scalars[tabled.SLOTS], len(order)) + 1
    s = numpy.zeros(tabled.SCALARS, numpy.int64)
    for place, value in scalars.items():
        s[place] = value
    s[tabled.SHIFT] = requests.shape[1].bit_length()
    s[tabled.TIME] = requests[tabled.ARRIVAL, order[0]] if len(order) else tabled.NEVER
    lists = numpy.zeros((tabled.LISTS, max(2 * size + 64, scalars[tabled.BLOCK])), numpy.int64)
    log = numpy.zeros((8, 3 * len(order) + 64), numpy.int64)
    return State(s=s, requests=requests, order=order, lists=lists, log=log, **tables)


def _play(e: State, surface: StepSurface, watch: Callable[[int], bool] | None) -> tuple[State, int]:
    """Plays a replica to its end, or until the watch stops it; the state, and how it ended."""
    import numpy

    play = loop()
    while True:
        code = int(play(e, AT_ONCE))
        if code == tabled.PRICE:
            assert isinstance(surface, SceneSurface)
            _fill(e, surface)
        elif code == tabled.FULL:
            e = e._replace(log=numpy.concatenate([e.log, numpy.zeros_like(e.log)], axis=1))
        elif code != tabled.PAUSED or (watch is not None and watch(int(e.s[tabled.FINISHED]))):
            return e, code


def _requests(traffic: Traffic, bits: int) -> Any:
    """The rows per request, with arrivals in ticks."""
    import numpy

    kept = numpy.full((tabled.ROWS, len(traffic)), -1, numpy.int64)
    kept[tabled.MADE] = 0
    if isinstance(traffic.arrival, list):
        kept[tabled.ARRIVAL] = [ticks_up(moment or 0.0, bits) for moment in traffic.arrival]
    else:
        kept[tabled.ARRIVAL] = numpy.ceil(numpy.ldexp(traffic.arrival, bits))
    kept[tabled.PROMPT], kept[tabled.OUTPUT], kept[tabled.PREEMPTED] = traffic.prompt, traffic.output, 0
    return kept


def simulate(
    traffic: Traffic,
    surface: StepSurface,
    limits: Limits,
    rule: Policy,
    *,
    refused: dict[int, str],
    replicas: int,
    watch: Callable[[int, int], bool] | None,
    longest_jump: int,
) -> Run | None:
    """The run of a traffic that `why_not` has nothing against; None when its clock goes beyond 64 bits after all."""
    import numpy

    last = float(numpy.max(numpy.asarray(traffic.arrival, float), initial=0.0)) + limits.reach
    if math.ldexp(last, surface.bits) > tabled.FAR:
        return None
    kept, reach = _requests(traffic, surface.bits), ticks(limits.reach, surface.bits)
    kept[tabled.ARRIVAL] += reach
    order = numpy.argsort(kept[tabled.ARRIVAL], kind="stable")
    if refused:
        order = order[~numpy.isin(order, list(refused))]
    slots = min(limits.slots, limits.budget)
    scalars = _scalars(limits, rule, surface, slots, longest_jump)
    tables = _tables(surface, min(slots, len(traffic)), limits.budget)
    place, ends = numpy.zeros(len(traffic), numpy.int32), []
    finished, code = 0, tabled.DONE
    for index in range(replicas):
        own = numpy.ascontiguousarray(order[index::replicas])
        place[own] = index
        e = _state(kept, own, scalars, tables)
        if code == tabled.DONE:
            before = finished
            told = None if watch is None else (lambda done, before=before: watch(before + done, len(traffic)))
            e, code = _play(e, surface, told)
        if code == tabled.BEYOND:
            return None
        finished += int(e.s[tabled.FINISHED])
        ends.append(_end(e))
    return _run(traffic, limits, rule, kept, place, ends, refused, surface.bits, reach, code == tabled.DONE)


def _end(e: State) -> tuple[Any, Log]:
    """What stays of a replica: its scalars and its log."""
    count = int(e.s[tabled.LOGGED])
    return e.s, Log(e.log[:, :count])


def _run(
    traffic: Traffic, limits: Limits, rule: Policy, kept: Any, place: Any, ends: Sequence[tuple[Any, Log]],
    refused: dict[int, str], bits: int, reach: int, complete: bool,
) -> Run:  # fmt: skip
    import numpy

    none = numpy.zeros(len(traffic), numpy.int32)
    scalars = [s.tolist() for s, _ in ends]
    return Run(
        bits=bits, traffic=traffic, limits=limits, policy=rule.name, replicas=len(ends), complete=complete, refused=refused,
        arrival=kept[tabled.ARRIVAL] - reach, reach=reach,
        admitted=kept[tabled.ADMITTED], first=kept[tabled.FIRST], finish=kept[tabled.FINISH],
        preempted=kept[tabled.PREEMPTED], swapped=none, cached=none, replica=place, logs=[log for _, log in ends],
        prompts=[s[tabled.PROMPTS] for s in scalars], free=[s[tabled.FREE] for s in scalars],
        pools=[limits.blocks] * len(ends), host=[(0, 0)] * len(ends), events=sum(s[tabled.EVENTS] for s in scalars),  # int
        loop="numba",
    )  # fmt: skip
