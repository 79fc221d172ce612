"""Traces of real traffic: arrivals and lengths from CSV or JSONL, in any of the usual spellings.

Azure, Mooncake (with block hashes), ServeGen, Vidur and BurstGPT columns are known by name. A row that cannot be read is refused
with its line; nothing is skipped or guessed.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from rooflab.sim.traffic import LONGEST, MOST, Traffic
from rooflab.units import InputError, shown

_NAMES: dict[str, tuple[str, ...]] = {
    "arrival": ("arrival_s", "arrival", "arrival_time", "arrived_at", "timestamp", "start_time", "time", "request_time"),
    "prompt": (
        "input_tokens", "input_toks", "input_length", "contexttokens", "num_prefill_tokens", "request tokens",
        "prompt_tokens", "prompt_length", "prompt", "prompt_len",
    ),
    "output": (
        "output_tokens", "output_toks", "output_length", "generatedtokens", "num_decode_tokens", "response tokens",
        "completion_tokens", "response_length", "output", "output_len",
    ),
    "priority": ("priority",),
    "session": ("session_id", "chat_id", "conversation_id", "session"),
    "hashes": ("hash_ids", "block_hashes"),
}  # fmt: skip
_SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
LATEST = 30 * 365 * 86_400.0
"""Seconds from the first arrival to the last at most: thirty years."""
MOONCAKE_BLOCK = 512
"""Tokens a Mooncake hash covers."""


def read(path: str | Path, *, time_unit: str | None = None, hash_tokens: int = MOONCAKE_BLOCK) -> Traffic:
    """The traffic of a trace file: .csv, or .jsonl with one request a line.

    Times are seconds, dates, or milliseconds where a JSONL row has `timestamp` (Mooncake); `time_unit` (s, ms, us, ns) overrides.
    Raises InputError naming the file and line of what cannot be read.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "not UTF-8 text"
        raise InputError(f"trace: {shown(str(path))} cannot be read: {reason}") from None
    return parse(text, file.name, time_unit=time_unit, hash_tokens=hash_tokens)


def parse(text: str, name: str, *, time_unit: str | None = None, hash_tokens: int = MOONCAKE_BLOCK) -> Traffic:
    """The traffic of a trace's text; see `read`."""
    if time_unit is not None and time_unit not in _SCALES:
        raise InputError(f"time_unit: {shown(time_unit)} is not one of {', '.join(_SCALES)}")
    if not text.strip():
        raise InputError(f"trace: {name} is empty")
    lines = text.lstrip()[:1] in "{["
    rows = _json_rows(text, name) if lines else _csv_rows(text, name)
    return _traffic(rows, name, "ms" if lines else "s", time_unit, hash_tokens)


def _csv_rows(text: str, name: str) -> Iterable[tuple[int, dict[str, Any]]]:
    """(line, row by our names) of a CSV file with a header."""
    reader = csv.reader(io.StringIO(text))
    try:
        rows = list(reader)
    except csv.Error as problem:
        raise InputError(f"trace: {name}, line {reader.line_num}: is not CSV: {problem}") from None
    header = [title.strip() for title in rows[0]]
    columns = _columns(header, f"trace: {name}, line 1")
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"trace: {name}, line {line}: {len(row)} fields where the header has {len(header)}")
        yield line, {ours: row[index] for ours, index in columns.items()}


def _columns(titles: list[str], where: str) -> dict[str, Any]:
    """Our name to the index of the title that spells it."""
    lower = [title.lower() for title in titles]
    found = {}
    for ours, spellings in _NAMES.items():
        index = next((lower.index(spelling) for spelling in spellings if spelling in lower), None)
        if index is not None:
            found[ours] = index
    missing = [ours for ours in ("arrival", "prompt", "output") if ours not in found]
    if missing:
        spellings = "; ".join(f"{ours}: {', '.join(_NAMES[ours][:3])}" for ours in missing)
        raise InputError(f"{where}: no column for {' and '.join(missing)} among {', '.join(titles[:12])} ({spellings})")
    return found


