"""A report as one page of HTML that needs nothing else: its page of the terminal with charts, and the question to ask again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import msgspec

from rooflab.api import ask_of
from rooflab.document.curves import Series, lines, over_time, rounded
from rooflab.document.elements import folded, listed, section, shell, table, value
from rooflab.show import page
from rooflab.show.elements import Bar, Block, Cell, Formula, Page, Report, Table, Verdict
from rooflab.units import format as shown
from rooflab.units import number

MOST_ROWS = 500
"""Rows of a search that are listed in full."""
MOST_DOTS = 4000
"""Points of a search that are drawn."""
SPANS = 120
"""Spans of time of a run's chart."""


def sheet(report: Report, date: str = "") -> str:
    """The page of a report."""
    made = page(report)
    verdict = next((block for block in made.blocks if isinstance(block, Verdict)), None)
    blocks = [block for block in made.blocks if block is not verdict]
    sections = [*_charts(report), *_sections(blocks), *_all_rows(report), _again(report)]
    return shell(made.title, report["version"], _head(made, verdict, report, date), sections)


def _head(made: Page, verdict: Verdict | None, report: Report, date: str) -> str:
    lead = made.title if verdict is None else f"{verdict.text[:1].upper()}{verdict.text[1:]}"
    above = "" if verdict is None else f'<p class="quiet">{escape(made.title)}</p>'
    said = [verdict.detail if verdict else "", made.detail]
    about = " · ".join(part for part in (f"RoofLab {report['version']}", date) if part)
    lines = "<br>".join(escape(part) for part in (*said, f"{about} · an analytical model, not a benchmark") if part)
    return f'<header>{above}<h1>{escape(lead)}</h1><p class="quiet">{lines}</p></header>\n'


def _sections(blocks: Sequence[Block]) -> list[str]:
    """Every table and list under its title; what has none continues the section before."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks:
        inner = _block(block)
        title = getattr(block, "title", "")
        if not inner:
            continue
        if title or not found:
            found.append((title or "Answer", [inner]))
        else:
            found[-1][1].append(inner)
    taken: dict[str, int] = {}
    out = []
    for title, inner in found:
        taken[title] = taken.get(title, 0) + 1
        name = title if taken[title] == 1 else f"{title} {taken[title]}"
        out.append(section(name, *inner, long=True))
    return out


def _block(block: Block) -> str:
    if isinstance(block, Table):
        right = [index for index, column in enumerate(block.columns) if column.right]
        wraps = [column.wraps for column in block.columns]
        rows = [[_cell(cell, free) for cell, free in zip(row, wraps, strict=True)] for row in block.rows]
        return table([column.title for column in block.columns], rows, right)
    if isinstance(block, Verdict):
        return f"<p><b>{escape(block.text)}</b> {escape(block.detail)}</p>"
    if isinstance(block, Formula):
        return f"<p><b>{escape(block.name)}</b> {escape(block.text)} <code>{escape(block.numbers)}</code></p>"
    if isinstance(block, Bar):
        return listed(f"{part.label}: {part.text}" for part in block.parts)
    return listed(block.lines) if block.points else "".join(f"<p>{escape(line)}</p>" for line in block.lines)


def _cell(cell: Cell | str, wraps: bool) -> str:
    """A cell as HTML: words in their tone, on one line unless their column wraps."""
    found = Cell(cell) if isinstance(cell, str) else cell
    kinds = [found.tone] if found.tone in ("good", "bad") else []
    kinds += [] if wraps else ["whole"]
    text = escape(found.text).replace("  ", "&ensp;")
    return f'<span class="{" ".join(kinds)}">{text}</span>' if kinds else text


def _again(report: Report) -> str:
    fields = msgspec.structs.fields(ask_of({"kind": report["kind"], **report["ask"]}))
    usual = {
        field.name: field.default_factory() if callable(field.default_factory) else field.default for field in fields
    }
    said = {name: given for name, given in report["ask"].items() if name in usual and given != usual[name]}
    question = json.dumps({"kind": report["kind"], **said}, ensure_ascii=False, indent=1)
    how = (
        "<p>Saved as <code>question.json</code>, this is answered again by <code>rooflab ask question.json</code>.</p>"
    )
    return section("The same again", how, f"<pre>{escape(question)}</pre>", long=True)


# --------------------------------------------------------------------------------------------------------- charts


def _charts(report: Report) -> list[str]:
    found = _CHARTS[report["kind"]](report) if report["kind"] in _CHARTS else []
    figures = [f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in found if svg]
    return [section("At a glance", f'<div class="pair">{"".join(figures)}</div>')] if figures else []


def _frontier(rows: Report, front: Sequence[int], goals: Sequence[str]) -> list[tuple[str, str]]:
    """Points of a search on two of its goals ("max:figure"), and what of the frontier nothing beats in both as a line."""
    (along, _, across), (rising, _, up) = [goal.rpartition(":") for goal in goals[:2]]
    columns, units = rows["columns"], rows["units"]
    if not {across, up} <= set(columns):
        return []

    def point(at: int) -> tuple[float, float] | None:
        x, y = columns[across][at], columns[up][at]
        return (float(x), float(y)) if x is not None and y is not None and x > 0 and y > 0 else None

    places = {found for at in front if (found := point(at)) is not None}
    line: list[tuple[float, float]] = []
    signs = [-1.0 if goal == "max" else 1.0 for goal in (along, rising)]
    for each in sorted(places, key=lambda place: (signs[0] * place[0], signs[1] * place[1])):
        if not line or signs[1] * each[1] < signs[1] * line[-1][1]:
            line.append(each)
    line.sort()
    every = [found for at, fine in enumerate(rows["feasible"]) if fine and (found := point(at)) is not None]
    if len(line) < 2:
        return []
    dots = every[:: max(1, -(-len(every) // MOST_DOTS))]
    names, both = [name.replace("_", " ") for name in (across, up)], [units.get(name, "1") for name in (across, up)]
    ends = " to ".join(f"{shown(x, both[0])} and {shown(y, both[1])}" for x, y in (line[0], line[-1]))
    said = f"{names[1]} against {names[0]}: {len(line)} points on the frontier, from {ends}; a table lists them"
    xs, (unit, right) = [each[0] for each in (*line, *dots)], _axis(names[0], both[0])
    ticks = [(each, _tick(each, unit)) for each in rounded(min(xs), max(xs))]
    unit, above = _axis(names[1], both[1])
    drawn = lines(said, [Series(name="frontier", points=line)], [], ticks, unit, (right, above), dots)
    return [(f"{names[1].capitalize()} against {names[0]}", drawn)]


def _axis(name: str, unit: str) -> tuple[str, str]:
    """Unit of the values along an axis, and the axis's name, which takes a unit that is too long to repeat."""
    return (unit, name) if unit in ("1", "s", "byte") else ("1", f"{name}, {unit}")


