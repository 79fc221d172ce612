"""Figures of a run as users feel them: percentiles with intervals, throughput, goodput, occupancy, cost, energy, overload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rooflab import num
from rooflab.estimate import MILLION
from rooflab.sim import arrays, fast
from rooflab.sim.clock import seconds
from rooflab.sim.run import Log, Run
from rooflab.units import InputError, parse, shown

PERCENTILES = (50, 90, 95, 99)
BATCHES = 20
_T = 2.093
"""Student's t of 19 degrees of freedom at 95 %."""
LEAST = 10
"""Requests a batch must have for an interval to be given."""
_FINE = 8


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Mean and percentiles of a quantity; `interval` holds the half width of each one's 95 % interval from batch means."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    least: float
    most: float
    interval: dict[str, float] = {}


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """SI units; None where there is no such number."""

    requests: int
    served: int
    refused: int
    unfinished: int
    makespan: float
    overload: bool
    """The queue grows for as long as requests come: waiting times then depend on how long one looks."""
    ttft: Spread | None
    """From arrival; None under overload."""
    ttft_from_admission: Spread | None
    tpot: Spread | None
    itl: Spread | None
    """Gaps between a sequence's tokens, exact to 0.4 %; gaps across a preemption are left out."""
    e2e: Spread | None
    """None under overload."""
    queue_time: Spread | None
    """None under overload."""
    request_rate: float
    """Requests served per second of the makespan."""
    output_throughput: float
    total_throughput: float
    goodput: float | None
    """Requests per second that met every limit."""
    attainment: float | None
    """Share of the requests that met every limit."""
    running: float
    """Mean sequences running, per replica, while it ran."""
    slot_occupancy: float
    kv_occupancy: float
    kv_peak: float
    busy: float
    """Share of the makespan in which a replica works, mean of the replicas."""
    preemptions: int
    swaps: int
    """Of these, those that kept the cache in host memory."""
    cache_hit_rate: float | None
    """Prompt tokens found in the cache over all prompt tokens; None without caching."""
    cost_per_million_tokens: float | None
    cost_per_million_output_tokens: float | None
    energy_per_million_tokens: float | None
    iterations: int
    events: int


def percentile(ordered: Any, p: float) -> float:
    """The p-th percentile of sorted values, straight between neighbours."""
    place = (len(ordered) - 1) * p / 100.0
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _figures(values: Sequence[float], total: int | None = None) -> dict[str, float]:
    """Mean and percentiles; `total` is an array's exact sum."""
    if total is not None:
        import numpy

        places = {int((len(values) - 1) * p / 100.0) + more for p in PERCENTILES for more in (0, 1)}
        ordered = numpy.partition(values, sorted(place for place in places if place < len(values)))
        return {"mean": arrays.rounded(total) / len(values), **_percentiles(ordered)}
    ordered = sorted(values)
    return {"mean": math.fsum(ordered) / len(ordered), **_percentiles(ordered)}


def _percentiles(ordered: Any) -> dict[str, float]:
    return {f"p{p}": float(percentile(ordered, p)) for p in PERCENTILES}


def spread(values: Sequence[float], intervals: bool = True) -> Spread | None:
    """Mean and percentiles of values in order of arrival, with intervals when there are enough of them."""
    if not len(values):
        return None
    interval: dict[str, float] = {}
    size = len(values) // BATCHES
    batches = [values[i * size : (i + 1) * size] for i in range(BATCHES)]
    totals: list[int | None] = [arrays.exact_total(batch) if num.is_array(batch) else None for batch in batches]
    whole = _figures(values, _together(totals, values[BATCHES * size :]))
    if intervals and size >= LEAST:
        parts = [_figures(batch, total) for batch, total in zip(batches, totals, strict=True)]
        for name in whole:
            interval[name] = half_width([part[name] for part in parts])
    least, most = (values.min(), values.max()) if num.is_array(values) else (min(values), max(values))  # type: ignore[union-attr]
    return Spread(count=len(values), **whole, least=float(least), most=float(most), interval=interval)


def _together(totals: Sequence[int | None], rest: Any) -> int | None:
    """The exact sum of an array from those of its batches and what is left."""
    if not num.is_array(rest):
        return None
    found = arrays.exact_total(rest)
    for total in totals:
        found += total or 0
    return found


