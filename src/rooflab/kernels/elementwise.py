"""Kernels that only pass over memory: norms, activations, rotary embeddings, the token table."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.kernels.machine import Machine, Parts

Number = Any


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device and library decide about a pass over memory."""

    launch: Number
    memory: Number


PRIORS: dict[str, tuple[float, float]] = {"launch": (2.5e-6, 0.4), "memory": (0.7, 0.2)}


def seconds(moved: Number, machine: Machine, p: Parameters) -> Parts:
    """Time to move `moved` bytes.

    Counts: bytes once each and a launch.
    Source: docs/accuracy.md, elementwise.
    Holds: work that memory bounds.
    """
    memory = moved / (machine.bandwidth * p.memory)
    return 0.0 * memory, memory, p.launch
