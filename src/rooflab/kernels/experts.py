"""Routed experts: the grouped products of a mixture's experts, with their activation and permutation, as one layer."""

from __future__ import annotations

import math
import random
from functools import lru_cache
from typing import Any

import msgspec

from rooflab import num
from rooflab.kernels.machine import Machine, Parts, soft_maximum

Number = Any

TILE_ROWS = (16.0, 32.0, 64.0, 128.0, 256.0)
COLUMNS = 128.0
FEW_WAVES = 4.0
"""Waves beyond which an incomplete last wave no longer shows."""
SHARPNESS = 2.0
LEAST_SUPPLY = 2048.0
"""FLOP a clock and multiprocessor, as A100 has for 16 bits, up to which operands are supplied alike."""
POPULARITY = 100.0
"""How many times more often the most popular expert is chosen than the least, in real text (assumed)."""
_STEPS = [POPULARITY ** ((place + 0.5) / 8.0) for place in range(8)]
SHARES = tuple(step * len(_STEPS) / math.fsum(_STEPS) for step in _STEPS)
"""Popularity of eight equal groups of experts, least popular first; one is the mean."""
UNEVENNESS = (math.fsum(share * share for share in SHARES) / len(SHARES) - 1.0) ** 0.5
"""Standard deviation of popularity over its mean."""
LOG_OF_TWO = math.log(2.0)
LARGEST_SHARE = 0.8
"""Largest share of a token's choices the skewed routing gives one expert."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device, format and library decide about an expert layer."""

    launch: Number
    compute: Number
    memory: Number
    permute: Number
    """Share of the bandwidth at which tokens are gathered and scattered."""
    rows: Number
    """Rows, in units of 64, at which a tile reaches half its rate."""
    fill: Number = 0.0
    """Seconds to start a wave of tiles."""


PRIORS: dict[str, tuple[float, float]] = {
    "launch": (25.0e-6, 0.5),
    "compute": (0.6, 0.35),
    "memory": (0.85, 0.3),
    "permute": (0.3, 0.6),
    "rows": (0.5, 0.5),
    "fill": (1.0e-6, 1.0),
}


MAKES = ("marlin", "deepgemm", "trtllm", "cutlass", "triton")
"""Libraries of expert kernels, by the word that gives them away in a kernel's name; the first that fits."""
UNMARKED = ("fused_moe", "mxfp4_moe")
"""Names of engines' own kernels, written in Triton, that do not say so."""


def make(kernel: str) -> str:
    """The library a kernel of that name comes from, "" where the name does not say."""
    plain = kernel.lower()
    found = next((word for word in MAKES if word in plain), "")
    return found or ("triton" if any(word in plain for word in UNMARKED) else "")


class Load(msgspec.Struct, frozen=True):
    """What one rank's experts receive."""

    pairs: Number
    """Token–expert pairs."""
    distinct: Number
    """Experts that receive any: their weights are read."""
    tiles: tuple[Number, ...]
    """Row tiles of all experts, one count per entry of TILE_ROWS."""


def even_load(pairs: Number, distinct: Number) -> Load:
    """Every expert that is used at all receives the same number of pairs."""
    mean = pairs / num.maximum(distinct, 1e-9)
    return Load(pairs, distinct, tuple(distinct * num.ceil(mean / rows) for rows in TILE_ROWS))


def heaviest(experts: Number, ranks: Number) -> Number:
    """The busiest of `ranks` over their mean, where experts of unequal popularity are placed regardless of it.

    Counts: the expected largest of that many sums of experts drawn without replacement, as of a normal distribution.
    Source: order statistics; docs/accuracy.md, routed experts.
    Holds: no replicas of popular experts.
    """
    own = experts / ranks
    spread = UNEVENNESS * ((experts - own) / num.maximum(experts - 1.0, 1.0) / own) ** 0.5
    return 1.0 + spread * num.maximum((2.0 * num.log2(ranks) * LOG_OF_TWO) ** 0.5 - 0.62, 0.0)


def uneven_load(tokens: Number, experts: Number, topk: Number, ranks: Number) -> Load:
    """What the busiest rank's experts receive of real text: popularity is log-uniform, POPULARITY times from end to end.

    Counts: expected experts hit and expected row tiles, each token choosing an expert at most once.
    Source: docs/accuracy.md, routed experts.
    Holds: experts placed regardless of their popularity; the spread is assumed, and matters little between 60 and 400.
    """
    plain = not any(num.is_array(value) for value in (tokens, experts, topk, ranks))
    smaller, larger = (min, max) if plain else (num.minimum, num.maximum)  # a loop over numbers is quick without `num`
    chance, times = topk / experts * heaviest(experts, ranks), larger(tokens, 1.0)
    fewer, share = smaller(tokens, 1.0), experts / ranks / len(SHARES)
    pairs: Number = 0.0
    distinct: Number = 0.0
    tiles: list[Number] = [0.0] * len(TILE_ROWS)
    for popularity in SHARES:
        hit = smaller(chance * popularity, 1.0)
        load, used = hit * tokens, (1.0 - (1.0 - hit) ** times) * fewer
        pairs, distinct = pairs + load * share, distinct + used * share
        for place, rows in enumerate(TILE_ROWS):
            tiles[place] = tiles[place] + (used + larger(load / rows - used / 2.0, 0.0)) * share
    return Load(pairs, distinct, tuple(tiles))