def half_width(values: Sequence[float]) -> float:
    """Half the 95 % interval of the mean of 20 batches."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return _T * math.sqrt(variance / len(values))


def gaps(run: Run) -> Spread | None:
    """Gaps between tokens of a sequence, weighted by the sequences, from the log; bins of 1/256 to 1/512."""
    bins: dict[int, int] = {}
    for log in run.logs:
        if isinstance(log, Log):
            _merge(bins, fast.gap_bins(log))
        else:
            _gaps_of(log, bins)
    if not bins:
        return None
    edges = sorted(bins)
    total = sum(bins.values())  # int
    scale = math.ldexp(1.0, -run.bits)
    values = {edge: math.ldexp(((edge & 511) + 0.5), edge >> 9) * scale for edge in edges}
    found: dict[str, float] = {}
    for p in PERCENTILES:
        reached, wanted = 0, total * p / 100.0
        for edge in edges:
            reached += bins[edge]
            if reached >= wanted:
                found[f"p{p}"] = values[edge]
                break
    mean = math.fsum(bins[edge] * values[edge] for edge in edges) / total
    return Spread(count=total, mean=mean, **found, least=values[edges[0]], most=values[edges[-1]], interval={})


def _merge(bins: dict[int, int], more: dict[int, int]) -> None:
    for key, weight in more.items():
        bins[key] = bins.get(key, 0) + weight


def _bin(ticks: int) -> int:
    """Exponent and nine leading bits of a duration, as one sortable number."""
    shift = max(0, ticks.bit_length() - 9)
    return shift << 9 | ticks >> shift


def _gaps_of(log: list[tuple[int, ...]], bins: dict[int, int]) -> None:
    """Adds a replica's gaps: the first of a stretch with what its sequences waited for prompts, the others in pieces whose
    gaps differ by less than a bin."""
    paused = waited = 0
    for _, count, duration, first, decoding, _, _, _ in log:
        if decoding <= 0:
            paused = min(paused, -decoding) if waited else -decoding
            waited = waited + duration if decoding else 0
            continue
        key = _bin(first)
        bins[key] = bins.get(key, 0) + decoding - paused
        if paused:
            key = _bin(first + waited)
            bins[key] = bins.get(key, 0) + paused
            paused = waited = 0
        if count == 1:
            continue
        last = 2 * duration // count - first
        pieces = min(count - 1, 1 + (last - first) * 300 // first)
        done = 1
        for piece in range(1, pieces + 1):
            end = 1 + (count - 1) * piece // pieces
            key = _bin(first + (last - first) * (done + end - 1) // (2 * (count - 1)))
            bins[key] = bins.get(key, 0) + (end - done) * decoding
            done = end
    for key in [key for key, weight in bins.items() if not weight]:
        del bins[key]


def overloaded(run: Run) -> bool:
    """Whether the queue grows while requests come, as the requests themselves saw it: they never follow one another."""
    if not run.traffic.free:
        return False
    waiting = arrays.waiting(run) if run.compact else _waiting(run)
    if waiting is None:
        return False
    count = len(waiting)
    third, last = count // 3, max(10, count // 20)
    middle = arrays.added(waiting[third : 2 * third]) / third
    late = arrays.added(waiting[2 * third :]) / (count - 2 * third)
    end = arrays.added(waiting[-last:]) / last
    return late > 1.3 * middle and end >= max(20.0, 0.03 * count) and end > late


def _waiting(run: Run) -> list[int] | None:
    """Requests that wait as each one arrives; None for runs too short to tell, or all at once."""
    order = sorted((r for r in range(len(run)) if r not in run.refused), key=lambda r: (run.arrival[r], r))
    count = len(order)
    if count < 100 or run.arrival[order[0]] == run.arrival[order[-1]]:
        return None
    starts = sorted(run.admitted[r] for r in order)
    waiting, begun = [], 0
    for place, request in enumerate(order):
        now = run.arrival[request]
        while begun < count and starts[begun] <= now:
            begun += 1
        waiting.append(place - begun)
    return waiting


def limits_of(text: str | Mapping[str, Any] | None) -> dict[str, float]:
    """Limits in seconds by quantity from "ttft=500ms,tpot=50ms,e2e=10s" or a mapping.

    Raises InputError for an unknown quantity or an impossible limit.
    """
    if not text:
        return {}
    if isinstance(text, str):
        pairs = [item.partition("=") for item in text.split(",") if item.strip()]
        names = [name.strip() for name, _, _ in pairs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"slo: {shown(twice)} is given twice; give one limit for each time")
        text = {name.strip(): value.strip() for name, _, value in pairs}
    found: dict[str, float] = {}
    for name, value in text.items():
        if name not in ("ttft", "tpot", "e2e", "queue_time"):
            raise InputError(f"slo: {shown(name)} is not a time with a limit; use ttft, tpot, e2e or queue_time")
        found[name] = parse(value, "s", f"slo.{name}", positive=True)
    return found


def _kept(run: Run, columns: dict[str, Any], slo: Mapping[str, float], order: Any) -> int:
    """Requests that met every limit."""
    if run.compact:
        return arrays.kept(columns, slo, order)
    kept = 0
    for request in order:
        kept += all(
            columns[name][request] is None or columns[name][request] <= limit for name, limit in slo.items()
        )  # fmt: skip
    return kept


def measure(
    run: Run,
    *,
    slo: Mapping[str, float] | None = None,
    warmup: int = 0,
    devices: int = 1,
    price: float | None = None,
    power: float | None = None,
    columns: dict[str, Any] | None = None,
) -> Measures:
    """Every figure of a run; the first `warmup` requests by arrival count for throughput but not for the times.

    price and power are of one device, in USD/s and W; devices are those of all replicas.
    """
    columns = columns or run.columns()
    served = run.served()
    order, overload = served[warmup:], overloaded(run)
    span = run.makespan()
    output, prompt, hits = (
        arrays.added_at(column, served) for column in (run.traffic.output, run.traffic.prompt, run.cached)
    )
    times = {
        name: spread(_happened(columns[name], order))
        for name in ("ttft_from_admission", "tpot", *(() if overload else ("ttft", "e2e", "queue_time")))
    }
    kept = _kept(run, columns, slo, order) if slo else None
    rate = len(served) / span if span else 0.0
    return Measures(
        requests=len(run),
        served=len(served),
        refused=len(run.refused),
        unfinished=len(run) - len(served) - len(run.refused),
        makespan=span,
        overload=overload,
        ttft=times.get("ttft"),
        ttft_from_admission=times["ttft_from_admission"],
        tpot=times["tpot"],
        itl=gaps(run),
        e2e=times.get("e2e"),
        queue_time=times.get("queue_time"),
        request_rate=rate,
        output_throughput=output / span if span else 0.0,
        total_throughput=(output + prompt) / span if span else 0.0,
        goodput=None if kept is None or not len(order) else rate * kept / len(order),
        attainment=None if kept is None or not len(order) else kept / len(order),
        **_occupancy(run, span),
        preemptions=arrays.added(run.preempted),
        swaps=arrays.added(run.swapped),
        cache_hit_rate=hits / prompt if run.limits.caching and prompt else None,
        cost_per_million_tokens=_per_million(price, devices, span, output + prompt),
        cost_per_million_output_tokens=_per_million(price, devices, span, output),
        energy_per_million_tokens=_per_million(power, devices, span, output + prompt),
        iterations=run.iterations(),
        events=run.events,
    )


def _happened(column: Any, order: Any) -> Sequence[float]:
    """Values in the order of requests, without those that there are not."""
    if num.is_array(column):
        return arrays.without_gaps(column, order)
    return [value for request in order if (value := column[request]) is not None]


def _per_million(rate: float | None, devices: int, span: float, tokens: int) -> float | None:
    """What the devices cost or draw over the makespan, per million tokens."""
    return None if rate is None or not tokens else rate * devices * span / tokens * MILLION


def _occupancy(run: Run, span: float) -> dict[str, float]:
    """Means over the time in which a replica works; busy over the makespan."""
    worked = slots = blocks = pools = 0
    peak = 0.0
    for log, pool in zip(run.logs, run.pools, strict=True):
        of_log = arrays.occupancy(log, pool) if isinstance(log, Log) else _occupancy_of(log, pool)
        worked, slots, blocks, pools = (a + b for a, b in zip((worked, slots, blocks, pools), of_log[:4], strict=True))
        peak = max(peak, of_log[4] / pool)
    mean = slots / worked if worked else 0.0
    return {
        "running": mean,
        "slot_occupancy": mean / run.limits.slots,
        "kv_occupancy": blocks / pools if pools else 0.0,
        "kv_peak": peak,
        "busy": seconds(worked, run.bits) / span / run.replicas if span else 0.0,
    }


def _occupancy_of(log: list[tuple[int, ...]], pool: int) -> tuple[int, int, int, int, int]:
    """Ticks at work; of these times sequences, blocks used and blocks there are; most blocks used."""
    worked = slots = blocks = most = 0
    for row in log:
        worked += row[2]
        slots += row[2] * row[6]
        blocks += row[2] * row[7]
        if row[7] > most:
            most = row[7]
    return worked, slots, blocks, worked * pool, most
