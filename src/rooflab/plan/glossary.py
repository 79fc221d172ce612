"""The symbols of the formulas with their values in a scenario (requirements D-105, D-304)."""

from __future__ import annotations

import math
import re

import msgspec

from rooflab import chip, fits, graph, placement
from rooflab.chip.roofline import Chip
from rooflab.model import Attention, Dense, LatentAttention, MoE
from rooflab.plan.checks import Scenario
from rooflab.work import Layout, Step, size_of


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One symbol."""

    group: str
    """model, workload, layout, machine, derived, results; stages where the profile counts those."""
    symbol: str
    meaning: str
    value: float | str | None
    unit: str


def glossary(asked: Scenario) -> tuple[Term, ...]:
    """Every symbol with its value now; values a model does not have are left out."""
    rows = [
        *_model(asked),
        *_workload(asked),
        *_layout(asked),
        *_machine(asked),
        *_derived(asked),
        *_results(asked),
        *_stages(asked),
    ]
    return tuple(
        Term(group=group, symbol=symbol, meaning=meaning, value=value, unit=unit)
        for group, symbol, meaning, value, unit in rows
        if value is not None
    )


Row = tuple[str, str, str, float | str | None, str]


def _model(asked: Scenario) -> list[Row]:
    model, precision = asked.model, asked.precision
    mixer = next((b.mixer for b in model.blocks if isinstance(b.mixer, Attention)), None)
    latent = next((b.mixer for b in model.blocks if isinstance(b.mixer, LatentAttention)), None)
    heads = mixer or latent
    state = float(model.state_elements()) * size_of(precision.state)
    dense = next((b.ffn for b in model.blocks if isinstance(b.ffn, Dense)), None)
    experts = next((b.ffn for b in model.blocks if isinstance(b.ffn, MoE)), None)
    return [
        ("model", "d", "width of the residual stream", float(model.hidden), "1"),
        ("model", "L", "layers", float(model.layers), "1"),
        ("model", "V", "vocabulary", float(model.vocab), "1"),
        ("model", "H_q", "query heads", float(heads.heads) if heads else None, "1"),
        ("model", "H_kv", "KV heads", float(mixer.kv_heads) if mixer else None, "1"),
        ("model", "d_h", "width of a head", float(mixer.head_dim) if mixer else None, "1"),
        ("model", "d_c", "width of the latent that is cached", float(latent.kv_rank) if latent else None, "1"),
        ("model", "d_r", "width of its rotary key", float(latent.rope_dim) if latent else None, "1"),
        ("model", "s", "recurrent state of a sequence", state or None, "byte"),
        ("model", "f", "width of the feed-forward", float(dense.width) if dense else None, "1"),
        ("model", "E", "routed experts", float(experts.experts) if experts else None, "1"),
        ("model", "k", "experts a token uses", float(experts.topk) if experts else None, "1"),
        ("model", "f_e", "width of an expert", float(experts.width) if experts else None, "1"),
        ("model", "f_s", "width of what every token passes beside them", _shared(experts), "1"),
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
    device, used = system.device, asked.profile
    where = "where nothing is measured" if used.counting == "kernels" else "assumed"
    rows: list[Row] = [
        ("machine", "HBM", "memory of a device", float(device.memory), "byte"),
        ("machine", "W", "memory bandwidth of a device", float(device.memory_bandwidth), "byte/s"),
        ("machine", "C", "peak rate of a device in the format of the weights", _chip(asked).flop_rate, "FLOP/s"),
        ("machine", "M_r", "memory kept for the runtime", float(fits.reserve_bytes(used, device.memory)), "byte"),
        ("machine", "η_c", f"share of the peak rate reached, {where}", float(used.compute_efficiency), "1"),
        ("machine", "η_m", f"share of the memory bandwidth reached, {where}", float(used.memory_efficiency), "1"),
        ("machine", "η_l", f"share of a link's bandwidth reached, {where}", float(used.link_efficiency), "1"),
        ("machine", "t_launch", f"launch of an operator, {where}", float(used.launch_time) or None, "s"),
        ("machine", "t_pass", "overhead of a forward pass", float(used.pass_time) or None, "s"),
    ]
    for link in system.links:
        rows.append(("machine", f"β {link.name}", "bandwidth of a link, one way", float(link.bandwidth), "byte/s"))
        rows.append(("machine", f"α {link.name}", "latency of a link", float(link.latency), "s"))
    return rows


def _derived(asked: Scenario) -> list[Row]:
    """B*, L* and the ridge of the user's own machine (requirement D-900)."""
    one, context = _chip(asked), float(asked.work.context)
    balance = float(chip.balance_context(one))
    return [
        (
            "derived",
            "C/W",
            "FLOP a device does while it reads a byte",
            float(chip.arithmetic_intensity(one)),
            "FLOP/byte",
        ),
        ("derived", "B*", "critical batch", float(chip.critical_batch(one)), "1"),
        ("derived", "L*", "balance context", balance if math.isfinite(balance) else None, "token"),
        ("derived", "B_knee", "batch at the knee", chip.knee_batch(one, context), "1"),
    ]


def _chip(asked: Scenario) -> Chip:
    return chip.of(asked.model, asked.precision, asked.system.device, max(int(asked.work.context), 1))


def _shared(experts: MoE | None) -> float | None:
    return float(experts.shared_width) if experts and experts.shared_width else None


def _results(asked: Scenario) -> list[Row]:
    """What is promised to people who wait, as the estimate has it."""
    found = asked.estimate().mid
    figures = [
        ("TTFT", "time to the first token, all prompts of the batch together", "ttft", "s"),
        ("TPOT", "time of each further token, the mean over the answer", "tpot", "s"),
        ("E2E", "whole answer: TTFT and all further tokens", "e2e", "s"),
        ("tokens/s", "answers' tokens of all replicas", "output_throughput", "token/s"),
    ]
    return [("results", symbol, text, getattr(found, name, None), unit) for symbol, text, name, unit in figures]


STAGES = {
    "S": "stages of attention", "C": "exchanges among positions", "F": "stages of the feed-forward",
    "CF": "exchanges of the feed-forward",
}  # fmt: skip
"""What the stages of the sharded profile are called by."""


def _stages(asked: Scenario) -> list[Row]:
    """How many stages of each kind one decode step has, where the profile counts stages."""
    if asked.profile.counting != "stages":
        return []
    step = Step(decode_sequences=asked.work.batch, decode_context=asked.work.context)
    made = graph.operators(asked.model, asked.precision, asked.layout, step, counting="stages", outside=False)
    names = {match[0]: match[1] for op in made if (match := re.match(r"(CF|S|C|F)\d+", op.name))}
    kinds = list(names.values())
    return [("stages", f"{kind}1 …", text, float(kinds.count(kind)) or None, "1") for kind, text in STAGES.items()]
