"""Random numbers that are the same bytes everywhere: one named stream per purpose, all from one seed.

Uniform numbers come from the Mersenne Twister, whose output is fixed; logarithm and exponential are computed here from
additions, multiplications and divisions alone, because a platform's own may differ in the last bit.
"""

from __future__ import annotations

import math
from random import Random

LN2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476


def stream(seed: int, name: str) -> Random:
    """The stream of that name; streams of other names are independent of it."""
    return Random(f"{seed}/{name}")


def log(x: float) -> float:
    """Natural logarithm of a positive number, the same bits on every platform."""
    mantissa, exponent = math.frexp(x)
    if mantissa < ROOT_HALF:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    odd = 1.0 / 21.0
    for n in (19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        odd = odd * z + 1.0 / n
    return exponent * LN2 + 2.0 * s * (odd * z + 1.0)


def exp(x: float) -> float:
    """Exponential of a moderate number, the same bits on every platform."""
    whole = math.floor(x / LN2 + 0.5)
    rest = x - whole * LN2
    total = 1.0
    for n in range(15, 0, -1):
        total = total * rest / n + 1.0
    return math.ldexp(total, whole)


def exponential(rng: Random) -> float:
    """A sample of the exponential distribution of mean 1."""
    return -log(1.0 - rng.random())


def normal(rng: Random) -> float:
    """A sample of the standard normal distribution (polar method)."""
    while True:
        x, y = 2.0 * rng.random() - 1.0, 2.0 * rng.random() - 1.0
        r = x * x + y * y
        if 0.0 < r < 1.0:
            return x * math.sqrt(-2.0 * log(r) / r)


def gamma(rng: Random, shape: float) -> float:
    """A sample of the gamma distribution of this shape and scale 1 (Marsaglia and Tsang)."""
    if shape < 1.0:
        return gamma(rng, shape + 1.0) * exp(log(1.0 - rng.random()) / shape)
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(rng)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if log(1.0 - rng.random()) < 0.5 * x * x + d - d * v + d * log(v):
            return d * v
