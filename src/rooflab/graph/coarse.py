"""Operators of the two coarse views: the calculator's two stages and the chip roofline's single step."""

from __future__ import annotations

from typing import Any

from rooflab.graph import formulas as f
from rooflab.graph.build import collective, is_one
from rooflab.graph.cut import Cut, cache_width, kept
from rooflab.graph.mixers import prefill_keys, visible_keys
from rooflab.model import Attention, Dense, LatentAttention, Model, MoE
from rooflab.work import FORMATS, Op, Precision, Reason

Number = Any


def weights_by_class(model: Model) -> dict[str, tuple[int, int]]:
    """Weights of all layers' matrix products by tensor class of `Precision`: (all, multiplied by one token).

    Routers, which follow the activation format, are the class "activation".
    """
    counts = {"attention": [0, 0], "ffn": [0, 0], "expert": [0, 0], "activation": [0, 0]}

    def add(name: str, total: int, used: int) -> None:
        counts[name][0] += total
        counts[name][1] += used

    for block in model.blocks:
        hidden, count, ffn = model.hidden, block.count, block.ffn
        if block.mixer is not None:
            add("attention", *[count * block.mixer.matmul_params(hidden)] * 2)
        if isinstance(ffn, Dense):
            add("ffn", *[count * ffn.matmul_params(hidden)] * 2)
        elif isinstance(ffn, MoE):
            one = count * (ffn.expert_params(hidden) - ffn.expert_other_params)
            add("expert", ffn.experts * one, ffn.topk * one)
            add("ffn", *[count * (ffn.shared_params(hidden) + ffn.latent_params(hidden))] * 2)
            add("activation", *[count * hidden * ffn.experts] * 2)
    return {name: (total, used) for name, (total, used) in counts.items() if total}


def linear_params(model: Model, active: bool = False) -> int:
    """Attention and feed-forward weights of all layers, without embeddings, head and norms (requirement C-013).

    With `active`, routed experts count as many times as a token uses them.
    """
    return sum(used if active else total for total, used in weights_by_class(model).values())  # int


def total_weight_bytes(model: Model, precision: Precision) -> float:
    """Bytes of all weights on one device that holds everything: each tensor class in its own format.

    Norms, biases, routers and other small tensors follow the activation format.
    """
    small = precision.weight_size(precision.activation)
    total = model.embedding_params() * precision.weight_size(precision.embedding)
    total += model.output_params() * precision.weight_size(precision.head)
    total += model.lookup_params * precision.weight_size(precision.embedding) + model.other_params * small
    for block in model.blocks:
        layer = (block.norm_params + block.other_params) * small
        layer += block.extra_matmul_params * precision.weight_size(precision.ffn)
        if block.mixer is not None:
            matmul = block.mixer.matmul_params(model.hidden)
            layer += matmul * precision.weight_size(precision.attention)
            layer += (block.mixer.params(model.hidden) - matmul) * small
        layer += _ffn_bytes(block.ffn, model.hidden, precision, small)
        total += kept(block) * layer
    return float(total)


def _ffn_bytes(ffn: Dense | MoE | None, hidden: int, precision: Precision, small: float) -> float:
    """Weight bytes of one feed-forward."""
    if ffn is None:
        return 0.0
    if isinstance(ffn, Dense):
        matmul = ffn.matmul_params(hidden)
        return matmul * precision.weight_size(precision.ffn) + (ffn.params(hidden) - matmul) * small
    experts = ffn.experts * (ffn.expert_params(hidden) - ffn.expert_other_params)
    dense = ffn.shared_params(hidden) + ffn.latent_params(hidden)
    rest = ffn.params(hidden) - experts - dense
    return (
        experts * precision.weight_size(precision.expert) + dense * precision.weight_size(precision.ffn) + rest * small
    )


def _head_width(model: Model) -> float:
    """Query width of the attention layers (requirement B-029), averaged over layers where it varies."""
    widths = [(b.count, b.mixer.heads * b.mixer.head_dim) for b in model.blocks if isinstance(b.mixer, Attention)]
    layers = sum(count for count, _ in widths)  # int
    return sum(count * width for count, width in widths) / layers if layers else float(model.hidden)  # int


