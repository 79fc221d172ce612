"""What the compiled loop works on: the state of a replica in arrays, prices in tables, and the arithmetic of stretches.

Nothing is imported here, so that it loads anywhere; Numba compiles the functions where it is installed (see `fast.py`). A price
that is not in the tables yet is noted as asked for, and UNKNOWN is returned.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

NEVER = 1 << 62
UNKNOWN = -(1 << 62)
FAR = 1 << 60
"""Times beyond this, and strides beyond LONG, are left to Python's unbounded integers."""
LONG = 1 << 50

# what a call ends with
DONE, PAUSED, PRICE, FULL, BEYOND = range(5)
# rows of the scalars: clock and flight, queue and running, limits, tables, the price that is asked for
(
    TIME, START, SEEN, LANDED, COUNT, GAP, SLOPE, TOKENS, ADVANCES, GROWS, PHASE, LAUNCH_BATCH, NEXT, STACKED, TAILED,
    RUNNING, READY_COUNT, FLYING, CHUNKS, PARTIAL, PARTIAL_DONE, PARTIAL_TARGET, FREE, BATCH, TOTAL, ITERATION, HEAPED,
    EVENTS, FINISHED, PROMPTS, LOGGED, POOL, BLOCK, SLOTS, BUDGET, PAGED, CHUNKED, WHOLE, AHEAD, MIXES, LONGEST, LINE,
    BITS, FIXED, SEQUENCE, CONTEXT, PROMPT_TOKEN, KNOTS, SHIFT, ASKED, ASKED_A, ASKED_B, SCALARS,
) = range(53)  # fmt: skip
REST, DECIDE, LAUNCH, JUMP = range(4)  # phases
SEGMENT, OTHERS, OTHERS_DECODE, NODE = range(4)  # prices
ARRIVAL, PROMPT, OUTPUT, ADMITTED, FIRST, FINISH, PREEMPTED, MADE, BASE, END, PLACE, ROWS = range(
    12
)  # rows per request
# lists: who is preempted, computed, in flight, ended; chunks of an iteration; who decodes by the phase in which it needs a block;
# the next to end; who runs
STACK, READY, FLIGHT, ENDED, NEW, CACHED, COUNTS, HEAP, TAIL, LISTS = range(10)
LINES = 200
"""Grid lines of new and of cached tokens: whole numbers to 16, then eight an octave."""


class State(NamedTuple):
    """One replica."""

    s: Any
    requests: Any
    order: Any
    """Numbers of the requests that come here, by arrival."""
    lists: Any
    log: Any
    """Columns of `Run.logs`."""
    segments: Any
    """a, b and end by batch and index of the knot; a of 0 is not known yet."""
    others: Any
    """Everything but attention for prompt tokens, and for decoding sequences; then the knots."""
    nodes: Any
    """Seconds of attention by lines of new and of cached tokens; NaN is not known yet."""


# ---------------------------------------------------------------------------------------------- prices


def asked(e: State, kind: int, a: int, b: int) -> int:
    e.s[ASKED], e.s[ASKED_A], e.s[ASKED_B] = kind, a, b
    return UNKNOWN


def segment(e: State, batch: int, total: int) -> int:
    """Index of the line that prices a decode iteration; see `SceneSurface.segment`."""
    low, high, context = 0, e.s[KNOTS], total // batch
    while low < high:
        middle = (low + high) // 2
        if e.others[2, middle] <= context:
            low = middle + 1
        else:
            high = middle
    return low if e.segments[0, batch, low] else asked(e, SEGMENT, batch, low)


def mixed(e: State, batch: int, total: int) -> int:
    """Ticks of an iteration with prompt chunks; see `mixed` of the surfaces."""
    s = e.s
    count, tokens, time = s[CHUNKS], batch, 0
    for index in range(count):
        tokens += e.lists[NEW, index]
    if s[LINE]:
        time = s[FIXED] + s[SEQUENCE] * (batch + count) + s[CONTEXT] * total
        return time + s[PROMPT_TOKEN] * (tokens - batch)
    for index in range(count):
        ticks = attention(e, e.lists[NEW, index], e.lists[CACHED, index])
        if ticks == UNKNOWN:
            return UNKNOWN
        time += ticks
    if count > 1:
        ticks = attention(e, 1, 0)
        if ticks == UNKNOWN:
            return UNKNOWN
        time -= (count - 1) * ticks
    return parts(e, batch, total, tokens, time)


def parts(e: State, batch: int, total: int, tokens: int, time: int) -> int:
    """Adds what is not the attention of prompts."""
    rows = batch + e.s[CHUNKS]
    for needed in (tokens, rows):
        if e.others[0, needed] == UNKNOWN:
            return asked(e, OTHERS, needed, 0)
    for needed in (rows, batch):
        if needed and e.others[1, needed] == UNKNOWN:
            return asked(e, OTHERS_DECODE, needed, 0)
    time += e.others[0, tokens]
    if rows > 1:
        time += e.others[1, rows] - e.others[0, rows]
    if batch:
        knot = segment(e, batch, total)
        if knot == UNKNOWN:
            return UNKNOWN
        ticks = e.segments[0, batch, knot] + e.segments[1, batch, knot] * total
        time += max(0, ticks - e.others[1, batch])
    return max(1, time)


