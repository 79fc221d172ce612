"""A scenario as one page of HTML that needs nothing else: no script, no font, no network. It is given reports and writes.

The command line and the page both get it from the engine (`api.documents`), so there is one such page.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

import msgspec

from rooflab.document import charts, evidence
from rooflab.document.elements import Report, badge, figures, listed, section, share, shell, table, value
from rooflab.document.limits import limits
from rooflab.document.words import (
    BOUNDS,
    SUBJECTS,
    bound_of,
    in_numbers,
    in_words,
    operator_name,
    part_name,
)
from rooflab.units import MISSING, number
from rooflab.units import format as shown

__all__ = ["Facts", "html"]

MEANS = {
    "memory": "moves bytes", "compute": "is arithmetic", "network": "exchanges between devices", "latency": "waits for launches"
}  # fmt: skip
BASES = ("datasheet", "assumed", "measured", "fitted", "speculative")
"""Bases of an input that are given rather than counted."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a page is made of: reports as plain data."""

    title: str
    scenario: str
    """In one line."""
    now: Report
    """The estimate, with its steps."""
    alone: Report | None
    """The same at batch 1."""
    baseline: Report | None = None
    baseline_name: str = ""
    fit: Report
    limits: Report | None = None
    """The chip roofline of one device at the scenario's batch and context."""
    rules: Report | None = None
    compared: Report | None = None
    explained: dict[str, Report]
    """Subject or operator -> its explanation."""
    sources: list[tuple[str, str, str]]
    """(what is from it, title, address)."""
    command: str
    question: Report
    link: str = ""
    date: str = ""


def html(facts: Facts) -> str:
    """The page."""
    report = facts.now
    body = [
        _kpis(facts), _memory(facts), *_phases(facts), _compared(facts),
        *(limits(facts.limits["chip"], facts.limits["notes"]) if facts.limits else ()),
        evidence.prices(report), evidence.rules(facts.rules), _formulas(facts), _assumptions(facts), _left_out(facts),
        evidence.symbols(facts.rules), evidence.elsewhere(), _again(facts),
    ]  # fmt: skip
    return shell(facts.title, report["version"], _head(facts), body)


# ------------------------------------------------------------------------------------------------ the answer


def finding(report: Report) -> str:
    """The answer in a sentence or two."""
    memory = report["memory"]
    if report["tpot"] is None and report["ttft"] is None:
        return (
            f"Does not fit: each device needs {shown(memory['used'], 'byte')} and has {shown(memory['capacity'], 'byte')}, "
            f"{shown(memory['over'], 'byte')} too little."
        )
    step = report["decode_step"]
    lead = (
        "" if report["fits"] else f"Does not fit by {shown(memory['over'], 'byte')}; the speed is shown all the same. "
    )
    if step is None:
        return f"{lead}A one-token answer has no decode step: the first token comes after {shown(report['ttft'], 's')}."
    bound, top = step["bound"], max(step["ops"], key=lambda op: op["time"])
    most = share(step["terms"][bound] / step["time"] if step["time"] else 0.0)
    return (
        f"{lead}Decode is {bound}-bound: {most} of each {shown(step['time'], 's')} step {MEANS[bound]}; "
        f"the longest part is {operator_name(top['name'])} with {share(top['share'])}."
    )


def _head(facts: Facts) -> str:
    date = f" · {escape(facts.date)}" if facts.date else ""
    basis = facts.now["basis"]
    badges = badge(basis) + (f" {badge('assumed')}" if basis == "roofline" else "")
    return (
        f'<header><p class="quiet">{escape(facts.title)}</p><h1>{escape(finding(facts.now))}</h1>'
        f'<p class="quiet">{escape(facts.scenario)}<br>RoofLab {escape(facts.now["version"])}{date} · profile '
        f"{escape(facts.now['profile'])} · {badges} · an analytical model, not a benchmark</p></header>\n"
    )


def _delta(now: float | None, was: float | None, better: str) -> str:
    if now is None or was is None or not was:
        return ""
    moved = now / was - 1.0
    if abs(moved) < 5e-4:
        return "same as the baseline"
    good = (moved < 0) == (better == "down")
    arrow = "▼" if moved < 0 else "▲"
    tone = "" if better == "none" else ' class="good"' if good else ' class="bad"'
    return f"<span{tone}>{arrow} {abs(moved):.1%}</span> from the baseline".replace("%", " %")


