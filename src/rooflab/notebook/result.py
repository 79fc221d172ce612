"""What an answer is in Python: a mapping with attributes that prints as a page and turns into tables and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rooflab.units import InputError, nearest

if TYPE_CHECKING:
    from rooflab.show.elements import Page


class Record(Mapping[str, Any]):
    """A part of a report: a mapping whose keys are attributes, too."""

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._data[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._data:
            return self[name]
        raise AttributeError(f"no {name!r} here{'' if name.startswith('_') else nearest(name, self._data)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._data})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data,)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python data, in SI units."""
        return _plain(self._data)

    def to_json(self, indent: int | None = 2) -> str:
        """JSON text, in SI units; what is not a number is null."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    return [_wrapped(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Result(Record):
    """An answer. Its keys are attributes (`result.ttft`, in SI units) and it prints as a page."""

    __slots__ = ()

    def __repr__(self) -> str:
        try:
            from rooflab.cli import terminal
        except ImportError:  # no Rich, as in a browser
            return self.to_json()
        return terminal.plain(self._page())

    def _repr_html_(self) -> str:
        from rooflab.show.html import document

        return document(self._page())

    def _page(self) -> Page:
        from rooflab.show import page

        return page(self._data)

    def to_frame(self) -> Any:
        """A table as a pandas DataFrame, or a polars one where pandas is missing.

        Points and estimates: a row for each point. Steps: operators. Explanations: lines. Fits: changes. Inspections:
        blocks. Chips: latency against batch. Catalogs: entries.
        """
        rows = frame_columns(self._data)
        try:
            import pandas
        except ImportError:
            try:
                import polars  # type: ignore[import-not-found]
            except ImportError:
                raise InputError("to_frame needs pandas or polars; install rooflab[data], or use to_dict()") from None
            return polars.DataFrame(rows)
        return pandas.DataFrame(rows)


_TABLES = {"step": "ops", "explain": "lines", "fit": "changes", "inspect": "blocks", "catalog": "rows"}
_HEADERS = ("version", "ask", "notes", "units", "kind", "reasons", "shape")


def frame_columns(data: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Column → values of a report's table; a mapping's fields become columns of their own: memory_used."""
    kind = data["kind"]
    if kind == "points":
        size = math.prod(data["shape"])
        flat = _flat({**data["inputs"], **{k: v for k, v in data.items() if k not in (*_HEADERS, "inputs")}})
        return {k: v.ravel().tolist() if hasattr(v, "ravel") else [v] * size for k, v in flat.items()}
    if kind == "chip":
        rows = data["chip"]["curves"]["step_latency"]
    elif kind in _TABLES:
        rows = data[_TABLES[kind]]
    else:
        rows = [{key: value for key, value in data.items() if key not in _HEADERS}]
    flat_rows = [_flat(row) for row in rows]
    names = dict.fromkeys(name for row in flat_rows for name in row)
    return {name: [row.get(name) for row in flat_rows] for name in names}


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}_"))
        else:
            flat[prefix + key] = value
    return flat
