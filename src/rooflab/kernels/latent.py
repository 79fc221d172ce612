"""Latent attention: queries of all heads over one shared latent (decode), or over keys expanded per head (prefill)."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num
from rooflab.kernels.attention import BLOCK, LEAST_SPLIT, RECAST
from rooflab.kernels.machine import Machine, Parts, soft_maximum

Number = Any

ROWS = 64.0
"""Heads are padded to this many rows: the row block of a latent kernel."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device, cache format and library decide about latent decode attention."""

    launch: Number
    wave: Number
    memory: Number
    compute: Number
    split: Number
    sharpness: float
    """How well arithmetic and traffic overlap: exponent of their p-norm."""
    draw: Number = 1.0
    """Multiple of its even share of the bandwidth that one multiprocessor can draw."""
    recast: Number = 0.0
    """Passes over the cache to turn its eight bits into the sixteen a kernel works on."""


PRIORS: dict[str, tuple[float, float]] = {
    "launch": (9.0e-6, 0.5),
    "wave": (3.5e-6, 0.6),
    "memory": (0.85, 0.3),
    "compute": (0.6, 0.6),
    "split": (1.0e-6, 0.7),
    "sharpness": (5.0, 0.5),
    "draw": (1.2, 0.3),
}
EIGHT_BIT_PRIORS: dict[str, tuple[float, float]] = {**PRIORS, "recast": (0.1, 2.0)}
"""Where the cache holds eight bits."""


def seconds(
    sequences: Number,
    heads: Number,
    head_dim: Number,
    value_dim: Number,
    context: Number,
    cache: float,
    machine: Machine,
    p: Parameters,
) -> Parts:
    """Time of one new query per sequence over `context` latents of `head_dim` elements, of which `value_dim` are summed.

    Counts: the latent once for all heads, heads padded to the row block, waves, merging of splits,
    a change of the cache's format.
    Source: docs/accuracy.md, latent attention.
    Holds: absorbed up-projections.
    """
    groups = num.ceil(heads / ROWS)
    blocks = num.maximum(sequences * groups, 1.0)
    splits = num.clip(num.floor(machine.units / blocks), 1.0, num.maximum(num.ceil(context / LEAST_SPLIT), 1.0))
    pace = machine.bandwidth * p.memory
    stream = (sequences * context * head_dim * cache + 2.0 * sequences * heads * (head_dim + value_dim)) / pace
    busy = num.maximum(blocks * splits / machine.units, 1.0)
    entries = busy * num.ceil(context / splits / BLOCK) * BLOCK
    part = entries / groups * head_dim * cache / (pace / machine.units * p.draw)
    flop = 2.0 * ROWS * entries * (head_dim + value_dim)
    compute = flop * machine.units / (machine.rate * p.compute)
    memory, _ = soft_maximum(num.maximum(stream, part), num.minimum(stream, part), p.sharpness)
    compute, memory = soft_maximum(compute, memory, p.sharpness)
    fixed = p.launch + p.wave * blocks / machine.units + p.split * num.log2(splits)
    if p.recast:
        fixed = fixed + p.recast * RECAST * sequences * context * head_dim / machine.bandwidth
    return compute, memory, fixed
