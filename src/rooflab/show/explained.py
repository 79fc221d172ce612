"""The page of an explanation: formula, the same with numbers, what it comes to, and where it is from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.show.elements import (
    Block,
    Cell,
    Column,
    Formula,
    Page,
    Report,
    Table,
    Verdict,
    Words,
    formats,
    joined,
    layout,
    notes,
    share,
)
from rooflab.units import format as shown

LONGEST_SUM = 4
"""Terms of a sum that are still read better as a formula than as a table."""


def explain_page(report: Report) -> Page:
    """One number, from the bottom up; the last line is the number itself."""
    ask = report["ask"]
    blocks: list[Block] = []
    if report["lines"]:
        blocks.append(
            Verdict(None, f"{report['subject']} = {_value(report['lines'][-1])}", f"basis: {report['basis']}")
        )
    for line in report["lines"]:
        blocks += _line(line)
    if report["leaves_out"]:
        blocks.append(Words(title="Left out", lines=tuple(report["leaves_out"]), points=True))
    if report["refs"]:
        blocks.append(
            Words(title="References", lines=tuple(f"{k}: {v}" for k, v in report["refs"].items()), points=True)
        )
    blocks.append(notes(report))
    return Page(
        title=f"{report['subject']} of {report['name']} on {ask['on']}", detail=_asked(ask), blocks=tuple(blocks)
    )


def _asked(ask: Mapping[str, Any]) -> str:
    work = f"batch {ask['batch']:,} · prompt {ask['prompt']:,} · output {ask['output']:,}"
    context = f"context {ask['context']:,}" if ask["context"] else ""
    return joined([layout(ask), work, context, formats(ask), f"profile {ask['profile']}"])


def _value(line: Mapping[str, Any]) -> str:
    return shown(line["value"], line["unit"])


def _line(line: Mapping[str, Any]) -> list[Block]:
    """A formula; a long sum shows its terms as a table."""
    inputs = line["inputs"]
    long = len(inputs) > LONGEST_SUM and line["formula"] == " + ".join(inputs)
    inputs_from = "" if long else _bases(line["bases"])
    labels = (("inputs", inputs_from), ("counts", line["counts"]), ("source", line["source"]), ("holds", line["holds"]))
    formula = Formula(
        name=line["quantity"],
        text=line["means"],
        formula=f"the sum of {len(inputs)} terms" if long else line["formula"],
        numbers="" if long else line["substituted"],
        value=_value(line),
        facts=tuple((label, text.replace("`", "")) for label, text in labels if text),
    )
    return [formula, _terms(line)] if long else [formula]


def _bases(bases: Mapping[str, str]) -> str:
    """Symbols by where their values come from: exact n, k; datasheet rate."""
    grouped: dict[str, list[str]] = {}
    for name, basis in bases.items():
        grouped.setdefault(basis, []).append(name)
    return "; ".join(f"{basis}: {', '.join(names)}" for basis, names in grouped.items())


def _terms(line: Mapping[str, Any]) -> Table:
    whole = line["value"] or 1.0
    terms = sorted(line["inputs"].items(), key=lambda term: -term[1])
    rows = tuple((name, shown(value, line["unit"]), share(value / whole, "part")) for name, value in terms)
    total = (Cell(line["quantity"], "strong"), Cell(_value(line), "strong"), "")
    columns = (Column("term"), Column("value", right=True), Column("share"))
    return Table(columns=columns, rows=(*rows, total), total=True)
