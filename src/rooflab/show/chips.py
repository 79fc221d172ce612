"""The page of a chip roofline (requirements C-030 to C-035, D-233 to D-239)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.show.elements import (
    Block,
    Cell,
    Column,
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


def chip_page(report: Report) -> Page:
    """Key figures, regimes, formulas, guidance, and the curves as small tables."""
    chip, ask = report["chip"], report["ask"]
    blocks: list[Block] = [
        Verdict(None, chip["regime"], f"one step takes {shown(chip['step']['total'], 's')} at peak rates"),
        _figures(chip),
        _regimes(chip),
        _formulas(chip),
        Words(title="Guidance", lines=tuple(filter(None, (chip["guidance"], chip["sparsity_hint"])))),
        _by_batch(chip),
        _by_context(chip),
        notes(report),
    ]
    scaled = joined(
        f"{name} ×{chip[key]:g}"
        for name, key in (("compute", "flops_multiplier"), ("bandwidth", "bandwidth_multiplier"))
        if chip[key] != 1.0
    )
    work = f"batch {ask['batch']:,} · context {ask['context']:,}"
    return Page(
        title=f"{report['name']} on {report['system']}: chip roofline",
        detail=joined([layout(ask), work, formats(ask), scaled]),
        blocks=tuple(blocks),
    )


def _figures(chip: Mapping[str, Any]) -> Table:
    memory = chip["memory"]
    fits = _or(chip["memory_batch"], "1", "no limit")
    balance = _or(chip["balance_context"], "token", "unlimited")
    rows: list[tuple[Cell | str, ...]] = [
        ("Ridge", "AI", shown(chip["intensity"], "FLOP/byte"), "FLOP for each byte it can read"),
        ("Critical batch", "B*", shown(chip["critical_batch"], "1"), "weights cost as much as products"),
        ("Balance context", "L*", balance, "a cache costs as much as a token"),
        ("Knee batch", "B_knee", _or(chip["knee_batch"], "1", "none"), "compute catches up with all memory"),
        ("Batch to aim for", "2·B*", shown(chip["good_batch"], "1"), "a larger one buys little"),
        ("Sequences that fit", "", fits, "beside weights, buffers and reserve"),
        ("Share of the peak", "", f"{chip['utilization']:.1%}", "approached by large batches"),
        ("Memory of one device", "", shown(memory["used"], "byte"), _of_memory(memory)),
    ]
    return Table(
        columns=(
            Column("Key figures"),
            Column("", tone="quiet"),
            Column("value", right=True, tone="strong"),
            Column("meaning", wraps=True, rank=1, tone="quiet"),
        ),
        rows=tuple(rows),
    )


def _of_memory(memory: Mapping[str, Any]) -> str:
    return f"of {shown(memory['budget'], 'byte')}{': does not fit' if memory['over_budget'] else ''}"


def _or(value: float | None, unit: str, absent: str) -> str:
    return absent if value is None else shown(value, unit)


def _regimes(chip: Mapping[str, Any]) -> Table:
    whole = chip["token"]["total"] or 1.0
    tones = ("compute", "memory", "kv", "strong")
    rows = tuple(
        (
            Cell(row["name"], "" if row["value"] is not None else "quiet"),
            Cell(row["short_context"], "quiet"),
            Cell(row["long_context"], "quiet"),
            Cell(row["text"], tone if row["value"] is None else "strong"),
            "" if row["value"] is None else share(row["value"] / whole, tone),
        )
        for row, tone in zip(chip["regimes"], tones, strict=True)
    )
    columns = (
        Column("Time per token"),
        Column("short context", rank=2, wraps=True),
        Column("long context", rank=2, wraps=True),
        Column("now", right=True),
        Column("share"),
    )
    return Table(columns=columns, rows=rows, total=True)


def _formulas(chip: Mapping[str, Any]) -> Table:
    rows = tuple(
        (Cell(row["symbol"], "strong"), row["formula"], Cell(row["with_numbers"], "quiet"), Cell(row["text"], "strong"))
        for row in chip["formulas"]
    )
    columns = (
        Column("Formulas"),
        Column("formula"),
        Column("with numbers", rank=1, wraps=True),
        Column("value", right=True),
    )
    return Table(columns=columns, rows=rows)


def _by_batch(chip: Mapping[str, Any]) -> Table:
    """Latency of a step and of a token against the batch, at the context asked for."""
    rows = []
    for step, token in zip(chip["curves"]["step_latency"], chip["curves"]["token_latency"], strict=True):
        tone = "compute" if step["compute"] >= step["memory"] else "memory"
        rows.append(
            (
                shown(step["batch"], "1"),
                shown(step["weight"], "s"),
                shown(step["compute"], "s"),
                shown(step["kv"], "s"),
                Cell(shown(step["total"], "s"), "strong"),
                shown(token["total"], "s"),
                Cell(tone, tone),
            )
        )
    columns = (
        Column("Batch", right=True),
        Column("weights", right=True, rank=1),
        Column("compute", right=True, rank=1),
        Column("cache", right=True, rank=1),
        Column("one step", right=True),
        Column("per token", right=True),
        Column("mostly"),
    )
    return Table(columns=columns, rows=tuple(rows), title=f"By batch, at {shown(chip['context'], 'token')}")


def _by_context(chip: Mapping[str, Any]) -> Table:
    """Knee and memory against the context, at the batch asked for."""
    knees = {point["context"]: point["batch"] for point in chip["curves"]["knee"]}
    rows = []
    for held in chip["curves"]["memory_vs_context"]:
        context, fits = held["context"], Cell("no", "bad") if held["over_budget"] else Cell("yes", "good")
        rows.append((shown(context, "token"), _or(knees[context], "1", "none"), shown(held["used"], "byte"), fits))
    columns = (
        Column("Context", right=True),
        Column("knee batch", right=True),
        Column("memory", right=True),
        Column("fits"),
    )
    return Table(columns=columns, rows=tuple(rows), title=f"By context, at batch {chip['batch']:,.0f}")
