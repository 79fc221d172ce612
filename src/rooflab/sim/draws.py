"""Random columns as arrays: the numbers that `streams.py` and `traffic.py` draw one by one, the same bits, a million at a time.

Every operation is one that both do alike: additions, products, quotients and roots of 64-bit floats, each rounded once.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from rooflab.sim.streams import LN2, ROOT_HALF
from rooflab.sim.streams import log as log_of_one

if TYPE_CHECKING:
    from rooflab.sim.traffic import Lengths


def installed() -> bool:
    """Whether NumPy is there."""
    return importlib.util.find_spec("numpy") is not None


def _source(rng: Random) -> Callable[[int], Any]:
    """A function that draws the stream's next uniform numbers."""
    import numpy

    _, state, _ = rng.getstate()
    twister = numpy.random.RandomState()
    twister.set_state(("MT19937", numpy.array(state[:-1], numpy.uint32), state[-1], 0, 0.0))
    return twister.random_sample


def log(x: Any) -> Any:
    """See `streams.log`."""
    import numpy

    mantissa, exponent = numpy.frexp(x)
    small = mantissa < ROOT_HALF
    mantissa = numpy.where(small, mantissa * 2.0, mantissa)
    exponent = exponent - small
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    odd = 1.0 / 21.0
    for n in (19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        odd = odd * z + 1.0 / n
    return exponent * LN2 + 2.0 * s * (odd * z + 1.0)


def exp(x: Any) -> Any:
    """See `streams.exp`."""
    import numpy

    whole = numpy.floor(x / LN2 + 0.5)
    rest = x - whole * LN2
    total = 1.0
    for n in range(15, 0, -1):
        total = total * rest / n + 1.0
    return numpy.ldexp(total, whole.astype(numpy.int32))


def exponential(rng: Random, count: int) -> Any:
    """See `streams.exponential`."""
    return -log(1.0 - _source(rng)(count))


def normal(rng: Random, count: int) -> Any:
    """See `streams.normal`."""
    import numpy

    draw, found, have = _source(rng), [], 0
    while have < count:
        pairs = 2.0 * draw(2 * (count - have) + 64) - 1.0
        x, y = pairs[0::2], pairs[1::2]
        r = x * x + y * y
        inside = (r > 0.0) & (r < 1.0)
        x, r = x[inside], r[inside]
        found.append(x * numpy.sqrt(-2.0 * log(r) / r))
        have += len(x)
    return numpy.concatenate(found)[:count]


def lengths(wanted: Lengths, rng: Random, count: int) -> Any:
    """Samples of a distribution; see `Lengths.sampler`."""
    import numpy

    if wanted.form == "fixed":
        return numpy.full(count, int(wanted.a))
    drawn = _FORMS[wanted.form](wanted, rng, count)
    return numpy.clip(numpy.rint(drawn), wanted.least, wanted.most).astype(numpy.int64)


def _uniform(wanted: Lengths, rng: Random, count: int) -> Any:
    import numpy

    low, width = int(wanted.a), int(wanted.b) - int(wanted.a) + 1
    return low + numpy.floor(_source(rng)(count) * width)


def _geometric(wanted: Lengths, rng: Random, count: int) -> Any:
    import numpy

    if wanted.a <= 1.0:
        return numpy.ones(count)
    rate = -log_of_one(1.0 - 1.0 / wanted.a)
    return 1.0 + numpy.floor(exponential(rng, count) / rate)


def _normal(wanted: Lengths, rng: Random, count: int) -> Any:
    return wanted.a + wanted.b * normal(rng, count)


def _lognormal(wanted: Lengths, rng: Random, count: int) -> Any:
    import numpy

    variance = log_of_one(1.0 + wanted.b * wanted.b)
    centre, spread = log_of_one(wanted.a) - variance / 2.0, variance**0.5
    return exp(numpy.minimum(40.0, centre + spread * normal(rng, count)))


def _choice(wanted: Lengths, rng: Random, count: int) -> Any:
    import numpy

    edges = numpy.cumsum(numpy.array(wanted.weights))
    places = numpy.searchsorted(edges, _source(rng)(count) * edges[-1], side="right")
    return numpy.array(wanted.values)[numpy.minimum(places, len(wanted.values) - 1)]


_FORMS = {
    "uniform": _uniform, "geometric": _geometric, "normal": _normal, "lognormal": _lognormal, "choice": _choice,
}  # fmt: skip


def arrivals(rng: Random, count: int, rate: float, variation: float) -> Any:
    """Moments of arrivals whose gaps are exponential (variation 1) or even (0); see `traffic.open_loop`."""
    import numpy

    gaps = exponential(rng, count) / rate if variation else numpy.full(count, 1.0 / rate)
    return numpy.cumsum(gaps)
