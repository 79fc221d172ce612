"""`rooflab simulate`: an engine under traffic, with a progress bar, cancel, and tables of every request and every event."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooflab.api.simulate_asks import SimulateAsk
from rooflab.cli import options, pages, streams
from rooflab.cli.watching import watched
from rooflab.units import InputError, parse_count, shown

if TYPE_CHECKING:
    from rooflab.sim.run import Run

APART = frozenset({"arrivals", "trace_text", "timeline", "request", "columns", "saturated", "chunked", "ahead",
                   "requests_table", "steps_table", "prompt", "output"})  # fmt: skip
"""Fields that are not options as they stand: inline data and what charts need, switches that are on by default, lengths that
may be a distribution."""
TABLES = (".csv", ".parquet")
NEEDS = (
    ("link", ("disaggregate", "find"), "--disaggregate 1:3"),
    ("speed", ("trace",), "--trace requests.csv"),
    ("acceptance", ("draft_tokens",), "--draft-tokens 3"),
    ("replications", ("loads",), "--loads 4,8,16"),
)
"""Options, what each belongs to, and an example of that."""
PIECE = 1 << 16
"""Rows that are written at once."""
STUDY = options.STUDY
_Length = "Tokens of each {what}: 1024, 1k, or a distribution such as lognormal:1024:0.5 or uniform:128:2000."
_EXTRA: dict[str, Any] = {
    "prompt": Annotated[str | None, typer.Option(help=_Length.format(what="prompt"), metavar="N|DIST")],
    "output": Annotated[str | None, typer.Option(help=_Length.format(what="answer"), metavar="N|DIST")],
    "no_chunked": Annotated[bool, typer.Option("--no-chunked", help="Prompts are computed whole.")],
    "no_ahead": Annotated[bool, typer.Option("--no-ahead", help="Iterations are decided one after another.")],
    "out": Annotated[
        str | None,
        typer.Option(help="Write every request to this .csv or .parquet.", metavar="FILE", rich_help_panel="Output"),
    ],
    "steps_out": Annotated[
        str | None,
        typer.Option(help="Write every event of the engine to it.", metavar="FILE", rich_help_panel="Output"),
    ],
    "workers": Annotated[
        int,
        typer.Option(
            help="Processes that play the loads of a curve.", min=0, max=4096, metavar="N", rich_help_panel=STUDY
        ),
    ],
    "cluster": Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler that plays them.", metavar="ADDRESS", rich_help_panel=STUDY),
    ],
    "html": pages.Html,
    "json": pages.Json,
}


def _length(text: str, option: str) -> int | str:
    """A number of tokens, or the text of a distribution."""
    first = text.strip()[:1]
    return parse_count(text, option, dimension="token") if first.isdigit() or first == "-" else text


def _question(given: dict[str, Any]) -> dict[str, Any]:
    """The question that the options amount to."""
    lengths = {name: given.pop(name) for name in ("prompt", "output")}
    switches = {name: given.pop(f"no_{name}") for name in ("chunked", "ahead")}
    question = options.ask(SimulateAsk, given)
    question.update({name: _length(text, f"--{name}") for name, text in lengths.items() if text is not None})
    question.update({name: False for name, off in switches.items() if off})
    return question


def _counted(question: dict[str, Any]) -> str:
    """What a bar counts."""
    if "loads" not in question:
        return "requests"
    return "" if "find" in question or "policies" in question else "runs"


def _check_table(path: str | None, option: str) -> None:
    if path is not None:
        if Path(path).suffix not in TABLES:
            raise InputError(f"{option}: {shown(path)} must end in {' or '.join(TABLES)}")
        streams.writable(path, option)


def _apart(files: dict[str, str | None]) -> None:
    """No table takes the place of another, or of the trace it is made from."""
    met: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        other = met.setdefault(Path(path).absolute(), option)
        if other != option:
            raise InputError(f"{option}: {shown(path)} is given as {other} already; name another file")


def _check_met(question: dict[str, Any]) -> None:
    """An option without the one that it belongs to would do nothing, and looks as if it did."""
    for option, needed, example in NEEDS:
        if option in question and not any(each in question for each in needed):
            said = " or ".join(f"--{each.replace('_', '-')}" for each in needed)
            raise InputError(f"--{option}: counts only with {said}; for example {example}")
    for length in ("prompt", "output"):
        if length in question and "trace" in question:
            raise InputError(f"--{length}: the trace gives every request's lengths; leave --{length} or --trace out")


def _write(columns: dict[str, Any], path: str, option: str) -> None:
    """A table of columns, lists or arrays, to a file."""
    try:
        if path.endswith(".parquet"):
            import pyarrow
            import pyarrow.parquet

            whole = {name: pyarrow.array(column, from_pandas=True) for name, column in columns.items()}
            pyarrow.parquet.write_table(pyarrow.table(whole), path)
            return
        import csv

        from rooflab.api.played import plain

        with Path(path).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            count = len(next(iter(columns.values())))
            for first in range(0, count, PIECE):
                pieces = (column[first : first + PIECE] for column in columns.values())
                writer.writerows(zip(*(map(plain, piece) for piece in pieces), strict=True))
    except ModuleNotFoundError:
        raise InputError(
            f"{option}: pyarrow is not installed; pip install 'rooflab[data]' brings it, or write .csv"
        ) from None
    except OSError as problem:
        raise InputError(f"{option}: {shown(path)} cannot be written: {problem.strerror or problem}") from None


def _run(given: dict[str, Any]) -> None:
    """Play the traffic, show or print the report, write the tables."""
    html, out, steps_out = given.pop("html"), given.pop("out"), given.pop("steps_out")
    show = pages.shower(given.pop("json"), html)
    _check_table(out, "--out")
    _check_table(steps_out, "--steps-out")
    spread = {name: value for name in ("workers", "cluster") if (value := given.pop(name)) not in (0, None)}
    question = _question(given)
    _apart({"--trace": question.get("trace"), "--out": out, "--steps-out": steps_out, "--html": html})
    _check_met(question)
    for option, value in (("--out", out), ("--steps-out", steps_out)):
        if value is not None and "loads" in question:
            raise InputError(f"{option}: a curve has no one run to write; leave --loads out")
    if spread and "loads" not in question:
        raise InputError(f"--{next(iter(spread))}: spreads the loads of a curve; give --loads, for example '4,8,16'")
    from rooflab.api import ask_of, plain_report
    from rooflab.api.simulate import answer_simulate
    from rooflab.show.sheet import SPANS

    def keep(run: Run) -> None:
        if out is not None:
            _write(run.columns(), out, "--out")
        if steps_out is not None:
            _write(run.steps(), steps_out, "--steps-out")

    if html is not None and "loads" not in question:
        question["timeline"] = SPANS
    ask: Any = ask_of(question)
    with watched(_counted(question)) as seen:
        report = plain_report(
            answer_simulate(ask, progress=seen.progress, cancel=seen.cancel, spread=spread, keep=keep)
        )
    for name in ("requests_table", "steps_table"):  # they go to files
        report.pop(name)
    show(report)
    seen.end()


def simulate() -> Callable[..., None]:
    """The command, its options made from the question."""

    def body(**given: Any) -> None:
        _run(given)

    own = [each for each in options.parameters(SimulateAsk) if each.name not in APART]
    more = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if name in ("no_chunked", "no_ahead", "json") else 0 if name == "workers" else None,
            annotation=annotation,
        )
        for name, annotation in _EXTRA.items()
    ]
    body.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    body.__annotations__ = {}
    return body
