"""One replica of a serving engine, event by event, exact to the iteration.

A replica decides at the boundaries of iterations, as vLLM's V1 scheduler does. While a batch only decodes, nothing can
change before the next completion, the next arrival that could be admitted, the end of the free blocks or a knot of the
surface; such a stretch is one event, and its iterations sum in closed form. Every other iteration is an event of its own.
Work per event does not grow with the batch: progress is one counter of iterations that all decoding sequences share.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from rooflab.sim.cache import PrefixCache
from rooflab.sim.clock import NEVER
from rooflab.sim.decoding import Decoding, iterations, span
from rooflab.sim.running import Host, Ledger, Running
from rooflab.sim.schedule import Limits, Policy
from rooflab.sim.surface import StepSurface
from rooflab.sim.traffic import Traffic

_ENDLESS = 1 << 60


class Replica:
    """An engine with its queue, its blocks and its clock; `step` moves it from one event to the next."""

    __slots__ = (
        "_advances", "_block", "_budget", "_cache", "_decoding", "_fickle", "_first_gap", "_free", "_grows", "_in_flight",
        "_inbox", "_key", "_landed", "_ledger", "_longest_jump", "_made", "_mixes", "_next", "_order",
        "_output", "_paged", "_partial", "_place", "_pool", "_priority", "_prompt", "_ranks", "_ready", "_refills", "_running",
        "_seen", "_slope", "_slots", "_stack", "_start", "_surface", "_tokens", "_waiting", "count", "events", "host", "limits",
        "log", "on_finish", "outstanding", "prefilled", "prompts", "time",
    )  # fmt: skip

    def __init__(
        self,
        traffic: Traffic,
        ledger: Ledger,
        surface: StepSurface,
        limits: Limits,
        policy: Policy,
        *,
        on_finish: Callable[[int, int], None] | None = None,
        longest_jump: int = _ENDLESS,
    ):
        self.limits, self._surface, self._ledger = limits, surface, ledger
        self._prompt, self._output = traffic.prompt, traffic.output
        self._priority = traffic.priority
        self._block, self._paged = limits.block_tokens, limits.kv == "paged"
        self._slots = min(limits.slots, limits.budget)
        self._mixes, self._refills, self._key, self._ranks = policy.mixes, policy.refills, policy.key, policy.ranks
        self._budget = limits.budget if policy.refills else _ENDLESS
        self._pool = self._free = limits.blocks
        self._cache = PrefixCache(traffic, limits.blocks, limits.block_tokens) if limits.caching else None
        # a waiting request that finds less in the cache asks for less: then it may fit although fewer blocks are free
        self._fickle = limits.caching and not limits.whole_prompt
        self.on_finish, self._longest_jump = on_finish, longest_jump
        self.prefilled: dict[int, int] = {}
        """Tokens of a request whose cache entries wait elsewhere: sent by another replica, or swapped to the host."""
        self.host = Host(limits, surface.bits) if limits.host_blocks else None
        # queue: requests by arrival with the next one's index, those sorted by a key, and the preempted, latest first
        self._inbox: list[tuple[int, int]] = []
        self._next = 0
        self._waiting: list[tuple[Any, int]] = []
        self._stack: list[int] = []
        # running: order of admission with holes, decoding sequences in aggregate, one partly computed prompt
        self._order = Running(self._rank if self._ranks else None)
        self._place = self._order.place
        self._running = 0
        self._decoding = Decoding(len(traffic), self._block)
        self._made: dict[int, int] = {}
        """Tokens a preempted request had made."""
        self._partial: tuple[int, int, int] | None = None
        self._in_flight: list[int] = []
        # the flight: iterations decided and not yet landed
        self._start = self._seen = self._landed = self.count = self._first_gap = self._slope = self._tokens = 0
        self.time = NEVER
        self._advances = self._grows = False
        self._ready: list[int] = []
        self.log: list[tuple[int, ...]] = []
        """Per event: start, iterations, ticks, ticks of the first one, decoding (negative: paused), prompt tokens, running,
        blocks used."""
        self.events = self.outstanding = self.prompts = 0

    # ------------------------------------------------------------------ what others see

    def known(self, number: int) -> int:
        """Tokens of a request's prompt found in this replica's cache."""
        return self._cache.match(number, self._prompt[number])[0] if self._cache else 0

    @property
    def free(self) -> int:
        """Blocks nobody uses."""
        return self._free

    def push(self, request: int) -> None:
        """A request that arrives here at its time in the ledger; a stretch in flight is cut at the boundary that sees it."""
        arrival = self._ledger.arrival[request]
        inbox, item = self._inbox, (arrival, request)
        if not inbox or inbox[-1] < item:
            inbox.append(item)
        else:
            insort(inbox, item, lo=self._next)
        self.outstanding += 1
        if not self.count:
            self.time = min(self.time, max(arrival, self._landed))
        elif self.count > 1:
            self._cut(arrival)

    # ------------------------------------------------------------------ events

    def step(self) -> None:
        """Lands what ends now, and decides what comes next; `time` is then the next such moment."""
        self.events += 1
        if self.count:
            self._land()
        else:
            self._seen = self.time
        decoding = self._decoding
        while True:
            short = self._paged and decoding.blocks_now() > self._free
            if (short or self._partial is not None or self._may_admit()) and self._compose(short):
                return
            if decoding.batch:
                self._jump()
                return
            if self._in_flight or self._seen < self.time:
                self._release_in_flight()
                self._seen = self.time
            elif self._may_rest():
                break
        self._landed = self.time
        self.time = self._next_cause()

    def _may_rest(self) -> bool:
        """Whether nothing that waits could start now, when nobody runs."""
        return not (self._stack or self._waiting)

    def _next_cause(self) -> int:
        """When an idle replica has something to do."""
        return max(self.time, self._inbox[self._next][0]) if self._next < len(self._inbox) else NEVER

    def _land(self) -> None:
        """The iterations in flight have run: tokens, blocks, first tokens and completions."""
        count, time, start, decoding = self.count, self.time, self._start, self._decoding
        batch = decoding.batch
        if self._advances:
            if self._grows:
                self._take(decoding.growth(count))
            decoding.total += count * batch
            decoding.iteration += count
        self.log.append(
            (start, count, time - start, self._first_gap, batch if self._advances else -batch, self._tokens,
             self._running, self._pool - self._free)
        )  # fmt: skip
        self.count = 0
        finished: list[int] = []
        if self._ready:
            self.prompts += len(self._ready)
            for request in self._ready:
                self._first_token(request, finished)
            self._ready = []
        decoding.finished(finished)
        if len(finished) > 1:
            finished.sort(key=self._place.__getitem__)
        if self.limits.asynchronous:
            self._release_in_flight()
            self._in_flight = finished
            self._seen = start + span(count - 1, self._first_gap, self._slope)
        else:
            self._seen = time
        for request in finished:
            self._ledger.finish[request] = time
            self.outstanding -= 1
            if self.on_finish is not None:
                self.on_finish(request, time)
            if not self.limits.asynchronous:
                self._release(request)

    def _first_token(self, request: int, finished: list[int]) -> None:
        """A prompt is computed: its request has one token more and decodes on, or ends."""
        ledger, made = self._ledger, self._made.pop(request, 0)
        if ledger.first[request] < 0:
            ledger.first[request] = self.time
        left = self._output[request] - made - 1
        if left <= 0:
            finished.append(request)
            return
        self._decoding.add(request, self._prompt[request] + made, left)

    def _release(self, request: int) -> None:
        """A finished request gives back its slot and its blocks."""
        self._running -= 1
        del self._place[request]
        self._give_back(request)

    def _give_back(self, request: int) -> None:
        stored = self._prompt[request] + self._output[request] - 1
        blocks = -(-stored // self._block)
        if self._cache is not None:
            blocks = self._cache.give(request, blocks, stored, keep=True)
        self._free += blocks

    def _release_in_flight(self) -> None:
        while self._in_flight:
            self._release(self._in_flight.pop(0))

    # ------------------------------------------------------------------ an iteration of its own

    def _may_admit(self) -> bool:
        """Whether a waiting request could be looked at now."""
        if self._running >= self._slots or (self._running and not self._refills):
            return False
        if self._key is not None:
            self._sort_in()
        if self._stack or self._waiting:
            return True
        return self._key is None and self._next < len(self._inbox) and self._inbox[self._next][0] <= self._seen

    def _sort_in(self) -> None:
        """Requests that have arrived join the queue that is sorted by the policy's key."""
        while self._next < len(self._inbox) and self._inbox[self._next][0] <= self._seen:
            request = self._inbox[self._next][1]
            self._next += 1
            heappush(self._waiting, (self._rank(request), request))

    def _rank(self, request: int) -> Any:
        """What the policy sorts this request by."""
        assert self._key is not None
        priority = self._priority[request] if self._priority is not None else 0
        return self._key(self._prompt[request], priority, self._ledger.arrival[request], request)

    def _compose(self, short: bool) -> bool:
        """Plans one iteration with prompt chunks or preemption; False, and nothing changed, when there is no cause for it."""
        chunks: list[tuple[int, int]] = []
        need = self._decoding.blocks_now() if self._paged else 0
        if not self._mixes:
            return self._compose_apart(short, need, chunks)
        preempted = need > self._free
        if preempted:
            need = self._preempt(need)
        taken = False
        if self._cache is not None and need:
            certain = self._partial is None and not preempted and not self._fickle
            if certain and not self._head_fits(need):
                return False
            self._take(need)
            need, taken = 0, True
        left = self._budget - self._decoding.batch
        pushed, need = self._continue(left, chunks, need, taken)
        preempted = preempted or pushed
        if not preempted:
            self._admit(left - chunks[0][0] if chunks else left, chunks, need)
        if not (chunks or ((preempted or taken) and self._decoding.batch)):
            return False
        self._free -= need
        self._launch(self._decoding.batch, chunks)
        return True

    def _compose_apart(self, short: bool, need: int, chunks: list[tuple[int, int]]) -> bool:
        """The same where prompts and decoding do not mix: chunks alone, or decoding alone after preemption."""
        preempted, _ = self._continue(self._budget, chunks, 0, False)
        if not preempted:
            self._admit(self._budget - chunks[0][0] if chunks else self._budget, chunks, 0)
        if chunks:
            self._launch(0, chunks)
            return True
        if not (short or preempted) or not self._decoding.batch:
            return False
        self._take(self._preempt(need))
        if not self._decoding.batch:
            return False
        self._launch(self._decoding.batch, chunks)
        return True

    def _take(self, blocks: int) -> None:
        """Free blocks that decoding sequences take now."""
        self._free -= blocks
        if self._cache is not None and blocks:
            self._cache.take(blocks)

    def _launch(self, batch: int, chunks: list[tuple[int, int]]) -> None:
        """One iteration takes off: the decoding sequences, if any take part, and the chunks."""
        if chunks:
            duration = self._surface.mixed(batch, self._decoding.total if batch else 0, chunks)
            tokens = 0
            for new, _ in chunks:
                tokens += new
            self._tokens = tokens
        else:
            a, b, _ = self._surface.segment(batch, self._decoding.total)
            duration, self._tokens = a + b * self._decoding.total, 0
        if self.host is not None:
            duration += self.host.due()
        self._start, self._first_gap, self._slope = self.time, duration, 0
        self.time += duration
        self.count, self._grows = 1, False
        self._advances = batch > 0 or self._mixes

    def _preempt(self, need: int) -> int:
        """Pushes out one after the other until the rest's new blocks fit; returns the blocks they then need."""
        while need > self._free:
            need -= self._give_way(self._order.victim(), False)
        return need

    def _give_way(self, request: int, taken: bool) -> int:
        """A victim leaves; returns the new blocks that it need not take any more, none when it has `taken` them."""
        if self._partial is not None and self._partial[0] == request:
            self._push_out(request, self._partial[1], 0)
            self._partial = None
        elif request in self._in_flight:
            self._in_flight.remove(request)
            self._release(request)
        else:
            new = int(self._decoding.needs_block_now(request))
            stored = self._decoding.remove(request)
            self._made[request] = stored - self._prompt[request] + 1
            self._push_out(request, stored, new if taken else 0)
            return 0 if taken else new
        return 0

    def _push_out(self, request: int, stored: int, empty: int) -> None:
        """A running request loses its blocks, `empty` ones too, and waits in front of all others or at its rank."""
        blocks = -(-stored // self._block)
        if self.host is not None and self.host.store(request, blocks):
            self.prefilled[request] = stored
            self._ledger.swapped[request] += 1
        blocks += empty
        if self._cache is not None:
            blocks = self._cache.give(request, blocks, stored, keep=True)
        self._free += blocks
        self._running -= 1
        del self._place[request]
        if self._ranks:
            heappush(self._waiting, (self._rank(request), request))
        else:
            self._stack.append(request)
        self._ledger.preempted[request] += 1

    def _continue(self, left: int, chunks: list[tuple[int, int]], need: int, taken: bool) -> tuple[bool, int]:
        """The next chunk of the partly computed prompt: whether anybody had to go for want of blocks, and the blocks that the
        decoding sequences still need."""
        if self._partial is None:
            return False, need
        request, done, target = self._partial
        chunk, preempted = min(target - done, left), False
        if chunk <= 0:
            return False, need
        if self._paged:
            blocks = -(-(done + chunk) // self._block) + (-done // self._block)
            while blocks > self._free - need:
                victim, preempted = self._order.victim(), True
                need -= self._give_way(victim, taken)
                if victim == request:
                    return True, need
            self._free -= blocks
            if self._cache is not None:
                self._cache.take(blocks)
                self._cache.computed(request, done + chunk)
        chunks.append((chunk, done))
        self._partial = (request, done + chunk, target)
        if done + chunk == target:
            self._partial = None
            self._ready.append(request)
        return preempted, need

    def _head(self) -> int:
        """The request to be admitted next, or −1."""
        if self._stack:
            return self._stack[-1]
        if self._key is not None:
            return self._waiting[0][1] if self._waiting else -1
        if self._next < len(self._inbox):
            arrival, request = self._inbox[self._next]
            if arrival <= self._seen:
                return request
        return -1

    def _found(self, request: int, target: int) -> tuple[int, int]:
        """(tokens already computed somewhere, blocks of them that cost no free block)."""
        if self.prefilled and request in self.prefilled:
            return self.prefilled[request], 0
        return self._cache.match(request, target) if self._cache is not None else (0, 0)

    def _gate(self, request: int, target: int, end: int) -> int:
        """Blocks that must be free, or found in use, for a request to be admitted and computed up to `end`."""
        if not self._paged:
            return -(-(self._prompt[request] + self._output[request] - 1) // self._block)
        return -(-(target if self.limits.whole_prompt else end) // self._block)

    def _head_fits(self, need: int) -> bool:
        """Whether the head could be admitted beside `need` new blocks of the decoding sequences."""
        request = self._head()
        if request < 0 or self._running >= self._slots:
            return False
        target = self._prompt[request] + self._made.get(request, 0)
        found, shared = self._found(request, target)
        end = min(target, found + self._budget - self._decoding.batch)
        return self._gate(request, target, end) - shared <= self._free - need

    def _admit(self, left: int, chunks: list[tuple[int, int]], need: int) -> None:
        """Waiting requests in order, while tokens, slots and blocks last; the first that fails ends it."""
        if self._running and not self._refills:
            return
        if self._key is not None:
            self._sort_in()
        while left > 0 and self._running < self._slots:
            request = self._head()
            if request < 0:
                return
            target = self._prompt[request] + self._made.get(request, 0)
            found, shared = self._found(request, target)
            chunk = target - found
            if chunk > left:
                if not self.limits.chunked:
                    return
                chunk = left
            end = found + chunk
            gate = self._gate(request, target, end)
            if gate - shared > self._free - need:
                return
            self._enter(request, found, end, gate)
            chunks.append((chunk, found))
            left -= chunk
            if end == target:
                self._ready.append(request)
            else:
                self._partial = (request, end, target)

    def _enter(self, request: int, found: int, end: int, gate: int) -> None:
        """The head leaves the queue, takes its blocks and a place among the running."""
        if self._stack:
            self._stack.pop()
        elif self._key is not None:
            heappop(self._waiting)
        else:
            self._next += 1
        if self._cache is not None:
            own = 0 if request in self.prefilled else found
            self._free -= self._cache.claim(request, own)
            blocks = -(-end // self._block) - own // self._block
            self._cache.take(blocks)
            self._cache.computed(request, end)
        else:
            blocks = -(-end // self._block) if self._paged else gate
        self._free -= blocks
        self._running += 1
        self._order.enter(request)
        if self.host is not None:
            self.host.fetch(request)
        if self._ledger.admitted[request] < 0:
            self._ledger.admitted[request] = self.time
            self._ledger.cached[request] = found
        self.prefilled.pop(request, None)

    # ------------------------------------------------------------------ a stretch of equal iterations

    def _jump(self) -> None:
        """Decode iterations up to the first that could see something new, as one event."""
        decoding = self._decoding
        batch, total = decoding.batch, decoding.total
        a, b, end = self._surface.segment(batch, total)
        count = min(decoding.to_next_finish(), -((total - end) // batch), self._longest_jump)
        if self._paged:
            count = decoding.within(count, self._free)
        if self._in_flight or (self._fickle and self._may_admit()):
            count = 1
        start = self.time
        gap, slope = a + b * total, b * batch
        self._start, self._first_gap, self._slope = start, gap, slope
        self._tokens, self._advances, self._grows = 0, True, self._paged
        self.count = count
        self.time = start + span(count, gap, slope)
        if count > 1 and self._next < len(self._inbox):
            arrival = self._inbox[self._next][0]
            if arrival < self.time:
                self._cut(arrival)

    def _cut(self, arrival: int) -> None:
        """Shortens the stretch in flight to the first boundary that sees an arrival, if it could be admitted there."""
        if self._running >= self._slots or not self._refills or (self._mixes and self._decoding.batch >= self._budget):
            return
        if self._key is None and (self._stack or (self._inbox[self._next][0] <= self._seen)):
            return
        self._shorten(arrival)

    def _shorten(self, arrival: int) -> None:
        """Lets the stretch in flight end at the first boundary that sees an arrival."""
        distance = arrival - self._start
        extra = 1 if self.limits.asynchronous else 0
        count = extra + iterations(self._first_gap, self._slope, distance) if distance > 0 else 1
        if count < self.count:
            self.count = count
            self.time = self._start + span(count, self._first_gap, self._slope)
