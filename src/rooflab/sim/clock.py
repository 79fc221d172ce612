"""Exact time: whole ticks of a power of two of a second, so every sum is exact in any order and on any platform.

Times are Python integers. A duration computed in floats is rounded to a tick once, where it enters; an arrival is rounded
up, so nothing is served before it came. Seconds come back only at the end.
"""

from __future__ import annotations

import math

FINEST = 44
"""Bits of the finest tick: 2⁻⁴⁴ s is 57 femtoseconds, far below any step's error."""
COMPACT = 59
"""Bits a time may take before arithmetic on it gets slower (and, in 64-bit integers, close to the end)."""
NEVER = 1 << 200
"""Later than everything."""


def bits_for(horizon: float) -> int:
    """Bits of the tick for a run of about `horizon` seconds: the finest whose times stay compact integers.

    A longer run than guessed stays exact; it only gets slower.
    """
    whole = max(0, math.frexp(max(horizon, 1.0))[1])
    return max(20, min(FINEST, COMPACT - whole))


def ticks(duration: float, bits: int) -> int:
    """A duration in the nearest whole number of ticks."""
    return round(math.ldexp(duration, bits))


def ticks_up(moment: float, bits: int) -> int:
    """A moment in ticks, rounded up."""
    return math.ceil(math.ldexp(moment, bits))


def seconds(count: int, bits: int) -> float:
    """Ticks as seconds."""
    return math.ldexp(count, -bits) if count < NEVER else math.inf
