"""Why this number: the formulas behind one figure, with the actual numbers in them.

Every line's `substituted` text evaluates to its `value`; the formula is taken from the function the engine ran.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

from rooflab import catalog, explain, fits, graph
from rooflab import estimate as est
from rooflab.api import derived
from rooflab.api.answers import A_PRICE, basis_of, header, run, scene_of
from rooflab.api.asks import ExplainAsk, ExplainReport, Line
from rooflab.api.detail import steps_of
from rooflab.api.lines import line, total, weighted
from rooflab.api.operator_lines import operator_lines
from rooflab.api.resolve import Setting, setting_of, workload_of
from rooflab.estimate import Estimate, Workload
from rooflab.graph import formulas as f
from rooflab.price import Priced, rates_of
from rooflab.units import InputError, nearest, shown
from rooflab.work import Step

_LISTED = 9
"""Operators named at most when one is not found."""


def answer_explain(ask: ExplainAsk) -> ExplainReport:
    """The formulas behind one number of an estimate or of a step."""
    setting = setting_of(ask)
    one = _Asked(ask, setting)
    name = ask.op.removeprefix("memory.")
    subject = _SUBJECTS.get(_SPELLED.get(name, name))
    if subject is not None:
        lines, basis = subject(one), _MEMORY.get(_SPELLED.get(name, name)) or one.basis
    else:
        item, step = _find(ask, setting)
        lines, basis = operator_lines(item, step, setting), item.basis
    last = lines[-1]
    return ExplainReport(
        **header(ask, ExplainReport, setting.notes),
        name=setting.model.name,
        subject=ask.op,
        value=last.value,
        unit=last.unit,
        lines=lines,
        leaves_out=list(setting.profile.leaves_out),
        basis=basis,
        refs=_refs(lines),
    )


_MEMORY = {"kv": "exact", "state": "exact", "weights": "exact", "workspace": "assumed", "memory": "assumed"}
"""Bases of what is counted rather than priced; the memory as a whole holds assumed parts."""


class _Asked:
    """A question about a total, and the estimate behind it, made once."""

    def __init__(self, ask: ExplainAsk, setting: Setting):
        self.ask, self.setting = ask, setting

    @cached_property
    def estimate(self) -> tuple[Estimate, Workload]:
        """Memory ignored, so that every number can be explained."""
        found, _ = run(self.ask, self.setting, ignore_memory=True, band=False)
        work, _ = workload_of(self.ask, self.setting.model)
        return found, work

    @property
    def basis(self) -> str:
        """Basis of a total: that of the step behind it."""
        found, _ = self.estimate
        return basis_of(found.prefill if self.ask.op == "ttft" else found.decode or found.prefill)


def _refs(lines: list[Line]) -> dict[str, str]:
    """Titles of the references the lines' sources name in back quotes."""
    known = catalog.refs()
    named = {part for item in lines for part in item.source.split("`")[1::2]}
    return {key: known[key].get("title", "") for key in sorted(named) if key in known}


def _step(ask: ExplainAsk, setting: Setting) -> Step:
    """The single step an operator is explained in: one of its own where a context is given, else that behind TTFT or TPOT."""
    if ask.context is not None and ask.phase == "prefill":
        new = ask.context - ask.cached
        return Step(prefill_sequences=ask.batch, prefill_tokens=new, prefill_context=ask.cached)
    if ask.context is not None:
        return Step(decode_sequences=ask.batch, decode_context=ask.context)
    work, _ = workload_of(ask, setting.model)
    if ask.phase == "prefill":
        return est.prefill_step(work, setting.layout)
    context, _ = est.decode_contexts(setting.model, work, setting.profile)[-1]
    return est.decode_step(work, setting.layout, context)


