"""Memory of one device against the context and the batch: weights, caches, buffers and what is left (C-014)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from rooflab import num
from rooflab.chip import formulas as f
from rooflab.chip.roofline import BATCHES, CONTEXTS
from rooflab.graph import cut, kv_bytes_per_device, operators, stage_share, state_bytes_per_device
from rooflab.graph.cut import Cut
from rooflab.model import Attention, Dense, LatentAttention, Model, MoE, Recurrent
from rooflab.units import parse
from rooflab.work import Layout, Precision, Step

Number = Any


class MemoryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """What one device of a layout holds, in bytes."""

    batch: Number
    context: Number
    weights: Number
    kv: Number
    state: Number
    """Recurrent states: per sequence, whatever its length."""
    transient: Number
    used: Number
    budget: Number
    free: Number
    """Zero where the budget is exceeded."""
    over_budget: Number


def resident_weights(model: Model, precision: Precision, layout: Layout) -> Number:
    """Weight bytes on the busiest device: its stage's layers, embedding and head; replicated tensors whole.

    With pipeline stages the embedding lies on the first and the head on the last; the heavier of the two counts.
    """
    layers: Number = 0.0
    first: Number = 0.0
    last: Number = 0.0
    for op in operators(model, precision, layout, Step(decode_sequences=1, decode_context=1)):
        size = 1.0 * op.count * op.resident_bytes
        if op.part == "embedding":
            first = first + size
        elif op.part == "head":
            last = last + size
        else:
            layers = layers + size
    ends = num.where(layout.pp > 1, num.maximum(first, last), first + last)
    return layers * stage_share(model, layout) + ends


def transient_bytes(model: Model, precision: Precision, layout: Layout, batch: Number) -> Number:
    """Activation buffers of the widest layer while a decode step runs."""
    share = cut(model, precision, layout, Step(decode_sequences=batch, decode_context=1))
    attention: Number = 0.0
    ffn: Number = 0.0
    for block in model.blocks:
        attention = num.maximum(attention, _attention_width(block.mixer, share))
        ffn = num.maximum(ffn, _ffn_width(block.ffn, share))
    return f.transient_bytes(share.decode_sequences, float(model.hidden), attention, ffn, share.activation_size)


def _attention_width(mixer: Any, share: Cut) -> Number:
    """Columns of queries, keys and values (or of a recurrence's inputs) on one device."""
    if isinstance(mixer, Attention):
        own = 0 if mixer.shares_kv else mixer.kv_heads * (mixer.head_dim + mixer.value_dim)
        return float(mixer.heads * mixer.head_dim + own) / share.layout.tp
    if isinstance(mixer, LatentAttention):
        queries = float(mixer.heads * (mixer.nope_dim + mixer.rope_dim)) / share.layout.tp
        return queries + float(mixer.kv_rank + mixer.rope_dim)
    return float(mixer.in_width) / share.layout.tp if isinstance(mixer, Recurrent) else 0.0


def _ffn_width(ffn: Any, share: Cut) -> Number:
    """Inner columns a token passes on one device: the experts it uses and everything shared."""
    if isinstance(ffn, Dense):
        return float(ffn.width) / share.ffn_ranks()
    if isinstance(ffn, MoE):
        width_ranks, spread = share.expert_ranks()
        return float(ffn.topk * ffn.width) / (width_ranks * spread) + float(ffn.shared_width) / share.ffn_ranks()
    return 0.0


def memory_budget(
    model: Model, precision: Precision, layout: Layout, memory: Number, *, batch: Number, context: Number
) -> MemoryBudget:
    """Memory of one device while it decodes `batch` sequences of `context` tokens per replica."""
    batch, context = parse(batch, "1", "batch", positive=True), parse(context, "token", "context")
    budget = parse(memory, "byte", "memory", positive=True)
    weights = resident_weights(model, precision, layout)
    kv = kv_bytes_per_device(model, precision, layout, context, batch)
    state = state_bytes_per_device(model, precision, layout, batch)
    transient = transient_bytes(model, precision, layout, batch)
    used = weights + kv + state + transient
    return MemoryBudget(
        batch=batch,
        context=context,
        weights=weights,
        kv=kv,
        state=state,
        transient=transient,
        used=used,
        budget=budget,
        free=num.maximum(budget - used, 0.0),
        over_budget=used > budget,
    )


def memory_budget_vs_context(
    model: Model,
    precision: Precision,
    layout: Layout,
    memory: Number,
    *,
    batch: Number,
    contexts: Iterable[float] = CONTEXTS,
) -> tuple[MemoryBudget, ...]:
    """Memory of one device as the context grows; the weights stay."""
    return tuple(memory_budget(model, precision, layout, memory, batch=batch, context=each) for each in contexts)


def memory_budget_vs_batch(
    model: Model,
    precision: Precision,
    layout: Layout,
    memory: Number,
    *,
    context: Number,
    batches: Iterable[float] = BATCHES,
) -> tuple[MemoryBudget, ...]:
    """Memory of one device as the batch grows; the weights stay."""
    return tuple(memory_budget(model, precision, layout, memory, batch=each, context=context) for each in batches)


def memory_batch(model: Model, precision: Precision, layout: Layout, memory: Number, context: Number) -> Number:
    """Largest batch of a replica whose caches fit beside the weights: infinite where nothing is kept per sequence."""
    context = parse(context, "token", "context")
    budget = parse(memory, "byte", "memory", positive=True)
    cache = kv_bytes_per_device(model, precision, layout, context, 1)
    one = cache + state_bytes_per_device(model, precision, layout, 1)
    some = num.where(one > 0, one, 1.0)
    fit = f.memory_batch(budget, resident_weights(model, precision, layout), some)
    return num.where(one > 0, fit * layout.attention_dp, float("inf"))
