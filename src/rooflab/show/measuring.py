"""Pages of what would be measured, and of what was."""

from __future__ import annotations

from typing import Any

from rooflab.show.accuracy import percent
from rooflab.show.elements import Block, Cell, Column, Page, Report, Table, Verdict, Words, shown

Row = tuple[Cell | str, ...]


def span(seconds: float) -> str:
    """About how long, as people say it."""
    return f"{max(1, round(seconds))} s" if seconds < 90.0 else f"{round(seconds / 60.0)} min"


def plan_page(report: Report) -> Page:
    """Families with their number of cases and a guess of the time."""
    columns = (Column("Family"), Column("cases", right=True), Column("about", right=True), Column("what", wraps=True))
    rows: list[Row] = [
        (each["family"], f"{each['cases']:,}", span(each["seconds"]), each["what"]) for each in report["families"]
    ]
    blocks: list[Block] = [
        Verdict(None, f"{report['cases']:,} cases, about {span(report['seconds'])}", "nothing was run"),
        Table(columns=columns, rows=tuple(rows)),
    ]
    notes = _left_out(report)
    if not any(each["family"] == "steps" for each in report["families"]):
        notes.append("whole model steps: give --model, a config.json or a name")
    if not any(each["family"] == "collectives" for each in report["families"]):
        notes.append("collectives: need two GPUs or more (--gpus plans for more)")
    blocks.append(Words(title="Notes", lines=tuple(notes)))
    return Page(title=f"What would be measured on {report['system']}", blocks=tuple(blocks))


def measure_page(report: Report) -> Page:
    """What was measured, the best rates seen, whole steps, and where the tables are."""
    machine = report["machine"]
    done = _total(report, "measured")
    planned = _total(report, "planned")
    text = f"{done:,} of {planned:,} cases measured"
    if report["resumed"]:
        text += f", {report['resumed']:,} of them before"
    blocks: list[Block] = [
        Verdict(not report["stopped"] and done == planned, text, report["stopped"]),
        _families(report),
    ]
    if report["steps"]:
        blocks.append(_steps(report["steps"]))
    blocks.append(Words(title="Notes", lines=tuple(_notes(report))))
    detail = f"{machine['device_name']}, PyTorch {machine['version']}"
    if machine.get("driver"):
        detail += f", driver {machine['driver']}"
    return Page(title=f"Measured on {machine['system']}", detail=detail, blocks=tuple(blocks))


def _total(report: Report, name: str) -> int:
    return sum(each[name] for each in report["families"])  # int


def _families(report: Report) -> Table:
    columns = (
        Column("Family"),
        Column("measured", right=True, tone="strong"),
        Column("planned", right=True, rank=1),
        Column("spread", right=True),
        Column("best rate", right=True),
        Column("best bandwidth", right=True),
    )
    rows: list[Row] = [
        (
            each["family"],
            f"{each['measured']:,}",
            f"{each['planned']:,}",
            percent(each["spread"]),
            shown(each["flop_rate"], "FLOP/s") if each["flop_rate"] else "–",
            shown(each["bandwidth"], "byte/s") if each["bandwidth"] else "–",
        )
        for each in report["families"]
    ]
    return Table(columns=columns, rows=tuple(rows))


def _steps(rows: list[dict[str, Any]]) -> Table:
    columns = (
        Column("Whole steps"),
        Column("phase"),
        Column("batch", right=True),
        Column("prompt", right=True),
        Column("layers measured", right=True, rank=1),
        Column("a layer", right=True),
        Column("outside them", right=True, rank=1),
        Column("all layers", right=True),
        Column("whole", right=True, tone="strong"),
    )
    body: list[Row] = [
        (
            each["model"],
            each["phase"],
            f"{each['batch']:,}",
            f"{each['prompt']:,}",
            " and ".join(str(depth) for depth in each["depths"]),
            shown(each["per_layer"], "s") if "per_layer" in each else "–",
            shown(each["outside"], "s") if "outside" in each else "–",
            f"{each['layers']:,}",
            shown(each["whole"], "s") if "whole" in each else "unclear: the deeper was no slower",
        )
        for each in rows
    ]
    return Table(columns=columns, rows=tuple(body))


def _notes(report: Report) -> list[str]:
    lines = [f"written to {path}" for path in report["files"]]
    if any(len(each["depths"]) > 1 for each in report["steps"]):
        lines.append("whole steps are scaled up from two depths, not measured; the tables hold the depths measured")
    lines += [f"{_cases(each['n'])} failed: {each['reason']}" for each in report["failed"]]
    lines += _left_out(report)
    if not report["known"]:
        lines.append(
            f"the catalog has no device {report['machine']['system']}: calibrate needs --on with one it has; measure again "
            "with --on if this GPU is one of them"
        )
    elif report["files"]:
        folder, system = report["out"], report["machine"]["system"]
        lines.append(f"next: rooflab calibrate --data {folder} --on {system} --write")
        lines.append(f"then: rooflab validate --data {folder} --configs {folder}/configs")
    return lines


def _left_out(report: Report) -> list[str]:
    return [f"{_cases(each['n'])} left out: {each['reason']}" for each in report["left_out"]]


def _cases(count: int) -> str:
    return f"{count:,} case" + ("" if count == 1 else "s")
