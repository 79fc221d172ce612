"""Builders of families with parts around a decoder's usual ones: convolutions inside attention, gated norms, mixed residuals,
tables of word groups, and layers that a token passes more than once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt

from msgspec.structs import replace

from rooflab.hf.attention import HEADS, kv_heads_of
from rooflab.hf.decoder import Parts, decoder, renamed
from rooflab.hf.facts import Facts
from rooflab.hf.keys import LIMITS, Keys
from rooflab.hf.layers import layer_count
from rooflab.model import Attention, Block, Indexer, LatentAttention, MoE, Recurrent
from rooflab.units import InputError


def _each(parts: Parts, change: Callable[[int, Block], Block]) -> Parts:
    """Every layer changed by its number."""
    parts.layers = [change(i, layer) for i, layer in enumerate(parts.layers)]
    return parts


def _more(layer: Block, matmul: int = 0, other: int = 0) -> Block:
    """A layer with further weights that are multiplied, and further ones that are not."""
    return replace(
        layer,
        extra_matmul_params=layer.extra_matmul_params + matmul,
        other_params=layer.other_params + other,
    )


def _plain(layer: Block) -> Attention:
    """The attention of a layer that can have nothing else."""
    if not isinstance(layer.mixer, Attention):
        raise InputError("this model has attention on every layer; correct layer_types")
    return layer.mixer


def _again(layer: Block, times: int) -> list[Block]:
    """A layer that every token passes `times` times: weights once, a cache for each passage."""
    return [layer] if times < 2 else [layer, replace(layer, count=times - 1, stored=0, half=True)]


# ------------------------------------------------------------------------------------------- gates and streams


def axk2(k: Keys, facts: Facts) -> Parts:
    """A.X K2: query and output gate read the query latent twice over; low-rank gates on the norms."""
    parts = decoder(k, facts)
    norm_gate = 2 * parts.hidden * k.count("gated_norm_rank", limit="hidden")

    def change(_: int, layer: Block) -> Block:
        mixer = layer.mixer
        if not isinstance(mixer, LatentAttention) or not mixer.query_rank:
            raise k.refuse(("q_lora_rank",), "the width of its queries' latent")
        gate = mixer.query_rank * mixer.heads * (mixer.nope_dim + mixer.rope_dim + 2 * mixer.value_dim)
        return _more(layer, gate + norm_gate * (2 if isinstance(layer.ffn, MoE) else 1))

    return _each(parts, change)


def mistral_large4(k: Keys, facts: Facts) -> Parts:
    """Mistral Large 4: layers without rotary keys among the others, temperatures learnt a head, queries normed for the index."""
    layers = layer_count(k)
    sources = k.per_layer(layers, "kv_source_layers")
    if sources and sources != list(range(layers)):
        raise InputError(
            f"{k.name('kv_source_layers')}: latents shared between layers are not known; only own ones are"
        )
    step = k.count("no_rope_layer_interval", limit="layers", default=4)
    rotary = k.per_layer(layers, "no_rope_layers") or [(i + 1) % step for i in range(layers)]
    parts = decoder(k, facts)

    def change(i: int, layer: Block) -> Block:
        mixer = layer.mixer
        if not isinstance(mixer, LatentAttention):
            raise k.refuse(("kv_lora_rank",), "the width of its latent")
        other, index = mixer.other_params + 2 * mixer.heads, mixer.indexer
        if index is not None:
            index = replace(index, other_params=index.other_params + 2 * parts.hidden + 2 * index.heads)
        if not rotary[i]:  # what rotates elsewhere is part of every head's own key here
            other -= mixer.rope_dim if k.flag("attention_bias") else 0
            mixer = replace(mixer, nope_dim=mixer.nope_dim + mixer.rope_dim, rope_dim=0)
        return replace(layer, mixer=replace(mixer, indexer=index, other_params=other))

    parts.other += k.count("qk_rope_head_dim", limit="head", low=0) // 2  # learnt rotary frequencies
    return _each(parts, change)


def glm5_next(k: Keys, facts: Facts) -> Parts:
    """GLM 5 Next: residuals of several streams around both halves; index keys pooled with learnt weights."""
    if not k.has("layer_types", "linear_attn_config"):
        words = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(layer_count(k))]
        k = renamed(k, layer_types=words)
    parts = decoder(k, facts)
    count = k.count("hc_mult", limit="small")
    mixes = count * count + 2 * count
    pool = k.count("index_kpool", limit="small")

    def change(_: int, layer: Block) -> Block:
        layer = _more(layer, 2 * mixes * count * parts.hidden, 2 * (mixes + 3))
        index = layer.mixer.indexer if isinstance(layer.mixer, LatentAttention) else None
        if index is None or not index.owns_keys:
            return layer
        return _more(layer, parts.hidden * index.head_dim, pool * index.head_dim)

    return _each(parts, change)


def muse_spark(k: Keys, facts: Facts) -> Parts:
    """Muse Spark: experts behind a latent with a norm on either side; a gate a channel on both residuals."""
    parts = decoder(k, facts)
    latent = k.count("moe_hidden_size", limit="hidden")

    def change(_: int, layer: Block) -> Block:
        layer = _more(layer, other=2 * parts.hidden)
        if not isinstance(layer.ffn, MoE):
            return layer
        return replace(layer, ffn=replace(layer.ffn, latent=latent, other_params=layer.ffn.other_params + 2 * latent))

    return _each(parts, change)


def molmo2(k: Keys, facts: Facts) -> Parts:
    """Molmo 2: the table has rows for image tokens that the head has not."""
    kind = k.text("qk_norm_type", default="qwen3")
    if kind != "qwen3":
        raise InputError(f"{k.name('qk_norm_type')} = {kind[:40]!r} is not known; known: qwen3")
    parts = decoder(k, facts)
    rows = parts.vocab
    parts.vocab += k.count("additional_vocab_size", limit="vocabulary", default=0, low=0)
    if not k.flag("tie_word_embeddings"):
        parts.fields = {"head_params": rows * parts.hidden}
    return parts


def voxtral_realtime(k: Keys, facts: Facts) -> Parts:
    """Voxtral Realtime: a narrow network makes every layer's norm depend on the delay asked for."""
    parts = decoder(k, facts)
    return _each(parts, lambda _, layer: _more(layer, 2 * 32 * parts.hidden))


