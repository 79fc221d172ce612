"""Commands about many layouts and machines: `sweep`, `suggest`, `plan`, `sharded`, `codesign` and `rules`.

A field of their questions is an option, as everywhere (`options`); what is written here are the fields that a person types
another way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from rooflab.api.design_asks import CodesignAsk, PlanAsk, RulesAsk, ShardedAsk, SuggestAsk, SweepAsk
from rooflab.cli import options, pages, streams
from rooflab.cli.options import LAYOUT, MACHINE, STUDY, TRAFFIC, Flag
from rooflab.cli.watching import watched
from rooflab.units import InputError, parse, shown

WRITERS = {".csv": "to_csv", ".parquet": "to_parquet"}
DEGREES = ("tp", "pp", "cp", "dp", "ep", "attention_dp", "microbatches")
OUTPUT = "Output"
APART: dict[type[msgspec.Struct], frozenset[str]] = {
    SweepAsk: frozenset({"on", "also_on", "vary", "where", "pareto", "rows", "columns"}),
    PlanAsk: frozenset({"percentile"}),
    ShardedAsk: frozenset({"axes", "around", "rows", "columns"}),
    CodesignAsk: frozenset({"cost_weights", "refit"}),
}
"""Fields that are not options as they stand."""
SAID: dict[type[msgspec.Struct], dict[str, Flag]] = {
    PlanAsk: {
        "context": Flag("Tokens each user holds, prompt and answer."),
        "rate": Flag("Requests per second; else made of users and limits.", panel=TRAFFIC),
        "requests": Flag("Requests of each run.", panel=TRAFFIC),
        "link": Flag('Between prefill and decode, per replica: "50 GB/s".', "RATE", TRAFFIC),
    },
    ShardedAsk: {"reserve": Flag("Memory of a device that no layout may use: 10% or 2 GB.", "SIZE", MACHINE)},
}
"""Options that mean something else to one question."""


def _text(words: str, metavar: str, panel: str) -> Any:
    return Annotated[str | None, typer.Option(help=words, metavar=metavar, rich_help_panel=panel)]


def _several(words: str, metavar: str, panel: str) -> Any:
    return Annotated[list[str] | None, typer.Option(help=words, metavar=metavar, rich_help_panel=panel)]


_EVERY_ROW = _text("Write every row to a .csv or .parquet file.", "FILE", OUTPUT)
_SYSTEMS = typer.Option(help="A system; again to compare several.", metavar="SYSTEM", rich_help_panel=MACHINE)
_WORKERS = typer.Option(help="Processes on this machine.", min=0, max=4096, metavar="N", rich_help_panel=STUDY)
_REFIT = typer.Option(
    "--refit/--keep-layout", help="Whether doubling a part chooses the layout anew.", rich_help_panel=STUDY
)
EXTRA: dict[str, dict[str, tuple[Any, Any]]] = {
    "sweep": {
        "on": (inspect.Parameter.empty, Annotated[list[str], _SYSTEMS]),
        "vary": (
            None,
            _several(
                "A field and its values: tp=1,2,4,8, batch=1..512 (doubling), prompt=1k..8k+1k.", "FIELD=VALUES", STUDY
            ),
        ),
        "where": (None, _several('A condition: "ttft < 1 s". Again for more.', "CONDITION", STUDY)),
        "pareto": (None, _text("Objectives: max:interactivity,max:throughput_per_device,min:cost.", "LIST", STUDY)),
        "workers": (0, Annotated[int, _WORKERS]),
        "cluster": (None, _text("Address of a Dask scheduler.", "ADDRESS", STUDY)),
        "out": (None, _EVERY_ROW),
        "resume": (None, _text("A file that keeps finished chunks, so that a stopped run continues.", "FILE", OUTPUT)),
    },
    "suggest": {},
    "plan": {
        "percentile": (None, _text("Hold the limits at 50, 90, 95 or 99 % under simulated traffic.", "P", TRAFFIC))
    },
    "sharded": {
        "axis": (
            None,
            _several("Other values of an axis: cp=1,2,4 or ring=kv. Again for more.", "AXIS=VALUES", LAYOUT),
        ),
        "around": (
            None,
            _several("Vary one knob at a time around this layout: cp=8. Again for more.", "AXIS=VALUE", LAYOUT),
        ),
        "out": (None, _EVERY_ROW),
    },
    "codesign": {
        "weigh": (None, _several("Weight of a part in the cost: memory=2. Again for more.", "PART=WEIGHT", STUDY)),
        "refit": (True, Annotated[bool, _REFIT]),
    },
    "rules": {},
}
"""Options of a command beside those of its question: default and annotation."""


def command(name: str) -> Callable[..., None]:
    """A command, its options made from its question."""
    kind, run = COMMANDS[name]

    def body(**given: Any) -> None:
        show = pages.shower(given.pop("json"), given.pop("html"))
        own = {each: given.pop(each) for each in EXTRA[name]}
        run(options.ask(kind, given), own, show)

    apart = APART.get(kind, frozenset())
    asked = [each for each in options.parameters(kind, SAID.get(kind)) if each.name not in apart]
    more = {**EXTRA[name], "html": (None, pages.Html), "json": (False, pages.Json)}
    extra = [
        inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for each, (default, annotation) in more.items()
    ]
    body.__signature__ = inspect.Signature([*asked, *extra])  # type: ignore[attr-defined]
    body.__annotations__ = {}
    return body


def _checked(question: dict[str, Any], **fields: Any) -> Any:
    """The checked question; what was not given is left out."""
    from rooflab.api import ask_of

    return ask_of({**question, **{name: value for name, value in fields.items() if value not in (None, [], {})}})


def _pairs(texts: list[str]) -> dict[str, str]:
    """FIELD=VALUES of --vary."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise InputError(
                f"--vary: {shown(text)} is not FIELD=VALUES; for example --vary tp=1,2,4,8 --vary batch=1..512"
            )
        if name.strip() in found:
            raise InputError(f"--vary: {shown(name.strip())} is given twice; write its values in one, such as tp=1,2,4")
        found[name.strip()] = values.strip()
    return found


