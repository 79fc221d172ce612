"""The tables, guidance and notes of the chip report: the same numbers, said in words (C-030–C-035, D-233–D-239)."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab.chip import roofline as r
from rooflab.chip.memory import MemoryBudget
from rooflab.chip.roofline import Chip
from rooflab.model import Model
from rooflab.system import Device
from rooflab.units import format as shown
from rooflab.work import FORMATS, Precision, size_of

Number = Any

STEP_FORMULA = "t_step = N·b/W + 2·N_active·B/C + B·S·kv/W"
"""What the plots of step latency print above them."""


class RegimeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One term of the time per token, where the context is short, where it is long, and now."""

    name: str
    short_context: str
    long_context: str
    value: float | None
    """Seconds; None for the row that names the bottleneck."""
    text: str


class FormulaRow(msgspec.Struct, frozen=True, kw_only=True):
    """One formula with its numbers put in."""

    symbol: str
    formula: str
    with_numbers: str
    meaning: str
    value: float | None
    """None where there is no such number; `text` says why."""
    unit: str
    text: str


def regime_table(chip: Chip, batch: float, context: float) -> tuple[RegimeRow, ...]:
    """Compute, weight fetch, cache fetch and the bottleneck, per token (C-033)."""
    token = r.per_token_latency(chip, batch, context)
    return (
        _regime("compute (t_com)", "2·N_active/C", "2·N_active/C", token.compute),
        _regime("weight fetch", "N·b/(W·B)", "N·b/(W·B), shared by the batch", token.weight),
        _regime("KV fetch", "S·kv/W, small beside the weights", "S·kv/W, no batch shares it", token.kv),
        RegimeRow(
            name="bottleneck",
            short_context="weights below B*, compute above",
            long_context="KV cache beyond L*",
            value=None,
            text=r.bound_regime(chip, batch, context),
        ),
    )


def _regime(name: str, short: str, long: str, value: float) -> RegimeRow:
    return RegimeRow(name=name, short_context=short, long_context=long, value=value, text=shown(value, "s"))


def formula_table(chip: Chip, context: float) -> tuple[FormulaRow, ...]:
    """AI, B*, B* with N_total / N_active, L* and B_knee: formula, numbers, meaning and value (C-035, D-238)."""
    model, rate, width = chip.model, plain(chip.flop_rate), plain(chip.memory_bandwidth)
    dense, critical, balance = r.dense_critical_batch(chip), r.critical_batch(chip), r.balance_context(chip)
    knee = r.knee_batch(chip, context)
    total, active = plain(model.params), plain(model.active_params)
    grows = math.isfinite(balance)
    ratio = f"{plain(context)} / {plain(balance)}" if grows else "0"
    return (
        _formula(
            "AI", "C / W", f"{rate} / {width}", "FLOP the chip can do per byte it reads",
            r.arithmetic_intensity(chip), "FLOP/byte",
        ),
        _formula(
            "B*", "C·b / (2·W)", f"{rate} · {plain(chip.weight_size)} / (2 · {width})",
            "batch at which weights take as long to read as to multiply by, all of them active", dense, "1",
        ),
        _formula(
            "B*_moe", "B* · N_total / N_active", f"{plain(dense)} · {total} / {active}",
            "the same where a token uses only some of the weights", critical, "1",
        ),
        _formula(
            "L*", "2·N_active·W / (C·kv)",
            f"2 · {active} · {width} / ({rate} · {plain(model.kv_per_token)})" if grows else "no cache",
            "context whose cache takes as long to read as its token to compute",
            balance if grows else None, "token", "unlimited",
        ),
        _formula(
            "B_knee", "B*_moe / (1 − S/L*)", f"{plain(critical)} / (1 − {ratio})",
            "batch at which compute catches up with weights and cache together", knee, "1", "no knee",
        ),
    )  # fmt: skip


def _formula(
    symbol: str, formula: str, numbers: str, meaning: str, value: float | None, unit: str, absent: str = ""
) -> FormulaRow:
    text = absent if value is None else shown(value, unit)
    return FormulaRow(
        symbol=symbol, formula=formula, with_numbers=numbers, meaning=meaning, value=value, unit=unit, text=text
    )


def plain(x: float) -> str:
    """A number as it goes into a formula: 12 significant digits, no separators."""
    return f"{x:.12g}".replace("e+", "e")


def guidance(chip: Chip, batch: float, context: float, memory_batch: float, fits: bool) -> str:
    """One paragraph on picking a batch and a context, with the numbers (C-034, D-239)."""
    critical, balance = r.critical_batch(chip), r.balance_context(chip)
    good = r.good_batch(chip).effective
    parts = [
        f"Aim for a batch of about 2 × B* = {shown(good, '1')}. Well below B* = {shown(critical, '1')} doubling the "
        "batch nearly halves the time and cost of a token while the cache is small; "
        f"from 3 × B* = {shown(3.0 * critical, '1')} on no batch saves more than a quarter."
    ]
    parts.append(_context_advice(chip, context, balance))
    parts.append(_memory_advice(batch, context, memory_batch, good, fits))
    return " ".join(parts)


