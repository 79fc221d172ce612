"""Exact frontiers over any number of objectives, with NumPy or without it; ties are handled, not guessed.

A point is dominated when another is at least as good in every objective and better in one. Points equal in every objective
do not dominate each other: `ties="first"` keeps the first of them in the order given, `ties="all"` keeps them all.
Points with a missing (NaN) objective are never on a frontier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rooflab import num
from rooflab.units import InputError, shown

Column = Any
BLOCK = 256
"""Candidates compared with each other at once; keeps the comparison table small."""


def signed(columns: Sequence[Column], goals: Sequence[str]) -> list[Column]:
    """Objectives turned so that smaller is better: "min" keeps a column, "max" negates it."""
    turned: list[Column] = []
    for column, goal in zip(columns, goals, strict=True):
        if goal not in ("min", "max"):
            raise InputError(f"objective: {shown(goal)} is not min or max")
        if goal == "min":
            turned.append(column)
        else:
            turned.append(-column if num.is_array(column) else [-value for value in column])
    return turned


def frontier(
    columns: Sequence[Column], goals: Sequence[str], *, among: Column | None = None, ties: str = "first"
) -> list[int]:
    """Positions of the non-dominated points, ascending by the first objective, then the next.

    among: a mask of the points that count (the feasible ones). Exact for any number of objectives.
    """
    if not columns:
        raise InputError("pareto: name at least one objective")
    if ties not in ("first", "all"):
        raise InputError(f"ties: {shown(ties)} is not first or all")
    values = signed(columns, goals)
    if any(num.is_array(value) for value in values):
        return _with_numpy(values, among, ties)
    return _plain(values, among, ties)


def objectives(named: Mapping[str, str] | Sequence[str]) -> tuple[list[str], list[str]]:
    """(names, goals) of objectives written as {"tpot": "min"} or as ["tpot", "max:throughput"]; min when not said."""
    if isinstance(named, Mapping):
        return list(named), list(named.values())
    names: list[str] = []
    goals: list[str] = []
    for item in named:
        goal, _, name = item.rpartition(":")
        names.append(name)
        goals.append(goal or "min")
    return names, goals


def _plain(values: list[Column], among: Column | None, ties: str) -> list[int]:
    """Sorted by all objectives, a point can only be dominated by one before it."""
    count = len(values[0])
    rows = [tuple(column[i] for column in values) for i in range(count)]
    kept_rows = [i for i in range(count) if (among is None or among[i]) and not any(math.isnan(x) for x in rows[i])]
    order = sorted(kept_rows, key=lambda i: (rows[i], i))
    front: list[int] = []
    members: list[tuple[float, ...]] = []
    for i in order:
        row = rows[i]
        if members and row == members[-1]:
            if ties == "all":
                front.append(i)
            continue
        if not any(all(a <= b for a, b in zip(other, row, strict=True)) for other in reversed(members)):
            members.append(row)
            front.append(i)
    return front


def _with_numpy(values: list[Column], among: Column | None, ties: str) -> list[int]:
    """Unique rows first; then the frontier of those; then the points that sit on it."""
    import numpy

    table = numpy.stack([numpy.asarray(value, dtype=float).ravel() for value in values], axis=1)
    usable = ~numpy.isnan(table).any(axis=1)
    if among is not None:
        usable &= numpy.asarray(among, dtype=bool).ravel()
    kept = numpy.flatnonzero(usable)
    if not len(kept):
        return []
    kept = _likely(numpy, table, kept)
    rows = table[kept]
    order = numpy.lexsort((kept, *rows.T[::-1]))
    rows, kept = rows[order], kept[order]
    fresh = numpy.ones(len(rows), dtype=bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = numpy.flatnonzero(fresh)
    best = starts[_sorted_front(numpy, rows[starts])]
    if ties == "first":
        return [int(i) for i in kept[best]]
    group = numpy.cumsum(fresh) - 1
    return [int(i) for i in kept[numpy.isin(group, group[best])]]


def _likely(numpy: Any, table: Any, kept: Any) -> Any:
    """Drops what a few strong points strictly dominate; cheap, exact, and it leaves little for the sort."""
    rows = table[kept]
    low, high = rows.min(axis=0), rows.max(axis=0)
    finite = numpy.isfinite(low) & numpy.isfinite(high)
    if not finite.all():
        return kept
    scale = numpy.where(high > low, high - low, 1.0)
    weights = numpy.vstack([numpy.ones(rows.shape[1]), *(1.0 + 9.0 * numpy.eye(rows.shape[1]))])
    for weight in weights:
        strong = rows[int(numpy.argmin(((rows - low) / scale) @ weight))]
        beaten = (rows >= strong).all(axis=1) & (rows > strong).any(axis=1)
        if beaten.any():
            rows, kept = rows[~beaten], kept[~beaten]
    return kept


def _sorted_front(numpy: Any, rows: Any) -> Any:
    """Frontier of distinct rows in ascending order: positions. A row can only be dominated by one before it."""
    if rows.shape[1] == 1:
        return numpy.array([0])
    if rows.shape[1] == 2:
        lowest = numpy.minimum.accumulate(rows[:, 1])
        keep = numpy.ones(len(rows), dtype=bool)
        keep[1:] = rows[1:, 1] < lowest[:-1]
        return numpy.flatnonzero(keep)
    front: list[Any] = []
    members = rows[:0]
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        where = numpy.arange(start, start + len(block))
        alive = ~_dominated(numpy, block, members)
        block, where = block[alive], where[alive]
        within = (block[:, None, :] >= block[None, :, :]).all(axis=2)
        numpy.fill_diagonal(within, False)
        own = ~within.any(axis=1)
        front.append(where[own])
        members = numpy.vstack([members, block[own]])
    return numpy.concatenate(front)


def _dominated(numpy: Any, block: Any, members: Any) -> Any:
    """Which rows of a block some member matches or beats everywhere; members in pieces, so the table stays small."""
    beaten = numpy.zeros(len(block), dtype=bool)
    for start in range(0, len(members), 4 * BLOCK):
        piece = members[start : start + 4 * BLOCK]
        table = numpy.ones((len(block), len(piece)), dtype=bool)
        for axis in range(block.shape[1]):
            table &= block[:, axis, None] >= piece[None, :, axis]
        beaten |= table.any(axis=1)
    return beaten
