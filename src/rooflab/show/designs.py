"""Pages of the design questions: sweeps, suggestions, plans, sharded layouts, co-design and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    notes,
    percent,
    plural,
)
from rooflab.units import MISSING, parse
from rooflab.units import format as shown

MOST = 20
"""Rows of a table that are still read."""
HOUR = parse("1 h", "s")
_AXES = ("tp", "pp", "cp", "dp", "ep", "attention_dp")


def _value(value: Any, unit: str) -> str:
    """A cell of a table of results."""
    if value is None:
        return MISSING
    if isinstance(value, str) or unit in ("", "text"):
        return str(value)
    if unit == "USD":
        return dollars(value)
    return shown(value, unit)


def _degrees(layout: Mapping[str, Any]) -> str:
    """The degrees that are not one; "one device" where all are."""
    return joined(f"{axis} {layout[axis]}" for axis in _AXES if layout.get(axis, 1) != 1) or "one device"


def _rows(table: Mapping[str, Any], positions: Sequence[int], names: Sequence[str]) -> Table:
    units, columns = table["units"], table["columns"]
    rows = [tuple(_value(columns[name][at], units.get(name, "text")) for name in names) for at in positions[:MOST]]
    heads = [
        Column(name.replace("_", " "), right=not isinstance(columns[name][0], str), rank=max(0, at - 3))
        for at, name in enumerate(names)
    ]
    return Table(columns=tuple(heads), rows=tuple(rows))


def _refused(report: Report) -> list[Block]:
    lines = tuple(f"{count:,} × {reason}" for reason, count in report["reasons"].items())
    return [Words(title="Not every point can be run", lines=lines, points=True)] if lines else []


def _counts(report: Report) -> str:
    totals = report["totals"]
    return f"{totals['feasible']:,.0f} of {totals['enumerated']:,.0f} points can be run"


def sweep_page(report: Report) -> Page:
    """The frontier of a sweep."""
    table, front = report["table"], report["pareto"]
    wanted = ("devices", "ttft", "tpot", "interactivity", "throughput_per_device", "cost", "energy")
    figures = [name for name in wanted if name in table["columns"]]
    varied = [name for name in table["columns"] if name in report["ask"]["vary"] or name in ("system", *_AXES, "batch")]
    varied = [name for name in varied if len(set(table["columns"][name])) > 1]
    blocks: list[Block] = [Verdict(bool(front), _counts(report), f"{plural(len(front), 'point')} on the frontier")]
    if front:
        blocks.append(_rows(table, front, [*varied, *figures]))
    said = [f"{len(front) - MOST:,} more points on the frontier; --json has them"] if len(front) > MOST else []
    return Page(
        title=f"{report['name']} on {', '.join(report['systems'])}",
        detail=f"frontier of {' and '.join(report['best'])}",
        blocks=(*blocks, *_refused(report), notes(report, said)),
    )


def suggest_page(report: Report) -> Page:
    """Ranked layouts, and how to start the first."""
    found = report["layouts"]
    if not found:
        return Page(
            title=f"{report['name']} on {report['system']}",
            blocks=(Verdict(False, "nothing to suggest"), *_refused(report), notes(report)),
        )
    heads = (
        Column("layout"), Column("devices", right=True, rank=2), Column("batch", right=True, rank=1),
        Column("TTFT", right=True), Column("TPOT", right=True), Column("per device", right=True, rank=3),
        Column("per million", right=True, rank=4), Column("meets", rank=5),
    )  # fmt: skip
    rows = tuple(
        (
            _degrees(one["layout"]), f"{one['devices']:,}", f"{one['batch']:,}", shown(one["ttft"], "s"),
            _value(one["tpot"], "s"), shown(one["throughput_per_device"], "token/s"),
            dollars(one["cost_per_million_tokens"]), Cell("yes", "good") if one["meets"] else Cell("no", "bad"),
        )
        for one in found
    )  # fmt: skip
    first = found[0]
    starts = tuple(f"{engine}: {command}" for engine, command in first["commands"].items())
    refused = tuple(f"{engine}: {why}" for engine, why in first["refused"].items())
    return Page(
        title=f"{report['name']} on {report['system']}",
        detail=f"{plural(report['fitting'], 'layout')} of {report['tried']:,} fit",
        blocks=(
            Verdict(first["meets"], _degrees(first["layout"]), "; ".join(first["why"])),
            Table(columns=heads, rows=rows),
            Words(title="Start the first", lines=(*starts, *refused)),
            notes(report),
        ),
    )


def plan_page(report: Report) -> Page:
    """Devices, the axis that binds, and the smallest fleets of real layouts."""
    if report["feasible"]:
        size = f"{plural(report['replicas'], 'replica')} of {report['devices_per_replica']:,}"
        text = f"{plural(report['total'], 'device')}: {size}"
        verdict = Verdict(True, text, f"{report['binding']} binds; {report['users_per_replica']:,} users a replica")
    else:
        verdict = Verdict(
            False, "no fleet meets the limit", f"the tightest that can be met is {shown(report['tightest'], 's')}"
        )
    axes = Table(
        columns=(
            Column("axis"),
            Column("value", right=True),
            Column("because", wraps=True),
            Column("first", wraps=True, rank=1),
        ),
        rows=tuple((axis["name"], f"{axis['value']:,}", axis["says"], axis["first"]) for axis in report["axes"]),
        title="By the closed form",
    )
    heads = (
        Column("layout"), Column("devices", right=True), Column("replicas", right=True, rank=1),
        Column("users each", right=True, rank=2), Column("TTFT", right=True), Column("TPOT", right=True),
        Column("per hour", right=True, rank=3), Column("per million", right=True, rank=4),
    )  # fmt: skip
    rows = tuple(
        (
            _degrees(one["layout"]), f"{one['total']:,}", f"{one['replicas']:,}", f"{one['users_per_replica']:,}",
            shown(one["ttft"], "s"), shown(one["tpot"], "s"),
            dollars(None if one["price"] is None else one["price"] * HOUR), dollars(one["cost_per_million_tokens"]),
        )
        for one in report["fleets"]
    )  # fmt: skip
    fleets: tuple[Block, ...] = (Table(columns=heads, rows=rows, title="By layouts, with exchanges"),) if rows else ()
    return Page(
        title=f"{report['name']} on {report['system']}: {report['ask']['users']:,} users",
        detail=f"{report['ask']['context']:,} tokens each",
        blocks=(verdict, axes, *fleets, *_simulated(report["simulated"]), notes(report)),
    )


def _simulated(found: dict[str, Any] | None) -> tuple[Block, ...]:
    """What holds a percentile under traffic, and every candidate that was played."""
    if found is None:
        return ()
    sure = "not even twice as many surely hold" if found["sure"] is None else f"{found['sure']:,} surely hold"
    holds = "holds" if found["total"] == 1 else "hold"
    text = f"{plural(found['total'], 'device')} {holds} {found['percentile']}: {plural(found['replicas'], 'replica')}"
    why = f"{_degrees(found['layout'])}; fewer than {found['least']:,} surely miss, {sure} (95 % over {found['seeds']} seeds)"
    divided = found["divided"]
    lines = [] if divided is None else [f"divided into prefill and decode: {divided['split'][0]}:{divided['split'][1]}"]
    heads = (
        Column("replicas", right=True), Column("prefill:decode"), Column("TTFT", right=True), Column("TPOT", right=True),
        Column("within every limit", right=True, rank=1), Column("verdict"),
    )  # fmt: skip
    rows = tuple(
        (
            f"{one['replicas']:,}",
            "" if one["split"] is None else f"{one['split'][0]}:{one['split'][1]}",
            _pair(one["ttft"], one["ttft_interval"]),
            _pair(one["tpot"], one["tpot_interval"]),
            "" if one["attainment"] is None else f"{one['attainment']:.1%}",
            {True: "holds", False: "misses", None: "open"}[one["holds"]],
        )
        for one in found["tried"]
    )
    table = Table(columns=heads, rows=rows, title=f"Played at {found['rate']:.4g} requests/s, {found['percentile']}")
    return Verdict(True, text, why), table, *([Words(lines=tuple(lines))] if lines else [])


def _pair(value: float | None, half: float | None) -> str:
    """A time and half of its interval."""
    return "overload" if value is None else shown(value, "s") + ("" if half is None else f" ± {shown(half, 's')}")


def sharded_page(report: Report) -> Page:
    """The frontier of the sharded layouts."""
    table, front = report["table"], report["pareto"]
    wanted = ("cp", "tp", "pp", "dp", "kv_shard", "ffn_scope", "latency", "efficiency", "devices", "memory_share")
    names = [name for name in wanted if name in table["columns"]]
    blocks: list[Block] = [Verdict(bool(front), _counts(report), f"{plural(len(front), 'layout')} on the frontier")]
    for title, rows in (("Frontier", front), ("Least memory", report["top_by_memory"])):
        if rows and names:
            one = _rows(table, rows, names)
            blocks.append(Table(columns=one.columns, rows=one.rows, title=title))
    if report["sensitivities"]:
        blocks.append(_knobs(report["sensitivities"]))
    named = (
        {"fastest": report["fastest"], "smallest that fits": report["smallest"]} if len(names) == len(wanted) else {}
    )
    lines = tuple(f"{what}: {_cut(table, at)}" for what, at in named.items() if at is not None)
    return Page(
        title=f"{report['name']} on {report['system']}",
        detail="; ".join(lines),
        blocks=(*blocks, *_refused(report), notes(report)),
    )


def _cut(table: Mapping[str, Any], at: int) -> str:
    """A layout of the sharded sweep with its time, in a few words."""
    columns = table["columns"]
    degrees = joined(f"{axis} {columns[axis][at]}" for axis in ("cp", "tp", "pp", "dp") if columns[axis][at] != 1)
    devices = plural(columns["devices"][at], "device")
    return f"{degrees or 'one device'} takes {shown(columns['latency'][at], 's')} on {devices}"


def _knobs(sensitivities: Mapping[str, Any]) -> Table:
    """One knob at a time: its values, and the time of a step as a bar; what does not fit says so."""
    rows: list[tuple[Cell | str, ...]] = []
    most = max((t for each in sensitivities.values() for t in each["columns"]["latency"] if t is not None), default=1.0)
    for name, each in sensitivities.items():
        times = each["columns"]["latency"]
        for value, time, fits, why in zip(each["columns"][name], times, each["feasible"], each["reason"], strict=True):
            text = MISSING if time is None else shown(time, "s")
            rows.append(
                (f"{name} {value:g}", Cell(text, "" if fits else "bad", (time or 0.0) / most), "" if fits else why)
            )
    heads = (Column("knob"), Column("step", right=True), Column("", wraps=True, rank=1))
    return Table(columns=heads, rows=tuple(rows), title="One knob at a time")


def codesign_page(report: Report) -> Page:
    """Latency against cost, and what doubling each knob buys."""
    table, front = report["machines"], report["pareto"]
    columns = table["columns"]
    parts = [name.removesuffix(" ×") for name in columns if name.endswith(" ×")]
    blocks: list[Block] = [Verdict(bool(front), _counts(report), f"{plural(len(front), 'machine')} on the frontier")]
    machines = []
    for at in front[:MOST]:
        times = [(name, columns[f"{name} ×"][at]) for name in parts]
        machine = ", ".join(f"{name} ×{value:g}" for name, value in times if value != 1.0)
        degrees = joined(f"{axis} {columns[axis][at]}" for axis in ("cp", "tp", "pp") if columns[axis][at] != 1)
        row = (shown(columns["latency"][at], "s"), f"{columns['cost'][at]:.3g}", f"{columns['devices'][at]:,.0f}")
        machines.append((*row, degrees or "one device", columns["kv_shard"][at], machine or "as it is"))
    if machines:
        heads = (Column("step", right=True), Column("cost", right=True), Column("devices", right=True), Column("layout"),
                 Column("kv", rank=1), Column("machine", wraps=True))  # fmt: skip
        blocks.append(Table(columns=heads, rows=tuple(machines), title="Frontier of time and cost"))
    most = max([one["speedup"] or 0.0 for one in report["doublings"]], default=0.0) or 1.0
    rows = tuple(
        (one["knob"], Cell(percent(one["speedup"]) if one["speedup"] else MISSING, "", (one["speedup"] or 0.0) / most))
        for one in report["doublings"]
    )
    if rows:
        heads = (Column("doubled"), Column("faster by", right=True))
        blocks.append(Table(columns=heads, rows=rows, title="Doubling one part of the fastest machine"))
    return Page(title=f"{report['name']}: machines around {report['system']}", blocks=(*blocks, notes(report)))


def rules_page(report: Report) -> Page:
    """Checks, hints and what is held twice."""
    words = {True: Cell("pass", "good"), False: Cell("fail", "bad"), None: Cell(MISSING, "quiet")}
    checks = Table(
        columns=(
            Column("check", wraps=True),
            Column(""),
            Column("numbers", wraps=True),
            Column("change", wraps=True, rank=1),
        ),
        rows=tuple((one["title"], words[one["passed"]], one["says"], one["fix"]) for one in report["checks"]),
    )
    hints = Words(title="Hints", lines=tuple(one["message"] for one in report["hints"]), points=True)
    held = [one for one in report["copies"] if one["waste"] > 0]
    copies = Table(
        columns=(
            Column("held more than once"),
            Column("copies", right=True),
            Column("across"),
            Column("waste", right=True),
        ),
        rows=tuple(
            (one["tensor"], f"{one['copies']:.3g}", ", ".join(one["across"]), shown(one["waste"], "byte"))
            for one in held
        ),
    )
    failed = [one for one in report["checks"] if one["passed"] is False]
    verdict = Verdict(not failed, "every rule holds" if not failed else f"{plural(len(failed), 'rule')} broken")
    blocks: list[Block] = [verdict, checks, hints, *([copies] if held else [])]
    return Page(title=f"{report['name']} on {report['system']}", blocks=(*blocks, notes(report)))


PAGES = {
    "sweep": sweep_page,
    "suggest": suggest_page,
    "plan": plan_page,
    "sharded": sharded_page,
    "codesign": codesign_page,
    "rules": rules_page,
}
