"""Every tensor of a model as it is stored, whole and on one device; then the products of a step.

Requirements D-113, D-120, D-121. The rows of weights are the resident bytes of the operators that read them, so they add up to
what the memory of a device counts; a product that several tensors share is shown as those tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from rooflab import graph
from rooflab.graph.formulas import cache_bytes
from rooflab.model import Attention, LatentAttention, Model, MoE
from rooflab.work import Layout, Op, Precision, Step

_NAMES = {
    "o_proj": "W_O", "gate_up": "W_gate, W_up", "up": "W_up", "down": "W_down", "qkv": "W_Q, W_K, W_V",
    "qkv_down": "W_Q and W_KV down", "q_up": "W_Q up", "absorb_q": "W_KV up", "kv_up": "W_KV up", "in_proj": "W_in",
    "experts_up": "expert W_gate, W_up", "experts_down": "expert W_down", "shared_up": "shared W_gate, W_up",
    "shared_down": "shared W_down", "norm": "norms and biases", "final_norm": "final norm and the rest", "lm_head": "output head",
    "index_projection": "W_index",
}  # fmt: skip
_PARTS = {"attention projections": "attention", "ffn": "feed-forward", "elementwise": "norms"}


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor or product: its shape as a whole and on a device (requirement D-113)."""

    tensor: str
    kind: str = ""
    """Which layers have it, where the model has several kinds."""
    part: str
    whole: str
    per_device: str
    split: str
    """What is divided, by which axis."""
    layers: float = 1.0
    """How many there are in the model."""
    layers_per_device: float = 1.0
    """How many of them the busiest device holds a part of; 0 where another pipeline stage holds it."""
    params: float
    params_per_device: float
    bytes: float
    """Of one."""
    bytes_per_device: float
    all_bytes: float = 0.0
    """Of all."""
    all_per_device: float = 0.0


def shapes(
    model: Model, precision: Precision, layout: Layout, *, context: float, batch: float = 1, phase: str = "decode"
) -> tuple[Shape, ...]:
    """Every weight, cache and state, whole and per device; then every product of a step (part "step")."""
    inside = msgspec.structs.replace(layout, dp=1)
    rows = [
        *_weights(model, precision, layout),
        *_caches(model, precision, inside, float(context), float(batch)),
        *_states(model, precision, inside, float(batch)),
    ]
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


def _count(x: float) -> str:
    """A dimension as people write it."""
    return f"{x:,.0f}" if abs(x - round(x)) < 1e-9 else f"{x:,.4g}" if x < 1000 else f"{x:,.1f}"


def _sides(groups: float, rows: float, columns: float) -> str:
    lead = f"{_count(groups)} × " if groups != 1 else ""
    return f"{lead}{_count(rows)} × {_count(columns)}"


def _row(
    tensor: str, kind: str, part: str, whole: str, mine: str, split: str, layers: tuple[float, float],
    params: tuple[float, float], sizes: tuple[float, float],
) -> Shape:  # fmt: skip
    return Shape(
        tensor=tensor,
        kind=kind,
        part=part,
        whole=whole,
        per_device=mine,
        split=split,
        layers=layers[0],
        layers_per_device=layers[1],
        params=params[0],
        params_per_device=params[1],
        bytes=sizes[0],
        bytes_per_device=sizes[1],
        all_bytes=sizes[0] * layers[0],
        all_per_device=sizes[1] * layers[1],
    )


def _weights(model: Model, precision: Precision, layout: Layout) -> Iterator[Shape]:
    one = Step(decode_sequences=1, decode_context=1)
    before = {op.name: op for op in graph.operators(model, precision, Layout(), one)}
    mine = [op for op in graph.operators(model, precision, layout, one) if op.resident_bytes]
    ends = {
        part: math.fsum(op.resident_bytes * op.count for op in mine if op.part == part)
        for part in ("embedding", "head")
    }
    elsewhere = min(ends, key=lambda part: ends[part]) if layout.pp > 1 else ""
    share = float(graph.stage_share(model, layout))
    for op in mine:
        whole = before.get(op.name, op)
        inside = 1.0 if op.part in ends else share
        layers = (float(whole.count), 0.0 if op.part == elsewhere else float(op.count) * inside)
        yield from _tensors(model, layout, whole, op, layers, op.part == elsewhere)


