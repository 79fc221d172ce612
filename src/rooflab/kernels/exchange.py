"""Collectives inside one link domain: the soft minimum of a protocol for short messages and one for long messages."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num

Number = Any

MOST_SHARPNESS = 12.0
OWN_SHARE = 0.4
"""A rank's own part of a long message is copied too, at this share of what sending it would cost."""
MESSAGE = 1.0
"""Bytes below which a message counts as this long, so that no ratio divides by zero."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a link generation and library decide about a collective."""

    short: Number
    """Seconds of the short-message protocol, whatever the message."""
    hop: Number
    """Seconds per further rank."""
    short_link: Number
    """Share of the link's bandwidth the short-message protocol reaches."""
    long: Number
    long_link: Number
    sharpness: Number


PRIORS: dict[str, tuple[float, float]] = {
    "short": (6.0e-6, 0.5),
    "hop": (1.0e-6, 0.8),
    "short_link": (0.3, 0.6),
    "long": (25.0e-6, 0.7),
    "long_link": (0.7, 0.15),
    "sharpness": (5.0, 0.7),
}
EXCHANGE_PRIORS: dict[str, tuple[float, float]] = {
    **PRIORS,
    "hop": (0.3e-6, 0.8),
    "short_link": (0.02, 0.7),
    "long": (15.0e-6, 0.6),
    "long_link": (0.6, 0.2),
}
"""Of an all-to-all: short messages go through slow channels."""
CUSTOM_PRIORS: dict[str, tuple[float, float]] = {
    **PRIORS,
    "short": (4.5e-6, 0.5),
    "hop": (0.1e-6, 0.8),
    "long": (12.0e-6, 0.6),
    "long_link": (0.6, 0.2),
}


def soft_minimum(a: Number, b: Number, sharpness: Number) -> Number:
    """The smaller of two positive times, with a shade less where they meet."""
    smaller = num.minimum(a, b)
    ratio = smaller / num.maximum(a, b)
    return smaller * (1.0 + ratio**sharpness) ** (-1.0 / sharpness)


def library_seconds(traffic: Number, peers: Number, link: Number, p: Parameters) -> Number:
    """Time of a general library's collective that moves `traffic` bytes per rank.

    Counts: latency per rank and the bytes each rank moves, under the better protocol.
    Source: docs/accuracy.md, collectives.
    Holds: ranks on one switch or full mesh.
    """
    hops = p.hop * (peers - 1.0)
    short = p.short + hops + traffic / (link * p.short_link)
    long = p.long + hops + traffic / (link * p.long_link)
    return soft_minimum(short, long, num.minimum(p.sharpness, MOST_SHARPNESS))


def custom_seconds(message: Number, peers: Number, link: Number, p: Parameters) -> Number:
    """Time of an engine's own all-reduce of `message` bytes: everything to everyone at once, or in two shots.

    Counts: latency per rank, (p−1) payloads in one shot, 2(p−1)/p in two, and a rank's own part.
    Source: docs/accuracy.md, collectives.
    Holds: ranks on one switch or full mesh, messages that fit the engine's buffers.
    """
    hops = p.hop * (peers - 1.0)
    short = p.short + hops + (peers - 1.0) * message / (link * p.short_link)
    shares = (2.0 * (peers - 1.0) + OWN_SHARE) / num.maximum(peers, 1.0)
    long = p.long + hops + shares * message / (link * p.long_link)
    return soft_minimum(short, long, num.minimum(p.sharpness, MOST_SHARPNESS))
