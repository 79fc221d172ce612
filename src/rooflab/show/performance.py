"""Pages of estimates, steps and fits."""

from __future__ import annotations

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
    band,
    bound,
    dollars,
    formats,
    joined,
    layout,
    memory_bar,
    memory_verdict,
    notes,
    plural,
    share,
)
from rooflab.units import format as shown
from rooflab.units import number

PARTS = {"ffn": "feed-forward", "head": "output head", "collective": "communication", "overhead": "launch overhead"}
"""Parts of a step whose name is not a word yet."""

FIGURES = (
    ("ttft", "Time to first token", "TTFT"),
    ("tpot", "Time per output token", "TPOT"),
    ("e2e", "Whole request", "E2E"),
    ("output_throughput", "Output throughput", ""),
    ("decode_throughput", "  while decoding", ""),
    ("throughput_per_device", "  of each device", ""),
)
"""Headline figures: field, name, abbreviation."""


def workload(ask: Report) -> str:
    """The workload in one line."""
    return joined(
        [
            f"batch {ask['batch']:,}",
            f"prompt {ask['prompt']:,}",
            f"{ask['cached']:,} of them cached" if ask["cached"] else "",
            f"output {ask['output']:,}",
        ]
    )


def _placed(report: Report, middle: str) -> str:
    ask = report["ask"]
    devices = plural(report["devices"], "device") if "devices" in report else ""
    profile = f"profile {report['profile']}" if report.get("profile") else ""
    return joined([devices, layout(ask), middle, formats(ask), profile])


def estimate_page(report: Report) -> Page:
    """Does it fit, how fast is it, what binds it, what does it cost (B-001, B-040, A-066)."""
    memory = report["memory"]
    blocks: list[Block] = [memory_verdict(memory, report["fits"]), memory_bar(memory)]
    if report["ttft"] is not None:
        blocks.append(_figures(report))
        blocks.append(_shares(report))
    for phase in ("prefill", "decode"):
        detail = report[f"{phase}_step"]
        if detail:
            blocks.append(_operators(detail["ops"], f"One {phase} step: {shown(detail['time'], 's')}"))
    blocks.append(notes(report))
    return Page(
        title=f"{report['name']} on {report['system']}",
        detail=_placed(report, workload(report["ask"])),
        blocks=tuple(blocks),
    )


def _figures(report: Report) -> Table:
    """The headline table with its band."""
    low, high = report["low"] or {}, report["high"] or {}
    rows: list[tuple[Cell | str, ...]] = []
    for field, name, short in FIGURES:
        if report[field] is None or (field == "throughput_per_device" and report["devices"] == 1):
            continue
        unit = report["units"][field]
        ends = band(low.get(field), high.get(field), unit)
        rows.append((name, Cell(short, "quiet"), Cell(shown(report[field], unit), "strong"), ends))
    if report["tokens_per_second_per_user"] is not None:
        rate = shown(report["tokens_per_second_per_user"], "token/s")
        ends = band(1.0 / high["tpot"], 1.0 / low["tpot"], "token/s") if low and high else ""
        rows.append(("  for each user", "", Cell(rate, "strong"), ends))
    rows += _money(report)
    return Table(
        columns=(
            Column("How fast, at what cost"),
            Column("", rank=2),
            Column("estimate", right=True),
            Column("band", rank=1),
        ),
        rows=tuple(rows),
    )


def _money(report: Report) -> list[tuple[Cell | str, ...]]:
    """Cost and energy rows, where they are known."""
    rows: list[tuple[Cell | str, ...]] = []
    cost, joules = report["cost_per_million_tokens"], report["energy_per_token"]
    if cost:
        words = {"input": "Cost per million input tokens", "output": "Cost per million output tokens"}
        rows += [(text, "", Cell(dollars(cost[key]), "strong"), "") for key, text in words.items() if key in cost]
    if joules is not None:
        rows.append(("Energy per output token", "", Cell(shown(joules, "J"), "strong"), ""))
    return rows


def _shares(report: Report) -> Table:
    """What takes the time of each phase, and what binds it."""
    shares: dict[str, dict[str, float]] = report["shares"] or {}
    phases = list(shares)
    largest: dict[str, float] = {}
    for of in shares.values():
        for part, value in of.items():
            largest[part] = max(value, largest.get(part, 0.0))
    parts = sorted((part for part, value in largest.items() if value > 0), key=lambda part: -largest[part])
    rows: list[tuple[Cell | str, ...]] = []
    for part in parts:
        rows.append((PARTS.get(part, part), *(share(shares[phase].get(part, 0.0), "part") for phase in phases)))
    rows.append((Cell("bound by", "quiet"), *(bound(report["bound"][phase]) for phase in phases)))
    return Table(
        columns=(Column("Where the time goes"), *(Column(phase) for phase in phases)), rows=tuple(rows), total=True
    )


# ------------------------------------------------------------------------------------------------------ one step


