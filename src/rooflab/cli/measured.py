"""Commands around measurements: `validate` predicts measured rows, `calibrate` fits a device's parameters to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from rooflab.cli import streams
from rooflab.units import InputError

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
    from rooflab.cli.commands import print_json

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
