"""Operators of the token mixers as an engine's fused kernels run them: one function per member of `model.Mixer`."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from rooflab import num
from rooflab.graph import formulas as f
from rooflab.graph.build import collective, elementwise, gemm, head_gemm, is_one
from rooflab.graph.cut import Cut, cache_width, local_tokens
from rooflab.model import Attention, Indexer, LatentAttention
from rooflab.work import Op, Reason

Number = Any
PROJECTIONS = "attention projections"


@singledispatch
def mixer_operators(mixer: object, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Operators of `count` layers of one mixer; `tag` keeps names apart where a model mixes kinds."""
    raise TypeError(f"no operators are defined for mixer {type(mixer).__name__}")


def visible_keys(context: Number, mixer: Attention | LatentAttention) -> Number:
    """Cache entries one decode query attends to: the context, at most the window, at most the indexer's selection.

    Where older tokens are compressed, their entries come beside the window's own, and the indexer selects among them.
    """
    keys = num.minimum(context, float(mixer.window)) if mixer.window else context
    older = compressed(context, mixer)
    chosen = keys if older is None else older
    if mixer.indexer:
        chosen = num.minimum(chosen, float(mixer.indexer.topk))
    return chosen if older is None else keys + chosen


def compressed(tokens: Number, mixer: Attention | LatentAttention) -> Number | None:
    """Entries that stand for `tokens` tokens in a compressed cache, None where the mixer compresses nothing."""
    ratio = getattr(mixer, "compression", 0)
    return num.floor(tokens / float(ratio)) if ratio else None


def prefill_keys(cut: Cut, mixer: Attention | LatentAttention) -> Number:
    """Cache entries the queries of one prefill sequence read: with a window, no more than it and the new tokens."""
    keys: Number = cut.step.prefill_context + cut.step.prefill_tokens
    if not mixer.window:
        return keys
    older = compressed(keys, mixer)
    near = num.minimum(keys, cut.step.prefill_tokens + float(mixer.window))
    return near if older is None else near + older


def prefill_pairs(cut: Cut, mixer: Attention | LatentAttention) -> tuple[Number, Reason]:
    """Visible query–key pairs of one whole prefill sequence, and the formula that gave them."""
    new, cached = cut.step.prefill_tokens, cut.step.prefill_context
    ratio, topk = float(getattr(mixer, "compression", 0)), mixer.indexer.topk if mixer.indexer else 0
    if ratio:
        near = f.windowed_pairs(new, cached, float(mixer.window))
        far = f.windowed_pairs(new, cached, topk * ratio) if topk else f.causal_pairs(new, cached)
        return f.compressed_pairs(near, far, ratio), Reason("pairs", f.compressed_pairs, (near, far, ratio))
    limit = narrowest(mixer)
    if limit:
        return f.windowed_pairs(new, cached, limit), Reason("pairs", f.windowed_pairs, (new, cached, limit))
    return f.causal_pairs(new, cached), Reason("pairs", f.causal_pairs, (new, cached))


def attend(
    cut: Cut,
    name: str,
    stage: str,
    count: Number,
    *,
    kind: str,
    pairs: Number,
    tokens: Number,
    sequences: Number,
    keys: Number,
    heads: Number,
    head_dim: Number,
    value_dim: Number,
    elements: Number,
    size: float,
    shape: dict[str, Number] | None = None,
    why: tuple[Reason, ...] = (),
) -> Op:
    """A fused attention kernel over `pairs` visible pairs that reads `keys` cache entries per sequence."""
    act = cut.activation_size
    return Op(
        name=name,
        kind=kind,
        part="attention",
        stage=stage,
        count=count,
        dtype="bf16",
        m=tokens,
        n=keys,
        k=head_dim,
        groups=heads,
        flop=f.attention_flop(pairs, heads, head_dim, value_dim),
        activation_bytes=f.query_output_bytes(tokens, heads, head_dim, value_dim, act),
        kv_bytes=f.cache_bytes(sequences, keys, elements, size),
        format=cut.precision.kv,
        shape={"sequences": sequences, "heads": heads, "head_dim": head_dim, "value_dim": value_dim, **(shape or {})},
        why=(
            Reason("flop", f.attention_flop, (pairs, heads, head_dim, value_dim)),
            Reason("activation_bytes", f.query_output_bytes, (tokens, heads, head_dim, value_dim, act)),
            Reason("kv_bytes", f.cache_bytes, (sequences, keys, elements, size)),
            *why,
        ),
    )


