"""Commands about many layouts and machines: `sweep`, `suggest` and `plan`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rooflab.cli import streams
from rooflab.units import InputError, parse_count, shown

Json = Annotated[bool, typer.Option("--json", help="The report as JSON, in SI units.", rich_help_panel="Output")]
Model = Annotated[str, typer.Argument(help="A catalog name, a config.json or a Hugging Face id.", metavar="MODEL")]
Batch = Annotated[str | None, typer.Option(help="Sequences at once in a replica.", metavar="N")]
Prompt = Annotated[str | None, typer.Option(help="Tokens of each prompt: 1024, 128k, 128Ki.", metavar="N")]
Output = Annotated[str | None, typer.Option(help="Tokens of each answer.", metavar="N")]
Users = Annotated[str | None, typer.Option(help="Users at once.", metavar="N")]
Context = Annotated[str | None, typer.Option(help="Tokens each user holds, prompt and answer.", metavar="N")]
Count = Annotated[str | None, typer.Option(help="Layouts to show.", metavar="N")]
Largest = Annotated[str | None, typer.Option(help="Devices of one replica at most.", metavar="N")]
On = Annotated[str, typer.Option(help='A system or device: h100-sxm, "8x h100-sxm", or a TOML file.', metavar="SYSTEM")]
Weights = Annotated[str | None, typer.Option(help="Format of the weights; else the checkpoint's.", metavar="FORMAT")]
Cache = Annotated[
    str | None, typer.Option("--kv", help="Format of the cache; else the checkpoint's.", metavar="FORMAT")
]
Prices = Annotated[
    Literal["roofline", "fitted"] | None, typer.Option(help="What prices operators.", rich_help_panel="Pricing")
]
Workers = Annotated[int, typer.Option(help="Processes on this machine.", min=0, max=4096, metavar="N")]
WRITERS = {".csv": "to_csv", ".parquet": "to_parquet"}


def _counts(given: dict[str, str | None]) -> dict[str, int]:
    """Counts from text with prefixes; those not given are left to the question."""
    tokens = ("prompt", "output", "context")
    return {
        name: parse_count(text, f"--{name}", dimension="token" if name in tokens else "1", least=1, most=2**31)
        for name, text in given.items()
        if text is not None
    }


def _asked(kind: str, **fields: Any) -> Any:
    """The checked question; what was not given is left out."""
    from rooflab.api import ask_of

    return ask_of({"kind": kind, **{name: value for name, value in fields.items() if value not in (None, [], {})}})


def _show(report: Any, as_json: bool) -> None:
    from rooflab.api import plain_report
    from rooflab.cli import terminal
    from rooflab.cli.commands import print_json
    from rooflab.show import page

    data = plain_report(report)
    if as_json:
        return print_json(data)
    streams.write(terminal.text(page(data), terminal.console()))


def _pairs(texts: list[str]) -> dict[str, str]:
    """FIELD=VALUES of --vary."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise InputError(
                f"--vary: {shown(text)} is not FIELD=VALUES; for example --vary tp=1,2,4,8 --vary batch=1..512"
            )
        found[name.strip()] = values.strip()
    return found


def _progress() -> tuple[Callable[[int, int], None] | None, Callable[[], None]]:
    """(what to call with points done and in all, what to call at the end): a live bar where a person is watching."""
    if not sys.stderr.isatty():
        return None, lambda: None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    bar = Progress(
        BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
    )
    task = bar.add_task("points")
    bar.start()
    return lambda done, total: bar.update(task, completed=done, total=total), bar.stop


def _writer(out: str | None) -> str | None:
    """The method that writes such a file."""
    if out and Path(out).suffix not in WRITERS:
        raise InputError(f"--out: {shown(out)} must end in {' or '.join(WRITERS)}")
    return WRITERS[Path(out).suffix] if out else None


def _write(writer: Callable[[str], Any], out: str) -> None:
    """Every row to a file."""
    try:
        writer(out)
    except OSError as problem:
        raise InputError(f"--out: {shown(out)} cannot be written: {problem.strerror or problem}") from None


