"""COUNT: what work one step is, as a list of operators on one device. Knows no hardware and no time.

The list depends on the model and on which phases and parallel axes are present, never on a value, so any degree, batch
or context may be a NumPy array. Counts are exact; see `graph.formulas` for each formula and what it leaves out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num
from rooflab.graph import recurrences as _recurrences  # noqa: F401  registers its operators
from rooflab.graph.build import collective, elementwise, gemm, is_one, vectors
from rooflab.graph.coarse import linear_params, published_operators, total_weight_bytes, weights_operators
from rooflab.graph.cut import Cut, cache_width, cut, kept
from rooflab.graph.feedforward import ffn_operators
from rooflab.graph.formulas import cache_bytes
from rooflab.graph.mixers import compressed, mixer_operators
from rooflab.graph.stages import attention_stages, ffn_stages, has_stages, norm_stage
from rooflab.model import Attention, Block, Dense, LatentAttention, Model, MoE
from rooflab.work import Layout, Op, Precision, Step, size_of

__all__ = [
    "Cached",
    "cached_blocks",
    "cut",
    "is_one",
    "kv_bytes_per_device",
    "label_of",
    "linear_params",
    "operators",
    "stage_share",
    "state_bytes_per_device",
    "total_weight_bytes",
]

Number = Any


def operators(
    model: Model,
    precision: Precision,
    layout: Layout,
    step: Step,
    *,
    counting: str = "kernels",
    causal: str = "exact",
    outside: bool = True,
    scope: str = "full",
) -> list[Op]:
    """Operators of one step on the busiest device of a replica; each runs `count` times.

    counting: kernels (an engine's fused kernels), stages (the sharded model's S1–F5), published (the calculator's two
    stages) or weights (one step of weights and cache). causal: exact, half or full prefill pairs in the stages.
    outside: whether embedding and output head are part of the step (kernels and stages). scope: full, or only the layers'
    attention or ffn half (kernels and stages; then nothing outside the layers is counted).
    """
    share = cut(model, precision, layout, step)
    if counting == "published":
        return published_operators(share)
    if counting == "weights":
        return weights_operators(share)
    stages = counting == "stages"
    if scope == "attention":
        return _mixers(share, stages, causal)
    if scope == "ffn":
        return _feed_forwards(share, stages)
    result = _outside_before(share) if outside else []
    result += _mixers(share, stages, causal)
    result += _feed_forwards(share, stages)
    result += _rest_of_layers(share, stages)
    if outside:
        result += _outside_after(share)
    return result


def _grouped(blocks: tuple[Block, ...], part: str) -> list[tuple[Any, int, int, float]]:
    """Distinct mixers (or feed-forwards): their layers, how many of those are in parallel blocks, and the share of the
    layers that keep weights of their own."""
    counts: dict[Any, list[int]] = {}
    for block in blocks:
        kind = getattr(block, part)
        if kind is not None:
            entry = counts.setdefault(kind, [0, 0, 0])
            entry[0] += block.count
            entry[1] += block.count if block.parallel else 0
            entry[2] += kept(block)
    return [(kind, layers, parallel, own / layers) for kind, (layers, parallel, own) in counts.items()]


def _held_once(ops: list[Op], share: float) -> list[Op]:
    """The same operators where only a share of the layers keeps weights and the rest use them again."""
    if share == 1.0:
        return ops
    return [msgspec.structs.replace(op, resident_bytes=op.resident_bytes * share) for op in ops]


def _tags(kinds: list[Any]) -> list[str]:
    """A suffix per kind that keeps operator names apart; empty where there is only one."""
    if len(kinds) == 1:
        return [""]
    labels = [label_of(kind) for kind in kinds]
    return [
        f"@{label}" if labels.count(label) == 1 else f"@{label}.{labels[: i + 1].count(label)}"
        for i, label in enumerate(labels)
    ]


def label_of(kind: Any) -> str:
    """What tells operators of one kind of layer from those of another."""
    if isinstance(kind, Attention):
        return "cross" if kind.cross else f"w{kind.window}" if kind.window else "full"
    if isinstance(kind, (Dense, MoE)):
        return "dense" if isinstance(kind, Dense) else "moe"
    return getattr(kind, "form", "latent")


def _mixers(share: Cut, stages: bool, causal: str) -> list[Op]:
    """Token mixers of all layers and the all-reduce of their outputs."""
    groups = _grouped(share.model.blocks, "mixer")
    result: list[Op] = []
    for (mixer, layers, parallel, own), tag in zip(groups, _tags([g[0] for g in groups]), strict=True):
        count = float(layers)
        if stages and has_stages(mixer):
            result += _held_once(attention_stages(mixer, share, count, tag, causal), own)
            continue
        if stages:
            result.append(norm_stage(share, "S1", count, tag))
        result += _held_once(mixer_operators(mixer, share, count, tag), own)
        if layers > parallel and not is_one(share.layout.tp):
            message = vectors(share, share.tokens, share.model.hidden)
            name = f"all_reduce_attention{tag}"
            result.append(collective(name, "all_reduce", float(layers - parallel), share.layout.tp, "tp", message))
    return result


def _feed_forwards(share: Cut, stages: bool) -> list[Op]:
    """Feed-forwards of all layers, their collectives included."""
    groups = _grouped(share.model.blocks, "ffn")
    result: list[Op] = []
    for (ffn, layers, _parallel, own), tag in zip(groups, _tags([g[0] for g in groups]), strict=True):
        if stages and isinstance(ffn, Dense):
            result += _held_once(ffn_stages(ffn, share, float(layers), tag), own)
            continue
        if stages:
            result.append(norm_stage(share, "F1", float(layers), tag))
        result += _held_once(ffn_operators(ffn, share, float(layers), tag), own)
    return result


def _small_params(block: Block, hidden: int, spread: Number) -> Number:
    """Parameters of one layer that no matrix product uses: norms, biases, scales; experts' biases spread with them."""
    small: Number = float(block.norm_params + block.other_params)
    if block.mixer is not None:
        small = small + float(block.mixer.params(hidden) - block.mixer.matmul_params(hidden))
    if isinstance(block.ffn, Dense):
        small = small + float(block.ffn.other_params)
    elif isinstance(block.ffn, MoE):
        small = small + float(block.ffn.other_params + block.ffn.router_other_params)
        small = small + float(block.ffn.experts * block.ffn.expert_other_params) / spread
    return small