def decode_shape(kv_heads: Number, keys: Number) -> dict[str, Number]:
    """What the price of decode attention depends on beside its heads."""
    return {"kv_heads": kv_heads, "context": keys}


def prefill_shape(cut: Cut, kv_heads: Number, window: float = 0.0) -> dict[str, Number]:
    """What the price of prefill attention depends on beside its heads.

    A context-parallel rank holds a share of the queries whose mean sees half the prompt: what others hold counts as cached.
    """
    new, cached = cut.prefill_tokens, cut.step.prefill_context
    if not is_one(cut.layout.cp):
        cached = cached + num.maximum(cut.step.prefill_tokens - new, 0.0) / 2.0
    return {"kv_heads": kv_heads, "new": new, "cached": cached, "window": window}


def narrowest(mixer: Attention | LatentAttention) -> float:
    """Most plain keys a query may see, 0 for no limit."""
    if getattr(mixer, "compression", 0):
        return float(mixer.window)
    limits = [float(x) for x in (mixer.window, mixer.indexer.topk if mixer.indexer else 0) if x]
    return min(limits) if limits else 0.0


def append(cut: Cut, name: str, stage: str, count: Number, width: Number, elements: Number, size: float) -> Op:
    """Rotary embedding of `width` query and key columns and the write of the new cache entries."""
    written = f.cache_bytes(cut.tokens, 1.0, elements, size)
    return elementwise(
        cut,
        name,
        stage,
        count,
        cut.tokens,
        width,
        2.0,
        3.0,
        kv_bytes=written,
        why=(Reason("kv_bytes", f.cache_bytes, (cut.tokens, 1.0, elements, size)),),
    )


def _index_operators(indexer: Indexer, cut: Cut, count: Number, tag: str, ratio: int = 0) -> list[Op]:
    """Projections and scores of a sparse-attention indexer; its weights and keys are held whole by every rank.

    With `ratio`, one index key stands for so many tokens.
    """
    if not indexer.owns_keys:
        return []
    hidden = cut.model.hidden
    width = indexer.matmul_params(hidden) / hidden
    operators = [
        gemm(cut, f"index_projection{tag}", PROJECTIONS, f"index{tag}", count, cut.tokens, width, hidden, "attention")
    ]
    for phase, pairs, tokens, sequences, keys in _phases(cut, float(ratio or 1)):
        operators.append(
            attend(
                cut,
                f"index_score_{phase}{tag}",
                f"index_score{tag}",
                count,
                kind="attention",
                pairs=pairs,
                tokens=tokens,
                sequences=sequences,
                keys=keys,
                heads=indexer.heads,
                head_dim=indexer.head_dim,
                value_dim=0.0,
                elements=indexer.head_dim,
                size=cut.kv_size,
                shape=prefill_shape(cut, 1.0) if phase == "prefill" else decode_shape(1.0, keys),
            )
        )
    return operators


def _phases(cut: Cut, ratio: float = 1.0) -> list[tuple[str, Number, Number, Number, Number]]:
    """(phase, pairs, query tokens, sequences, cache entries) per device without any window, one entry per `ratio` tokens."""
    phases: list[tuple[str, Number, Number, Number, Number]] = []
    step = cut.step
    if step.has_prefill:
        whole = f.causal_pairs(step.prefill_tokens, step.prefill_context) / ratio
        keys = (step.prefill_context + step.prefill_tokens) / ratio
        tokens = cut.prefill_sequences * cut.prefill_tokens
        phases.append(("prefill", cut.prefill_sequences * whole / cut.layout.cp, tokens, cut.prefill_sequences, keys))
    if step.has_decode:
        local = cut.decode_tokens_local / ratio
        phases.append(("decode", cut.decode_sequences * local, cut.decode_sequences, cut.decode_sequences, local))
    return phases


