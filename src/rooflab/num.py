"""Arithmetic that takes a number or a NumPy array, so one formula serves one point and a million.

NumPy is imported only when an array arrives: the core runs without it (in a browser, for instance).
"""

from __future__ import annotations

import math
import sys
from typing import Any

Number = Any
_SCALARS = (float, int, bool)


def is_array(x: Number) -> bool:
    """True for a NumPy array (of any shape, zero-dimensional included)."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    try:
        return isinstance(x, numpy.ndarray)
    except AttributeError:  # another thread is still importing it, so nobody has an array yet
        return False


def _numpy() -> Any:
    import numpy

    return numpy


def _scalar(a: Number) -> bool:
    return isinstance(a, _SCALARS)


def maximum(a: Number, b: Number) -> Number:
    """Elementwise larger of two."""
    if _scalar(a) and _scalar(b):
        return a if a >= b else b
    return _numpy().maximum(a, b)


def minimum(a: Number, b: Number) -> Number:
    """Elementwise smaller of two."""
    if _scalar(a) and _scalar(b):
        return a if a <= b else b
    return _numpy().minimum(a, b)


def where(condition: Number, a: Number, b: Number) -> Number:
    """`a` where the condition holds, else `b`; both are evaluated, so both must be finite."""
    if _scalar(condition):
        return a if condition else b
    return _numpy().where(condition, a, b)


def ceil(a: Number) -> Number:
    """Smallest whole number not below `a`, as a float."""
    return float(math.ceil(a)) if _scalar(a) else _numpy().ceil(a)


def floor(a: Number) -> Number:
    """Largest whole number not above `a`, as a float."""
    return float(math.floor(a)) if _scalar(a) else _numpy().floor(a)


def ceil_div(a: Number, b: Number) -> Number:
    """⌈a / b⌉ as a float."""
    return ceil(a / b)


def round_up(a: Number, step: Number) -> Number:
    """`a` rounded up to a multiple of `step`."""
    return ceil(a / step) * step


def clip(a: Number, low: Number, high: Number) -> Number:
    """`a` held between `low` and `high`."""
    return minimum(maximum(a, low), high)


def log2(a: Number) -> Number:
    """Binary logarithm of a positive number."""
    return math.log2(a) if _scalar(a) else _numpy().log2(a)


def all_true(condition: Number) -> bool:
    """True when the condition holds everywhere."""
    return bool(condition) if _scalar(condition) else bool(_numpy().all(condition))


def power(a: Number, b: Number) -> Number:
    """a ** b; the base must not be negative."""
    return a**b


def logical_and(a: Number, b: Number) -> Number:
    """True where both hold."""
    if _scalar(a) and _scalar(b):
        return bool(a) and bool(b)
    return _numpy().logical_and(a, b)
