"""Limits of a report: which batch and context suit one device, with every curve and the rows behind it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from rooflab.document.curves import Mark, Series, lines, stacks
from rooflab.document.elements import about, figures, folded, listed, section, share, table, value
from rooflab.document.words import substituted
from rooflab.units import format as shown
from rooflab.units import number, short

Chip = dict[str, Any]
TERMS = (
    ("weight", "weights", "weights"),
    ("kv", "KV cache", "kv"),
    ("compute", "compute", "compute"),
    ("total", "total", "ink"),
)
"""Field of a latency, its name and how it is drawn."""
BUDGET = (
    ("weights", "weights"),
    ("kv", "KV cache"),
    ("transient", "workspace"),
    ("reserve", "reserve"),
    ("used", "together"),
)
REGIMES = {"compute-bound": "compute takes", "kv-bound": "the KV cache takes", "memory-bound": "the weights take"}
"""What takes most of a step, with its verb."""


def limits(chip: Chip, notes: Sequence[str]) -> list[str]:
    """The sections."""
    return [
        section(
            "Limits: which batch and context suit this device", f"<p>{escape(_finding(chip))}</p>", _figures(chip),
            f'<p class="quiet">{escape(chip["guidance"])}</p>', long=True,
        ),
        section("Step time and cost against batch", _over_batch(chip), long=True),
        section("Cost at five contexts, and the knee", _over_context(chip), long=True),
        section("Memory of one device", _memory(chip), long=True),
        section("If the device were different", _sensitivity(chip), long=True),
        section("Formulas of the limits", _formulas(chip), listed(notes), long=True),
    ]  # fmt: skip


def _finding(chip: Chip) -> str:
    context = chip["balance_context"]
    past = (
        f", and past {about(context)} tokens of context the KV cache sets the pace"
        if context is not None
        else "; no cache grows with the context"
    )
    room = chip["memory_batch"]
    memory = ""
    if chip["memory"]["over_budget"]:
        memory = ", and memory is over"
    elif room is not None and room < chip["good_batch"]:
        memory = f"; memory holds {room:,.0f} sequences, fewer than the device wants"
    return (
        f"This device wants a batch near {about(chip['good_batch'])}{past}. At batch {chip['batch']:,.0f} and "
        f"{chip['context']:,.0f} tokens {REGIMES[chip['regime']]} most of a step{memory}."
    )


def _figures(chip: Chip) -> str:
    return figures(
        [
            ("Arithmetic intensity", f"{number(chip['intensity'])} FLOP/B", ["of the device"]),
            ("Critical batch B*", about(chip["critical_batch"]), ["weights as long as products"]),
            ("Balance context L*", about(chip["balance_context"], "unlimited"), ["tokens"]),
            ("Knee of the batch", about(chip["knee_batch"], "no knee"), ["compute catches up"]),
            ("Good batch, 2 × B*", about(chip["good_batch"]), ["a larger one buys little"]),
            ("Utilisation at this context", share(chip["utilization"]), ["approached by large batches"]),
        ],
        " three",
    )


def _pair(*plots: str) -> str:
    return f'<div class="pair">{"".join(f"<figure>{each}</figure>" for each in plots)}</div>'


def _caption(text: str) -> str:
    return f"<figcaption>{escape(text)}</figcaption>"


def _over_batch(chip: Chip) -> str:
    curves, plots, rows = chip["curves"], [], []
    uprights = [
        Mark(x=chip["batch"], name=f"now {chip['batch']:,.0f}"),
        Mark(x=chip["critical_batch"], name=f"B* {about(chip['critical_batch'])}"),
    ]
    for key, title, axis in (
        ("step_latency", "Step time against batch", "one decode step"),
        ("token_latency", "Cost per token against batch", "device time a token"),
    ):
        points = _with(curves[key], chip["step" if key == "step_latency" else "token"], "batch")
        series = [
            Series(name=name, points=[(each["batch"], each[field]) for each in points], kind=kind)
            for field, name, kind in TERMS
        ]
        first, last = points[0], points[-1]
        said = (
            f"{title}: {shown(first['total'], 's')} at batch {first['batch']:,.0f}, {shown(last['total'], 's')} at batch "
            f"{last['batch']:,.0f}; B* is {about(chip['critical_batch'])}"
        )
        ticks = [(4.0**power, f"{4**power:,}") for power in range(12)]
        plots.append(_caption(title) + lines(said, series, uprights, ticks, "s", ("batch", axis)))
        rows.append(
            folded(
                f"{title}, in figures",
                table(
                    ("Batch", "weights", "KV cache", "compute", "together"),
                    [(f"{each['batch']:,.0f}", *(value(each[field], "s") for field, _, _ in TERMS)) for each in points],
                    range(5),
                ),
            )
        )
    formula = f"<p><code>{escape(chip['step_formula'])}</code></p>"
    return formula + _pair(*plots) + "".join(rows)


def _with(points: Sequence[Chip], one: Chip, key: str) -> list[Chip]:
    """A curve with the scenario's own point, each place once."""
    places = {each[key]: each for each in (*points, one)}
    return [places[at] for at in sorted(places)]


