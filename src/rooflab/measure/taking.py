"""Taking measurements: case by case, each kept at once, resumed where they stopped, and written as tables.

The folder of a run holds `journal` (JSON lines: a line for the machine at each start, then one a case), `operators/` and
`endtoend/` with the tables, and `configs/` with the shallow models' configs. Nothing here knows PyTorch: what measures is a
`Device`, and tests bring one that only pretends.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rooflab.measure.calibrate import system_of
from rooflab.measure.depths import Stack
from rooflab.measure.plan_of import BUDGET, Case, Plan
from rooflab.units import InputError, shown

JOURNAL = "journal"
FORMATS = ("csv", "parquet", "jsonl")
TABLES = {
    "gemm": "operators/gemm",
    "decode_attention": "operators/decode_attention",
    "prefill_attention": "operators/prefill_attention",
    "elementwise": "operators/elementwise",
    "collectives": "operators/collectives",
    "steps": "endtoend/steps",
}
"""Family -> its table, without the suffix."""
INTERRUPTED = "stopped by the keyboard; the same command goes on from here"
BROKEN = 20
"""Failures in a row after which the device is taken for broken."""


class Unsupported(Exception):
    """The device cannot run a case; the message says why."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Timed runs of a case: seconds by what was timed ("kernel", or "prefill" and "decode")."""

    samples: dict[str, list[float]]
    graph: bool = True
    """Whether launched from a captured graph."""
    kernel: str = ""


class Device(Protocol):
    """What measures."""

    def facts(self) -> dict[str, Any]:
        """The machine: system, device_name, backend versions, driver, memory."""
        ...

    def state(self) -> dict[str, Any]:
        """Clocks, temperature and power now, where they can be read."""
        ...

    def measure(self, case: Case, budget: float) -> Taken:
        """Time a case for about `budget` seconds. Raises Unsupported or MemoryError."""
        ...


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Median, 10th and 90th percentile of some runs, in seconds."""

    median: float
    low: float
    high: float
    n: int


def spread(samples: Sequence[float]) -> Spread:
    """What is kept of the runs of a case.

    Raises Unsupported where a time is no positive number.
    """
    runs = sorted(samples)
    if not runs or not all(math.isfinite(each) and each > 0.0 for each in runs):
        raise Unsupported("the timer gave no positive time")
    middle = len(runs) // 2
    median = runs[middle] if len(runs) % 2 else (runs[middle - 1] + runs[middle]) / 2.0
    last = len(runs) - 1
    return Spread(median=median, low=runs[round(0.1 * last)], high=runs[round(0.9 * last)], n=len(runs))


class Journal:
    """The cases measured so far, in a file that only grows; a torn last line is dropped."""

    def __init__(self, folder: Path):
        self.path = folder / JOURNAL
        self.machines: list[dict[str, Any]] = []
        self.rows: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            self.path.write_bytes(whole)
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                row = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                raise InputError(
                    f"out: line {number} of {shown(str(self.path))} is not one that measure writes; give another folder"
                ) from None
            if "machine" in row:
                self.machines.append(row["machine"])
            elif "key" in row and "seconds" in row and self.machines:
                self.rows[row["key"]] = {**row, "machine": self.machines[-1]}

    def begin(self, machine: dict[str, Any]) -> None:
        """Go on with this machine.

        Raises InputError where the file holds another's measurements.
        """
        for earlier in self.machines:
            for name in ("system", "device_name", "cache"):
                if earlier.get(name) != machine.get(name):
                    raise InputError(
                        f"out: {shown(str(self.path.parent))} holds measurements with {name} {earlier.get(name)!r}, this is "
                        f"{machine.get(name)!r}; give another folder"
                    )
        self.machines.append(machine)
        self._append({"machine": machine})

    def add(self, row: dict[str, Any]) -> None:
        """Keep one case."""
        self.rows[row["key"]] = {**row, "machine": self.machines[-1]}
        self._append(row)

    def _append(self, row: dict[str, Any]) -> None:
        with self.path.open("ab") as stream:
            stream.write(json.dumps(row, allow_nan=False).encode() + b"\n")


Progress = Callable[[int, int, str], None]


def run(
    plan: Plan,
    device: Device,
    folder: str | Path,
    form: str = "csv",
    stacks: Sequence[Stack] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure what the folder does not hold yet, and write every table; a keyboard interrupt keeps what there is.

    Raises InputError where the folder cannot be written or holds another machine's measurements.
    """
    if form not in FORMATS:
        raise InputError(f"format: {shown(form)} is not one of {', '.join(FORMATS)}")
    where = Path(folder)
    try:
        where.mkdir(parents=True, exist_ok=True)
        journal = Journal(where)
        journal.begin(device.facts())
        _configs(where, stacks)
    except OSError as problem:
        raise InputError(f"out: {shown(str(where))} cannot be used: {problem.strerror or problem}") from None
    already = sum(case.key in journal.rows for case in plan.cases)  # int
    failed: dict[str, int] = {}
    stopped = ""
    try:
        stopped = _take(plan, device, journal, failed, progress)
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    files = write(journal, where, form)
    return _report(plan, journal, where, files, already, failed, stopped, stacks)