def skewed_range(tokens: float, experts: int, topk: float) -> tuple[float, float]:
    """Ends of the power law from which relative popularity is drawn: wide where tokens are many, else for a few hits."""
    return (1.0, max(LARGEST_SHARE * tokens, 1.0 + 1e-9)) if tokens * topk > experts else (0.01, 2.0)


def skewed_counts(tokens: float, experts: int, topk: float, exponent: float) -> list[float]:
    """Pairs of each expert, most popular first: quantiles of a truncated power law, rounded to whole pairs that add up."""
    low, high = skewed_range(tokens, experts, topk)
    power = 1.0 - exponent
    start, span = low**power, high**power - low**power
    values = [(start + (1.0 - (e + 0.5) / experts) * span) ** (1.0 / power) for e in range(experts)]
    whole, pairs = math.fsum(values), round(tokens * topk)
    counts = [float(round(value / whole * pairs)) for value in values]
    missing = round(pairs - math.fsum(counts))
    if missing >= 0:
        return [count + missing // experts + (e < missing % experts) for e, count in enumerate(counts)]
    used = len([count for count in counts if count > 0])
    return [count - (used + missing <= e < used) for e, count in enumerate(counts)]


@lru_cache(maxsize=64)
def shuffled(experts: int) -> tuple[int, ...]:
    """A fixed order that has nothing to do with popularity: which expert sits where."""
    order = list(range(experts))
    random.Random(experts).shuffle(order)
    return tuple(order)


def skewed_load(tokens: float, experts: int, topk: float, ranks: int, exponent: float) -> Load:
    """The heaviest rank's load where popularity follows a power law and experts are placed regardless of it."""
    counts = skewed_counts(tokens, experts, topk, exponent)
    size = experts // ranks
    placed = [counts[e] for e in shuffled(experts)]
    groups = [placed[start : start + size] for start in range(0, size * ranks, size)]
    own = max(groups, key=math.fsum)
    tiles = tuple(math.fsum(num.ceil(load / rows) for load in own) for rows in TILE_ROWS)
    return Load(math.fsum(own), float(len([load for load in own if load > 0])), tiles)


def seconds(
    load: Load,
    hidden: Number,
    up: Number,
    inter: Number,
    activation: float,
    weight: float,
    machine: Machine,
    p: Parameters,
    routed: Number | None = None,
) -> Parts:
    """Time of hidden → `up` (gate included) → activation → `inter` → hidden for a load.

    Permutation runs over `routed` pairs: all that the rank's tokens have, whichever rank their experts are on.

    Small tiles wait for operands, whose supply does not shrink with a multiprocessor's arithmetic.

    Counts: weights of the experts used, idle rows of their tiles, idle units of few waves, activations in and out.
    Source: docs/accuracy.md, routed experts.
    Holds: grouped products over sorted tokens.
    """
    wide, narrow = num.ceil(up / COLUMNS), num.ceil(hidden / COLUMNS)
    supplied = num.minimum(machine.rate / (machine.units * machine.clock * LEAST_SUPPLY), 1.0)
    compute: Number = None
    for rows, tiles in zip(TILE_ROWS, load.tiles, strict=True):
        rate = machine.rate * p.compute * rows / (rows + 64.0 * p.rows * supplied)
        first, second = wide * tiles / machine.units, narrow * tiles / machine.units
        first = num.where(first <= FEW_WAVES, num.ceil(first), first)
        second = num.where(second <= FEW_WAVES, num.ceil(second), second)
        time = (first * hidden + second * inter) * (2.0 * rows * COLUMNS * machine.units) / rate
        time = time + (first + second) * p.fill
        compute = time if compute is None else num.minimum(compute, time)
    moved = load.distinct * (up + inter) * hidden * weight
    moved = moved + load.pairs * (2.0 * hidden * activation + 2.0 * (up + inter) + 2.0 * hidden)
    compute, memory = soft_maximum(compute, moved / (machine.bandwidth * p.memory), SHARPNESS)
    sorted_pairs = load.pairs if routed is None else routed
    return compute, memory, p.launch + 4.0 * sorted_pairs * hidden / (machine.bandwidth * p.permute)
