"""A scenario as it is kept: whole, with its figures, and as the command line that asks it."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

import msgspec

from rooflab import store
from rooflab.api.answers import answer_estimate, header
from rooflab.api.asks import EstimateAsk, EstimateReport
from rooflab.api.compare_asks import (
    ShortenAsk,
    ShortenReport,
    SnapshotAsk,
    SnapshotReport,
    UnpackAsk,
    UnpackReport,
)
from rooflab.api.resolve import model_of, system_of
from rooflab.hf import read_json, shorter
from rooflab.store import Saved
from rooflab.system import System
from rooflab.units import EXAMPLES, InputError, parse, shown

SPELLED = {"changes": "--set", "switches": "--switch"}
"""Fields whose option is not their name."""
FILE = "scenario.json"
"""Where a question with content of its own is kept for the command line."""
_ELSEWHERE = ("catalog:", "hub:")
_NOT_KEPT = ("detail",)


def scenario_ask(scenario: Any, where: str = "scenario", **more: Any) -> EstimateAsk:
    """The checked question of a scenario.

    Raises InputError with the place in front.
    """
    from rooflab.api import ask_of  # the table of questions, which names this module

    if not isinstance(scenario, dict):
        raise InputError(f"{where}: {shown(scenario)} is not a table of an estimate's fields")
    if scenario.get("kind", "estimate") != "estimate":
        raise InputError(f"{where}: {shown(scenario['kind'])} cannot be kept; save an estimate's question")
    found = ask_of({**scenario, "kind": "estimate", **more})
    assert isinstance(found, EstimateAsk)
    return found


def plain(ask: EstimateAsk, *, whole: bool = False) -> dict[str, Any]:
    """The fields of a question that are not as when nothing is said; with `whole` all of them."""
    data = {key: value for key, value in msgspec.to_builtins(ask).items() if key not in ("kind", *_NOT_KEPT)}
    if whole:
        return data
    usual = msgspec.to_builtins(EstimateAsk(model="", on=""))
    return {key: value for key, value in data.items() if key in ("model", "on") or value != usual[key]}


def self_contained(ask: EstimateAsk) -> EstimateAsk:
    """The question with the content of this machine's files in place of their paths."""
    model, on = ask.model, ask.on
    if isinstance(model, str):
        found = model_of(model)
        if found.source and not found.source.startswith(_ELSEWHERE):
            model = {"_name_or_path": found.name, **read_json(Path(found.source))}
            model["_name_or_path"] = found.name
    if isinstance(on, str) and (on.endswith(".toml") or "/" in on or "\\" in on):
        on = msgspec.to_builtins(system_of(on, {}))
    return msgspec.structs.replace(ask, model=model, on=on)


def digest_of(report: EstimateReport) -> dict[str, Any]:
    """The figures of an estimate that a saved scenario keeps (D-131)."""
    memory = report.memory
    found: dict[str, Any] = {
        "name": report.name,
        "system": report.system,
        "profile": report.profile,
        "devices": report.devices,
        "fits": report.fits,
        **{f"memory_{name}": getattr(memory, name) for name in memory.__struct_fields__},
        **{name: getattr(report, name) for name in FIGURES},
        "cost": (report.cost_per_million_tokens or {}).get("output"),
    }
    for phase, step in (("prefill", report.prefill_step), ("decode", report.decode_step)):
        if step is not None:
            found[phase] = {op.name: op.time for op in step.ops if op.time}
    return {key: value for key, value in found.items() if value is not None}


FIGURES = ("ttft", "tpot", "e2e", "output_throughput", "throughput_per_device", "energy_per_token")


def title_of(report: EstimateReport, ask: EstimateAsk) -> str:
    """What a scenario is called unless it is given a name."""
    on = ask.on if isinstance(ask.on, str) else report.system
    degrees = [f"{axis} {getattr(ask, axis)}" for axis in ("tp", "pp", "cp", "dp", "ep") if getattr(ask, axis) != 1]
    formats = ask.weights if isinstance(ask.weights, str) else ""
    return ", ".join(part for part in (f"{report.name} on {on}", *degrees, formats) if part)[:90]


