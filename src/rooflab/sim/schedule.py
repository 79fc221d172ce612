"""What an engine may do: its limits, the policies that order and admit work, and the routers that spread it.

A policy is any object with the attributes of `Policy`; it sees prompts, priorities and arrivals, never the length of an answer.
A router is any object with `pick(number, prompt, replicas)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Protocol

import msgspec

from rooflab.units import InputError, nearest

Positive = Annotated[int, msgspec.Meta(ge=1, le=2**40)]  # count


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The engine's limits, in the words of vLLM's V1 scheduler where it has one for them."""

    blocks: Positive
    """Usable blocks of KV cache; vLLM keeps one of its own aside, which is not counted here."""
    block_tokens: Positive = 16
    slots: Positive = 256
    """Sequences at once: max_num_seqs."""
    budget: Positive = 8192
    """Tokens an iteration may compute: max_num_batched_tokens; a decoding sequence takes one."""
    kv: Literal["paged", "reserve"] = "paged"
    """paged: blocks as tokens come, preemption when they run out; reserve: prompt and answer up front."""
    chunked: bool = True
    """Whether a prompt may be computed over several iterations."""
    whole_prompt: bool = True
    """Whether admission needs free blocks for the whole prompt, not only for its first chunk."""
    context: Positive | None = None
    """Tokens a request may have in all: max_model_len, the model's longest context."""
    reach: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    """Seconds from a request's arrival until the scheduler knows of it: tokenising, queues between processes."""
    asynchronous: bool = False
    """Whether an iteration is decided when the one before it starts: async_scheduling."""
    caching: bool = False
    """Whether blocks stay findable after use: prefix caching, and a preempted request's own blocks."""
    host_blocks: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 0  # count
    """Blocks of host memory that take the cache of preempted requests (swap); one that does not fit there is computed again."""
    swap_time: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    """Seconds that a block takes to the host, and back again; the engine waits for it."""


class Policy(Protocol):
    """Order, admission and preemption; any object with these attributes will do."""

    @property
    def name(self) -> str: ...

    @property
    def mixes(self) -> bool:
        """Whether prompt chunks and decoding share an iteration; otherwise prompts go first and decoding waits."""
        ...

    @property
    def refills(self) -> bool:
        """Whether a running batch takes new requests; otherwise only an empty one does, and its prompts are computed at once."""
        ...

    @property
    def key(self) -> Callable[[int, int, int, int], Any] | None:
        """(prompt, priority, arrival, number) to what waiting requests are sorted by; None serves in order of arrival."""
        ...

    @property
    def ranks(self) -> bool:
        """Whether who comes last by the key is preempted first and waits in the key's order; otherwise the latest admitted is,
        and waits in front of all others."""
        ...


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A policy as a record."""

    name: str
    title: str
    mixes: bool = True
    refills: bool = True
    key: Callable[[int, int, int, int], Any] | None = None
    ranks: bool = False


POLICIES: dict[str, Named] = {
    policy.name: policy
    for policy in (
        Named(name="chunked", title="continuous batching, decoding first, prompts in chunks (vLLM V1)"),
        Named(name="prefill_first", title="continuous batching, prompts before decoding", mixes=False),
        Named(name="static", title="a new batch when the last has ended", mixes=False, refills=False),
        Named(
            name="shortest_first",
            title="chunked, shortest waiting prompt first",
            key=lambda prompt, priority, arrival, number: (prompt, arrival, number),
        ),
        Named(
            name="priority",
            title="chunked, smallest priority number first; the largest is preempted first when blocks run out (vLLM's priority)",
            key=lambda prompt, priority, arrival, number: (priority, arrival, number),
            ranks=True,
        ),
    )
}


def policy(name: str) -> Policy:
    """The policy of that name.

    Raises InputError naming those there are.
    """
    if name not in POLICIES:
        raise InputError(f"policy: {name!r} is not one of {', '.join(POLICIES)}{nearest(name, POLICIES)}")
    return POLICIES[name]


class Load(Protocol):
    """What a router may look at in a replica."""

    @property
    def outstanding(self) -> int:
        """Requests waiting or running."""
        ...

    def known(self, number: int) -> int:
        """Tokens of the request's prompt this replica has in its cache."""
        ...


class Router(Protocol):
    """Chooses the replica of each arriving request."""

    looks: bool
    """Whether it looks at the replicas; those that do not are simulated apart."""

    def pick(self, number: int, prompt: int, replicas: Sequence[Load]) -> int:
        """Index of the replica for the `number`-th arrival with a prompt of that many tokens."""
        ...


class RoundRobin:
    """One after the other."""

    looks = False

    def pick(self, number: int, prompt: int, replicas: Sequence[Load]) -> int:
        return number % len(replicas)


class LeastLoaded:
    """The replica with the fewest requests; the first of equals."""

    looks = True

    def pick(self, number: int, prompt: int, replicas: Sequence[Load]) -> int:
        loads = [replica.outstanding for replica in replicas]
        return loads.index(min(loads))


class PrefixAware:
    """The replica that knows most of the prompt; the least loaded of equals, or of all when one is overloaded."""

    looks = True

    def __init__(self, tolerance: int = 8):
        self.tolerance = tolerance
        """Requests a replica may have above the least loaded before its cache no longer counts."""

    def pick(self, number: int, prompt: int, replicas: Sequence[Load]) -> int:
        loads = [replica.outstanding for replica in replicas]
        most = min(loads) + self.tolerance
        return min(
            (index for index, load in enumerate(loads) if load <= most),
            key=lambda index: (-replicas[index].known(number), loads[index], index),
        )


class LengthTiers:
    """Short prompts to the first half of the replicas, long ones to the second, least loaded within."""

    looks = True

    def __init__(self, edge: int = 2048):
        self.edge = edge

    def pick(self, number: int, prompt: int, replicas: Sequence[Load]) -> int:
        half = len(replicas) // 2
        tier = range(half, len(replicas)) if prompt > self.edge or not half else range(half)
        return min(tier, key=lambda index: replicas[index].outstanding)


ROUTERS: dict[str, Callable[[], Router]] = {
    "round_robin": RoundRobin,
    "least_loaded": LeastLoaded,
    "prefix_aware": PrefixAware,
    "length_tiers": LengthTiers,
}


def router(name: str) -> Router:
    """A new router of that name.

    Raises InputError naming those there are.
    """
    if name not in ROUTERS:
        raise InputError(f"router: {name!r} is not one of {', '.join(ROUTERS)}{nearest(name, ROUTERS)}")
    return ROUTERS[name]()
