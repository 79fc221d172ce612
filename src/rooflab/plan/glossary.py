"""The symbols of the formulas with their values in a scenario (requirements D-105, D-304)."""

from __future__ import annotations

import msgspec

from rooflab import chip, graph, placement
from rooflab.model import Attention, Dense, MoE
from rooflab.plan.checks import Scenario
from rooflab.work import Layout, Precision


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One symbol."""

    group: str
    """model, workload, layout, machine, derived."""
    symbol: str
    meaning: str
    value: float | str | None
    unit: str


def glossary(asked: Scenario) -> tuple[Term, ...]:
    """Every symbol with its value now; values a model does not have are left out."""
    rows = [*_model(asked), *_workload(asked), *_layout(asked), *_machine(asked), *_derived(asked)]
    return tuple(
        Term(group=group, symbol=symbol, meaning=meaning, value=value, unit=unit)
        for group, symbol, meaning, value, unit in rows
        if value is not None
    )


Row = tuple[str, str, str, float | str | None, str]


def _model(asked: Scenario) -> list[Row]:
    model, precision = asked.model, asked.precision
    mixer = next((b.mixer for b in model.blocks if isinstance(b.mixer, Attention)), None)
    dense = next((b.ffn for b in model.blocks if isinstance(b.ffn, Dense)), None)
    experts = next((b.ffn for b in model.blocks if isinstance(b.ffn, MoE)), None)
    return [
        ("model", "d", "width of the residual stream", float(model.hidden), "1"),
        ("model", "L", "layers", float(model.layers), "1"),
        ("model", "V", "vocabulary", float(model.vocab), "1"),
        ("model", "H_q", "query heads", float(mixer.heads) if mixer else None, "1"),
        ("model", "H_kv", "KV heads", float(mixer.kv_heads) if mixer else None, "1"),
        ("model", "d_h", "width of a head", float(mixer.head_dim) if mixer else None, "1"),
        ("model", "f", "width of the feed-forward", float(dense.width) if dense else None, "1"),
        ("model", "E", "routed experts", float(experts.experts) if experts else None, "1"),
        ("model", "k", "experts a token uses", float(experts.topk) if experts else None, "1"),
        ("model", "N", "parameters", float(model.params()), "1"),
        ("model", "N_active", "parameters a token uses", float(model.active_params()), "1"),
        ("model", "b", "bytes of a weight", precision.weight_size(precision.ffn), "byte"),
        ("model", "N·b", "bytes of all weights", graph.total_weight_bytes(model, precision), "byte"),
    ]


def _workload(asked: Scenario) -> list[Row]:
    work = asked.work
    return [
        ("workload", "B", "sequences at once in a replica", float(work.batch), "1"),
        ("workload", "S", "tokens of a sequence at its end", float(work.context), "token"),
        ("workload", "P", "tokens of a prompt", float(work.prompt), "token"),
        ("workload", "kv", "cache a token adds", _kv(asked, asked.model.layers), "byte/token"),
    ]


def _kv(asked: Scenario, _layers: int) -> float:
    whole, precision, model = Layout(), asked.precision, asked.model
    context = float(asked.work.context)
    grown = graph.kv_bytes_per_device(model, precision, whole, context, 1.0)
    return float(grown - graph.kv_bytes_per_device(model, precision, whole, context - 1.0, 1.0))


def _layout(asked: Scenario) -> list[Row]:
    layout = asked.layout
    names = {
        "tp": "ranks that share heads and widths", "pp": "pipeline stages", "cp": "ranks that share positions",
        "dp": "replicas", "ep": "ranks the experts are spread over", "attention_dp": "attention groups in a replica",
    }  # fmt: skip
    rows: list[Row] = [("layout", n.upper(), text, float(getattr(layout, n)), "1") for n, text in names.items()]
    rows.append(("layout", "devices", "devices of all replicas", float(layout.devices()), "1"))
    rows.append(("layout", "units", "units of the first level in use", _units(asked), "1"))
    return rows


def _units(asked: Scenario) -> float | None:
    return float(placement.units_used(asked.system, asked.layout)) if asked.system.links else None


def _machine(asked: Scenario) -> list[Row]:
    system = asked.system
    device = system.device
    rows: list[Row] = [
        ("machine", "HBM", "memory of a device", float(device.memory), "byte"),
        ("machine", "W", "memory bandwidth of a device", float(device.memory_bandwidth), "byte/s"),
        ("machine", "C", "peak rate of a device at 16 bits", float(device.rate("bf16")), "FLOP/s"),
        ("machine", "η", "share of the peak rate that is reached", float(asked.profile.compute_efficiency), "1"),
    ]
    for link in system.links:
        rows.append(("machine", f"β {link.name}", "bandwidth of a link, one way", float(link.bandwidth), "byte/s"))
        rows.append(("machine", f"α {link.name}", "latency of a link", float(link.latency), "s"))
    return rows


def _derived(asked: Scenario) -> list[Row]:
    """B*, L* and the ridge of the user's own machine (requirement D-900)."""
    precision: Precision = asked.precision
    one = chip.of(asked.model, precision, asked.system.device, max(int(asked.work.context), 1))
    return [
        (
            "derived",
            "C/W",
            "FLOP a device does while it reads a byte",
            float(chip.arithmetic_intensity(one)),
            "FLOP/byte",
        ),
        ("derived", "B*", "critical batch", float(chip.critical_batch(one)), "1"),
        ("derived", "L*", "balance context", float(chip.balance_context(one)), "token"),
    ]
