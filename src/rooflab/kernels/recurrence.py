"""Linear mixers: the short convolution before them, the chunked scan of a prompt and the state update of one token."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num
from rooflab.kernels.machine import Machine, Parts, soft_maximum

Number = Any

SHARPNESS = 2.0
RESIDENT = 2.0
"""Chains of chunks a multiprocessor works on at once."""
CHUNK = 64.0
"""Tokens of one step of a chunked scan, as kernels run it whatever the model's own chunk."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device and library decide about a pass over tokens or states."""

    launch: Number
    memory: Number
    compute: Number = 1.0
    step: Number = 0.0
    """Seconds of one chunk of a sequence: chunks of one sequence follow each other."""
    wave: Number = 0.0
    """Seconds per wave of heads."""


CONVOLUTION_PRIORS: dict[str, tuple[float, float]] = {
    "launch": (8.0e-6, 0.5),
    "memory": (0.92, 0.07),
    "wave": (0.5e-6, 1.0),
}
"""A pass streams memory as any other; what is slower than that is instructions, which follow clocks and not bandwidth."""
SCAN_PRIORS: dict[str, tuple[float, float]] = {
    "launch": (50.0e-6, 0.7),
    "memory": (0.4, 0.5),
    "compute": (0.3, 0.6),
    "step": (2.0e-6, 0.8),
    "wave": (1.0e-6, 1.0),
}
UPDATE_PRIORS: dict[str, tuple[float, float]] = {
    "launch": (6.0e-6, 0.5),
    "memory": (0.6, 0.3),
    "wave": (1.0e-6, 0.8),
}


def convolution_seconds(tokens: Number, channels: Number, machine: Machine, p: Parameters) -> Parts:
    """Time of a causal convolution of a few taps over `channels`.

    Counts: activations in and out at two bytes, blocks in waves.
    Source: docs/accuracy.md, linear mixers.
    Holds: taps held on chip.
    """
    blocks = tokens / CHUNK * channels / CHUNK
    memory = 4.0 * tokens * channels / (machine.bandwidth * p.memory)
    return 0.0 * memory, memory, p.launch + p.wave * blocks / machine.units


def scan_seconds(
    tokens: Number,
    sequences: Number,
    heads: Number,
    key_dim: Number,
    value_dim: Number,
    machine: Machine,
    p: Parameters,
) -> Parts:
    """Time of a chunked scan of `tokens` tokens in all of `sequences` sequences.

    Counts: products within and between chunks, activations, the chain of chunks of one sequence over the waves of heads.
    Source: docs/accuracy.md, linear mixers.
    Holds: state-space and delta-rule mixers run in chunks.
    """
    flop = 2.0 * tokens * heads * (CHUNK * (key_dim + value_dim) + 3.0 * key_dim * value_dim)
    compute = flop / (machine.rate * p.compute)
    chunks = num.ceil(tokens / sequences / CHUNK)
    states = sequences * heads * key_dim * value_dim * 4.0
    moved = tokens * heads * 2.0 * (2.0 * key_dim + 2.0 * value_dim) + 2.0 * states
    compute, memory = soft_maximum(compute, moved / (machine.bandwidth * p.memory), SHARPNESS)
    waves = num.maximum(sequences * heads / (machine.units * RESIDENT), 1.0)
    return compute, memory, p.launch + p.step * chunks * waves + p.wave * sequences * heads / machine.units


def update_seconds(
    sequences: Number,
    heads: Number,
    key_dim: Number,
    value_dim: Number,
    state: float,
    machine: Machine,
    p: Parameters,
) -> Parts:
    """Time of one token per sequence: the state is read, updated and written.

    Counts: the state twice at its bytes per element, waves of heads.
    Source: docs/accuracy.md, linear mixers.
    Holds: fused update kernels.
    """
    moved = 2.0 * sequences * heads * key_dim * value_dim * state
    memory = moved / (machine.bandwidth * p.memory)
    return 0.0 * memory, memory, p.launch + p.wave * sequences * heads / machine.units
