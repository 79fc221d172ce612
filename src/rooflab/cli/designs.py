"""Commands about many layouts and machines: `sweep`, `suggest`, `plan`, `sharded`, `codesign` and `rules`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from rooflab.cli import streams
from rooflab.cli.watching import watched
from rooflab.units import InputError, parse, parse_count, shown

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
TRAFFIC = "Simulated traffic"
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

    writer = _writer(out, resume)
    ask = _asked(
        "sweep", model=model, on=on[0], also_on=on[1:], vary=_pairs(vary or []), where=where, weights=weights, kv=kv,
        profile=profile, prices=prices, pareto=None if pareto is None else [item.strip() for item in pareto.split(",")],
        **_counts({"layouts": layouts, "batch": batch, "prompt": prompt, "output": output}),
    )  # fmt: skip
    asked, notes = space_of(ask)
    with watched("points") as seen:
        frame = run(asked, progress=seen.progress, cancel=seen.cancel, workers=workers, cluster=cluster, journal=resume)
    if out and writer:
        _write(getattr(frame, writer), out)
    _show(sweep_report(ask, asked, frame, notes), json)
    seen.end()


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
    percentile: Annotated[
        str | None,
        typer.Option(
            help="Hold the limits at 90, 95 or 99 % under simulated traffic.", metavar="P", rich_help_panel=TRAFFIC
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="Requests per second; else made of users and limits.", metavar="N", rich_help_panel=TRAFFIC),
    ] = None,
    requests: Annotated[
        str | None, typer.Option(help="Requests of each run.", metavar="N", rich_help_panel=TRAFFIC)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Runs of each candidate.", metavar="N", rich_help_panel=TRAFFIC)
    ] = None,
    divide: Annotated[
        bool, typer.Option("--divide", help="Also divide replicas into prefill and decode.", rich_help_panel=TRAFFIC)
    ] = False,
    link: Annotated[
        str | None,
        typer.Option(help='Between those, per replica: "50 GB/s".', metavar="RATE", rich_help_panel=TRAFFIC),
    ] = None,
    json: Json = False,
) -> None:
    """How many devices a service needs."""
    from rooflab.api.design import answer_plan

    counts = {
        "users": users,
        "context": context,
        "output": output,
        "largest": largest,
        "requests": requests,
        "seeds": seeds,
    }
    ask = _asked(
        "plan", model=model, on=on, ttft=ttft, tpot=tpot, weights=weights, kv=kv, prices=prices, link=link,
        percentile=None if percentile is None else f"p{percentile.strip().removeprefix('p')}",
        rate=None if rate is None else parse(rate, "1", "--rate", positive=True), divide=divide or None, **_counts(counts),
    )  # fmt: skip
    with watched("runs") as seen:
        report = answer_plan(ask, progress=seen.progress, cancel=seen.cancel)
    _show(report, json)
    seen.end()


Scope = Annotated[Literal["full", "attention", "ffn"] | None, typer.Option(help="Which weights and caches count.")]
Mode = Annotated[Literal["decode", "prefill"] | None, typer.Option(help="The kind of pass.")]
Outside = Annotated[
    bool, typer.Option("--outside", help="Also embedding, output head and sends between pipeline stages.")
]
Levelled = Annotated[str | None, typer.Option(help="A machine with levels, such as sip or dgx-h100.", metavar="SYSTEM")]
Held = Annotated[str | None, typer.Option(help="Tokens of context of each sequence: 128k, 128Ki, 1M.", metavar="N")]


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


def sharded(
    model: Model,
    on: Levelled = None,
    context: Held = None,
    batch: Batch = None,
    mode: Mode = None,
    scope: Scope = None,
    axis: Annotated[
        list[str] | None,
        typer.Option(help="Other values of an axis: cp=1,2,4 or ring=kv. Again for more.", metavar="AXIS=VALUES"),
    ] = None,
    around: Annotated[
        list[str] | None,
        typer.Option(help="Vary one knob at a time around this layout: cp=8. Again for more.", metavar="AXIS=VALUE"),
    ] = None,
    ep: Annotated[str | None, typer.Option(help="Expert ranks, which multiply the devices.", metavar="N")] = None,
    outside: Outside = False,
    weights: Weights = None,
    kv: Cache = None,
    reserve: Annotated[
        str | None, typer.Option(help="Memory of a device that no layout may use: 10% or 2 GB.", metavar="SIZE")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Write every row to a .csv or .parquet file.", metavar="FILE", rich_help_panel="Output"),
    ] = None,
    json: Json = False,
) -> None:
    """Every cut of a model over a machine with levels: 27,648 layouts, one step each."""
    from rooflab.api.design import sharded_report, study_of
    from rooflab.sweep.layouts import sweep_layouts

    writer = _writer(out)
    chosen = {name: _only(name, values) for name, values in _axes(around, "--around").items()}
    ask = _asked(
        "sharded", model=model, on=on, mode=mode, scope=scope, axes=_axes(axis, "--axis"), around=chosen,
        outside=outside or None, weights=weights, kv=kv, reserve=reserve, rows="pareto",
        **_counts({"context": context, "batch": batch, "ep": ep}),
    )  # fmt: skip
    asked, notes = study_of(ask)
    frame = sweep_layouts(asked, ask.axes)
    report = sharded_report(ask, asked, frame, notes)
    if out and writer:
        _write(getattr(frame, writer), out)
    _show(report, json)


def codesign(
    model: Model,
    on: Levelled = None,
    context: Held = None,
    batch: Batch = None,
    mode: Mode = None,
    scope: Scope = None,
    depth: Annotated[
        Literal["two_stage", "balanced", "coarse"] | None,
        typer.Option(help="This machine; each part as it is or doubled (64); halved, as it is, doubled (729)."),
    ] = None,
    weigh: Annotated[
        list[str] | None,
        typer.Option(help="Weight of a part in the cost: memory=2. Again for more.", metavar="PART=WEIGHT"),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit/--keep-layout", help="Whether doubling a part chooses the layout anew.")
    ] = True,
    outside: Outside = False,
    weights: Weights = None,
    kv: Cache = None,
    json: Json = False,
) -> None:
    """Machines and layouts chosen together."""
    from rooflab.api.codesign import answer_codesign

    costs = {
        name: parse(value, "1", f"--weigh {name}") for name, value in _named(weigh or [], "--weigh", "memory=2").items()
    }
    ask = _asked(
        "codesign", model=model, on=on, mode=mode, scope=scope, depth=depth, cost_weights=costs, outside=outside or None,
        weights=weights, kv=kv, **_counts({"context": context, "batch": batch}),
    )  # fmt: skip
    ask = msgspec.structs.replace(ask, refit=refit)
    with watched("machines") as seen:
        report = answer_codesign(ask, progress=seen.progress, cancel=seen.cancel)
    _show(report, json)


def rules() -> Callable[..., None]:
    """The command that judges a scenario, its options made from the question."""
    from rooflab.api.design_asks import RulesAsk
    from rooflab.cli import options

    def body(**given: Any) -> None:
        from rooflab.api import ask_of, report_of

        as_json = given.pop("json")
        _show(report_of(ask_of(options.ask(RulesAsk, given))), as_json)

    last = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    body.__signature__ = inspect.Signature([*options.parameters(RulesAsk), last])  # type: ignore[attr-defined]
    body.__annotations__ = {}
    return body
