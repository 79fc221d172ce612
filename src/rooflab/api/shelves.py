"""Shelves of the catalog as rows: models, systems, devices, links, number formats, profiles."""

from __future__ import annotations

import re
from typing import Any

from rooflab import catalog, hf
from rooflab.api.answers import header, mixer_name
from rooflab.api.asks import CatalogAsk, CatalogReport
from rooflab.api.resolve import model_of
from rooflab.profiles import PROFILES
from rooflab.system import System
from rooflab.units import parse
from rooflab.work import FORMATS


def answer_catalog(ask: CatalogAsk) -> CatalogReport:
    """Rows of one shelf of the catalog."""
    return CatalogReport(**header(ask, CatalogReport, []), what=ask.what, rows=_ROWS[ask.what]())


def _model_rows() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "params": model.params(),
            "active_params": model.active_params(),
            "layers": model.layers,
            "max_context": model.max_context,
            "also": hf.other_names(name),
            "mixers": sorted({re.split(r" (?=\d|heads)", mixer_name(block))[0] for block in model.blocks}),
        }
        for name in catalog.model_names()
        for model in [model_of(name)]
    ]


def _device_row(name: str) -> dict[str, Any]:
    device = catalog.device(name)
    return {
        "name": name,
        "title": device.title,
        "memory": device.memory,
        "memory_bandwidth": device.memory_bandwidth,
        "flop_rate": dict(device.flop_rate),
        "power": device.power,
        "price": device.price,
        "confidence": device.confidence,
        "levels": _levels(catalog.system(name)),
    }


def _levels(system: System) -> list[dict[str, Any]]:
    """Links from the innermost level outwards, one direction, per device."""
    names = ("name", "title", "bandwidth", "latency", "size", "topology")
    return [{name: getattr(link, name) for name in names} for link in system.links]


def _system_rows() -> list[dict[str, Any]]:
    rows = []
    for name in catalog.system_names():
        system = catalog.system(name)
        links = [f"{link.name} × {link.size}" for link in system.links]
        rows.append(
            {
                "name": name,
                "title": system.title,
                "device": system.device.name,
                "devices": system.devices,
                "links": links,
                "levels": _levels(system),
            }
        )
    return rows


def _link_rows() -> list[dict[str, Any]]:
    """Named links: what one message step sees, one direction, per device."""
    rows = []
    for name in catalog.link_names():
        table = catalog.link_table(name)
        figures = {field: parse(table[field], unit) for field, unit in (("bandwidth", "byte/s"), ("latency", "s"))}
        rest = {field: table[field] for field in ("topology", "confidence")}
        rows.append(
            {
                "name": name,
                "title": table.get("title", name),
                **figures,
                **rest,
                "note": next(iter(table.get("notes", ())), ""),
            }
        )
    return rows


def _format_rows() -> list[dict[str, Any]]:
    return [{"name": k, "bytes": f.size, "rate": f.rate, "note": f.note} for k, f in FORMATS.items()]


_ROWS: dict[str, Any] = {
    "models": _model_rows,
    "devices": lambda: [_device_row(name) for name in catalog.device_names()],
    "systems": _system_rows,
    "links": _link_rows,
    "formats": _format_rows,
    "profiles": lambda: [
        {
            "name": p.name,
            "title": p.title,
            "leaves_out": list(p.leaves_out),
            "rates": {
                name: getattr(p, name) for name in ("compute_efficiency", "memory_efficiency", "link_efficiency")
            },
        }
        for p in PROFILES.values()
    ],
}
