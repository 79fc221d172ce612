"""Builders of the recurring operator shapes; every builder records which formula gave which number."""

from __future__ import annotations

from typing import Any

from rooflab.graph import formulas as f
from rooflab.graph.cut import Cut
from rooflab.work import FORMATS, Op, Reason

Number = Any


def gemm(
    cut: Cut, name: str, part: str, stage: str, count: Number, m: Number, n: Number, k: Number, tensor: str, **more: Any
) -> Op:
    """C[m, n] = A[m, k] · B[k, n] with a weight matrix B of tensor class `tensor`."""
    size, act = cut.weight_size(tensor), cut.activation_size
    weights = f.weight_bytes(n, k, size)
    return Op(
        name=name,
        kind="gemm",
        part=part,
        stage=stage,
        count=count,
        dtype=FORMATS[getattr(cut.precision, tensor)].rate,
        format=getattr(cut.precision, tensor),
        m=m,
        n=n,
        k=k,
        flop=f.matmul_flop(m, n, k),
        weight_bytes=weights,
        activation_bytes=f.matmul_activation_bytes(m, n, k, act),
        resident_bytes=more.pop("resident_bytes", weights),
        why=(
            Reason("flop", f.matmul_flop, (m, n, k)),
            Reason("weight_bytes", f.weight_bytes, (n, k, size)),
            Reason("activation_bytes", f.matmul_activation_bytes, (m, n, k, act)),
        ),
        **more,
    )


def head_gemm(
    cut: Cut, name: str, stage: str, count: Number, heads: Number, m: Number, n: Number, k: Number, resident: Number
) -> Op:
    """One product per head: `heads` × C[m, n] = A[m, k] · B[k, n], B being part of an attention weight."""
    size, act = cut.weight_size("attention"), cut.activation_size
    return Op(
        name=name,
        kind="grouped_gemm",
        part="attention projections",
        stage=stage,
        count=count,
        dtype=FORMATS[cut.precision.attention].rate,
        format=cut.precision.attention,
        m=m,
        n=n,
        k=k,
        groups=heads,
        flop=f.batched_matmul_flop(heads, m, n, k),
        weight_bytes=f.grouped_weight_bytes(heads, n, k, size),
        activation_bytes=f.matmul_activation_bytes(m * heads, n, k, act),
        resident_bytes=resident,
        why=(
            Reason("flop", f.batched_matmul_flop, (heads, m, n, k)),
            Reason("weight_bytes", f.grouped_weight_bytes, (heads, n, k, size)),
            Reason("activation_bytes", f.matmul_activation_bytes, (m * heads, n, k, act)),
        ),
    )


def expert_gemm(
    cut: Cut,
    name: str,
    stage: str,
    count: Number,
    pairs: Number,
    touched: Number,
    held: Number,
    n: Number,
    k: Number,
    shape: dict[str, Number],
) -> Op:
    """The routed experts' product: `pairs` rows over `touched` distinct n × k matrices, `held` of them resident."""
    size, act = cut.weight_size("expert"), cut.activation_size
    return Op(
        name=name,
        kind="grouped_gemm",
        part="experts",
        stage=stage,
        count=count,
        dtype=FORMATS[cut.precision.expert].rate,
        format=cut.precision.expert,
        shape=shape,
        m=pairs / touched,
        n=n,
        k=k,
        groups=touched,
        flop=f.grouped_matmul_flop(pairs, n, k),
        weight_bytes=f.grouped_weight_bytes(touched, n, k, size),
        activation_bytes=f.matmul_activation_bytes(pairs, n, k, act),
        resident_bytes=f.grouped_weight_bytes(held, n, k, size),
        why=(
            Reason("flop", f.grouped_matmul_flop, (pairs, n, k)),
            Reason("weight_bytes", f.grouped_weight_bytes, (touched, n, k, size)),
            Reason("activation_bytes", f.matmul_activation_bytes, (pairs, n, k, act)),
            Reason("resident_bytes", f.grouped_weight_bytes, (held, n, k, size)),
        ),
    )


def elementwise(
    cut: Cut,
    name: str,
    stage: str,
    count: Number,
    tokens: Number,
    width: Number,
    passes: Number,
    operations: Number,
    **more: Any,
) -> Op:
    """A kernel that moves `passes` vectors of `width` per token and does `operations` FLOP per element."""
    act = cut.activation_size
    return Op(
        name=name,
        kind=more.pop("kind", "elementwise"),
        part=more.pop("part", "elementwise"),
        stage=stage,
        count=count,
        dtype=more.pop("dtype", "vector"),
        flop=f.elementwise_flop(tokens, width, operations),
        activation_bytes=f.elementwise_bytes(tokens, width, passes, act),
        why=(
            Reason("flop", f.elementwise_flop, (tokens, width, operations)),
            Reason("activation_bytes", f.elementwise_bytes, (tokens, width, passes, act)),
            *more.pop("why", ()),
        ),
        **more,
    )


def collective(
    name: str,
    algorithm: str,
    count: Number,
    peers: Number,
    axis: str,
    message: Reason,
    stage: str = "",
    hides_under: tuple[str, ...] = (),
) -> Op:
    """Ranks of `axis` exchange a payload; with one peer nothing moves."""
    return Op(
        name=name,
        kind="collective",
        part="collective",
        stage=stage or name,
        count=count,
        collective=algorithm,
        message_bytes=message.formula(*message.arguments),
        peers=peers,
        axis=axis,
        hides_under=hides_under,
        why=(message,),
    )


def vectors(cut: Cut, tokens: Number, width: Number) -> Reason:
    """Payload of `tokens` activation vectors of `width`."""
    return Reason("message_bytes", f.vector_message, (tokens, width, cut.activation_size))


def is_one(x: Number) -> bool:
    """True where a degree is the plain number 1, so that an operator can be left out of the list."""
    return isinstance(x, (int, float)) and x == 1