@mixer_operators.register
def _(mixer: Attention, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Fused QKV, rotary and cache write, fused attention, output projection."""
    hidden, tp = cut.model.hidden, cut.layout.tp
    heads, kv_heads = mixer.heads / tp, cut.kv_heads(mixer)
    owns = not (mixer.shares_kv or mixer.cross)
    kv_width = (
        kv_heads * (mixer.head_dim + (0 if mixer.keys_are_values else mixer.value_dim)) if not mixer.shares_kv else 0
    )
    q_width = heads * mixer.head_dim * (2 if mixer.gate else 1)
    width = mixer.input_width or hidden
    operators: list[Op] = []
    if mixer.query_rank:
        down = mixer.query_rank + kv_width
        operators.append(
            gemm(cut, f"qkv_down{tag}", PROJECTIONS, f"qkv{tag}", count, cut.tokens, down, width, "attention")
        )
        operators.append(
            gemm(cut, f"q_up{tag}", PROJECTIONS, f"qkv{tag}", count, cut.tokens, q_width, mixer.query_rank, "attention")
        )
    else:
        qkv = q_width + kv_width
        operators.append(gemm(cut, f"qkv{tag}", PROJECTIONS, f"qkv{tag}", count, cut.tokens, qkv, width, "attention"))
    cached = kv_heads * cache_width(mixer)
    written = cached * (1.0 + 1.0 / mixer.compression) if mixer.compression else cached
    rotary = heads * mixer.head_dim + (kv_heads * mixer.head_dim if owns else 0)
    operators.append(
        append(cut, f"rope_append{tag}", f"append{tag}", count, rotary, written if owns else 0.0, cut.kv_size)
    )
    if mixer.indexer:
        operators += _index_operators(mixer.indexer, cut, count, tag, mixer.compression)
    if not mixer.cross:
        operators += _softmax_attention(mixer, cut, count, tag, heads, cached)
    out_width = heads * mixer.value_dim
    if mixer.output_rank:
        groups, rank = mixer.output_groups / tp, mixer.output_rank
        held = f.grouped_weight_bytes(groups, rank, out_width / groups, cut.weight_size("attention"))
        operators.append(
            head_gemm(cut, f"o_down{tag}", f"o{tag}", count, groups, cut.tokens, rank, out_width / groups, held)
        )
        out_width = groups * rank
    operators.append(
        gemm(cut, f"o_proj{tag}", PROJECTIONS, f"o{tag}", count, cut.tokens, hidden, out_width, "attention")
    )
    return operators


def _softmax_attention(mixer: Attention, cut: Cut, count: Number, tag: str, heads: Number, cached: Number) -> list[Op]:
    """Attention kernels of the phases present, and what context parallelism and split heads exchange."""
    operators: list[Op] = []
    step, layout = cut.step, cut.layout
    shape = {"heads": heads, "head_dim": mixer.head_dim, "value_dim": mixer.value_dim, "elements": cached}
    stage = f"attention{tag}"
    if step.has_prefill:
        pairs, why = prefill_pairs(cut, mixer)
        keys = prefill_keys(cut, mixer)
        operators.append(
            attend(
                cut,
                f"attention_prefill{tag}",
                stage,
                count,
                kind="attention",
                pairs=cut.prefill_sequences * pairs / layout.cp,
                tokens=cut.prefill_sequences * cut.prefill_tokens,
                sequences=cut.prefill_sequences,
                keys=keys,
                size=cut.kv_size,
                shape=prefill_shape(cut, cut.kv_heads(mixer), narrowest(mixer)),
                why=(why,),
                **shape,
            )
        )
        if not is_one(layout.cp):
            operators.append(ring(cut, count, tag, stage, heads, mixer.value_dim, cached))
    if step.has_decode:
        keys = local_tokens(visible_keys(step.decode_context, mixer), layout.cp)
        operators.append(
            attend(
                cut,
                f"attention_decode{tag}",
                stage,
                count,
                kind="attention",
                pairs=cut.decode_sequences * keys,
                tokens=cut.decode_sequences,
                sequences=cut.decode_sequences,
                keys=keys,
                size=cut.kv_size,
                shape=decode_shape(cut.kv_heads(mixer), keys),
                **shape,
            )
        )
        operators += merge(cut, count, tag, heads, mixer.value_dim)
    operators += _split_scores(mixer, cut, count, tag)
    return operators


def ring(cut: Cut, count: Number, tag: str, stage: str, heads: Number, value_dim: Number, elements: Number) -> Op:
    """The context-parallel ring of prefill: keys and values travel, or queries with their running outputs."""
    tokens = cut.prefill_sequences * cut.prefill_tokens
    if cut.layout.ring == "qoml":
        width = heads * (value_dim + (4.0 * value_dim + 8.0) / cut.activation_size)
        message = Reason("message_bytes", f.vector_message, (tokens, width, cut.activation_size))
    else:
        message = Reason("message_bytes", f.vector_message, (tokens, elements, cut.kv_size))
    return collective(f"ring{tag}", "ring", count, cut.layout.cp, "cp", message, hides_under=(stage,))


def merge(cut: Cut, count: Number, tag: str, heads: Number, value_dim: Number) -> list[Op]:
    """The all-reduce that merges partial decode outputs of the context-parallel ranks."""
    if is_one(cut.layout.cp):
        return []
    message = Reason("message_bytes", f.partial_output_message, (cut.decode_sequences, heads, value_dim))
    return [collective(f"merge_attention{tag}", "all_reduce", count, cut.layout.cp, "cp", message)]


def _split_scores(mixer: Attention, cut: Cut, count: Number, tag: str) -> list[Op]:
    """The all-reduce of partial scores where ranks share one KV head's width."""
    ranks = cut.split_ranks(mixer)
    if is_one(ranks):
        return []
    heads = mixer.heads / mixer.kv_heads
    operators: list[Op] = []
    for phase, pairs, _tokens, _sequences, _keys in _phases(cut):
        message = Reason("message_bytes", f.score_message, (pairs, 1.0, heads))
        operators.append(collective(f"all_reduce_scores_{phase}{tag}", "all_reduce", count, ranks, "split", message))
    return operators


@mixer_operators.register
def _(mixer: LatentAttention, cut: Cut, count: Number, tag: str) -> list[Op]:
    """Latent attention: absorbed over the latent in decode, expanded per head in prefill; the cache is not cut by tp."""
    hidden, heads, step = cut.model.hidden, mixer.heads / cut.layout.tp, cut.step
    latent = mixer.kv_rank + mixer.rope_dim
    query = heads * (mixer.nope_dim + mixer.rope_dim)
    stage = f"qkv{tag}"
    operators: list[Op] = []
    if mixer.query_rank:
        down = mixer.query_rank + latent
        operators.append(gemm(cut, f"qkv_down{tag}", PROJECTIONS, stage, count, cut.tokens, down, hidden, "attention"))
        operators.append(
            gemm(cut, f"q_up{tag}", PROJECTIONS, stage, count, cut.tokens, query, mixer.query_rank, "attention")
        )
    else:
        operators.append(
            gemm(cut, f"qkv_down{tag}", PROJECTIONS, stage, count, cut.tokens, query + latent, hidden, "attention")
        )
    rotary = heads * mixer.rope_dim + mixer.rope_dim
    operators.append(append(cut, f"rope_append{tag}", f"append{tag}", count, rotary, latent, cut.kv_size))
    if mixer.indexer:
        operators += _index_operators(mixer.indexer, cut, count, tag)
    resident = f.weight_bytes(mixer.up_params() / cut.layout.tp, 1.0, cut.weight_size("attention"))
    if step.has_prefill:
        operators += _latent_prefill(mixer, cut, count, tag, heads, resident)
    if step.has_decode:
        operators += _latent_decode(mixer, cut, count, tag, heads, 0.0 if step.has_prefill else resident)
    out = heads * mixer.value_dim
    if mixer.gate:
        operators.append(
            gemm(cut, f"gate_proj{tag}", PROJECTIONS, f"o{tag}", count, cut.tokens, out, hidden, "attention")
        )
    operators.append(gemm(cut, f"o_proj{tag}", PROJECTIONS, f"o{tag}", count, cut.tokens, hidden, out, "attention"))
    return operators


def _latent_prefill(
    mixer: LatentAttention, cut: Cut, count: Number, tag: str, heads: Number, resident: Number
) -> list[Op]:
    """Keys and values are expanded from the latent for every head, then attended as ordinary attention."""
    step, stage = cut.step, f"attention{tag}"
    keys = step.prefill_context + step.prefill_tokens
    expanded = heads * (mixer.nope_dim + mixer.value_dim)
    rows = cut.prefill_sequences * keys / cut.layout.cp
    pairs, why = prefill_pairs(cut, mixer)
    operators = [
        gemm(
            cut,
            f"kv_up{tag}",
            PROJECTIONS,
            f"kv_up{tag}",
            count,
            rows,
            expanded,
            mixer.kv_rank,
            "attention",
            resident_bytes=resident,
        ),
        attend(
            cut,
            f"attention_prefill{tag}",
            stage,
            count,
            kind="attention",
            pairs=cut.prefill_sequences * pairs / cut.layout.cp,
            tokens=cut.prefill_sequences * cut.prefill_tokens,
            sequences=cut.prefill_sequences,
            keys=keys,
            heads=heads,
            head_dim=mixer.nope_dim + mixer.rope_dim,
            value_dim=mixer.value_dim,
            elements=expanded + mixer.rope_dim,
            size=cut.activation_size,
            shape={**prefill_shape(cut, heads, narrowest(mixer)), "latent_dim": float(mixer.kv_rank)},
            why=(why,),
        ),
    ]
    if not is_one(cut.layout.cp):
        operators.append(ring(cut, count, tag, stage, heads, mixer.value_dim, float(mixer.kv_rank + mixer.rope_dim)))
    return operators


def _latent_decode(
    mixer: LatentAttention, cut: Cut, count: Number, tag: str, heads: Number, resident: Number
) -> list[Op]:
    """The up-projection is absorbed: queries enter the latent space, attention runs over the latent, outputs leave it."""
    keys = local_tokens(visible_keys(cut.step.decode_context, mixer), cut.layout.cp)
    latent, rows, stage = mixer.kv_rank + mixer.rope_dim, cut.decode_sequences, f"absorb{tag}"
    return [
        head_gemm(cut, f"absorb_q{tag}", stage, count, heads, rows, mixer.kv_rank, mixer.nope_dim, resident),
        attend(
            cut,
            f"attention_decode{tag}",
            f"attention{tag}",
            count,
            kind="latent_attention",
            pairs=rows * keys,
            tokens=rows,
            sequences=rows,
            keys=keys,
            heads=heads,
            head_dim=latent,
            value_dim=mixer.kv_rank,
            elements=latent,
            size=cut.kv_size,
            shape=decode_shape(1.0, keys),
        ),
        *merge(cut, count, tag, heads, mixer.kv_rank),
        head_gemm(cut, f"absorb_v{tag}", stage, count, heads, rows, mixer.value_dim, mixer.kv_rank, 0.0),
    ]