def _find(ask: ExplainAsk, setting: Setting) -> tuple[Priced, tuple[Priced, ...]]:
    """The operator of that name in the ask's step, and the whole step."""
    scene, rates = scene_of(setting), rates_of(setting.profile, setting.system.device.launch_time)
    step = scene.time(scene.operators(_step(ask, setting)), rates["mid"], detail=True)
    for item in step.priced:
        if item.name == ask.op:
            return item, step.priced
    names = [item.name for item in step.priced]
    listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    raise InputError(
        f"op: {shown(ask.op)} is not in the {ask.phase} step{nearest(ask.op, [*names, *_SUBJECTS])}; "
        f"it has {listed}; totals are {', '.join(_SUBJECTS)}"
    )


def _by_operator(priced: tuple[Priced, ...]) -> dict[str, float]:
    terms: dict[str, float] = {}
    for item in priced:
        terms[item.name] = terms.get(item.name, 0.0) + item.time
    return dict(sorted(terms.items(), key=lambda pair: -pair[1]))


def _ttft(one: _Asked) -> list[Line]:
    found, _ = one.estimate
    if found.prefill is None:
        return []
    what = "one pass over the prompts of the whole batch"
    first = total("traverse", _by_operator(found.prefill.priced), "s", what, "queueing and network are left out")
    layout = one.setting.layout
    arguments = (first.value, float(layout.pp), float(layout.microbatches))
    return [first, line("ttft", est.pipeline_prefill, arguments, "s")]


def _tpot(one: _Asked) -> list[Line]:
    found, work = one.estimate
    if found.mid is None or found.mid.tpot is None:
        raise InputError("tpot: a one-token answer has no time per output token; ask for an output of 2 or more")
    scene, rates = scene_of(one.setting), rates_of(one.setting.profile, one.setting.system.device.launch_time)
    lines: list[Line] = []
    shares: dict[str, tuple[float, float]] = {}
    sequences = est._decode_sequences(work, one.setting.layout)
    for context, weight in est.decode_contexts(one.setting.model, work, one.setting.profile):
        step = Step(decode_sequences=sequences, decode_context=context)
        priced = scene.time(scene.operators(step), rates["mid"], detail=True)
        title, name = f"step at {context:,.12g} tokens of context", f"step_{len(lines) + 1}"
        means = f"{title}, {weight:.1%} of the steps"
        one_step = total(
            name, _by_operator(priced.priced), "s", means, "every operator of the step", titles={name: title}
        )
        shares[name] = (weight, one_step.value)
        lines.append(one_step)
    titles = {each.quantity: each.title for each in lines}
    means = "mean over the answer's growing context"
    lines.append(weighted("tpot", shares, "s", means, "decode steps after the first token", titles=titles))
    if one.setting.layout.microbatches > one.setting.layout.pp:
        arguments = (lines[-1].value, float(one.setting.layout.pp), float(one.setting.layout.microbatches))
        lines.append(line("tpot", est.pipeline_decode, arguments, "s"))
    return lines


def _e2e(one: _Asked) -> list[Line]:
    found, work = one.estimate
    if found.mid is None or found.mid.tpot is None:
        return _ttft(one)
    return [line("e2e", est.end_to_end, (found.mid.ttft, found.mid.tpot, float(work.output)), "s")]


def _throughput(one: _Asked) -> list[Line]:
    found, work = one.estimate
    if found.mid is None:
        return []
    arguments = (float(work.batch * one.setting.layout.dp), float(work.output), found.mid.e2e)
    return [*_e2e(one), line("output_throughput", est.throughput, arguments, "token/s")]


def _cost(one: _Asked) -> list[Line]:
    found, work = one.estimate
    rent = one.setting.system.device_price
    if found.mid is None or rent is None:
        raise InputError(f"cost: no price is known for {one.setting.system.name}; {A_PRICE}")
    sequences, devices = float(work.batch * one.setting.layout.dp), float(one.setting.layout.devices())
    whole = (rent, devices, found.mid.e2e, sequences * (work.prompt + work.output), est.MILLION)
    first = (rent, devices, found.mid.ttft, sequences * work.prompt, est.MILLION)
    lines = [
        line("cost_all", est.cost_per_million, whole, "USD"),
        line("cost_input", est.cost_per_million, first, "USD"),
    ]
    if found.mid.tpot is not None:
        arguments = (rent, devices, found.mid.tpot, sequences, est.MILLION)
        lines.append(line("cost_output", est.cost_per_million, arguments, "USD"))
    return lines


