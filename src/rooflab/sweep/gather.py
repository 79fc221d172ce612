"""Finished tasks put together: rows in the order of their numbers, whatever order they came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rooflab import num
from rooflab.sweep.frame import Column, Frame
from rooflab.sweep.grid import numpy_or_none
from rooflab.sweep.spaces import DEGREES, Plan

FIGURES: dict[str, str] = {
    "devices": "1", "ttft": "s", "tpot": "s", "e2e": "s", "interactivity": "token/s", "output_throughput": "token/s",
    "throughput_per_device": "token/s", "cost": "USD", "cost_output": "USD", "energy": "J/token", "weight_bytes": "byte",
    "kv_bytes": "byte", "used": "byte", "over": "byte", "memory_share": "1", "bound": "text",
}  # fmt: skip
"""Result columns and their units; cost is USD per million tokens, all of them or the answer's alone."""
USUAL = tuple(name for name in FIGURES if name not in ("memory_share", "bound"))
"""What is computed unless asked otherwise; what a step waits for costs as much again as its time."""
_SCENARIO_UNITS = {"memory": "byte", "memory_bandwidth": "byte/s", "flop_rate": "FLOP/s", "price": "USD/s", "power": "W",
    "vector_rate": "FLOP/s", "launch_time": "s", "on_chip": "byte", "prompt": "token", "output": "token",
    "cached": "token"}  # fmt: skip


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one task: rows (all of them, or those worth keeping), figures, and why a row is refused."""

    index: int
    rows: Any
    figures: dict[str, Any]
    reason: Any
    """Position in `reasons` of each row's; 0 where it is feasible."""
    reasons: tuple[str, ...]
    feasible: int
    points: int


def pick(column: Column, positions: Sequence[int]) -> Column:
    return column[positions] if num.is_array(column) else [column[i] for i in positions]


class Kept:
    """Rows worth keeping, gathered part by part and put in the order of their numbers at the end."""

    def __init__(self, plan: Plan, names: tuple[str, ...]):
        self.plan, self.names = plan, names
        self.parts: list[Part] = []
        self.feasible = 0
        self.points = 0

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self.feasible += part.feasible
        self.points += part.points

    def frame(self, stopped: bool) -> Frame:
        columns: dict[str, list[Any]] = {}
        reasons: list[Any] = []
        for part in self.parts:
            task = self.plan.tasks[part.index]
            place = {int(row): i for i, row in enumerate(self.plan.rows_of(task))}
            picked = [place[int(row)] for row in part.rows]
            for name, column in self.plan.scenario(task).items():
                columns.setdefault(name, []).append(pick(column, picked))
            for name, column in part.figures.items():
                columns.setdefault(name, []).append(column)
            reasons.append(_named(part.reason, part.reasons))
        order = _order(_joined([part.rows for part in self.parts]))
        joined = {name: pick(_joined(pieces), order) for name, pieces in columns.items()}
        return self.made(joined, pick(_joined(reasons), order), stopped)

    def made(self, columns: dict[str, Column], reason: Column, stopped: bool) -> Frame:
        units = {name: FIGURES.get(name) or _scenario_unit(name) for name in columns}
        totals = {
            "enumerated": float(self.plan.enumerated),
            "distinct": float(self.plan.rows),
            "evaluated": float(self.points),
            "feasible": float(self.feasible),
        }
        feasible = reason == "" if num.is_array(reason) else [not text for text in reason]
        notes = ("cancelled: only the points evaluated so far",) if stopped else ()
        return Frame(columns=columns, units=units, feasible=feasible, reason=reason, totals=totals, notes=notes)


class Rows(Kept):
    """All rows, each written to its own place as its part arrives."""

    def __init__(self, plan: Plan, names: tuple[str, ...]):
        super().__init__(plan, names)
        self.columns: dict[str, Any] = {}
        self.reason: Any = None
        self.filled: Any = None

    def add(self, part: Part) -> None:
        self.feasible += part.feasible
        self.points += part.points
        scenario = self.plan.scenario(self.plan.tasks[part.index])
        for name, column in (*scenario.items(), *part.figures.items()):
            if name not in self.columns:
                self.columns[name] = _blank(column, self.plan.rows)
            _put(self.columns[name], part.rows, column)
        if self.reason is None:
            self.reason, self.filled = _blank(_named([0], ("",)), self.plan.rows), _blank((), self.plan.rows)
        _put(self.reason, part.rows, _named(part.reason, part.reasons))
        _put(self.filled, part.rows, None)

    def frame(self, stopped: bool) -> Frame:
        columns, reason = self.columns, [] if self.reason is None else self.reason
        if stopped and self.filled is not None:
            at = [i for i, there in enumerate(self.filled) if there]
            columns, reason = {name: pick(column, at) for name, column in columns.items()}, pick(reason, at)
        return self.made(columns, reason, stopped)


def _blank(like: Any, rows: int) -> Any:
    """A column of that many rows, of the kind of another; flags where that is a tuple."""
    numpy = numpy_or_none()
    if numpy is None:
        return [None] * rows
    return numpy.zeros(rows, dtype=bool) if isinstance(like, tuple) else numpy.empty(rows, dtype=like.dtype)


def _put(column: Any, rows: Any, values: Any) -> None:
    """Writes values to their rows (True where there are none); rows in one run are written as one piece."""
    if numpy_or_none() is None:
        for i, row in enumerate(rows):
            column[row] = True if values is None else values[i]
        return
    run = slice(int(rows[0]), int(rows[-1]) + 1)
    column[run if run.stop - run.start == len(rows) else rows] = True if values is None else values


def _order(rows: Column) -> Any:
    """Positions that put rows in order."""
    if num.is_array(rows):
        import numpy

        return numpy.argsort(rows, kind="stable")
    return sorted(range(len(rows)), key=rows.__getitem__)


def _scenario_unit(name: str) -> str:
    if name in DEGREES or name == "batch":
        return "1"
    if name.startswith("links."):
        return "s" if name.endswith("latency") else "byte/s"
    return _SCENARIO_UNITS.get(name.partition(".")[0], "text")


def _named(codes: Column, reasons: Sequence[str]) -> Column:
    numpy = numpy_or_none()
    if numpy is None:
        return [reasons[code] for code in codes]
    return numpy.array(reasons, dtype=object)[numpy.asarray(codes, dtype=int)]


def _joined(pieces: list[Any]) -> Column:
    if not pieces:
        return []
    if not num.is_array(pieces[0]):
        return [value for piece in pieces for value in piece]
    import numpy

    return pieces[0] if len(pieces) == 1 else numpy.concatenate(pieces)
