"""From rows of a table to the operators RoofLab prices: one batch of equal kind, device, engine and format at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from rooflab.kernels import experts
from rooflab.measure.tables import DTYPES, EXPERT_RATES, Table, priced_as
from rooflab.work import FORMATS, Op, Reason

Frame = Any
Array = Any

HELD = 4
"""One shape in this many is held out of a fit."""
HELD_HEADS = (2, 8, 32, 128)
"""Head counts of latent attention that are held out."""
LATENT = (512, 64, 128, 128)
"""Rank, rotary, plain and value width of the latent attention that was measured."""
UNGATED = frozenset({(2688.0, 1856.0), (1024.0, 2688.0), (2048.0, 5120.0)})  # count
"""(hidden, inter) of measured expert layers whose models have no gate: their first product is half as wide."""
WITHOUT_GATE = "experts"
"""Part of a kernel's name in the collections that time such layers without one; older ones timed them with."""
WIDE = 16
"""Query heads per KV head above which decode kernels take another path."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one family, device, engine and format as one operator whose numbers are arrays."""

    family: str
    system: str
    backend: str
    dtype: str
    """Format as fits are filed."""
    version: str
    kernel: str
    """Name of the kernel that ran."""
    op: Op
    seconds: Array
    held: Array
    lines: Array


def batches(table: Table) -> tuple[list[Batch], dict[str, int]]:
    """Every row of a table as part of a batch, and how many rows could not be, by reason."""
    skipped: dict[str, int] = {}
    found: list[Batch] = []
    frame = table.frame
    if frame.empty:
        return [], {}
    reader = _READERS[table.kind.name]
    if "kernel_source" not in frame:
        frame = frame.assign(kernel_source="")
    source = frame["kernel_source"].astype(object)
    named = source.where(source.notna(), "").astype(str)
    frame = frame.assign(kernel_source=named, ran=frame["version"].astype(str).where(named == "", ""))
    keys = ["system", "backend", "kernel_source", "ran", *table.kind.dtype]
    for values, rows in frame.groupby(keys, sort=True, dropna=False):
        formats = [DTYPES.get(str(v).strip().lower()) for v in values[4:]]
        if None in formats:
            odd = str(values[4 + formats.index(None)])
            _count(skipped, f"number format {odd!r} is not one RoofLab prices", len(rows))
            continue
        for family, dtype, part, op, held in reader(rows, [f for f in formats if f]):
            found.append(
                Batch(
                    family=family,
                    system=str(values[0]),
                    backend=str(values[1]),
                    dtype=dtype,
                    version=", ".join(sorted({str(v) for v in part["version"].dropna().unique()}, key=in_order)),
                    kernel=str(values[2]),
                    op=op,
                    seconds=part["seconds"].to_numpy(float),
                    held=held,
                    lines=part["line"].to_numpy(),
                )
            )
    taken = sum(len(batch.seconds) for batch in found)  # int
    left = len(frame) - taken - sum(skipped.values())  # int
    if left > 0:
        _count(skipped, "the row's kernel is not one RoofLab prices", left)
    return found, skipped


def in_order(version: str) -> list[tuple[int, str]]:
    """A key that sorts versions as people count: 0.9 before 0.10."""
    pieces = version.replace("rc", ".").replace("post", ".").split(".")
    return [(int(piece) if piece.isdecimal() else 0, piece) for piece in pieces]


def _count(skipped: dict[str, int], reason: str, rows: int) -> None:
    skipped[reason] = skipped.get(reason, 0) + rows


def held_out(frame: Frame, columns: list[str]) -> Array:
    """Which rows belong to a held-out shape: every fourth by a checksum of these columns."""
    import numpy

    shapes = frame[columns].drop_duplicates()
    marks = {
        tuple(row): zlib.crc32(",".join(f"{value:g}" for value in row).encode()) % HELD == 0
        for row in shapes.itertuples(index=False, name=None)
    }
    return numpy.fromiter((marks[row] for row in frame[columns].itertuples(index=False, name=None)), bool, len(frame))


def _arrays(frame: Frame, *columns: str) -> list[Array]:
    return [frame[column].to_numpy(float) for column in columns]


_WHY = (Reason("measured", max, (0.0,)),)
Rows = Iterator[tuple[str, str, Frame, Op, Array]]