def _over_context(chip: Chip) -> str:
    curves, now = chip["curves"], chip["context"]
    parts, rows = [], []
    if curves["cost_at_context"]:
        series = [
            Series(name=f"{each['ratio']:g} L*", points=[(p["batch"], p["total"]) for p in each["points"]], thin=True)
            for each in curves["cost_at_context"]
        ]
        said = "Cost per token against batch: " + "; ".join(
            f"{shown(each['points'][-1]['total'], 's')} at batch {each['points'][-1]['batch']:,.0f} and "
            f"{about(each['context'])} tokens"
            for each in curves["cost_at_context"]
        )
        ticks = [(4.0**power, f"{4**power:,}") for power in range(12)]
        mark = [Mark(x=chip["batch"], name=f"now {chip['batch']:,.0f}")]
        parts.append(
            _caption("Cost per token at five contexts")
            + lines(said, series, mark, ticks, "s", ("batch", "device time a token"))
        )
        batches = [point["batch"] for point in curves["cost_at_context"][0]["points"]]
        heads = ("Context", *(f"batch {batch:,.0f}" for batch in batches))
        cells = [
            (f"{about(each['context'])} ({each['ratio']:g} L*)", *(value(p["total"], "s") for p in each["points"]))
            for each in curves["cost_at_context"]
        ]
        rows.append(folded("Cost at five contexts, in figures", table(heads, cells, range(1, len(heads)))))
    knees = _with(curves["knee"], {"context": now, "batch": chip["knee_batch"]}, "context")
    points = [(each["context"], each["batch"]) for each in knees if each["batch"] is not None]
    marks = [Mark(x=now, name=f"now {now:,.0f}")]
    if chip["balance_context"] is not None:
        marks.append(Mark(x=chip["balance_context"], name=f"L* {about(chip['balance_context'])}"))
    beyond = f"; none from {about(chip['balance_context'])} tokens on" if chip["balance_context"] is not None else ""
    if len(points) > 1:
        said = "Batch at the knee: " + ", ".join(
            f"{about(batch)} at {context:,.0f} tokens" for context, batch in points
        )
        ticks = [(each["context"], short(each["context"])) for each in curves["memory_vs_context"]]
        parts.append(
            _caption(f"Knee against context{beyond}")
            + lines(said, [Series(name="", points=points)], marks, ticks, "1", ("context", "batch at the knee"))
        )
    cells = [
        (f"{each['context']:,.0f}", about(each["batch"], "no knee: the cache outweighs compute")) for each in knees
    ]
    rows.append(folded("Knee against context, in figures", table(("Context", "knee"), cells, (0, 1))))
    return (_pair(*parts) if parts else "") + "".join(rows)


