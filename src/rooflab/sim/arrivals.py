"""When requests come: at moments of their own, after a predecessor, or when a user of a closed loop is free for the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rooflab.sim.clock import ticks, ticks_up
from rooflab.sim.running import Ledger
from rooflab.sim.traffic import Traffic


class Arrivals:
    """Writes into the ledger when requests reach the scheduler, `reach` ticks after they came: those whose moment is known at
    the start, and those that an answer sets off."""

    def __init__(self, traffic: Traffic, ledger: Ledger, bits: int, refused: Mapping[int, str], reach: int):
        self._ledger, self._bits, self._refused, self._reach = ledger, bits, refused, reach
        self._moments, self._think = traffic.arrival, traffic.think
        self._followers: dict[int, list[int]] = {}
        for request, before in enumerate(traffic.follows or ()):
            if before is not None:
                self._followers.setdefault(before, []).append(request)
        unsent = (request for request, moment in enumerate(traffic.arrival) if moment is None)
        self._unsent: Iterator[int] = iter(unsent if traffic.users is not None else ())

    def __bool__(self) -> bool:
        """Whether some requests come only after others."""
        return any(moment is None for moment in self._moments)

    def first(self) -> list[tuple[int, int]]:
        """(moment, request) of those whose moment is known at the start, in order of request."""
        found: list[tuple[int, int]] = []
        for request, moment in enumerate(self._moments):
            if moment is not None:
                at = self._ledger.arrival[request] = ticks_up(moment, self._bits) + self._reach
                found += self._next(at) if request in self._refused else [(at, request)]
        return found

    def after(self, request: int, moment: int) -> list[tuple[int, int]]:
        """(moment, request) of those that the answer to a request sets off."""
        found = self._next(moment)
        for other in self._followers.get(request, ()):
            found.append((self._at(other, moment), other))
        return found

    def _at(self, request: int, moment: int) -> int:
        """When a request that is decided on now reaches the scheduler: after its pause."""
        pause = ticks(self._think[request], self._bits) if self._think else 0
        at = self._ledger.arrival[request] = moment + pause + self._reach
        return at

    def _next(self, moment: int) -> list[tuple[int, int]]:
        """The next request of the list that users share; one that is refused costs its user no time but its pause."""
        for request in self._unsent:
            moment = self._at(request, moment)
            if request not in self._refused:
                return [(moment, request)]
        return []