def gemm_op(m: Array, n: Array, k: Array, name: str, groups: Any = 1, **more: Any) -> Op:
    """A matrix product as an engine calls it."""
    form = FORMATS[name]
    activation = 2.0 if form.rate in ("bf16", "fp16") else form.size
    return Op(
        name="row",
        kind=more.pop("kind", "gemm"),
        part="ffn",
        dtype=form.rate,
        format=name,
        m=m,
        n=n,
        k=k,
        groups=groups,
        flop=2.0 * m * n * k * groups,
        weight_bytes=n * k * form.size * groups,
        activation_bytes=(m * k * activation + m * n * 2.0) * groups,
        why=_WHY,
        **more,
    )


def _gemm(rows: Frame, formats: list[str]) -> Rows:
    m, n, k = _arrays(rows, "m", "n", "k")
    yield "gemm", formats[0], rows, gemm_op(m, n, k, priced_as(formats[0])), held_out(rows, ["n", "k"])


def _attention(rows: Frame, formats: list[str]) -> Rows:
    rows = rows.assign(
        kv=rows["num_key_value_heads"].where(rows["num_key_value_heads"] > 0, rows["num_heads"]),
        window=rows["window_size"].fillna(0).astype(float) if "window_size" in rows else 0.0,
    )
    decode = (rows["isl"] == 1) & (rows["step"] > 0)
    attends, cached = priced_as(formats[0]), priced_as(formats[1])
    both = attends if attends == cached else f"{attends}+{cached}"
    wide = rows["num_heads"] / rows["kv"] > WIDE
    for family, part in (
        ("decode_attention", rows[decode & ~wide]),
        ("decode_attention_wide", rows[decode & wide]),
    ):
        if len(part):
            yield family, cached, part, decode_op(part, cached), held_out(part, ["num_heads", "kv", "head_dim"])
    for window, part in rows[~decode].groupby("window"):
        held = held_out(part, ["num_heads", "kv", "head_dim"])
        yield "prefill_attention", both, part, prefill_op(part, float(window), cached, attends), held


def decode_op(rows: Frame, name: str) -> Op:
    """One new token a sequence; the cache holds step + 1 entries."""
    import numpy

    b, h, kv, hd, step, window = _arrays(rows, "batch_size", "num_heads", "kv", "head_dim", "step", "window")
    keys = step + 1.0
    seen = numpy.where(window > 0, numpy.minimum(keys, window), keys)
    return Op(
        name="row",
        kind="attention",
        part="attention",
        format=name,
        flop=4.0 * b * h * seen * hd,
        activation_bytes=4.0 * b * h * hd,
        kv_bytes=2.0 * b * kv * seen * hd * FORMATS[name].size,
        shape={"sequences": b, "heads": h, "kv_heads": kv, "head_dim": hd, "value_dim": hd, "context": seen},
        why=_WHY,
    )


def prefill_op(rows: Frame, window: float, cached: str, attends: str) -> Op:
    """`isl` new tokens a sequence after `step` cached ones."""
    import numpy

    b, h, kv, hd, new, past = _arrays(rows, "batch_size", "num_heads", "kv", "head_dim", "isl", "step")
    pairs = new * past + new * (new + 1.0) / 2.0
    if window:
        pairs = numpy.minimum(pairs, new * window)
    keys = numpy.minimum(new + past, window + new) if window else new + past
    shape = {"sequences": b, "heads": h, "kv_heads": kv, "head_dim": hd, "value_dim": hd}
    return Op(
        name="row",
        kind="attention",
        part="attention",
        dtype=FORMATS[attends].rate,
        format=cached,
        flop=4.0 * b * h * pairs * hd,
        activation_bytes=4.0 * b * new * h * hd,
        kv_bytes=2.0 * b * kv * keys * hd * FORMATS[cached].size,
        shape={**shape, "new": new, "cached": past, "window": window},
        why=_WHY,
    )


def _latent_attention(rows: Frame, formats: list[str]) -> Rows:
    cached = priced_as(formats[1])
    decode = (rows["isl"] == 1) & (rows["step"] > 0)
    for family, part in (("latent_decode", rows[decode]), ("latent_prefill", rows[~decode])):
        if len(part):
            held = part["num_heads"].isin(HELD_HEADS).to_numpy()
            op = latent_decode_op(part, cached) if family == "latent_decode" else latent_prefill_op(part, cached)
            yield family, cached, part, op, held


