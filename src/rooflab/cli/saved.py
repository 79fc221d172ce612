"""Commands about saved scenarios: `save`, `compare` and `saved`, and the report of an estimate in a file."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rooflab.api.asks import EstimateAsk
from rooflab.cli import options, streams
from rooflab.cli.pages import Json, print_json
from rooflab.units import InputError, shown

Where = Annotated[
    str | None,
    typer.Option("--store", help="File of saved scenarios; else ROOFLAB_STORE, else your data folder.", metavar="FILE"),
]
Action = Literal["list", "show", "rename", "delete", "export", "import"]


def document(question: dict[str, Any]) -> str:
    """The report of an estimate's question."""
    from rooflab import store
    from rooflab.api import answer

    scenario = {key: value for key, value in question.items() if key != "kind"}
    return answer({"kind": "document", "scenario": scenario, "date": store.now()[:10]})["html"]


def save() -> Callable[..., None]:
    """`rooflab save NAME MODEL --on …`: an estimate's options, kept under a name."""

    def body(**given: Any) -> None:
        name, where, replace = given.pop("name"), given.pop("store"), given.pop("replace")
        _save(name, options.ask(EstimateAsk, given), where, replace)

    first = inspect.Parameter(
        "name", inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[str, typer.Argument(help="What to call it.", metavar="NAME", show_default=False)],
    )  # fmt: skip
    replaces = Annotated[bool, typer.Option("--replace", help="Take the place of the one with this name.")]
    rest = [each for each in options.parameters(EstimateAsk) if each.name != "detail"]
    more = [
        inspect.Parameter("store", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Where),
        inspect.Parameter("replace", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=replaces),
    ]
    body.__signature__ = inspect.Signature([first, *rest, *more])  # type: ignore[attr-defined]
    body.__annotations__ = {}
    return body


def _save(name: str, question: dict[str, Any], where: str | None, replace: bool) -> None:
    from rooflab import store
    from rooflab.api import answer

    name = store.checked_name(name)
    scenario = {key: value for key, value in question.items() if key != "kind"}
    report = answer({"kind": "snapshot", "scenario": scenario})
    record = store.Saved(
        name=name, ask=report["scenario"], digest=report["digest"], version=report["version"], time=store.now()
    )
    kept = store.Store(where)
    kept.save(record, replace=replace)
    streams.write(f"saved {shown(name)} in {kept.path}; compare it with: rooflab compare {shlex.quote(name)} OTHER\n")


def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(help="Saved names, or estimates in quotes: \"llama-3.1-8b --on h100-sxm\".", metavar="SCENARIO…",
                       show_default=False),
    ],
    profiles: Annotated[str | None, typer.Option(help="Each scenario under each: operator,envelope.", metavar="NAMES")] = None,
    only: Annotated[bool, typer.Option("--only-differences", help="Leave out what is the same everywhere.")] = False,
    operators: Annotated[bool, typer.Option("--operators", help="Operator by operator, too.")] = False,
    where: Where = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="The table as CSV, in SI units.", rich_help_panel="Output")] = False,
) -> None:  # fmt: skip
    """Side by side."""
    from rooflab.api import answer
    from rooflab.cli import terminal
    from rooflab.show import compared

    names = [part.strip() for part in profiles.split(",")] if profiles else []
    if len(scenarios) * max(len(names), 1) < 2:
        raise InputError("compare: one scenario has nothing to be compared with; name another, or give --profiles")
    report = answer({"kind": "compare", "cases": _cases(scenarios, where), "profiles": names})
    if only:
        report = compared.narrowed(report)
    if json:
        return print_json(report)
    if csv:
        return streams.write(compared.comparison_csv(report, stages=operators))
    streams.write(terminal.text(compared.compare_page(report, stages=operators), terminal.console()))


def _cases(scenarios: list[str], where: str | None) -> list[dict[str, Any]]:
    """The columns: what is saved under a name, else the estimate that the text asks for."""
    from rooflab import store

    kept = store.Store(where)
    known = {record.name: record for record in kept.all()}
    cases = []
    for text in scenarios:
        if text in known:
            record = known[text]
            case = {"name": text, "scenario": record.ask, "version": record.version, "digest": record.digest}
        elif " --" in text:
            question = _question(text)
            name = " ".join(text.split()).removeprefix("rooflab ").removeprefix("estimate ")
            case = {"name": name, "scenario": {key: value for key, value in question.items() if key != "kind"}}
        else:
            kept.get(text)  # says what there is
            continue
        cases.append(case)
    return cases


