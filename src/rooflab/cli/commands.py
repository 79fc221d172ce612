"""The commands: one for each kind of question, and a few around them. Each question's command is made from its ask."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from typer.main import get_command

from rooflab.api.asks import CatalogAsk, ChipAsk, EstimateAsk, ExplainAsk, FitAsk, InspectAsk, StepAsk
from rooflab.cli import options, pages, streams
from rooflab.units import InputError, shown

EXAMPLE_WIDTH = 72
LARGEST_ASK = 20_000_000
"""Characters above which a file is no question."""


class Command(msgspec.Struct, frozen=True):
    """A command of the help: its question, what it does, and examples that tests run."""

    kind: type[msgspec.Struct] | None
    text: str
    examples: tuple[str, ...]


COMMANDS: dict[str, Command] = {
    "estimate": Command(
        EstimateAsk,
        "Does it fit, how fast is it, and what does it cost?",
        (
            "rooflab estimate llama-3.1-8b --on h100-sxm --batch 32 --prompt 1024 --output 256",
            "rooflab estimate deepseek-v3 --on hgx-h200 --tp 8 --batch 64 --prompt 4k --output 1k",
            'rooflab estimate llama-3.1-70b --on "4x h100-sxm" --tp 4 --weights fp8 --kv fp8 --json',
            'rooflab estimate qwen3-32b --on h100-sxm --set "memory_bandwidth=4.8 TB/s" --switch memory_efficiency=0.7',
        ),
    ),
    "step": Command(
        StepAsk,
        "One forward pass, operator by operator, slowest first.",
        (
            "rooflab step llama-3.1-8b --on h100-sxm --batch 32 --context 1024",
            "rooflab step llama-3.1-8b --on h100-sxm --phase prefill --context 8k",
            "rooflab step mixtral-8x7b --on dgx-h100 --tp 4 --phase mixed --batch 64 --prefill-batch 2 --prefill-tokens 1024",
        ),
    ),
    "explain": Command(
        ExplainAsk,
        "Why this number? Its formula, the same with your numbers in it, and where it comes from.",
        (
            "rooflab explain llama-3.1-8b --on h100-sxm --op ttft --prompt 1024",
            "rooflab explain llama-3.1-8b --on h100-sxm --op qkv --batch 32",
            "rooflab explain deepseek-v3 --on hgx-h200 --tp 8 --op kv --prompt 128k",
        ),
    ),
    "fit": Command(
        FitAsk,
        "Does it fit, what is too large, and what is the least that would help?",
        (
            "rooflab fit llama-3.1-70b --on h100-sxm",
            "rooflab fit qwen3-235b-a22b --on dgx-h100 --tp 8 --batch 16 --prompt 32k",
        ),
    ),
    "chip": Command(
        ChipAsk,
        "The chip's own roofline: critical batch, balance context, regimes, memory.",
        (
            "rooflab chip llama-3.1-8b --on h100-sxm --batch 64 --context 8k",
            "rooflab chip deepseek-v3 --on h200-sxm --bandwidth-multiplier 2",
        ),
    ),
    "inspect": Command(
        InspectAsk,
        "What a model is: parameters, cache, bytes, layers.",
        (
            "rooflab inspect deepseek-v3",
            "rooflab inspect gemma-3-27b --context 128k --kv fp8",
        ),
    ),
    "catalog": Command(
        CatalogAsk,
        "What RoofLab knows: models, systems, devices, links, number formats, profiles.",
        ("rooflab catalog models", "rooflab catalog systems", "rooflab catalog devices --json"),
    ),
    "ask": Command(
        None,
        "Answer a question from a JSON file, or from standard input (-). A saved report is asked again.",
        ("rooflab estimate llama-3.1-8b --on h100-sxm --json | rooflab ask -",),
    ),
    "schema": Command(
        None, "JSON Schema of every question and report, with units.", ("rooflab schema",)
    ),
    "simulate": Command(
        None,
        "An engine under traffic: percentiles, throughput, occupancy, cost; curves, policies, limits.",
        (
            "rooflab simulate llama-3.1-8b --on h100-sxm --rate 10 --requests 300 --prompt 1024 --output 256",
            'rooflab simulate llama-3.1-8b --on h100-sxm --loads "5,10,20" --requests 200 --replications 2',
            'rooflab simulate llama-3.1-8b --on h100-sxm --find load --slo "ttft=500ms,tpot=20ms" --requests 200',
        ),
    ),
    "measure": Command(
        None,
        "Time kernels and model steps on this machine's GPU, in tables that calibrate and validate read.",
        ("rooflab measure --dry-run", "rooflab measure --dry-run --quick --model qwen2.5-0.5b --on t4"),
    ),
    "validate": Command(
        None,
        "How far predictions are from measurements: kernels, engine runs, serving runs.",
        ("rooflab validate", "rooflab validate --data data/endtoend --json"),
    ),
    "calibrate": Command(
        None,
        "Fit a device's few parameters to measured kernels, a quarter of them held out.",
        ("rooflab calibrate --data data/operators/mamba2.parquet --on b200-sxm",),
    ),
    "sweep": Command(
        None,
        "Every combination of some fields' values: what runs, the frontier, and all rows in a file.",
        (
            "rooflab sweep llama-3.1-70b --on \"8x h100-sxm\" --vary tp=1,2,4,8 --vary batch=1..512 --where \"ttft < 10 s\"",
            "rooflab sweep deepseek-v3 --on hgx-h200 --on dgx-b200 --layouts 16 --out layouts.csv",
        ),
    ),
    "suggest": Command(
        None,
        "Layouts to serve users with, best first, and the command that starts each.",
        ("rooflab suggest llama-3.1-70b --on \"8x h100-sxm\" --users 64 --prompt 2k --output 256 --ttft 500ms --tpot 30ms",),
    ),
    "plan": Command(
        None,
        "How many devices a service needs, what binds, and what it costs.",
        (
            "rooflab plan llama-3.1-70b --on dgx-h100 --users 1000 --context 8k --tpot 40ms",
            "rooflab plan llama-3.1-8b --on h100-sxm --users 200 --context 2k --ttft 500ms --tpot 20ms --percentile 95",
        ),
    ),
    "save": Command(
        None,
        "Keep a scenario under a name: the options of estimate. The served page shows it, too.",
        ("rooflab save 'FP8 weights' llama-3.1-70b --on \"4x h100-sxm\" --tp 4 --batch 128 --weights fp8",),
    ),
    "compare": Command(
        None,
        "Scenarios side by side, number by number: saved ones, estimates in quotes, or one under several profiles.",
        (
            'rooflab compare "llama-3.1-8b --on h100-sxm" "llama-3.1-8b --on h200-sxm" --only-differences',
            'rooflab compare "llama-3.1-8b --on h100-sxm --batch 32" --profiles operator,envelope',
        ),
    ),
    "saved": Command(
        None,
        "Saved scenarios: list, show, rename, delete, export to a file, import from one.",
        ("rooflab saved", "rooflab saved export -"),
    ),
    "sharded": Command(
        None,
        "Every cut of a model over a machine with levels, such as PEs in cubes in SIPs: 27,648 layouts, one step each.",
        (
            "rooflab sharded qwen3-8b --context 128Ki",
            "rooflab sharded llama-3.1-70b --context 128Ki --scope attention --axis tp=4,8,16 --around tp=8 --around cp=4",
            "rooflab sharded qwen3-8b --context 1Mi --out layouts.csv",
        ),
    ),
    "codesign": Command(
        None,
        "Machines and layouts chosen together: time of a step against a cost, and what doubling each part buys.",
        (
            "rooflab codesign qwen3-8b --context 128Ki",
            "rooflab codesign qwen3-8b --context 128Ki --depth coarse --weigh memory=2 --keep-layout",
        ),
    ),
    "rules": Command(
        None,
        "Rules of thumb on a scenario, with its numbers: what holds, what does not, and what would help.",
        ("rooflab rules llama-3.1-70b --on dgx-h100 --tp 8 --batch 64 --prompt 4k --tpot 30ms",),
    ),
    "serve": Command(
        None,
        "The page, served on this machine alone and opened in the browser.",
        ("rooflab serve", "rooflab serve --port 8000 --no-browser"),
    ),
    "site": Command(
        None,
        "The page as a folder for any plain web server; the engine runs in the reader's browser.",
        ("rooflab site public",),
    ),
}  # fmt: skip
_SHELVES = {
    "One scenario": ("estimate", "step", "explain", "fit", "chip", "inspect", "rules"),
    "Load, layouts and machines": ("simulate", "plan", "suggest", "sweep", "sharded", "codesign"),
    "Kept and compared": ("save", "saved", "compare"),
    "Measurements": ("validate", "measure", "calibrate"),
    "In the browser": ("serve", "site"),
    "Catalog and JSON": ("catalog", "ask", "schema"),
}
PANELS = {name: panel for panel, names in _SHELVES.items() for name in names}
"""Command -> the panel of the help it stands in."""
HELP = "Memory fit, speed, cost and energy of LLM inference, from a config.json, a machine and a workload."
EPILOG = (
    "A number may carry its prefix: 128k is 128,000 and 128Ki is 131,072. GB is 10⁹ bytes, GiB is 2³⁰.\n"
    "Exit status: 0 answered, 1 RoofLab failed (--debug shows where), 2 the question cannot be answered as asked."
)


def application(only: str | None = None) -> typer.Typer:
    """The commands as Typer knows them; with `only`, that one alone, which starts faster."""
    app = typer.Typer(
        help=HELP, epilog=EPILOG, rich_markup_mode="rich", add_completion=only is None, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback(invoke_without_command=True)(_start)
    for name in PANELS:
        if only in (None, name):
            command = COMMANDS[name]
            app.command(name, help=command.text, rich_help_panel=PANELS[name])(_body(name, command))
    return app


def group(only: str | None = None) -> Any:
    """The commands as they are run: an option with nothing after it is refused, whatever it is of."""
    made: Any = get_command(application(only))
    for name, command in made.commands.items():
        command.format_help = _with_examples(command.format_help, COMMANDS[name].examples)
        for parameter in command.params:
            if parameter.param_type_name == "option":
                parameter.callback = _given
    return made


def _given(context: Any, parameter: Any, value: Any) -> Any:
    """An option's value, unless it is blank."""
    if any(
        isinstance(each, str) and not each.strip() for each in (value if isinstance(value, tuple | list) else (value,))
    ):
        option = parameter.opts[0]
        raise InputError(f"{option}: is empty; give a value{'' if parameter.required else f', or leave {option} out'}")
    return value