def _rest_of_layers(share: Cut, stages: bool) -> list[Op]:
    """Norms with fused residual adds, per-layer extras, and sends between pipeline stages."""
    model, hidden = share.model, share.model.hidden
    _, spread = share.expert_ranks()
    small: Number = 0.0
    norms, extra, extra_kept = 0, 0, 0
    for block in model.blocks:
        parts = (block.mixer is not None) + (block.ffn is not None)
        norms += block.count * (1 if block.parallel else parts)
        extra += block.count * block.extra_matmul_params
        extra_kept += kept(block) * block.extra_matmul_params
        small = small + kept(block) * _small_params(block, hidden, spread)
    small_bytes = small * share.activation_size / max(norms, 1)
    result: list[Op] = []
    if stages:
        result.append(
            Op(
                name="norms",
                kind="elementwise",
                part="elementwise",
                stage="norms",
                count=norms,
                resident_bytes=small_bytes,
            )
        )
    elif norms:
        result.append(
            elementwise(share, "norm", "norm", float(norms), share.tokens, hidden, 4.0, 5.0, resident_bytes=small_bytes)
        )
    if extra:
        width = extra / hidden / model.layers
        ops = [gemm(share, "layer_extra", "ffn", "extra", float(model.layers), share.tokens, width, hidden, "ffn")]
        result += _held_once(ops, extra_kept / extra)
    if not is_one(share.layout.pp):
        message = vectors(share, share.tokens, hidden)
        sends = num.maximum(share.layout.pp - 1.0, 0.0)
        result.append(collective("pipeline_send", "send", sends, share.layout.pp, "pp", message))
    return result


def _outside_before(share: Cut) -> list[Op]:
    """The token table: one row read per token, the table resident."""
    model, tp = share.model, share.layout.tp
    table = (model.embedding_params() + model.lookup_params) * share.weight_size("embedding") / tp
    result = [
        elementwise(
            share,
            "embedding",
            "embedding",
            1.0,
            share.tokens,
            model.hidden,
            2.0,
            0.0,
            kind="embedding",
            part="embedding",
            resident_bytes=table,
        )
    ]
    if not is_one(tp):
        message = vectors(share, share.tokens, model.hidden)
        result.append(collective("all_reduce_embedding", "all_reduce", 1.0, tp, "tp", message))
    return result