def _json_rows(text: str, name: str) -> Iterable[tuple[int, dict[str, Any]]]:
    """(line, row by our names) of one JSON object a line."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"trace: {name}, line {number}"
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise InputError(f"{where}: is not a JSON object; write one request a line") from None
        if not isinstance(row, dict):
            raise InputError(f"{where}: is not a JSON object; write one request a line")
        titles = [str(title) for title in row]
        found = {ours: row[titles[index]] for ours, index in _columns(titles, where).items()}
        found["milliseconds"] = "timestamp" in row
        yield number, found


def _moment(value: Any, scale: float, where: str) -> float:
    """Seconds of a number or a date."""
    try:
        found = float(value) * scale if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        text = str(value).strip()
        head, dot, fraction = text.partition(".")
        digits = "".join(c for c in fraction[:6] if c.isdigit())
        try:
            day = datetime.fromisoformat(head + (dot + digits.ljust(6, "0") if digits else ""))
        except ValueError:
            raise InputError(f"{where}: arrival {shown(value)} is neither seconds nor a date") from None
        found = (day - datetime(2000, 1, 1, tzinfo=day.tzinfo)).total_seconds()
    if not math.isfinite(found) or found < 0:
        raise InputError(f"{where}: arrival {shown(value)} must be a time of zero or more")
    return found


def _tokens(value: Any, field: str, where: str) -> int:
    """A count of at least one token."""
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number == math.floor(number) and 1 <= number <= LONGEST):
        raise InputError(f"{where}: {field} {shown(value)} must be a whole number of tokens from 1 to {LONGEST:,}")
    return int(number)


def _hashes(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(item, int) and 0 <= item < 2**62 for item in value):
        raise InputError(f"{where}: hash_ids {shown(value)} must be a list of whole numbers")
    return tuple(value)


def _traffic(
    rows: Iterable[tuple[int, dict[str, Any]]], name: str, unit: str, time_unit: str | None, hash_tokens: int
) -> Traffic:
    """Columns in order of arrival, the first at zero."""
    found: list[tuple[float, int, int, int, int, tuple[int, ...]]] = []
    sessions: dict[Any, int] = {}
    has = {"priority": False, "session": False, "hashes": False}
    for line, row in rows:
        where = f"trace: {name}, line {line}"
        own = time_unit or (unit if row.get("milliseconds") else "s")
        for key in has:
            has[key] = has[key] or key in row
        session = sessions.setdefault(str(row.get("session")), len(sessions)) if "session" in row else len(sessions)
        if "session" not in row and has["session"]:
            raise InputError(f"{where}: has no session where others have one")
        found.append(
            (
                _moment(row["arrival"], _SCALES[own], where),
                _tokens(row["prompt"], "prompt", where),
                _tokens(row["output"], "output", where),
                int(_moment(row["priority"], 1.0, where)) if "priority" in row else 0,
                session,
                _hashes(row["hashes"], where) if "hashes" in row else (),
            )
        )
        if len(found) > MOST:
            raise InputError(f"trace: {name} has more than {MOST:,} requests; cut it")
    if not found:
        raise InputError(f"trace: {name} has a header and no requests")
    found.sort(key=lambda item: item[0])
    arrival, prompt, output, priority, session, hashes = (list(column) for column in zip(*found, strict=True))
    start = arrival[0]
    if arrival[-1] - start > LATEST:
        raise InputError(
            f"trace: {name} lasts {arrival[-1] - start:,.0f} s, more than {LATEST:,.0f}; write its times in seconds"
        )
    return Traffic(
        arrival=[moment - start for moment in arrival],
        prompt=prompt,
        output=output,
        priority=priority if has["priority"] else None,
        session=session if has["session"] else None,
        hashes=hashes if has["hashes"] else None,
        hash_tokens=hash_tokens,
        title=f"trace {name}, {len(found):,} requests over {arrival[-1] - start:,.1f} s",
    )
