"""Formulas of the numbers that people read off an estimate: what one device, one user or one byte gets of it."""

from __future__ import annotations

from rooflab.num import Number


def per_device(rate: Number, devices: Number) -> Number:
    """Tokens per second of the whole layout over the devices it uses.

    Counts: every device of every replica.
    Source: requirement A-044.
    Holds: always.
    """
    return rate / devices


def per_user(tpot: Number) -> Number:
    """Tokens per second that one sequence sees once its answer has begun.

    Counts: decode only.
    Source: requirement B-053.
    Holds: always.
    """
    return 1.0 / tpot


def bandwidth_share(moved: Number, seconds: Number, bandwidth: Number) -> Number:
    """Bytes a step moves over what the memory could move in its time at the peak rate.

    Counts: weights, cache and activations of one device, each as often as the operators read or write them.
    Source: requirement A-014.
    Holds: always.
    """
    return moved / seconds / bandwidth
