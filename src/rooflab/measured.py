"""Prices from one's own table of kernel times: what was measured is interpolated, what was not falls back to `Fitted`.

Times are kept relative to the operator's peak roofline, which varies less than times do. A point is used only inside the
range measured for its shape and near a measurement; every operator says whether its price is measured.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import msgspec

from rooflab import kernels, num
from rooflab.fitted import Fitted
from rooflab.price import Cost
from rooflab.work import Op

Number = Any
Key = tuple[Any, ...]

BAND = (0.93, 1.08)
"""Repeated measurements of one kernel lie in about this range of each other."""
REACH = 1.5
"""Octaves beyond which the nearest measurement is too far."""
NEIGHBOURS = 4

_AXES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gemm": (("n", "k"), ("m",)),
    "batched_gemm": (("n", "k", "groups"), ("m",)),
    "decode_attention": (("heads", "kv_heads", "head_dim"), ("sequences", "context")),
    "prefill_attention": (("heads", "kv_heads", "head_dim", "window"), ("sequences", "new")),
    "latent_decode": (("heads", "head_dim"), ("sequences", "context")),
    "latent_prefill": (("heads", "head_dim"), ("sequences", "new")),
    "experts": (("hidden", "inter"), ("pairs", "distinct")),
    "convolution": (("channels",), ("sequences", "tokens")),
    "scan": (("heads", "key_dim", "value_dim"), ("sequences", "tokens")),
    "update": (("heads", "key_dim", "value_dim"), ("sequences",)),
    "all_reduce": (("peers",), ("message_bytes",)),
    "all_gather": (("peers",), ("message_bytes",)),
    "reduce_scatter": (("peers",), ("message_bytes",)),
    "all_to_all": (("peers",), ("message_bytes",)),
}
"""Numbers that must match, and numbers that are interpolated, by family."""


class Point(msgspec.Struct, frozen=True):
    """One measurement: binary logarithms of its position, and the logarithm of measured over peak-roofline time."""

    at: tuple[float, ...]
    ratio: float


def _number(op: Op, name: str) -> Number:
    return op.shape[name] if name in op.shape else getattr(op, name)


def position(op: Op) -> tuple[str, list[Number], list[Number]] | None:
    """(family, numbers that must match, numbers to interpolate) of an operator; None where tables have no such kernel."""
    family = kernels.family(op)
    if family not in _AXES or (family == "prefill_attention" and not _plain(op.shape["cached"])):
        return None
    fixed, free = _AXES[family]
    return family, [_number(op, name) for name in fixed], [_number(op, name) for name in free]


def _plain(cached: Number) -> bool:
    """Whether no prefix is cached: tables without prefixes say nothing about one."""
    return num.all_true(cached == 0)


class Measured:
    """Prices by a table of measured kernels, and by `Fitted` outside it; a `Pricer`."""

    def __init__(self, fallback: Fitted, rows: Iterable[tuple[Op, Number]]):
        """`rows` are operators, whose numbers may be arrays, with the seconds measured."""
        self.fallback = fallback
        self.points: dict[Key, list[Point]] = {}
        for op, seconds in rows:
            self._add(op, seconds)
        for points in self.points.values():
            points.sort(key=lambda point: point.at)

    def _add(self, op: Op, seconds: Number) -> None:
        """File every measurement of an operator under its shape."""
        place = position(op)
        if place is None:
            return
        family, fixed, free = place
        peak = self._peak(op)
        columns = [_listed(value, seconds) for value in (*fixed, *free, peak, seconds)]
        for row in zip(*columns, strict=True):
            least, time = row[-2], row[-1]
            if least > 0 and time > 0:
                at = tuple(math.log2(max(x, 1e-9)) for x in row[len(fixed) : -2])
                self.points.setdefault(_key(family, op, row[: len(fixed)]), []).append(
                    Point(at, math.log(time / least))
                )

    def _peak(self, op: Op) -> Number:
        cost = self.fallback.peak.cost(op)
        return num.maximum(num.maximum(cost.compute, cost.memory), cost.comm)

    def cost(self, op: Op) -> Cost:
        """The measured time where the table has it, else the fitted one; `basis` says which."""
        other = self.fallback.cost(op)
        place = position(op)
        if place is None or not self.points:
            return other
        family, fixed, free = place
        peak = self._peak(op)
        if any(num.is_array(value) for value in (*fixed, *free, peak)):
            return self._many(op, other, peak, family, fixed, free)
        ratio = self._ratio(_key(family, op, fixed), free)
        if ratio is None:
            return other
        time = peak * max(math.exp(ratio), 1.0) * op.shape.get("share", 1.0)
        least = self.fallback.peak.cost(op)
        return _cost(op, num.maximum(time, peak), peak, least.compute, least.memory)

    def _many(self, op: Op, other: Cost, peak: Number, family: str, fixed: list[Number], free: list[Number]) -> Cost:
        """The same for arrays: each distinct position is looked up once."""
        import numpy

        columns = numpy.broadcast_arrays(*[numpy.asarray(value, float) for value in (*fixed, *free)])
        table = numpy.stack([column.ravel() for column in columns], axis=1)
        rows, inverse = numpy.unique(table, axis=0, return_inverse=True)
        found = [self._ratio(_key(family, op, row[: len(fixed)]), list(row[len(fixed) :])) for row in rows.tolist()]
        ratios = numpy.array([math.nan if ratio is None else max(ratio, 0.0) for ratio in found])
        ratio = ratios[inverse.ravel()].reshape(columns[0].shape)
        hit = numpy.isfinite(ratio)
        time = numpy.maximum(peak * numpy.exp(numpy.where(hit, ratio, 0.0)) * op.shape.get("share", 1.0), peak)
        least = self.fallback.peak.cost(op)
        own = _cost(op, time, peak, least.compute, least.memory)
        if hit.all():
            return own
        compute = numpy.where(hit, own.compute, other.compute)
        memory = numpy.where(hit, own.memory, other.memory)
        comm = numpy.where(hit, own.comm, other.comm)
        overhead = numpy.where(hit, own.overhead, other.overhead)
        return Cost(compute, memory, comm, overhead, other.basis, other.low, other.high, peak)

    def _ratio(self, key: Key, at: list[float]) -> float | None:
        """Logarithm of measured over peak time at a position, None outside what was measured."""
        points = self.points.get(key)
        if not points:
            return self._between(key, at) if key[0] == "gemm" else None
        where = tuple(math.log2(max(float(x), 1e-9)) for x in at)
        for axis, x in enumerate(where):
            values = [point.at[axis] for point in points]
            if not min(values) - 1e-9 <= x <= max(values) + 1e-9:
                return None
        return _line(points, where[0]) if len(where) == 1 else _nearest(points, where)

    def _between(self, key: Key, at: list[float]) -> float | None:
        """A product of a size nobody measured, from the sizes around it: their ratios at the same rows, nearest first."""
        place = tuple(math.log2(max(x, 1e-9)) for x in key[2:])
        sizes = [other for other in self.points if other[:2] == key[:2]]
        near = sorted((math.dist(tuple(math.log2(x) for x in size[2:]), place), size) for size in sizes)[:NEIGHBOURS]
        found = [(d, self._ratio(size, at)) for d, size in near if d <= REACH]
        kept = [(distance, ratio) for distance, ratio in found if ratio is not None]
        if not kept:
            return None
        weights = [1.0 / (distance * distance) for distance, _ in kept]
        return math.fsum(w * r for w, (_, r) in zip(weights, kept, strict=True)) / math.fsum(weights)


def _line(points: list[Point], x: float) -> float:
    """Between the two measurements around x."""
    index = bisect_left(points, x - 1e-9, key=lambda point: point.at[0])
    right = points[min(index, len(points) - 1)]
    left = points[max(index - 1, 0)]
    if right.at[0] - x <= 1e-9 or right.at == left.at:
        return right.ratio
    share = (x - left.at[0]) / (right.at[0] - left.at[0])
    return left.ratio + share * (right.ratio - left.ratio)


def _nearest(points: list[Point], where: tuple[float, ...]) -> float | None:
    """Mean of the nearest measurements, weighted by the inverse square of their distance in octaves."""
    near = sorted((math.dist(point.at, where), point.ratio) for point in points)[:NEIGHBOURS]
    if near[0][0] <= 1e-9:
        return near[0][1]
    if near[0][0] > REACH:
        return None
    weights = [1.0 / (distance * distance) for distance, _ in near]
    return math.fsum(w * ratio for w, (_, ratio) in zip(weights, near, strict=True)) / math.fsum(weights)


def _key(family: str, op: Op, fixed: Iterable[Number]) -> Key:
    return (family, op.format, *(round(float(value), 6) for value in fixed))


def _listed(value: Number, like: Number) -> list[float]:
    """A number or array as a list as long as the measurements."""
    if not num.is_array(like):
        return [float(value)]
    if not num.is_array(value):
        return [float(value)] * len(like)
    return value.tolist()


def _cost(op: Op, time: Number, peak: Number, compute: Number, memory: Number) -> Cost:
    """A measured time, its arithmetic and traffic in the proportion they have at the peak."""
    if op.collective:
        return Cost(0.0, 0.0, time, 0.0, "measured", *BAND, peak)
    return Cost(time * (compute / peak), time * (memory / peak), 0.0, 0.0, "measured", *BAND, peak)
