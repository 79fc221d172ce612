"""Pages of scenarios side by side, and of what is saved."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rooflab.show.elements import Block, Cell, Column, Page, Report, Table, Verdict, Words, dollars, joined, percent
from rooflab.units import MISSING
from rooflab.units import format as shown

PARTS = {"prefill": "Prefill, operator by operator", "decode": "One decode step, operator by operator"}


def value_text(value: Any, unit: str) -> str:
    """A value of a comparison as people read it."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or unit == "":
        return str(value)
    if unit == "share":
        return percent(value)
    if unit == "1":
        return f"{value:,}" if isinstance(value, int) else shown(value, "1")
    return dollars(value) if unit == "USD" else shown(value, unit)


def narrowed(report: Report) -> dict[str, Any]:
    """The report with only the rows on which the columns differ."""
    kept = {key: [row for row in report[key] if row["differs"]] for key in ("rows", "stages")}
    return {**report, **kept}


def compare_page(report: Report, stages: bool = False) -> Page:
    """Columns of scenarios, best value of a row in bold, what is over the memory in red (D-132, D-133)."""
    columns = report["columns"]
    blocks: list[Block] = [Words(lines=(report["finding"],))]
    blocks += [_said(column) for column in columns if column["error"] or column["fits"] is False]
    blocks.append(_table(report))
    if report["switches"]:
        blocks.append(_switches(report))
    if stages:
        blocks += [_stages(report, phase) for phase in PARTS if any(row["phase"] == phase for row in report["stages"])]
    lines = [
        f"{column['name']}, saved with {column['version']}: {each}"
        for column in columns
        if column["version"]
        for each in column["moved"]
        or ([] if column["version"] == report["version"] or column["error"] else ["the same figures"])
    ]
    if lines:
        blocks.append(Words(title="Since they were saved", lines=tuple(lines), points=True))
    return Page(title=" · ".join(column["name"] for column in columns), blocks=tuple(blocks))


def _said(column: Mapping[str, Any]) -> Verdict:
    if column["error"]:
        return Verdict(False, f"{column['name']}: not evaluated", column["error"])
    return Verdict(False, f"{column['name']}: does not fit")


def _heads(report: Report) -> tuple[Column, ...]:
    return tuple(Column(column["name"], right=True) for column in report["columns"])


def _table(report: Report) -> Table:
    rows: list[tuple[Cell | str, ...]] = []
    group = ""
    fits = [column["fits"] for column in report["columns"]]
    for row in report["rows"]:
        if row["group"] != group:
            group = row["group"]
            rows.append((Cell(group, "quiet"), *("" for _ in fits)))
        cells = []
        for index, value in enumerate(row["values"]):
            over = row["key"] in ("used", "over") and fits[index] is False
            tone = "bad" if over else "strong" if index in row["best"] else ""
            cells.append(Cell(value_text(value, row["unit"]), tone))
        rows.append((f"  {row['title']}", *cells))
    return Table(columns=(Column("Side by side"), *_heads(report)), rows=tuple(rows))


def _stages(report: Report, phase: str) -> Table:
    rows = tuple(
        (
            row["name"],
            *(
                Cell(value_text(time, "s"), "strong" if index in row["best"] else "")
                for index, time in enumerate(row["times"])
            ),
        )
        for row in report["stages"]
        if row["phase"] == phase
    )
    return Table(columns=(Column(PARTS[phase]), *_heads(report)), rows=rows)


def _switches(report: Report) -> Table:
    first, second = (column["name"] for column in report["columns"])
    rows = tuple(
        (
            row["key"],
            value_text(row["first"], row["unit"]),
            value_text(row["second"], row["unit"]),
            *(
                _moved(row[key], row[f"{key}_before"], unit)
                for key, unit in (("tpot", "s"), ("ttft", "s"), ("used", "byte"))
            ),
            row["error"] or row["means"],
        )
        for row in report["switches"]
    )
    columns = (
        Column("Switch"), Column(first, right=True), Column(second, right=True), Column("TPOT", right=True),
        Column("TTFT", right=True), Column("memory", right=True, rank=1), Column("", rank=2, wraps=True, tone="quiet"),
    )  # fmt: skip
    return Table(columns=columns, rows=rows, title=f"{first} with one switch as in {second}")


def _moved(value: float | None, before: float | None, unit: str) -> str:
    """A figure, and how far it is from what it was."""
    text = value_text(value, unit)
    if value is None or not before or abs(value / before - 1.0) < 5e-4:
        return text
    return f"{text} ({value / before - 1.0:+.1%})"


def comparison_csv(report: Report, stages: bool = False) -> str:
    """A comparison as CSV: exact values in SI, a row for each quantity, a column for each scenario."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["group", "quantity", "unit", *(_safe(column["name"]) for column in report["columns"])])
    for row in report["rows"]:
        writer.writerow([row["group"], row["title"], row["unit"], *map(_safe, row["values"])])
    for row in report["stages"] if stages else ():
        writer.writerow([row["phase"], row["name"], "s", *map(_safe, row["times"])])
    return out.getvalue()


def _safe(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula stays text."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


def saved_page(records: Sequence[Mapping[str, Any]], path: str) -> Page:
    """What is saved: names, scenarios, figures then."""
    rows = []
    for record in records:
        digest = record["digest"]
        figures = (_figure(digest.get("tpot"), "s"), _figure(digest.get("memory_used"), "byte"))
        what = joined([_printable(digest.get("name", "")), _printable(digest.get("system", ""))])
        rows.append((Cell(record["name"], "strong"), what, *figures, record["time"][:10], record["version"]))
    columns = (
        Column("Saved"), Column("scenario", rank=1), Column("TPOT", right=True), Column("memory", right=True),
        Column("saved on", rank=2), Column("version", rank=3),
    )  # fmt: skip
    blocks: tuple[Block, ...] = (Table(columns=columns, rows=tuple(rows)),)
    if not rows:
        blocks = (Words(lines=("Nothing is saved yet: rooflab save NAME MODEL --on SYSTEM",)),)
    return Page(title="Saved scenarios", detail=path, blocks=blocks)


def _printable(value: Any) -> str:
    """Text from a file of another's, without what a terminal would obey."""
    return "".join(each for each in str(value)[:60] if each.isprintable())


def _figure(value: Any, unit: str) -> str:
    return (
        value_text(float(value), unit) if isinstance(value, (int, float)) and not isinstance(value, bool) else MISSING
    )