def _context_advice(chip: Chip, context: float, balance: float) -> str:
    if math.isinf(balance):
        return "No cache grows with the context, so the context sets no limit."
    share = f"{100.0 * r.utilization_at(chip, context):.3g} %"
    ceiling = shown(balance, "token", 4)
    if context < balance:
        knee = shown(r.knee_batch(chip, context), "1")
        return (
            f"Keep the context below L* = {ceiling}: at {shown(context, 'token')} large batches approach {share} of "
            f"the peak rate, and compute catches up with memory at a batch of {knee}."
        )
    return (
        f"The context of {shown(context, 'token')} is past L* = {ceiling}: reading the cache outweighs compute at "
        f"every batch, and large batches approach {share} of the peak rate; a shorter context or a smaller cache helps."
    )


def _memory_advice(batch: float, context: float, cap: float, good: float, fits: bool) -> str:
    if not fits:
        return "The weights alone exceed one device's memory in this layout: use more devices or a narrower format."
    if math.isinf(cap):
        return "Nothing is kept per sequence, so memory sets no limit on the batch."
    if cap < 1.0:
        return f"Memory does not hold even one sequence of {shown(context, 'token')}: shorten the context or add devices."
    limit = f"Memory holds at most {shown(cap, '1')} sequence{'s' if cap > 1.0 else ''} of {shown(context, 'token')}"
    if cap < batch:
        return f"{limit}, fewer than the batch of {shown(batch, '1')}: shorten the context or add devices."
    if cap < good:
        return f"{limit}: it, and not compute, limits the batch."
    return f"{limit}, so that 2 × B* fits."


def sparsity_hint(chip: Chip) -> str | None:
    """What a mixture of experts changes, with its own numbers (C-032, D-237); None for dense models."""
    model = chip.model
    if not model.params > model.active_params:
        return None
    return (
        f"A token uses one weight in {shown(model.sparsity, '1')}, so B* is {shown(model.sparsity, '1')} times the dense one: "
        f"{shown(r.dense_critical_batch(chip), '1')} → {shown(r.critical_batch(chip), '1')}."
    )


def caption(chip: Chip, base: Chip, batch: float, context: float, flops: float, bandwidth: float) -> str:
    """The setting in one line, the unscaled chip's figures in brackets (D-233)."""
    balance = r.balance_context(chip)
    ai, base_ai = r.arithmetic_intensity(chip), r.arithmetic_intensity(base)
    parts = [
        f"S = {shown(context, 'token')}",
        f"B = {shown(batch, '1')}",
        f"C = {shown(chip.flop_rate, 'FLOP/s')} (×{flops:g})",
        f"W = {shown(chip.memory_bandwidth, 'byte/s')} (×{bandwidth:g})",
        f"AI = {shown(ai, 'FLOP/byte')} ({shown(base_ai, 'FLOP/byte')})",
        f"B* = {shown(r.critical_batch(chip), '1')} ({shown(r.critical_batch(base), '1')})",
    ]
    if math.isfinite(balance):
        parts += [f"L* = {shown(balance, 'token', 4)}", f"S/L* = {context / balance:.3g}"]
    return " · ".join(parts)


def notes(
    model: Model, precision: Precision, device: Device, chip: Chip, context: float, budget: MemoryBudget, counted: str
) -> tuple[str, ...]:
    """What the view assumes and leaves out, and what is particular about this model on this device (C-017)."""
    found = [
        "Peak roofline: no efficiency factor, so reading the weights takes exactly as long as multiplying by them at "
        "B*. Communication and the cut over devices are left out: one device is taken to hold the whole model.",
        "Left out: embedding, output head, norms, attention scores, activation traffic and launch time. "
        "Weights, compute and cache are added, not overlapped. Every weight is read in every step, which overstates "
        "mixtures of experts at small batches.",
        f"Memory is counted as the {counted} profile does, for the layout: "
        + (
            f"{shown(budget.reserve, 'byte')} of the device are kept for the runtime."
            if budget.reserve
            else "nothing is kept for a runtime."
        ),
    ]
    found += [note for note in dict.fromkeys(_rate_notes(chip, precision, device)) if note]
    kv = chip.model
    if abs(kv.kv_per_token - kv.kv_growth) > 1e-9 * max(kv.kv_per_token, kv.kv_growth):
        found.append(
            f"At {shown(context, 'token')} a step reads on average {shown(kv.kv_per_token, 'byte')} per cached token, "
            f"and the cache grows by {shown(kv.kv_growth, 'byte')} with the next: windows, sparse selections or shared "
            "caches make them differ. L* and the curves over the context use the average at this context."
        )
    state = float(model.state_elements()) * size_of(precision.state)
    if state:
        found.append(
            f"Each sequence keeps a recurrent state of {shown(state, 'byte')}: it counts as memory; "
            "its traffic is left out."
        )
    if model.max_context and context > model.max_context:
        found.append(f"The model's config allows {shown(float(model.max_context), 'token')}, fewer than asked for.")
    return tuple(found)


def _rate_notes(chip: Chip, precision: Precision, device: Device) -> list[str | None]:
    """What the device runs narrower formats as, for the formats this model's layers use."""
    formats = [precision.attention, precision.ffn]
    if chip.model.params > chip.model.active_params:
        formats.append(precision.expert)
    return [device.rate_note(FORMATS[each].rate) for each in formats]
