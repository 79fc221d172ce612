"""Commands around measurements: `measure` takes them, `calibrate` fits a device to them, `validate` predicts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooflab.cli import streams
from rooflab.cli.watching import bar
from rooflab.units import InputError

if TYPE_CHECKING:
    from rooflab.measure.depths import Stack
    from rooflab.measure.taking import Progress

NEEDED = {"pandas": "data", "pyarrow": "data", "numpy": "data", "scipy": "calibrate"}
"""Package → the extra that brings it."""
Json = Annotated[bool, typer.Option("--json", help="The report as JSON, in SI units.", rich_help_panel="Output")]


def _with_packages(action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The action's report; a missing package is named with the extra that brings it."""
    try:
        return action()
    except ModuleNotFoundError as problem:
        extra = NEEDED.get((problem.name or "").split(".")[0])
        if extra is None:
            raise
        raise InputError(f"{problem.name} is not installed; pip install 'rooflab[{extra}]' brings it") from None


def _show(report: dict[str, Any], page: Callable[[dict[str, Any]], Any], as_json: bool) -> None:
    from rooflab.cli.pages import print_json

    if as_json:
        return print_json(report)
    from rooflab.cli import terminal

    streams.write(terminal.text(page(report), terminal.console()))


def validate(
    data: Annotated[
        str | None, typer.Option(help="A table or a folder of tables; else the rows shipped here.", metavar="PATH")
    ] = None,
    configs: Annotated[
        str | None, typer.Option(help="Folder of configs of models outside the catalog.", metavar="DIR")
    ] = None,
    prices: Annotated[
        str, typer.Option(help="fitted, or roofline to see what fits bring.", metavar="PRICES")
    ] = "fitted",
    json: Json = False,
) -> None:
    """Predict every measured row and show by how much the predictions were off."""
    from rooflab.measure import validate as measured
    from rooflab.show.accuracy import validate_page

    if prices not in ("fitted", "roofline"):
        raise InputError(f"prices: {prices!r} is not fitted or roofline")
    _show(_with_packages(lambda: measured.run(data, configs, prices)), validate_page, json)


def calibrate(
    data: Annotated[str, typer.Option(help="A table of measured kernels, or a folder of them.", metavar="PATH")],
    on: Annotated[str, typer.Option(help="The device they were measured on.", metavar="DEVICE")],
    family: Annotated[
        list[str] | None, typer.Option(help="Fit this family only. Again for more.", metavar="NAME")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Folder for the fits; else they are only shown.", metavar="DIR")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write into the catalog of this installation.")] = False,
    json: Json = False,
) -> None:
    """Fit the few parameters of each kernel family to measurements of a device, a quarter of them held out."""
    from rooflab.show.accuracy import calibrate_page

    _show(_with_packages(lambda: _calibrated(data, on, family, out, write)), calibrate_page, json)


def _calibrated(data: str, on: str, family: list[str] | None, out: str | None, write: bool) -> dict[str, Any]:
    """The report of a calibration, with where its file went."""
    import datetime
    from pathlib import Path

    from rooflab.measure import calibrate as fitting
    from rooflab.measure import filing

    report = fitting.run(data, on, family, strict=False)
    if out is not None or write:
        folder = Path(out) if out is not None else filing.FOLDER
        if not folder.is_dir():
            raise InputError(f"out: '{folder}' is not a folder; make it first")
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        report["written"] = str(filing.write(report["device"], report, [Path(data).name], today, folder))
    return report


def measure(
    out: Annotated[
        str, typer.Option(help="Folder for the tables; one that holds some goes on where it stopped.", metavar="DIR")
    ] = "measured",
    family: Annotated[
        list[str] | None, typer.Option(help="Measure this family only. Again for more.", metavar="NAME")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Also time steps of this model, weights random: a config.json or a name. Again for more."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="An eighth of the cases, where time is short.")] = False,
    on: Annotated[
        str | None, typer.Option(help="The catalog's device this GPU is; else read from its name.", metavar="DEVICE")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, max=16, help="GPUs that exchange; else all there are.", metavar="N")
    ] = None,
    table: Annotated[str, typer.Option("--format", help="csv, parquet or jsonl.", metavar="FORMAT")] = "csv",
    warm_cache: Annotated[
        bool, typer.Option("--warm-cache", help="Use the same operands again and again, without fresh ones.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be run, and for how long.")] = False,
    cpu: Annotated[bool, typer.Option("--cpu", hidden=True, help="For testing only: time the processor.")] = False,
    json: Json = False,
) -> None:
    """Time kernels and model steps on this machine's GPU, in tables that `calibrate` and `validate` read."""
    from rooflab.measure import plan_of, taking
    from rooflab.show.measuring import measure_page, plan_page

    if table not in taking.FORMATS:
        raise InputError(f"format: {table!r} is not one of {', '.join(taking.FORMATS)}")
    if dry_run:
        target = _target(on, gpus)
        planned = plan_of.plan(target, family, quick, _stacks(model, target.half))
        return _show(plan_of.listed(planned, whole=json), plan_page, json)
    device, target = _device(on, gpus, warm_cache, cpu)
    stacks = _stacks(model, target.half)
    planned = plan_of.plan(target, family, quick, stacks)
    if stacks:
        device.bring(stacks)
    try:
        with bar("", total=len(planned.cases)) as update:
            report = taking.run(planned, device, out, table, stacks, update and _told(update))
    finally:
        device.close()
    _show(report, measure_page, json)
    if report["stopped"]:
        raise typer.Exit(130 if report["interrupted"] else 1)


def _told(update: Callable[..., None]) -> Progress:
    """Cases done and in all, and the family at hand, on a bar."""
    return lambda done, total, family: update(completed=done, total=total, description=family.replace("_", " "))


def _target(on: str | None, gpus: int | None) -> Any:
    """What a dry run plans for: the device named, else a T4, which a free notebook has."""
    from rooflab import catalog
    from rooflab.measure import plan_of

    return plan_of.target_of(catalog.device(on or plan_of.EXAMPLE), gpus or 1)


def _device(on: str | None, gpus: int | None, warm: bool, cpu: bool) -> tuple[Any, Any]:
    """This machine's GPU, and what to plan for it."""
    from rooflab import catalog
    from rooflab.measure import plan_of
    from rooflab.measure.bench.kernels import TorchDevice

    named = catalog.device(on).name if on else None
    device = TorchDevice(named, warm, cpu)
    return device, plan_of.target_from(device.facts(), gpus)


def _stacks(models: list[str] | None, half: str) -> list[Stack]:
    """The models to be measured, at the depths they are measured at."""
    from rooflab.measure.depths import named

    return [named(text, half) for text in models or ()]
