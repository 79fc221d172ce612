"""Operators of the two coarse views: the calculator's two stages and the chip roofline's single step."""

from __future__ import annotations

from typing import Any

from rooflab.graph import formulas as f
from rooflab.graph.build import collective, is_one
from rooflab.graph.cut import Cut, kept
from rooflab.model import Attention, Dense, Model, MoE
from rooflab.work import Op, Precision, Reason

Number = Any


def linear_params(model: Model, active: bool = False) -> int:
    """Attention and feed-forward weights of all layers, without embeddings, head and norms (requirement C-013).

    With `active`, routed experts count as many times as a token uses them.
    """
    total = 0
    for block in model.blocks:
        layer = block.mixer.matmul_params(model.hidden) if block.mixer is not None else 0
        if isinstance(block.ffn, Dense):
            layer += block.ffn.matmul_params(model.hidden)
        elif isinstance(block.ffn, MoE):
            one = block.ffn.expert_params(model.hidden) - block.ffn.expert_other_params
            always = model.hidden * (block.ffn.experts + 2 * block.ffn.latent) + block.ffn.shared_params(model.hidden)
            layer += always + one * (block.ffn.topk if active else block.ffn.experts)
        total += block.count * layer
    return total


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


def weights_operators(cut: Cut) -> list[Op]:
    """The chip roofline's step: weights once, two FLOP per active weight and token, the cache once (requirement C-007)."""
    model, devices = cut.model, cut.layout.replica_devices()
    total, active = float(linear_params(model)), float(linear_params(model, active=True))
    flop = (active / devices, cut.tokens)
    weights = (total, cut.weight_size("attention"), devices)
    entries = cut.prefill_sequences * (cut.step.prefill_tokens + cut.step.prefill_context)
    elements = model.kv_elements(1.0)
    if cut.step.has_decode:
        entries = entries + cut.decode_sequences * cut.step.decode_context
    cache = (1.0, entries, elements / devices, cut.kv_size)
    return [
        Op(
            name="step",
            kind="gemm",
            part="ffn",
            stage="step",
            flop=f.weights_step_flop(*flop),
            weight_bytes=f.published_weight_bytes(*weights),
            kv_bytes=f.cache_bytes(*cache),
            resident_bytes=f.published_weight_bytes(*weights),
            why=(
                Reason("flop", f.weights_step_flop, flop),
                Reason("weight_bytes", f.published_weight_bytes, weights),
                Reason("kv_bytes", f.cache_bytes, cache),
            ),
        )
    ]