# --------------------------------------------------------------------------------------- convolutions in attention


def zaya(k: Keys, facts: Facts) -> Parts:
    """ZAYA: queries and keys pass two short convolutions, values are delayed by half, the router is a network of its own."""
    parts = decoder(k, facts)
    hidden, heads = parts.hidden, k.count(*HEADS, limit="heads")
    dim, kv_heads = k.count("head_dim", limit="head"), kv_heads_of(k, heads)
    first, second = k.count("cca_time0", limit="small"), k.count("cca_time1", limit="small")
    rank, channels = k.count("router_hidden_size", limit="hidden"), (heads + kv_heads) * dim
    state = channels * (first + second - 2) + kv_heads * dim // 2

    def change(i: int, layer: Block) -> Block:
        if not isinstance(layer.mixer, Attention) or not isinstance(layer.ffn, MoE):
            raise k.refuse(("num_experts",), "its experts")
        experts = layer.ffn.experts
        router = hidden * rank + 2 * rank * rank + rank * (experts + 1) - hidden * experts  # one more to do nothing
        matmul = channels * dim * second + router
        other = channels * (first + 2) + kv_heads + rank * (4 + (1 if i else 0)) + 8 * hidden
        return replace(_more(layer, matmul, other), mixer=replace(layer.mixer, state=state))

    parts.other += 2 * hidden
    k.note("one of the router's choices does nothing: a token then passes no expert")
    return _each(parts, change)


def inkling(k: Keys, facts: Facts) -> Parts:
    """Inkling: positions are learnt by distance; keys, values and both halves' outputs pass short convolutions."""
    if k.has("dense_intermediate_size"):
        k = renamed(k, moe_intermediate_size=k.data.get("intermediate_size"))
    if not k.has("mlp_layer_types"):
        k = renamed(k, first_k_dense_replace=k.count("dense_mlp_idx", limit="layers", default=0, low=0))
    k = _hybrid_words(k)
    if k.data.get("num_mtp_layers"):
        k.note("num_mtp_layers: the parameters of these modules are not known and not counted")
    parts = decoder(k, facts)
    parts.fields = {"tied": False}

    def change(_: int, layer: Block) -> Block:
        layer = _convolved(k, parts.hidden, layer)
        if not isinstance(layer.ffn, MoE):
            return _more(layer, other=1)
        shared = layer.ffn.shared_width // max(layer.ffn.width, 1)  # the router scores them, too
        ffn = replace(layer.ffn, router_other_params=layer.ffn.router_other_params + shared * parts.hidden + 1)
        return replace(layer, ffn=ffn)

    return _each(parts, change)


