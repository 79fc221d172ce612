"""Pages of simulated serving: times over requests, rates, occupancy, curves, policies, and what was looked for."""

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
    dollars,
    joined,
    layout,
    notes,
    plural,
)
from rooflab.units import MISSING, number
from rooflab.units import format as shown

Row = tuple[Cell | str, ...]
TIMES = (
    ("Time to first token, from arrival", "ttft"),
    ("  from admission", "ttft_from_admission"),
    ("Time per output token", "tpot"),
    ("Gap between tokens", "itl"),
    ("Whole request", "e2e"),
    ("Wait in the queue", "queue_time"),
)
FIGURES = ("mean", "p50", "p90", "p95", "p99")


def simulate_page(report: Report) -> Page:
    """A run, and the curve, policies or search beside it."""
    blocks: list[Block] = []
    if report["run"] is not None:
        blocks += _run(report["run"])
    if report["curve"]:
        blocks.append(_curve(report["curve"]))
    if report["policies"]:
        blocks.append(_policies(report["policies"]))
    if report["found"] is not None:
        blocks += _found(report["found"])
    for why in dict.fromkeys(report["refused"].values()):
        blocks.append(Words(lines=(f"refused: {why}",)))
    blocks.append(Words(title="How it was taken", lines=tuple(report["protocol"]), quiet=True, points=True))
    blocks.append(notes(report))
    parts = [plural(report["devices"], "device"), layout(report["ask"]), plural(report["replicas"], "replica")]
    detail = joined([*parts, f"policy {report['policy']}", report["traffic"]])
    return Page(title=f"{report['name']} on {report['system']}", detail=detail, blocks=tuple(blocks))


def _run(run: dict[str, Any]) -> list[Block]:
    """Verdict, times and rates of one run."""
    good = False if run["overload"] else True if run["attainment"] is None else run["attainment"] >= 0.99
    text = f"{run['served']:,} of {run['requests']:,} requests served in {shown(run['makespan'], 's')}"
    why = "the queue grows as long as requests come: no first-token time holds" if run["overload"] else ""
    return [Verdict(None if good is True and run["attainment"] is None else good, text, why), _times(run), _rates(run)]


def _times(run: dict[str, Any]) -> Table:
    columns = (
        Column("Seconds over requests"),
        *(Column(f, right=True, rank={"p90": 3, "p50": 2, "p99": 1}.get(f, 0)) for f in FIGURES),
        Column("±", right=True, rank=4),
    )
    rows: list[Row] = []
    for title, name in TIMES:
        spread = run[name]
        if spread is None:
            rows.append((title, *(MISSING for _ in FIGURES), ""))
            continue
        interval = spread["interval"].get("mean")
        cells = [shown(spread[figure], "s") for figure in FIGURES]
        rows.append((title, *cells, "" if interval is None else shown(interval, "s")))
    return Table(columns=columns, rows=tuple(rows))


def _rates(run: dict[str, Any]) -> Table:
    """Rates, occupancy, cache and money."""
    rows: list[Row] = [
        ("Requests", f"{number(run['request_rate'])} /s"),
        ("Output", shown(run["output_throughput"], "token/s")),
        ("Prompts and answers", shown(run["total_throughput"], "token/s")),
    ]
    if run["goodput"] is not None:
        rows.append(("Requests within every limit", f"{number(run['goodput'])} /s"))
    if run["attainment"] is not None:
        rows.append(("Share within every limit", f"{run['attainment']:.1%}"))
    rows += [
        ("Requests running, mean", number(run["running"])),
        ("Slots in use", f"{run['slot_occupancy']:.0%}"),
        ("Cache in use, mean", f"{run['kv_occupancy']:.0%}"),
        ("  at most", f"{run['kv_peak']:.0%}"),
        ("Engine busy", f"{run['busy']:.0%}"),
        ("Preemptions", f"{run['preemptions']:,}" + (f", {run['swaps']:,} by swap" if run["swaps"] else "")),
    ]
    if run["cache_hit_rate"] is not None:
        rows.append(("Prompt tokens found in the cache", f"{run['cache_hit_rate']:.1%}"))
    if run["cost_per_million_output_tokens"] is not None:
        rows.append(("Cost per million output tokens", dollars(run["cost_per_million_output_tokens"])))
    if run["energy_per_token"] is not None:
        rows.append(("Energy per output token", shown(run["energy_per_token"], "J")))
    return Table(columns=(Column("Rates and use"), Column("", right=True, tone="strong")), rows=tuple(rows))


def _curve(points: list[dict[str, Any]]) -> Table:
    """A load curve: means over replications."""
    names = ("ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "output_throughput")
    known = [name for name in names if any(point["figures"].get(name) is not None for point in points)]
    columns = (
        Column("Load", right=True),
        *(Column(name.replace("_", " "), right=True, rank=2 if name.endswith("p50") else 0) for name in known),
        Column("", tone="bad"),
    )
    rows: list[Row] = []
    for point in points:
        cells = []
        for name in known:
            value = point["figures"].get(name)
            unit = "token/s" if name.endswith("throughput") else "s"
            cells.append(MISSING if value is None else shown(value, unit))
        rows.append((number(point["load"]), *cells, "queue grows" if point["overload"] else ""))
    return Table(columns=columns, rows=tuple(rows))


def _policies(runs: dict[str, Any]) -> Table:
    """The same traffic under several policies."""
    columns = (
        Column("Policy"),
        Column("TTFT p50", right=True, rank=2),
        Column("p95", right=True),
        Column("TPOT p50", right=True, rank=1),
        Column("p95", right=True),
        Column("output", right=True, tone="strong"),
        Column("makespan", right=True, rank=3),
    )
    rows: list[Row] = []
    for name, run in runs.items():
        times = []
        for which in ("ttft", "tpot"):
            spread = run[which]
            times += [MISSING, MISSING] if spread is None else [shown(spread["p50"], "s"), shown(spread["p95"], "s")]
        rows.append((name, *times, shown(run["output_throughput"], "token/s"), shown(run["makespan"], "s")))
    return Table(columns=columns, rows=tuple(rows))


def _found(found: dict[str, Any]) -> list[Block]:
    """What was looked for, and what was tried on the way."""
    tried: list[Row] = [(what, "held" if held else "missed") for what, held in found["tried"]]
    verdict = Verdict(
        found["holds"], f"{found['what']}: {found['value']}", "" if found["holds"] else "no choice holds the limits"
    )
    return [
        verdict,
        Table(columns=(Column("Tried"), Column("limits")), rows=tuple(tried)),
        *_run(found["measures"])[1:],
    ]


def board_page(report: Report) -> Page:
    """Requests in slots, one iteration at a time, policy by policy (B-075)."""
    blocks: list[Block] = []
    for name, run in report["policies"].items():
        lines = [" ".join("·" if cell is None else str(cell + 1) for cell in row) for row in run["slots"]]
        title = f"{name}: {run['iterations']} iterations, {run['used']:.1%} of the slots used"
        blocks.append(Words(title=title, lines=tuple(f"{i + 1:>3}  {line}" for i, line in enumerate(lines))))
    blocks.append(notes(report))
    return Page(title="Requests in slots", detail="one row an iteration, one column a slot", blocks=tuple(blocks))


PAGES = {"simulate": simulate_page, "board": board_page}
