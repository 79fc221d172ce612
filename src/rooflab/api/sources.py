"""Where a machine's figures and its kernels' parameters come from, and what else in the catalog rests on the same source."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from rooflab import catalog
from rooflab.api.design_asks import SourceReport
from rooflab.fitted import Fitted, fits_for
from rooflab.measured import Measured
from rooflab.parameters import Shelf
from rooflab.system import System


def sources_of(system: System, pricer: Any) -> list[SourceReport]:
    """Cards of the sources behind a machine: of its device, its links and the system, and of the kernels that price it."""
    device = system.device
    cited = [(f"device {device.name}", device.sources)]
    cited += [(f"system {system.name}", system.sources)] if system.name != device.name else []
    cited += [(f"link {link.name}", link.sources) for link in system.links]
    found: dict[str, list[str]] = {}
    for what, keys in cited:
        for key in keys:
            if key in catalog.refs() and what not in found.setdefault(key, []):
                found[key].append(what)
    return [*_kernels(pricer), *(_card(key, what) for key, what in found.items())]


def _kernels(pricer: Any) -> list[SourceReport]:
    """The kernel tables behind fitted prices."""
    fits = fits_of(pricer)
    return [] if fits is None else [_shelf(shelf) for shelf in fits.shelves]


def fits_of(pricer: Any) -> Any:
    """The fits of what prices operators; None for a roofline."""
    fitted = pricer.fallback if isinstance(pricer, Measured) else pricer
    return fitted.fits if isinstance(fitted, Fitted) and hasattr(fitted.fits, "shelves") else None


def _shelf(shelf: Shelf) -> SourceReport:
    families = sorted({fit.family.replace("_", " ") for fit in shelf.fits})
    seen = _middle([fit.fit_error for fit in shelf.fits])
    held = _middle([fit.held_error for fit in shelf.fits if fit.held_rows])
    origins = [catalog.refs()[key] for key in shelf.sources if key in catalog.refs()]
    return SourceReport(
        key=f"kernels {shelf.device}",
        title="; ".join(one.get("title", "") for one in origins),
        gives=[f"kernels measured on {shelf.device}"],
        date=shelf.date,
        licence="; ".join(dict.fromkeys(one.get("licence", "") for one in origins)),
        notes=f"fits of {', '.join(families)}; the middle one is off by {seen:.1%} in the median on rows that it has seen, "
        f"by {held:.1%} on shapes held out",
        url="; ".join(one["url"] for one in origins if "url" in one),
        used_by=[],
    )


def _middle(errors: list[float]) -> float:
    return sorted(errors)[len(errors) // 2] if errors else 0.0


def _card(key: str, gives: list[str]) -> SourceReport:
    known = catalog.refs()[key]
    names = [name for name, keys in _citing().items() if key in keys and f"device {name}" not in gives]
    return SourceReport(
        key=key, title=known.get("title", key), gives=gives, date=known.get("date", ""), licence=known.get("licence", ""),
        notes=known.get("notes", ""), url=known.get("url", ""), used_by=names,
    )  # fmt: skip


@cache
def _citing() -> dict[str, tuple[str, ...]]:
    """Devices of the catalog and the sources each cites."""
    return {name: catalog.device(name).sources for name in catalog.device_names()}


def measured(system: System) -> Literal["own", "carried", "none"]:
    """Whether kernels of the machine's device were measured: its own, another's that carry over, or none."""
    devices = [shelf.device for shelf in fits_for(system).shelves]
    return "own" if system.device.name in devices[:1] else "carried" if devices else "none"