def latent_decode_op(rows: Frame, name: str) -> Op:
    """One new token a sequence over the cached latents."""
    rank, rope, _plain, _value = LATENT
    b, h, step = _arrays(rows, "batch_size", "num_heads", "step")
    keys, row = step + 1.0, float(rank + rope)
    return Op(
        name="row",
        kind="latent_attention",
        part="attention",
        format=name,
        flop=2.0 * b * h * keys * (row + rank),
        activation_bytes=2.0 * b * h * (row + rank),
        kv_bytes=b * keys * row * FORMATS[name].size,
        shape={"sequences": b, "heads": h, "head_dim": row, "value_dim": float(rank), "context": keys},
        why=_WHY,
    )


def latent_prefill_op(rows: Frame, name: str) -> Op:
    """`isl` new tokens a sequence over keys expanded for every head."""
    rank, rope, plain, value = LATENT
    b, h, new, past = _arrays(rows, "batch_size", "num_heads", "isl", "step")
    wide = float(plain + rope + value)
    shape = {"sequences": b, "heads": h, "kv_heads": h, "head_dim": float(plain + rope), "value_dim": float(value)}
    return Op(
        name="row",
        kind="attention",
        part="attention",
        format=name,
        flop=2.0 * b * h * (new * past + new * (new + 1.0) / 2.0) * wide,
        activation_bytes=2.0 * b * new * h * wide,
        shape={**shape, "new": new, "cached": past, "window": 0.0, "latent_dim": float(rank)},
        why=_WHY,
    )


def _latent_products(rows: Frame, formats: list[str]) -> Rows:
    rank, _rope, plain, value = LATENT
    for name, part in rows.groupby("op_name"):
        m, heads = _arrays(part, "num_tokens", "num_heads")
        n, k = (float(rank), float(plain)) if str(name).endswith("pre") else (float(value), float(rank))
        op = gemm_op(m, n, k, priced_as(formats[0]), heads, kind="grouped_gemm")
        yield "batched_gemm", formats[0], part, op, part["num_heads"].isin(HELD_HEADS).to_numpy()


def _experts(rows: Frame, formats: list[str]) -> Rows:
    import numpy

    dtype = formats[0]
    load = _loads(rows)
    keep = load["pairs"].to_numpy() > 0
    rows, load = rows[keep], load[keep]
    name = priced_as(dtype)
    hidden, inter, ranks = _arrays(rows, "hidden_size", "inter_size", "moe_tp_size")
    width = inter / ranks
    knows = rows["kernel_source"].astype(str).str.contains(WITHOUT_GATE).to_numpy()
    bare = numpy.array([pair in UNGATED for pair in zip(hidden, inter, strict=True)], bool)
    up = numpy.where(bare & knows, 1.0, 2.0) * width
    pairs, distinct = load["pairs"].to_numpy(), load["distinct"].to_numpy()
    shape = {column: load[column].to_numpy() for column in load}
    shape["routed"] = (rows["num_tokens"] * rows["topk"]).to_numpy(float)
    op = Op(
        name="row",
        kind="grouped_gemm",
        part="experts",
        dtype=EXPERT_RATES.get(dtype, FORMATS[name].rate),
        format=name,
        flop=2.0 * pairs * hidden * (up + width),
        weight_bytes=distinct * hidden * (up + width) * FORMATS[name].size,
        activation_bytes=4.0 * pairs * hidden,
        shape={**shape, "hidden": hidden, "up": up, "inter": width, "share": 1.0, "beside": 0.0},
        why=_WHY,
    )
    held = held_out(rows, ["hidden_size", "inter_size", "num_experts", "topk"])
    yield "experts", dtype, rows, op, held