def _tick(at: float, unit: str) -> str:
    return f"{at:,.12g}" if unit == "1" else shown(at, unit, 1)


def _sweep(report: Report) -> list[tuple[str, str]]:
    goals = list(report["best"])
    return _frontier(report["table"], report["pareto"], goals) if len(goals) > 1 else []


def _simulate(report: Report) -> list[tuple[str, str]]:
    """A load curve, or a run over time."""
    curve, line = report["curve"], report["timeline"]
    if curve:
        return [_curve(curve, ("ttft", "tpot"), "s", "Time against load"),
                _curve(curve, ("output_throughput",), "token/s", "Output against load")]  # fmt: skip
    if not line:
        return []
    at = [start + line["span"] / 2 for start in line["start"]]
    series = [Series(name=name, points=list(zip(at, line[name], strict=True)), kind=kind)
              for name, kind in (("running", "compute"), ("waiting", "memory"))]  # fmt: skip
    peaks = " and ".join(f"at most {number(max(line[name]))} {name}" for name in ("running", "waiting"))
    used = [Series(name="cache", points=list(zip(at, [100.0 * each for each in line["kv"]], strict=True)), kind="kv")]
    said = f"Cache in use over time, at most {max(line['kv']):.0%}"
    return [("Requests over time", over_time(f"Requests over time: {peaks}", series, "1", ("s", "requests"))),
            ("Cache in use over time, %", over_time(said, used, "1", ("s", "%")))]  # fmt: skip


def _curve(curve: list[dict[str, Any]], figures: Sequence[str], unit: str, title: str) -> tuple[str, str]:
    series, said = [], []
    for figure in figures:
        for name in (f"{figure}_p50", f"{figure}_p95", figure):
            points = [(point["load"], point["figures"][name]) for point in curve if point["figures"].get(name)]
            if len(points) > 1:
                label = name.replace("ttft", "TTFT").replace("tpot", "TPOT").replace("output_throughput", "output")
                kind = "compute" if figure == "ttft" else "memory" if figure == "tpot" else "ink"
                series.append(Series(name=label.replace("_", " "), points=points, kind=kind, thin=name.endswith("p50")))
                (x0, y0), (x1, y1) = points[0], points[-1]
                said.append(
                    f"{label.replace('_', ' ')} {shown(y0, unit)} at {number(x0)} to {shown(y1, unit)} at {number(x1)}"
                )
    ticks = [(point["load"], number(point["load"])) for point in curve]
    unit, above = _axis("", unit)
    return title, lines("; ".join(said), series, [], ticks, unit, ("load", above.lstrip(", ")))


_CHARTS: dict[str, Callable[[Report], list[tuple[str, str]]]] = {
    "sweep": _sweep,
    "sharded": lambda report: _frontier(report["table"], report["pareto"], ("min:devices", "min:latency")),
    "codesign": lambda report: _frontier(report["machines"], report["pareto"], ("min:cost", "min:latency")),
    "simulate": _simulate,
}


def _all_rows(report: Report) -> list[str]:
    """The rows behind a chart, on demand, where a page can hold them."""
    rows = report.get("machines") or report.get("table")
    if not rows or not rows["feasible"] or len(rows["feasible"]) > MOST_ROWS:
        return []
    columns, units = rows["columns"], rows["units"]
    heads = [name.replace("_", " ") for name in columns]
    right = [index for index, name in enumerate(columns) if not isinstance(columns[name][0], str)]
    cells = [
        [value(columns[name][at], units.get(name, "1")) for name in columns] for at in range(len(rows["feasible"]))
    ]
    return [section("Every row", folded(f"{len(cells):,} rows", table(heads, cells, right)), long=True)]
