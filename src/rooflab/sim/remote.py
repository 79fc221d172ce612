"""Replicas of one phase: those whose finished prompts others still read, and those whose requests' cache comes from others."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from rooflab.sim.clock import NEVER
from rooflab.sim.engine import Replica


class Remote(Replica):
    """A replica that may sit with work it cannot start until something from outside has happened."""

    def _next_to_come(self) -> int:
        """When the next request comes that is not here yet."""
        arrival = self._inbox[self._next][0] if self._next < len(self._inbox) else NEVER
        return arrival if arrival > self._seen else NEVER


class PrefillReplica(Remote):
    """Computes prompts and keeps their blocks until it is told when another replica has read them."""

    def __init__(self, *given: Any, reads: Callable[[int], bool], **more: Any):
        """`reads`: whether another replica reads a finished request's blocks."""
        super().__init__(*given, **more)
        self._reads = reads
        self._kept: set[int] = set()
        self._back: dict[int, int] = {}
        self._lent: list[tuple[int, int]] = []

    def told(self, request: int, at: int) -> None:
        """When the blocks of a finished request come back."""
        if request not in self._kept:  # it holds its slot for one iteration more
            self._back[request] = at
            return
        self._kept.remove(request)
        heappush(self._lent, (at, request))
        if not self.count:
            self.time = min(self.time, max(at, self._landed))

    def _give_back(self, request: int) -> None:
        at = self._back.pop(request, None) if self._reads(request) else 0
        if at is None:
            self._kept.add(request)
        elif at > self._seen:
            heappush(self._lent, (at, request))
        else:
            super()._give_back(request)

    def _collect(self) -> None:
        """Blocks that have been read are free."""
        while self._lent and self._lent[0][0] <= self._seen:
            super()._give_back(heappop(self._lent)[1])

    def _may_admit(self) -> bool:
        self._collect()
        return super()._may_admit()

    def _compose(self, short: bool) -> bool:
        self._collect()
        return super()._compose(short)

    def _may_rest(self) -> bool:
        return bool(self._lent or self._kept) or super()._may_rest()

    def _next_cause(self) -> int:
        back = self._lent[0][0] if self._lent else NEVER
        return min(back, self._next_to_come())


class DecodeReplica(Remote):
    """Takes blocks for a request first; then its cache sets out, and when it is here the request starts, before all others."""

    def __init__(self, *given: Any, fetch: Callable[[int, int], int], **more: Any):
        """`fetch`: (request, moment from which there is room for its cache) to the moment at which it is here."""
        super().__init__(*given, **more)
        self._fetch = fetch
        self._arriving: list[tuple[int, int]] = []

    @property
    def _delivered(self) -> int:
        """When the next cache is here."""
        return self._arriving[0][0] if self._arriving else NEVER

    def _room_for(self, request: int) -> int:
        """Blocks of a prompt."""
        return -(-self._prompt[request] // self._block)

    def _may_admit(self) -> bool:
        return (self._delivered <= self._seen and self._running < self._slots) or super()._may_admit()

    def _may_rest(self) -> bool:
        return self._seen < self._delivered < NEVER or (not self._arriving and super()._may_rest())

    def _next_cause(self) -> int:
        return min(self._delivered, self._next_to_come())

    def _head(self) -> int:
        if self._delivered <= self._seen:
            return self._arriving[0][1]
        return self._stack[-1] if self._stack else -1

    def _next_to_fetch(self, need: int) -> int:
        """The request whose blocks are to be taken next, or −1 where there is none, or no room."""
        if self._stack or self._next >= len(self._inbox):
            return -1
        arrival, request = self._inbox[self._next]
        return request if arrival <= self._seen and self._room_for(request) <= self._free - need else -1

    def _head_fits(self, need: int) -> bool:
        if self._running < self._slots and self._next_to_fetch(need) >= 0:
            return True
        return super()._head_fits(need)

    def _gate(self, request: int, target: int, end: int) -> int:
        return 0 if self._delivered <= self._seen else super()._gate(request, target, end)

    def _admit(self, left: int, chunks: list[tuple[int, int]], need: int) -> None:
        before = len(chunks)
        super()._admit(left, chunks, need)
        for chunk, _ in chunks[before:]:
            left -= chunk
        while left > 0 and self._running < self._slots and (request := self._next_to_fetch(need)) >= 0:
            self._next += 1
            if self._cache is not None:
                self._cache.claim(request, 0)
            self._take(self._room_for(request))
            self.prefilled[request] = self._prompt[request] - 1
            heappush(self._arriving, (self._fetch(request, self._seen), request))

    def _enter(self, request: int, found: int, end: int, gate: int) -> None:
        if self._delivered > self._seen:
            super()._enter(request, found, end, gate)
            return
        heappop(self._arriving)
        if self._cache is not None:
            self._cache.computed(request, end)
        self._running += 1
        self._order.enter(request)
        self._ledger.admitted[request] = self.time
        del self.prefilled[request]

    def _jump(self) -> None:
        super()._jump()
        if self._delivered < self.time and self._running < self._slots and self._decoding.batch < self._budget:
            self._shorten(self._delivered)
