"""Pages of how far predictions were from measurements, and of fits made from them."""

from __future__ import annotations

from typing import Any

from rooflab.show.elements import Block, Cell, Column, Page, Report, Table, Verdict, Words

Row = tuple[Cell | str, ...]


def percent(value: float) -> str:
    """A share or an error: 7.0 %."""
    return f"{value * 100.0:.1f} %"


def signed(value: float) -> str:
    """An error with its sign: −12.0 %."""
    return f"{value * 100.0:+.1f} %".replace("-", "−")


def validate_page(report: Report) -> Page:
    """Errors by partition, kernels first, then engine runs and serving runs, then what could not be predicted."""
    blocks: list[Block] = [_verdict(report)]
    if report["operators"]:
        blocks.append(_kernels(report["operators"]))
    if report["endtoend"]:
        blocks.append(_runs(report["endtoend"]))
    if report["serving"]:
        blocks.append(_serving(report["serving"]))
    if report["skipped"]:
        rows: list[Row] = [(f"{each['n']:,}", each["reason"]) for each in report["skipped"]]
        columns = (Column("Rows", right=True), Column("not predicted, because", wraps=True))
        blocks.append(Table(columns=columns, rows=tuple(rows)))
    return Page(
        title="Predicted against measured", detail="errors are |predicted / measured − 1|", blocks=tuple(blocks)
    )


def _verdict(report: Report) -> Verdict:
    """What came out in one line."""
    overall = report["overall"]
    parts = []
    if "operators" in overall:
        kernels = overall["operators"]
        parts.append(f"kernels {percent(kernels['median'])} off in the median over {kernels['n']:,} rows")
    if "endtoend" in overall:
        runs = overall["endtoend"]
        parts.append(
            f"TPOT {percent(runs['tpot']['median'])}, TTFT {percent(runs['ttft']['median'])} over {runs['n']:,} runs"
        )
    if "serving" in overall:
        parts.append(f"{overall['serving']['n']:,} requests replayed")
    return Verdict(None, "; ".join(parts) or "nothing could be predicted")


def _kernels(rows: list[dict[str, Any]]) -> Table:
    columns = (
        Column("Kernels"),
        Column("system"),
        Column("engine"),
        Column("format", rank=1),
        Column("rows", right=True),
        Column("median", right=True, tone="strong"),
        Column("p90", right=True),
        Column("bias", right=True, rank=2),
        Column("in band", right=True, rank=1),
    )
    body: list[Row] = [
        (
            r["family"],
            r["system"],
            r["backend"],
            r["dtype"],
            f"{r['predicted']:,}",
            percent(r["median"]),
            percent(r["p90"]),
            signed(r["bias"] - 1.0),
            f"{r['coverage']:.0%}",
        )
        for r in rows
    ]
    return Table(columns=columns, rows=tuple(body))


def _runs(rows: list[dict[str, Any]]) -> Table:
    columns = (
        Column("Engine runs"),
        Column("system", rank=2),
        Column("engine"),
        Column("runs", right=True),
        Column("TPOT", right=True, tone="strong"),
        Column("p90", right=True, rank=1),
        Column("TTFT", right=True, tone="strong"),
        Column("p90", right=True, rank=1),
        Column("throughput", right=True),
    )
    body: list[Row] = []
    for r in rows:
        body.append(
            (
                r["model"],
                r["system"],
                r["backend"],
                f"{r['n']:,}",
                percent(r["tpot"]["median"]),
                percent(r["tpot"]["p90"]),
                percent(r["ttft"]["median"]),
                percent(r["ttft"]["p90"]),
                percent(r["throughput"]["median"]),
            )
        )
    return Table(columns=columns, rows=tuple(body))


def _serving(rows: list[dict[str, Any]]) -> Table:
    columns = (
        Column("Serving runs replayed"),
        Column("requests", right=True),
        Column("mean TPOT", right=True, tone="strong"),
        Column("mean TTFT", right=True),
        Column("mean E2E", right=True),
        Column("makespan", right=True),
    )
    body: list[Row] = [
        (
            r["run"],
            f"{r['n']:,}",
            *(signed(r[name]["mean_error"]) if r[name] else "–" for name in ("tpot", "ttft", "e2e")),
            signed(r["makespan_error"]) if r["makespan_error"] is not None else "–",
        )
        for r in rows
    ]
    return Table(columns=columns, rows=tuple(body))


def calibrate_page(report: Report) -> Page:
    """What was fitted, how well, and where it was written."""
    columns = (
        Column("Family"),
        Column("format"),
        Column("engine"),
        Column("rows", right=True),
        Column("fit", right=True),
        Column("held out", right=True, tone="strong"),
        Column("p90", right=True, rank=1),
        Column("in band", right=True, rank=1),
    )
    body: list[Row] = [
        (
            f["family"] + (f" ({f['kernel']})" if f.get("kernel") else ""),
            f["dtype"],
            f["backend"],
            f"{f['rows'] + f['held_rows']:,}",
            percent(f["fit_error"]),
            percent(f["held_error"]),
            percent(f["held_p90"]),
            f"{f['coverage']:.0%}",
        )
        for f in report["fits"]
    ]
    blocks: list[Block] = [Table(columns=columns, rows=tuple(body))]
    refused = report["refused"]
    lines = [f"refused: {each['file']} line {each['line']}: {each['reason']}" for each in refused[:10]]
    if len(refused) > len(lines):
        lines.append(f"{len(refused) - len(lines):,} more lines were refused")
    lines += [f"{each['n']:,} rows left out: {each['reason']}" for each in report["skipped"]]
    if report.get("written"):
        lines.append(f"written to {report['written']}")
    blocks.append(Words(title="Notes", lines=tuple(lines)))
    return Page(
        title=f"Fits of {report['device']}", detail=f"{len(report['fits'])} sets of parameters", blocks=tuple(blocks)
    )
