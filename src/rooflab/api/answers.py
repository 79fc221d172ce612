"""One function per kind of question; each returns its report."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab import __version__, chip, fits, graph, hf
from rooflab.api.asks import (
    BlockReport,
    ChipAsk,
    ChipReport,
    EstimateAsk,
    EstimateReport,
    FiguresReport,
    FitAsk,
    FitReport,
    InspectAsk,
    InspectReport,
    MemoryReport,
    StepAsk,
    StepReport,
)
from rooflab.api.detail import op_report, roofs_of, steps_of
from rooflab.api.quantities import units_of
from rooflab.api.resolve import (
    Setting,
    cut_of,
    model_of,
    named_prices,
    precision_of,
    profile_of,
    setting_of,
    system_of,
    workload_of,
)
from rooflab.api.stored import stored
from rooflab.estimate import Estimate, Figures, Scene, estimate
from rooflab.fits import Memory
from rooflab.model import Attention, Block, Dense, Indexer, LatentAttention, Model, MoE, Recurrent
from rooflab.price import StepTime, rates_of
from rooflab.work import Layout, Precision, Step, size_of

A_PRICE = "set the price of a device, such as price=2 USD/h"
"""How to give a machine a price, on the command line and in Python."""

TRAINING_BYTES = 18
"""Bytes per parameter of mixed-precision training with Adam: 2 copy + 4 master + 4 gradients + 8 moments (B-084)."""


def header(ask: Any, report: type, notes: Any) -> dict[str, Any]:
    """Fields every report starts with."""
    plain = msgspec.to_builtins(ask)
    return {"version": __version__, "ask": plain, "notes": list(dict.fromkeys(notes)), "units": units_of(report)}


def _index_name(indexer: Indexer | None) -> str:
    if indexer is None:
        return ""
    return f", sparse top {indexer.topk:,}" + ("" if indexer.owns_keys else " chosen by another layer")


def mixer_name(block: Block) -> str:
    mixer = block.mixer
    if isinstance(mixer, Attention):
        kind = "MQA" if mixer.kv_heads == 1 else "MHA" if mixer.kv_heads == mixer.heads else "GQA"
        window = f", window {mixer.window:,}" if mixer.window else ""
        extra = ", shares KV" if mixer.shares_kv else ", cross" if mixer.cross else ""
        index = _index_name(mixer.indexer)
        return f"{kind} {mixer.heads}/{mixer.kv_heads} × {mixer.head_dim}{window}{extra}{index}"
    if isinstance(mixer, LatentAttention):
        latent = f"{mixer.kv_rank}+{mixer.rope_dim}"
        return f"MLA {mixer.heads} heads, latent {latent}{_index_name(mixer.indexer)}"
    if isinstance(mixer, Recurrent):
        return f"{mixer.form.replace('_', ' ')} {mixer.heads} × {mixer.key_dim} × {mixer.value_dim}"
    return "none"


def _ffn_name(block: Block) -> str:
    ffn = block.ffn
    if isinstance(ffn, Dense):
        return f"dense {ffn.width:,}" + ("" if ffn.gated else ", not gated")
    if isinstance(ffn, MoE):
        shared = f", shared {ffn.shared_width:,}" if ffn.shared_width else ""
        return f"MoE {ffn.experts} × {ffn.width:,}, top {ffn.topk}{shared}"
    return "none"


def inspect(ask: InspectAsk) -> InspectReport:
    """Counts of a model at a context (requirements A-030–A-037, B-025, B-026, B-084)."""
    model = model_of(ask.model)
    precision, notes = precision_of(model, ask)
    whole = Layout()

    def cache(context: float) -> float:
        return graph.kv_bytes_per_device(model, precision, whole, context, 1.0)

    context = float(ask.context)
    blocks = []
    for block in model.blocks:
        alone = msgspec.structs.replace(model, blocks=(msgspec.structs.replace(block, count=1),))
        grown = graph.kv_bytes_per_device(alone, precision, whole, context, 1.0)
        before = graph.kv_bytes_per_device(alone, precision, whole, context - 1.0, 1.0)
        blocks.append(
            BlockReport(
                count=block.count,
                mixer=mixer_name(block),
                ffn=_ffn_name(block),
                params=block.params(model.hidden),
                kv_bytes_per_token=(grown - before) * block.count,
                state_bytes=float(alone.state_elements() * block.count) * size_of(precision.state),
            )
        )
    weight_bytes = graph.total_weight_bytes(model, precision)
    checkpoint, more = stored(model, weight_bytes)
    return InspectReport(
        **header(ask, InspectReport, [*model.notes, *notes, *more]),
        name=model.name,
        params=model.params(),
        active_params=model.active_params(),
        active_params_without_embedding=model.active_params_without_embedding(),
        other_params={"mtp": model.mtp_params, "vision": model.vision_params},
        layers=model.layers,
        context=ask.context,
        max_context=model.max_context,
        kv_bytes_per_token=cache(context) - cache(context - 1.0),
        kv_bytes=cache(context) * ask.batch,
        kv_bytes_one_page_size=_one_page_size(model, precision) * context * ask.batch,
        state_bytes_per_sequence=float(model.state_elements()) * size_of(precision.state),
        weight_bytes=weight_bytes,
        training_bytes=float(TRAINING_BYTES * model.params()),
        precision={name: getattr(precision, name) for name in precision.__struct_fields__ if name != "metadata"},
        blocks=blocks,
        checkpoint=checkpoint,
        dimensions=_dimensions(ask.model, model),
        source=model.source,
    )


def _dimensions(source: str | dict[str, Any], model: Model) -> dict[str, int]:
    """Figures of a config that can be changed; what it leaves to its class is the model's."""
    found, mixer = hf.dimensions(source), model.blocks[0].mixer
    if "num_attention_heads" in found and isinstance(mixer, Attention):
        found = {"head_dim": mixer.head_dim, "num_key_value_heads": mixer.kv_heads, **found}
    return found


