"""Blocks that stay findable after use: the free queue of an engine with prefix caching, run-length encoded.

Freed blocks join the end of a queue, the last block of a request first, and are taken from its head, so what survives of a
request is always a prefix of it. A hit takes its blocks out of the middle. Shared prefixes are found by the names of whole
groups of blocks; a preempted request, or a conversation's next turn, finds its own blocks by its number.
"""

from __future__ import annotations

from collections import deque

from rooflab.sim.traffic import Traffic
from rooflab.units import InputError

_Segment = list[int]


class PrefixCache:
    """The order of free blocks, and which of them hold something that can be found again."""

    def __init__(self, traffic: Traffic, blocks: int, block_tokens: int):
        self._block = block_tokens
        self._unit_tokens = traffic.hash_tokens
        self._hashes = traffic.hashes
        self._prompt = traffic.prompt
        self._session = traffic.session
        self._requests = len(traffic)
        if traffic.hashes is not None and traffic.hash_tokens % block_tokens:
            raise InputError(
                f"block_tokens: {block_tokens} must divide the {traffic.hash_tokens} tokens that a prompt's hash covers"
            )
        self._unit = traffic.hash_tokens // block_tokens
        self._queue: deque[tuple[int | None, _Segment]] = deque([(None, [blocks])])
        self._idle: dict[int, _Segment] = {}
        """Findable blocks nobody uses: name to the number of blocks that survive."""
        self._used: dict[int, int] = {}
        """Findable blocks in use: name to how many requests use them."""
        self._held: dict[int, list[int | None]] = {}
        """Groups of each running request with hashes; None for a copy of a group that has a name already."""

    def owner(self, request: int) -> int:
        """The name under which a request without hashes finds its own blocks; hashes are not negative."""
        return -1 - (request if self._session is None else self._requests + self._session[request])

    def take(self, blocks: int) -> None:
        """Blocks leave the head of the queue and forget what they held."""
        queue = self._queue
        while blocks:
            name, segment = queue[0]
            here = segment[0]
            if here > blocks:
                segment[0] = here - blocks
                if name is not None and name >= 0:  # a group is of use only whole
                    del self._idle[name]
                    queue[0] = (None, segment)
                return
            queue.popleft()
            blocks -= here
            if name is not None and here:
                del self._idle[name]

    def match(self, request: int, target: int) -> tuple[int, int]:
        """(tokens found of the first target − 1, blocks of them that are in use and so cost no free block)."""
        if self._hashes is None:
            own = self._idle.get(self.owner(request))
            return (min(own[0], (target - 1) // self._block) * self._block if own else 0), 0
        found = shared = 0
        most = min(target - 1, self._prompt[request]) // self._unit_tokens
        for name in self._hashes[request][:most]:
            if name in self._used:
                shared += self._unit
            elif name not in self._idle:
                break
            found += self._unit_tokens
        return found, shared

    def claim(self, request: int, tokens: int) -> int:
        """A request starts with the tokens it found; returns the blocks that leave the free queue for it."""
        if self._hashes is None:
            if tokens:
                segment = self._idle.pop(self.owner(request))
                taken = tokens // self._block
                rest, segment[0] = segment[0] - taken, 0
                if rest:
                    self._queue.appendleft((None, [rest]))
                return taken
            return 0
        names: list[int | None] = list(self._hashes[request][: tokens // self._unit_tokens])
        self._held[request] = names
        left = 0
        for name in names:
            assert name is not None
            if name in self._used:
                self._used[name] += 1
            else:
                self._idle.pop(name)[0] = 0
                self._used[name] = 1
                left += self._unit
        return left

    def computed(self, request: int, tokens: int) -> None:
        """The first `tokens` of a request are being computed; whole groups get their names at once."""
        if self._hashes is None:
            return
        held, names = self._held[request], self._hashes[request]
        for index in range(len(held), min(len(names), min(tokens, self._prompt[request]) // self._unit_tokens)):
            name = names[index]
            if name in self._used or name in self._idle:
                held.append(None)
            else:
                self._used[name] = 1
                held.append(name)

    def give(self, request: int, blocks: int, tokens: int, keep: bool) -> int:
        """A request lets go of its blocks, which hold `tokens`, last block first; returns how many are free now.

        `keep`: it, or the next turn of its conversation, may come back for them.
        """
        queue = self._queue
        if self._hashes is None:
            whole = tokens // self._block if keep else 0
            if blocks > whole:
                queue.append((None, [blocks - whole]))
            if whole:
                name = self.owner(request)
                old = self._idle.pop(name, None)
                segment = self._idle[name] = [whole]
                queue.append((name, segment))
                if old is not None:
                    rest, old[0] = old[0], 0
                    queue.appendleft((None, [rest]))
            return blocks
        held = self._held.pop(request)
        private = blocks - len(held) * self._unit
        freed = private
        if private:
            queue.append((None, [private]))
        for name in reversed(held):
            if name is not None:
                self._used[name] -= 1
                if self._used[name]:
                    continue
                del self._used[name]
                segment = self._idle[name] = [self._unit]
                queue.append((name, segment))
            else:
                queue.append((None, [self._unit]))
            freed += self._unit
        return freed
