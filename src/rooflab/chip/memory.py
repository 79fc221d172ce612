"""Memory of one device against the context and the batch: weights, caches, buffers and what is left (C-014).

The quantities are those of `fits` for the layout; the envelope profile sizes the buffers and reserves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rooflab import fits, graph, num
from rooflab.chip import formulas as f
from rooflab.chip.roofline import BATCHES, CONTEXTS
from rooflab.model import Model
from rooflab.profiles import PROFILES
from rooflab.system import System
from rooflab.units import parse
from rooflab.work import Layout, Op, Precision, Step

Number = Any
ENVELOPE = msgspec.structs.replace(PROFILES["envelope"], counting="kernels")
"""The envelope profile with embedding and head in memory."""


class MemoryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """What one device of a layout holds while it decodes, in bytes."""

    batch: Number
    context: Number
    weights: Number
    """The device's share of the layers, and embedding and head where they live."""
    kv: Number
    """Caches of all sequences, recurrent states included."""
    transient: Number
    """Activations of a step (requirement D-053)."""
    used: Number
    budget: Number
    free: Number
    """Zero where the budget is exceeded."""
    over_budget: Number


def _weight_operators(model: Model, precision: Precision, layout: Layout) -> list[Op]:
    """Any step's operators: what they keep in memory depends on neither batch nor context."""
    return graph.operators(model, precision, layout, Step(decode_sequences=1, decode_context=1))


def memory_budget(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    *,
    batch: Number,
    context: Number,
    operators: Sequence[Op] | None = None,
) -> MemoryBudget:
    """Memory of the busiest device while a replica decodes `batch` sequences of `context` tokens.

    `operators` may be those of any step in this layout, to save counting.
    """
    batch, context = parse(batch, "1", "batch", positive=True), parse(context, "token", "context")
    operators = operators or _weight_operators(model, precision, layout)
    step = {"batch": batch, "context": context, "prompt": context, "phase": "decode", "operators": operators}
    held = fits.memory(model, precision, layout, system, ENVELOPE, **step)
    return MemoryBudget(
        batch=batch,
        context=context,
        weights=held.weights,
        kv=held.kv,
        transient=held.workspace,
        used=held.used,
        budget=held.capacity,
        free=held.free,
        over_budget=held.used > held.capacity,
    )


def memory_budget_vs_context(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    *,
    batch: Number,
    contexts: Iterable[float] = CONTEXTS,
) -> tuple[MemoryBudget, ...]:
    """Memory of one device as the context grows; the weights stay."""
    operators = _weight_operators(model, precision, layout)
    return tuple(
        memory_budget(model, precision, layout, system, batch=batch, context=each, operators=operators)
        for each in contexts
    )


def memory_budget_vs_batch(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    *,
    context: Number,
    batches: Iterable[float] = BATCHES,
) -> tuple[MemoryBudget, ...]:
    """Memory of one device as the batch grows; the weights stay."""
    operators = _weight_operators(model, precision, layout)
    return tuple(
        memory_budget(model, precision, layout, system, batch=each, context=context, operators=operators)
        for each in batches
    )


def memory_batch(model: Model, precision: Precision, layout: Layout, system: System, context: Number) -> Number:
    """Largest batch of a replica whose caches fit beside the weights: infinite where nothing is kept per sequence."""
    one = memory_budget(model, precision, layout, system, batch=1.0, context=context)
    some = num.where(one.kv > 0, one.kv, 1.0)
    fit = f.memory_batch(one.budget, one.weights, some)
    return num.where(one.kv > 0, fit * layout.attention_dp, math.inf)
