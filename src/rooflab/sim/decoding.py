"""The decoding sequences of a replica in aggregate: what an iteration needs to know without looking at each of them.

All of them advance by one token per iteration, so one counter of iterations tells everybody's progress, sums stand for the
batch, and completions wait in a heap.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import sqrt


class Decoding:
    """How many sequences decode, how much they attend to, when they need blocks and when they end."""

    __slots__ = (
        "_base",
        "_block",
        "_counts",
        "_finish_at",
        "_heap",
        "_phase",
        "_requests",
        "batch",
        "iteration",
        "total",
    )

    def __init__(self, requests: int, block_tokens: int):
        self._requests, self._block = requests, block_tokens
        self.batch = self.total = self.iteration = 0
        """Sequences, tokens they attend to together in the next iteration, and iterations so far."""
        self._base: dict[int, int] = {}
        """Tokens in the cache less the counter."""
        self._phase: dict[int, int] = {}
        self._counts = [0] * block_tokens
        """Sequences that need a new block when the counter modulo the block size has this value."""
        self._heap: list[int] = []
        self._finish_at: dict[int, int] = {}

    def add(self, request: int, stored: int, left: int) -> None:
        """A sequence with `stored` tokens in the cache and `left` iterations to go joins."""
        iteration = self.iteration
        base = self._base[request] = stored - iteration
        phase = self._phase[request] = -base % self._block
        self._counts[phase] += 1
        self.batch += 1
        self.total += stored + 1
        at = self._finish_at[request] = iteration + left
        heappush(self._heap, at * self._requests + request)

    def remove(self, request: int) -> int:
        """A sequence leaves before its end; returns its tokens in the cache."""
        stored = self._base.pop(request) + self.iteration
        self.batch -= 1
        self.total -= stored + 1
        self._counts[self._phase.pop(request)] -= 1
        del self._finish_at[request]
        return stored

    def finished(self, finished: list[int]) -> None:
        """Sequences that end now leave and join the list."""
        heap, iteration, requests = self._heap, self.iteration, self._requests
        edge = (iteration + 1) * requests
        while heap and heap[0] < edge:
            at, request = divmod(heappop(heap), requests)
            if self._finish_at.get(request) == at:
                del self._finish_at[request]
                finished.append(request)
                self.batch -= 1
                self.total -= self._base.pop(request) + iteration + 1
                self._counts[self._phase.pop(request)] -= 1

    def to_next_finish(self) -> int:
        """Iterations until the first of them ends."""
        heap, requests = self._heap, self._requests
        at, request = divmod(heap[0], requests)
        while self._finish_at.get(request) != at:
            heappop(heap)
            at, request = divmod(heap[0], requests)
        return at - self.iteration

    def needs_block_now(self, request: int) -> bool:
        """Whether this sequence needs a new block in the next iteration."""
        return self._phase[request] == self.iteration % self._block

    def blocks_now(self) -> int:
        """Blocks that the next iteration takes."""
        return self._counts[self.iteration % self._block]

    def growth(self, count: int) -> int:
        """Blocks that the next `count` iterations take."""
        whole, rest = divmod(count, self._block)
        blocks = whole * self.batch
        if rest:
            counts, first = self._counts, self.iteration % self._block
            end = first + rest
            if end <= self._block:
                blocks += sum(counts[first:end])  # int
            else:
                blocks += sum(counts[first:]) + sum(counts[: end - self._block])  # int
        return blocks

    def within(self, count: int, free: int) -> int:
        """The most iterations, up to `count`, whose new blocks are free; at least one."""
        if self.batch * -(-count // self._block) <= free or self.growth(count) <= free:
            return count
        done = free // self.batch * self._block
        left, phase = free % self.batch, self.iteration % self._block
        while done < count:
            left -= self._counts[(phase + done) % self._block]
            if left < 0:
                break
            done += 1
        return max(1, done)


def span(count: int, gap: int, slope: int) -> int:
    """Ticks of `count` iterations of gap, gap + slope, gap + 2 slope, …"""
    return count * gap + slope * (count * (count - 1) // 2)


def iterations(gap: int, slope: int, distance: int) -> int:
    """Fewest iterations, at least one, whose span is `distance` or more.

    A quadratic in floats gives a first guess (in the form that does not cancel); the exact span decides.
    """
    if slope:
        edge = gap - slope / 2.0
        count = int(2.0 * distance / (edge + sqrt(edge * edge + 2.0 * slope * distance))) or 1
    else:
        count = -(-distance // gap)
    while span(count, gap, slope) < distance:
        count += 1
    while count > 1 and span(count - 1, gap, slope) >= distance:
        count -= 1
    return max(1, count)