def _take(plan: Plan, device: Device, journal: Journal, failed: dict[str, int], progress: Progress | None) -> str:
    """Measure the cases that are missing; says why where it gave up."""
    in_a_row = 0
    for number, case in enumerate(plan.cases):
        if progress is not None:
            progress(number, len(plan.cases), case.family)
        if case.key in journal.rows:
            continue
        try:
            taken = device.measure(case, BUDGET[plan.quick])
            seconds = {what: msgspec.to_builtins(spread(runs)) for what, runs in taken.samples.items()}
        except Exception as problem:  # one kernel that fails must not lose the others
            reason = f"{case.family}: {_reason(problem)}"
            failed[reason] = failed.get(reason, 0) + 1
            in_a_row += not isinstance(problem, (Unsupported, MemoryError))
            if in_a_row >= BROKEN:
                return f"gave up after {BROKEN} failures in a row; the last: {reason}"
            continue
        in_a_row = 0
        row = {"key": case.key, "family": case.family, "columns": case.columns, "seconds": seconds}
        journal.add({**row, "graph": taken.graph, "kernel": taken.kernel, **device.state()})
    if progress is not None:
        progress(len(plan.cases), len(plan.cases), "")
    return ""


def _reason(problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "out of memory"
    text = " ".join(str(problem).split())[:160]
    return text if isinstance(problem, Unsupported) else f"{type(problem).__name__}: {text}"


def _configs(where: Path, stacks: Sequence[Stack]) -> None:
    """The shallow models' configs, where `validate --configs` finds them."""
    for stack in stacks:
        (where / "configs").mkdir(exist_ok=True)
        for depth, config in stack.configs.items():
            path = where / "configs" / f"{stack.named(depth)}.json"
            path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------- tables


def table_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the journal as a row of its table, in the schema its reader knows."""
    machine, columns = row["machine"], row["columns"]
    times = {what: each["median"] * 1000.0 for what, each in row["seconds"].items()}  # count
    engine = "transformers" if row["graph"] else "transformers-eager"
    if row["family"] == "steps":
        versions = {"backend": engine, "version": machine.get("transformers", "")}
        return {**columns, "prefill_ms": times["prefill"], "tbt_ms": times["decode"], **versions}
    if row["family"] == "elementwise":
        return {**columns, "gpu": machine["system"], "median_ms": times["kernel"], "version": machine["version"]}
    backend = "nccl" if row["family"] == "collectives" else machine["backend"]
    where = {"system": machine["system"], "backend": backend, "version": machine["version"]}
    return {**columns, "latency_ms": times["kernel"], **where, "kernel_source": row["kernel"]}


def write(journal: Journal, folder: Path, form: str) -> list[str]:
    """Every table of the journal, each whole; returns their paths.

    Raises InputError where a package is missing or a file cannot be written.
    """
    files = []
    for family, name in TABLES.items():
        rows = [table_row(row) for row in journal.rows.values() if row["family"] == family]
        if not rows:
            continue
        steps = family == "steps"
        path = folder / f"{name}.{'csv' if steps else form}"
        try:
            path.parent.mkdir(exist_ok=True)
            for other in () if steps else FORMATS:
                if other != form:
                    path.with_suffix(f".{other}").unlink(missing_ok=True)
            _WRITERS["csv" if steps else form](rows, path)
        except OSError as problem:
            raise InputError(f"out: {shown(str(path))} cannot be written: {problem.strerror or problem}") from None
        files.append(str(path))
    return files


def _csv(rows: list[dict[str, Any]], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _jsonl(rows: list[dict[str, Any]], path: Path) -> None:
    path.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="utf-8")


def _parquet(rows: list[dict[str, Any]], path: Path) -> None:
    try:
        import pandas
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError("format: parquet needs pandas and pyarrow; pip install 'rooflab[data]', or take csv") from None
    pandas.DataFrame(rows).to_parquet(path, index=False)


_WRITERS: dict[str, Callable[[list[dict[str, Any]], Path], None]] = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}


# ----------------------------------------------------------------------------------------------------------- report


def _report(
    plan: Plan,
    journal: Journal,
    where: Path,
    files: list[str],
    already: int,
    failed: dict[str, int],
    stopped: str,
    stacks: Sequence[Stack],
) -> dict[str, Any]:
    counts: dict[str, dict[str, Any]] = {}
    for case in plan.cases:
        row = journal.rows.get(case.key)
        one = counts.setdefault(case.family, {"planned": 0, "measured": 0, "spreads": [], "rates": [], "moved": []})
        one["planned"] += 1
        if row is None:
            continue
        one["measured"] += 1
        for each in row["seconds"].values():
            one["spreads"].append((each["high"] - each["low"]) / each["median"])
        if case.family != "steps":
            median = row["seconds"]["kernel"]["median"]
            one["rates"].append(case.flop / median)
            one["moved"].append(case.traffic / median)
    return {
        "machine": journal.machines[-1],
        "known": system_of(journal.machines[-1]["system"]) is not None,
        "out": str(where),
        "files": files,
        "resumed": already,
        "families": [
            {
                "family": name,
                "planned": one["planned"],
                "measured": one["measured"],
                "spread": sorted(one["spreads"])[len(one["spreads"]) // 2] if one["spreads"] else 0.0,
                "flop_rate": max(one["rates"], default=0.0),
                "bandwidth": max(one["moved"], default=0.0),
            }
            for name, one in counts.items()
        ],
        "steps": [row for stack in stacks for row in _wholes(stack, journal)],
        "failed": [{"reason": reason, "n": count} for reason, count in failed.items()],
        "left_out": [{"reason": reason, "n": count} for reason, count in plan.left_out.items()],
        "stopped": stopped,
        "interrupted": stopped == INTERRUPTED,
    }


def _wholes(stack: Stack, journal: Journal) -> list[dict[str, Any]]:
    """Whole steps of a model: measured at full depth, else scaled up from two depths."""
    found: dict[tuple[int, int], dict[int, dict[str, float]]] = {}
    for row in journal.rows.values():
        columns = row["columns"]
        for depth in stack.depths:
            if row["family"] == "steps" and columns["model"] == stack.named(depth):
                times = {what: each["median"] for what, each in row["seconds"].items()}
                found.setdefault((columns["batch_size"], columns["isl"]), {})[depth] = times
    rows = []
    for (batch, prompt), depths in sorted(found.items()):
        if set(depths) == set(stack.depths):
            for phase in ("prefill", "decode"):
                times = stack.whole({depth: each[phase] for depth, each in depths.items()})
                about = {"model": stack.name, "phase": phase, "batch": batch, "prompt": prompt, "layers": stack.layers}
                rows.append({**about, "depths": list(stack.depths), **times})
    return rows
