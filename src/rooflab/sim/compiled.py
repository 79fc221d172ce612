"""The engine's loop once more, over plain arrays, in a form that Numba compiles.

`engine.py` says why every rule is as it is; this file follows it function by function for what runs of millions need: requests in
order of arrival, paged or reserved cache, decisions at once or ahead, prompts mixed in or apart. Nothing is imported here,
so that it loads anywhere and also runs uncompiled. Where a price is not in the tables yet the loop stops, says which one it
needs, and goes on when it is called again.
"""

from __future__ import annotations

# isort: off
# fmt: off
from rooflab.sim.tabled import (
    ADMITTED, ADVANCES, AHEAD, ARRIVAL, BASE, BATCH, BEYOND, BLOCK, BUDGET, CACHED, CHUNKED, CHUNKS, COUNT, COUNTS, DECIDE,
    DONE, END, ENDED, EVENTS, FAR, FINISH, FINISHED, FIRST, FLIGHT, FLYING, FREE, FULL, GAP, GROWS, HEAP, HEAPED, ITERATION,
    JUMP, LANDED, LAUNCH, LAUNCH_BATCH, LOGGED, LONG, LONGEST, MADE, MIXES, NEVER, NEW, NEXT, OUTPUT, PAGED, PARTIAL,
    PARTIAL_DONE, PARTIAL_TARGET, PAUSED, PHASE, PLACE, POOL, PREEMPTED, PRICE, PROMPT, PROMPTS, READY, READY_COUNT, REST,
    RUNNING, SEEN, SHIFT, SLOPE, SLOTS, STACK, STACKED, START, TAIL, TAILED, TIME, TOKENS, TOTAL, UNKNOWN, WHOLE, State, growth,
    iterations, mixed, pop, push, segment, span, within,
)
# fmt: on
# isort: on


def play(e: State, most: int) -> int:
    """Plays up to `most` events."""
    s = e.s
    events = 0
    while True:
        if s[PHASE] == REST:
            if s[TIME] == NEVER:
                return DONE
            if events >= most:
                return PAUSED
            if s[LOGGED] >= e.log.shape[1]:
                return FULL
            events += 1
            s[EVENTS] += 1
            if s[COUNT]:
                land(e)
            else:
                s[SEEN] = s[TIME]
            s[PHASE] = DECIDE
        if s[PHASE] == DECIDE:
            decide(e)
        if s[PHASE] == LAUNCH:
            if not launch(e):
                return PRICE
            s[PHASE] = REST
        elif s[PHASE] == JUMP:
            if not jump(e):
                return PRICE
            s[PHASE] = REST
        if s[TIME] != NEVER and (s[TIME] > FAR or s[GAP] > LONG or s[SLOPE] > LONG):
            return BEYOND


def decide(e: State) -> None:
    """What comes next: an iteration of its own, a stretch, or rest until an arrival."""
    s = e.s
    while True:
        short = s[PAGED] != 0 and e.lists[COUNTS, s[ITERATION] % s[BLOCK]] > s[FREE]
        if (short or s[PARTIAL] >= 0 or may_admit(e)) and compose(e, short):
            s[PHASE] = LAUNCH
            return
        if s[BATCH]:
            s[PHASE] = JUMP
            return
        if s[FLYING] or s[SEEN] < s[TIME]:
            release_flight(e)
            s[SEEN] = s[TIME]
        elif not s[STACKED]:
            break
    s[LANDED] = s[TIME]
    s[TIME] = max(s[TIME], e.requests[ARRIVAL, e.order[s[NEXT]]]) if s[NEXT] < len(e.order) else NEVER
    s[PHASE] = REST


# ---------------------------------------------------------------------------------------------- landing


