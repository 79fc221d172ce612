"""What a run looked like: occupancy over time, where its iterations went, and one request's way through it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rooflab.api.simulate_asks import Chunk, IterationsReport, PathReport, TimelineReport
from rooflab.sim import arrays
from rooflab.sim.clock import seconds
from rooflab.sim.run import Log, Run
from rooflab.units import InputError

Change = tuple[int, int]
"""(tick, by how much a count changes then)."""


def timeline(run: Run, spans: int) -> TimelineReport:
    """Means over equal spans of the makespan, all replicas together: sequences running, waiting for admission, cache in use.

    A preempted sequence is in neither count until it runs again.
    """
    begin, end = run.ends()
    width = max(1, -(-(end - begin) // spans))
    count = max(1, -(-(end - begin) // width))
    pool = 0
    for each in run.pools:
        pool += each
    running, used = [], []
    for log in run.logs:
        for start, iterated, duration, _, decoding, _, sequences, blocks in log:
            held = (
                blocks  # at the end of the stretch; before that, every decoding sequence had a token less an iteration
            )
            if run.limits.kv == "paged":
                held -= max(0, decoding) * (iterated - 1) // (2 * run.limits.block_tokens)
            running += ((start, sequences), (start + duration, -sequences))
            used += ((start, held), (start + duration, -held))
    waiting: list[Change] = []
    for request, (came, began) in enumerate(zip(arrays.listed(run.arrival), arrays.listed(run.admitted), strict=True)):
        if came >= 0 and request not in run.refused:
            waiting += ((came, 1), (began if began >= 0 else end, -1))
    scale = math.ldexp(1.0, -run.bits)
    return TimelineReport(
        start=[(begin + k * width) * scale for k in range(count)],
        span=width * scale,
        running=_means(running, begin, width, count),
        waiting=_means(waiting, begin, width, count),
        kv=[mean / pool if pool else 0.0 for mean in _means(used, begin, width, count)],
    )


def plain(value: Any) -> Any:
    """A table's entry as plain data; what an array holds as NaN did not happen."""
    found = value.item() if hasattr(value, "item") else value
    return None if found != found else found


def _means(changes: Iterable[Change], begin: int, width: int, count: int) -> list[float]:
    """A step function's means over spans, from its changes in any order; exact in whole ticks up to the division."""
    within, after = [0] * count, [0] * (count + 1)
    for moment, by in changes:
        place = min(max(0, moment - begin) // width, count - 1)
        within[place] += by * (begin + (place + 1) * width - moment)
        after[place + 1] += by
    level, means = 0, []
    for place in range(count):
        level += after[place]
        means.append((level * width + within[place]) / width)
    return means


def iterations(run: Run, window: tuple[int, int] | None = None, log_of: int | None = None) -> IterationsReport:
    """Iterations that only decode beside those that compute prompts too; of one replica and between two ticks where given."""
    alone, mixed = [0, 0, 0], [0, 0, 0, 0]
    for log in run.logs if log_of is None else [run.logs[log_of]]:
        if isinstance(log, Log):
            of_alone, of_mixed = arrays.phases(log, window)
            alone = [a + b for a, b in zip(alone, of_alone, strict=True)]
            mixed = [a + b for a, b in zip(mixed, of_mixed, strict=True)]
            continue
        for start, count, duration, _, decoding, prompt, _, _ in log:
            if window is not None and not window[0] <= start < window[1]:
                continue
            if prompt:
                mixed = [mixed[0] + 1, mixed[1] + duration, mixed[2] + max(0, decoding), mixed[3] + prompt]
            else:
                alone = [alone[0] + count, alone[1] + duration, alone[2] + count * max(0, decoding)]
    return IterationsReport(
        decode=alone[0],
        decode_time=seconds(alone[1], run.bits) / alone[0] if alone[0] else None,
        decode_sequences=alone[2] / alone[0] if alone[0] else None,
        prompt=mixed[0],
        prompt_time=seconds(mixed[1], run.bits) / mixed[0] if mixed[0] else None,
        prompt_sequences=mixed[2] / mixed[0] if mixed[0] else None,
        prompt_tokens=mixed[3] / mixed[0] if mixed[0] else None,
    )


def path(run: Run, request: int) -> PathReport:
    """One request from arrival to its last token, with the iterations that computed its prompt.

    Raises InputError for a number that no request has.
    """
    if request >= len(run):
        raise InputError(f"request: there is no number {request:,}; the run has 0 to {len(run) - 1:,}")
    columns = run.columns()
    own = {name: plain(values[request]) for name, values in columns.items() if name in PathReport.__struct_fields__}
    replica, admitted, first, finish = (
        int(column[request]) for column in (run.replica, run.admitted, run.first, run.finish)
    )
    divided = run.made_twice is not None
    chunks = []
    if first >= 0 and not divided:
        for start, _, duration, _, decoding, prompt, _, _ in run.logs[replica]:
            if admitted <= start < first and prompt:
                chunks.append(
                    Chunk(
                        start=seconds(start, run.bits),
                        time=seconds(duration, run.bits),
                        prompt_tokens=prompt,
                        decoding=max(0, decoding),
                    )
                )
    return PathReport(
        **own,
        refused=run.refused.get(request),
        chunks=chunks,
        decoded=iterations(run, (first, finish), replica) if finish > first >= 0 and not divided else None,
    )