def sweep(
    model: Model,
    on: Annotated[list[str], typer.Option(help="A system; again to compare several.", metavar="SYSTEM")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="A field and its values: tp=1,2,4,8, batch=1..512 (doubling), prompt=1k..8k+1k.",
            metavar="FIELD=VALUES",
        ),
    ] = None,
    layouts: Annotated[
        str | None,
        typer.Option(help="Every serving layout of at most this many devices, at batch 1 to 512.", metavar="N"),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help='A condition: "ttft < 1 s". Again for more.', metavar="CONDITION")
    ] = None,
    pareto: Annotated[
        str | None,
        typer.Option(help="Objectives: max:interactivity,max:throughput_per_device,min:cost.", metavar="LIST"),
    ] = None,
    batch: Batch = None,
    prompt: Prompt = None,
    output: Output = None,
    weights: Weights = None,
    kv: Cache = None,
    profile: Annotated[str | None, typer.Option(help="How work is counted and priced.", metavar="NAME")] = None,
    prices: Prices = None,
    out: Annotated[
        str | None,
        typer.Option(help="Write every row to a .csv or .parquet file.", metavar="FILE", rich_help_panel="Output"),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="A file that keeps finished chunks, so that a stopped run continues.", metavar="FILE"),
    ] = None,
    workers: Workers = 0,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.", metavar="ADDRESS")] = None,
    json: Json = False,
) -> None:
    """Every combination of some fields' values."""
    from rooflab.api.design import space_of, sweep_report
    from rooflab.sweep import run

    writer = _writer(out)
    ask = _asked(
        "sweep", model=model, on=on[0], also_on=on[1:], vary=_pairs(vary or []), where=where, weights=weights, kv=kv,
        profile=profile, prices=prices, pareto=[item.strip() for item in pareto.split(",")] if pareto else None,
        **_counts({"layouts": layouts, "batch": batch, "prompt": prompt, "output": output}),
    )  # fmt: skip
    asked, notes = space_of(ask)
    progress, stop = _progress()
    try:
        frame = run(asked, progress=progress, workers=workers, cluster=cluster, journal=resume)
    finally:
        stop()
    if out and writer:
        _write(getattr(frame, writer), out)
    _show(sweep_report(ask, asked, frame, notes), json)


def suggest(
    model: Model,
    on: On,
    users: Users = None,
    prompt: Prompt = None,
    output: Output = None,
    ttft: Annotated[
        str | None, typer.Option(help="Limit on the time to the first token: 300ms.", metavar="TIME")
    ] = None,
    tpot: Annotated[str | None, typer.Option(help="Limit on the time per token: 30ms.", metavar="TIME")] = None,
    goal: Annotated[
        Literal["cost", "latency", "devices"] | None,
        typer.Option(help="What layouts that meet the limits are ranked by."),
    ] = None,
    count: Count = None,
    weights: Weights = None,
    kv: Cache = None,
    prices: Prices = None,
    json: Json = False,
) -> None:
    """Layouts to serve users with, and the command that starts each."""
    from rooflab.api import report_of

    ask = _asked(
        "suggest", model=model, on=on, ttft=ttft, tpot=tpot, goal=goal, weights=weights, kv=kv, prices=prices,
        **_counts({"users": users, "prompt": prompt, "output": output, "count": count}),
    )  # fmt: skip
    _show(report_of(ask), json)


def plan(
    model: Model,
    on: On,
    users: Users = None,
    context: Context = None,
    output: Output = None,
    tpot: Annotated[str | None, typer.Option(help="Limit on the time per token: 30ms.", metavar="TIME")] = None,
    ttft: Annotated[str | None, typer.Option(help="Limit on the time to the first token: 1s.", metavar="TIME")] = None,
    largest: Largest = None,
    weights: Weights = None,
    kv: Cache = None,
    prices: Prices = None,
    json: Json = False,
) -> None:
    """How many devices a service needs."""
    from rooflab.api import report_of

    ask = _asked(
        "plan", model=model, on=on, ttft=ttft, tpot=tpot, weights=weights, kv=kv, prices=prices,
        **_counts({"users": users, "context": context, "output": output, "largest": largest}),
    )  # fmt: skip
    _show(report_of(ask), json)
