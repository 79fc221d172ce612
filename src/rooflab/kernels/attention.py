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


DECODE_PRIORS: dict[str, tuple[float, float]] = {
    "launch": (9.0e-6, 0.5),
    "wave": (2.0e-6, 0.8),
    "memory": (0.85, 0.3),
    "split": (0.7e-6, 1.0),
    "growth": (0.25, 1.0),
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
    part = busy * num.ceil(context / splits / BLOCK) * BLOCK * width * cache / (pace / machine.units)
    rows = num.ceil(heads / kv_heads / ROWS) * ROWS
    compute = 2.0 * sequences * kv_heads * rows * context * width / (DECODE_COMPUTE * machine.rate)
    memory, _ = soft_maximum(num.maximum(stream, part), num.minimum(stream, part), DECODE_SHARPNESS)
    compute, memory = soft_maximum(compute, memory, DECODE_SHARPNESS)
    wave = p.wave * (width / STANDARD_WIDTH) ** p.growth
    return compute, memory, p.launch + wave * blocks / machine.units + p.split * num.log2(splits)


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


PREFILL_PRIORS: dict[str, tuple[float, float]] = {
    "launch": (10.0e-6, 0.5),
    "compute": (0.75, 0.25),
    "softmax": (32.0, 0.5),
    "memory": (0.7, 0.3),
    "wave": (2.5e-6, 0.6),
    "tail": (0.3, 0.7),
}


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
) -> Parts:
    """Time of causal attention of `new` tokens a sequence after `cached` ones; `window` 0 sees everything.

    Counts: query rows packed by KV head into tiles, the diagonal tile, softmax as extra columns, the longest block,
    a ragged last wave, waves.
    Source: docs/accuracy.md, prefill attention.
    Holds: fused kernels; a cached prefix was not measured and enters through geometry alone.
    """
    group = heads / kv_heads
    packed = num.ceil(new * group / TILE)
    mean = (new + 1.0) / 2.0 + cached
    reach = new + cached
    if window:
        mean, reach = num.minimum(mean, window), num.minimum(reach, window)
    seen = mean + DIAGONAL * num.minimum(new + cached, BLOCK)
    width = head_dim + value_dim + 2.0 * p.softmax
    blocks = sequences * kv_heads * packed
    work = 2.0 * sequences * kv_heads * packed * TILE * seen * width / (machine.rate * p.compute)
    longest = 2.0 * TILE * (reach + DIAGONAL * BLOCK) * width * machine.units / (machine.rate * p.compute)
    ragged = p.tail * longest * num.minimum(blocks / machine.units, 1.0)
    compute = num.maximum(longest, work + ragged)
    columns = head_dim + value_dim
    entries = new * (NEW_ENTRY + cache) + cached * cache
    moved = sequences * columns * (new * heads * 2.0 + entries * kv_heads)
    memory = moved / (machine.bandwidth * p.memory)
    compute, memory = soft_maximum(compute, memory, PREFILL_SHARPNESS)
    return compute, memory, p.launch + p.wave * blocks / machine.units
