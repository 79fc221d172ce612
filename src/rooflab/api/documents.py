"""A scenario as one page of HTML: the reports it is made of, handed to `document`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from rooflab import catalog, document
from rooflab.api.answers import answer_chip, answer_estimate, answer_fit, header
from rooflab.api.asks import ChipAsk, EstimateAsk, EstimateReport, ExplainAsk, FitAsk
from rooflab.api.compare import answer_compare
from rooflab.api.compare_asks import Case, CompareAsk, DocumentAsk, DocumentReport
from rooflab.api.design import answer_rules
from rooflab.api.design_asks import RulesAsk
from rooflab.api.resolve import Setting, setting_of
from rooflab.api.snapshots import command_of, plain, scenario_ask, self_contained, title_of
from rooflab.api.why import answer_explain
from rooflab.units import InputError, shown

SUBJECTS = (
    "tpot", "ttft", "e2e", "output_throughput", "memory", "weights", "kv", "workspace", "bandwidth_share", "cost", "energy",
)  # fmt: skip
OPERATORS = {"decode": 5, "prefill": 3}
"""Longest operators of a step whose formulas are shown."""


def answer_document(ask: DocumentAsk) -> DocumentReport:
    """The page of a scenario."""
    if ask.link and not ask.link.startswith(("https://", "http://")):
        raise InputError(f"link: {shown(ask.link)} is no address of a page; it begins with https:// or http://")
    asked = scenario_ask(ask.scenario, detail=True)
    setting, report = setting_of(asked), answer_estimate(asked)
    baseline = _baseline(ask)
    facts = document.Facts(
        title=ask.title or title_of(report, asked),
        scenario=_line(asked, report),
        now=_plain(report),
        alone=_alone(asked, report),
        baseline=_plain(baseline[1]) if baseline else None,
        baseline_name=ask.baseline_name,
        fit=_plain(answer_fit(_as(FitAsk, asked))),
        limits=_where(answer_chip, ChipAsk, asked, context=asked.prompt + asked.output),
        rules=_where(answer_rules, RulesAsk, asked),
        compared=_compared(asked, baseline[0]) if baseline else None,
        explained=_explained(asked, report),
        sources=_sources(setting),
        command=command_of(asked),
        question={"kind": "estimate", **plain(self_contained(asked))},
        link=ask.link,
        date=ask.date,
    )
    name = re.sub(r"[^A-Za-z0-9.]+", "-", title_of(report, asked)).strip("-.") or "scenario"
    return DocumentReport(**header(ask, DocumentReport, report.notes), name=name, html=document.html(facts))


def _plain(record: Any) -> dict[str, Any]:
    return msgspec.to_builtins(record, str_keys=True)


def _as(kind: type[Any], asked: EstimateAsk, **more: Any) -> Any:
    """Another kind of question about the same scenario: the fields it knows."""
    fields = {name: getattr(asked, name) for name in kind.__struct_fields__ if hasattr(asked, name)}
    return kind(**{**fields, **more})


def _where(answer: Callable[[Any], Any], kind: type[Any], asked: EstimateAsk, **more: Any) -> dict[str, Any] | None:
    """Another question's report, where the scenario has one: a profile or a device may lack what it needs."""
    try:
        return _plain(answer(_as(kind, asked, **more)))
    except InputError:
        return None


def _baseline(ask: DocumentAsk) -> tuple[EstimateAsk, EstimateReport] | None:
    if ask.baseline is None:
        return None
    asked = scenario_ask(ask.baseline, "baseline", detail=True)
    return asked, answer_estimate(asked)


def _alone(asked: EstimateAsk, report: EstimateReport) -> dict[str, Any] | None:
    """The estimate of one prompt by itself, where there are figures at all."""
    if report.ttft is None or asked.concurrency is not None:
        return None
    return _plain(answer_estimate(msgspec.structs.replace(asked, batch=1, microbatches=1, detail=False)))


def _compared(asked: EstimateAsk, baseline: EstimateAsk) -> dict[str, Any]:
    cases = [Case(name="this scenario", scenario=plain(asked)), Case(name="baseline", scenario=plain(baseline))]
    return _plain(answer_compare(CompareAsk(cases=cases)))


def _explained(asked: EstimateAsk, report: EstimateReport) -> dict[str, Any]:
    """Explanations of the headline numbers and of the longest operators; what has none is left out."""
    found: dict[str, Any] = {}
    wanted = [(subject, "decode") for subject in SUBJECTS]
    for phase, most in OPERATORS.items():
        step = getattr(report, f"{phase}_step")
        longest = sorted(step.ops if step else (), key=lambda op: -op.time)[:most]
        wanted += [(op.name, phase) for op in longest if op.kind != "overhead"]
    if report.ttft is None:
        wanted = [(subject, "decode") for subject in ("memory", "weights", "kv", "workspace")]
    for subject, phase in wanted:
        try:
            found.setdefault(subject, _plain(answer_explain(_as(ExplainAsk, asked, op=subject, phase=phase))))
        except InputError:
            continue  # no price, no power, no such number for this scenario
    return found


def _sources(setting: Setting) -> list[tuple[str, str, str]]:
    """Where the machine's figures come from."""
    known, device, system = catalog.refs(), setting.system.device, setting.system
    named = [(f"device {device.name}", device.sources)]
    named += [(f"system {system.name}", system.sources)] if system.name != device.name else []
    named += [(f"link {link.name}", link.sources) for link in system.links]
    found: dict[str, list[str]] = {}
    for what, keys in named:
        for key in keys:
            if key in known and what not in found.setdefault(key, []):
                found[key].append(what)
    return [(", ".join(what), known[key].get("title", key), known[key].get("url", "")) for key, what in found.items()]


def _line(asked: EstimateAsk, report: EstimateReport) -> str:
    """The scenario in one line."""
    on = asked.on if isinstance(asked.on, str) else report.system
    degrees = [f"{axis} {getattr(asked, axis)}" for axis in ("tp", "pp", "cp", "dp", "ep", "attention_dp")]
    formats = ["weights as stored" if asked.weights is None else f"weights {_formats(asked.weights)}"]
    formats += [f"cache {asked.kv}"] if asked.kv else []
    changed = [f"{key} {value}" for key, value in {**asked.changes, **asked.switches}.items()]
    work = [f"batch {asked.batch:,}" if asked.concurrency is None else f"{asked.concurrency:,} in flight"]
    work += [f"{asked.prompt:,} tokens in", f"{asked.output:,} out"]
    return " · ".join(
        [report.name, str(on), *(each for each in degrees if not each.endswith(" 1")), *work, *formats, *changed]
    )


def _formats(weights: str | dict[str, str]) -> str:
    return weights if isinstance(weights, str) else ", ".join(f"{key} {value}" for key, value in weights.items())
