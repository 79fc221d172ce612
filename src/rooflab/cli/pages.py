"""Where a report goes: to the terminal as a page, as JSON, or into one HTML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rooflab.cli import streams
from rooflab.units import InputError, shown

Json = Annotated[bool, typer.Option("--json", help="The report as JSON, in SI units.", rich_help_panel="Output")]
Html = Annotated[
    str | None,
    typer.Option("--html", help="Write the report as one HTML file that needs nothing else.", metavar="FILE",
                 rich_help_panel="Output"),
]  # fmt: skip


def checked_html(file: str | None) -> None:
    """Refuses a name that no browser opens, and a file that could not be written, before the work that would fill it."""
    if file is None or file == "-":
        return
    if Path(file).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--html: {shown(file)} must end in .html, or be - for standard output")
    streams.writable(file, "--html")


def write_html(html: str, file: str, *, quiet: bool = False) -> None:
    """A page into its file, or to standard output (-); `quiet` says nothing of it."""
    streams.write_whole(file, html, "--html")
    if file != "-" and not quiet:
        streams.write(f"{file}: {len(html.encode()):,} bytes, opens in any browser\n")


def shower(as_json: bool, html: str | None) -> Callable[[Any], None]:
    """What shows a report in the ways that were asked for: a page in the terminal where none was."""
    checked_html(html)

    def show(report: Any) -> None:
        from rooflab.api import plain_report

        data = report if isinstance(report, Mapping) else plain_report(report)
        if html is not None:
            from rooflab import store
            from rooflab.show.sheet import sheet

            write_html(sheet(data, store.now()[:10]), html, quiet=as_json)
        if as_json:
            print_json(data)
        elif html is None:
            from rooflab.cli import terminal
            from rooflab.show import page

            streams.write(terminal.text(page(data), terminal.console()))

    return show


def print_json(data: Any) -> None:
    """Indented JSON; beyond ASCII only where the stream is sure to carry it."""
    import json
    import sys

    wide = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    streams.write(json.dumps(data, indent=2, ensure_ascii=not wide, allow_nan=False) + "\n")