def _hybrid_words(k: Keys) -> Keys:
    """Every layer's kind where the file leaves it out: five windowed ones and a full one, or a list of the windowed."""
    if k.has("layer_types"):
        return k
    layers = layer_count(k)
    local = k.data.get("local_layer_ids")
    given = isinstance(local, list)
    near = {i for i in local if isinstance(i, int)} if given else {i for i in range(layers) if (i + 1) % 6}
    return renamed(k, layer_types=["sliding_attention" if i in near else "full_attention" for i in range(layers)])


def _convolved(k: Keys, hidden: int, layer: Block) -> Block:
    """Weights and state of the convolutions, and the bias by distance."""
    mixer = _plain(layer)
    kernel = k.count("conv_kernel_size", "sconv_kernel_size", limit="small")
    near, extent = k.count("d_rel", limit="head"), mixer.window or k.count("rel_extent", limit="tokens")
    channels = 2 * mixer.kv_heads * mixer.head_dim + 2 * hidden
    layer = _more(layer, hidden * mixer.heads * near, near * extent + channels * kernel)
    return replace(layer, mixer=replace(mixer, state=channels * kernel))


def inkling2(k: Keys, facts: Facts) -> Parts:
    """Inkling 2: as Inkling, with gated outputs, sinks by projection, and inputs that choose among earlier layers' sums."""
    parts = decoder(_hybrid_words(k), facts)
    hidden, kernel = parts.hidden, k.count("conv_kernel_size", "sconv_kernel_size", limit="small")
    near = k.count("d_rel", limit="head")

    def change(i: int, layer: Block) -> Block:
        layer, mixer = _convolved(k, hidden, layer), _plain(layer)
        full = not mixer.window
        inputs = hidden * (1 + (0 if not i else 3 if full else 1)) + (2 * hidden if full else 0)
        taps = 2 * mixer.kv_heads * kernel * hidden if full else 0  # a full layer's convolutions depend on the token
        return _more(layer, hidden * mixer.heads + taps, inputs + mixer.heads * (mixer.head_dim + near))

    parts.other += hidden
    rows = k.count("unpadded_vocab_size", limit="vocabulary", default=parts.vocab)
    parts.fields = {"head_params": rows * hidden, "tied": False}
    return _each(parts, change)


# ------------------------------------------------------------------------------------------------ loops


def inkling2_loop(k: Keys, facts: Facts) -> Parts:
    """Inkling 2 with layers in the middle that run several times; gates mix in messages from the passage before."""
    parts = inkling2(k, facts)
    start, end = (k.count(f"loop_layer_index_{side}", limit="layers", low=0) for side in ("start", "end"))
    times, rank = k.count("loop_num_passes", limit="small"), k.count("loop_gate_rank", limit="hidden")
    made: list[Block] = []
    for i, layer in enumerate(parts.layers):
        inside = start <= i < end
        made += _again(_more(layer, 4 * 4 * parts.hidden * rank), times) if inside else [layer]
    parts.layers = made
    parts.other += 4 * (end - start) * parts.hidden
    return parts


