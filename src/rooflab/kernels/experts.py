"""Routed experts: the grouped products of a mixture's experts, with their activation and permutation, as one layer."""

from __future__ import annotations

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


PRIORS: dict[str, tuple[float, float]] = {
    "launch": (25.0e-6, 0.5),
    "compute": (0.6, 0.35),
    "memory": (0.85, 0.12),
    "permute": (0.3, 0.6),
    "rows": (0.5, 0.5),
}


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


def skewed_shares(experts: int, exponent: float, tokens: float) -> list[float]:
    """Share of all pairs of each expert, largest first: quantiles of a truncated power law on [1, 0.8 tokens]."""
    top = max(LARGEST_SHARE * tokens, 1.0 + 1e-9)
    power = 1.0 - exponent
    draws = [(1.0 - (e + 0.5) / experts) for e in range(experts)]
    values = [(1.0 + u * (top**power - 1.0)) ** (1.0 / power) for u in draws]
    whole = 0.0
    for value in values:
        whole = whole + value
    return [value / whole for value in values]


def skewed_load(tokens: float, experts: int, topk: float, ranks: int, exponent: float) -> Load:
    """The heaviest rank's load under a power law of popularity; it holds the top expert and every ranks-th after."""
    own = skewed_shares(experts, exponent, tokens)[::ranks]
    loads = [min(tokens * topk * share, tokens) for share in own]
    pairs = distinct = 0.0
    tiles = [0.0] * len(TILE_ROWS)
    for load in loads:
        pairs, distinct = pairs + load, distinct + min(load, 1.0)
        for index, rows in enumerate(TILE_ROWS):
            tiles[index] += num.ceil(load / rows)
    return Load(pairs, distinct, tuple(tiles))


def seconds(
    load: Load,
    hidden: Number,
    up: Number,
    inter: Number,
    activation: float,
    weight: float,
    machine: Machine,
    p: Parameters,
) -> Parts:
    """Time of hidden → `up` (gate included) → activation → `inter` → hidden for a load, permutation of tokens included.

    Counts: weights of the experts used, idle rows of their tiles, idle units of few waves, activations in and out.
    Source: docs/accuracy.md, routed experts.
    Holds: grouped products over sorted tokens.
    """
    wide, narrow = num.ceil(up / COLUMNS), num.ceil(hidden / COLUMNS)
    compute: Number = None
    for rows, tiles in zip(TILE_ROWS, load.tiles, strict=True):
        rate = machine.rate * p.compute * rows / (rows + 64.0 * p.rows)
        first, second = wide * tiles / machine.units, narrow * tiles / machine.units
        first = num.where(first <= FEW_WAVES, num.ceil(first), first)
        second = num.where(second <= FEW_WAVES, num.ceil(second), second)
        time = (first * hidden + second * inter) * (2.0 * rows * COLUMNS * machine.units) / rate
        compute = time if compute is None else num.minimum(compute, time)
    moved = load.distinct * (up + inter) * hidden * weight
    moved = moved + load.pairs * (2.0 * hidden * activation + 2.0 * (up + inter) + 2.0 * hidden)
    compute, memory = soft_maximum(compute, moved / (machine.bandwidth * p.memory), SHARPNESS)
    return compute, memory, p.launch + 4.0 * load.pairs * hidden / (machine.bandwidth * p.permute)
