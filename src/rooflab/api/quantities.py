"""Units of a report's fields, by path: read from the records' annotations, and listed where a record has none."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_type_hints

import msgspec

from rooflab.api.asks import CatalogReport, ChipReport, InspectReport, StepReport
from rooflab.api.design_asks import CodesignReport, RulesReport
from rooflab.units import unit_of

_LATENCY: dict[str, str] = dict.fromkeys(("weight", "compute", "kv", "memory", "total"), "s")
_BUDGET = {
    **dict.fromkeys(("weights", "kv", "transient", "reserve", "used", "budget", "free"), "byte"),
    "context": "token",
}
_SENSITIVITY = {"intensity": "FLOP/byte", "critical_batch": "1"}
_CHIP = {
    "flop_rate": "FLOP/s",
    "memory_bandwidth": "byte/s",
    "weight_size": "byte",
    "model.kv_per_token": "byte/token",
    "model.kv_growth": "byte/token",
}


def _under(prefix: str, units: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": unit for name, unit in units.items()}


_OPEN: dict[type, dict[str, str]] = {
    InspectReport: _under("checkpoint", dict.fromkeys(("bytes", "bytes_by_format"), "byte")),
    StepReport: _under("roofs", {
        "memory_bandwidth": "byte/s", "achievable_bandwidth": "byte/s", "flop_rate": "FLOP/s",
        "achievable_flop_rate": "FLOP/s",
    }),
    CodesignReport: _under("doublings", {"latency": "s", "speedup": "1"}),
    RulesReport: {
        **_under("hints", {"time": "s", "memory": "byte"}),
        **_under("copies", dict.fromkeys(("per_device", "waste"), "byte")),
        **_under("ranks", dict.fromkeys(
            ("attention", "query", "key", "value", "out", "ffn", "weights", "kv", "state", "workspace"), "byte"
        )),
        **_under("shapes", dict.fromkeys(("bytes", "bytes_per_device", "all_bytes", "all_per_device"), "byte")),
    },
    CatalogReport: _under("rows", {
        "memory": "byte", "memory_bandwidth": "byte/s", "flop_rate": "FLOP/s", "power": "W", "price": "USD/s", "bytes": "byte",
        "max_context": "token", "bandwidth": "byte/s", "latency": "s",
        "levels.bandwidth": "byte/s", "levels.latency": "s", "rates": "1",
    }),
    ChipReport: {
        **_under("chip", {
            "context": "token", "intensity": "FLOP/byte", "base_intensity": "FLOP/byte", "critical_batch": "1",
            "base_critical_batch": "1", "dense_critical_batch": "1", "sparsity": "1", "balance_context": "token",
            "context_ratio": "1", "knee_batch": "1", "good_batch": "1", "good_context": "token", "utilization": "1",
            "memory_batch": "1", "max_context": "token", "flops_multiplier": "1", "bandwidth_multiplier": "1",
            "regimes.value": "s",
        }),
        **_under("chip.chip", _CHIP),
        **_under("chip.base", _CHIP),
        **_under("chip.step", _LATENCY),
        **_under("chip.token", _LATENCY),
        **_under("chip.memory", _BUDGET),
        **_under("chip.curves.step_latency", _LATENCY),
        **_under("chip.curves.token_latency", _LATENCY),
        **_under("chip.curves.cost_at_context", {"context": "token", **_under("points", _LATENCY)}),
        **_under("chip.curves.knee", {"context": "token"}),
        **_under("chip.curves.memory_vs_context", _BUDGET),
        **_under("chip.curves.memory_vs_batch", _BUDGET),
        **_under("chip.curves.flops_sensitivity", _SENSITIVITY),
        **_under("chip.curves.bandwidth_sensitivity", _SENSITIVITY),
    },
}  # fmt: skip
"""Units inside the parts of reports that have no record of their own."""


@lru_cache(maxsize=64)
def units_of(report: type) -> dict[str, str]:
    """Unit of every field of a report that has one, by its path; list positions and a table's own keys are left out."""
    found: dict[str, str] = {}
    for name, hint in get_type_hints(report, include_extras=True).items():
        found.update({f"{name}.{key}".rstrip("."): unit for key, unit in _inside(hint).items()})
    return {**found, **_OPEN.get(report, {})}


def _inside(hint: Any) -> dict[str, str]:
    """Units within one annotation: its own under the empty path, those of records in lists, tables and unions by field."""
    unit = unit_of(hint)
    if unit is not None:
        return {"": unit[0]}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return units_of(hint)
    return {key: value for part in getattr(hint, "__args__", ()) for key, value in _inside(part).items()}
