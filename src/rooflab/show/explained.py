"""The page of an explanation: formula, the same with numbers, what it comes to, and where it is from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.document.words import SUBJECTS, in_numbers, in_words, operator_name
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
        blocks.append(Verdict(None, f"{_subject(report)}: {_value(report['lines'][-1])}", f"basis: {report['basis']}"))
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
        title=f"{_subject(report)} of {report['name']} on {ask['on']}", detail=_asked(ask), blocks=tuple(blocks)
    )


def _subject(report: Report) -> str:
    return SUBJECTS.get(report["subject"]) or operator_name(report["subject"])


def _asked(ask: Mapping[str, Any]) -> str:
    work = f"batch {ask['batch']:,} · prompt {ask['prompt']:,} · output {ask['output']:,}"
    context = f"context {ask['context']:,}" if ask["context"] else ""
    return joined([layout(ask), work, context, formats(ask), f"profile {ask['profile']}"])


def _value(line: Mapping[str, Any]) -> str:
    return shown(line["value"], line["unit"])


def _line(line: Mapping[str, Any]) -> list[Block]:
    """A formula; a long sum shows its terms as a table."""
    parts = line["parts"]
    long = len(parts) > LONGEST_SUM
    inputs_from = "" if long else _bases(line)
    labels = (("inputs", inputs_from), ("counts", line["counts"]), ("source", line["source"]), ("holds", line["holds"]))
    block = Formula(
        name=line["title"],
        text=line["means"],
        formula=f"the sum of {len(parts)} terms" if long else in_words(line),
        numbers="" if long else in_numbers(line),
        value=_value(line),
        facts=tuple((label, text.replace("`", "")) for label, text in labels if text),
    )
    return [block, _terms(line)] if long else [block]


def _bases(line: Mapping[str, Any]) -> str:
    """Inputs by where their values come from: exact columns, depth; datasheet peak rate."""
    grouped: dict[str, list[str]] = {}
    for name, basis in line["bases"].items():
        grouped.setdefault(basis, []).append(line["names"][name])
    return "; ".join(f"{basis}: {', '.join(names)}" for basis, names in grouped.items())


def _terms(line: Mapping[str, Any]) -> Table:
    """The terms of a sum, largest first, and what each is asked by."""
    whole = line["value"] or 1.0
    terms = sorted(line["parts"].items(), key=lambda term: -term[1])
    rows = tuple(
        (line["names"][name], shown(value, line["unit"]), share(value / whole, "part"), Cell(name, "quiet"))
        for name, value in terms
    )
    total = (Cell(line["title"], "strong"), Cell(_value(line), "strong"), "", "")
    columns = (Column("term"), Column("value", right=True), Column("share"), Column("--op"))
    return Table(columns=columns, rows=(*rows, total), total=True)