def land(e: State) -> None:
    s, count = e.s, e.s[COUNT]
    if s[ADVANCES]:
        if s[GROWS]:
            s[FREE] -= growth(e, count)
        s[TOTAL] += count * s[BATCH]
        s[ITERATION] += count
    row = s[LOGGED]
    e.log[0, row], e.log[1, row], e.log[2, row], e.log[3, row] = s[START], count, s[TIME] - s[START], s[GAP]
    e.log[4, row], e.log[5, row], e.log[6, row] = s[LAUNCH_BATCH], s[TOKENS], s[RUNNING]
    e.log[7, row] = s[POOL] - s[FREE]
    s[LOGGED] = row + 1
    s[COUNT] = 0
    ended = 0
    s[PROMPTS] += s[READY_COUNT]
    for index in range(s[READY_COUNT]):
        ended = first_token(e, e.lists[READY, index], ended)
    s[READY_COUNT] = 0
    ended = finished(e, ended)
    if s[AHEAD]:
        release_flight(e)
        for index in range(ended):
            e.lists[FLIGHT, index] = e.lists[ENDED, index]
        s[FLYING] = ended
        s[SEEN] = s[START] + span(count - 1, s[GAP], s[SLOPE])
    else:
        s[SEEN] = s[TIME]
        for index in range(ended):
            release(e, e.lists[ENDED, index])
    for index in range(ended):
        e.requests[FINISH, e.lists[ENDED, index]] = s[TIME]
    s[FINISHED] += ended


def first_token(e: State, request: int, ended: int) -> int:
    s = e.s
    made = e.requests[MADE, request]
    e.requests[MADE, request] = 0
    if e.requests[FIRST, request] < 0:
        e.requests[FIRST, request] = s[TIME]
    left = e.requests[OUTPUT, request] - made - 1
    if left <= 0:
        e.lists[ENDED, ended] = request
        return ended + 1
    stored = e.requests[PROMPT, request] + made
    e.requests[BASE, request] = stored - s[ITERATION]
    e.lists[COUNTS, (s[ITERATION] - stored) % s[BLOCK]] += 1
    s[BATCH] += 1
    s[TOTAL] += stored + 1
    e.requests[END, request] = s[ITERATION] + left
    push(e, (s[ITERATION] + left) << s[SHIFT] | request)
    return ended


def finished(e: State, ended: int) -> int:
    """Sequences that end now join the list."""
    s, shift = e.s, e.s[SHIFT]
    edge = (s[ITERATION] + 1) << shift
    while s[HEAPED] and e.lists[HEAP, 0] < edge:
        key = pop(e)
        request = key & ((1 << shift) - 1)
        if e.requests[END, request] == key >> shift:
            leave(e, request)
            e.lists[ENDED, ended] = request
            ended += 1
    return ended


def leave(e: State, request: int) -> int:
    """A sequence decodes no longer; returns its tokens in the cache."""
    s = e.s
    stored = e.requests[BASE, request] + s[ITERATION]
    e.requests[END, request] = -1
    s[BATCH] -= 1
    s[TOTAL] -= stored + 1
    e.lists[COUNTS, -e.requests[BASE, request] % s[BLOCK]] -= 1
    return stored


