"""`rooflab simulate`: an engine under traffic, with a progress bar, cancel, and tables of every request and every event."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rooflab.api.simulate_asks import SimulateAsk
from rooflab.cli import options, streams
from rooflab.units import InputError, parse_count, shown

APART = frozenset({"arrivals", "trace_text", "timeline", "request", "columns", "saturated", "chunked", "ahead",
                   "requests_table", "steps_table", "prompt", "output"})  # fmt: skip
"""Fields that are not options as they stand: inline data and what charts need, switches that are on by default, lengths that
may be a distribution."""
TABLES = (".csv", ".parquet")
_Length = "Tokens of each {what}: 1024, 1k, or a distribution such as lognormal:1024:0.5 or uniform:100:2000."
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
    "json": Annotated[bool, typer.Option("--json", help="The report as JSON, in SI units.", rich_help_panel="Output")],
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


def _bar() -> tuple[Callable[[int, int], None] | None, Callable[[], None]]:
    """A live bar where a person is watching."""
    if not sys.stderr.isatty():
        return None, lambda: None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("requests"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("requests")
    bar.start()
    return lambda done, total: bar.update(task, completed=done, total=total), bar.stop


def _check_table(path: str | None, option: str) -> None:
    if path is not None and Path(path).suffix not in TABLES:
        raise InputError(f"{option}: {shown(path)} must end in {' or '.join(TABLES)}")


def _write(columns: dict[str, list[Any]] | None, path: str | None, option: str) -> None:
    """A table of columns to a file."""
    if path is None or columns is None:
        return
    try:
        if path.endswith(".parquet"):
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table(columns), path)
            return
        import csv

        with Path(path).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    except ModuleNotFoundError:
        raise InputError(
            f"{option}: pyarrow is not installed; pip install 'rooflab[data]' brings it, or write .csv"
        ) from None
    except OSError as problem:
        raise InputError(f"{option}: {shown(path)} cannot be written: {problem.strerror or problem}") from None


def _run(given: dict[str, Any]) -> None:
    """Play the traffic, show or print the report, write the tables."""
    as_json, out, steps_out = given.pop("json"), given.pop("out"), given.pop("steps_out")
    _check_table(out, "--out")
    _check_table(steps_out, "--steps-out")
    question = {**_question(given), "requests_table": out is not None, "steps_table": steps_out is not None}
    from rooflab.api import ask_of, plain_report
    from rooflab.api.simulate import answer_simulate

    progress, done = _bar()
    try:
        report = plain_report(answer_simulate(ask_of(question), progress=progress))  # pyright: ignore[reportArgumentType]
    finally:
        done()
    _write(report.pop("requests_table", None), out, "--out")
    _write(report.pop("steps_table", None), steps_out, "--steps-out")
    if as_json:
        from rooflab.cli.commands import print_json

        return print_json(report)
    from rooflab.cli import terminal
    from rooflab.show import page

    streams.write(terminal.text(page(report), terminal.console()))


def simulate() -> Callable[..., None]:
    """The command, its options made from the question."""

    def body(**given: Any) -> None:
        _run(given)

    own = [each for each in options.parameters(SimulateAsk) if each.name not in APART]
    more = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if name in ("no_chunked", "no_ahead", "json") else None,
            annotation=annotation,
        )
        for name, annotation in _EXTRA.items()
    ]
    body.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    body.__annotations__ = {}
    return body
