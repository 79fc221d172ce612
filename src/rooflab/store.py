"""Saved scenarios: one SQLite file that the command line and the served page share, and JSON to pass them on.

A record holds the whole question, so that it is asked again, and the figures it had when it was saved, by which version.
The store knows no question's meaning: who saves checks it first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rooflab.units import InputError, nearest, shown

if TYPE_CHECKING:
    import sqlite3

FORMAT = 1
"""Of the SQLite file and of the JSON; a newer one is refused."""
APPLICATION = 0x526F664C  # "RofL", in SQLite's header
MOST = 1_000
"""Scenarios of one store."""
LONGEST_NAME = 100
LARGEST_ASK = 2_000_000
"""Characters of one question: an imported config.json is a few thousand."""
LARGEST_FILE = 50_000_000
PATIENCE = 10.0
"""Seconds to wait for another program that is writing."""
VARIABLE = "ROOFLAB_STORE"
_PLAIN = re.compile(r"[\w.:+-]{0,40}", re.ASCII)
_EXAMPLES = {"version": "0.1.0", "time": "2026-01-31T12:00:00Z"}
_TABLE = """CREATE TABLE scenarios (
  name TEXT PRIMARY KEY NOT NULL, ask TEXT NOT NULL, digest TEXT NOT NULL, version TEXT NOT NULL, time TEXT NOT NULL)"""
_COLUMNS = "name, ask, digest, version, time"


class Saved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario under a name."""

    name: str
    ask: dict[str, Any]
    """The fields of an estimate's question."""
    digest: dict[str, Any] = {}
    """Its figures when it was saved."""
    version: str
    """Of the engine that saved it."""
    time: str
    """When, in UTC: 2026-01-31T12:00:00Z."""


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What an exported file holds."""

    rooflab: str
    format: int
    version: str = ""
    scenarios: list[Saved]
    results: Any = None
    """What the engine said of them, for a reader; not read back."""


def now() -> str:
    """The time as a record keeps it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017  (datetime.UTC is not in every stub)


