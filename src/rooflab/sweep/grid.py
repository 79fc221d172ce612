"""A product of axes, and quantities that depend on only some of them: each is evaluated once per value it really sees.

With NumPy a quantity over number axes is one array call; without it the same functions run once per combination.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

Number = Any
Column = Any


def numpy_or_none() -> Any:
    """NumPy, or None where it is not installed (a browser)."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class Table(msgspec.Struct, frozen=True):
    """A quantity over some axes of a grid: an array with length-one axes elsewhere, or values by position."""

    axes: tuple[str, ...]
    values: Any


class Grid:
    """Axes in row-major order, the last varying fastest; number axes hold numbers, choice axes hold names."""

    def __init__(self, axes: Mapping[str, Sequence[Any]], *, vectorise: bool = True):
        self.axes = {name: tuple(values) for name, values in axes.items()}
        self.shape = tuple(len(values) for values in self.axes.values())
        self.size = math.prod(self.shape)
        self.numpy: Any = numpy_or_none() if vectorise else None
        self._order = {name: i for i, name in enumerate(self.axes)}

    def _is_choice(self, name: str) -> bool:
        return isinstance(self.axes[name][0], str)

    def table(self, names: Sequence[str], function: Callable[..., Any], parts: int = 1) -> tuple[Table, ...]:
        """`function(**values)` over these axes; it returns one quantity, or a tuple of `parts`."""
        used = tuple(name for name in self.axes if name in names)
        if self.numpy is None:
            return self._scalars(used, function, parts)
        choices = [name for name in used if self._is_choice(name)]
        numbers = {name: self._along(name) for name in used if not self._is_choice(name)}
        shape = tuple(len(self.axes[name]) if name in used else 1 for name in self.axes)
        arrays = [self.numpy.empty(shape) for _ in range(parts)]
        for picked in itertools.product(*[range(len(self.axes[name])) for name in choices]):
            named = {name: self.axes[name][i] for name, i in zip(choices, picked, strict=True)}
            found = function(**named, **numbers)
            where: list[Any] = [slice(None)] * len(shape)
            for name, i in zip(choices, picked, strict=True):
                where[self._order[name]] = slice(i, i + 1)
            for array, value in zip(arrays, found if parts > 1 else (found,), strict=True):
                array[tuple(where)] = value
        return tuple(Table(used, array) for array in arrays)

    def _along(self, name: str) -> Any:
        shape = [1] * len(self.shape)
        shape[self._order[name]] = -1
        return self.numpy.array(self.axes[name], dtype=float).reshape(shape)

    def _scalars(self, used: tuple[str, ...], function: Callable[..., Any], parts: int) -> tuple[Table, ...]:
        values: list[dict[tuple[int, ...], Number]] = [{} for _ in range(parts)]
        for picked in itertools.product(*[range(len(self.axes[name])) for name in used]):
            found = function(**{name: self.axes[name][i] for name, i in zip(used, picked, strict=True)})
            for table, value in zip(values, found if parts > 1 else (found,), strict=True):
                table[picked] = value
        return tuple(Table(used, table) for table in values)

    def column(self, table: Table) -> Column:
        """A quantity for every row of the grid."""
        if self.numpy is not None:
            return self.numpy.broadcast_to(table.values, self.shape).ravel()
        places = [self._order[name] for name in table.axes]
        values = table.values
        return [values[tuple(row[i] for i in places)] for row in _positions(self.shape)]

    def values(self, name: str) -> Column:
        """An axis for every row: numbers as floats or ints, choices as text."""
        return _axis(self.shape, self._order[name], self.axes[name], self.numpy is not None)

    def indices(self, name: str) -> Column:
        """The position along an axis of every row."""
        return _index(self.shape, self._order[name], self.numpy is not None)


@lru_cache(maxsize=8)
def _positions(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*[range(length) for length in shape]))


@lru_cache(maxsize=64)
def _index(shape: tuple[int, ...], axis: int, vectorised: bool) -> Column:
    if not vectorised:
        return [row[axis] for row in _positions(shape)]
    import numpy

    view = [1] * len(shape)
    view[axis] = -1
    found = numpy.broadcast_to(numpy.arange(shape[axis]).reshape(view), shape).ravel()
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def _axis(shape: tuple[int, ...], axis: int, values: tuple[Any, ...], vectorised: bool) -> Column:
    at = _index(shape, axis, vectorised)
    if not vectorised:
        return [values[i] for i in at]
    import numpy

    found = numpy.array(values)[at]
    found.flags.writeable = False
    return found