def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    if version:
        from rooflab import __version__

        print(f"rooflab {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def _with_examples(written: Callable[[Any, Any], None], examples: tuple[str, ...]) -> Callable[[Any, Any], None]:
    """A command's help with its examples below, in lines that can be copied: Rich would pad and break them."""

    def format_help(context: Any, formatter: Any) -> None:
        written(context, formatter)
        print(" Examples", *(f" {_folded(each)}" for each in examples), "", sep="\n")

    return format_help


def _folded(example: str) -> str:
    """A command on lines that fit a terminal of 80 columns; the shell reads them as one."""
    lines = [""]
    for word in re.split(r" (?=--)", example):
        if len(lines[-1]) + len(word) + 1 > EXAMPLE_WIDTH and lines[-1]:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n    ".join(lines)


def _body(name: str, command: Command) -> Callable[..., None]:
    """The function behind a command; its signature is what Typer makes options of."""
    if command.kind is None:
        return {
            "ask": _ask,
            "schema": _schema,
            "serve": _serve,
            "site": _site,
            **_measured(),
            **_designs(),
            **_serving(),
            **_saved(),
        }[name]
    kind = command.kind

    def body(**given: Any) -> None:
        as_json, html = given.pop("json"), given.pop("html", None)
        _answer(options.ask(kind, given), as_json, html)

    last = [inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=pages.Json)]
    if name == "estimate":
        last.append(inspect.Parameter("html", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=pages.Html))
    body.__signature__ = inspect.Signature([*options.parameters(kind), *last])  # type: ignore[attr-defined]
    body.__annotations__ = {}
    return body