def _tensors(
    model: Model, layout: Layout, whole: Op, mine: Op, layers: tuple[float, float], elsewhere: bool
) -> Iterator[Shape]:
    """The rows of one operator's weights: its columns may be those of several tensors."""
    base, _, kind = mine.name.partition("@")
    part = _PARTS.get(mine.part, mine.part)
    sizes = (float(whole.resident_bytes), float(mine.resident_bytes))
    if not mine.k:
        rows = f"{_count(model.vocab)} × {_count(model.hidden)}" if mine.part == "embedding" else "vectors"
        vocab = model.vocab / float(layout.tp)
        per_device = f"{_count(vocab)} × {_count(model.hidden)}" if mine.part == "embedding" else rows
        split = (
            "on another pipeline stage"
            if elsewhere
            else "rows by tp"
            if mine.part == "embedding" and layout.tp > 1
            else "held whole"
        )
        yield _row(_NAMES.get(base, base), kind, part, rows, per_device, split, layers, (0.0, 0.0), sizes)
        return
    groups = _groups(model, base, whole, mine)
    depth = (float(whole.k), float(mine.k))
    split = "on another pipeline stage" if elsewhere else _split(layout, mine.part, groups, depth, (whole.n, mine.n))
    for name, columns in _columns(model, layout, base, float(whole.n), float(mine.n)):
        yield _row(
            name,
            kind,
            part,
            _sides(groups[0], depth[0], columns[0]),
            _sides(groups[1], depth[1], columns[1]),
            split
            if columns[0] > columns[1] or depth[0] > depth[1] or groups[0] > groups[1] or elsewhere
            else "held whole",
            layers,
            (groups[0] * depth[0] * columns[0], groups[1] * depth[1] * columns[1]),
            (sizes[0] * columns[0] / float(whole.n), sizes[1] * columns[1] / float(mine.n)),
        )


def _groups(model: Model, base: str, whole: Op, mine: Op) -> tuple[float, float]:
    """Matrices of one tensor, whole and per device: experts, or heads of a product per head."""
    if not base.startswith("experts"):
        return float(whole.groups), float(mine.groups)
    widths = [block.ffn for block in model.blocks if isinstance(block.ffn, MoE)]
    side = float(whole.n) if base == "experts_up" else float(whole.k)
    ffn = next((one for one in widths if side in (one.width, 2 * one.width)), widths[0])
    held = mine.resident_bytes / (mine.k * mine.n) * (whole.k * whole.n) / whole.resident_bytes
    return float(ffn.experts), round(float(ffn.experts * held), 6)


def _split(
    layout: Layout, part: str, groups: tuple[float, float], depth: tuple[float, float], columns: tuple[Any, Any]
) -> str:
    by = "tp"
    if part in ("ffn", "experts"):
        ranks = (depth[0] / depth[1]) * float(columns[0] / columns[1])
        by = f"{ranks:g} ranks"
    found = []
    if columns[0] > columns[1]:
        found.append(f"columns by {by}")
    if depth[0] > depth[1]:
        found.append(f"rows by {by}")
    if groups[0] > groups[1]:
        found.append("experts by ep" if part == "experts" else "heads by tp")
    return ", ".join(found)


def _columns(
    model: Model, layout: Layout, base: str, whole: float, mine: float
) -> Iterator[tuple[str, tuple[float, float]]]:
    """The tensors that share a product's columns: query, key and value, or gate and up."""
    if base == "qkv":
        for mixer in dict.fromkeys(b.mixer for b in model.blocks if isinstance(b.mixer, Attention)):
            heads = mixer.heads / layout.tp * mixer.head_dim * (2 if mixer.gate else 1)
            kv_heads = mixer.kv_heads / layout.tp
            held = kv_heads if layout.kv_shard == "split" else max(kv_heads, 1.0)
            query = float(heads * layout.tp)
            pieces = [
                ("W_Q with its gate" if mixer.gate else "W_Q", (query, heads)),
                ("W_K", (float(mixer.kv_heads * mixer.head_dim), held * mixer.head_dim)),
                ("W_V", (float(mixer.kv_heads * mixer.value_dim), held * mixer.value_dim)),
            ]
            for some in (pieces, pieces[:1]):
                if all(abs(math.fsum(p[1][i] for p in some) - total) < 1e-6 for i, total in enumerate((whole, mine))):
                    yield from some
                    return
    name = _NAMES.get(base, base.replace("_", " "))
    two, gated = base.endswith("_up") and "W_gate, W_up" in name, True
    if base != "gate_up" and two:
        gated = _gated(model, base, whole)
    if two and gated:
        for each in name.replace("W_gate, W_up", "W_gate|W_up").split("|"):
            lead = name.split("W_gate")[0]
            yield (each if each.startswith(lead) else lead + each), (whole / 2, mine / 2)
        return
    yield name.replace("W_gate, W_up", "W_up"), (whole, mine)