def _one_page_size(model: Model, precision: Precision) -> float:
    """Cache bytes per token when every attention layer that caches gets pages for the whole context, windows or not."""
    unlimited = [
        msgspec.structs.replace(b, mixer=msgspec.structs.replace(b.mixer, window=0))
        if isinstance(b.mixer, (Attention, LatentAttention))
        else b
        for b in model.blocks
    ]
    whole = msgspec.structs.replace(model, blocks=tuple(unlimited))
    return graph.kv_bytes_per_device(whole, precision, Layout(), 1.0, 1.0)


def memory_report(memory: Memory) -> MemoryReport:
    """Memory as plain floats."""
    return MemoryReport(**{name: float(getattr(memory, name)) for name in MemoryReport.__struct_fields__})


def _figures(figures: Figures | None) -> FiguresReport | None:
    if figures is None:
        return None
    return FiguresReport(**{name: getattr(figures, name) for name in FiguresReport.__struct_fields__})


def run(ask: Any, setting: Setting, **more: Any) -> tuple[Estimate, list[str]]:
    """Estimate of a loaded ask, with the notes of its workload."""
    work, notes = workload_of(ask, setting.model)
    found = estimate(
        setting.model,
        setting.precision,
        setting.layout,
        setting.system,
        work,
        setting.profile,
        pricer=setting.pricer,
        **more,
    )
    return found, notes