def checked_name(name: Any, field: str = "name") -> str:
    """A name for a scenario: one line of at most `LONGEST_NAME` characters.

    Raises InputError.
    """
    text = " ".join(name.split()) if isinstance(name, str) else ""
    if not text:
        raise InputError(f"{field}: {shown(name)} is not a name; write for example 'FP8 weights'")
    if len(text) > LONGEST_NAME:
        raise InputError(f"{field}: {shown(text)} has {len(text)} characters; at most {LONGEST_NAME} are kept")
    if any(unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Cn") for each in text):
        raise InputError(f"{field}: {shown(text)} holds characters that cannot be seen; write plain text")
    return text


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """The name, or with the next free number behind it (D-130)."""
    names = set(taken)
    if wanted not in names:
        return wanted
    stem = wanted[: LONGEST_NAME - 5].rstrip()
    return next(name for n in range(2, MOST + 3) if (name := f"{stem} {n}") not in names)


def default_path() -> Path:
    """Where the store is unless told otherwise: `ROOFLAB_STORE`, else the platform's folder for a user's data."""
    told = os.environ.get(VARIABLE, "").strip()
    if told:
        return Path(told).expanduser()
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "RoofLab"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library/Application Support/RoofLab"
    else:
        data = os.environ.get("XDG_DATA_HOME", "")
        folder = (Path(data) if Path(data).is_absolute() else Path.home() / ".local/share") / "rooflab"
    return folder / "scenarios.sqlite3"


# ------------------------------------------------------------------------------------------------ the file


class Store:
    """The scenarios of one file. Every call opens it anew, so threads and programs may share it."""

    def __init__(self, path: str | Path | None = None):
        self.path = Path(path).expanduser() if path else default_path()

    def all(self) -> list[Saved]:
        """Every scenario, in the order they were saved; none where there is no file yet."""
        if not self.path.exists() or (self.path.is_file() and not self.path.stat().st_size):
            return []
        with self._open() as line:
            return [self._record(row) for row in line.execute(f"SELECT {_COLUMNS} FROM scenarios ORDER BY rowid")]

    def get(self, name: str) -> Saved:
        """The scenario of that name.

        Raises InputError naming those that are close.
        """
        found = {each.name: each for each in self.all()}
        if name not in found:
            raise self._missing(name, found)
        return found[name]

    def save(self, record: Saved, *, replace: bool = False) -> Saved:
        """Keep a scenario; a name that is taken is refused, unless `replace`."""
        row = _row(record)
        with self._open(write=True) as line:
            self._insert(line, row, replace)
        return record

    def save_all(self, records: Iterable[Saved]) -> list[Saved]:
        """Keep several, all or none; a name that is taken gets the next free number. Returns them as they are kept."""
        kept: list[Saved] = []
        with self._open(write=True) as line:
            taken = self._taken(line)
            for record in records:
                named = msgspec.structs.replace(record, name=free_name(checked_name(record.name), taken))
                taken.add(named.name)
                self._insert(line, _row(named), False)
                kept.append(named)
        return kept

    def rename(self, name: str, to: str) -> Saved:
        """Another name for a scenario; one that is taken is refused."""
        to = checked_name(to, "to")
        with self._open(write=True) as line:
            names = self._names(line, name)
            if to != name and to in names:
                raise InputError(f"to: {shown(to)} is taken; choose another name, or delete that one first")
            line.execute("UPDATE scenarios SET name = ? WHERE name = ?", (to, name))
        return self.get(to)

    def delete(self, names: Iterable[str]) -> list[str]:
        """Forget scenarios, all or none."""
        gone = list(dict.fromkeys(names))
        with self._open(write=True) as line:
            for name in gone:
                self._names(line, name)
            line.executemany("DELETE FROM scenarios WHERE name = ?", [(name,) for name in gone])
        return gone

    def _insert(self, line: sqlite3.Connection, row: tuple[str, ...], replace: bool) -> None:
        (there,) = line.execute("SELECT count(*) FROM scenarios WHERE name = ?", (row[0],)).fetchone()
        if there and not replace:
            raise InputError(f"name: {shown(row[0])} is saved already; choose another name, or replace it")
        (count,) = line.execute("SELECT count(*) FROM scenarios").fetchone()
        if not there and count >= MOST:
            raise InputError(f"{self.path} holds {MOST:,} scenarios already; delete some, or start another store")
        line.execute(
            f"INSERT INTO scenarios ({_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET "
            "ask = excluded.ask, digest = excluded.digest, version = excluded.version, time = excluded.time",
            row,
        )

    def _names(self, line: sqlite3.Connection, name: str) -> set[str]:
        names = self._taken(line)
        if name not in names:
            raise self._missing(name, names)
        return names

    @staticmethod
    def _taken(line: sqlite3.Connection) -> set[str]:
        return {name for (name,) in line.execute("SELECT name FROM scenarios")}

    def _missing(self, name: str, names: Iterable[str]) -> InputError:
        known = sorted(names)
        hint = nearest(name, known) or (f"; there are {', '.join(map(shown, known[:8]))}" if known else "; none is yet")
        return InputError(f"{shown(name)} is not saved{hint}")

    def _record(self, row: tuple[Any, ...]) -> Saved:
        name, ask, digest, version, time = row
        try:
            data = {
                "name": name,
                "ask": json.loads(ask),
                "digest": json.loads(digest),
                "version": version,
                "time": time,
            }
            return msgspec.convert(data, Saved)
        except (TypeError, ValueError, RecursionError):
            raise InputError(
                f"{self.path}: the scenario {shown(name)} is damaged; delete it: {self._advice()}"
            ) from None

    def _hindered(self, problem: str) -> str:
        """What SQLite met while it used the file, and what to do; nothing of a change is kept."""
        if "locked" in problem or "busy" in problem:
            return "is in use by another program; try again"
        if "full" in problem or "disk I/O" in problem:
            return "cannot be written: the disk is full or fails; free some space and try again, what was saved is as it was"
        if "readonly" in problem:
            return f"may only be read; make it writable, or name another with --store or {VARIABLE}"
        return f"cannot be used ({problem[:120]}); {self._advice()}"

    def _advice(self) -> str:
        return f"move the file away, or name another with --store or {VARIABLE}"

    @contextlib.contextmanager
    def _open(self, write: bool = False) -> Iterator[sqlite3.Connection]:
        """The file, checked; what is written is written whole or not at all."""
        import sqlite3

        try:
            if write:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.path.exists() and not self.path.is_file():
                raise InputError(f"{self.path} is not a file; {self._advice()}")
            # Nothing here opens the file beside SQLite: closing it would drop the locks of this program's other threads.
            # Transactions are ours: BEGIN IMMEDIATE below waits for whoever is writing.
            line = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        except (OSError, sqlite3.Error) as problem:
            raise InputError(f"{self.path} cannot be opened ({_why(problem)}); {self._advice()}") from None
        try:
            with contextlib.closing(line):
                line.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                self._prepare(line, write)
                yield line
                line.execute("COMMIT")
        except sqlite3.OperationalError as problem:
            raise InputError(f"{self.path} {self._hindered(str(problem))}") from None
        except (OverflowError, sqlite3.Error) as problem:
            if "not a database" in str(problem):
                raise InputError(f"{self.path} holds no saved scenarios of RoofLab; {self._advice()}") from None
            raise InputError(f"{self.path} is damaged ({_why(problem)}); {self._advice()}") from None

    def _prepare(self, line: sqlite3.Connection, write: bool) -> None:
        """Makes the table in a new file; refuses other programs' files and newer ones."""
        (application,) = line.execute("PRAGMA application_id").fetchone()
        (version,) = line.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in line.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if write and not tables and not application:
            line.execute(_TABLE)
            line.execute(f"PRAGMA application_id = {APPLICATION}")
            line.execute(f"PRAGMA user_version = {FORMAT}")
            return
        if application != APPLICATION:
            raise InputError(f"{self.path} is another program's file; {self._advice()}")
        if version > FORMAT:
            raise InputError(
                f"{self.path} was written by a newer RoofLab (format {version}, this one reads {FORMAT}); "
                f"update RoofLab, or name another with --store or {VARIABLE}"
            )
        if "scenarios" not in tables:
            raise InputError(f"{self.path} is damaged (its table is gone); {self._advice()}")


def _why(problem: BaseException) -> str:
    return getattr(problem, "strerror", None) or str(problem)[:120]


def _plain(text: str, field: str) -> str:
    """A version or a time: a few letters, digits and marks, safe wherever it is shown."""
    if not _PLAIN.fullmatch(text):
        raise InputError(f"{field}: {shown(text)} is not one; write for example {_EXAMPLES[field]}")
    return text


def _row(record: Saved) -> tuple[str, ...]:
    """A record as the table keeps it."""
    name = checked_name(record.name)
    try:
        ask, digest = (json.dumps(each, ensure_ascii=False, allow_nan=False) for each in (record.ask, record.digest))
        (ask + digest).encode()
    except (ValueError, TypeError, RecursionError):
        raise InputError(f"{shown(name)}: the question is not plain data that can be kept") from None
    if len(ask) > LARGEST_ASK or len(digest) > LARGEST_ASK:
        raise InputError(f"{shown(name)}: the question has {len(ask):,} characters; at most {LARGEST_ASK:,} are kept")
    return name, ask, digest, _plain(record.version, "version"), _plain(record.time, "time")


# ------------------------------------------------------------------------------------------------ JSON


def dump(records: Iterable[Saved], version: str) -> str:
    """Scenarios as a JSON file that `read` takes back."""
    data = {
        "rooflab": "scenarios",
        "format": FORMAT,
        "version": version,
        "scenarios": [msgspec.to_builtins(each) for each in records],
    }
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read(text: str, label: str = "the file") -> list[Saved]:
    """The scenarios of an exported file; their questions are not yet checked.

    Raises InputError that says what is wrong: not JSON, not ours, newer, or which field of which scenario.
    """
    if len(text) > LARGEST_FILE:
        raise InputError(f"{label} is too large: at most {LARGEST_FILE:,} characters are read")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{label} is not JSON: {str(problem)[:120]}") from None
    if not isinstance(data, dict) or data.get("rooflab") != "scenarios":
        raise InputError(f"{label} holds no saved scenarios; give a file that `rooflab saved export` or the page wrote")
    version = data.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError(f"{label}: format: {shown(version)} is not a number of a format; this RoofLab reads {FORMAT}")
    if version > FORMAT:
        raise InputError(
            f"{label} was written by a newer RoofLab (format {version}, this one reads {FORMAT}); update RoofLab to read it"
        )
    try:
        found = msgspec.convert(data, _File).scenarios
    except (msgspec.ValidationError, RecursionError) as problem:
        raise InputError(f"{label}: {_place(str(problem))}") from None
    if len(found) > MOST:
        raise InputError(f"{label} holds {len(found):,} scenarios; at most {MOST:,} are read")
    for each in found:
        _plain(each.version, "version")
        _plain(each.time, "time")
    return [msgspec.structs.replace(each, name=checked_name(each.name, f"{label}: name")) for each in found]


def _place(message: str) -> str:
    """A validation message with the place first."""
    text, _, path = message.partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    return f"{where}: {text[:1].lower()}{text[1:]}" if where else f"{text[:1].lower()}{text[1:]}"