def _measured() -> dict[str, Callable[..., None]]:
    """The commands around measurements."""
    from rooflab.cli import measured

    return {"validate": measured.validate, "calibrate": measured.calibrate, "measure": measured.measure}


def _designs() -> dict[str, Callable[..., None]]:
    """The commands about many layouts and machines."""
    from rooflab.cli import designs

    return {name: designs.command(name) for name in designs.COMMANDS}


def _serving() -> dict[str, Callable[..., None]]:
    """The command that simulates."""
    from rooflab.cli import serving

    return {"simulate": serving.simulate()}


def _saved() -> dict[str, Callable[..., None]]:
    """The commands around saved scenarios."""
    from rooflab.cli import saved

    return {"save": saved.save(), "compare": saved.compare, "saved": saved.saved}


def _answer(question: dict[str, Any], as_json: bool, html: str | None = None) -> None:
    """A question's report where it was asked for; that of an estimate has a page of HTML of its own."""
    from rooflab.api import answer

    if html is None or question.get("kind") not in ("estimate", "document"):
        return pages.shower(as_json, html)(answer(question))
    pages.checked_html(html)
    from rooflab.cli import saved

    made = saved.document(question) if question["kind"] == "estimate" else answer(question)["html"]
    pages.write_html(made, html, quiet=as_json)
    if as_json:
        pages.print_json(answer(question))


