"""The page of many estimates: a row for each point."""

from __future__ import annotations

from typing import Any

from rooflab.show.elements import Cell, Column, Page, Report, Table, Words, dollars, formats, joined, notes
from rooflab.units import format as shown

MOST = 40
"""Rows that are still read."""


def points_page(report: Report) -> Page:
    """A row for each point, in the order asked."""
    inputs = {axis: array.ravel().tolist() for axis, array in report["inputs"].items()}
    told = ("fits", "feasible", "ttft", "tpot", "output_throughput")
    columns = {name: report[name].ravel().tolist() for name in told}
    used = report["memory"]["used"].ravel().tolist()
    cost = report["cost_per_million_tokens"] or {}
    output = cost["output"].ravel().tolist() if "output" in cost else None
    size = len(used)
    rows = []
    for at in range(min(size, MOST)):
        row: list[Cell | str] = [f"{values[at]:,.0f}" for values in inputs.values()]
        row += [_fits(columns["fits"][at], columns["feasible"][at]), shown(used[at], "byte")]
        row += [shown(columns["ttft"][at], "s"), shown(columns["tpot"][at], "s")]
        row.append(shown(columns["output_throughput"][at], "token/s"))
        row += [dollars(output[at])] if output else []
        rows.append(tuple(row))
    heads = [*(Column(axis, right=True) for axis in inputs), Column("fits"), Column("memory", right=True, rank=2)]
    heads += [Column("TTFT", right=True), Column("TPOT", right=True), Column("output", right=True)]
    heads += [Column("per million", right=True, rank=1)] if output else []
    said = [f"{size - MOST:,} more points; to_frame() has them all"] if size > MOST else []
    why = Words(title="Not every point can be run", lines=tuple(report["reasons"]), points=True)
    return Page(
        title=f"{report['name']} on {report['system']}: {size:,} points",
        detail=joined([*_fixed(report), formats(report["ask"]), f"profile {report['profile']}"]),
        blocks=(Table(columns=tuple(heads), rows=tuple(rows)), why, notes(report, said)),
    )


def _fits(fits: bool, feasible: bool) -> Cell:
    if not feasible:
        return Cell("no layout", "bad")
    return Cell("yes", "good") if fits else Cell("no", "bad")


def _fixed(report: Report) -> list[str]:
    """What is the same at every point."""
    ask: dict[str, Any] = report["ask"]
    axes = ("batch", "prompt", "output", "tp", "pp", "cp", "dp", "ep")
    fixed = [axis for axis in axes if axis not in report["inputs"]]
    return [f"{axis} {ask[axis]:,}" for axis in fixed if axis in ("batch", "prompt", "output") or ask[axis] != 1]
