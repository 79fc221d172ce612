"""Writing fits as `catalog/fits/<device>.toml`, readable like a datasheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import catalog, kernels
from rooflab.parameters import FOLDER, Fit

HEAD = """\
# Parameters of kernels' formulas (src/rooflab/kernels) on {device}: what was fitted, on how many rows, and how well.
# fit_error and held_error are medians of |predicted / measured - 1|, on rows fitted and on shapes held out; band is what
# eight in ten measured over predicted times fall between, coverage the share of held-out rows that do.
# Written by `rooflab calibrate`.

device = "{device}"
clock = "{clock}"
sources = [{sources}]
date = "{date}"
"""


def text(device: str, fits: Sequence[Fit], sources: Sequence[str], date: str) -> str:
    """The file of a device's fits."""
    hertz = catalog.device(device).clock
    clock = f"{short(hertz / 1.0e6, 4)} MHz" if hertz else ""  # count
    quoted = ", ".join(f'"{source}"' for source in sources)
    pieces = [HEAD.format(device=device, clock=clock, sources=quoted, date=date)]
    order = list(kernels.PARAMETERS)
    for fit in sorted(fits, key=lambda f: (order.index(f.family), f.dtype, f.backend, f.kernel)):
        pieces.append(_entry(fit))
    return "\n".join(pieces)


def _entry(fit: Fit) -> str:
    lines = ["[[fit]]"]
    for name in ("family", "dtype", "backend", "kernel", "version", "note"):
        value = getattr(fit, name)
        if value or name in ("family", "dtype", "backend"):
            lines.append(f'{name} = "{value}"')
    lines += [f"rows = {fit.rows}", f"held_rows = {fit.held_rows}"]
    lines += [
        f"{name} = {short(getattr(fit, name), 3)}" for name in ("fit_error", "held_error", "held_p90", "coverage")
    ]
    lines.append(f"band = [{short(fit.band[0], 3)}, {short(fit.band[1], 3)}]")
    values = {name: value for name, value in fit.parameters.items() if value}
    inner = ", ".join(f"{name} = {_value(name, value)}" for name, value in values.items())
    lines.append(f"parameters = {{ {inner} }}")
    return "\n".join(lines) + "\n"


def short(value: float, digits: int) -> str:
    """A number to so many significant digits, never in exponents."""
    if not value:
        return "0.0"
    places = max(1, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def _value(name: str, value: Any) -> str:
    return f'"{short(value * 1.0e6, 4)} us"' if name in kernels.SECONDS else short(value, 4)  # count


def write(device: str, report: dict[str, Any], sources: Sequence[str], date: str, folder: Path = FOLDER) -> Path:
    """Write a report of `calibrate.run` where `Fitted` finds it."""
    fits = [msgspec.convert(fit, Fit) for fit in report["fits"]]
    path = folder / f"{device}.toml"
    path.write_text(text(device, fits, sources, date), encoding="utf-8")
    return path