def published_operators(cut: Cut) -> list[Op]:
    """The calculator's pass: one linear stage, one attention stage, two ring all-reduces a layer (B-030–B-038, B-061)."""
    model, tp, layers = cut.model, cut.layout.tp, float(cut.model.layers)
    width, step = _head_width(model), cut.step
    tokens = cut.prefill_sequences * cut.prefill_tokens + cut.decode_sequences
    params = float(model.params())
    size = cut.weight_size("attention")
    traffic = (layers / tp, tokens, width)
    flop = (params / tp, tokens)
    weights = (params, size, tp)
    pairs: Number = 0.0
    entries: Number = 0.0
    if step.has_prefill:
        pairs = pairs + cut.prefill_sequences * f.causal_pairs(cut.prefill_tokens, step.prefill_context)
        entries = entries + cut.prefill_sequences * (cut.prefill_tokens + step.prefill_context)
    if step.has_decode:
        pairs = pairs + cut.decode_sequences * step.decode_context
        entries = entries + cut.decode_sequences * step.decode_context
    attention = (pairs * layers, width / tp, 1.0, 1.0)
    cache = (1.0, entries, model.kv_elements(1.0) / tp, cut.kv_size)
    operators = [
        Op(
            name="linear",
            kind="gemm",
            part="ffn",
            stage="linear",
            flop=f.weights_step_flop(*flop),
            weight_bytes=f.published_weight_bytes(*weights),
            activation_bytes=f.residual_traffic(*traffic),
            resident_bytes=f.published_weight_bytes(*weights),
            why=(
                Reason("flop", f.weights_step_flop, flop),
                Reason("weight_bytes", f.published_weight_bytes, weights),
                Reason("activation_bytes", f.residual_traffic, traffic),
            ),
        ),
        Op(
            name="attention",
            kind="attention",
            part="attention",
            stage="attention",
            flop=f.attention_flop(*attention),
            activation_bytes=f.residual_traffic(*traffic),
            kv_bytes=f.cache_bytes(*cache),
            why=(
                Reason("flop", f.attention_flop, attention),
                Reason("activation_bytes", f.residual_traffic, traffic),
                Reason("kv_bytes", f.cache_bytes, cache),
            ),
        ),
    ]
    if not is_one(tp):
        message = Reason("message_bytes", f.vector_message, (tokens, float(model.hidden), 2.0))
        operators.append(collective("communication", "all_reduce", 2.0 * layers, tp, "tp", message))
    return operators


_CLASSES = {
    "attention": ("attention weights", "attention projections"),
    "ffn": ("feed-forward weights", "ffn"),
    "expert": ("expert weights", "experts"),
    "activation": ("router weights", "router"),
}


def weights_operators(cut: Cut) -> list[Op]:
    """The chip roofline's step: weights once, two FLOP per active weight and token, the cache once (requirement C-007).

    Each class of weights is in its own format. All devices of a pipeline stage share the work evenly.
    """
    devices = cut.layout.replica_devices() / cut.layout.pp
    tokens = cut.step.prefill_sequences * cut.step.prefill_tokens + cut.step.decode_sequences
    operators: list[Op] = []
    for tensor, (total, used) in weights_by_class(cut.model).items():
        name = getattr(cut.precision, tensor)
        flop, weights = (float(used) / devices, tokens), (float(total), cut.weight_size(tensor), devices)
        operators.append(
            Op(
                name=_CLASSES[tensor][0],
                kind="gemm",
                part=_CLASSES[tensor][1],
                stage="step",
                dtype=FORMATS[name].rate,
                format=name,
                flop=f.weights_step_flop(*flop),
                weight_bytes=f.published_weight_bytes(*weights),
                resident_bytes=f.published_weight_bytes(*weights),
                why=(
                    Reason("flop", f.weights_step_flop, flop),
                    Reason("weight_bytes", f.published_weight_bytes, weights),
                ),
            )
        )
    return [*operators, _cache_operator(cut, devices)]


def _cache_operator(cut: Cut, devices: Number) -> Op:
    """One pass over what the step's attention sees of every sequence's cache."""
    elements: Number = 0.0
    index_size = cut.index_size / cut.kv_size
    for block in cut.model.blocks:
        mixer = block.mixer
        if not isinstance(mixer, (Attention, LatentAttention)) or getattr(mixer, "cross", False):
            continue
        own = mixer.kv_heads * cache_width(mixer) if isinstance(mixer, Attention) else mixer.kv_elements()
        index = float(mixer.index_elements()) * index_size / (getattr(mixer, "compression", 0) or 1.0)
        seen = _seen_keys(cut, mixer)
        elements = elements + float(block.count) * (float(own) * seen[0] + index * seen[1])
    cache = (1.0, elements, 1.0 / devices, cut.kv_size)
    return Op(
        name="cache",
        kind="attention",
        part="attention",
        stage="step",
        format=cut.precision.kv,
        kv_bytes=f.cache_bytes(*cache),
        why=(Reason("kv_bytes", f.cache_bytes, cache),),
    )


def _seen_keys(cut: Cut, mixer: Attention | LatentAttention) -> tuple[Number, Number]:
    """(entries attention reads, tokens an indexer scores) of all sequences of the step, both phases added."""
    step = cut.step
    read: Number = 0.0
    scored: Number = 0.0
    if step.has_prefill:
        read = read + step.prefill_sequences * prefill_keys(cut, mixer)
        scored = scored + step.prefill_sequences * (step.prefill_context + step.prefill_tokens)
    if step.has_decode:
        read = read + step.decode_sequences * visible_keys(step.decode_context, mixer)
        scored = scored + step.decode_sequences * step.decode_context
    return read, scored