def _question(text: str) -> dict[str, Any]:
    """The question of an estimate's command line."""
    from rooflab.cli.commands import group

    try:
        words = shlex.split(text)
    except ValueError as problem:
        raise InputError(f"compare: {shown(text)} cannot be read as a command: {problem}") from None
    for lead in ("rooflab", "estimate"):
        words = words[1:] if words[:1] == [lead] else words
    command: Any = group("estimate")
    given = command.commands["estimate"].make_context("rooflab estimate", words).params
    several = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return options.ask(EstimateAsk, {name: several[name] for name in EstimateAsk.__struct_fields__})


def saved(
    action: Annotated[Action, typer.Argument(help="What to do; list unless said.", show_default=False)] = "list",
    names: Annotated[
        list[str] | None,
        typer.Argument(help="NAME to show, OLD NEW to rename, NAME… to delete, FILE [NAME…] to export, FILE to import.",
                       metavar="…", show_default=False),
    ] = None,
    where: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """What is saved."""
    from rooflab import store

    kept, given = store.Store(where), names or []
    counts = {
        "list": (0, 0),
        "show": (1, 1),
        "rename": (2, 2),
        "delete": (1, None),
        "export": (1, None),
        "import": (1, 1),
    }
    least, most = counts[action]
    if len(given) < least or (most is not None and len(given) > most):
        wants = {"list": "nothing more", "show": "NAME", "rename": "OLD NEW", "delete": "NAME…", "export": "FILE [NAME…]",
                 "import": "FILE"}[action]  # fmt: skip
        raise InputError(f"saved {action}: takes {wants}; {len(given)} given")
    {"list": _list, "show": _show, "rename": _rename, "delete": _delete, "export": _export, "import": _import}[action](
        kept, given, json
    )


def _list(kept: Any, given: list[str], as_json: bool) -> None:
    import msgspec

    from rooflab.cli import terminal
    from rooflab.show import compared

    records = [msgspec.to_builtins(record) for record in kept.all()]
    if as_json:
        return print_json(records)
    streams.write(terminal.text(compared.saved_page(records, str(kept.path)), terminal.console()))


def _show(kept: Any, given: list[str], as_json: bool) -> None:
    from rooflab.cli.commands import _answer

    _answer({"kind": "estimate", **kept.get(given[0]).ask}, as_json)


def _rename(kept: Any, given: list[str], as_json: bool) -> None:
    record = kept.rename(*given)
    streams.write(f"{shown(given[0])} is now {shown(record.name)}\n")


def _delete(kept: Any, given: list[str], as_json: bool) -> None:
    gone = kept.delete(given)
    streams.write(f"deleted {', '.join(map(shown, gone))}\n")


def _export(kept: Any, given: list[str], as_json: bool) -> None:
    from rooflab import __version__, store

    file, *names = given
    records = [kept.get(name) for name in names] if names else kept.all()
    if not records:
        raise InputError(f"saved export: nothing is saved in {kept.path}")
    streams.write_whole(file, store.dump(records, __version__))
    if file != "-":
        streams.write(f"{file}: {len(records)} scenario{'s' if len(records) > 1 else ''}\n")


def _import(kept: Any, given: list[str], as_json: bool) -> None:
    from rooflab import store
    from rooflab.api.snapshots import unpacked

    records = unpacked(_text(given[0], store.LARGEST_FILE), given[0])
    names = [record.name for record in kept.save_all(records)]
    streams.write(f"imported {', '.join(map(shown, names)) or 'nothing: the file holds no scenario'}\n")


def _text(file: str, most: int) -> str:
    """A file's text, or that of standard input (-)."""
    try:
        if file == "-":
            return sys.stdin.read(most + 1) if sys.stdin else ""
        with Path(file).open(encoding="utf-8-sig") as opened:
            return opened.read(most + 1)
    except OSError as problem:
        raise InputError(f"{shown(file)} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise InputError(f"{shown(file)} is not JSON: it is no text in UTF-8") from None