def answer_snapshot(ask: SnapshotAsk) -> SnapshotReport:
    """A scenario as it is saved."""
    asked = scenario_ask(ask.scenario, detail=True)
    report = answer_estimate(asked)
    kept = plain(self_contained(asked))
    return SnapshotReport(
        **header(ask, SnapshotReport, report.notes),
        name=title_of(report, asked),
        scenario=kept,
        digest=digest_of(report),
        command=command_of(asked),
        question={"kind": "estimate", **kept},
    )


def answer_shorten(ask: ShortenAsk) -> ShortenReport:
    """A model in as few words as say it."""
    return ShortenReport(**header(ask, ShortenReport, []), model=shorter(ask.model))


def answer_unpack(ask: UnpackAsk) -> UnpackReport:
    """The scenarios of an exported file."""
    return UnpackReport(**header(ask, UnpackReport, []), scenarios=unpacked(ask.text))


def unpacked(text: str, label: str = "the file") -> list[Saved]:
    """The scenarios of an exported file, each with a question that can be asked."""
    records = store.read(text, label)
    for record in records:
        try:
            scenario_ask(record.ask)
        except InputError as problem:
            raise InputError(f"{label}: {shown(record.name)}: {problem}") from None
    return records


# ------------------------------------------------------------------------------------------- as a command line


def command_of(ask: EstimateAsk) -> str:
    """What asks the question on a command line; content that no option can carry comes from a file."""
    try:
        return shlex.join(["rooflab", "estimate", *_words(ask)])
    except _NoOption:
        return f"rooflab ask {FILE}"


class _NoOption(Exception):
    """A value that options cannot say."""


def _words(ask: EstimateAsk) -> list[str]:
    """The arguments of `rooflab estimate`."""
    said = plain(ask)
    words = [_text(said.pop("model"))]
    for field, value in said.items():
        option = SPELLED.get(field, "--" + field.replace("_", "-"))
        if isinstance(value, bool):
            words.append(option)
        elif field in SPELLED:
            for key, each in value.items():
                words += [option, f"{key}={_quantity(ask, key, each) if field == 'changes' else _scalar(each)}"]
        elif isinstance(value, dict):
            words += [
                option,
                _text(",".join(f"{key}={each}" for key, each in value.items()) if field == "weights" else value),
            ]
        else:
            words += [option, _text(value)]
    return words


def _text(value: Any) -> str:
    if isinstance(value, dict):
        raise _NoOption
    return repr(value) if isinstance(value, float) else str(value)


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _quantity(ask: EstimateAsk, key: str, value: Any) -> str:
    """A figure of hardware with its unit: one that changes the machine just as the bare number does."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _scalar(value)
    before: System = system_of(ask.on, {})
    wanted = before.replace({key: value})
    for unit in EXAMPLES:
        text = f"{value!r} {unit}"
        try:
            parse(text, unit)
            if before.replace({key: text}) == wanted:
                return text
        except InputError:
            continue
    if before.replace({key: str(value)}) == wanted:
        return str(value)
    raise _NoOption


# ------------------------------------------------------------------------------------------- what has moved since


SAID = {
    "fits": ("fits", ""), "devices": ("devices", "1"), "memory_used": ("memory", "byte"), "memory_capacity": ("capacity", "byte"),
    "ttft": ("TTFT", "s"), "tpot": ("TPOT", "s"), "e2e": ("end to end", "s"), "output_throughput": ("throughput", "token/s"),
    "cost": ("cost", "USD"), "energy_per_token": ("energy", "J"),
}  # fmt: skip
"""Figures of a digest that are watched, in words, with their units."""
SAME = 5e-4
"""A relative change below this is none."""


def moved(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs between the figures a scenario was saved with and those of today."""
    from rooflab.units import format as written

    found = []
    for key, (name, unit) in SAID.items():
        if key not in before or before[key] is None:
            continue
        was, new = before[key], now.get(key)
        if isinstance(was, bool) or not isinstance(was, (int, float)) or not math.isfinite(was):
            if isinstance(was, bool) and isinstance(new, bool) and was != new:
                found.append("it fitted, and does not" if was else "it did not fit, and does")
            continue
        if new is None:
            found.append(f"{name} was {written(float(was), unit)}, and is not given")
        elif abs(new - was) > SAME * max(abs(new), abs(was)):
            found.append(f"{name} was {written(float(was), unit)}, is {written(float(new), unit)}")
    return found
