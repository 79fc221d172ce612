"""The one door: `answer(ask) -> report`, plain JSON both ways, for CLI, server, browser, notebook and saved files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from rooflab.api import (
    answers,
    asks,
    compare,
    compare_asks,
    design,
    design_asks,
    documents,
    shelves,
    simulate,
    simulate_asks,
    snapshots,
    why,
)
from rooflab.api.asks import CatalogAsk, ChipAsk, EstimateAsk, ExplainAsk, FitAsk, InspectAsk, StepAsk
from rooflab.units import InputError, nearest, shown

__all__ = ["Ask", "Report", "answer", "ask_of", "plain_report", "report_of", "schema"]

Ask = asks.Ask | design_asks.Asks | simulate_asks.Asks | compare_asks.Asks
Report = asks.Report | design_asks.Reports | simulate_asks.Reports | compare_asks.Reports
Progress = Callable[[int, int], None]
"""Told (done, total)."""

_ANSWERS: dict[type, Callable[..., Any]] = {
    InspectAsk: answers.inspect,
    EstimateAsk: answers.answer_estimate,
    StepAsk: answers.answer_step,
    ExplainAsk: why.answer_explain,
    FitAsk: answers.answer_fit,
    ChipAsk: answers.answer_chip,
    CatalogAsk: shelves.answer_catalog,
    **design.ANSWERS,
    **simulate.ANSWERS,
    **compare.ANSWERS,
    compare_asks.DocumentAsk: documents.answer_document,
    compare_asks.UnpackAsk: snapshots.answer_unpack,
    compare_asks.ShortenAsk: snapshots.answer_shorten,
    compare_asks.SnapshotAsk: snapshots.answer_snapshot,
}
_LONG = (design_asks.SweepAsk, design_asks.PlanAsk, design_asks.CodesignAsk, simulate_asks.SimulateAsk)
"""Questions whose answers say how far they are and can be stopped early; the report then holds what was done, if that says
anything."""
_TOO_LARGE = "the numbers are too large or too small to compute with; give batch, lengths and hardware within reason"
_KINDS: dict[str, type] = {kind.__struct_config__.tag: kind for kind in _ANSWERS}  # type: ignore[attr-defined]


def ask_of(data: Mapping[str, Any]) -> Ask:
    """A checked question from plain data.

    Raises InputError that names the field, shows the value and says what would be right.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"ask: {shown(data)} is not a question; ask with a table such as {{'kind': 'catalog'}}")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"kind: {shown(kind)} is not a question; ask one of {', '.join(_KINDS)}")
    fields = _KINDS[kind].__struct_fields__  # type: ignore[attr-defined]
    for name in data:
        if name != "kind" and name not in fields:
            field = shown(name).strip("'")
            raise InputError(f"{field}: a question of kind {kind!r} has no such field{nearest(str(name), fields)}")
    try:
        return msgspec.convert(dict(data), _KINDS[kind])
    except msgspec.ValidationError as problem:
        raise InputError(_sentence(str(problem), data, _KINDS[kind])) from None
    except (RecursionError, TypeError) as problem:
        raise InputError(f"ask: {type(problem).__name__}: not plain data that can be read") from None


_WORDS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "object": "a table"}
_WORDS |= {"array": "a list", "null": "nothing"}
_LIMITS = {" of length >= 1": " that is not empty", " >= ": " of at least ", " <= ": " of at most ", " > ": " above "}


def _sentence(message: str, data: Mapping[str, Any], kind: type) -> str:
    """A validation message in our words: the field first, what would be right, and the value it has."""
    text, _, path = message.partition(" - at `$")
    field = path.rstrip("`").lstrip(".") or "ask"
    name = field.split(".")[0].split("[")[0]
    value = f" (it is {shown(data[name])})" if name in data else ""
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return f"{missing[1]}: is missing; a question of kind {data['kind']!r} needs it"
    choices = _choices(get_type_hints(kind).get(name))
    if choices and text.startswith("Invalid enum value "):
        word = text.removeprefix("Invalid enum value ").strip("'")
        return f"{field}: {shown(word)} is not one of {', '.join(choices)}{nearest(word, choices)}"
    for theirs, ours in _LIMITS.items():
        text = text.replace(theirs, ours)
    text = re.sub(r"`([a-z |]+)`", lambda kinds: " or ".join(_WORDS.get(k, k) for k in kinds[1].split(" | ")), text)
    return f"{shown(field)[1:-1]}: {text[:1].lower()}{text[1:]}{value}"


def _choices(annotation: Any) -> tuple[str, ...]:
    """The words a field may hold, none where it is not a choice."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for part in get_args(annotation) if (found := _choices(part))), ())


def report_of(ask: Ask, *, progress: Progress | None = None, cancel: Callable[[], bool] | None = None) -> Report:
    """The report of a checked question; for `progress` and `cancel` see `answer`.

    Raises InputError for whatever cannot be answered, in one line.
    """
    more = {"progress": progress, "cancel": cancel} if type(ask) in _LONG else {}
    try:
        return _ANSWERS[type(ask)](ask, **more)
    except (OverflowError, ZeroDivisionError):
        raise InputError(_TOO_LARGE) from None


def answer(
    data: Mapping[str, Any], *, progress: Progress | None = None, cancel: Callable[[], bool] | None = None
) -> dict[str, Any]:
    """A question as plain data in, its report as plain data out: SI units, JSON-ready, never NaN.

    Questions that may take long (kinds simulate, sweep, plan and codesign) tell `progress` (done, total) now and then, and end
    early once `cancel` says so, with what is done by then; the others pay no heed to either.
    Raises InputError for bad input, and where `cancel` came before there was anything to report.
    """
    try:
        return plain_report(report_of(ask_of(data), progress=progress, cancel=cancel))
    except RecursionError:
        raise InputError("ask: is nested too deeply; give the content of one config.json and one machine") from None


def plain_report(report: Report) -> dict[str, Any]:
    """A report as plain data, ready for JSON."""
    return _plain(msgspec.to_builtins(report, str_keys=True))


def _plain(value: Any) -> Any:
    """The same with lists for tuples; refuses what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(_TOO_LARGE)
    return value


def schema() -> dict[str, Any]:
    """JSON Schema of questions and reports, with each quantity's unit under `x-unit`."""
    (ask, report), definitions = msgspec.json.schema_components((Ask, Report))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "RoofLab",
        "properties": {"ask": ask, "report": report},
        "$defs": _plain(definitions),
    }
