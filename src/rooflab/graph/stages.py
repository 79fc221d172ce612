"""Operators at the grain of the sharded model's stages: S1–S10 and C1–C3 of attention, F1–F5 and CF1 of the feed-forward.

Requirements D-060–D-083. Mixers and feed-forwards outside that model (latent attention, recurrences, experts) keep their
kernels, each a stage of its own.
"""

from __future__ import annotations

from typing import Any

from rooflab import num
from rooflab.graph import formulas as f
from rooflab.graph.build import collective, elementwise, gemm, is_one, vectors
from rooflab.graph.cut import Cut, local_tokens
from rooflab.graph.feedforward import all_reduce
from rooflab.graph.mixers import PROJECTIONS, attend, prefill_pairs, ring, visible_keys
from rooflab.model import Attention, Dense
from rooflab.work import Op, Reason

Number = Any


def _seen(cut: Cut, mixer: Attention, causal: str) -> tuple[Number, Number, Number]:
    """(query–key pairs, cache reads in tokens per sequence, sequences) of this device, both phases added.

    `causal` chooses how prefill pairs are counted: exact, half (every query sees half the prompt) or full.
    """
    step, layout = cut.step, cut.layout
    pairs: Number = 0.0
    reads: Number = 0.0
    if step.has_prefill:
        tokens = cut.prefill_sequences * cut.prefill_tokens
        if causal == "exact" or mixer.window or mixer.indexer:
            whole, _why = prefill_pairs(cut, mixer)
            pairs = pairs + cut.prefill_sequences * whole / layout.cp
        else:
            length = step.prefill_tokens * (0.5 if causal == "half" else 1.0) + step.prefill_context
            pairs = pairs + tokens * length
        cached = num.ceil_div(step.prefill_context + step.prefill_tokens, layout.cp)
        reads = reads + cut.prefill_sequences * cached * layout.cp
    if step.has_decode:
        keys = local_tokens(visible_keys(step.decode_context, mixer), layout.cp)
        pairs = pairs + cut.decode_sequences * keys
        reads = reads + cut.decode_sequences * keys
    return pairs, reads, 1.0


def has_stages(mixer: object) -> bool:
    """Whether a mixer is the attention of the sharded model; others keep their kernels (D-905: no silent approximation)."""
    if not isinstance(mixer, Attention):
        return False
    other = mixer.query_rank or mixer.output_rank or mixer.input_width or mixer.indexer or mixer.compression
    return not (other or mixer.keys_are_values or mixer.one_cache or mixer.cross)


def norm_stage(cut: Cut, name: str, count: Number, tag: str) -> Op:
    """S1 or F1: the norm before a mixer or a feed-forward."""
    names = f"{name}{tag}"
    return elementwise(cut, names, names, count, cut.tokens, cut.model.hidden, 2.0, 4.0, dtype="bf16")


def attention_stages(mixer: Attention, cut: Cut, count: Number, tag: str, causal: str) -> list[Op]:
    """S1–S10, C1–C3 of one softmax-attention layer on one device."""
    hidden, layout, tokens = cut.model.hidden, cut.layout, cut.tokens
    heads, kv_heads = mixer.heads / layout.tp, cut.kv_heads(mixer)
    owns = not (mixer.shares_kv or mixer.cross)
    elements = kv_heads * (mixer.head_dim + mixer.value_dim)

    def stage(name: str) -> tuple[str, str]:
        return f"{name}{tag}", f"{name}{tag}"

    query = heads * mixer.head_dim * (2 if mixer.gate else 1)
    operators = [
        norm_stage(cut, "S1", count, tag),
        _project(cut, stage("S2"), count, query, hidden),
    ]
    if owns:
        operators.append(_project(cut, stage("S3"), count, elements, hidden))
        operators.append(_append(cut, stage("S4"), count, elements))
    operators += _core(mixer, cut, count, tag, causal, heads, kv_heads)
    operators.append(elementwise(cut, *stage("S9"), count, tokens, heads * mixer.value_dim, 2.0, 1.0, dtype="bf16"))
    operators.append(_project(cut, stage("S10"), count, hidden, heads * mixer.value_dim))
    if cut.step.has_prefill and not is_one(layout.cp):
        hidden_stages = tuple(f"{name}{tag}" for name in ("S5", "S6", "S7"))
        travel = ring(cut, count, tag, "", heads, mixer.value_dim, elements)
        operators.append(
            collective(f"C1{tag}", "ring", count, layout.cp, "cp", travel.why[0], f"C1{tag}", hidden_stages)
        )
    message = vectors(cut, tokens, hidden)
    operators.append(collective(f"C2{tag}", "all_reduce", count, layout.tp, "tp", message))
    return operators


