"""A priced step as plain data for people: what each second goes to, by operator, by part and by bound."""

from __future__ import annotations

import math
import re

from rooflab.api.asks import OpReport, PartReport, RoofsReport, ScopeReport, StepDetail, WorkReport
from rooflab.api.resolve import Setting
from rooflab.estimate import Estimate, Workload, decode_contexts, decode_step, prefill_step
from rooflab.fitted import Fitted
from rooflab.measured import Measured
from rooflab.price import Priced, StepTime
from rooflab.work import Op, Step

BOUNDS = {"weight": "memory", "kv": "memory", "activation": "memory", "comm": "network"}
"""The four things that can hold a step up, by the engine's finer names; the rest is latency."""
SCOPES = ("attention", "ffn", "rest")
_ATTENTION, _FFN = ("attention", "attention projections"), ("ffn", "experts", "router")
_NAMED = re.compile(
    r"(?P<attention>S\d|C\d|rope_append|all_reduce_attention)|(?P<ffn>C?F\d|.*activation|permute|all_reduce_ffn)"
)
"""Operators of the two halves of a layer that their part does not tell apart."""
TERMS = ("memory", "compute", "network", "latency")


def terms_of(item: Priced, combine: str) -> dict[str, float]:
    """Seconds of one operator by what they wait for; they add up to its visible time.

    Where compute and memory overlap, the longer of the two shows. An operator that shares a group's time, or hides under
    one, has its own terms scaled to the part of the group's time that it was given.
    """
    terms: dict[str, float] = dict.fromkeys(TERMS, 0.0)
    if combine == "sum" or item.compute < item.memory:
        terms["memory"] = float(item.memory)
    if combine == "sum" or item.compute >= item.memory:
        terms["compute"] = float(item.compute)
    terms["network"], terms["latency"] = float(item.comm), float(item.overhead)
    alone = math.fsum(terms.values())
    if alone and not math.isclose(alone, item.time, rel_tol=1e-12):
        terms = {name: value * item.time / alone for name, value in terms.items()}
    return terms


def scope_of(name: str, part: str) -> str:
    """The half of a layer that an operator belongs to (requirement D-101)."""
    if part in _ATTENTION or part in _FFN:
        return "attention" if part in _ATTENTION else "ffn"
    found = _NAMED.match(name)
    return (found.lastgroup if found else None) or "rest"


def op_report(item: Priced, whole: float, combine: str = "max") -> OpReport:
    """One priced operator as plain data; all its executions together."""
    op = item.op or Op(name=item.name, kind="overhead", part="overhead")
    count = float(op.count)
    moved = op.bytes() * count
    flop = op.flop * count
    shape = {"m": op.m, "n": op.n, "k": op.k, "groups": op.groups} if op.m or op.n or op.k else {}
    return OpReport(
        name=item.name,
        kind=op.kind,
        part=op.part,
        scope=scope_of(item.name, op.part),
        stage=op.stage,
        count=count,
        shape={key: float(value) for key, value in shape.items()},
        dtype=op.dtype,
        flop=flop,
        bytes=moved,
        weight_bytes=op.weight_bytes * count,
        activation_bytes=op.activation_bytes * count,
        kv_bytes=op.kv_bytes * count,
        message_bytes=op.message_bytes * count,
        intensity=flop / moved if moved else None,
        compute_time=item.compute,
        memory_time=item.memory,
        comm_time=item.comm,
        launch_time=item.overhead,
        time=item.time,
        terms=terms_of(item, combine),
        achieved=flop / item.time if item.time else 0.0,
        share=item.time / whole if whole else 0.0,
        bound=item.bound,
        basis=item.basis,
        formula=op.why[0].formula.__name__ if op.why else "",
    )