def answer_estimate(ask: EstimateAsk) -> EstimateReport:
    """Fit, times, throughput, cost and energy."""
    setting = setting_of(ask)
    found, more = run(ask, setting, ignore_memory=ask.ignore_memory or ask.concurrency is not None)
    priced = _money_notes(setting) if found.mid is not None else []  # what does not fit has neither
    notes = [*setting.notes, *more, *priced]
    head: dict[str, Any] = {
        "name": setting.model.name,
        "system": setting.system.name,
        "profile": setting.profile.name,
        "devices": int(setting.layout.devices()),
        "fits": found.fits,
        "memory": memory_report(found.memory),
    }
    if ask.concurrency is not None:
        from rooflab.api.loop import loop_fields

        fields, why = loop_fields(ask, setting, found)
        return EstimateReport(**header(ask, EstimateReport, [*notes, *why]), **{**head, **fields})
    if ask.max_batched_tokens is not None or ask.varied:
        notes.append(
            "max_batched_tokens and varied say something of a closed loop only: give concurrency, or leave them out"
        )
    if found.mid is None:
        would, _ = run(ask, setting, ignore_memory=True, band=False)
        waits = _bounds(would)
        said = ", ".join(f"{phase} would wait most for {_WAITS.get(what, what)}" for phase, what in waits.items())
        notes.append(
            "it does not fit, so no performance is shown; fit says what is over, ignore_memory shows it anyway"
            + (f"; if it fitted, {said}" if said else "")
        )
        return EstimateReport(**header(ask, EstimateReport, notes), **head, would_bound=waits or None)
    if not found.fits:
        notes.append("it does not fit: these figures ignore memory")
    mid, phases = found.mid, {"prefill": found.prefill, "decode": found.decode}
    steps: dict[str, Any] = steps_of(setting, found, workload_of(ask, setting.model)[0]) if ask.detail else {}
    return EstimateReport(
        **header(ask, EstimateReport, notes),
        **head,
        ttft=mid.ttft,
        tpot=mid.tpot,
        e2e=mid.e2e,
        output_throughput=mid.output_throughput,
        decode_throughput=mid.decode_throughput,
        throughput_per_device=mid.throughput_per_device,
        tokens_per_second_per_user=None if mid.tpot is None else 1.0 / mid.tpot,
        bound=_bounds(found),
        shares={name: step.share("part") for name, step in phases.items() if step is not None},
        cost_per_million_tokens=found.cost,
        energy_per_token=found.energy,
        low=_figures(found.low),
        high=_figures(found.high),
        basis=basis_of(found.decode or found.prefill),
        basis_shares={name: basis_shares(step) for name, step in phases.items() if step is not None},
        **steps,
    )


_WAITS = {
    "compute": "arithmetic",
    "weight": "reading weights",
    "kv": "reading the KV cache",
    "activation": "moving activations",
    "comm": "exchange between devices",
    "overhead": "launches",
}


def _bounds(found: Estimate) -> dict[str, str]:
    """What takes most of each phase's time."""
    phases = {"prefill": found.prefill, "decode": found.decode}
    return {name: next(iter(step.share("bound"))) for name, step in phases.items() if step is not None}


def basis_shares(step: StepTime) -> dict[str, float]:
    """Share of a step's time by the basis of its operators' prices, largest first."""
    shares: dict[str, float] = {}
    for item in step.priced:
        shares[item.basis] = shares.get(item.basis, 0.0) + item.time
    ordered = sorted(shares.items(), key=lambda pair: -pair[1])
    return {name: time / step.time if step.time else 0.0 for name, time in ordered}


def basis_of(step: StepTime | None) -> str:
    """Basis of a total: that of the operators with the largest share of its time."""
    return "roofline" if step is None else next(iter(basis_shares(step)), "roofline")


def _money_notes(setting: Setting) -> list[str]:
    """Where price and energy come from, or that they are unknown."""
    system = setting.system
    notes = []
    if system.device_price is None:
        notes.append(f"no price is known for {system.device.name}, so no cost: {A_PRICE}")
    else:
        notes.append(f"price: {system.device_price_basis or 'catalog'}")
    if system.device.power is None:
        notes.append(f"no power is known for {system.device.name}, so no energy")
    else:
        notes.append("energy counts every device at its rated power: an upper bound for the devices")
    return notes


def scene_of(setting: Setting) -> Scene:
    """The pricing scene of a setting."""
    return Scene(
        model=setting.model,
        precision=setting.precision,
        layout=setting.layout,
        system=setting.system,
        profile=setting.profile,
        pricer=setting.pricer,
    )


def step_of(ask: StepAsk) -> Step:
    """The step a step question describes."""
    if ask.phase == "prefill":
        return Step(prefill_sequences=ask.batch, prefill_tokens=ask.context, prefill_context=ask.cached)
    if ask.phase == "decode":
        return Step(decode_sequences=ask.batch, decode_context=ask.context)
    return Step(
        prefill_sequences=ask.prefill_batch,
        prefill_tokens=ask.prefill_tokens,
        prefill_context=ask.cached,
        decode_sequences=ask.batch,
        decode_context=ask.context,
    )


