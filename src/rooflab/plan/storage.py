"""What each device holds: tensors that several devices keep, one rank's heads and bytes, and every tensor's shape.

Requirements D-106–D-113. A tensor's copies are counted, not assumed: what all devices hold together over what one would.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab import graph
from rooflab.model import Attention, Dense, LatentAttention, Model, MoE
from rooflab.work import Layout, Op, Precision, Step, size_of

AXES = ("tp", "cp", "attention_dp", "ep")
"""Axes whose ranks may hold the same bytes; pipeline stages hold different layers."""
_TITLES = {
    "attention projections": "attention weights", "ffn": "feed-forward weights", "experts": "expert weights",
    "router": "router", "elementwise": "norms and biases", "embedding": "embedding", "head": "output head",
    "attention": "attention weights",
}  # fmt: skip


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of tensor on each device of a replica."""

    tensor: str
    per_device: float
    """Bytes on the busiest device."""
    across: tuple[str, ...]
    """Axes whose ranks hold the same bytes."""
    copies: float
    """Times the tensor exists in the replica."""
    waste: float
    """Bytes per device beyond an even share of one copy."""


def _resident(model: Model, precision: Precision, layout: Layout) -> dict[str, float]:
    """Weight bytes on a device by kind of tensor."""
    operators = graph.operators(model, precision, layout, Step(decode_sequences=1, decode_context=1))
    share = float(graph.stage_share(model, layout))
    totals: dict[str, float] = {}
    for op in operators:
        held = float(op.resident_bytes * op.count)
        if held:
            title = _TITLES.get(op.part, op.part)
            outside = op.part in ("embedding", "head")
            totals[title] = totals.get(title, 0.0) + held * (1.0 if outside else share)
    return totals


def _everything(model: Model, precision: Precision, layout: Layout, context: float, batch: float) -> dict[str, float]:
    kept = _resident(model, precision, layout)
    kept["KV cache"] = float(graph.kv_bytes_per_device(model, precision, layout, context, batch))
    state = float(graph.state_bytes_per_device(model, precision, layout, batch))
    if state:
        kept["recurrent state"] = state
    return {name: value for name, value in kept.items() if value > 0}


def copies(model: Model, precision: Precision, layout: Layout, *, context: float, batch: float = 1) -> tuple[Held, ...]:
    """Every kind of tensor with its copies inside one replica, most waste first (requirement D-110).

    Embedding and head live on one pipeline stage each, so their share is counted over the devices of a stage.
    """
    inside = msgspec.structs.replace(layout, dp=1)
    groups = float(layout.attention_dp)
    batch = math.ceil(batch / groups) * groups  # a group that is not full is no copy
    whole = _everything(model, precision, Layout(), float(context), float(batch))
    mine = _everything(model, precision, inside, float(context), float(batch))
    devices = float(inside.devices())
    found = []
    for tensor, per_device in mine.items():
        ranks = devices / float(layout.pp) if tensor in ("embedding", "output head") else devices
        total = whole.get(tensor, per_device)
        count = max(per_device * ranks / total, 1.0)
        uneven = per_device - total / ranks
        across = _across(model, precision, inside, tensor, per_device, float(context), float(batch))
        found.append(
            Held(
                tensor=tensor,
                per_device=per_device,
                across=across,
                copies=count,
                waste=max(uneven, 0.0) if across else 0.0,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.waste))


