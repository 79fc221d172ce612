"""One replica or many under the same clock: routing, requests that follow one another, prefill and decode apart."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Literal

import msgspec

from rooflab.sim import fast
from rooflab.sim.arrivals import Arrivals
from rooflab.sim.clock import NEVER, ticks
from rooflab.sim.engine import Replica
from rooflab.sim.run import Run
from rooflab.sim.running import Ledger
from rooflab.sim.schedule import Limits, Policy, Router, policy, router
from rooflab.sim.surface import StepSurface
from rooflab.sim.traffic import MANY, Traffic
from rooflab.units import InputError

Watch = Callable[[int, int], bool]
"""Told (requests finished, requests) now and then; True stops the run, which then says that it is not complete."""
Loop = Literal["auto", "python", "numba"]
_OFTEN = 2048


class Transfer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The link that carries cache entries from a prefill replica to a decode replica, one request after the other."""

    bytes_per_token: float
    bandwidth: float
    """Bytes per second of one replica's link."""
    latency: float = 0.0

    def seconds(self, tokens: int) -> float:
        """Seconds the link is busy with the cache entries of a prompt."""
        return tokens * self.bytes_per_token / self.bandwidth


class _Stopped(Exception):
    """The watch asked for the end."""


def refused(traffic: Traffic, limits: Limits) -> dict[int, str]:
    """Requests that could never run within the limits, with the reason.

    Raises InputError when that is all of them, or when others would wait for one of them.
    """
    reasons: dict[int, str] = {}
    most = limits.blocks * limits.block_tokens
    whole = most if limits.chunked else min(most, limits.budget)
    context = limits.context or whole + 1
    if _most(traffic.prompt) + _most(traffic.output) <= min(whole + 1, context):
        return reasons
    traffic = traffic.listed()
    for request, (prompt, output) in enumerate(zip(traffic.prompt, traffic.output, strict=True)):
        stored = prompt + output - 1
        if limits.context is not None and stored >= limits.context:
            reasons[request] = (
                f"{prompt:,} + {output:,} tokens exceed the model's longest context of {limits.context:,}"
            )
        elif -(-stored // limits.block_tokens) > limits.blocks:
            reasons[request] = f"{prompt:,} + {output:,} tokens exceed the {most:,} the cache holds"
        elif stored > whole:
            reasons[request] = f"{prompt:,} + {output:,} tokens exceed an iteration of {limits.budget:,}, unchunked"
    if reasons and (len(reasons) == len(traffic) or traffic.follows is not None):
        first = min(reasons)
        every = (
            "no request fits" if len(reasons) == len(traffic) else f"request {first} never fits and others follow it"
        )
        raise InputError(f"{every}: {reasons[first]}; use shorter requests, more memory or a longer context")
    return reasons


def _most(column: Any) -> int:
    return max(column, default=0) if isinstance(column, list) else int(column.max(initial=0))


class Cluster:
    """Replicas that share arrivals; `run` plays the traffic to its end."""

    def __init__(
        self,
        traffic: Traffic,
        surface: StepSurface,
        limits: Limits,
        rule: Policy,
        *,
        replicas: int = 1,
        routing: Router | None = None,
        watch: Watch | None = None,
        longest_jump: int = NEVER,
    ):
        self.traffic, self.bits, self.watch = traffic, surface.bits, watch
        self.routing = routing or router("round_robin")
        self.reach = ticks(limits.reach, self.bits)
        self.ledger = Ledger(len(traffic))
        self.refused = refused(traffic, limits)
        self.replicas = [
            Replica(traffic, self.ledger, surface, limits, rule, on_finish=self._finished, longest_jump=longest_jump)
            for _ in range(replicas)
        ]
        self._asked = [-1]
        self._seen = [_Seen(replica, self._asked) for replica in self.replicas]
        self.done = self._events = self._numbered = 0
        self._arrivals = Arrivals(traffic, self.ledger, self.bits, self.refused, self.reach)
        self._pending: list[tuple[int, int]] = self._arrivals.first()
        heapify(self._pending)

    # ------------------------------------------------------------------ arrivals and ends

    def _finished(self, request: int, moment: int) -> None:
        """Whoever comes after this request is on the way."""
        self.done += 1
        for arrival, other in self._arrivals.after(request, moment):
            if len(self.replicas) == 1:
                self.replicas[0].push(other)
            else:
                heappush(self._pending, (arrival, other))

    # ------------------------------------------------------------------ the run

    def run(self) -> bool:
        """Plays everything; False when the watch stopped it."""
        try:
            if len(self.replicas) == 1:
                self._alone()
            elif not self._arrivals and not self.routing.looks:
                self._apart()
            else:
                self._together()
        except _Stopped:
            return False
        return True

    def _step(self, replica: Replica) -> None:
        replica.step()
        self._events += 1
        if self.watch is not None and not self._events % _OFTEN and self.watch(self.done, len(self.traffic)):
            raise _Stopped

    def _alone(self) -> None:
        replica = self.replicas[0]
        for _, request in sorted(self._pending):
            replica.push(request)
        self._pending = []
        self._drain(replica)

    def _drain(self, replica: Replica) -> None:
        if self.watch is None:
            step = replica.step
            while replica.time < NEVER:
                step()
        while replica.time < NEVER:
            self._step(replica)

    def _apart(self) -> None:
        """Routing that does not look: every replica plays its own share."""
        for _, request in sorted(self._pending):
            self._route(request)
        for replica in self.replicas:
            self._drain(replica)

    def _route(self, request: int) -> Replica:
        self._asked[0] = request
        index = self.routing.pick(self._numbered, self.traffic.prompt[request], self._seen)
        self._numbered += 1
        self.ledger.replica[request] = index
        self.replicas[index].push(request)
        return self.replicas[index]

    def _together(self) -> None:
        """Arrivals and replicas in order of time; at a tie the arrival comes first."""
        pending, replicas = self._pending, self.replicas
        index_of = {id(replica): index for index, replica in enumerate(replicas)}
        events: list[tuple[int, int]] = []
        while True:
            while events and replicas[events[0][1]].time != events[0][0]:
                heappop(events)
            due = events[0][0] if events else NEVER
            if pending and pending[0][0] <= due:
                replica = self._route(heappop(pending)[1])
            elif events:
                replica = replicas[heappop(events)[1]]
                self._step(replica)
            else:
                return
            if replica.time < NEVER:
                heappush(events, (replica.time, index_of[id(replica)]))


class _Seen:
    """What a router sees of a replica: its load, and what it knows of the request to be routed."""

    __slots__ = ("_asked", "_replica")

    def __init__(self, replica: Replica, asked: list[int]):
        self._replica, self._asked = replica, asked
        """The request, as the only entry of a list that all share."""

    @property
    def outstanding(self) -> int:
        return self._replica.outstanding

    def known(self, number: int) -> int:
        return self._replica.known(self._asked[0])


def simulate(
    traffic: Traffic,
    surface: StepSurface,
    limits: Limits,
    *,
    policy_name: str = "chunked",
    rule: Policy | None = None,
    replicas: int = 1,
    routing: str | Router = "round_robin",
    watch: Watch | None = None,
    longest_jump: int = NEVER,
    loop: Loop = "auto",
) -> Run:
    """Plays a traffic on equal replicas; a policy or router of one's own goes in as `rule` and `routing`.

    `longest_jump=1` takes every iteration as an event of its own: the same result, slower. `loop`: numba asks for the compiled
    loop, auto takes it for long runs; what it cannot play is played in Python, to the same end, and the run says why.
    """
    if replicas < 1:
        raise InputError(f"replicas: {replicas} must be at least 1")
    if limits.caching and limits.kv == "reserve":
        raise InputError("caching: needs a cache in pages; do not reserve whole requests")
    rule = rule or policy(policy_name)
    chosen = router(routing) if isinstance(routing, str) else routing
    why = None
    if loop == "numba" or (loop == "auto" and len(traffic) >= MANY):
        why = fast.why_not(traffic, surface, limits, rule, replicas, chosen)
        if why is None:
            run = fast.simulate(
                traffic, surface, limits, rule, refused=refused(traffic, limits), replicas=replicas, watch=watch,
                longest_jump=longest_jump,
            )  # fmt: skip
            if run is not None:
                return run
            why = "the clock goes beyond 64 bits"
    traffic = traffic.listed()
    cluster = Cluster(
        traffic, surface, limits, rule, replicas=replicas, routing=chosen, watch=watch, longest_jump=longest_jump
    )
    complete = cluster.run()
    run = Run.of(cluster, limits, rule.name, complete)
    run.why_python = why
    return run
