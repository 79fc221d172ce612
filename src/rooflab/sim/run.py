"""What came of a run: a column per quantity, the engine's log, and the laws that both must obey."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from rooflab.sim import arrays
from rooflab.sim.clock import seconds
from rooflab.sim.schedule import POLICIES, Limits
from rooflab.sim.traffic import Traffic

if TYPE_CHECKING:
    from rooflab.sim.cluster import Cluster
    from rooflab.sim.engine import Replica

Row = tuple[int, ...]
Column = Any
"""One integer per request: a list, or an array of the compiled loop."""


class Log:
    """An engine's log as arrays, in the order of `Run.logs`; it is walked row by row like the list of the Python loop."""

    def __init__(self, columns: Any):
        self.columns = columns
        (
            self.start, self.iterations, self.ticks, self.first, self.decoding, self.prompt_tokens, self.running,
            self.blocks_used,
        ) = columns  # fmt: skip

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[Row]:
        return zip(*(column.tolist() for column in self.columns), strict=True)


class Run(msgspec.Struct, kw_only=True):
    """Times in ticks of 2^−bits seconds, one entry per request; −1 for what did not happen."""

    bits: int
    traffic: Traffic
    limits: Limits
    policy: str
    replicas: int
    complete: bool
    """False when it was stopped before the end."""
    refused: dict[int, str]
    """Requests that could never run, with the reason; they have an arrival and nothing else."""
    arrival: Column
    admitted: Column
    """When a request first took a slot."""
    first: Column
    finish: Column
    preempted: Column
    swapped: Column
    """Preemptions that kept the cache in host memory."""
    cached: Column
    """Prompt tokens found in the cache."""
    replica: Column
    logs: list[list[Row]] | list[Log]
    """Per replica and event: start, iterations, ticks, ticks of the first iteration, decoding sequences (negative: they wait
    for a prompt), prompt tokens, running, blocks used."""
    prompts: list[int]
    """Per replica: prompts computed, those of preempted requests again."""
    free: list[int]
    """Per replica: free blocks at the end."""
    pools: list[int]
    """Per replica: blocks it has."""
    host: list[tuple[int, int]]
    """Per replica: most blocks in host memory, and those there at the end."""
    events: int
    reach: int = 0
    """Ticks from an arrival until the scheduler knows of it."""
    loop: str = "python"
    """Which loop played it: python, or numba where it was compiled; both give the same run."""
    why_python: str | None = None
    """What kept a run from the compiled loop that it was meant for."""
    made_twice: int | None = None
    """First tokens made by a prefill and again by a decode replica; None where one replica does both."""

    @classmethod
    def of(cls, cluster: Cluster, limits: Limits, rule: str, complete: bool) -> Run:
        """The run of a cluster that has played."""
        ledger, replicas = cluster.ledger, cluster.replicas
        return cls(
            bits=cluster.bits,
            traffic=cluster.traffic,
            limits=limits,
            policy=rule,
            replicas=len(replicas),
            complete=complete,
            refused=cluster.refused,
            arrival=came(ledger.arrival, cluster.reach),
            reach=cluster.reach,
            admitted=ledger.admitted,
            first=ledger.first,
            finish=ledger.finish,
            preempted=ledger.preempted,
            swapped=ledger.swapped,
            cached=ledger.cached,
            replica=ledger.replica,
            logs=[replica.log for replica in replicas],
            prompts=[replica.prompts for replica in replicas],
            free=[replica.free for replica in replicas],
            pools=[replica.limits.blocks for replica in replicas],
            host=[hosted(replica) for replica in replicas],
            events=sum(replica.events for replica in replicas),  # int
        )

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def compact(self) -> bool:
        """Whether the columns are arrays."""
        return not isinstance(self.arrival, list)

    # ------------------------------------------------------------------ quantities

    def served(self) -> Column:
        """Numbers of the requests that were answered, in order of arrival."""
        if self.compact:
            return arrays.served(self)
        return sorted((r for r, at in enumerate(self.finish) if at >= 0), key=lambda r: (self.arrival[r], r))

    def ends(self) -> tuple[int, int]:
        """First arrival and last completion, in ticks."""
        if self.compact:
            return arrays.ends(self)
        begun = [at for at in self.arrival if at >= 0]
        return (min(begun, default=0), max(max(self.finish, default=0), 0))

    def makespan(self) -> float:
        """Seconds from the first arrival to the last completion."""
        begin, end = self.ends()
        return seconds(max(0, end - begin), self.bits)

    def iterations(self) -> int:
        """Iterations of all replicas."""
        if self.compact:
            return arrays.exact_sum(*(log.iterations for log in self.logs))  # type: ignore[union-attr]
        total = 0
        for log in self.logs:
            for row in log:
                total += row[1]
        return total

    def columns(self) -> dict[str, Any]:
        """One row per request in seconds and tokens, in order of number: the per-request table. Lists with None for what did not
        happen, or arrays with NaN."""
        if self.compact:
            return arrays.columns(self)
        scale = math.ldexp(1.0, -self.bits)
        names = ("arrival", "admitted", "first", "finish")
        table: dict[str, list[Any]] = {"request": list(range(len(self)))}
        for name in names:
            table[name] = [at * scale if at >= 0 else None for at in getattr(self, name)]
        table["prompt"], table["output"] = list(self.traffic.prompt), list(self.traffic.output)
        table["ttft"] = [(f - a) * scale if f >= 0 else None for a, f in zip(self.arrival, self.first, strict=True)]
        table["ttft_from_admission"] = [
            (f - a) * scale if f >= 0 else None for a, f in zip(self.admitted, self.first, strict=True)
        ]
        table["tpot"] = [
            (end - f) * scale / (count - 1) if end >= 0 and count > 1 else None
            for f, end, count in zip(self.first, self.finish, self.traffic.output, strict=True)
        ]
        table["e2e"] = [
            (end - a) * scale if end >= 0 else None for a, end in zip(self.arrival, self.finish, strict=True)
        ]
        table["queue_time"] = [
            (at - a) * scale if at >= 0 else None for a, at in zip(self.arrival, self.admitted, strict=True)
        ]
        for name in ("preempted", "swapped", "cached", "replica"):
            table[name] = getattr(self, name)
        return table

    def steps(self) -> dict[str, Any]:
        """One row per event in seconds: the per-step table; a stretch of equal decode iterations is one row."""
        if self.compact:
            return arrays.steps(self)
        scale = math.ldexp(1.0, -self.bits)
        names = ("start", "iterations", "time", "first_time", "decoding", "prompt_tokens", "running", "blocks_used")
        table: dict[str, list[Any]] = {"replica": [], **{name: [] for name in names}}
        for index, log in enumerate(self.logs):
            for row in log:
                table["replica"].append(index)
                for name, value in zip(names, row, strict=True):
                    table[name].append(value * scale if name in ("start", "time", "first_time") else value)
        table["decoding"] = [max(0, count) for count in table["decoding"]]
        return table

    # ------------------------------------------------------------------ laws

    def check(self) -> None:
        """Asserts what every run must obey: conservation, causality, a monotone clock, room, order, work conservation."""
        if self.compact:
            return arrays.check(self)
        self._check_requests()
        for index, log in enumerate(self.logs):
            _check_log(log, self.limits.slots, self.pools[index])
            if self.complete:
                assert self.free[index] == self.pools[index], f"replica {index} kept blocks"
                assert not self.host[index][1], f"replica {index} left blocks in host memory"
            assert self.host[index][0] <= self.limits.host_blocks, f"replica {index}: more in host memory than it has"
        if self.complete:
            self._check_tokens()
            if self.made_twice is None:
                self._check_order()
                if not self.limits.asynchronous:
                    self._check_work()

    def _check_requests(self) -> None:
        columns = (self.arrival, self.admitted, self.first, self.finish)
        for number, (arrival, admitted, first, finish) in enumerate(zip(*columns, strict=True)):
            if number in self.refused:
                assert admitted == first == finish == -1, f"request {number} was refused and yet served"
            elif self.complete:
                assert 0 <= arrival <= admitted < first <= finish, f"request {number}: effect before cause"
                assert self.traffic.output[number] > 1 or first == finish, f"request {number}: one token, two times"
                assert 0 <= self.swapped[number] <= self.preempted[number], f"request {number}: swapped, not preempted"
                assert 0 <= self.cached[number] < self.traffic.prompt[number], f"request {number}: too much cached"

    def _check_order(self) -> None:
        """First admissions are in order of arrival among those that the policy holds equal."""
        alike = {"priority": self.traffic.priority, "shortest_first": self.traffic.prompt}.get(self.policy)
        if self.policy not in POLICIES:
            return
        latest: dict[tuple[int, int], int] = {}
        for request in self.served():
            group = (self.replica[request], alike[request] if alike is not None else 0)
            assert self.admitted[request] >= latest.get(group, 0), f"request {request} was overtaken"
            latest[group] = self.admitted[request]

    def _check_tokens(self) -> None:
        """Tokens made by decoding and by computed prompts are the answers' tokens."""
        made = 0
        for log, prompts in zip(self.logs, self.prompts, strict=True):
            made += prompts
            for row in log:
                made += row[1] * max(0, row[4])
        wanted = 0
        for number, output in enumerate(self.traffic.output):
            wanted += 0 if number in self.refused else output
        wanted += self.made_twice or 0
        assert made == wanted, f"{made} tokens made, {wanted} asked for"

    def _check_work(self) -> None:
        """No replica is idle while a request of its own waits."""
        for index, log in enumerate(self.logs):
            mine = [r for r in range(len(self)) if self.replica[r] == index and r not in self.refused]
            arrivals = sorted(self.arrival[r] + self.reach for r in mine)
            finishes = sorted(self.finish[r] for r in mine)
            end = -1
            for row in log:
                if row[0] > end >= 0:
                    came, gone = bisect_left(arrivals, row[0]), bisect_right(finishes, end)
                    assert came == gone, f"replica {index} idles at {end} with work to do"
                end = row[0] + row[2]


def came(known: list[int], reach: int) -> list[int]:
    """Arrivals of requests, from when the scheduler knew of them."""
    return [at - reach if at >= 0 else at for at in known] if reach else known


def hosted(replica: Replica) -> tuple[int, int]:
    """Most blocks of a replica in host memory, and those there now."""
    return (0, 0) if replica.host is None else (replica.host.peak, replica.host.used)


def _check_log(log: Iterable[Row], slots: int, blocks: int) -> None:
    """The clock never runs back, and slots, tokens and blocks stay within the limits."""
    end = 0
    for start, count, duration, first, decoding, prompt, running, used in log:
        assert start >= end, "two iterations at once"
        assert count >= 1
        assert 1 <= first <= duration, "an iteration without time"
        assert 0 <= used <= blocks, "more cache than there is"
        assert abs(decoding) <= running <= slots, "more sequences than slots"
        assert decoding > 0 or prompt > 0, "an iteration without work"
        end = start + duration
