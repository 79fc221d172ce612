"""Everything the chip view shows, for one model on one machine at one batch and context."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab import num
from rooflab.chip import memory as m
from rooflab.chip import roofline as r
from rooflab.chip import tables as t
from rooflab.chip.memory import MemoryBudget
from rooflab.chip.roofline import Chip, Latency, Sensitivity
from rooflab.chip.tables import FormulaRow, RegimeRow
from rooflab.model import Model
from rooflab.profiles import Profile
from rooflab.system import System
from rooflab.units import InputError, parse, parse_count
from rooflab.work import Layout, Precision

Number = Any
MOST_BATCHES = 17
"""Doublings of a curve over the batch at most: 1 to 65,536."""
MEMORY_BATCHES = 1024.0  # count
"""Where the bars of memory over the batch end, unless the report's own batch is larger."""
NEAR_BALANCE = (0.25, 0.5, 0.75, 0.9, 0.97)
"""Shares of L* at which the knee is drawn besides, for it grows fastest there."""


class KneePoint(msgspec.Struct, frozen=True, kw_only=True):
    """B_knee at one context."""

    context: float
    batch: float | None
    """None at or past L*."""


class CostCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Time per token against the batch at one multiple of L*."""

    ratio: float
    context: float
    points: tuple[Latency, ...]


class Curves(msgspec.Struct, frozen=True, kw_only=True):
    """The data of every plot; those over the batch are at the report's context and the other way round.

    Beside the standard points each holds the report's own, and those over the batch go on until they cover its good batch.
    """

    step_latency: tuple[Latency, ...]
    token_latency: tuple[Latency, ...]
    cost_at_context: tuple[CostCurve, ...]
    """At S/L* = 0.25, 0.5, 1, 2 and 5; empty where L* is unlimited."""
    knee: tuple[KneePoint, ...]
    memory_vs_context: tuple[MemoryBudget, ...]
    memory_vs_batch: tuple[MemoryBudget, ...]
    flops_sensitivity: tuple[Sensitivity, ...]
    """Of the unscaled chip, so that the report's multipliers are markers on it."""
    bandwidth_sensitivity: tuple[Sensitivity, ...]


class ChipReport(msgspec.Struct, frozen=True, kw_only=True):
    """The chip view: figures, tables, curves and words."""

    model: str
    system: str
    device: str
    batch: float
    context: float
    flops_multiplier: float
    bandwidth_multiplier: float
    chip: Chip
    """With the multipliers applied; every number below is of it unless it says base."""
    base: Chip
    intensity: float
    """AI, FLOP/byte."""
    base_intensity: float
    critical_batch: float
    """B*, N_total / N_active included."""
    base_critical_batch: float
    dense_critical_batch: float
    sparsity: float
    balance_context: float | None
    """L* in tokens; None where nothing is cached per token."""
    context_ratio: float
    """S / L*."""
    knee_batch: float | None
    max_context: float | None
    """What the model's config allows; None where it does not say."""
    regime: str
    good_batch: float
    good_batch_reason: str
    good_context: float | None
    good_context_reason: str
    utilization: float
    step: Latency
    token: Latency
    memory: MemoryBudget
    memory_batch: float | None
    """Sequences that fit beside weights, buffers and reserve; None where nothing is kept per sequence."""
    regimes: tuple[RegimeRow, ...]
    formulas: tuple[FormulaRow, ...]
    curves: Curves
    step_formula: str = t.STEP_FORMULA
    caption: str
    sparsity_hint: str | None
    guidance: str
    notes: tuple[str, ...]


