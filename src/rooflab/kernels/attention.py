"""Softmax attention: one query per sequence over a cache (decode), and whole prompts (prefill)."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num
from rooflab.kernels.machine import Machine, Parts, soft_maximum

Number = Any

ROWS = 16.0
"""Query heads of one KV head are padded to this many rows of a matrix product."""
BLOCK = 64.0
"""Cache entries one step of a thread block reads."""
LEAST_SPLIT = 128.0
"""Least cache entries of one part of a split cache."""
STANDARD_WIDTH = 256.0
"""Columns of a key and a value together in most models."""
DECODE_SHARPNESS = 6.0
DECODE_COMPUTE = 0.6
"""Share of the peak rate decode's small products reach; the measurements do not identify it."""
FEW_WAVES = 4.0
"""Waves beyond which an incomplete last wave no longer shows."""
TILE = 128.0
"""Query rows of one thread block in prefill."""
DIAGONAL = 0.75
"""Share of the masked diagonal tile that is computed in vain."""
PREFILL_SHARPNESS = 2.0
NEW_ENTRY = 2.0
"""Bytes per element at which new keys and values are also read before they are filed in the cache's format."""
RECAST = 3.0
"""Bytes moved to turn one element of 16 bits into one of eight, or back."""
ON_CHIP = 65536.0
"""Bytes of output a block holds, in the cache's format: wider values take another pass, which repeats the scores."""


class DecodeParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device, cache format and library decide about decode attention."""

    launch: Number
    wave: Number
    """Seconds per wave of thread blocks: short caches are not free."""
    memory: Number
    """Share of the peak bandwidth a stream of cache entries reaches."""
    split: Number
    """Seconds per doubling of the parts a cache is split into."""
    growth: Number = 0.0
    """Power of the head's width by which a wave takes longer, from 128 wide keys and values on."""
    draw: Number = 1.0
    """Multiple of its even share of the bandwidth that one multiprocessor can draw."""
    wide: Number = 0.0
    """Seconds more where a KV head serves more query heads than one row block holds."""


DECODE_PRIORS: dict[str, tuple[float, float]] = {
    "launch": (9.0e-6, 0.5),
    "wave": (2.0e-6, 0.8),
    "memory": (0.85, 0.3),
    "split": (0.7e-6, 1.0),
    "growth": (0.25, 1.0),
    "draw": (1.2, 0.3),
}


def decode_seconds(
    sequences: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    value_dim: Number,
    context: Number,
    cache: float,
    machine: Machine,
    p: DecodeParameters,
) -> Parts:
    """Time of one new query per sequence over `context` cached entries (at most a window) of `cache` bytes per element.

    Counts: the cache once, padded rows of grouped queries, the share of bandwidth one block gets, waves, merging of splits.
    Source: docs/accuracy.md, decode attention.
    Holds: fused kernels that may split a cache over blocks.
    """
    group = num.ceil(heads / kv_heads / BLOCK)
    blocks = num.maximum(sequences * kv_heads * group, 1.0)
    splits = num.clip(num.floor(machine.units / blocks), 1.0, num.maximum(num.ceil(context / LEAST_SPLIT), 1.0))
    width = head_dim + value_dim
    pace = machine.bandwidth * p.memory
    stream = (sequences * kv_heads * context * width * cache + 2.0 * sequences * heads * width) / pace
    busy = num.maximum(blocks * splits / machine.units, 1.0)
    busy = num.where(busy < FEW_WAVES, num.ceil(busy), busy)
    part = busy * num.ceil(context / splits / BLOCK) * BLOCK * width * cache / (pace / machine.units * p.draw)
    rows = num.ceil(heads / kv_heads / ROWS) * ROWS
    compute = 2.0 * sequences * kv_heads * rows * context * width / (DECODE_COMPUTE * machine.rate)
    memory, _ = soft_maximum(num.maximum(stream, part), num.minimum(stream, part), DECODE_SHARPNESS)
    compute, memory = soft_maximum(compute, memory, DECODE_SHARPNESS)
    wave = p.wave * (width / STANDARD_WIDTH) ** p.growth
    fixed = p.launch + wave * blocks / machine.units + p.split * num.log2(splits)
    if p.wide:
        fixed = fixed + num.where(heads > kv_heads * ROWS, p.wide, 0.0)
    return compute, memory, fixed