def _loads(rows: Frame) -> Frame:
    """Pairs, distinct experts and row tiles of the busiest rank of each row, each combination worked out once."""
    import pandas

    names = ["pairs", "distinct", *(f"tiles_{int(size)}" for size in experts.TILE_ROWS)]
    found = []
    for key, part in rows.groupby(["num_experts", "topk", "moe_ep_size", "distribution"]):
        count, topk, ranks, spread = key
        tokens = part["num_tokens"].to_numpy(float)
        if str(spread).startswith("power_law_"):
            load = skewed_loads(tokens, int(count), topk, int(ranks), float(str(spread).rpartition("_")[2]))
        else:
            pairs = tokens * topk
            load = experts.even_load(pairs / ranks, pairs.clip(1.0, count) / ranks)
        columns = [load.pairs, load.distinct, *load.tiles]
        found.append(pandas.DataFrame(dict(zip(names, columns, strict=True)), index=part.index))
    return pandas.concat(found).loc[rows.index]


def skewed_loads(tokens: Array, count: int, topk: float, ranks: int, exponent: float) -> experts.Load:
    """`experts.skewed_load` of many token counts at once."""
    import numpy

    whole, inverse = numpy.unique(tokens, return_inverse=True)
    power = 1.0 - exponent
    ends = numpy.array([experts.skewed_range(float(t), count, topk) for t in whole]) ** power
    draws = 1.0 - (numpy.arange(count) + 0.5) / count
    values = (ends[:, :1] + draws[None, :] * (ends[:, 1:] - ends[:, :1])) ** (1.0 / power)
    pairs = numpy.round(whole * topk)[:, None]
    loads = numpy.round(values / values.sum(axis=1, keepdims=True) * pairs)
    missing = pairs - loads.sum(axis=1, keepdims=True)
    rank = numpy.arange(count)[None, :]
    used = (loads > 0).sum(axis=1, keepdims=True)
    loads = loads + numpy.where(missing >= 0, missing // count + (rank < missing % count), 0.0)
    loads = loads - ((missing < 0) & (used + missing <= rank) & (rank < used))
    size = count // ranks
    placed = loads[:, list(experts.shuffled(count))][:, : size * ranks].reshape(len(whole), ranks, size)
    own = placed[numpy.arange(len(whole)), placed.sum(axis=2).argmax(axis=1)]
    tiles = tuple(numpy.ceil(own / rows).sum(axis=1)[inverse] for rows in experts.TILE_ROWS)
    return experts.Load(own.sum(axis=1)[inverse], (own > 0).sum(axis=1).astype(float)[inverse], tiles)


def _linear_mixer(rows: Frame, channels: Callable[[Frame], Array], heads: tuple[str, str, str]) -> Rows:
    """Convolution, chunked scan and state update of a linear mixer."""
    kernel = rows["kernel_source"].astype(str)
    convolves = kernel.str.contains("conv1d").to_numpy()
    context = (rows["phase"] == "context").to_numpy()
    shape_columns = list(heads)
    for family, mask in (
        ("convolution", convolves),
        ("scan", ~convolves & context),
        ("update", ~convolves & ~context),
    ):
        part = rows[mask]
        if part.empty:
            continue
        sequences, tokens, h, kd, vd = _arrays(part, "batch_size", "num_tokens", *heads)
        held = held_out(part, shape_columns)
        yield family, "any", part, mixer_op(family, sequences, tokens, h, kd, vd, channels(part)), held


def mixer_op(
    family: str, sequences: Array, tokens: Array, heads: Array, key_dim: Array, value_dim: Array, channels: Array
) -> Op:
    """A kernel of a linear mixer; states are kept in 32 bits."""
    if family == "convolution":
        shape = {"taps": 4.0, "channels": channels, "tokens": tokens, "sequences": sequences}
        moved = 4.0 * tokens * channels
        return Op(
            name="row", kind="elementwise", part="attention", dtype="vector", flop=8.0 * tokens * channels,
            activation_bytes=moved, shape=shape, why=_WHY,
        )  # fmt: skip
    shape = {"sequences": sequences, "heads": heads, "key_dim": key_dim, "value_dim": value_dim}
    if family == "scan":
        flop = 4.0 * tokens * heads * key_dim * value_dim
        moved = 4.0 * tokens * heads * (key_dim + value_dim)
        return Op(
            name="row", kind="recurrence", part="attention", dtype="bf16", format="fp32", flop=flop,
            activation_bytes=moved, shape={**shape, "tokens": tokens}, why=_WHY,
        )  # fmt: skip
    states = 8.0 * sequences * heads * key_dim * value_dim
    return Op(
        name="row", kind="recurrence", part="attention", dtype="vector", format="fp32", flop=0.5 * states, kv_bytes=states,
        shape=shape, why=_WHY,
    )  # fmt: skip


def _delta_net(rows: Frame, _formats: list[str]) -> Rows:
    def channels(part: Frame) -> Array:
        kh, kd, vh, vd = _arrays(part, "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")
        return 2.0 * kh * kd + vh * vd

    yield from _linear_mixer(rows, channels, ("num_v_heads", "head_k_dim", "head_v_dim"))


def _state_space(rows: Frame, _formats: list[str]) -> Rows:
    def channels(part: Frame) -> Array:
        heads, width, groups, state = _arrays(part, "nheads", "head_dim", "n_groups", "d_state")
        return heads * width + 2.0 * groups * state

    yield from _linear_mixer(rows, channels, ("nheads", "d_state", "head_dim"))


_COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
}