def _outside_after(share: Cut) -> list[Op]:
    """Final norm and output head over the rows that produce a token; a tied head multiplies by the token table."""
    model, tp, pp = share.model, share.layout.tp, share.layout.pp
    tensor = "embedding" if model.tied else "head"
    vocab = model.vocab / tp
    own = model.output_params() * share.weight_size("head") / tp
    copy = model.embedding_params() * share.weight_size("embedding") / tp if model.tied else 0.0
    resident = own if is_one(pp) else own + num.where(pp > 1, copy, 0.0 * copy)
    small = model.other_params * size_of(share.precision.activation)
    result = [
        elementwise(
            share,
            "final_norm",
            "head",
            1.0,
            share.rows,
            model.hidden,
            4.0,
            5.0,
            part="head",
            resident_bytes=small,
        ),
        gemm(share, "lm_head", "head", "head", 1.0, share.rows, vocab, model.hidden, tensor, resident_bytes=resident),
    ]
    if not is_one(tp):
        message = vectors(share, share.rows, model.vocab)
        result.append(collective("gather_logits", "all_gather", 1.0, tp, "tp", message))
    return result


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """Cache entries of one layer of a block on the busiest device."""

    what: str
    """kv or index."""
    mixer: Any
    layers: float
    sequences: Number
    tokens: Number
    elements: Number
    size: float
    """Bytes per element."""


def cached_blocks(
    model: Model, precision: Precision, layout: Layout, context: Number, sequences: Number
) -> list[Cached]:
    """What each block caches on the busiest device for `sequences` sequences of `context` tokens.

    Heads are cut by tp (whole heads at least, unless split), positions by cp, sequences by attention_dp; a latent and
    index keys are held whole by every tp rank. An fp8 index key carries one fp32 scale per 128 elements.
    """
    share = cut(model, precision, layout, Step(decode_sequences=sequences, decode_context=context))
    cached: list[Cached] = []
    for block in model.blocks:
        mixer = block.mixer
        if mixer is None:
            continue
        own: Number = float(mixer.kv_elements())
        if isinstance(mixer, Attention) and own:
            own = share.kv_heads(mixer) * cache_width(mixer)
        window, older = getattr(mixer, "window", 0), None
        tokens = num.minimum(context, float(window)) if window else context
        if isinstance(mixer, (Attention, LatentAttention)):
            older = compressed(context, mixer)
        tokens = num.ceil_div(tokens if older is None else tokens + older, layout.cp)
        shape = {"mixer": mixer, "layers": float(block.count), "sequences": share.decode_sequences}
        if mixer.kv_elements():
            cached.append(Cached(what="kv", tokens=tokens, elements=own, size=share.kv_size, **shape))
        if mixer.index_elements():
            index = float(mixer.index_elements())
            whole = num.ceil_div(context if older is None else older, layout.cp)
            cached.append(Cached(what="index", tokens=whole, elements=index, size=share.index_size, **shape))
    return cached


def kv_bytes_per_device(
    model: Model, precision: Precision, layout: Layout, context: Number, sequences: Number
) -> Number:
    """Cache bytes on the busiest device for `sequences` sequences of `context` tokens; layers are cut by pp."""
    total: Number = 0.0
    for one in cached_blocks(model, precision, layout, context, sequences):
        total = total + one.layers * cache_bytes(one.sequences, one.tokens, one.elements, one.size)
    return total * stage_share(model, layout)


def state_bytes_per_device(model: Model, precision: Precision, layout: Layout, sequences: Number) -> Number:
    """Recurrent-state bytes on the busiest device for `sequences` sequences, whatever their length."""
    share = cut(model, precision, layout, Step(decode_sequences=sequences, decode_context=1))
    return (
        float(model.state_elements())
        / layout.tp
        * share.state_size
        * share.decode_sequences
        * stage_share(model, layout)
    )


def stage_share(model: Model, layout: Layout) -> Number:
    """Share of the layers on the busiest pipeline stage: ⌈layers / pp⌉ / layers (requirement D-012)."""
    if is_one(layout.pp):
        return 1.0
    return num.ceil_div(float(model.layers), layout.pp) / float(model.layers)
