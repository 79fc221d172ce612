"""Who runs, and what a preempted request leaves behind: the order of admission, and the cache that waits in host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflab.sim.clock import ticks
from rooflab.sim.schedule import Limits


class Ledger:
    """What happened to each request, in ticks; shared by all replicas of a run. −1 means not yet."""

    __slots__ = ("admitted", "arrival", "cached", "finish", "first", "preempted", "replica", "swapped")

    def __init__(self, requests: int):
        self.arrival = [-1] * requests
        self.admitted = [-1] * requests
        self.first = [-1] * requests
        self.finish = [-1] * requests
        self.preempted = [0] * requests
        self.swapped = [0] * requests
        """Preemptions that kept the cache in host memory."""
        self.cached = [0] * requests
        """Prompt tokens found in the cache at first admission."""
        self.replica = [0] * requests


class Running:
    """The running requests in order of admission, with holes where some have left."""

    __slots__ = ("_rank", "_tail", "place")

    def __init__(self, rank: Callable[[int], Any] | None):
        self._rank = rank
        """What requests are ranked by; the largest is preempted first. None preempts the latest."""
        self._tail: list[int] = []
        self.place: dict[int, int] = {}
        """Index in the order of admission."""

    def enter(self, request: int) -> None:
        tail = self._tail
        if len(tail) > 2 * len(self.place) + 64:
            self._compact()
            tail = self._tail
        self.place[request] = len(tail)
        tail.append(request)

    def victim(self) -> int:
        """Who is preempted next; it still has its place."""
        if self._rank is not None:
            return max(self.place, key=self._rank)
        tail, place = self._tail, self.place
        while place.get(tail[-1]) != len(tail) - 1:
            tail.pop()
        return tail[-1]

    def _compact(self) -> None:
        """The running in order, without the holes that the finished left."""
        place = self.place
        kept = [request for index, request in enumerate(self._tail) if place.get(request) == index]
        self._tail = kept
        for index, request in enumerate(kept):
            place[request] = index


class Host:
    """Host memory that takes the cache of preempted requests, and what the copies cost."""

    __slots__ = ("_blocks", "_due", "_held", "_ticks", "peak", "used")

    def __init__(self, limits: Limits, bits: int):
        self._blocks, self._ticks = limits.host_blocks, ticks(limits.swap_time, bits)
        self._due = self.used = self.peak = 0
        self._held: dict[int, int] = {}

    def store(self, request: int, blocks: int) -> bool:
        """A preempted request's blocks go to the host; False when they do not fit there."""
        if self.used + blocks > self._blocks:
            return False
        self.used += blocks
        self.peak = max(self.peak, self.used)
        self._held[request] = blocks
        self._due += blocks * self._ticks
        return True

    def fetch(self, request: int) -> None:
        """They come back, if they are here."""
        blocks = self._held.pop(request, 0)
        self.used -= blocks
        self._due += blocks * self._ticks

    def due(self) -> int:
        """Ticks of the copies since the last iteration."""
        found, self._due = self._due, 0
        return found