def dory(k: Keys, facts: Facts) -> Parts:
    """Dory: no norms have weights, scales a channel instead; the layers in the middle run several times."""
    names = ("num_hidden_layers", "n_input_layers", "n_output_layers", "n_recurrent_layers")
    words = k.data.get("layer_types")
    if isinstance(words, list) and "mlp" in words:  # attention and network of one layer are listed apart
        halves = {name: k.count(name, limit="layers", low=0) // 2 for name in names if k.has(name)}
        k = renamed(k, layer_types=words[::2], **halves)
    layers = layer_count(k)
    if not k.has("layer_types"):
        plain = ["full_attention" if (i + 1) % 4 == 0 else "sliding_attention" for i in range(layers)]
        k = renamed(k, layer_types=plain)
    parts = decoder(k, facts)
    first, last = (k.count(name, limit="layers", default=8, low=0) for name in names[1:3])
    times = k.count("n_recurrent_loops", limit="small", default=2)
    shared = k.text("recurrent_kv_cache_mode", default="per_loop") == "last_loop"
    made: list[Block] = []
    for i, layer in enumerate(parts.layers):
        mixer = _plain(layer)
        layer = _more(layer, other=2 * (parts.hidden + mixer.heads * mixer.head_dim + k.count("intermediate_size")))
        whole = _again(layer, times if first <= i < layers - last else 1)
        if shared:  # earlier passages read the cache that the last one writes
            whole[1:] = [replace(each, mixer=replace(mixer, shares_kv=True)) for each in whole[1:]]
        made += whole
    parts.layers = made
    parts.other += parts.vocab
    return parts


def hrm_text(k: Keys, facts: Facts) -> Parts:
    """HRM: two stacks of layers; the fast one runs several times for each time the slow one does."""
    stack = k.count("num_layers_per_stack", "num_hidden_layers", limit="layers")
    slow, fast = k.count("H_cycles", limit="small"), k.count("L_cycles", limit="small")
    parts = decoder(renamed(k, num_hidden_layers=stack, num_key_value_heads=None), facts)
    parts.layers = [replace(parts.layers[0], count=stack * slow * (fast + 1), stored=2 * stack)]
    parts.other += parts.hidden
    return parts


# --------------------------------------------------------------------------------------- tables of word groups


def qwen4_exp(k: Keys, facts: Facts) -> Parts:
    """Qwen 4 (experimental): residuals of several streams, hashed tables of word groups, selection by blocks."""
    parts = decoder(k, facts)
    hidden, streams = parts.hidden, k.count("hc_count", limit="small")
    wide, rank = streams * parts.hidden, k.count("hc_lowrank", limit="hidden")
    index = None
    if k.has("indexer_n_heads"):
        dim = k.count("indexer_head_dim", limit="head")
        heads, topk = k.count("indexer_n_heads", limit="heads"), k.count("indexer_budget", limit="tokens")
        index = Indexer(heads=heads, head_dim=dim, topk=topk, query_width=hidden, weighted=False, other_params=2 * dim)
    grouped = sorted({k.whole("ple_layer_ids", i, "layers") for i in k.list("ple_layer_ids")})

    def change(i: int, layer: Block) -> Block:
        mixer = layer.mixer
        if isinstance(mixer, Attention):
            mixer = replace(mixer, indexer=index)
        layer = _more(replace(layer, mixer=mixer), 2 * (2 * rank + streams) * wide, 2 * wide)
        return _with_groups(k, layer, hidden, wide) if i + 1 in grouped else layer

    parts.other += wide + 2 * rank * wide
    if grouped:
        parts.fields = {"lookup_params": _tables(k, len(grouped), hidden)}
    return _each(parts, change)


def _with_groups(k: Keys, layer: Block, hidden: int, wide: int) -> Block:
    """A layer that mixes the table's rows into every stream."""
    width = k.count("ple_embed_dim", limit="hidden", default=hidden)
    kernel = k.count("ple_conv_kernel_size", limit="small")
    layer = _more(layer, width * (wide + hidden), 3 * wide + wide * kernel)
    if isinstance(layer.mixer, Recurrent):
        state = wide * (kernel - 1) * k.count("ngram_size", limit="small")
        layer = replace(layer, mixer=replace(layer.mixer, state=state))
    return layer


def _tables(k: Keys, layers: int, hidden: int) -> int:
    """Parameters of the tables: a prime number of rows for each hash, no two alike, each layer's sum padded."""
    size, each = k.count("ngram_size", limit="small"), k.count("heads_per_ngram", limit="small")
    hashes, padding = (size - 1) * each, k.count("make_ngram_vocab_size_divisible_by", limit="width")
    width = k.count("ple_embed_dim", limit="hidden", default=hidden)
    if not hashes or width % hashes or hashes * layers > LIMITS["small"]:
        raise InputError(
            f"{k.name('ple_embed_dim')} = {width} cannot be shared among {hashes} hashes on {layers} layers; correct the config"
        )
    rows = _primes(k.count("ngram_vocab_size_base", limit="vocabulary"))
    total = 0
    for _ in range(layers):
        together = 0
        for _ in range(hashes):
            together += next(rows)
        total += padding * -(-together // padding) * (width // hashes)
    return total


def _primes(start: int) -> Iterator[int]:
    """Prime numbers from `start` on."""
    value = max(start, 2)
    while True:
        if all(value % divisor for divisor in range(2, isqrt(value) + 1)):
            yield value
        value += 1