def _energy(one: _Asked) -> list[Line]:
    found, work = one.estimate
    power = one.setting.system.device.power
    if found.mid is None or power is None:
        raise InputError(f"energy: no power is known for {one.setting.system.name}; give changes={{'power': '700 W'}}")
    tokens = float(work.batch * one.setting.layout.dp * work.output)
    arguments = (power, float(one.setting.layout.devices()), found.mid.e2e, tokens)
    return [line("energy_per_token", est.energy_per_token, arguments, "J")]


def _kv(one: _Asked) -> list[Line]:
    """Cache of the busiest device, one line for each kind of layer."""
    model, precision, layout = one.setting.model, one.setting.precision, one.setting.layout
    share = graph.stage_share(model, layout)
    layers: dict[tuple[Any, ...], float] = {}
    for cached in graph.cached_blocks(model, precision, layout, _end(one.ask), one.ask.batch):
        kind = (
            cached.what,
            getattr(cached.mixer, "window", 0),
            cached.sequences,
            cached.tokens,
            cached.elements,
            cached.size,
        )
        layers[kind] = layers.get(kind, 0.0) + cached.layers * share
    kinds = [kind[0] for kind in layers]
    terms: dict[str, tuple[float, float]] = {}
    lines: list[Line] = []
    for (what, window, *arguments), count in layers.items():
        label = f"layer_{what}" if kinds.count(what) == 1 else f"layer_{what}_{len(terms) + 1}"
        title = _CACHED[what] + (f", window {window:,}" if window else ", full" if kinds.count(what) > 1 else "")
        lines.append(line(label, f.cache_bytes, tuple(arguments), "byte", titles={label: title}))
        terms[label] = (count, lines[-1].value)
    if model.state_elements():
        lines += _state(one)
        terms["state"] = (1.0, lines[-1].value)
    means = "cache of all sequences at their full length on the busiest device"
    counts = "layers of one pipeline stage; recurrent state of all its layers"
    titles = {each.quantity: each.title for each in lines}
    return [*lines, weighted("kv", terms, "byte", means, counts, titles=titles)]


_CACHED = {"kv": "KV cache of a layer", "index": "index keys of a layer"}


def _state(one: _Asked) -> list[Line]:
    """Recurrent state of all sequences on the busiest device; none where no layer has any."""
    model, precision, layout = one.setting.model, one.setting.precision, one.setting.layout
    if not model.state_elements():
        return [total("state", {}, "byte", "recurrent state of all sequences", "no layer of this model has any")]
    step = graph.cut(model, precision, layout, Step(decode_sequences=one.ask.batch, decode_context=_end(one.ask)))
    elements = float(model.state_elements()) / layout.tp * graph.stage_share(model, layout)
    return [line("state", f.cache_bytes, (step.decode_sequences, 1.0, elements, step.state_size), "byte")]


def _end(ask: ExplainAsk) -> float:
    return float(ask.context or ask.prompt + ask.output)


