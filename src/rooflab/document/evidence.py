"""Evidence of a report: the band, what the prices rest on, the rules on this scenario, symbols with their values."""

from __future__ import annotations

from html import escape

from rooflab.document.elements import Report, badge, folded, section, sentence, share, table, value

BANDED = (
    ("TPOT", "tpot", "s"), ("TTFT, whole batch", "ttft", "s"), ("End to end", "e2e", "s"),
    ("Output throughput", "output_throughput", "token/s"), ("Throughput per device", "throughput_per_device", "token/s"),
)  # fmt: skip


def prices(now: Report) -> str:
    """How sure: what each pass is priced from, and the band of the headline numbers."""
    shares = [(sentence(phase), _shares(by)) for phase, by in (now["basis_shares"] or {}).items()]
    rows = [
        (name, value(now["low"][key], unit), value(now[key], unit), value(now["high"][key], unit))
        for name, key, unit in BANDED
        if now["low"] and now["high"] and now[key] is not None
    ]
    if not shares and not rows:
        return ""
    inner = [table(("Pass", "share of its time by basis"), shares)] if shares else []
    if rows:
        inner.append(table(("Number", "low", "estimate", "high"), rows, (1, 2, 3)))
        inner.append('<p class="quiet">The band is every element at its low, then at its high.</p>')
    return section("How sure these numbers are", *inner)


def _shares(by: dict[str, float]) -> str:
    """Bases by their share of the time, the largest first."""
    largest = sorted(by.items(), key=lambda each: -each[1])
    return " ".join(f"{badge(basis)} {share(part)}" for basis, part in largest if part > 5e-4)


def rules(report: Report | None) -> str:
    """Checks evaluated on the scenario, and what would change it."""
    if report is None:
        return ""
    words = {True: '<span class="good">✓ pass</span>', False: '<span class="bad">✕ fail</span>', None: "not asked"}
    rows = [
        (
            words[each["passed"]], f"{escape(sentence(each['title']))}<br><small>{escape(sentence(each['says']))}</small>",
            value(each["value"], each["unit"]), value(each["limit"], each["unit"]), escape(sentence(each["fix"])),
        )
        for each in report["checks"]
    ]  # fmt: skip
    failed = sum(each["passed"] is False for each in report["checks"])  # int
    asked = sum(each["passed"] is not None for each in report["checks"])  # int
    lead = f"{failed} of {asked} fail." if failed else f"All {asked} pass."
    hints = [
        (escape(sentence(each["message"])), _moves(each["time"], "s"), _moves(each["memory"], "byte"))
        for each in report["hints"]
        if each["change"]
    ]
    inner = [f"<p>{lead}</p>", table(("Verdict", "rule", "here", "limit", "what to do"), rows, (2, 3))]
    if hints:
        inner += ["<h3>Hints, evaluated</h3>", table(("Change", "time of a step", "memory"), hints, (1, 2))]
    return section("Rules evaluated here", *inner, long=True)


def _moves(change: float | None, unit: str) -> str:
    if change is None:
        return ""
    return f"{'+' if change > 0 else ''}{value(change, unit)}"


def symbols(report: Report | None) -> str:
    """Every symbol with the value it has here."""
    if report is None or not report["glossary"]:
        return ""
    rows, kinds, group = [], [], ""
    for each in report["glossary"]:
        if each["group"] != group:
            group = each["group"]
            rows.append((escape(sentence(group)), "", ""))
            kinds.append("group")
        rows.append(
            (f"<code>{escape(each['symbol'])}</code>", escape(each["meaning"]), value(each["value"], each["unit"]))
        )
        kinds.append("")
    return section(
        "Symbols, with their values",
        folded(f"{len(report['glossary'])} symbols", table(("Symbol", "meaning", "here"), rows, (2,), kinds)),
        long=True,
    )


def elsewhere() -> str:
    """What a report of one scenario does not hold, and how to get it."""
    lines = [
        ("Layouts and hardware that would do better", "rooflab suggest, rooflab sweep, and Design in the page"),
        (
            "Load: queues, percentiles, how many devices a service takes",
            "rooflab simulate, rooflab plan, and Serve in the page",
        ),
        ("Predictions against measurements", "rooflab validate, and Evidence in the page"),
    ]
    rows = [(escape(what), escape(how)) for what, how in lines]
    return section("Not in this report", table(("Question", "where it is answered"), rows))
