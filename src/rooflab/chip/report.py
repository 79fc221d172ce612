"""Everything the chip view shows, for one model on one machine at one batch and context."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab.chip import memory as m
from rooflab.chip import roofline as r
from rooflab.chip import tables as t
from rooflab.chip.memory import MemoryBudget
from rooflab.chip.roofline import Chip, Latency, Sensitivity
from rooflab.chip.tables import FormulaRow, RegimeRow
from rooflab.model import Model
from rooflab.system import System
from rooflab.units import InputError, parse, parse_count
from rooflab.work import Layout, Precision

Number = Any


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
    """The data of every plot; those over the batch are at the report's context and the other way round."""

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
    """Sequences that fit beside the weights; None where nothing is kept per sequence."""
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
) -> ChipReport:
    """The chip view of `model` on one device of `system`, decoding `batch` sequences of `context` tokens.

    The multipliers change the device's FLOP rate and memory bandwidth, not its memory. The layout only decides what one
    device holds; None puts the whole model on one device.
    """
    batch = float(parse_count(batch, "batch"))
    context = float(parse_count(context, "context", dimension="token"))
    flops = _multiplier(flops_multiplier, "flops_multiplier")
    bandwidth = _multiplier(bandwidth_multiplier, "bandwidth_multiplier")
    precision, layout = precision or Precision(), layout or Layout()
    base = r.of(model, precision, system.device, context)
    chip = base.scaled(flops, bandwidth)
    budget = m.memory_budget(model, precision, layout, system, batch=batch, context=context)
    cap = m.memory_batch(model, precision, layout, system, context)
    return ChipReport(
        model=model.name,
        system=system.name,
        device=system.device.name,
        flops_multiplier=flops,
        bandwidth_multiplier=bandwidth,
        **_figures(chip, base, batch, context),
        memory=budget,
        memory_batch=_finite(cap),
        regimes=t.regime_table(chip, batch, context),
        formulas=t.formula_table(chip, context),
        curves=_curves(model, precision, layout, system, chip, base, batch, context),
        caption=t.caption(chip, base, batch, context, flops, bandwidth),
        sparsity_hint=t.sparsity_hint(chip),
        guidance=t.guidance(chip, batch, context, cap, budget.weights <= budget.budget),
        notes=t.notes(model, precision, system.device, chip, context),
    )


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


def _curves(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    chip: Chip,
    base: Chip,
    batch: float,
    context: float,
) -> Curves:
    """Every plot at its standard points."""
    balance = r.balance_context(chip)
    ratios = r.CONTEXT_RATIOS if math.isfinite(balance) else ()
    return Curves(
        step_latency=r.step_latency_curve(chip, context),
        token_latency=r.per_token_latency_curve(chip, context),
        cost_at_context=tuple(
            CostCurve(ratio=each, context=each * balance, points=r.per_token_latency_curve(chip, each * balance))
            for each in ratios
        ),
        knee=tuple(KneePoint(context=each, batch=r.knee_batch(chip, each)) for each in r.CONTEXTS),
        memory_vs_context=m.memory_budget_vs_context(model, precision, layout, system, batch=batch),
        memory_vs_batch=m.memory_budget_vs_batch(model, precision, layout, system, context=context),
        flops_sensitivity=r.ai_sensitivity(base, "flops"),
        bandwidth_sensitivity=r.ai_sensitivity(base, "bw"),
    )


def _multiplier(value: Number, field: str) -> float:
    """One positive number."""
    multiplier = parse(value, "1", field, positive=True)
    if not isinstance(multiplier, float):
        raise InputError(f"{field}: a report is about one machine; give one number, for example 2")
    return multiplier


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
