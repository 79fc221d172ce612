"""Memory of one device against the context and the batch: weights, caches, buffers and what is left (C-014).

The quantities are those of `fits` for the layout. A profile sizes the buffers and says what a runtime keeps (requirement
E-09); the envelope, where none is given, reserves nothing and sizes them for a decode step alone.
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
from rooflab.profiles import PROFILES, Profile
from rooflab.system import System
from rooflab.units import parse
from rooflab.work import Layout, Op, Precision, Step

Number = Any
ENVELOPE = msgspec.structs.replace(PROFILES["envelope"], counting="kernels", outside=True)
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
    reserve: Number
    """What the profile keeps for the runtime."""
    used: Number
    budget: Number
    free: Number
    """Zero where the budget is exceeded."""
    over_budget: Number


def _weight_operators(model: Model, precision: Precision, layout: Layout, profile: Profile = ENVELOPE) -> list[Op]:
    """Any step's operators: what they keep in memory depends on neither batch nor context."""
    step = Step(decode_sequences=1, decode_context=1)
    grain = "kernels" if profile.counting == "weights" else profile.counting
    outside = profile.counting == "weights" or profile.outside
    return graph.operators(model, precision, layout, step, counting=grain, outside=outside)


def memory_budget(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    *,
    batch: Number,
    context: Number,
    profile: Profile = ENVELOPE,
    prompt: Number | None = None,
    operators: Sequence[Op] | None = None,
) -> MemoryBudget:
    """Memory of the busiest device while a replica decodes `batch` sequences of `context` tokens.

    With a `prompt` the buffers are those of its prefill too, at most the context. `operators` may be those of any step in
    this layout, to save counting.
    """
    batch, context = parse(batch, "1", "batch", positive=True), parse(context, "token", "context")
    operators = operators or _weight_operators(model, precision, layout, profile)
    tokens = context if prompt is None else num.minimum(prompt, context)
    phase = "decode" if prompt is None else "prefill"
    step = {"batch": batch, "context": context, "prompt": tokens, "phase": phase, "operators": operators}
    held = fits.memory(model, precision, layout, system, profile, **step)
    return MemoryBudget(
        batch=batch,
        context=context,
        weights=held.weights,
        kv=held.kv,
        transient=held.workspace,
        reserve=held.reserve,
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
    profile: Profile = ENVELOPE,
    output: Number | None = None,
) -> tuple[MemoryBudget, ...]:
    """Memory of one device as the context grows; the weights stay. All of it but the `output` is prompt, where one is said."""
    operators = _weight_operators(model, precision, layout, profile)
    more = {"batch": batch, "profile": profile, "operators": operators}
    return tuple(
        memory_budget(
            model, precision, layout, system, context=each, **more,
            prompt=None if output is None else max(each - output, 1.0),
        )
        for each in contexts
    )  # fmt: skip


def memory_budget_vs_batch(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    *,
    context: Number,
    batches: Iterable[float] = BATCHES,
    profile: Profile = ENVELOPE,
    prompt: Number | None = None,
) -> tuple[MemoryBudget, ...]:
    """Memory of one device as the batch grows; the weights stay."""
    more = {"context": context, "profile": profile, "prompt": prompt}
    operators = _weight_operators(model, precision, layout, profile)
    return tuple(
        memory_budget(model, precision, layout, system, batch=each, operators=operators, **more) for each in batches
    )


def memory_batch(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    context: Number,
    *,
    profile: Profile = ENVELOPE,
    prompt: Number | None = None,
) -> Number:
    """Largest batch of a replica that fits, caches, buffers and all: infinite where nothing is kept per sequence."""
    more = {"context": context, "profile": profile, "prompt": prompt}
    more["operators"] = _weight_operators(model, precision, layout, profile)

    def held(batch: Number) -> MemoryBudget:
        return memory_budget(model, precision, layout, system, batch=batch, **more)

    one = held(1.0)
    some = num.where(one.kv > 0, one.kv, 1.0)

    def room(transient: Number) -> Number:
        fit = f.memory_batch(one.budget - one.reserve - transient, one.weights, some)
        return fit * layout.attention_dp

    # Buffers grow with the batch, up to an engine's chunk: the answer lies between those of one sequence and of as many as that.
    high = room(one.transient)
    low = room(held(num.maximum(high, 1.0)).transient)
    while not num.all_true(low >= high):
        middle = num.floor((low + high + 1.0) / 2.0)
        fitting = held(num.maximum(middle, 1.0)).used <= one.budget
        low, high = num.where(fitting, middle, low), num.where(fitting, high, middle - 1.0)
    return num.where(one.kv > 0, low, math.inf)
