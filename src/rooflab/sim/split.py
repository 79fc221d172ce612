"""Prefill and decode on replicas of their own, with the cache entries of each prompt carried over a link.

A prompt is computed on a prefill replica, its cache entries travel over that replica's link, first come first served, and the
decode replica computes the last prompt token again and makes the first token, as vLLM does. The cache sets out when the decode
side has taken its blocks, which then wait for it; on the prefill side it is held until the last byte has arrived. So a slow link
leaves less room on both sides, and a decode side without room keeps the prefill side's blocks.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import msgspec

from rooflab.sim.arrivals import Arrivals
from rooflab.sim.clock import NEVER, ticks
from rooflab.sim.cluster import Transfer, Watch, refused
from rooflab.sim.engine import Replica
from rooflab.sim.remote import DecodeReplica, PrefillReplica
from rooflab.sim.run import Run, came, hosted
from rooflab.sim.running import Ledger
from rooflab.sim.schedule import Limits, Router, policy, router
from rooflab.sim.surface import StepSurface
from rooflab.sim.traffic import Traffic
from rooflab.units import InputError

_OFTEN = 2048


class Stage:
    """Replicas of one phase, with their surface and limits."""

    def __init__(self, surface: StepSurface, limits: Limits, replicas: int, routing: str | Router = "least_loaded"):
        if replicas < 1:
            raise InputError(f"disaggregate: {replicas} replicas of a phase; each needs at least 1, for example 1:2")
        self.surface, self.limits, self.count = surface, limits, replicas
        self.routing = router(routing) if isinstance(routing, str) else routing


class _Split:
    """The event loop over both phases."""

    def __init__(self, traffic: Traffic, prefill: Stage, decode: Stage, transfer: Transfer, watch: Watch | None):
        self.traffic, self.transfer, self.watch = traffic, transfer, watch
        self.bits = prefill.surface.bits
        self.stages = (prefill, decode)
        self.reach = ticks(prefill.limits.reach, self.bits)
        self.ledgers = (Ledger(len(traffic)), Ledger(len(traffic)))
        first_token = msgspec.structs.replace(traffic, output=[1] * len(traffic))
        whole = refused(traffic, decode.limits)
        self.refused = {**refused(first_token, prefill.limits), **whole}
        rule = policy("chunked")
        self.before = [
            PrefillReplica(
                first_token, self.ledgers[0], prefill.surface, prefill.limits, rule,
                on_finish=self._prompt_done, reads=lambda request: traffic.output[request] > 1,
            )
            for _ in range(prefill.count)
        ]  # fmt: skip
        after = [
            DecodeReplica(
                traffic,
                self.ledgers[1],
                decode.surface,
                decode.limits,
                rule,
                on_finish=self._answered,
                fetch=self._fetch,
            )
            for _ in range(decode.count)
        ]
        self.groups: list[list[Replica]] = [[*self.before], [*after]]
        self._numbered = [0, 0]
        self._link_free = [0] * prefill.count
        self._touched: list[tuple[int, int]] = []
        self.done = 0
        self._arrivals = Arrivals(traffic, self.ledgers[0], self.bits, self.refused, self.reach)
        self._pending: list[tuple[int, int, int]] = [(at, 0, request) for at, request in self._arrivals.first()]
        heapify(self._pending)

    def _prompt_done(self, request: int, moment: int) -> None:
        """The request goes on to the decode side; a one-token answer is there already."""
        if self.traffic.output[request] == 1:
            self.ledgers[1].first[request] = self.ledgers[1].finish[request] = moment
            self._answered(request, moment)
            return
        self.ledgers[1].arrival[request] = moment
        heappush(self._pending, (moment, 1, request))

    def _fetch(self, request: int, moment: int) -> int:
        """The cache entries queue for their replica's link; returns when they have arrived."""
        link = self.ledgers[0].replica[request]
        start = max(moment, self._link_free[link])
        self._link_free[link] = start + ticks(self.transfer.seconds(self.traffic.prompt[request]), self.bits)
        there = self._link_free[link] + ticks(self.transfer.latency, self.bits)
        self.before[link].told(request, there)
        self._touched.append((0, link))
        return there

    def _answered(self, request: int, moment: int) -> None:
        self.done += 1
        for arrival, other in self._arrivals.after(request, moment):
            heappush(self._pending, (arrival, 0, other))

    def _route(self, phase: int, request: int) -> tuple[int, int]:
        stage, replicas = self.stages[phase], self.groups[phase]
        index = stage.routing.pick(self._numbered[phase], self.traffic.prompt[request], replicas)
        self._numbered[phase] += 1
        self.ledgers[phase].replica[request] = index
        replicas[index].push(request)
        return phase, index

    def run(self) -> bool:
        """Plays everything in order of time; an arrival comes before a replica's event of the same time."""
        pending, groups = self._pending, self.groups
        events: list[tuple[int, int, int]] = []
        count = 0
        while True:
            while events and groups[events[0][1]][events[0][2]].time != events[0][0]:
                heappop(events)
            due = events[0][0] if events else NEVER
            if pending and pending[0][0] <= due:
                _, phase, request = heappop(pending)
                phase, index = self._route(phase, request)
            elif events:
                _, phase, index = heappop(events)
                groups[phase][index].step()
                count += 1
                if self.watch is not None and not count % _OFTEN and self.watch(self.done, len(self.traffic)):
                    return False
            else:
                return True
            self._touched.append((phase, index))
            for phase, index in self._touched:
                if groups[phase][index].time < NEVER:
                    heappush(events, (groups[phase][index].time, phase, index))
            self._touched.clear()


def simulate_split(
    traffic: Traffic, prefill: Stage, decode: Stage, transfer: Transfer, *, watch: Watch | None = None
) -> Run:
    """Plays a traffic on prefill and decode replicas; the run's replicas are the prefill ones, then the decode ones."""
    if prefill.surface.bits != decode.surface.bits:
        raise InputError("disaggregate: both phases must share one clock")
    if "reserve" in (prefill.limits.kv, decode.limits.kv):
        raise InputError("disaggregate: needs a paged cache; set kv to 'paged'")
    traffic = traffic.listed()
    split = _Split(traffic, prefill, decode, transfer, watch)
    complete = split.run()
    before, after = split.ledgers
    replicas = [*split.groups[0], *split.groups[1]]
    twice = sum(1 for r, output in enumerate(traffic.output) if output > 1 and r not in split.refused)  # int
    return Run(
        bits=split.bits,
        traffic=traffic,
        limits=decode.limits,
        policy="chunked",
        replicas=len(replicas),
        complete=complete,
        refused=split.refused,
        arrival=came(before.arrival, split.reach),
        reach=split.reach,
        admitted=before.admitted,
        first=after.first,
        finish=after.finish,
        preempted=[a + b for a, b in zip(before.preempted, after.preempted, strict=True)],
        swapped=[a + b for a, b in zip(before.swapped, after.swapped, strict=True)],
        cached=before.cached,
        replica=after.replica,
        logs=[replica.log for replica in replicas],
        prompts=[replica.prompts for replica in replicas],
        free=[replica.free for replica in replicas],
        pools=[replica.limits.blocks for replica in replicas],
        host=[hosted(replica) for replica in replicas],
        made_twice=twice,
        events=sum(replica.events for replica in replicas),  # int
    )