def _weights(one: _Asked) -> list[Line]:
    """Weights of the busiest device, operator by operator."""
    used, step = one.setting.profile, Step(decode_sequences=one.ask.batch, decode_context=_end(one.ask))
    whole = used.counting == "weights"  # its step leaves out what memory holds
    operators = graph.operators(
        one.setting.model,
        one.setting.precision,
        one.setting.layout,
        step,
        counting="kernels" if whole else used.counting,
        outside=whole or used.outside,
    )
    share = graph.stage_share(one.setting.model, one.setting.layout)
    held = [(op, float(op.resident_bytes * op.count)) for op in operators if op.resident_bytes]
    terms = {op.name: size * share for op, size in held if op.part not in ("embedding", "head")}
    ends = [{op.name: size for op, size in held if op.part == part} for part in ("embedding", "head")]
    if one.setting.layout.pp > 1:  # table and head sit on different stages: the busiest has the larger
        ends = [max(ends, key=lambda end: math.fsum(end.values()))]
    for end in ends:
        terms.update(end)
    means = "weights resident on the busiest device"
    counts = "every tensor in its own format, scales included; routed experts all resident"
    return [total("weights", terms, "byte", means, counts)]


def _workspace(one: _Asked) -> list[Line]:
    """Activation memory by the profile's rule."""
    parts = fits.workspace_parts(
        one.setting.model,
        one.setting.precision,
        one.setting.layout,
        one.setting.profile,
        float(one.ask.batch),
        float(one.ask.prompt),
        "prefill",
    )
    lines = [line(part.quantity, part.formula, part.arguments, "byte") for part in parts]
    if len(lines) == 1:
        return lines
    terms = {each.quantity: each.value for each in lines}
    means = f"activation memory by the {one.setting.profile.name} profile's rule"
    return [*lines, total("workspace", terms, "byte", means, "an assumption, not an allocator")]


def _memory(one: _Asked) -> list[Line]:
    memory = one.estimate[0].memory
    kinds = ("weights", "kv", "workspace", "reserve")
    terms = {name: float(getattr(memory, name)) for name in kinds}
    means = f"bytes on the busiest device, of {explain.figure(float(memory.capacity))}"
    return [total("memory", terms, "byte", means, "paging, fragmentation and quantisation buffers are left out")]


def _per_device(one: _Asked) -> list[Line]:
    lines = _throughput(one)
    arguments = (lines[-1].value, float(one.setting.layout.devices()))
    return [*lines, line("throughput_per_device", derived.per_device, arguments, "token/s")]


def _per_user(one: _Asked) -> list[Line]:
    lines = _tpot(one)
    return [*lines, line("tokens_per_second_per_user", derived.per_user, (lines[-1].value,), "token/s")]


def _decoding(one: _Asked) -> list[Line]:
    lines, (_, work) = _tpot(one), one.estimate
    arguments = (float(work.batch * one.setting.layout.dp), 1.0, lines[-1].value)
    return [*lines, line("decode_throughput", est.throughput, arguments, "token/s")]


def _bandwidth_share(one: _Asked) -> list[Line]:
    found, work = one.estimate
    steps = steps_of(one.setting, found, work)
    step = steps.get("decode_step") or steps.get("prefill_step")
    if step is None:
        return []
    moved = {op.name: op.bytes for op in sorted(step.ops, key=lambda op: -op.bytes)}
    first = total("moved", moved, "byte", "bytes the step moves on one device", "every operator of the step")
    arguments = (first.value, step.time, step.roofs.memory_bandwidth)
    return [first, line("bandwidth_share", derived.bandwidth_share, arguments, "1")]


_SUBJECTS: dict[str, Callable[[_Asked], list[Line]]] = {
    "ttft": _ttft,
    "tpot": _tpot,
    "e2e": _e2e,
    "output_throughput": _throughput,
    "cost": _cost,
    "energy": _energy,
    "kv": _kv,
    "state": _state,
    "weights": _weights,
    "workspace": _workspace,
    "memory": _memory,
    "throughput_per_device": _per_device,
    "tokens_per_second_per_user": _per_user,
    "decode_throughput": _decoding,
    "bandwidth_share": _bandwidth_share,
}
_SPELLED = {"energy_per_token": "energy", "cost_per_million_tokens": "cost", "used": "memory"}
"""Other names that totals have in reports."""
__all__ = ["answer_explain", "basis_of"]