def _writer(out: str | None, resume: str | None = None) -> str | None:
    """The method that writes such a file, which is not the one that a stopped run continues from."""
    if out is None:
        return None
    if Path(out).suffix not in WRITERS:
        raise InputError(f"--out: {shown(out)} must end in {' or '.join(WRITERS)}")
    streams.writable(out, "--out")
    if resume and Path(out).absolute() == Path(resume).absolute():
        raise InputError(f"--resume: {shown(resume)} is given as --out already; name another file")
    return WRITERS[Path(out).suffix]


def _write(writer: Callable[[str], Any], out: str) -> None:
    """Every row to a file."""
    try:
        writer(out)
    except OSError as problem:
        raise InputError(f"--out: {shown(out)} cannot be written: {problem.strerror or problem}") from None


def _sweep(question: dict[str, Any], own: dict[str, Any], show: Callable[[Any], None]) -> None:
    from rooflab.api.design import space_of, sweep_report
    from rooflab.sweep import run

    writer, pareto, on = _writer(own["out"], own["resume"]), own["pareto"], own["on"]
    ask = _checked(
        question, on=on[0], also_on=on[1:], vary=_pairs(own["vary"] or []), where=own["where"],
        pareto=None if pareto is None else [item.strip() for item in pareto.split(",")],
    )  # fmt: skip
    _once(ask)
    asked, notes = space_of(ask)
    with watched("points") as seen:
        frame = run(
            asked, progress=seen.progress, cancel=seen.cancel, workers=own["workers"], cluster=own["cluster"],
            journal=own["resume"],
        )  # fmt: skip
        report = sweep_report(ask, asked, frame, notes)
    if own["out"] and writer:
        _write(getattr(frame, writer), own["out"])
    show(report)
    seen.end()


