"""Frames of searches as plain tables: which rows and columns come back, and why rows are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from rooflab.api.design_asks import Table
from rooflab.sweep.frame import Frame


def kept_rows(frame: Frame, rows: str, front: Sequence[int]) -> list[int]:
    """Positions of the rows a question asks for."""
    if rows == "pareto":
        return list(front)
    if rows == "feasible":
        return frame.positions()
    if rows == "distinct":
        same = frame.column("same_as")
        return [i for i in range(len(frame)) if same[i] == i]
    return list(range(len(frame)))


def reasons_of(frame: Frame) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in _listed(frame.reason):
        if text:
            counts[text] = counts.get(text, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: -pair[1]))


def _listed(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def table_of(frame: Frame, positions: Sequence[int] | None = None, names: Sequence[str] | None = None) -> Table:
    """A frame as plain data, all of it or some rows and columns; numbers that are missing become null."""
    if names is not None:
        frame = msgspec.structs.replace(frame, columns={name: frame.column(name) for name in names})
    part = frame if positions is None or len(positions) == len(frame) else frame.take(positions)
    columns = {name: _nulls(_listed(column)) for name, column in part.columns.items()}
    return Table(
        columns=columns,
        units={name: unit for name, unit in part.units.items() if name in columns and unit != "text"},
        feasible=[bool(flag) for flag in _listed(part.feasible)],
        reason=[str(text) for text in _listed(part.reason)],
    )


def _nulls(values: list[Any]) -> list[Any]:
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