def _memory(chip: Chip) -> str:
    curves, now, plots, rows = chip["curves"], chip["memory"], [], []
    kinds = (("weights", "weights"), ("kv", "KV cache"), ("workspace", "workspace"), ("reserve", "reserve"))
    key = "".join(f'<span><i class="{kind}"></i>{name}</span>' for kind, name in kinds)
    for curve, axis, title in (
        ("memory_vs_context", "context", f"Memory against context, batch {now['batch']:,.0f}"),
        ("memory_vs_batch", "batch", f"Memory against batch, {now['context']:,.0f} tokens"),
    ):
        points = _with(curves[curve], now, axis)
        over = next((each for each in points if each["over_budget"]), None)
        end = f"first over at {axis} {over[axis]:,.0f}" if over else "all of these fit"
        said = f"{title}: {shown(now['used'], 'byte')} now, of {shown(now['budget'], 'byte')}; {end}"
        plots.append(_caption(title) + stacks(said, points, axis, now[axis], short))
        cells = [
            (
                f"{each[axis]:,.0f}",
                *(value(each[field], "byte") for field, _ in BUDGET),
                "no" if each["over_budget"] else "yes",
            )
            for each in points
        ]
        heads = (axis.capitalize(), *(name for _, name in BUDGET), "fits")
        rows.append(folded(f"{title}, in figures", table(heads, cells, range(6))))
    return f'<p class="key">{key}</p>' + _pair(*plots) + "".join(rows)


def _sensitivity(chip: Chip) -> str:
    curves, plots = chip["curves"], []
    flops, bandwidth = curves["flops_sensitivity"], curves["bandwidth_sensitivity"]
    for field, title, axis in (
        ("intensity", "Arithmetic intensity", "FLOP/byte"),
        ("critical_batch", "Critical batch", "B*"),
    ):
        series = [
            Series(name="FLOP/s", points=[(each["multiplier"], each[field]) for each in flops], kind="compute"),
            Series(name="bandwidth", points=[(each["multiplier"], each[field]) for each in bandwidth], kind="memory"),
        ]
        said = f"{title} of the device with its FLOP/s or its bandwidth scaled: " + "; ".join(
            f"×{one['multiplier']:g}: {about(one[field])} and {about(two[field])}"
            for one, two in zip(flops, bandwidth, strict=True)
        )
        ticks = [(each["multiplier"], f"×{each['multiplier']:g}") for each in flops]
        plots.append(
            _caption(title) + lines(said, series, [Mark(x=1.0, name="this device")], ticks, "1", ("times", axis))
        )
    heads = (
        "Times",
        "intensity, FLOP/s scaled",
        "intensity, bandwidth scaled",
        "B*, FLOP/s scaled",
        "B*, bandwidth scaled",
    )
    cells = [
        (
            f"×{one['multiplier']:g}",
            about(one["intensity"]),
            about(two["intensity"]),
            about(one["critical_batch"]),
            about(two["critical_batch"]),
        )
        for one, two in zip(flops, bandwidth, strict=True)
    ]
    return _pair(*plots) + folded("Both, in figures", table(heads, cells, range(5)))


def _formulas(chip: Chip) -> str:
    rows = [
        (
            escape(each["symbol"]),
            f"<code>{escape(each['formula'])}<br>= {escape(substituted(each['with_numbers']))}</code>",
            escape(each["meaning"]),
            escape(each["text"]),
        )
        for each in chip["formulas"]
    ]
    parts = [
        (escape(each["name"]), escape(each["short_context"]), escape(each["long_context"]), escape(each["text"]))
        for each in chip["regimes"]
    ]
    return table(("Symbol", "formula, and with its numbers", "meaning", "value"), rows, (3,)) + table(
        ("Part of a token", "short context", "long context", "now"), parts, (3,)
    )