def _gated(model: Model, base: str, columns: float) -> bool:
    """Whether an expert product's columns are a gate and an up projection."""
    widths = [(f.width, f.shared_width) for b in model.blocks if isinstance(f := b.ffn, MoE)]
    return any(columns == 2 * (shared if base.startswith("shared") else width) for width, shared in widths)


def _caches(model: Model, precision: Precision, layout: Layout, context: float, batch: float) -> Iterator[Shape]:
    """What each kind of layer caches for all sequences at their full length."""
    share = float(graph.stage_share(model, layout))
    whole = graph.cached_blocks(model, precision, Layout(), context, batch)
    mine = graph.cached_blocks(model, precision, layout, context, batch)
    kinds = {graph.label_of(one.mixer) for one in whole}
    found: dict[tuple[Any, ...], list[float]] = {}
    for one, own in zip(whole, mine, strict=True):
        kind = graph.label_of(one.mixer) if len(kinds) > 1 else ""
        key = (one.what, type(one.mixer), kind, *(_cached(each) for each in (one, own)))
        found.setdefault(key, []).append(one.layers)
    for (what, mixer, kind, before, after), layers in found.items():
        name = "index keys" if what == "index" else "latent" if mixer is LatentAttention else "K and V"
        shared = "every tp rank holds it whole" if name != "K and V" and layout.tp > 1 else ""
        count = math.fsum(layers)
        (rows, width, size), (own_rows, own_width, own_size) = before, after
        yield _row(
            name,
            kind,
            "cache",
            _sides(1.0, rows, width),
            _sides(1.0, own_rows, own_width),
            _over(layout, own_width < width, shared),
            (count, count * share),
            (rows * width, own_rows * own_width),
            (size, own_size),
        )


def _over(layout: Layout, heads: bool, more: str = "") -> str:
    """Which axes of a layout cut what sequences keep."""
    cuts = (
        (heads, "heads by tp"),
        (layout.cp > 1, "positions by cp"),
        (layout.attention_dp > 1, "sequences by attention_dp"),
        (bool(more), more),
    )
    return ", ".join(text for holds, text in cuts if holds) or "held whole"


def _cached(one: graph.Cached) -> tuple[float, float, float]:
    """(rows, columns, bytes) of one layer's entries."""
    size = float(cache_bytes(one.sequences, one.tokens, one.elements, one.size))
    return float(one.sequences * one.tokens), float(one.elements), size


def _states(model: Model, precision: Precision, layout: Layout, batch: float) -> Iterator[Shape]:
    """The recurrent state of all sequences, whatever their length."""
    blocks = [b for b in model.blocks if b.mixer is not None and b.mixer.state_elements()]
    layers = math.fsum(b.count for b in blocks)
    if not layers:
        return
    share = float(graph.stage_share(model, layout))
    whole = float(graph.state_bytes_per_device(model, precision, Layout(), batch)) / layers
    mine = float(graph.state_bytes_per_device(model, precision, layout, batch)) / layers / share
    elements = model.state_elements() / layers
    sequences = -(-batch // layout.attention_dp)
    yield _row(
        "recurrent state", "", "state", _sides(1.0, batch, elements), _sides(1.0, sequences, elements / layout.tp),
        _over(msgspec.structs.replace(layout, cp=1), layout.tp > 1), (layers, layers * share),
        (batch * elements, sequences * elements / layout.tp), (whole, mine),
    )  # fmt: skip


def _product(whole: Op, mine: Op) -> Shape:
    """A matrix product of a step: rows × depth × columns."""

    def text(op: Op) -> str:
        lead = f"{_count(float(op.groups))} × " if float(op.groups) != 1 else ""
        m, n, k = (_count(float(x)) for x in (op.m, op.n, op.k))
        return f"{lead}({m} × {k}) · ({k} × {n}) → {m} × {n}"

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