_KPIS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("TPOT", ("tpot",), "s", "down"),
    ("TTFT, one prompt alone", ("alone",), "s", "down"),
    ("TTFT, whole batch", ("ttft",), "s", "down"),
    ("End to end", ("e2e",), "s", "down"),
    ("Output throughput", ("output_throughput",), "token/s", "up"),
    ("Throughput per device", ("throughput_per_device",), "token/s", "up"),
    ("Memory per device", ("memory", "used"), "byte", "down"),
    ("Bandwidth in use", ("decode_step", "bandwidth_share"), "share", "none"),
    ("Cost, million output tokens", ("cost_per_million_tokens", "output"), "USD", "down"),
    ("Energy per output token", ("energy_per_token",), "J", "down"),
)
"""Label, where it is in an estimate, unit, and which way is better."""


def _at(report: Report | None, path: tuple[str, ...]) -> Any:
    """What is at a place of a report, None where there is no such place."""
    found: Any = report
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _kpis(facts: Facts) -> str:
    """Headline figures with their band and how they differ from the baseline."""
    now, low, high = facts.now, facts.now["low"], facts.now["high"]
    cells = []
    for name, path, unit, better in _KPIS:
        found = _at(facts.alone, ("ttft",)) if path == ("alone",) else _at(now, path)
        if found is None and path != ("tpot",):
            continue
        notes = [_delta(found, _at(facts.baseline, path), better)]
        ends = _at(low, path), _at(high, path)
        if None not in (found, *ends):
            notes.append(_band(shown(ends[0], unit), shown(ends[1], unit)))
        cells.append((name, _short(value(found, unit)), notes))
    return f"<section>{figures(cells)}</section>\n"


def _short(text: str) -> str:
    return text.replace("token/s", "tok/s")


def _band(first: str, last: str) -> str:
    """Two ends, the unit said once where it is the same."""
    value, _, unit = first.partition(" ")
    return _short(f"{value if unit == last.partition(' ')[2] else first} to {last}")


# ------------------------------------------------------------------------------------------------ the evidence


def _memory(facts: Facts) -> str:
    memory, fit = facts.now["memory"], facts.fit
    rows = [(name, value(memory[key], "byte"), share(memory[key] / memory["capacity"])) for key, name in charts.KINDS]
    rest = "over" if memory["over"] else "free"
    rows.append((rest.capitalize(), value(memory[rest], "byte"), share(memory[rest] / memory["capacity"])))
    inner = [
        charts.memory_strip(memory, "Memory per device"),
        table(("Of each device", "bytes", "share"), rows, (1, 2)),
    ]
    if fit["fits"]:
        length = facts.now["ask"]["prompt"] + facts.now["ask"]["output"]
        inner.append(
            f'<p class="quiet">A replica holds at most {fit["max_batch"]:,} sequences of {length:,} tokens, or this batch at '
            f"{value(fit['max_context'], 'token')}.</p>"
        )
    elif fit["changes"]:
        found = [(escape(each["change"]), value(each["free"], "byte")) for each in fit["changes"]]
        inner.append(table(("Any one of these fits", "then free"), found, (1,)))
    return section("Memory per device", *inner)


def _phases(facts: Facts) -> list[str]:
    """Roofline, parts and operators of the decode step and of the prefill pass."""
    out = []
    for phase, name in (("decode", "One decode step"), ("prefill", "Prefill of the whole batch")):
        step = facts.now[f"{phase}_step"]
        if step is None:
            continue
        key = "".join(f'<span><i class="{bound}"></i>{bound}</span>' for bound in BOUNDS)
        out.append(
            section(
                f"{name}: {shown(step['time'], 's')}",
                f'<p class="key">{key}</p>',
                charts.roofline(step, f"Roofline of {name.lower()}"),
                '<p class="quiet">Area is share of the time. The solid roof is what is reached, the dotted one the datasheet’s. '
                "Exchanges and launches have no intensity and stand under the axis.</p>",
                _parts(step),
            )
        )
        out.append(section(f"{name}, operator by operator", _operators(step), long=True))
    return out


def _parts(step: Report) -> str:
    parts = [part for part in step["parts"] if part["time"]]
    most = max((part["time"] for part in parts), default=1.0)
    rows = [
        (
            part_name(part["part"]),
            charts.terms_bar(part["terms"], most),
            value(part["time"], "s"),
            share(part["share"]),
        )
        for part in parts
    ]
    total = ("Together", "", value(step["time"], "s"), "")
    return table(("Where the time goes", "what it waits for", "time", "share"), [*rows, total], (2, 3))