def report(
    model: Model,
    system: System,
    *,
    batch: Number,
    context: Number,
    precision: Precision | None = None,
    layout: Layout | None = None,
    flops_multiplier: Number = 1.0,
    bandwidth_multiplier: Number = 1.0,
    profile: Profile = m.ENVELOPE,
    prompt: Number | None = None,
) -> ChipReport:
    """The chip view of `model` on one device of `system`, decoding `batch` sequences of `context` tokens.

    The multipliers change the device's FLOP rate and memory bandwidth, not its memory. The layout, the profile and the
    prompt only decide what one device holds: None puts the whole model on one device, and sizes buffers for decoding alone.
    """
    batch = float(parse_count(batch, "batch"))
    context = float(parse_count(context, "context", dimension="token"))
    flops = _multiplier(flops_multiplier, "flops_multiplier")
    bandwidth = _multiplier(bandwidth_multiplier, "bandwidth_multiplier")
    precision, layout = precision or Precision(), layout or Layout()
    base = r.of(model, precision, system.device, context)
    chip = base.scaled(flops, bandwidth)
    good = r.good_batch(chip)
    held = {"profile": profile, "prompt": prompt}
    budget = m.memory_budget(model, precision, layout, system, batch=batch, context=context, **held)
    cap = m.memory_batch(model, precision, layout, system, context, **held)
    return ChipReport(
        model=model.name,
        system=system.name,
        device=system.device.name,
        flops_multiplier=flops,
        bandwidth_multiplier=bandwidth,
        **_figures(chip, base, batch, context),
        max_context=float(model.max_context) if model.max_context else None,
        memory=budget,
        memory_batch=_finite(cap),
        regimes=t.regime_table(chip, batch, context),
        formulas=t.formula_table(chip, context),
        curves=Curves(
            **_rate_curves(chip, base, batch, context),
            memory_vs_context=m.memory_budget_vs_context(
                model, precision, layout, system, batch=batch, contexts=_with(r.CONTEXTS, context), profile=profile,
                output=None if prompt is None else context - num.minimum(prompt, context),
            ),
            memory_vs_batch=m.memory_budget_vs_batch(
                model, precision, layout, system, context=context, **held,
                batches=_with(_doublings(min(good.effective, MEMORY_BATCHES)), batch),
            ),
        ),
        caption=t.caption(chip, base, batch, context, flops, bandwidth),
        sparsity_hint=t.sparsity_hint(chip),
        guidance=t.guidance(chip, batch, context, cap, budget.weights <= budget.budget),
        notes=t.notes(model, precision, system.device, chip, context, budget, profile.name),
    )  # fmt: skip


def _figures(chip: Chip, base: Chip, batch: float, context: float) -> dict[str, Any]:
    """The fields of the report that follow from the chip alone."""
    good, reach = r.good_batch(chip), r.good_context(chip, context)
    return {
        "batch": batch,
        "context": context,
        "chip": chip,
        "base": base,
        "intensity": r.arithmetic_intensity(chip),
        "base_intensity": r.arithmetic_intensity(base),
        "critical_batch": r.critical_batch(chip),
        "base_critical_batch": r.critical_batch(base),
        "dense_critical_batch": r.dense_critical_batch(chip),
        "sparsity": chip.model.sparsity,
        "balance_context": _finite(reach.ceiling),
        "context_ratio": context / reach.ceiling,
        "knee_batch": r.knee_batch(chip, context),
        "regime": r.bound_regime(chip, batch, context),
        "good_batch": good.effective,
        "good_batch_reason": good.reason,
        "good_context": _finite(reach.ceiling),
        "good_context_reason": reach.reason,
        "utilization": reach.utilization,
        "step": r.step_latency(chip, batch, context),
        "token": r.per_token_latency(chip, batch, context),
    }


def _rate_curves(chip: Chip, base: Chip, batch: float, context: float) -> dict[str, Any]:
    """Every plot that follows from the chip alone."""
    balance = r.balance_context(chip)
    ratios = r.CONTEXT_RATIOS if math.isfinite(balance) else ()
    batches = _with(_doublings(max(r.good_batch(chip).effective, batch)), batch)
    near = [share * balance for share in NEAR_BALANCE if share * balance >= r.CONTEXTS[0]] if ratios else []
    costs = {each: r.per_token_latency_curve(chip, each * balance, batches) for each in ratios}
    return {
        "step_latency": r.step_latency_curve(chip, context, batches),
        "token_latency": r.per_token_latency_curve(chip, context, batches),
        "cost_at_context": tuple(CostCurve(ratio=s, context=s * balance, points=costs[s]) for s in ratios),
        "knee": tuple(KneePoint(context=s, batch=r.knee_batch(chip, s)) for s in _with(r.CONTEXTS, context, *near)),
        "flops_sensitivity": r.ai_sensitivity(base, "flops"),
        "bandwidth_sensitivity": r.ai_sensitivity(base, "bw"),
    }


def _doublings(end: float) -> tuple[float, ...]:
    """The standard batches, and doublings of the last until `end` is covered."""
    batches = list(r.BATCHES)
    while batches[-1] < end and len(batches) < MOST_BATCHES:
        batches.append(2.0 * batches[-1])
    return tuple(batches)


def _with(points: tuple[float, ...], *more: float) -> tuple[float, ...]:
    """Points of an axis with others among them, each once, in order."""
    return tuple(sorted({*points, *more}))


def _multiplier(value: Number, field: str) -> float:
    """One positive number."""
    multiplier = parse(value, "1", field, positive=True)
    if not isinstance(multiplier, float):
        raise InputError(f"{field}: a report is about one machine; give one number, for example 2")
    return multiplier


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
