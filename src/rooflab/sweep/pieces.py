"""Long searches piece by piece: the first points at once, progress, and a stop between two pieces.

The pieces together are the same rows as the search in one go. Without NumPy a piece is a fraction of a second in a browser;
with it the sharded sweep and the joint search of a few machines are one piece.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import msgspec

from rooflab import num
from rooflab.sweep.evaluate import plan_of, work_on
from rooflab.sweep.frame import Column, Frame
from rooflab.sweep.gather import USUAL, Kept, Rows
from rooflab.sweep.grid import numpy_or_none
from rooflab.sweep.layouts import AXES, Study, sweep_layouts
from rooflab.sweep.spaces import Space

PLAIN_POINTS, POINTS = 16, 16384
"""Points of one piece of a space: without NumPy, and with it."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are ready, and how far the search is."""

    frame: Frame
    done: int
    total: int


def sharded_pieces(
    asked: Study, axes: Mapping[str, Sequence[Any]], *, vectorise: bool = True
) -> Generator[Piece, bool | None, Frame]:
    """The sharded sweep, a block of cp and tp at a time; send True to stop. Returns everything that was evaluated."""
    grid = {name: tuple(axes.get(name, values)) for name, values in AXES.items()}
    whole = 1
    for values in grid.values():
        whole *= len(values)
    if vectorise and numpy_or_none() is not None:
        frame = sweep_layouts(asked, axes, vectorise=True)
        yield Piece(frame=frame, done=whole, total=whole)
        return frame
    frames: list[Frame] = []
    done = 0
    for cp, tp in itertools.product(grid["cp"], grid["tp"]):
        frame = sweep_layouts(asked, {**axes, "cp": (cp,), "tp": (tp,)}, vectorise=False)
        same = [at + done for at in frame.column("same_as")]
        frame = msgspec.structs.replace(frame, columns={**frame.columns, "same_as": same})
        frames.append(frame)
        done += len(frame)
        if (yield Piece(frame=frame, done=done, total=whole)):
            break
    return joined(frames)


def joined(frames: Sequence[Frame]) -> Frame:
    """Frames of the same columns as one; counts are added up."""
    if len(frames) == 1:
        return frames[0]
    first = frames[0]
    totals: dict[str, float] = {}
    for frame in frames:
        for name, value in frame.totals.items():
            totals[name] = totals.get(name, 0.0) + value
    return msgspec.structs.replace(
        first,
        columns={name: _chained([frame.columns[name] for frame in frames]) for name in first.columns},
        feasible=_chained([frame.feasible for frame in frames]),
        reason=_chained([frame.reason for frame in frames]),
        totals=totals,
    )


def _chained(columns: Sequence[Column]) -> list[Any]:
    return [value for column in columns for value in (column.tolist() if num.is_array(column) else column)]


def space_pieces(
    asked: Space, *, figures: Sequence[str] = USUAL, points: int = 0
) -> Generator[Piece, bool | None, Frame]:
    """A space, task by task; send True to stop. Returns everything that was evaluated."""
    chunk = points or (PLAIN_POINTS if numpy_or_none() is None else POINTS)
    plan, names = plan_of(asked, chunk), tuple(figures)
    table = Rows(plan, names)
    stopped = False
    for task in plan.tasks:
        part = work_on(asked, task, names, (), chunk)
        table.add(part)
        one = Kept(plan, names)
        one.add(part)
        stopped = bool((yield Piece(frame=one.frame(False), done=table.points, total=plan.rows)))
        if stopped:
            break
    return table.frame(stopped and table.points < plan.rows)


def drained(pieces: Generator[Piece, Any, Frame]) -> Frame:
    """All of a search at once."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value
