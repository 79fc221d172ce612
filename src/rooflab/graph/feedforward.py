"""Operators of the feed-forwards as an engine's fused kernels run them: one function per member of `model.FeedForward`."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from rooflab import num
from rooflab.graph import formulas as f
from rooflab.graph.build import collective, elementwise, expert_gemm, gemm, is_one, vectors
from rooflab.graph.cut import Cut
from rooflab.model import Dense, MoE
from rooflab.work import Op, Reason

Number = Any


@singledispatch
def ffn_operators(ffn: object, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Operators of `count` layers of one feed-forward, the all-reduce of its output included."""
    raise TypeError(f"no operators are defined for feed-forward {type(ffn).__name__}")


def all_reduce(cut: Cut, count: Number, tag: str) -> Op:
    """Partial sums of the ranks that share a feed-forward are added."""
    message = vectors(cut, cut.ffn_tokens(), cut.model.hidden)
    return collective(f"all_reduce_ffn{tag}", "all_reduce", count, cut.ffn_ranks(), "ffn", message)


@ffn_operators.register
def _(ffn: Dense, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Up (and gate) in one product, activation, down."""
    hidden, tokens, width = cut.model.hidden, cut.ffn_tokens(), ffn.width / cut.ffn_ranks()
    up = width * (2.0 if ffn.gated else 1.0)
    name = "gate_up" if ffn.gated else "up"
    return [
        gemm(cut, f"{name}{tag}", "ffn", f"up{tag}", count, tokens, up, hidden, "ffn"),
        elementwise(cut, f"activation{tag}", f"activation{tag}", count, tokens, up + width, 1.0, 4.0),
        gemm(cut, f"down{tag}", "ffn", f"down{tag}", count, tokens, hidden, width, "ffn"),
        all_reduce(cut, count, tag),
    ]


@ffn_operators.register
def _(ffn: MoE, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Router, shared part, dispatch, routed experts, combine."""
    hidden, tokens = cut.model.hidden, cut.ffn_tokens()
    operators = [
        gemm(cut, f"router{tag}", "router", f"router{tag}", count, tokens, float(ffn.experts), hidden, "activation"),
    ]
    if ffn.shared_width:
        operators += _shared(ffn, cut, count, tag)
    if ffn.latent:
        latent = float(ffn.latent)
        operators.append(gemm(cut, f"latent_in{tag}", "ffn", f"up{tag}", count, tokens, latent, hidden, "ffn"))
        operators.append(gemm(cut, f"latent_out{tag}", "ffn", f"down{tag}", count, tokens, hidden, latent, "ffn"))
    operators += _experts(ffn, cut, count, tag)
    return operators + _expert_messages(ffn, cut, count, tag)


def _shared(ffn: MoE, cut: Cut, count: Number, tag: str) -> list[Op]:
    """The part of a mixture that every token passes, cut like a dense feed-forward."""
    hidden, tokens, width = cut.model.hidden, cut.ffn_tokens(), ffn.shared_width / cut.ffn_ranks()
    up = width * (2.0 if ffn.shared_gated else 1.0)
    return [
        gemm(cut, f"shared_up{tag}", "ffn", f"up{tag}", count, tokens, up, hidden, "ffn"),
        elementwise(cut, f"shared_activation{tag}", f"activation{tag}", count, tokens, up + width, 1.0, 4.0),
        gemm(cut, f"shared_down{tag}", "ffn", f"down{tag}", count, tokens, hidden, width, "ffn"),
    ]


def _experts(ffn: MoE, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Routed experts held by one rank: weight bytes follow the distinct experts touched, FLOP follow the pairs."""
    width_ranks, spread = cut.expert_ranks()
    # Groups that share the experts bring their tokens; dedicated ranks serve one group, so every group has experts of its own.
    tokens = cut.ffn_tokens() * (1 if cut.layout.ep_mode == "dedicated" else cut.layout.attention_dp)
    experts, topk = float(ffn.experts), float(ffn.topk)
    arguments = (experts, topk, tokens)
    touched = f.distinct_experts(*arguments) / spread
    pairs = tokens * topk / spread
    held = experts / spread
    width = ffn.width / width_ranks
    up = width * (2.0 if ffn.gated else 1.0)
    inner = ffn.latent or cut.model.hidden
    beside = pairs * (up + width + 4.0 * inner) * cut.activation_size
    routed = num.where(cut.layout.attention_dp > 1, pairs, tokens * topk)
    layer = {"pairs": pairs, "distinct": touched, "hidden": float(inner), "up": up, "inter": width, "beside": beside}
    layer |= {"routed": routed, "tokens": tokens, "experts": experts, "topk": topk, "ranks": spread}

    def shape(side: str) -> dict[str, Number]:
        return {**layer, "share": (up if side == "up" else width) / (up + width)}

    if not ffn.topk:  # experts that no token chooses are only held
        weights = float(ffn.expert_params(cut.model.hidden) - ffn.expert_other_params) / width_ranks
        idle = f.grouped_weight_bytes(held, weights, 1.0, cut.weight_size("expert"))
        return [Op(name=f"experts_up{tag}", kind="grouped_gemm", part="experts", count=count, resident_bytes=idle)]
    operators = [
        expert_gemm(cut, f"experts_up{tag}", f"experts_up{tag}", count, pairs, touched, held, up, inner, shape("up")),
        elementwise(
            cut,
            f"experts_activation{tag}",
            f"experts_up{tag}",
            count,
            pairs,
            up + width,
            1.0,
            4.0,
            shape={"fused": 1.0},
        ),
        expert_gemm(
            cut, f"experts_down{tag}", f"experts_down{tag}", count, pairs, touched, held, inner, width, shape("down")
        ),
        elementwise(cut, f"permute{tag}", f"permute{tag}", count, pairs, float(inner), 4.0, 1.0, shape={"fused": 1.0}),
    ]
    return [
        op if op.kind != "grouped_gemm" else _with_reason(op, Reason("distinct_experts", f.distinct_experts, arguments))
        for op in operators
    ]


def _with_reason(op: Op, reason: Reason) -> Op:
    """The same operator with one more recorded formula."""
    fields = {name: getattr(op, name) for name in op.__struct_fields__}
    return Op(**{**fields, "why": (*op.why, reason)})


def _expert_messages(ffn: MoE, cut: Cut, count: Number, tag: str) -> list[Op]:
    """What the experts' ranks exchange.

    Where attention groups hold different tokens (attention_dp, or dedicated expert ranks), tokens travel to their experts and
    back; ranks that hold the same tokens add their partial outputs.
    """
    layout, hidden = cut.layout, cut.model.hidden
    operators: list[Op] = []
    tokens = cut.ffn_tokens()
    if layout.ep_mode == "dedicated":
        peers, copies = layout.ep, float(ffn.topk)
    else:
        apart = layout.attention_dp > 1
        peers = num.where(apart, num.where(layout.ep > 1, layout.ep, layout.attention_dp), 1)
        copies = num.where(layout.ep > 1, float(ffn.topk), layout.attention_dp)
        tokens = tokens / layout.tp
    if not is_one(peers):
        arguments = (tokens, copies, float(ffn.latent or hidden), cut.activation_size)
        message = Reason("message_bytes", f.routed_message, arguments)
        operators = [
            collective(f"{name}{tag}", "all_to_all", count, peers, "ep", message) for name in ("dispatch", "combine")
        ]
    return [*operators, all_reduce(cut, count, tag)]