def collective_op(name: str, message: Array, peers: Array) -> Op:
    """A collective among the ranks of one link domain."""
    return Op(
        name="row", kind="collective", part="collective", collective=name, message_bytes=message, peers=peers, axis="tp",
        why=_WHY,
    )  # fmt: skip


def _every_other(rows: Frame) -> Array:
    """Every other row in the order of ranks and message, so that both halves cover the range."""
    import numpy

    order = numpy.lexsort((rows["message_bytes"].to_numpy(), rows["num_gpus"].to_numpy()))
    held = numpy.zeros(len(rows), bool)
    held[order[1::2]] = True
    return held


def _collective(rows: Frame, _formats: list[str]) -> Rows:
    for name, part in rows.groupby("op_name"):
        if name in _COLLECTIVES:
            message, peers = _arrays(part, "message_bytes", "num_gpus")
            family = _COLLECTIVES[str(name)]
            yield family, "any", part, collective_op(family, message, peers), _every_other(part)


def _custom(rows: Frame, _formats: list[str]) -> Rows:
    """Launched inside a graph, as engines do; launches one by one wait for the host and are another kernel here."""
    source = rows["kernel_source"].astype(str).str.lower()
    eager = source.str.contains("eager").to_numpy()
    for family, mask in (("custom_all_reduce", ~eager), ("custom_all_reduce_eager", eager)):
        part = rows[mask]
        if len(part):
            message, peers = _arrays(part, "message_bytes", "num_gpus")
            yield family, "any", part, collective_op("all_reduce", message, peers), _every_other(part)


def _linear_layers(rows: Frame, _formats: list[str]) -> Rows:
    """Projections and passes over memory of one layer, in 16 bits."""
    for name, part in rows.groupby("op"):
        t, tp, h, kv, width, inner = _arrays(
            part, "num_tokens", "tp", "n_head", "n_kv_head", "n_embd", "n_expanded_embd"
        )
        head = width / h
        products = {
            "attn_pre_proj": ((h + 2.0 * kv) * head / tp, width),
            "attn_post_proj": (width, h * head / tp),
            "mlp_up_proj": (2.0 * inner / tp, width),
            "mlp_down_proj": (width, inner / tp),
        }
        passes = {
            "add": 3.0 * width,
            "copy": 2.0 * width,
            "mlp_act": 3.0 * inner / tp,
            "attn_rope": 2.0 * (h + kv) * head / tp,
            "input_layernorm": 2.0 * width,
            "post_attention_layernorm": 2.0 * width,
            "emb": 2.0 * width,
        }
        held = held_out(part, ["n_embd", "n_expanded_embd", "tp"])
        if name in products:
            n, k = products[str(name)]
            yield "gemm", "bf16", part, gemm_op(t, n, k, "bf16"), held
        elif name in passes:
            op = Op(
                name="row", kind="elementwise", part="elementwise", dtype="vector",
                activation_bytes=2.0 * t * passes[str(name)], why=_WHY,
            )  # fmt: skip
            yield "elementwise", "any", part, op, held


_READERS: dict[str, Callable[[Frame, list[str]], Rows]] = {
    "gemm": _gemm,
    "attention": _attention,
    "latent_attention": _latent_attention,
    "experts": _experts,
    "latent_products": _latent_products,
    "delta_net": _delta_net,
    "state_space": _state_space,
    "collective": _collective,
    "custom_all_reduce": _custom,
    "linear_layers": _linear_layers,
}