def _operators(step: Report) -> str:
    rows = []
    for op in sorted((op for op in step["ops"] if op["time"]), key=lambda op: -op["time"]):
        shape = op["shape"]
        size = " × ".join(f"{shape[axis]:,.0f}" for axis in "mnk") if shape.get("m") else ""
        rows.append(
            (
                escape(operator_name(op["name"])), f"{op['count']:,.0f}", size, value(op["flop"] or None, "FLOP"),
                value(op["bytes"] or op["message_bytes"] or None, "byte"),
                number(op["intensity"]) if op["intensity"] else MISSING, value(op["time"], "s"), share(op["share"]),
                bound_of(op["bound"]), escape(op["basis"]),
            )
        )  # fmt: skip
    heads = ("Operator", "times", "M × N × K", "FLOP", "bytes", "FLOP/byte", "time", "share", "bound", "basis")
    return table(heads, rows, (1, 2, 3, 4, 5, 6, 7))


def _compared(facts: Facts) -> str:
    """Where the scenario differs from its baseline."""
    if facts.compared is None:
        return ""
    rows, kinds, group = [], [], ""
    for row in facts.compared["rows"]:
        if not row["differs"]:
            continue
        if row["group"] != group:
            group = row["group"]
            rows.append((escape(group), "", ""))
            kinds.append("group")
        cells = []
        for index, each in enumerate(row["values"]):
            text = value(each, row["unit"])
            cells.append(f"<b>{text}</b>" if index in row["best"] else text)
        rows.append((escape(row["title"]), *cells))
        kinds.append("")
    if not rows:
        return ""
    heads = ("Where they differ", "this scenario", facts.baseline_name or "baseline")
    return section("Beside the baseline", table(heads, rows, (1, 2), kinds), long=True)


def _formulas(facts: Facts) -> str:
    """Every headline number and the longest operators: the formula, the same with numbers, the result."""
    out = []
    for subject, report in facts.explained.items():
        rows = [(escape(line["title"]), _formula(line), value(line["value"], line["unit"])) for line in report["lines"]]
        out.append(f"<h3>{escape(SUBJECTS.get(subject) or operator_name(subject))}</h3>")
        out.append(table(("Quantity", "formula, and with its numbers", "value"), rows, (2,)))
    return section("Formulas, with their numbers", *out, long=True) if out else ""


def _formula(line: Report) -> str:
    text = f"{escape(in_words(line))}<br>= {escape(in_numbers(line))}"
    return f"<code>{text}</code>"


def _assumptions(facts: Facts) -> str:
    """What was given rather than counted, what it rests on, and where figures come from."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for subject, report in facts.explained.items():
        where = SUBJECTS.get(subject) or operator_name(subject)
        for line in report["lines"]:
            for name, basis in line["bases"].items():
                given = line["inputs"][name]
                if basis not in BASES or not isinstance(given, (int, float)):
                    continue
                words, unit = line["names"][name], line["units"][name]
                text = number(given) if unit == "1" else shown(given, unit)
                found.setdefault((words, text), (basis, where))
    rows = [
        (escape(words), escape(text), badge(basis), escape(where))
        for (words, text), (basis, where) in sorted(found.items(), key=lambda item: BASES.index(item[1][0]))
    ]
    inner = [table(("Input", "value", "basis", "first used in"), rows, (1,))] if rows else []
    if facts.now["notes"]:
        inner.append(f"<h3>Notes</h3>{listed(facts.now['notes'])}")
    if facts.sources:
        named = "".join(f"<li>{escape(what)}: {_source(title, url)}</li>" for what, title, url in facts.sources)
        inner.append(f"<h3>Sources</h3><ul>{named}</ul>")
    return section("Assumptions and sources", *inner, long=True)


def _source(title: str, url: str) -> str:
    if url.startswith(("https://", "http://")):
        return f'<a href="{escape(url, quote=True)}" rel="noreferrer">{escape(title)}</a>'
    return escape(title)


def _left_out(facts: Facts) -> str:
    lines = next((report["leaves_out"] for report in facts.explained.values()), [])
    return section(
        "What is left out",
        listed(lines),
        '<p class="quiet">Where no measurement of a system exists, times are estimates and comparisons are the point. '
        "Before money depends on it, run the model on the machine with the engine that is meant.</p>",
    )


def _again(facts: Facts) -> str:
    question = json.dumps(facts.question, ensure_ascii=False, indent=1)
    link = f"<p>{_source('This scenario in the page it was written from', facts.link)}</p>" if facts.link else ""
    return section(
        "The same again",
        f"<pre>{escape(facts.command)}</pre>",
        f"<h3>Its question, for <code>rooflab ask</code></h3><pre>{escape(question)}</pre>",
        link,
        long=True,
    )