def answer_step(ask: StepAsk) -> StepReport:
    """One pass, operator by operator (requirements A-001, A-007, A-008)."""
    setting = setting_of(ask)
    scene, rates = scene_of(setting), rates_of(setting.profile, setting.system.device.launch_time)
    operators = scene.operators(step_of(ask))
    mid = scene.time(operators, rates["mid"], detail=True)
    ends = sorted(scene.end(operators, mid, rates, end) for end in ("low", "high"))
    return StepReport(
        **header(ask, StepReport, setting.notes),
        name=setting.model.name,
        system=setting.system.name,
        profile=setting.profile.name,
        phase=ask.phase,
        time=mid.time,
        low=ends[0],
        high=ends[1],
        bound=next(iter(mid.share("bound")), "trivial"),
        shares=mid.share("part"),
        roofs=roofs_of(setting),
        ops=[op_report(item, mid.time, setting.profile.combine) for item in mid.priced],
    )


def answer_chip(ask: ChipAsk) -> ChipReport:
    """The chip roofline on the user's own machine (requirements C, D-900)."""
    named_prices(ask.prices)
    model, used = model_of(ask.model), profile_of(ask)
    precision, notes = precision_of(model, ask, used)
    system = system_of(ask.on, ask.changes)
    layout, more = cut_of(ask, model, system, used)
    found = chip.report(
        model,
        system,
        batch=ask.batch,
        context=ask.context,
        precision=precision,
        layout=layout,
        profile=used,
        prompt=float(min(ask.prompt or ask.context, ask.context)),
        flops_multiplier=ask.flops_multiplier,
        bandwidth_multiplier=ask.bandwidth_multiplier,
    )
    data = msgspec.to_builtins(found)
    return ChipReport(
        **header(ask, ChipReport, [*model.notes, *notes, *more, *data.pop("notes", [])]),
        name=model.name,
        system=system.name,
        chip=data,
    )


def answer_fit(ask: FitAsk) -> FitReport:
    """Memory and what would help; see `api.remedies`."""
    from rooflab.api.remedies import changes_that_fit, largest_batch, largest_context, nothing_helps

    setting = setting_of(ask)
    found, more = run(ask, setting, ignore_memory=False, band=False)
    memory, devices = found.memory, int(setting.layout.devices())
    kinds = {name: getattr(memory, name) for name in ("weights", "kv", "state", "workspace", "reserve")}
    kinds["kv"] -= memory.state
    work, _ = workload_of(ask, setting.model)
    uncut = fits.memory(
        setting.model, setting.precision, Layout(), setting.system, setting.profile, prompt=work.prompt,
        batch=work.batch * setting.layout.dp, context=work.prompt + work.output,
    )  # fmt: skip
    whole = {name: float(getattr(uncut, name)) for name in ("weights", "kv", "state")}
    changes = [] if memory.fits else changes_that_fit(ask)
    if not (memory.fits or changes):
        more = [*more, nothing_helps(memory, int(setting.layout.replica_devices()))]
    return FitReport(
        **header(ask, FitReport, [*setting.notes, *more]),
        name=setting.model.name,
        system=setting.system.name,
        devices=devices,
        fits=bool(memory.fits),
        memory=memory_report(memory),
        largest=max(kinds, key=lambda name: kinds[name]),
        max_batch=largest_batch(ask, setting),
        max_context=largest_context(ask, setting),
        whole={**whole, "total": math.fsum(whole.values())},
        held=(memory.weights + memory.kv + memory.state) * devices,
        kv_tokens=_cache_tokens(ask, setting, memory),
        changes=changes,
    )


def _cache_tokens(ask: FitAsk, setting: Setting, memory: Memory) -> float:
    """Tokens of cache, in sequences of the ask's length, that one replica holds beside weights and workspace."""
    model, precision, layout, length = setting.model, setting.precision, setting.layout, float(ask.prompt + ask.output)
    one = graph.kv_bytes_per_device(model, precision, layout, length, 1.0)
    one += graph.state_bytes_per_device(model, precision, layout, 1.0)
    room = max(memory.capacity - memory.weights - memory.workspace - memory.reserve, 0.0)
    return room / one * length * layout.attention_dp if one else 0.0
