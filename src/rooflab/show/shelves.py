"""Pages of what a model is and of what the catalog holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rooflab.show.elements import Block, Cell, Column, Page, Report, Table, binary, formats, joined, notes, plural
from rooflab.units import MISSING, number
from rooflab.units import format as shown

Row = tuple[Cell | str, ...]


def inspect_page(report: Report) -> Page:
    """Parameters, cache, bytes and blocks of a model (A-030 to A-037)."""
    ask = report["ask"]
    blocks: list[Block] = [_counts(report), _bytes(report), _blocks(report)]
    blocks.append(notes(report))
    detail = joined([f"{report['layers']} layers", _longest(report), report["source"], formats(ask)])
    return Page(title=report["name"], detail=detail, blocks=tuple(blocks))


def _longest(report: Report) -> str:
    return f"context up to {report['max_context']:,} tokens" if report["max_context"] else ""


def _counts(report: Report) -> Table:
    whole = report["params"]
    rows: list[Row] = [("All", short(whole), f"{whole:,}")]
    for name, key in (
        ("Active for a token", "active_params"),
        ("  without the embedding", "active_params_without_embedding"),
    ):
        if report[key] != whole:
            rows.append((name, short(report[key]), f"{report[key]:,}"))
    for name, count in report["other_params"].items():
        if count:
            rows.append((f"Beside these: {name}", short(count), f"{count:,}"))
    return Table(
        columns=(Column("Parameters"), Column("", right=True, tone="strong"), Column("exactly", right=True)),
        rows=tuple(rows),
    )


def short(count: float) -> str:
    """A count as models are named: 8.03 B, 671 B, 494 M."""
    scales = (("", 1), ("k", 10**3), ("M", 10**6), ("B", 10**9), ("T", 10**12))  # count
    size, unit = next((size, unit) for unit, size in reversed(scales) if float(f"{count:.3g}") >= size or size == 1)
    return f"{number(count / size)} {unit}" if unit else f"{count:,.0f}"


def _bytes(report: Report) -> Table:
    ask = report["ask"]
    sequences = f"{plural(ask['batch'], 'sequence')} of {report['context']:,} tokens"
    sizes = [
        (f"Weights in {_weights(report)}", report["weight_bytes"]),
        (f"Cache of a token, in {report['precision']['kv']}", report["kv_bytes_per_token"]),
        (f"Cache of {sequences}", report["kv_bytes"]),
        ("  where every layer gets whole pages", report["kv_bytes_one_page_size"]),
        ("State of a sequence", report["state_bytes_per_sequence"]),
        ("Training with Adam, before activations", report["training_bytes"]),
    ]
    if report["kv_bytes_one_page_size"] == report["kv_bytes"]:
        del sizes[3]
    rows: tuple[Row, ...] = tuple((name, shown(size, "byte"), binary(size)) for name, size in sizes if size)
    return Table(
        columns=(Column("Bytes"), Column("10ⁿ", right=True, tone="strong"), Column("2ⁿ", right=True)), rows=rows
    )


def _weights(report: Report) -> str:
    precision = report["precision"]
    used = dict.fromkeys(precision[name] for name in ("attention", "ffn", "expert", "embedding", "head"))
    return ", ".join(used)


def _blocks(report: Report) -> Table:
    rows: list[Row] = []
    for block in report["blocks"]:
        row: Row = (f"{block['count']} ×", block["mixer"], block["ffn"], short(block["params"]))
        rows.append((*row, shown(block["kv_bytes_per_token"], "byte")))
    columns = (
        Column("Layers", right=True),
        Column("attention or recurrence", wraps=True),
        Column("feed-forward", wraps=True),
        Column("parameters", right=True),
        Column("cache/token", right=True, rank=1),
    )
    return Table(columns=columns, rows=tuple(rows))


# ------------------------------------------------------------------------------------------------------- the catalog


def catalog_page(report: Report) -> Page:
    """One shelf of the catalog."""
    columns, row = _SHELVES[report["what"]]
    rows = tuple(row(entry) for entry in report["rows"])
    hint = {
        "models": "rooflab inspect NAME",
        "systems": "rooflab estimate MODEL --on NAME",
        "devices": 'rooflab estimate MODEL --on NAME, or --on "8x NAME"',
        "links": '--set "links.0.bandwidth=450 GB/s"',
        "formats": "--weights NAME, --kv NAME",
        "profiles": "--profile NAME",
    }[report["what"]]
    return Page(
        title=plural(len(rows), report["what"].removesuffix("s")),
        detail=hint,
        blocks=(Table(columns=columns, rows=rows), notes(report)),
    )


def _model(entry: Mapping[str, Any]) -> Row:
    active = "" if entry["active_params"] == entry["params"] else short(entry["active_params"])
    longest = f"{entry['max_context']:,}" if entry["max_context"] else MISSING
    name, mixers = Cell(entry["name"], "strong"), ", ".join(entry["mixers"])
    return (name, short(entry["params"]), active, str(entry["layers"]), longest, mixers)


def _device(entry: Mapping[str, Any]) -> Row:
    rates = entry["flop_rate"]
    wide = rates.get("bf16") or rates.get("fp16")
    return (
        Cell(entry["name"], "strong"),
        entry["title"],
        shown(entry["memory"], "byte"),
        shown(entry["memory_bandwidth"], "byte/s"),
        shown(wide, "FLOP/s"),
        shown(rates.get("fp8"), "FLOP/s"),
        shown(entry["power"], "W"),
        MISSING if entry["price"] is None else shown(entry["price"], "USD/s"),
        Cell(entry["confidence"] or "", "quiet"),
    )


def _system(entry: Mapping[str, Any]) -> Row:
    name, links = Cell(entry["name"], "strong"), ", ".join(entry["links"])
    return (name, entry["title"], entry["device"], f"{entry['devices']:,}", links)


def _link(entry: Mapping[str, Any]) -> Row:
    figures = (shown(entry["bandwidth"], "byte/s"), shown(entry["latency"], "s"))
    return (
        Cell(entry["name"], "strong"),
        *figures,
        entry["topology"],
        entry["note"],
        Cell(entry["confidence"], "quiet"),
    )


_SHELVES: dict[str, tuple[tuple[Column, ...], Callable[[Mapping[str, Any]], Row]]] = {
    "models": (
        (
            Column("Model"),
            Column("parameters", right=True),
            Column("active", right=True),
            Column("layers", right=True, rank=2),
            Column("context", right=True, rank=1),
            Column("mixers", wraps=True),
        ),
        _model,
    ),
    "devices": (
        (
            Column("Device"),
            Column("", wraps=True, rank=5),
            Column("memory", right=True),
            Column("bandwidth", right=True),
            Column("16-bit", right=True),
            Column("fp8", right=True, rank=3),
            Column("power", right=True, rank=1),
            Column("price", right=True, rank=2),
            Column("from", rank=4),
        ),
        _device,
    ),
    "systems": (
        (
            Column("System"),
            Column("", wraps=True),
            Column("device", rank=1),
            Column("devices", right=True),
            Column("links, inner first", wraps=True, rank=2),
        ),
        _system,
    ),
    "links": (
        (
            Column("Link"),
            Column("one way", right=True),
            Column("latency", right=True),
            Column("topology", rank=2),
            Column("", wraps=True, rank=3),
            Column("sure", rank=1),
        ),
        _link,
    ),
    "formats": (
        (Column("Format"), Column("bytes", right=True), Column("runs at"), Column("", wraps=True, tone="quiet")),
        lambda entry: (Cell(entry["name"], "strong"), f"{entry['bytes']:.6g}", entry["rate"], entry["note"]),
    ),
    "profiles": (
        (Column("Profile"), Column("counts and prices"), Column("leaves out", wraps=True, tone="quiet")),
        lambda entry: (Cell(entry["name"], "strong"), entry["title"], "; ".join(entry["leaves_out"])),
    ),
}