def _schema() -> None:
    from rooflab.api import schema

    pages.print_json(schema())


def _serve(
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets others in.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.", metavar="N")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    where: Annotated[
        str | None,
        typer.Option("--store", help="File of saved scenarios; with HOST, shared only if named.", metavar="FILE"),
    ] = None,
) -> None:
    from rooflab.web import serve

    serve(host, port, browser, where)


def _site(out: Annotated[str, typer.Argument(help="A new or empty folder.", metavar="OUT")]) -> None:
    from rooflab.web import site

    folder = site(out)
    streams.write(f"{folder}: serve it with any web server, for example: python3 -m http.server -d {folder}\n")


def _ask(
    file: Annotated[str, typer.Argument(help="A JSON file, or - for standard input.", metavar="FILE")],
    html: pages.Html = None,
    json: pages.Json = False,
) -> None:
    _answer(_from_file(file), json, html)


def _from_file(file: str) -> dict[str, Any]:
    """A question from a file; of a saved report, the question it answers."""
    try:
        if file == "-":
            text = sys.stdin.read(LARGEST_ASK + 1) if sys.stdin else ""
        else:
            with Path(file).open(encoding="utf-8-sig") as opened:
                text = opened.read(LARGEST_ASK + 1)
        if len(text) > LARGEST_ASK:
            raise InputError(f"{shown(file)} is too large to be a question; give what `--json` printed, or an ask")
        data = json.loads(text)
    except OSError as problem:
        raise InputError(f"{shown(file)} cannot be read: {problem.strerror or problem}") from None
    except InputError:
        raise
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{shown(file)} is not JSON: {str(problem)[:120]}") from None
    if isinstance(data, dict) and isinstance(data.get("ask"), dict):
        data = data["ask"]
    if not isinstance(data, dict):
        example = '{"kind": "inspect", "model": "llama-3.1-8b"}'
        raise InputError(f"{shown(file)} holds no question; write for example {example}")
    return data
