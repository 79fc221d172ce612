"""The shipped validation: every measured row of kernels, engine runs and serving runs predicted, and the errors by partition.

A row that cannot be predicted is counted with its reason. `run` takes a folder (or a file) in the schemas of the project's own
`data` folder, and a folder of configs for models outside the catalog.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import msgspec

from rooflab.measure import endtoend, serving, tables
from rooflab.units import InputError

DATA = Path(__file__).resolve().parents[3] / "data"
"""The rows shipped with a checkout."""


MEASURED = ("latency_ms", "median_ms", "ttft_ms", "tpot_ms", "prefill_ms", "tbt_ms", "e2e_ms", "itl_ms")
"""Ends of the names of columns that hold measured times."""


def tables_in(path: str | Path) -> tuple[list[Path], list[Path]]:
    """(kernel tables, text tables) at a path or below it.

    Raises InputError where there are none.
    """
    where = Path(path)
    if not where.exists():
        raise InputError(f"data: there is no file or folder '{where}'; give the folder that holds the measured tables")
    files = sorted(p for p in where.rglob("*") if p.is_file()) if where.is_dir() else [where]
    kernels = [p for p in files if p.suffix.lower() in (".parquet", ".jsonl")]
    texts = [p for p in files if p.suffix.lower() == ".csv"]
    if not kernels and not texts:
        raise InputError(f"data: '{where}' holds no .parquet, .csv or .jsonl table")
    return kernels, texts


def columns_of(path: Path) -> list[str]:
    """Column names of a text table; none where it is no text."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        try:
            return next(csv.reader(stream), [])
        except csv.Error:
            return []


def names_in(path: Path) -> list[str]:
    """Names of the first record of a table of records; none where it has no record."""
    with path.open("rb") as stream:
        try:
            record = msgspec.json.decode(stream.readline())
        except msgspec.DecodeError:
            return []
    return list(record) if isinstance(record, dict) else []


def measured(columns: list[str]) -> bool:
    """Whether a table of these columns holds measured times; others, such as traces, are nobody's to predict."""
    return any(column.strip().lower().endswith(MEASURED) for column in columns)


def rows_in(file: Path) -> int:
    """About how many rows a table has that cannot be read: lines of a text, else one."""
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        return 1
    with file.open(encoding="utf-8", errors="replace") as stream:
        lines = sum(1 for line in stream if line.strip())  # int
    return max(lines - (suffix == ".csv"), 1)


def _kernels(file: Path, report: dict[str, Any], prices: str) -> None:
    """Kernels of one table; the rows of one that cannot be read are counted."""
    from rooflab.measure import compare

    try:
        found = compare.operators_errors(file, prices=prices)
    except InputError as problem:
        found = {"operators": [], "skipped": [{"reason": str(problem), "n": rows_in(file)}]}
    report["operators"] += found["operators"]
    report["skipped"] += found["skipped"]


def run(path: str | Path | None = None, configs: str | Path | None = None, prices: str = "fitted") -> dict[str, Any]:
    """Errors of every row at a path: {"operators", "endtoend", "serving", "overall", "skipped"}.

    Raises InputError where there is nothing to predict.
    """
    where = DATA if path is None else Path(path)
    if path is None and not where.exists():
        raise InputError("data: an installed package ships no measured rows; give --data, a folder of tables")
    if configs is not None and not Path(configs).is_dir():
        raise InputError(f"configs: there is no folder '{configs}'; give the folder that holds the models' configs")
    kernels, texts = tables_in(where)
    report: dict[str, Any] = {"operators": [], "endtoend": [], "serving": [], "overall": {}, "skipped": []}
    for file in kernels:
        if file.suffix.lower() != ".jsonl" or measured(names_in(file)):
            _kernels(file, report, prices)
    _text_tables(texts, configs, report, prices)
    report["skipped"] = _by_reason(report["skipped"])
    if not any(report[part] for part in ("operators", "endtoend", "serving", "skipped")):
        raise InputError(
            f"data: '{where}' holds no measured rows that RoofLab knows; docs/measure.md says what tables look like"
        )
    report["overall"] = _overall(report)
    return report


def _by_reason(skipped: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that were not predicted by reason, the commonest first."""
    found: dict[str, int] = {}
    for each in skipped:
        found[each["reason"]] = found.get(each["reason"], 0) + each["n"]
    return [{"reason": reason, "n": count} for reason, count in sorted(found.items(), key=lambda pair: -pair[1])]


def _text_tables(texts: list[Path], configs: str | Path | None, report: dict[str, Any], prices: str) -> None:
    """Engine runs, serving runs and kernels in text form."""
    runs: list[dict[str, str]] = []
    requests: list[dict[str, str]] = []
    for file in texts:
        columns = columns_of(file)
        if serving.is_runs(columns):
            runs += serving.read(file)
        elif serving.is_requests(columns):
            requests += serving.read(file)
        elif tables.kind_of(columns) is not None:
            _kernels(file, report, prices)
        else:
            _engine_runs(file, configs, report)
    if runs or requests:
        found_runs, skipped = serving.predict(runs, requests, configs)
        report["serving"] += found_runs
        report["skipped"] += [{"reason": reason, "n": count} for reason, count in skipped]


def _engine_runs(file: Path, configs: str | Path | None, report: dict[str, Any]) -> None:
    """Runs of one table; a table of another kind is left alone unless it looks measured."""
    try:
        found, refused = endtoend.read(file)
    except InputError as problem:
        if measured(columns_of(file)):
            report["skipped"].append({"reason": str(problem), "n": rows_in(file)})
        return
    predicted, skipped = endtoend.predict(found, configs)
    report["endtoend"] += endtoend.table(predicted)
    lines: dict[str, list[int]] = {}
    for line, why in refused:
        lines.setdefault(why, []).append(line)
    report["skipped"] += [
        {"reason": f"{file.name} line {at[0]}{' and others' if len(at) > 1 else ''}: {why}", "n": len(at)}
        for why, at in lines.items()
    ]
    report["skipped"] += [{"reason": reason, "n": count} for reason, count in skipped]


def _overall(report: dict[str, Any]) -> dict[str, Any]:
    """Rows predicted and the medians of partitions, weighted by their rows."""
    overall: dict[str, Any] = {}
    rows = report["operators"]
    if rows:
        overall["operators"] = {
            "n": sum(r["n"] for r in rows),  # int
            "predicted": sum(r["predicted"] for r in rows),  # int
            "median": _weighted([(r["median"], r["predicted"]) for r in rows]),
            "coverage": _weighted([(r["coverage"], r["predicted"]) for r in rows]),
        }
    rows = report["endtoend"]
    if rows:
        runs: dict[str, Any] = {"n": sum(r["n"] for r in rows)}  # int
        overall["endtoend"] = runs
        for name in ("tpot", "ttft", "throughput"):
            runs[name] = {
                "median": _weighted([(r[name]["median"], r["n"]) for r in rows]),
                "coverage": _weighted([(r[name]["coverage"], r["n"]) for r in rows]),
            }
    if report["serving"]:
        overall["serving"] = {"n": sum(r["n"] for r in report["serving"])}  # int
    overall["skipped"] = sum(s["n"] for s in report["skipped"])  # int
    return overall


def _weighted(pairs: list[tuple[float, int]]) -> float:
    """Mean of figures weighted by rows."""
    rows = sum(count for _, count in pairs)  # int
    return math.fsum(value * count for value, count in pairs) / rows if rows else 0.0