def step_page(report: Report) -> Page:
    """One forward pass: its time, and its operators from slowest to fastest (A-001, A-007, A-008)."""
    ask = report["ask"]
    what = {
        "prefill": f"prefill of {plural(ask['batch'], 'prompt')} of {ask['context']:,} tokens",
        "decode": f"decode of {plural(ask['batch'], 'sequence')} at {ask['context']:,} tokens of context",
        "mixed": f"{plural(ask['prefill_batch'], 'prompt')} of {ask['prefill_tokens']:,} tokens beside "
        f"{plural(ask['batch'], 'decoding sequence')} at {ask['context']:,}",
    }[report["phase"]]
    cached = f"{ask['cached']:,} tokens cached" if ask["cached"] else ""
    ends = band(report["low"], report["high"], "s")
    said = f"bound by {bound(report['bound']).text}; between {ends.replace(' – ', ' and ')}" if ends else ""
    return Page(
        title=f"{report['name']} on {report['system']}",
        detail=_placed(report, joined([what, cached])),
        blocks=(
            Verdict(None, shown(report["time"], "s"), said),
            _parts(report),
            _operators(report["ops"]),
            notes(report, ["memory and bytes of a collective are those on the links"]),
        ),
    )


def _parts(report: Report) -> Table:
    rows: list[tuple[Cell | str, ...]] = []
    shares: dict[str, float] = report["shares"]
    for part, value in shares.items():
        if value > 0:
            rows.append((PARTS.get(part, part), shown(value * report["time"], "s"), share(value, "part")))
    return Table(columns=(Column("Where the time goes"), Column("time", right=True), Column("share")), rows=tuple(rows))


def shape(operator: dict[str, Any]) -> str:
    """M×N×K, times the groups where there are several products."""
    dimensions = operator["shape"]
    if not dimensions:
        return ""
    groups = dimensions.get("groups", 1.0)
    text = "×".join(number(dimensions[axis]) if dimensions[axis] % 1 else f"{dimensions[axis]:.0f}" for axis in "mnk")
    return text if groups == 1 else f"{_count(groups)} of {text}"


def _count(value: float) -> str:
    return f"{value:.0f}" if value % 1 == 0 else number(value)


def _operators(operators: list[dict[str, Any]], title: str = "") -> Table:
    """Operators ranked by time; figures are of all executions on one device."""
    ranked = sorted(operators, key=lambda operator: -operator["time"])
    rows: list[tuple[Cell | str, ...]] = []
    for op in ranked:
        tone = bound(op["bound"]).tone
        moved, seconds = op["bytes"] or op["message_bytes"], op["memory_time"] or op["comm_time"]
        rows.append(
            (
                op["name"],
                _count(op["count"]),
                shape(op),
                shown(op["flop"], "FLOP").removesuffix("FLOP"),
                shown(moved, "byte"),
                "" if op["intensity"] is None else number(op["intensity"]),
                shown(op["compute_time"], "s", 3),
                shown(seconds, "s", 3),
                shown(op["launch_time"], "s", 3),
                Cell(shown(op["time"], "s", 3), "strong"),
                share(op["share"], tone),
                Cell(op["bound"], tone),
            )
        )
    columns = (
        Column("Slowest operators"),
        Column("count", right=True, rank=3),
        Column("M×N×K", right=True, rank=6),
        Column("FLOP", right=True, rank=5),
        Column("bytes", right=True, rank=5),
        Column("FLOP/byte", right=True, rank=4),
        Column("compute", right=True, rank=2),
        Column("memory", right=True, rank=2),
        Column("launch", right=True, rank=2),
        Column("total", right=True),
        Column("share"),
        Column("bound", rank=1),
    )
    return Table(columns=columns, rows=tuple(rows), title=title)


# ----------------------------------------------------------------------------------------------------------- fit


def fit_page(report: Report) -> Page:
    """What is over, by how much, and the smallest changes that would help (B-040)."""
    memory, ask = report["memory"], report["ask"]
    blocks: list[Block] = [memory_verdict(memory, report["fits"]), memory_bar(memory)]
    if report["max_batch"]:
        rows: tuple[tuple[Cell | str, ...], ...] = (
            (f"Most sequences of {ask['prompt'] + ask['output']:,} tokens", f"{report['max_batch']:,}"),
            (f"Longest sequences at batch {ask['batch']:,}", shown(report["max_context"], "token")),
            ("Cache beside weights and workspace", shown(round(report["kv_tokens"]), "token")),
        )
        blocks.append(Table(columns=(Column("One replica holds"), Column("", right=True)), rows=rows))
    if report["changes"]:
        blocks.append(_changes(report))
    elif not report["fits"]:
        blocks.append(Words(lines=("No single change makes it fit; combine several, or take more or larger devices.",)))
    blocks.append(notes(report))
    return Page(
        title=f"{report['name']} on {report['system']}", detail=_placed(report, workload(ask)), blocks=tuple(blocks)
    )


def _changes(report: Report) -> Table:
    capacity = report["memory"]["capacity"]
    rows = tuple(
        (
            each["change"],
            shown(each["used"], "byte"),
            shown(each["free"], "byte"),
            share(each["used"] / capacity, "part"),
        )
        for each in report["changes"]
    )
    columns = (Column("Any one of these fits", wraps=True), Column("used", right=True), Column("free", right=True))
    return Table(columns=(*columns, Column("of the memory", rank=1)), rows=rows)
