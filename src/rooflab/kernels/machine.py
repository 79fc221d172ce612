"""What a kernel sees of a device, and how the parts of its time combine."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num

Number = Any
Parts = tuple[Number, Number, Number]
"""Seconds of arithmetic, of memory traffic and of fixed costs; a kernel takes max(arithmetic, traffic) + fixed costs."""

TINY = 1e-30


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A device as its kernels see it. One unit and an endless feed switch the effects of waves and operand supply off."""

    bandwidth: Number
    """Peak bytes per second of memory."""
    rate: Number
    """Peak FLOP/s of the format the products run in."""
    units: Number
    """Multiprocessors: independent places where thread blocks run."""
    clock: Number
    """Boost clock in Hz."""


def soft_maximum(compute: Number, memory: Number, sharpness: float) -> tuple[Number, Number]:
    """Both times scaled so that the larger is their p-norm: overlap of arithmetic and traffic is never perfect."""
    larger = num.maximum(num.maximum(compute, memory), TINY)
    ratio = num.minimum(compute, memory) / larger
    if sharpness == 2.0:
        scale = (1.0 + ratio * ratio) ** 0.5
    else:
        scale = (1.0 + ratio**sharpness) ** (1.0 / sharpness)
    return compute * scale, memory * scale


def total(parts: Parts) -> Number:
    """Seconds of a kernel."""
    return num.maximum(parts[0], parts[1]) + parts[2]