def release(e: State, request: int) -> None:
    s = e.s
    s[FREE] += -(-(e.requests[PROMPT, request] + e.requests[OUTPUT, request] - 1) // s[BLOCK])
    s[RUNNING] -= 1
    e.requests[PLACE, request] = -1


def release_flight(e: State) -> None:
    for index in range(e.s[FLYING]):
        release(e, e.lists[FLIGHT, index])
    e.s[FLYING] = 0


# ---------------------------------------------------------------------------------------------- an iteration of its own


def may_admit(e: State) -> bool:
    s = e.s
    return s[RUNNING] < s[SLOTS] and head(e) >= 0


def head(e: State) -> int:
    """The request to be admitted next, or −1."""
    s = e.s
    if s[STACKED]:
        return e.lists[STACK, s[STACKED] - 1]
    if s[NEXT] < len(e.order) and e.requests[ARRIVAL, e.order[s[NEXT]]] <= s[SEEN]:
        return e.order[s[NEXT]]
    return -1


def compose(e: State, short: bool) -> bool:
    s = e.s
    s[CHUNKS] = 0
    if not s[MIXES]:
        return compose_apart(e, short)
    need = e.lists[COUNTS, s[ITERATION] % s[BLOCK]] if s[PAGED] else 0
    preempted = need > s[FREE]
    if preempted:
        need = preempt(e, need)
    left = s[BUDGET] - s[BATCH]
    if resume(e, left, need):
        preempted = True
    if not preempted:
        admit(e, left - e.lists[NEW, 0] if s[CHUNKS] else left, need)
    if not (s[CHUNKS] or (preempted and s[BATCH])):
        return False
    s[FREE] -= need
    s[LAUNCH_BATCH] = s[BATCH]
    return True


def compose_apart(e: State, short: bool) -> bool:
    """Chunks alone, or decoding alone after preemption."""
    s = e.s
    preempted = resume(e, s[BUDGET], 0)
    if not preempted:
        admit(e, s[BUDGET] - e.lists[NEW, 0] if s[CHUNKS] else s[BUDGET], 0)
    if s[CHUNKS]:
        s[LAUNCH_BATCH] = -s[BATCH]
        return True
    if not (short or preempted) or not s[BATCH]:
        return False
    need = preempt(e, e.lists[COUNTS, s[ITERATION] % s[BLOCK]] if s[PAGED] else 0)
    s[FREE] -= need  # after the call, which frees some
    s[LAUNCH_BATCH] = s[BATCH]
    return s[BATCH] > 0


def preempt(e: State, need: int) -> int:
    """Pushes out the latest until the rest's new blocks fit; returns the blocks they then need."""
    s = e.s
    while need > s[FREE]:
        request = victim(e)
        if request == s[PARTIAL]:
            push_out(e, request, s[PARTIAL_DONE])
            s[PARTIAL] = -1
        elif e.requests[END, request] < 0:  # it has ended, and only lets go early
            release(e, request)
            kept = 0
            for index in range(s[FLYING]):
                if e.lists[FLIGHT, index] != request:
                    e.lists[FLIGHT, kept] = e.lists[FLIGHT, index]
                    kept += 1
            s[FLYING] = kept
        else:
            need -= (e.requests[BASE, request] + s[ITERATION]) % s[BLOCK] == 0
            stored = leave(e, request)
            e.requests[MADE, request] = stored - e.requests[PROMPT, request] + 1
            push_out(e, request, stored)
    return need


def victim(e: State) -> int:
    s = e.s
    while e.requests[PLACE, e.lists[TAIL, s[TAILED] - 1]] != s[TAILED] - 1:
        s[TAILED] -= 1
    return e.lists[TAIL, s[TAILED] - 1]


def push_out(e: State, request: int, stored: int) -> None:
    s = e.s
    s[FREE] += -(-stored // s[BLOCK])
    s[RUNNING] -= 1
    e.requests[PLACE, request] = -1
    e.lists[STACK, s[STACKED]] = request
    s[STACKED] += 1
    e.requests[PREEMPTED, request] += 1


def resume(e: State, left: int, need: int) -> bool:
    """The next chunk of the partly computed prompt; True when it had to be pushed out for want of blocks."""
    s = e.s
    if s[PARTIAL] < 0:
        return False
    request, done = s[PARTIAL], s[PARTIAL_DONE]
    chunk = min(s[PARTIAL_TARGET] - done, left)
    if chunk <= 0:
        return False
    if s[PAGED]:
        blocks = -(-(done + chunk) // s[BLOCK]) + (-done // s[BLOCK])
        if blocks > s[FREE] - need:
            push_out(e, request, done)
            s[PARTIAL] = -1
            return True
        s[FREE] -= blocks
    add_chunk(e, request, done, done + chunk, s[PARTIAL_TARGET])
    return False


def add_chunk(e: State, request: int, done: int, end: int, target: int) -> None:
    """Tokens of a prompt join the iteration; what is left of it waits for the next."""
    s = e.s
    e.lists[NEW, s[CHUNKS]], e.lists[CACHED, s[CHUNKS]] = end - done, done
    s[CHUNKS] += 1
    if end == target:
        s[PARTIAL] = -1
        e.lists[READY, s[READY_COUNT]] = request
        s[READY_COUNT] += 1
    else:
        s[PARTIAL], s[PARTIAL_DONE], s[PARTIAL_TARGET] = request, end, target


def admit(e: State, left: int, need: int) -> None:
    s = e.s
    while left > 0 and s[RUNNING] < s[SLOTS]:
        request = head(e)
        if request < 0:
            return
        target = e.requests[PROMPT, request] + e.requests[MADE, request]
        chunk = target
        if chunk > left:
            if not s[CHUNKED]:
                return
            chunk = left
        if s[PAGED]:
            gate = -(-(target if s[WHOLE] else chunk) // s[BLOCK])
        else:
            gate = -(-(e.requests[PROMPT, request] + e.requests[OUTPUT, request] - 1) // s[BLOCK])
        if gate > s[FREE] - need:
            return
        enter(e, request, -(-chunk // s[BLOCK]) if s[PAGED] else gate)
        add_chunk(e, request, 0, chunk, target)
        left -= chunk


def enter(e: State, request: int, blocks: int) -> None:
    s = e.s
    if s[STACKED]:
        s[STACKED] -= 1
    else:
        s[NEXT] += 1
    s[FREE] -= blocks
    s[RUNNING] += 1
    if s[TAILED] == e.lists.shape[1]:
        kept = 0
        for index in range(s[TAILED]):
            other = e.lists[TAIL, index]
            if e.requests[PLACE, other] == index:
                e.lists[TAIL, kept] = other
                e.requests[PLACE, other] = kept
                kept += 1
        s[TAILED] = kept
    e.requests[PLACE, request] = s[TAILED]
    e.lists[TAIL, s[TAILED]] = request
    s[TAILED] += 1
    if e.requests[ADMITTED, request] < 0:
        e.requests[ADMITTED, request] = s[TIME]


def launch(e: State) -> bool:
    """One iteration takes off; False when its price is not known yet."""
    s = e.s
    batch = max(0, s[LAUNCH_BATCH])
    total = s[TOTAL] if batch else 0
    if s[CHUNKS]:
        duration = mixed(e, batch, total)
        if duration == UNKNOWN:
            return False
        tokens = 0
        for index in range(s[CHUNKS]):
            tokens += e.lists[NEW, index]
    else:
        knot = segment(e, batch, total)
        if knot == UNKNOWN:
            return False
        duration, tokens = e.segments[0, batch, knot] + e.segments[1, batch, knot] * total, 0
    s[START], s[GAP], s[SLOPE], s[TOKENS] = s[TIME], duration, 0, tokens
    s[TIME] += duration
    s[COUNT], s[GROWS] = 1, 0
    s[ADVANCES] = 1 if batch > 0 or s[MIXES] else 0
    return True


# ---------------------------------------------------------------------------------------------- a stretch of equal iterations


def jump(e: State) -> bool:
    s = e.s
    batch, total = s[BATCH], s[TOTAL]
    knot = segment(e, batch, total)
    if knot == UNKNOWN:
        return False
    count = min(to_next_finish(e), -((total - e.segments[2, batch, knot]) // batch), s[LONGEST])
    if s[PAGED]:
        count = within(e, count, s[FREE])
    if s[FLYING]:
        count = 1
    gap, slope = e.segments[0, batch, knot] + e.segments[1, batch, knot] * total, e.segments[1, batch, knot] * batch
    s[START], s[GAP], s[SLOPE], s[TOKENS], s[ADVANCES], s[GROWS] = s[TIME], gap, slope, 0, 1, s[PAGED]
    s[LAUNCH_BATCH] = batch
    if gap + 0.5 * slope * count > FAR / count:
        s[TIME] = NEVER - 1
        return True
    s[COUNT] = count
    s[TIME] += span(count, gap, slope)
    if count > 1 and s[NEXT] < len(e.order):
        arrival = e.requests[ARRIVAL, e.order[s[NEXT]]]
        if arrival < s[TIME]:
            cut(e, arrival)
    return True


def cut(e: State, arrival: int) -> None:
    """Shortens the stretch to the first boundary that sees an arrival, if it could be admitted there."""
    s = e.s
    if s[RUNNING] >= s[SLOTS] or (s[MIXES] and s[BATCH] >= s[BUDGET]) or s[STACKED] or arrival <= s[SEEN]:
        return
    distance = arrival - s[START]
    count = s[AHEAD] + iterations(s[GAP], s[SLOPE], distance) if distance > 0 else 1
    if count < s[COUNT]:
        s[COUNT] = count
        s[TIME] = s[START] + span(count, s[GAP], s[SLOPE])


def to_next_finish(e: State) -> int:
    shift = e.s[SHIFT]
    while e.requests[END, e.lists[HEAP, 0] & ((1 << shift) - 1)] != e.lists[HEAP, 0] >> shift:
        pop(e)
    return (e.lists[HEAP, 0] >> shift) - e.s[ITERATION]