def _across(
    model: Model, precision: Precision, layout: Layout, tensor: str, per_device: float, context: float, batch: float
) -> tuple[str, ...]:
    """Axes along which ranks hold copies: with a single rank there a device would hold less than its ranks together do."""
    found = []
    for axis in AXES:
        ranks = int(getattr(layout, axis))
        if ranks <= 1 or (axis == "ep" and layout.ep_mode == "overlay"):
            continue
        changed = msgspec.structs.replace(layout, **{axis: 1})
        if axis != "ep" and layout.ep_mode == "overlay" and layout.ep > 1:
            changed = msgspec.structs.replace(changed, ep=max(1, int(layout.ep) // ranks))
        alone = _everything(model, precision, changed, context, batch).get(tensor, 0.0)
        if per_device * ranks > alone * 1.01:
            found.append(axis)
    return tuple(found)


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor-parallel rank (requirement D-112)."""

    rank: int
    query_heads: str
    kv_heads: str
    note: str
    query: float
    key: float
    value: float
    out: float
    ffn: float
    """Bytes of its feed-forward weights, experts included, over its layers; so are the four above."""
    weights: float
    kv: float
    workspace: float


def ranks(
    model: Model,
    precision: Precision,
    layout: Layout,
    *,
    context: float,
    batch: float = 1,
    workspace: float = 0.0,
) -> tuple[Rank, ...]:
    """Heads and bytes of each rank of a tensor-parallel group; models without plain attention have no rows."""
    mixer = next((block.mixer for block in model.blocks if isinstance(block.mixer, Attention)), None)
    if mixer is None:
        return ()
    tp = int(layout.tp)
    share = float(graph.stage_share(model, layout))
    layers = math.fsum(block.count for block in model.blocks if isinstance(block.mixer, Attention)) * share
    size = precision.weight_size(precision.attention)
    kept = _resident(model, precision, layout)
    kv_total = float(graph.kv_bytes_per_device(model, precision, layout, float(context), float(batch)))
    held = max(mixer.kv_heads / tp, 1.0) if layout.kv_shard == "replicate" else mixer.kv_heads / tp
    rows = []
    for rank in range(tp):
        rows.append(
            Rank(
                rank=rank,
                query_heads=_span(rank * mixer.heads / tp, mixer.heads / tp),
                kv_heads=_span(rank * mixer.kv_heads / tp, held),
                note=_kv_note(mixer, layout, rank),
                query=layers * model.hidden * mixer.heads / tp * mixer.head_dim * size,
                key=layers * model.hidden * held * mixer.head_dim * size,
                value=layers * model.hidden * held * mixer.value_dim * size,
                out=layers * model.hidden * mixer.heads / tp * mixer.value_dim * size,
                ffn=kept.get("feed-forward weights", 0.0) + kept.get("expert weights", 0.0),
                weights=math.fsum(kept.values()),
                kv=kv_total,
                workspace=workspace,
            )
        )
    return tuple(rows)


def _span(first: float, count: float) -> str:
    """Heads a rank holds, in words: "4–7", "2", or a share of one."""
    start = math.floor(first + 1e-9)
    if count < 1:
        return f"{count:g} of {start}"
    last = start + round(count) - 1
    return f"{start}" if last == start else f"{start}–{last}"


def _kv_note(mixer: Attention, layout: Layout, rank: int) -> str:
    tp = int(layout.tp)
    if tp <= mixer.kv_heads:
        return ""
    times = tp // mixer.kv_heads
    if layout.kv_shard == "split":
        return f"part {rank % times + 1} of {times} of its width"
    return f"copy {rank % times + 1} of {times}"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor or product: its shape as a whole and on a device (requirement D-113)."""

    tensor: str
    part: str
    whole: str
    per_device: str
    split: str
    """What is divided, by which axis."""
    params: float
    params_per_device: float
    bytes: float
    bytes_per_device: float


def shapes(
    model: Model, precision: Precision, layout: Layout, *, context: float, batch: float = 1, phase: str = "decode"
) -> tuple[Shape, ...]:
    """Weights and cache of one layer of each kind, whole and per device; then every product of a step."""
    rows: list[Shape] = []
    seen: set[Any] = set()
    for block in model.blocks:
        for kind in (block.mixer, block.ffn):
            if kind is None or kind in seen:
                continue
            seen.add(kind)
            if isinstance(kind, Attention):
                rows += _attention_shapes(model, kind, precision, layout, context, batch)
            elif isinstance(kind, LatentAttention):
                rows += _latent_shapes(kind, precision, layout, context, batch)
            elif isinstance(kind, Dense):
                ranks = float(_ffn_ranks(layout))
                rows += _ffn_shapes(
                    "", model.hidden, kind.width, 1, ranks, 1.0, precision.weight_size(precision.ffn), kind.gated
                )
            elif isinstance(kind, MoE):
                rows += _expert_shapes(model, kind, precision, layout)
    step = (
        Step(decode_sequences=batch, decode_context=context)
        if phase == "decode"
        else Step(prefill_sequences=batch, prefill_tokens=context)
    )
    before = {op.name: op for op in graph.operators(model, precision, Layout(), step)}
    for op in graph.operators(model, precision, layout, step):
        if op.kind in ("gemm", "grouped_gemm") and op.name in before:
            rows.append(_product(before[op.name], op))
    return tuple(rows)


def _ffn_ranks(layout: Layout) -> int:
    ranks = int(layout.tp)
    if layout.ffn_scope != "tp":
        ranks *= int(layout.cp)
    return ranks * int(layout.dp) if layout.ffn_scope == "tp_cp_dp" else ranks


def _matrix(
    tensor: str, part: str, rows: float, columns: float, mine: tuple[float, float], split: str, size: float, groups: float = 1.0,
    mine_groups: float = 1.0,
) -> Shape:  # fmt: skip
    def text(count: float, a: float, b: float) -> str:
        lead = f"{count:g} × " if count != 1 else ""
        return f"{lead}{a:g} × {b:g}"

    total, own = groups * rows * columns, mine_groups * mine[0] * mine[1]
    return Shape(
        tensor=tensor,
        part=part,
        whole=text(groups, rows, columns),
        per_device=text(mine_groups, *mine),
        split=split,
        params=total,
        params_per_device=own,
        bytes=total * size,
        bytes_per_device=own * size,
    )


def _attention_shapes(
    model: Model, mixer: Attention, precision: Precision, layout: Layout, context: float, batch: float
) -> list[Shape]:
    hidden, tp, size = float(model.hidden), float(layout.tp), precision.weight_size(precision.attention)
    heads = mixer.heads / tp
    held = mixer.kv_heads / tp if layout.kv_shard == "split" else max(mixer.kv_heads / tp, 1.0)
    query, key = mixer.heads * mixer.head_dim, mixer.kv_heads * mixer.head_dim
    value, out = mixer.kv_heads * mixer.value_dim, mixer.heads * mixer.value_dim
    local = math.ceil(context / layout.cp)
    columns = "columns by tp"
    return [
        _matrix("W_Q", "attention", hidden, query, (hidden, heads * mixer.head_dim), columns, size),
        _matrix("W_K", "attention", hidden, key, (hidden, held * mixer.head_dim), columns, size),
        _matrix("W_V", "attention", hidden, value, (hidden, held * mixer.value_dim), columns, size),
        _matrix("W_O", "attention", out, hidden, (heads * mixer.value_dim, hidden), "rows by tp", size),
        _matrix(
            "K and V",
            "cache",
            batch * context,
            key + value,
            (math.ceil(batch / layout.attention_dp) * local, held * (mixer.head_dim + mixer.value_dim)),
            "positions by cp, heads by tp, sequences by attention_dp",
            size_of(precision.kv),
        ),
    ]


def _latent_shapes(
    mixer: LatentAttention, precision: Precision, layout: Layout, context: float, batch: float
) -> list[Shape]:
    latent = float(mixer.kv_rank + mixer.rope_dim)
    local = math.ceil(context / layout.cp)
    mine = (math.ceil(batch / layout.attention_dp) * local, latent)
    split = "positions by cp, sequences by attention_dp; every tp rank holds it whole"
    return [_matrix("latent", "cache", batch * context, latent, mine, split, size_of(precision.kv))]


def _ffn_shapes(
    prefix: str, hidden: float, width: float, count: float, ranks: float, held: float, size: float, gated: bool
) -> list[Shape]:
    part = "experts" if prefix else "feed-forward"
    by = f"columns by {ranks:g} ranks" + (", experts by ep" if prefix else "")
    rows = by.replace("columns", "rows")
    names = ["W_gate", "W_up"] if gated else ["W_up"]
    found = [
        _matrix(f"{prefix}{name}", part, hidden, width, (hidden, width / ranks), by, size, count, held)
        for name in names
    ]
    found.append(_matrix(f"{prefix}W_down", part, width, hidden, (width / ranks, hidden), rows, size, count, held))
    return found


def _expert_shapes(model: Model, ffn: MoE, precision: Precision, layout: Layout) -> list[Shape]:
    ranks = float(_ffn_ranks(layout))
    spread = float(layout.ep)
    width_ranks = ranks if layout.ep_mode == "dedicated" else ranks * float(layout.attention_dp) / spread
    size = precision.weight_size(precision.expert)
    inner = float(ffn.latent or model.hidden)
    return _ffn_shapes("expert ", inner, ffn.width, ffn.experts, width_ranks, ffn.experts / spread, size, ffn.gated)


def _product(whole: Op, mine: Op) -> Shape:
    """A matrix product of a step: rows × depth × columns."""

    def text(op: Op) -> str:
        lead = f"{float(op.groups):g} × " if float(op.groups) != 1 else ""
        m, n, k = float(op.m), float(op.n), float(op.k)
        return f"{lead}[{m:g}, {k:g}] · [{k:g}, {n:g}] → [{m:g}, {n:g}]"

    params = float(whole.groups) * float(whole.k) * float(whole.n)
    own = float(mine.groups) * float(mine.k) * float(mine.n)
    return Shape(
        tensor=mine.name,
        part="step",
        whole=text(whole),
        per_device=text(mine),
        split="input · weight → output",
        params=params,
        params_per_device=own,
        bytes=float(whole.weight_bytes),
        bytes_per_device=float(mine.weight_bytes),
    )