def roofs_of(setting: Setting) -> RoofsReport:
    """Peak and achievable roofs of the device, for the roofline plot; those of matrix products where prices are fitted."""
    device, profile = setting.system.device, setting.profile
    shares = dict.fromkeys(device.flop_rate, (profile.compute_efficiency, profile.memory_efficiency))
    pricer = setting.pricer.fallback if isinstance(setting.pricer, Measured) else setting.pricer
    if isinstance(pricer, Fitted):
        shares = {key: pricer.reach(str(key)) for key in device.flop_rate}
    bandwidth = device.memory_bandwidth * max(memory for _, memory in shares.values())
    reached = {key: rate * shares[key][0] for key, rate in device.flop_rate.items()}
    return RoofsReport(
        memory_bandwidth=device.memory_bandwidth,
        achievable_bandwidth=bandwidth,
        flop_rate={str(key): rate for key, rate in device.flop_rate.items()},
        achievable_flop_rate=reached,
        ridge={key: rate / bandwidth for key, rate in reached.items()},
    )


def _added(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: math.fsum(row[name] for row in rows) for name in TERMS}


def _work(name: str, ops: list[OpReport]) -> WorkReport:
    """Operators taken together (requirement B-022)."""
    flop, moved, time = (math.fsum(getattr(op, field) for op in ops) for field in ("flop", "bytes", "time"))
    return WorkReport(
        name=name,
        flop=flop,
        bytes=moved,
        intensity=flop / moved if moved else None,
        time=time,
        achieved=flop / time if time else 0.0,
    )


def step_detail(setting: Setting, step: Step, priced: StepTime) -> StepDetail:
    """What a priced step is made of."""
    whole, device = float(priced.time), setting.system.device
    ops = [op_report(item, whole, setting.profile.combine) for item in priced.priced]
    parts: dict[str, list[OpReport]] = {}
    for op in ops:
        parts.setdefault(op.part, []).append(op)
    rows = [
        PartReport(
            part=name,
            time=(time := math.fsum(op.time for op in members)),
            share=time / whole if whole else 0.0,
            terms=_added([op.terms for op in members]),
        )
        for name, members in parts.items()
    ]
    layers = setting.model.layers  # a pass goes through every stage of the pipeline
    halves = {name: math.fsum(op.time for op in ops if op.scope == name) for name in SCOPES}
    scopes = [
        ScopeReport(
            scope=name,
            time=time,
            share=time / whole if whole else 0.0,
            per_layer=time / layers if layers and name != "rest" else None,
        )
        for name, time in halves.items()
    ]
    terms = _added([op.terms for op in ops])
    moved = math.fsum(op.bytes for op in ops)
    return StepDetail(
        time=whole,
        sequences=float(step.prefill_sequences or step.decode_sequences),
        tokens=float(step.prefill_tokens or 1.0),
        context=float(step.prefill_context if step.prefill_sequences else step.decode_context),
        bound=max(terms, key=lambda name: terms[name]),
        terms=terms,
        parts=sorted(rows, key=lambda row: -row.time),
        scopes=scopes,
        work=[
            _work("matmul", [op for op in ops if op.kind in ("gemm", "grouped_gemm")]),
            _work("attention", [op for op in ops if op.kind in ("attention", "latent_attention", "recurrence")]),
            _work("all", ops),
        ],
        bandwidth_share=moved / whole / device.memory_bandwidth if whole else 0.0,
        roofs=roofs_of(setting),
        ops=ops,
    )


def steps_of(setting: Setting, found: Estimate, work: Workload) -> dict[str, StepDetail | None]:
    """The prefill pass and the decode step of an estimate with figures."""
    steps: dict[str, StepDetail | None] = {}
    if found.prefill is not None:
        steps["prefill_step"] = step_detail(setting, prefill_step(work, setting.layout), found.prefill)
    if found.decode is not None:
        context, _ = decode_contexts(setting.model, work, setting.profile)[-1]
        steps["decode_step"] = step_detail(setting, decode_step(work, setting.layout, context), found.decode)
    return steps
