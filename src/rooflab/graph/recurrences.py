"""Operators of recurrent mixers: state spaces, delta rules and the like, by chunks in prefill and stepped in decode."""

from __future__ import annotations

from typing import Any

from rooflab.graph import formulas as f
from rooflab.graph.build import elementwise, gemm
from rooflab.graph.cut import Cut
from rooflab.graph.mixers import PROJECTIONS, mixer_operators
from rooflab.model import Recurrent
from rooflab.work import FORMATS, Op, Reason

Number = Any


@mixer_operators.register
def _(mixer: Recurrent, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Projections in, short convolution, recurrence (chunked in prefill, stepped in decode), projection out."""
    hidden, tp = cut.model.hidden, cut.layout.tp
    operators = [
        gemm(cut, f"in_proj{tag}", PROJECTIONS, f"in{tag}", count, cut.tokens, mixer.in_width / tp, hidden, "attention")
    ]
    if mixer.inner_params:
        inner = mixer.inner_params / hidden / tp
        operators.append(
            gemm(cut, f"inner_proj{tag}", PROJECTIONS, f"inner{tag}", count, cut.tokens, inner, hidden, "attention")
        )
    if mixer.conv_channels:
        channels, kernel = mixer.conv_channels / tp, float(mixer.conv_kernel)
        operators.append(
            elementwise(
                cut,
                f"conv{tag}",
                f"conv{tag}",
                count,
                cut.tokens,
                channels,
                2.0,
                2.0 * kernel,
                part="attention",
                shape={"taps": kernel, "channels": channels, "tokens": cut.tokens, "sequences": cut.rows},
            )
        )
    operators += _recurrence(mixer, cut, count, tag)
    out = mixer.out_width / tp
    operators.append(gemm(cut, f"o_proj{tag}", PROJECTIONS, f"o{tag}", count, cut.tokens, hidden, out, "attention"))
    return operators


def _recurrence(mixer: Recurrent, cut: Cut, count: Number, tag: str) -> list[Op]:
    """The state update: matrix work in chunks for prompts, a pass over the state for each new token."""
    heads = mixer.heads / cut.layout.tp
    state = heads * mixer.key_dim * mixer.value_dim
    kept = mixer.state_elements() / cut.layout.tp
    width = heads * (2.0 * mixer.key_dim + 2.0 * mixer.value_dim)
    operators: list[Op] = []
    phases = []
    if cut.step.has_prefill:
        tokens = cut.prefill_sequences * cut.prefill_tokens
        chunked = (tokens, heads, float(mixer.chunk), mixer.key_dim, mixer.value_dim)
        phases.append(("prefill", tokens, cut.prefill_sequences, Reason("flop", f.chunked_recurrence_flop, chunked)))
    if cut.step.has_decode:
        rows = cut.decode_sequences
        phases.append(("decode", rows, rows, Reason("flop", f.recurrence_flop, (rows, state, mixer.state_flop))))
    for phase, tokens, sequences, why in phases:
        moved = (sequences, 2.0, kept, cut.state_size)
        operators.append(
            Op(
                name=f"recurrence_{phase}{tag}",
                kind="recurrence",
                part="attention",
                stage=f"recurrence{tag}",
                count=count,
                dtype=FORMATS[cut.precision.activation].rate if phase == "prefill" else "vector",
                flop=why.formula(*why.arguments),
                activation_bytes=f.elementwise_bytes(tokens, width, 1.0, cut.activation_size),
                kv_bytes=f.cache_bytes(*moved),
                format=cut.precision.state,
                shape={
                    "sequences": sequences,
                    "heads": heads,
                    "key_dim": mixer.key_dim,
                    "value_dim": mixer.value_dim,
                    **({"tokens": tokens} if phase == "prefill" else {}),
                },
                why=(
                    why,
                    Reason("activation_bytes", f.elementwise_bytes, (tokens, width, 1.0, cut.activation_size)),
                    Reason("kv_bytes", f.cache_bytes, moved),
                ),
            )
        )
    return operators
