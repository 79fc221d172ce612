"""Who comes, when, with how many tokens: requests as columns, drawn from distributions or read from a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Annotated, Any

import msgspec

from rooflab.sim import draws
from rooflab.sim.streams import exp, exponential, gamma, log, normal, stream
from rooflab.units import InputError, parse, parse_count, shown

LONGEST = 2**24
"""Tokens a prompt or an answer may have."""
MOST = 10**7
"""Requests a run may have."""
MANY = 200_000
"""Requests from which columns are arrays where NumPy is installed, and a compiled loop pays."""


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Requests as columns, one entry each, in the order of their numbers: lists, or arrays of many requests.

    A request without an arrival of its own comes after others: a conversation's next turn `think` seconds after its predecessor
    has finished; the next of a list that `users` send between them `think` seconds after the answer to any.
    """

    arrival: list[float | None]
    """Seconds; None for a request that comes after others."""
    prompt: list[int]
    output: list[int]
    priority: list[int] | None = None
    """Smaller is served first by the priority policy."""
    follows: list[int | None] | None = None
    """Number of the predecessor."""
    users: int | None = None
    """Users of a closed loop, as many as have an arrival: whoever is answered sends the next request of the list."""
    think: list[float] | None = None
    """Seconds between the end of what it waits for and this arrival."""
    hashes: list[tuple[int, ...]] | None = None
    """Names of the prompt's leading blocks of `hash_tokens` tokens; equal prefixes have equal names."""
    hash_tokens: int = 512
    session: list[int] | None = None
    """Conversation of each request; its prompt begins with everything said before."""
    title: str = ""
    """How the traffic came about, for people."""

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def free(self) -> bool:
        """Whether every request comes at a moment of its own, whatever the engine does."""
        return self.follows is None and self.users is None

    def listed(self) -> Traffic:
        """The same with plain lists, which walk faster one by one."""
        columns = {name: getattr(self, name) for name in ("arrival", "prompt", "output")}
        changes = {name: column.tolist() for name, column in columns.items() if not isinstance(column, list)}
        return msgspec.structs.replace(self, **changes) if changes else self

    def part(self, first: int, count: int) -> Traffic:
        """Requests `first` to `first + count` of an open-loop traffic, in the same order."""
        if not self.free:
            raise InputError("requests: traffic whose requests follow one another cannot be cut")
        piece = slice(first, first + count)
        changes: dict[str, Any] = {name: getattr(self, name)[piece] for name in ("arrival", "prompt", "output")}
        for name in ("priority", "hashes", "session"):
            column = getattr(self, name)
            changes[name] = None if column is None else column[piece]
        return msgspec.structs.replace(self, **changes)

    def faster(self, factor: float) -> Traffic:
        """The same requests arriving `factor` times as fast."""
        arrival: Any = (
            [None if moment is None else moment / factor for moment in self.arrival]
            if isinstance(self.arrival, list)
            else self.arrival / factor
        )
        return msgspec.structs.replace(self, arrival=arrival, title=f"{self.title}, {factor:g}× as fast")


# ---------------------------------------------------------------------------------------------- lengths


