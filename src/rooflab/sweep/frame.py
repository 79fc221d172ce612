"""A table of results: named columns with units, which rows are feasible, and why the others are not.

Columns are NumPy arrays where NumPy is there and lists where it is not. Exports load their library when called.
"""

from __future__ import annotations

import csv
import io
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import num
from rooflab.sweep.fronts import frontier, objectives
from rooflab.units import InputError, dimension_of, nearest, parse, shown

Column = Any
_TEST = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|!=|<|>|=)\s*(.+?)\s*")
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a sweep as columns of equal length, in a fixed order whatever the order of evaluation."""

    columns: dict[str, Column]
    units: dict[str, str] = {}
    feasible: Column = ()
    """Whether each row's layout is allowed and fits."""
    reason: Column = ()
    """Why a row is not feasible; empty where it is."""
    notes: tuple[str, ...] = ()
    totals: dict[str, float] = {}
    """Counts about the whole: enumerated, feasible, collapsed, …"""

    def __len__(self) -> int:
        return len(self.feasible)

    def column(self, name: str) -> Column:
        """A column by name.

        Raises InputError naming the nearest column.
        """
        if name == "feasible":
            return self.feasible
        if name == "reason":
            return self.reason
        if name not in self.columns:
            known = tuple(self.columns)
            hint = nearest(name, known) or f"; columns: {', '.join(known)}"
            raise InputError(f"{shown(name)}: the result has no such column{hint}")
        return self.columns[name]

    def row(self, position: int) -> dict[str, Any]:
        """One row as plain values."""
        found = {name: plain(column[position]) for name, column in self.columns.items()}
        return {**found, "feasible": bool(self.feasible[position]), "reason": str(self.reason[position])}

    def rows(self, positions: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """Rows as plain values; all of them unless told which."""
        return [self.row(i) for i in (range(len(self)) if positions is None else positions)]

    def take(self, positions: Sequence[int]) -> Frame:
        """The same table with only these rows, in this order."""
        return msgspec.structs.replace(
            self,
            columns={name: _taken(column, positions) for name, column in self.columns.items()},
            feasible=_taken(self.feasible, positions),
            reason=_taken(self.reason, positions),
        )

    def where(self, *conditions: str) -> Frame:
        """Feasible rows that meet every condition, such as "ttft < 1 s" or "devices <= 8"."""
        return self.take(self.positions(*conditions))

    def positions(self, *conditions: str) -> list[int]:
        """Positions of feasible rows that meet every condition; a missing value meets none."""
        mask = self.feasible
        for condition in conditions:
            mask = _both(mask, self._holds(condition))
        return [i for i, holds in enumerate(mask) if holds]

    def _holds(self, condition: str) -> Column:
        name, test, limit = condition_of(condition, self.units)
        column = self.column(name)
        if isinstance(limit, str) or not num.is_array(column):
            return [value == value and bool(test(value, limit)) for value in map(plain, column)]
        return test(column, limit)

    def pareto(self, named: Mapping[str, str] | Sequence[str], *conditions: str, ties: str = "first") -> list[int]:
        """Positions of the frontier of the feasible rows that meet the conditions (requirement A-046)."""
        names, goals = objectives(named)
        mask = self.feasible
        for condition in conditions:
            mask = _both(mask, self._holds(condition))
        return frontier([self.column(name) for name in names], goals, among=mask, ties=ties)

    def best(self, *order: str, where: Sequence[str] = ()) -> int | None:
        """The feasible row first by these columns ("max:" in front turns one round); None where none is feasible."""
        names, goals = objectives(order)
        columns = [self.column(name) for name in names]
        signs = [1.0 if goal == "min" else -1.0 for goal in goals]
        allowed = [i for i in self.positions(*where) if columns[0][i] == columns[0][i]]
        if not allowed:
            return None
        return min(allowed, key=lambda i: tuple(s * plain(c[i]) for s, c in zip(signs, columns, strict=True)))

    def sort(self, *order: str) -> Frame:
        """Rows by these columns, feasible ones first."""
        names, goals = objectives(order)
        columns = [self.column(name) for name in names]
        signs = [1.0 if goal == "min" else -1.0 for goal in goals]

        def key(i: int) -> tuple[Any, ...]:
            return (not self.feasible[i], *(s * plain(c[i]) for s, c in zip(signs, columns, strict=True)))

        return self.take(sorted(range(len(self)), key=key))

    def records(self) -> Iterator[dict[str, Any]]:
        """Rows one after another."""
        return (self.row(i) for i in range(len(self)))

    def to_csv(self, path: str | Path | None = None) -> str:
        """Comma-separated text with units in the header, also written to `path`."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [*self.columns]
        writer.writerow([*(self._header(name) for name in names), "feasible", "reason"])
        lists = [_listed(self.columns[name]) for name in names]
        flags, reasons = _listed(self.feasible), _listed(self.reason)
        writer.writerows(zip(*([_written(v) for v in column] for column in lists), flags, reasons, strict=True))
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    def _header(self, name: str) -> str:
        unit = self.units.get(name, "1")
        return name if unit in ("1", "", "text") else f"{name} [{unit}]"

    def _whole(self) -> dict[str, Column]:
        return {**self.columns, "feasible": self.feasible, "reason": self.reason}

    def to_pandas(self) -> Any:
        """A pandas DataFrame; units are under `attrs["units"]`."""
        table = _library("pandas", "data").DataFrame(self._whole())
        table.attrs["units"] = dict(self.units)
        return table

    def to_polars(self) -> Any:
        """A polars DataFrame."""
        return _library("polars", "data").DataFrame({name: _listed(column) for name, column in self._whole().items()})

    def to_arrow(self) -> Any:
        """A pyarrow Table; units are in each field's metadata."""
        arrow = _library("pyarrow", "data")
        arrays = {name: arrow.array(_listed(column)) for name, column in self._whole().items()}
        fields = [
            arrow.field(name, array.type, metadata={"unit": self.units.get(name, "1")})
            for name, array in arrays.items()
        ]
        return arrow.Table.from_arrays(list(arrays.values()), schema=arrow.schema(fields))

    def to_parquet(self, path: str | Path) -> None:
        """A Parquet file; units are in each field's metadata."""
        table = self.to_arrow()
        _library("pyarrow.parquet", "data").write_table(table, str(path))


def condition_of(condition: str, units: Mapping[str, str]) -> tuple[str, Callable[[Any, Any], Any], Any]:
    """(column, test, limit in SI) of a condition such as "ttft<1", "tpot <= 50 ms" or "system = dgx-h100"."""
    found = _TEST.fullmatch(condition)
    if found is None:
        raise InputError(f"where: {shown(condition)} is not a condition; write for example 'ttft < 1 s'")
    name, sign, text = found[1], found[2], found[3]
    unit = units.get(name)
    if unit is None:
        try:
            unit = dimension_of(name)
        except InputError:
            return name, _TESTS[sign], text.strip("'\"")
    if unit == "text":
        return name, _TESTS[sign], text.strip("'\"")
    try:
        return name, _TESTS[sign], float(text)  # a bare number is SI
    except ValueError:
        return name, _TESTS[sign], parse(text, unit, name)


def plain(value: Any) -> Any:
    """A Python value of an array's element."""
    return value.item() if hasattr(value, "item") else value


def _both(a: Column, b: Column) -> Column:
    if num.is_array(a) and num.is_array(b):
        return a & b
    return [bool(x) and bool(y) for x, y in zip(a, b, strict=True)]


def _taken(column: Column, positions: Sequence[int]) -> Column:
    if num.is_array(column):
        import numpy

        return column[numpy.asarray(positions, dtype=int)]
    return [column[i] for i in positions]


def _listed(column: Column) -> list[Any]:
    return column.tolist() if num.is_array(column) else list(column)


def _written(value: Any) -> Any:
    """A cell: nothing for a missing number, the shortest text that reads back otherwise."""
    if isinstance(value, float):
        return "" if value != value else repr(value)
    return value


def _library(name: str, extra: str) -> Any:
    """A library that only exports need.

    Raises InputError that says how to install it.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        top = name.partition(".")[0]
        raise InputError(f"{top} is not installed; pip install 'rooflab[{extra}]'") from None
