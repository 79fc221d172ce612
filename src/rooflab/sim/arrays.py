"""A run whose columns are arrays: the same figures and laws as `run.py` and `measure.py` have for lists, bit for bit.

Sums of ticks are exact: products of times with counts go beyond 64 bits, so their halves are added apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rooflab.sim.run import Log, Run

_HALF = 32
_MANTISSA, _FINEST = 53, 1126


def exact_sum(*columns: Any) -> int:
    """Sum of whole numbers below 2**62, however many."""
    total = 0
    for column in columns:
        column = column.astype("int64", copy=False)
        total += (int((column >> _HALF).sum()) << _HALF) + int((column & ((1 << _HALF) - 1)).sum())
    return total


def listed(column: Any) -> list[int]:
    """A list or an array of whole numbers as a list."""
    return column if isinstance(column, list) else column.tolist()


def added(column: Any) -> int:
    """Sum of a list or an array of whole numbers."""
    return sum(column) if isinstance(column, list) else exact_sum(column)  # int


def added_at(column: Any, places: Any) -> int:
    """Sum of the whole numbers at some places."""
    if isinstance(places, list):
        return sum(column[place] for place in places)  # int
    import numpy

    return exact_sum(numpy.asarray(column)[places])


def exact_dot(times: Any, counts: Any) -> int:
    """Sum of products of times (below 2**62) with counts (below 2**31)."""
    low = (times & ((1 << _HALF) - 1)) * counts.astype("int64")
    return (exact_sum((times >> _HALF) * counts.astype("int64")) << _HALF) + exact_sum(low)


def exact_total(values: Any) -> int:
    """Sum of floats in whole units of 2**-1126, which every float is a multiple of: exact, by exponents."""
    import numpy

    mantissa, exponent = numpy.frexp(values)
    whole = numpy.ldexp(mantissa, _MANTISSA).astype(numpy.int64)
    least = int(exponent.min(initial=0))
    total = 0
    for place in numpy.flatnonzero(numpy.bincount(exponent - least)).tolist():
        total += exact_sum(whole[exponent == place + least]) << (place + least - _MANTISSA + _FINEST)
    return total


def rounded(total: int) -> float:
    """Such a sum as a float, rounded once, as math.fsum rounds."""
    return total / (1 << _FINEST)


def served(run: Run) -> Any:
    """Numbers of the answered requests, in order of arrival."""
    import numpy

    order = numpy.argsort(run.arrival, kind="stable")
    return order[run.finish[order] >= 0]


def ends(run: Run) -> tuple[int, int]:
    """First arrival and last completion, in ticks."""
    begun = run.arrival[run.arrival >= 0]
    return int(begun.min()) if len(begun) else 0, max(0, int(run.finish.max(initial=0)))


def columns(run: Run) -> dict[str, Any]:
    """The per-request table; NaN for what did not happen."""
    import numpy

    scale = math.ldexp(1.0, -run.bits)
    prompt, output = numpy.asarray(run.traffic.prompt), numpy.asarray(run.traffic.output)
    reached, ended = run.first >= 0, run.finish >= 0

    def where(happened: Any, value: Any) -> Any:
        return numpy.where(happened, value, math.nan)

    table: dict[str, Any] = {"request": numpy.arange(len(run))}
    for name in ("arrival", "admitted", "first", "finish"):
        at = getattr(run, name)
        table[name] = where(at >= 0, at * scale)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        tpot = (run.finish - run.first) * scale / (output - 1)
    return {
        **table,
        "prompt": prompt,
        "output": output,
        "ttft": where(reached, (run.first - run.arrival) * scale),
        "ttft_from_admission": where(reached, (run.first - run.admitted) * scale),
        "tpot": where(ended & (output > 1), tpot),
        "e2e": where(ended, (run.finish - run.arrival) * scale),
        "queue_time": where(run.admitted >= 0, (run.admitted - run.arrival) * scale),
        **{name: getattr(run, name) for name in ("preempted", "swapped", "cached", "replica")},
    }


def steps(run: Run) -> dict[str, Any]:
    """The per-step table."""
    import numpy

    scale = math.ldexp(1.0, -run.bits)
    names = ("start", "iterations", "time", "first_time", "decoding", "prompt_tokens", "running", "blocks_used")
    logs: list[Log] = run.logs  # type: ignore[assignment]
    table: dict[str, Any] = {"replica": numpy.repeat(numpy.arange(len(logs)), [len(log) for log in logs])}
    for place, name in enumerate(names):
        values = numpy.concatenate([log.columns[place] for log in logs])
        table[name] = values * scale if name in ("start", "time", "first_time") else values
    table["decoding"] = numpy.maximum(table["decoding"], 0)
    return table


# ---------------------------------------------------------------------------------------------- figures


def without_gaps(column: Any, order: Any) -> Any:
    """A column in the order of requests, without what did not happen."""
    import numpy

    values = column[order]
    return values[~numpy.isnan(values)]


def waiting(run: Run) -> Any:
    """Requests that wait as each one arrives; None for runs too short to tell, or all at once."""
    import numpy

    order = numpy.argsort(run.arrival, kind="stable")
    if run.refused:
        order = order[~numpy.isin(order, list(run.refused))]
    if len(order) < 100 or run.arrival[order[0]] == run.arrival[order[-1]]:
        return None
    starts = numpy.sort(run.admitted[order])
    begun = numpy.searchsorted(starts, run.arrival[order], side="right")
    return numpy.arange(len(order)) - begun


def kept(columns: dict[str, Any], slo: Any, order: Any) -> int:
    """Requests that met every limit."""
    import numpy

    missed = numpy.zeros(len(order), bool)
    for name, limit in slo.items():
        missed |= columns[name][order] > limit
    return int((~missed).sum())


def occupancy(log: Log, pool: int) -> tuple[int, int, int, int, int]:
    """Ticks at work; of these times sequences, blocks used and blocks there are; most blocks used."""
    if not len(log):
        return 0, 0, 0, 0, 0
    worked = exact_sum(log.ticks)
    most = int(log.blocks_used.max())
    return worked, exact_dot(log.ticks, log.running), exact_dot(log.ticks, log.blocks_used), worked * pool, most


def phases(log: Log, window: tuple[int, int] | None) -> tuple[list[int], list[int]]:
    """Of iterations that only decode: their number, ticks and sequences; of those with prompts the same and prompt tokens."""
    import numpy

    inside = numpy.ones(len(log), bool) if window is None else (log.start >= window[0]) & (log.start < window[1])
    decoding = numpy.maximum(log.decoding, 0)
    alone, mixed = inside & (log.prompt_tokens == 0), inside & (log.prompt_tokens > 0)
    return (
        [
            exact_sum(log.iterations[alone]),
            exact_sum(log.ticks[alone]),
            exact_dot(log.iterations[alone], decoding[alone]),
        ],
        [int(mixed.sum()), *(exact_sum(column[mixed]) for column in (log.ticks, decoding, log.prompt_tokens))],
    )


# ---------------------------------------------------------------------------------------------- laws


def check(run: Run) -> None:
    """The laws of `Run.check`."""
    import numpy

    answered = numpy.ones(len(run), bool)
    answered[list(run.refused)] = False
    for name in ("admitted", "first", "finish"):
        assert (getattr(run, name)[~answered] == -1).all(), "a request was refused and yet served"
    logs: list[Log] = run.logs  # type: ignore[assignment]
    for index, log in enumerate(logs):
        _check_log(log, run.limits.slots, run.pools[index])
    if not run.complete:
        return
    arrival, admitted, first, finish = (getattr(run, n)[answered] for n in ("arrival", "admitted", "first", "finish"))
    output = numpy.asarray(run.traffic.output)[answered]
    assert ((arrival >= 0) & (arrival <= admitted) & (admitted < first) & (first <= finish)).all(), (
        "effect before cause"
    )
    assert ((output > 1) | (first == finish)).all(), "one token, two times"
    made = exact_sum(numpy.array(run.prompts))
    for index, log in enumerate(logs):
        assert run.free[index] == run.pools[index], f"replica {index} kept blocks"
        made += exact_dot(log.iterations.astype("int64"), numpy.maximum(log.decoding, 0))
        mine = answered & (run.replica == index)
        begun = run.admitted[mine][numpy.argsort(run.arrival[mine], kind="stable")]
        assert (numpy.diff(begun) >= 0).all(), f"replica {index}: a request was overtaken"
        if not run.limits.asynchronous:
            _check_work(log, numpy.sort(run.arrival[mine]) + run.reach, numpy.sort(run.finish[mine]))
    assert made == exact_sum(output), f"{made} tokens made, {exact_sum(output)} asked for"


def _check_work(log: Log, arrivals: Any, finishes: Any) -> None:
    """A replica idles only when all that came have gone."""
    import numpy

    end = log.start + log.ticks
    idle = log.start[1:] > end[:-1]
    came = numpy.searchsorted(arrivals, log.start[1:][idle], side="left")
    gone = numpy.searchsorted(finishes, end[:-1][idle], side="right")
    assert (came == gone).all(), "a replica idles with work to do"


def _check_log(log: Log, slots: int, blocks: int) -> None:
    import numpy

    assert (log.start[1:] >= (log.start + log.ticks)[:-1]).all(), "two iterations at once"
    assert (log.iterations >= 1).all()
    assert ((log.first >= 1) & (log.first <= log.ticks)).all(), "an iteration without time"
    assert ((log.blocks_used >= 0) & (log.blocks_used <= blocks)).all(), "more cache than there is"
    assert ((numpy.abs(log.decoding) <= log.running) & (log.running <= slots)).all(), "more sequences than slots"
    assert ((log.decoding > 0) | (log.prompt_tokens > 0)).all(), "an iteration without work"
