"""What each device holds: tensors that several devices keep, one rank's heads and bytes.

Requirements D-106–D-112. A tensor's copies are counted, not assumed: what all devices hold together over what one would.
"""

from __future__ import annotations

import math

import msgspec

from rooflab import fits, graph
from rooflab.model import Attention, LatentAttention, Mixer, Model, Recurrent
from rooflab.work import Layout, Precision, Step

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
    shared: bool
    """Whether every replica holds the same: weights that are not cut over the replicas."""


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
    cut = _resident(model, precision, layout)
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
                shared=tensor in cut and cut[tensor] >= per_device,
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
    attention: float
    """Bytes of its attention weights over its layers; the four of plain attention apart, 0 for other kinds."""
    query: float
    key: float
    value: float
    out: float
    ffn: float
    """Bytes of its feed-forward weights, experts included, over its layers."""
    weights: float
    kv: float
    state: float
    """Recurrent state."""
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
    """Heads and bytes of each rank of a tensor-parallel group; the first kind of layer that has heads names them."""
    kinds = [block.mixer for block in model.blocks if isinstance(block.mixer, (Attention, LatentAttention, Recurrent))]
    mixer = next((one for one in kinds if isinstance(one, Attention)), next(iter(kinds), None))
    tp = int(layout.tp)
    share = float(graph.stage_share(model, layout))
    kept = _resident(model, precision, layout)
    step = Step(decode_sequences=1, decode_context=1)
    weights = float(fits.weights_per_device(model, layout, graph.operators(model, precision, layout, step)))
    cache = float(graph.kv_bytes_per_device(model, precision, layout, float(context), float(batch)))
    state = float(graph.state_bytes_per_device(model, precision, layout, float(batch)))
    each = (0.0, 0.0, 0.0, 0.0)
    held = 0.0
    if isinstance(mixer, Attention):
        plain = math.fsum(block.count for block in model.blocks if isinstance(block.mixer, Attention))
        held = max(mixer.kv_heads / tp, 1.0) if layout.kv_shard == "replicate" else mixer.kv_heads / tp
        one = plain * share * model.hidden * precision.weight_size(precision.attention)
        each = (
            one * mixer.heads / tp * mixer.head_dim * (2 if mixer.gate else 1),
            one * held * mixer.head_dim,
            one * held * mixer.value_dim,
            one * mixer.heads / tp * mixer.value_dim,
        )
    rows = []
    for rank in range(tp):
        heads, kv_heads, note = _heads(mixer, layout, rank, held)
        rows.append(
            Rank(
                rank=rank,
                query_heads=heads,
                kv_heads=kv_heads,
                note=note,
                attention=kept.get("attention weights", 0.0),
                query=each[0],
                key=each[1],
                value=each[2],
                out=each[3],
                ffn=kept.get("feed-forward weights", 0.0) + kept.get("expert weights", 0.0),
                weights=weights,
                kv=cache,
                state=state,
                workspace=workspace,
            )
        )
    return tuple(rows)


def _heads(mixer: Mixer | None, layout: Layout, rank: int, held: float) -> tuple[str, str, str]:
    """(heads, KV heads, note) of a rank, in words."""
    if mixer is None or not mixer.heads:
        return "", "", ""
    tp = int(layout.tp)
    heads = _span(rank * mixer.heads / tp, mixer.heads / tp)
    if isinstance(mixer, Attention):
        return heads, _span(rank * mixer.kv_heads / tp, held), _kv_note(mixer, layout, rank)
    return heads, "one latent" if isinstance(mixer, LatentAttention) else "", ""


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