SHARED, APART, WHOLE = 0.0, 1.0, 2.0
"""The query heads of a KV head share a tile; each has tiles of its own; and none is skipped for what a window hides."""


class PrefillParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device, format and library decide about prefill attention."""

    launch: Number
    compute: Number
    """Share of the peak rate the two products reach."""
    softmax: Number
    """Cost of the softmax, in extra columns of the head."""
    memory: Number
    wave: Number
    """Seconds per wave of thread blocks."""
    tail: Number = 0.0
    """Share of the longest block's time by which the last wave outlasts the mean: causal blocks are of unequal length."""
    recast: Number = 0.0
    """Passes over the new tokens to turn them into the cache's format first."""
    tiles: float = SHARED
    """How the work is cut: SHARED, APART or WHOLE; chosen, not fitted."""


PREFILL_PRIORS: dict[str, tuple[float, float]] = {
    "launch": (10.0e-6, 0.5),
    "compute": (0.75, 0.25),
    "softmax": (32.0, 0.5),
    "memory": (0.7, 0.3),
    "wave": (2.5e-6, 0.6),
    "tail": (0.3, 0.7),
}
PREFILL_CHOICES: dict[str, tuple[float, ...]] = {"tiles": (SHARED, APART, WHOLE)}
LATENT_CHOICES: dict[str, tuple[float, ...]] = {"tiles": (SHARED, APART)}
EIGHT_BIT_PREFILL_PRIORS: dict[str, tuple[float, float]] = {**PREFILL_PRIORS, "recast": (0.5, 1.5)}
"""Where the cache holds eight bits."""


def prefill_seconds(
    sequences: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    value_dim: Number,
    new: Number,
    cached: Number,
    window: float,
    cache: float,
    machine: Machine,
    p: PrefillParameters,
    rows: float = TILE,
) -> Parts:
    """Time of causal attention of `new` tokens a sequence after `cached` ones; `window` 0 sees everything.

    Counts: query rows in tiles, by KV head or by query head, the diagonal tile, keys that a tile's first and last row do
    not share, softmax as extra columns, the longest block, a ragged last wave, waves, a change of format.
    Source: docs/accuracy.md, prefill attention.
    Holds: fused kernels; a cached prefix was not measured and enters through geometry alone.
    """
    group, lanes = (heads / kv_heads, kv_heads) if p.tiles == SHARED else (1.0, heads)
    tiles = num.ceil(new * group / rows)
    reach = new + cached
    seen = (new + 1.0) / 2.0 + cached + DIAGONAL * num.minimum(reach, BLOCK)
    reach = reach + DIAGONAL * BLOCK
    if window and p.tiles != WHOLE:
        inside = window + num.minimum(rows / group, new) + DIAGONAL * BLOCK
        seen, reach = num.minimum(seen, inside), num.minimum(reach, inside)
    passes = num.ceil(rows * value_dim * cache / ON_CHIP)
    width = passes * (head_dim + p.softmax) + value_dim + p.softmax
    blocks = sequences * lanes * tiles
    work = 2.0 * blocks * rows * seen * width / (machine.rate * p.compute)
    longest = 2.0 * rows * reach * width * machine.units / (machine.rate * p.compute)
    ragged = p.tail * longest * num.minimum(blocks / machine.units, 1.0)
    compute = num.maximum(longest, work + ragged)
    columns = head_dim + value_dim
    entries = new * (NEW_ENTRY + cache) + cached * cache
    moved = sequences * columns * (new * heads * 2.0 + entries * kv_heads)
    memory = moved / (machine.bandwidth * p.memory)
    compute, memory = soft_maximum(compute, memory, PREFILL_SHARPNESS)
    fixed = p.launch + p.wave * blocks / machine.units
    if p.recast:
        elements = sequences * new * (head_dim * heads + columns * kv_heads)
        fixed = fixed + p.recast * RECAST * elements / machine.bandwidth
    return compute, memory, fixed