def _once(ask: SweepAsk) -> None:
    """What is varied is not also said once: one of the two would count for nothing."""
    plain = {name: getattr(ask, name) for name in (*DEGREES, "batch", "prompt", "output", "weights", "kv")}
    fields = {field.name: field.default for field in msgspec.structs.fields(SweepAsk)}
    given = [name for name, value in plain.items() if value != fields[name]]
    if name := next((each for each in given if each in ask.vary), None):
        raise InputError(f"--{_dashed(name)}: --vary {name}={ask.vary[name]} gives its values; leave one of them out")
    if ask.layouts is None:
        return
    if name := next((each for each in given if each in DEGREES), None):
        raise InputError(f"--{_dashed(name)}: --layouts {ask.layouts} tries every degree; leave one of them out")
    if "batch" in given:
        raise InputError(f"--batch: --layouts tries batch 1 to 512; for this one alone give --vary batch={ask.batch}")


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _answered(question: dict[str, Any], own: dict[str, Any], show: Callable[[Any], None]) -> None:
    from rooflab.api import report_of

    show(report_of(_checked(question)))


def _plan(question: dict[str, Any], own: dict[str, Any], show: Callable[[Any], None]) -> None:
    from rooflab.api.design import answer_plan

    percentile = own["percentile"]
    ask = _checked(question, percentile=None if percentile is None else f"p{percentile.strip().removeprefix('p')}")
    with watched("runs") as seen:
        report = answer_plan(ask, progress=seen.progress, cancel=seen.cancel)
    show(report)
    seen.end()


def _values(name: str, text: str) -> list[Any]:
    """Values of an axis: whole numbers where they read as one, names otherwise."""
    from rooflab.api.spans import values_of

    return list(values_of(name, text))


def _axes(texts: list[str] | None, option: str) -> dict[str, list[Any]]:
    """AXIS=VALUES: degrees and names."""
    return {name: _values(name, values) for name, values in _named(texts or [], option, "cp=1,2,4").items()}


def _only(name: str, values: list[Any]) -> Any:
    """The one value of an axis that others are varied around."""
    if len(values) != 1:
        raise InputError(
            f"--around: {name} has {len(values)} values; give one, for example --around {name}={values[0]}"
        )
    return values[0]


def _named(texts: list[str], option: str, example: str) -> dict[str, str]:
    """NAME=VALUE of an option that may be given again."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"{option}: {shown(text)} is not NAME=VALUE; for example {option} {example}")
        if name.strip() in found:
            raise InputError(
                f"{option}: {shown(name.strip())} is given twice; give it once, for example {option} {example}"
            )
        found[name.strip()] = value.strip()
    return found


def _sharded(question: dict[str, Any], own: dict[str, Any], show: Callable[[Any], None]) -> None:
    from rooflab.api.design import sharded_report, study_of
    from rooflab.sweep.layouts import sweep_layouts

    writer = _writer(own["out"])
    chosen = {name: _only(name, values) for name, values in _axes(own["around"], "--around").items()}
    ask = _checked(question, axes=_axes(own["axis"], "--axis"), around=chosen, rows="pareto")
    asked, notes = study_of(ask)
    frame = sweep_layouts(asked, ask.axes)
    report = sharded_report(ask, asked, frame, notes)
    if own["out"] and writer:
        _write(getattr(frame, writer), own["out"])
    show(report)


def _codesign(question: dict[str, Any], own: dict[str, Any], show: Callable[[Any], None]) -> None:
    from rooflab.api.codesign import answer_codesign

    weighed = _named(own["weigh"] or [], "--weigh", "memory=2")
    costs = {name: parse(value, "1", f"--weigh {name}") for name, value in weighed.items()}
    ask = msgspec.structs.replace(_checked(question, cost_weights=costs), refit=own["refit"])
    with watched("machines") as seen:
        report = answer_codesign(ask, progress=seen.progress, cancel=seen.cancel)
    show(report)


COMMANDS: dict[str, tuple[type[msgspec.Struct], Callable[..., None]]] = {
    "sweep": (SweepAsk, _sweep),
    "suggest": (SuggestAsk, _answered),
    "plan": (PlanAsk, _plan),
    "sharded": (ShardedAsk, _sharded),
    "codesign": (CodesignAsk, _codesign),
    "rules": (RulesAsk, _answered),
}
"""Command -> its question, and what answers it."""