class Lengths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A distribution of token counts; samples are whole numbers of at least `least`, at most `most`."""

    form: str
    """fixed | uniform | geometric | normal | lognormal | choice."""
    a: float
    """fixed: the count; uniform: least; others: the mean."""
    b: float = 0.0
    """uniform: most; normal: standard deviation; lognormal: standard deviation over mean."""
    values: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    least: Annotated[int, msgspec.Meta(ge=1)] = 1
    most: int = LONGEST

    def sampler(self, rng: Random) -> Callable[[], int]:
        """A function that draws one length after the other."""
        if self.form == "fixed":
            count = int(self.a)
            return lambda: count
        draw = _DRAWS[self.form](self, rng)
        return lambda: min(self.most, max(self.least, round(draw())))

    def mean(self) -> float:
        """The mean before bounds are applied."""
        if self.form == "uniform":
            return (self.a + self.b) / 2.0
        if self.form == "choice":
            total = 0.0
            for value, weight in zip(self.values, self.weights, strict=True):
                total += value * weight
            return total
        return self.a


def _uniform(lengths: Lengths, rng: Random) -> Callable[[], float]:
    low, width = int(lengths.a), int(lengths.b) - int(lengths.a) + 1
    return lambda: low + int(rng.random() * width)


def _geometric(lengths: Lengths, rng: Random) -> Callable[[], float]:
    """Counts from 1 with the given mean."""
    if lengths.a <= 1.0:
        return lambda: 1.0
    rate = -log(1.0 - 1.0 / lengths.a)
    return lambda: 1 + int(exponential(rng) / rate)


def _normal(lengths: Lengths, rng: Random) -> Callable[[], float]:
    return lambda: lengths.a + lengths.b * normal(rng)


def _lognormal(lengths: Lengths, rng: Random) -> Callable[[], float]:
    variance = log(1.0 + lengths.b * lengths.b)
    centre, spread = log(lengths.a) - variance / 2.0, variance**0.5
    return lambda: exp(min(40.0, centre + spread * normal(rng)))


def _choice(lengths: Lengths, rng: Random) -> Callable[[], float]:
    edges, total = [], 0.0
    for weight in lengths.weights:
        total += weight
        edges.append(total)

    def draw() -> float:
        x = rng.random() * total
        return float(next((v for v, edge in zip(lengths.values, edges, strict=True) if x < edge), lengths.values[-1]))

    return draw


_DRAWS = {
    "uniform": _uniform, "geometric": _geometric, "normal": _normal, "lognormal": _lognormal, "choice": _choice,
}  # fmt: skip
_PARAMETERS = {"fixed": 1, "uniform": 2, "geometric": 1, "normal": 2, "lognormal": 2}


def lengths(text: str | int | float, field: str) -> Lengths:
    """A distribution from its text: 1024, uniform:100:2000, geometric:256, normal:500:100, lognormal:1024:0.8
    (mean, spread over mean), choice:128@0.7,2048@0.3.

    Raises InputError that shows the forms there are.
    """
    name, _, rest = str(text).strip().partition(":")
    if not rest:
        return Lengths(form="fixed", a=float(_count(text, field)))
    if name == "choice":
        return _read_choice(rest, field)
    parts = rest.split(":")
    if name not in _PARAMETERS or len(parts) != _PARAMETERS[name]:
        raise InputError(
            f"{field}: {shown(text)} is not a length; write 1024, uniform:100:2000, geometric:256, normal:500:100, "
            "lognormal:1024:0.8 or choice:128@0.7,2048@0.3"
        )
    a = float(_count(parts[0], field))
    b = parse(parts[1], "1", field) if len(parts) > 1 else 0.0
    if name == "uniform" and not a <= b <= LONGEST:
        raise InputError(f"{field}: {shown(text)} must run from the smaller to the larger, up to {LONGEST:,}")
    if name == "lognormal" and not 0.0 < b <= 20.0:
        raise InputError(
            f"{field}: {shown(text)}: the spread over mean must be above 0 and at most 20, for example 0.8"
        )
    return Lengths(form=name, a=a, b=float(b))


def _count(text: Any, field: str) -> int:
    return parse_count(text, field, dimension="token", least=1, most=LONGEST)


def _read_choice(text: str, field: str) -> Lengths:
    pairs = [item.partition("@") for item in text.split(",")]
    values = tuple(_count(value, field) for value, _, _ in pairs)
    weights = tuple(parse(weight or "1", "1", field, positive=True) for _, _, weight in pairs)
    total = 0.0
    for weight in weights:
        total += weight
    return Lengths(form="choice", a=0.0, values=values, weights=tuple(weight / total for weight in weights))


# ---------------------------------------------------------------------------------------------- arrivals


def _check(requests: int) -> None:
    if not 1 <= requests <= MOST:
        raise InputError(f"requests: {requests:,} must be between 1 and {MOST:,}")


def open_loop(
    requests: int, rate: float, prompt: Lengths, output: Lengths, *, seed: int = 0, variation: float = 1.0
) -> Traffic:
    """Requests that come at a mean rate whatever the system does.

    Gaps are exponential (Poisson arrivals) when their coefficient of variation is 1, else gamma; 0 spaces them evenly.
    """
    _check(requests)
    if not rate > 0.0:
        raise InputError(f"rate: {rate} must be above zero, in requests per second; for example 10")
    kind = "Poisson" if variation == 1.0 else "evenly spaced" if not variation else f"gamma (variation {variation:g})"
    title = f"{kind} arrivals at {rate:g} requests/s, seed {seed}"
    gaps = stream(seed, "arrivals")
    if as_arrays(requests) and variation in (0.0, 1.0):
        arrival = draws.arrivals(gaps, requests, rate, variation)
        return _drawn(requests, prompt, output, seed, arrival=arrival, title=title)
    moment, arrival = 0.0, []
    shape = 1.0 / (variation * variation) if variation else 0.0
    for _ in range(requests):
        if variation == 1.0:
            moment += exponential(gaps) / rate
        else:
            moment += gamma(gaps, shape) / shape / rate if shape else 1.0 / rate
        arrival.append(moment)
    return _drawn(requests, prompt, output, seed, arrival=arrival, title=title)


def burst(requests: int, prompt: Lengths, output: Lengths, *, seed: int = 0) -> Traffic:
    """Requests that are all there at the start."""
    _check(requests)
    return _drawn(requests, prompt, output, seed, arrival=[0.0] * requests, title=f"all at once, seed {seed}")


def spread(distribution: Lengths, share: float) -> Lengths:
    """One length as lengths that differ from it by up to a share of it to either side, all as likely; others as they are."""
    side = round(distribution.a * share)
    if distribution.form != "fixed" or not side:
        return distribution
    return Lengths(form="uniform", a=distribution.a - side, b=distribution.a + side)


def closed_loop(
    requests: int, users: int, prompt: Lengths, output: Lengths, *, seed: int = 0, think: float = 0.0
) -> Traffic:
    """Users who send a list of requests between them: each the next one when its last is answered and a mean `think` time
    (exponential) has passed, as benchmarks with a fixed concurrency do."""
    _check(requests)
    if users < 1:
        raise InputError(f"concurrency: {users} must be at least 1")
    pauses = stream(seed, "think")
    first = min(users, requests)
    arrival: list[float | None] = [0.0] * first + [None] * (requests - first)
    waits = [exponential(pauses) * think if think and r >= users else 0.0 for r in range(requests)]
    title = f"closed loop of {users} users, seed {seed}"
    return _drawn(requests, prompt, output, seed, arrival=arrival, users=first, think=waits, title=title)


def conversations(
    sessions: int, turns: int, rate: float, prompt: Lengths, output: Lengths, *, seed: int = 0, think: float = 10.0
) -> Traffic:
    """Conversations of several turns: each prompt is everything said before and the new text, sent after a pause."""
    _check(sessions * turns)
    opened = open_loop(sessions, rate, prompt, output, seed=seed).arrival
    asks, answers = prompt.sampler(stream(seed, "prompt")), output.sampler(stream(seed, "output"))
    pauses = stream(seed, "think")
    columns: dict[str, Any] = {n: [] for n in ("arrival", "prompt", "output", "follows", "think", "session")}
    for number in range(sessions):
        said = 0
        for turn in range(turns):
            here = len(columns["prompt"])
            new, answer = asks(), answers()
            columns["arrival"].append(None if turn else opened[number])
            columns["follows"].append(here - 1 if turn else None)
            columns["think"].append(exponential(pauses) * think if turn else 0.0)
            columns["prompt"].append(said + new)
            columns["output"].append(answer)
            columns["session"].append(number)
            said += new + answer
    title = f"{sessions} conversations of {turns} turns starting at {rate:g} a second, seed {seed}"
    return Traffic(**columns, title=title)


def _drawn(requests: int, prompt: Lengths, output: Lengths, seed: int, **columns: Any) -> Traffic:
    return Traffic(
        prompt=_sampled(prompt, stream(seed, "prompt"), requests),
        output=_sampled(output, stream(seed, "output"), requests),
        **columns,
    )


def as_arrays(requests: int) -> bool:
    """Whether so many requests are kept in arrays."""
    return requests >= MANY and draws.installed()


def _sampled(distribution: Lengths, rng: Random, requests: int) -> Any:
    if as_arrays(requests):
        return draws.lengths(distribution, rng, requests)
    if distribution.form == "fixed":
        return [int(distribution.a)] * requests
    draw = distribution.sampler(rng)
    return [draw() for _ in range(requests)]


def of_columns(arrival: Sequence[float], prompt: Sequence[int], output: Sequence[int], **more: Any) -> Traffic:
    """Traffic from plain columns of equal length."""
    return Traffic(arrival=list(arrival), prompt=list(prompt), output=list(output), **more)