def _project(cut: Cut, names: tuple[str, str], count: Number, n: Number, k: Number) -> Op:
    return gemm(cut, names[0], PROJECTIONS, names[1], count, cut.tokens, n, k, "attention")


def _append(cut: Cut, names: tuple[str, str], count: Number, elements: Number) -> Op:
    """S4 writes the new entries and computes nothing."""
    arguments = (cut.tokens, 1.0, elements, cut.kv_size)
    return Op(
        name=names[0],
        kind="elementwise",
        part="elementwise",
        stage=names[1],
        count=count,
        kv_bytes=f.cache_bytes(*arguments),
        why=(Reason("kv_bytes", f.cache_bytes, arguments),),
    )


def _core(
    mixer: Attention, cut: Cut, count: Number, tag: str, causal: str, heads: Number, kv_heads: Number
) -> list[Op]:
    """S5–S8 and C3: scores, softmax, weighted sum, and what splitting the context or a head adds."""
    pairs, reads, once = _seen(cut, mixer, causal)
    split = cut.split_ranks(mixer)
    group = mixer.heads / mixer.kv_heads
    seen_heads = num.where(split > 1, group, heads)
    operators: list[Op] = []
    for name, head_dim, value_dim in (("S5", mixer.head_dim, 0.0), ("S7", 0.0, mixer.value_dim)):
        operators.append(
            attend(
                cut,
                f"{name}{tag}",
                f"{name}{tag}",
                count,
                kind="attention",
                pairs=pairs,
                tokens=cut.tokens,
                sequences=once,
                keys=reads,
                heads=heads,
                head_dim=head_dim,
                value_dim=value_dim,
                elements=kv_heads * (head_dim + value_dim),
                size=cut.kv_size,
            )
        )
    softmax = (pairs, seen_heads, 5.0)
    operators.insert(
        1,
        Op(
            name=f"S6{tag}",
            kind="elementwise",
            part="attention",
            stage=f"S6{tag}",
            count=count,
            flop=f.elementwise_flop(*softmax),
            why=(Reason("flop", f.elementwise_flop, softmax),),
        ),
    )
    if not is_one(cut.layout.cp):
        operators += _merge(cut, count, tag, heads, mixer.value_dim)
    if not is_one(split):
        message = Reason("message_bytes", f.score_message, (pairs, 1.0, group))
        operators.append(collective(f"C3{tag}", "all_reduce", count, split, "split", message))
    return operators


def _merge(cut: Cut, count: Number, tag: str, heads: Number, value_dim: Number) -> list[Op]:
    """S8: partial outputs merge once in decode (with an all-reduce over cp), once per ring hop in prefill."""
    cp, name = cut.layout.cp, f"S8{tag}"
    prefill = cut.prefill_sequences * cut.prefill_tokens
    merges = prefill * (cp - 1.0) + num.where(cp > 1, cut.decode_sequences, 0.0)
    flop = (merges, heads * value_dim, 3.0)
    moved = (merges * 2.0, heads, value_dim)
    operators = [
        Op(
            name=name,
            kind="elementwise",
            part="attention",
            stage=name,
            count=count,
            dtype="bf16",
            flop=f.elementwise_flop(*flop),
            activation_bytes=f.partial_output_message(*moved),
            why=(
                Reason("flop", f.elementwise_flop, flop),
                Reason("activation_bytes", f.partial_output_message, moved),
            ),
        )
    ]
    if cut.step.has_decode:
        message = Reason("message_bytes", f.partial_output_message, (cut.decode_sequences, heads, value_dim))
        operators.append(collective(f"S8 all-reduce{tag}", "all_reduce", count, cp, "cp", message, name))
    return operators


def ffn_stages(ffn: Dense, cut: Cut, count: Number, tag: str) -> list[Op]:
    """F1–F5 and CF1 of one dense feed-forward on one device."""
    hidden, tokens, width = cut.model.hidden, cut.ffn_tokens(), ffn.width / cut.ffn_ranks()
    operators = [norm_stage(cut, "F1", count, tag)]
    for name in ("F2", "F3") if ffn.gated else ("F3",):
        operators.append(gemm(cut, f"{name}{tag}", "ffn", f"{name}{tag}", count, tokens, width, hidden, "ffn"))
    passes = 3.0 if ffn.gated else 2.0
    operators.append(elementwise(cut, f"F4{tag}", f"F4{tag}", count, tokens, width, passes, 4.0, dtype="bf16"))
    operators.append(gemm(cut, f"F5{tag}", "ffn", f"F5{tag}", count, tokens, hidden, width, "ffn"))
    shared = all_reduce(cut, count, tag)
    operators.append(collective(f"CF1{tag}", "all_reduce", count, shared.peers, shared.axis, shared.why[0]))
    return operators
