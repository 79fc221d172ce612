"""A file that remembers the finished chunks of a run, so that one that was stopped continues where it was.

Records are appended and flushed one by one; a record cut off by a crash is dropped when the file is read again.
"""

from __future__ import annotations

import contextlib
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import num
from rooflab.sweep.grid import numpy_or_none
from rooflab.units import InputError, shown

_LENGTH = struct.Struct("<Q")
_MARK = b"rooflab sweep 1\n"


class Journal:
    """Finished chunks of one question in one file."""

    def __init__(self, path: str | Path, digest: str, names: Sequence[str]):
        self.path = Path(path)
        self.head = _MARK + msgspec.json.encode([digest, list(names)]) + b"\n"

    def read(self, kind: Any) -> Iterator[tuple[int, Any]]:
        """Chunks already there; a file of another question is refused, a cut-off record at the end is removed."""
        with self._reached():
            data = self.path.read_bytes() if self.path.exists() else b""
            if not data:
                self.path.write_bytes(self.head)
                return
        if not data.startswith(self.head):
            raise InputError(f"{self.path}: belongs to another question; give another file or remove this one")
        at = len(self.head)
        while at + _LENGTH.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            end = at + _LENGTH.size + length
            if end > len(data):
                break
            try:
                part = _unpacked(kind, data[at + _LENGTH.size : end])
            except (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError):
                raise InputError(
                    f"{self.path}: is damaged at byte {at:,}; give another file or remove this one"
                ) from None
            yield part.index, part
            at = end
        if at < len(data):
            with self._reached(), self.path.open("r+b") as file:
                file.truncate(at)

    def write(self, part: Any) -> None:
        """Appends one chunk."""
        body = _packed(part)
        with self._reached(), self.path.open("ab") as file:
            file.write(_LENGTH.pack(len(body)) + body)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """What the machine refuses is said with the file's name."""
        try:
            yield
        except OSError as problem:
            why = problem.strerror or problem
            raise InputError(f"resume: {shown(str(self.path))} cannot be used: {why}; name another file") from None


def _packed(part: Any) -> bytes:
    fields = {name: getattr(part, name) for name in part.__struct_fields__}
    fields["figures"] = {name: _bytes(column, "d") for name, column in part.figures.items()}
    fields |= {"rows": _bytes(part.rows, "q"), "reason": _bytes(part.reason, "q")}
    return msgspec.msgpack.encode(fields)


def _unpacked(kind: Any, data: bytes) -> Any:
    fields = msgspec.msgpack.decode(data)
    fields["figures"] = {name: _column(raw, "d") for name, raw in fields["figures"].items()}
    fields |= {"rows": _column(fields["rows"], "q"), "reason": _column(fields["reason"], "q")}
    return kind(**{**fields, "reasons": tuple(fields["reasons"])})


def _bytes(column: Any, code: str) -> bytes:
    if num.is_array(column):
        return column.astype("<f8" if code == "d" else "<i8").tobytes()
    return array(code, column).tobytes()


def _column(raw: bytes, code: str) -> Any:
    numpy = numpy_or_none()
    if numpy is not None:
        return numpy.frombuffer(raw, dtype="<f8" if code == "d" else "<i8").copy()
    found = array(code)
    found.frombytes(raw)
    return found.tolist()