def attention(e: State, new: int, cached: int) -> int:
    """Ticks of one chunk's attention, interpolated in new and cached tokens."""
    n0, n1, c0, c1 = line_below(new), line_above(new), line_below(cached), line_above(cached)
    for n in (n0, n1):
        for c in (c0, c1):
            if math.isnan(e.nodes[line_index(n), line_index(c)]):
                return asked(e, NODE, n, c)
    x = (new - n0) / (n1 - n0) if n1 > n0 else 0.0
    y = (cached - c0) / (c1 - c0) if c1 > c0 else 0.0
    low = between(e.nodes[line_index(n0), line_index(c0)], e.nodes[line_index(n0), line_index(c1)], y)
    if x:
        high = between(e.nodes[line_index(n1), line_index(c0)], e.nodes[line_index(n1), line_index(c1)], y)
        low = between(low, high, x)
    return round(math.ldexp(low, int(e.s[BITS])))


def between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share if share else low


def octave(count: int) -> int:
    """Exponent of the largest power of two that is not above a positive count."""
    return math.frexp(count)[1] - 1


def line_below(count: int) -> int:
    """The grid line at or below a count; see `surface._lines`."""
    return count if count <= 16 else count - count % (1 << (octave(count) - 3))


def line_above(count: int) -> int:
    below = line_below(count)
    return below if below == count else below + (1 << (octave(count) - 3))


def line_index(line: int) -> int:
    """Its place among all grid lines."""
    if line <= 16:
        return line
    power = octave(line)
    return 8 * power - 16 + (line >> (power - 3)) % 8


# ---------------------------------------------------------------------------------------------- the next to end


def push(e: State, key: int) -> None:
    """Into the heap; entries of requests that left before their end are thrown out when it is full."""
    s, heap = e.s, e.lists[HEAP]
    if s[HEAPED] == len(heap):
        shift, count = s[SHIFT], s[HEAPED]
        s[HEAPED] = 0
        for index in range(count):
            old = heap[index]
            if e.requests[END, old & ((1 << shift) - 1)] == old >> shift:
                sift_up(e, old)
    sift_up(e, key)


def sift_up(e: State, key: int) -> None:
    heap, at = e.lists[HEAP], e.s[HEAPED]
    e.s[HEAPED] += 1
    while at and heap[(at - 1) // 2] > key:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = key


def pop(e: State) -> int:
    """The smallest out of the heap."""
    s, heap = e.s, e.lists[HEAP]
    least = heap[0]
    s[HEAPED] -= 1
    count, key, at = s[HEAPED], heap[s[HEAPED]], 0
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key
    return least


# ---------------------------------------------------------------------------------------------- stretches


def growth(e: State, count: int) -> int:
    """Blocks that the next `count` iterations take."""
    s, counts, block = e.s, e.lists[COUNTS], e.s[BLOCK]
    blocks, phase = count // block * s[BATCH], s[ITERATION] % block
    for _ in range(count % block):
        blocks += counts[phase]
        phase = phase + 1 if phase + 1 < block else 0
    return blocks


def within(e: State, count: int, free: int) -> int:
    """The most iterations, up to `count`, whose new blocks are free; at least one."""
    s, counts, block = e.s, e.lists[COUNTS], e.s[BLOCK]
    if s[BATCH] * -(-count // block) <= free or growth(e, count) <= free:
        return count
    done, left, phase = free // s[BATCH] * block, free % s[BATCH], s[ITERATION] % block
    while done < count:
        left -= counts[phase]
        if left < 0:
            break
        done += 1
        phase = phase + 1 if phase + 1 < block else 0
    return max(1, done)


def span(count: int, gap: int, slope: int) -> int:
    return count * gap + slope * (count * (count - 1) // 2)


def iterations(gap: int, slope: int, distance: int) -> int:
    """Fewest iterations, at least one, whose span is `distance` or more."""
    if slope:
        edge = gap - slope / 2.0
        count = max(1, int(2.0 * distance / (edge + math.sqrt(edge * edge + 2.0 * slope * distance))))
    else:
        count = -(-distance // gap)
    while span(count, gap, slope) < distance:
        count += 1
    while count > 1 and span(count - 1, gap, slope) >= distance:
        count -= 1
    return max(1, count)


# ---------------------------------------------------------------------------------------------- gaps between tokens


def bin_of(ticks: int) -> int:
    """Exponent and nine leading bits of a duration; see `measure._bin`."""
    shift = max(0, octave(ticks) - 8)
    return (shift << 9) | (ticks >> shift)


def add_gaps(counts: Any, times: Any, firsts: Any, decodings: Any, bins: Any) -> None:
    """The gaps of a log, weighted by the sequences; see `measure._gaps_of`."""
    paused = waited = 0
    for row in range(len(counts)):
        count, duration, first, decoding = int(counts[row]), times[row], firsts[row], int(decodings[row])
        if decoding <= 0:
            paused = min(paused, -decoding) if waited else -decoding
            waited = waited + duration if decoding else 0
            continue
        bins[bin_of(first)] += decoding - paused
        if paused:
            bins[bin_of(first + waited)] += paused
            paused, waited = 0, 0
        if count == 1:
            continue
        last = 2 * duration // count - first
        pieces = min(count - 1, 1 + (last - first) * 300 // first)
        done = 1
        for piece in range(1, pieces + 1):
            end = 1 + (count - 1) * piece // pieces
            bins[bin_of(first + (last - first) * (done + end - 1) // (2 * (count - 1)))] += (end - done) * decoding
            done = end
