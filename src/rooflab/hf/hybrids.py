"""Builders that assemble layers themselves: shared layers, layers of one part, two mixers side by side, compressed caches."""

from __future__ import annotations

from msgspec.structs import replace

from rooflab.hf.attention import HEADS, HIDDEN, indexer, kv_heads_of, norm_params, qk_norm_params, softmax, switch
from rooflab.hf.decoder import Parts, block, decoder, layer_keys, outside, renamed, vocabulary
from rooflab.hf.facts import Facts
from rooflab.hf.feedforward import check_choice, dense, dense_width, experts_of, moe
from rooflab.hf.keys import Keys
from rooflab.hf.layers import FULL, Kind, kinds, layer_count
from rooflab.hf.recurrent import recurrent
from rooflab.model import Attention, Block, Dense, FeedForward, Indexer, MoE, Recurrent
from rooflab.units import InputError


def mllama(k: Keys, facts: Facts) -> Parts:
    """Llama 3.2 Vision: cross-attention layers among the others; the table has eight rows more than the head."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    cross = {i for i in k.list("cross_attention_layers") if isinstance(i, int)}
    own = block(k, facts, hidden, FULL, False)
    mixer = softmax(k, replace(facts, qk_norm="head"), hidden)
    other = replace(
        own, mixer=replace(mixer, cross=True), other_params=2
    )  # one gate each on attention and feed-forward
    vocab = vocabulary(k)
    return Parts(
        hidden=hidden,
        vocab=vocab + 8,
        layers=[other if i in cross else own for i in range(layers)],
        other=outside(k, facts, hidden),
        fields={"head_params": vocab * hidden},
    )


def granite_hybrid(k: Keys, facts: Facts) -> Parts:
    """Granite 4: every layer has the shared network, with routed experts beside it or not."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    width = k.count("shared_intermediate_size", low=0)
    routed = experts_of(k) > 0
    ffn: FeedForward = moe(k, facts, hidden) if routed else Dense(width=width)
    made = (
        {kind: replace(block(k, facts, hidden, kind, routed), ffn=ffn) for kind in set(kinds(k, facts, layers))}
        if routed
        else {
            kind: block(renamed(k, intermediate_size=width), facts, hidden, kind, False)
            for kind in set(kinds(k, facts, layers))
        }
    )
    chosen = kinds(k, facts, layers)
    return Parts(
        hidden=hidden, vocab=vocabulary(k), layers=[made[kind] for kind in chosen], other=outside(k, facts, hidden)
    )


def gemma4(k: Keys, facts: Facts) -> Parts:
    """Gemma 4: full layers have their own head shape; later layers may share keys; experts beside a dense network."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    shared = k.count("num_kv_shared_layers", limit="layers", default=0, low=0)
    per_layer = k.count("hidden_size_per_layer_input", limit="hidden", default=0, low=0)
    chosen = kinds(k, facts, layers)
    made = [
        _gemma4_layer(layer_keys(k, i), facts, hidden, kind, shared > 0 and i >= layers - shared)
        for i, kind in enumerate(chosen)
    ]
    parts = Parts(hidden=hidden, vocab=vocabulary(k), layers=made, other=outside(k, facts, hidden))
    return with_per_layer_input(k, parts, per_layer) if per_layer else parts


def _gemma4_layer(k: Keys, facts: Facts, hidden: int, kind: Kind, shares: bool) -> Block:
    heads = k.count(*HEADS, limit="heads")
    kv_heads, head_dim = kv_heads_of(k, heads), k.count("head_dim", limit="head")
    same = False
    if kind.name == "full":
        same = k.flag("attention_k_eq_v")
        if "per_layer_config" not in k.data:
            head_dim = k.count("global_head_dim", limit="head", default=512)
        if same:
            kv_heads = k.count("num_global_key_value_heads", limit="heads", default=kv_heads)
    norm = qk_norm_params(k, facts, (heads, kv_heads, head_dim), keys_too=not shares)
    bias = 0
    if switch(k, facts.qkv_bias):
        bias = heads * head_dim + hidden + (0 if shares else kv_heads * head_dim * (1 if same else 2))
    mixer = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=head_dim,
        window=kind.window,
        shares_kv=shares,
        keys_are_values=same,
        other_params=norm + bias,
    )
    width = k.count("intermediate_size") * (2 if shares and k.flag("use_double_wide_mlp") else 1)
    ffn: FeedForward = Dense(width=width)
    norms = 4
    if k.flag("enable_moe_block"):
        norms += 3
        experts = k.count("num_experts", limit="experts")
        topk = k.count("top_k_experts", "num_experts_per_tok", limit="experts")
        check_choice(k, topk, experts)
        ffn = MoE(
            experts=experts,
            topk=topk,
            width=k.count("moe_intermediate_size", "expert_intermediate_size"),
            shared_width=width,
            router_other_params=hidden + experts,
        )
    return Block(count=1, mixer=mixer, ffn=ffn, norm_params=norms * norm_params(facts.norm, hidden))


def with_per_layer_input(k: Keys, parts: Parts, width: int) -> Parts:
    """Per-layer embeddings: a table row of every layer for each token, gated into each layer."""
    rows = k.count("vocab_size_per_layer_input", limit="vocabulary", default=parts.vocab)
    count = len(parts.layers)
    parts.layers = [
        replace(
            layer,
            extra_matmul_params=layer.extra_matmul_params + 2 * parts.hidden * width,
            norm_params=layer.norm_params + parts.hidden,
        )
        for layer in parts.layers
    ]
    parts.other += parts.hidden * count * width + width
    parts.fields = {**parts.fields, "lookup_params": rows * count * width}
    return parts


def gemma3n(k: Keys, facts: Facts) -> Parts:
    """Gemma 3n: alternating updates, low-rank residuals, per-layer embeddings, shared keys, a width per layer."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    shared = k.count("num_kv_shared_layers", limit="layers", default=0, low=0)
    inputs = k.count("altup_num_inputs", limit="small")
    rank = k.count("laurel_rank", limit="hidden")
    value = k.find("intermediate_size")[1]
    widths = (
        k.per_layer(layers, "intermediate_size")
        if isinstance(value, list) and value
        else [k.count("intermediate_size")] * layers
    )
    updates = inputs * hidden + inputs * inputs * inputs + inputs * inputs
    made = []
    for i, kind in enumerate(kinds(k, facts, layers)):
        shares = shared > 0 and i >= layers - shared
        mixer = softmax(k, facts, hidden, kind.name, kind.window)
        if shares:
            norm = qk_norm_params(k, facts, (mixer.heads, mixer.kv_heads, mixer.head_dim), keys_too=False)
            bias = mixer.heads * mixer.head_dim + hidden if switch(k, facts.qkv_bias) else 0
            mixer = replace(mixer, shares_kv=True, other_params=norm + bias)
        made.append(
            Block(
                count=1,
                mixer=mixer,
                ffn=Dense(width=k.whole("intermediate_size", widths[i])),
                norm_params=(facts.norms + 2) * hidden,  # with the router's and the low-rank residual's
                extra_matmul_params=updates + 2 * hidden * rank,
                other_params=hidden,
            )
        )
    parts = Parts(hidden=hidden, vocab=vocabulary(k), layers=made, other=outside(k, facts, hidden))
    parts.other += 2 * (inputs - 1) * hidden * hidden
    return with_per_layer_input(k, parts, k.count("hidden_size_per_layer_input", limit="hidden"))


HYBRID = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
HYBRID_WORDS = {"mamba": "mamba", "linear_attention": "mamba", "moe": "moe", "attention": "attention",
                "full_attention": "attention", "mlp": "mlp", "mamba2": "mamba"}  # fmt: skip


def hybrid_words(k: Keys, pattern_key: str, list_key: str) -> list[str]:
    """The kinds of layers of a pattern string or a list."""
    words = k.list(list_key)
    if words:
        unknown = [word for word in words if not isinstance(word, str) or word not in HYBRID_WORDS]
        if unknown:
            raise InputError(
                f"{k.name(list_key)} has the unknown layer kind {unknown[0]!r}; known: {', '.join(HYBRID_WORDS)}"
            )
        return [HYBRID_WORDS[word] for word in words]
    letters = [letter for letter in k.text(pattern_key) if letter != "|"]
    unknown = [letter for letter in letters if letter not in HYBRID]
    if unknown:
        raise InputError(f"{k.name(pattern_key)} has the unknown letter {unknown[0]!r}; known: {' '.join(HYBRID)}")
    return [HYBRID[letter] for letter in letters]


def nemotron_h(k: Keys, facts: Facts) -> Parts:
    """Nemotron-H: each layer is one thing, a state space, attention, a dense network or experts behind a latent."""
    hidden = k.count(*HIDDEN, limit="hidden")
    words = hybrid_words(k, "hybrid_override_pattern", "layers_block_type")
    if not words:
        raise k.refuse(("hybrid_override_pattern", "layers_block_type"), "which layer is what")
    if len(words) > 4096:
        raise InputError(f"{len(words)} layers are more than 4096; correct the config")
    extra = hybrid_words(k, "mtp_hybrid_override_pattern", "mtp_layers_block_type") or ["attention", "moe"]
    predicts = bool(k.data.get("num_nextn_predict_layers"))
    made = {word: nemotron_layer(k, facts, hidden, word) for word in {*words, *(extra if predicts else ())}}
    return Parts(
        hidden=hidden,
        vocab=vocabulary(k),
        layers=[made[word] for word in words],
        other=outside(k, facts, hidden),
        mtp_layers=[made[word] for word in extra] if predicts else [],
    )


def nemotron_layer(k: Keys, facts: Facts, hidden: int, word: str) -> Block:
    """One layer of Nemotron-H."""
    mixer, ffn = None, None
    if word == "mamba":
        mixer = recurrent(k, hidden)
    elif word == "attention":
        mixer = softmax(k, facts, hidden)
    elif word == "mlp":
        ffn = dense(k, facts, hidden, dense_width(k, hidden, facts))
    else:
        latent = k.count("moe_latent_size", limit="hidden", default=0, low=0)
        routed = moe(renamed(k, n_shared_experts=1), facts, hidden)  # one shared network, whatever the count says
        bias = latent + hidden if latent and switch(k, facts.ffn_bias) else 0
        ffn = replace(routed, latent=latent, other_params=routed.other_params + bias)
    return Block(count=1, mixer=mixer, ffn=ffn, norm_params=hidden)


def mamba(k: Keys, facts: Facts) -> Parts:
    """Mamba and Mamba 2: every layer is a state space and nothing else."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    inner = k.whole("intermediate_size", k.data["intermediate_size"]) if k.has("intermediate_size") else None
    one = Block(
        count=1, mixer=recurrent(renamed(k, inner_size=inner), hidden), ffn=None, norm_params=facts.norms * hidden
    )
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=[one] * layers, other=outside(k, facts, hidden))


def falcon_h1(k: Keys, facts: Facts) -> Parts:
    """Falcon H1: attention and a state space read the same input side by side in every layer."""
    inner = k.count("mamba_d_ssm", limit="width", default=0, low=0)
    heads = k.count("mamba_n_heads", limit="heads")
    hidden = k.count(*HIDDEN, limit="hidden")
    state = recurrent(renamed(k, mamba_d_head=inner // heads if inner else None, mamba_proj_bias=False), hidden)
    bias = state.in_width if k.flag("mamba_proj_bias") else 0
    bias += hidden if k.flag("projectors_bias") else 0
    parts = decoder(k, facts)
    beside = Block(
        count=1, mixer=replace(state, other_params=state.other_params + bias), ffn=None, parallel=True, half=True
    )
    parts.layers = [each for layer in parts.layers for each in (layer, beside)]
    return parts


def longcat(k: Keys, facts: Facts) -> Parts:
    """LongCat-Flash: a layer is two attentions and two dense networks, with experts on a shortcut; some experts do nothing."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    own = replace(block(k, facts, hidden, FULL, False), half=False)
    second = replace(own, half=True)
    idle = k.count("zero_expert_num", limit="experts", default=0, low=0)
    experts = moe(
        renamed(k, moe_intermediate_size=k.count("expert_ffn_hidden_size", "moe_intermediate_size")), facts, hidden
    )
    bias = experts.experts + idle if k.flag("router_bias") else 0
    experts = replace(experts, router_other_params=idle * hidden + bias)
    if idle:
        k.note(
            f"{idle} of the router's choices do nothing: a token passes fewer than the {experts.topk} experts counted here"
        )
    shortcut = Block(count=1, mixer=None, ffn=experts, half=True)
    return Parts(
        hidden=hidden,
        vocab=vocabulary(k),
        layers=[each for _ in range(layers) for each in (own, second, shortcut)],
        other=outside(k, facts, hidden),
    )


def jetmoe(k: Keys, facts: Facts) -> Parts:
    """JetMoE: query and output projections are experts too, as many heads active as experts chosen."""
    hidden = k.count(*HIDDEN, limit="hidden")
    experts, topk = k.count("num_local_experts", limit="experts"), k.count("num_experts_per_tok", limit="experts")
    check_choice(k, topk, experts)
    kv_heads, dim = k.count("num_key_value_heads", limit="heads"), k.count("kv_channels", limit="head")
    parts = decoder(renamed(k, num_attention_heads=kv_heads * topk), facts)
    idle = MoE(experts=experts - topk, topk=0, width=kv_heads * dim, gated=False) if experts > topk else None
    beside = Block(count=1, mixer=None, ffn=idle, other_params=hidden * topk if idle else hidden * experts, half=True)
    parts.layers = [each for layer in parts.layers for each in (replace(layer, other_params=2 * hidden), beside)]
    return parts


def rwkv(k: Keys, facts: Facts) -> Parts:
    """RWKV 4: a recurrence per channel, and a channel mix with a gate as wide as the hidden size."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    inner = k.count("attention_hidden_size", limit="hidden", default=hidden)
    width = k.count("intermediate_size", default=4 * hidden)
    mixer = Recurrent(
        form="rwkv",
        heads=inner,
        key_dim=1,
        value_dim=3,
        in_width=3 * inner,
        out_width=inner,
        conv_channels=2 * hidden,
        conv_kernel=1,
        chunk=1,
        other_params=2 * inner + 3 * hidden,
    )
    ffn = Dense(width=width, gated=False, other_params=2 * hidden)
    one = Block(count=1, mixer=mixer, ffn=ffn, norm_params=4 * hidden, extra_matmul_params=hidden * hidden)
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=[one] * layers, other=4 * hidden)


def xlstm(k: Keys, facts: Facts) -> Parts:
    """xLSTM 7B: matrix-memory cells with exponential gates."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    heads = k.count("num_heads", limit="heads")
    keys = int(hidden * k.number("qk_dim_factor", 0.5, 0.001, 64.0))
    values = int(hidden * k.number("v_dim_factor", 1.0, 0.001, 64.0))
    multiple = k.count("ffn_round_up_to_multiple_of", limit="width", default=64)
    width = multiple * int((hidden * k.number("ffn_proj_factor", 2.667, 0.01, 64.0) + multiple - 1) // multiple)
    bias = k.flag("use_bias")
    in_width = 2 * keys + 2 * values + 2 * heads
    other = 2 * heads + values + (2 * keys + 3 * values + hidden if bias else 0)
    mixer = Recurrent(
        form="mlstm",
        heads=heads,
        key_dim=keys // heads,
        value_dim=values // heads,
        in_width=in_width,
        out_width=values,
        conv_channels=keys + heads,
        conv_kernel=1,
        chunk=k.count("chunk_size", limit="width", default=64),
        other_params=other,
    )
    ffn = Dense(width=width, other_params=2 * width + hidden if bias else 0)
    one = Block(count=1, mixer=mixer, ffn=ffn, norm_params=2 * hidden * (2 if bias else 1))
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=[one] * layers, other=hidden)


def zamba(k: Keys, facts: Facts) -> Parts:
    """Zamba 1 and 2: state spaces, and one or a few shared transformer layers that read the embedding beside the stream."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    if k.has("attn_layer_period") and not k.has("layers_block_type", "layer_types"):  # counted from the fourth layer on
        period, offset = (
            k.count("attn_layer_period", limit="layers"),
            k.count("attn_layer_offset", limit="layers", low=0),
        )
        later = ["hybrid" if i % period == offset else "mamba" for i in range(layers)]
        k = renamed(k, layer_types=["mamba", "mamba", "hybrid", *later])
    chosen = kinds(k, facts, layers)
    hybrid = sum(kind.name == "hybrid" for kind in chosen)  # int
    if k.model_type == "zamba2":
        k = renamed(k, use_conv_bias=True, mamba_proj_bias=k.flag("add_bias_linear"))
    mixer = recurrent(k, hidden)
    plain = Block(count=1, mixer=mixer, ffn=None, norm_params=hidden)
    made = [replace(plain, extra_matmul_params=hidden * hidden) if kind.name == "hybrid" else plain for kind in chosen]
    if hybrid:
        made += _zamba_shared(k, hidden, hybrid)
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=made, other=outside(k, facts, hidden))


def _zamba_shared(k: Keys, hidden: int, hybrid: int) -> list[Block]:
    """The shared layers, and the low-rank adapters that each use of them has to itself."""
    heads = k.count(*HEADS, limit="heads")
    dim = k.count("attention_head_dim", limit="head", default=2 * hidden // heads)
    kv_heads = k.count("num_key_value_heads", limit="heads", default=heads)
    mixer = Attention(heads=heads, kv_heads=kv_heads, head_dim=dim, value_dim=dim, input_width=2 * hidden)
    width = k.count("intermediate_size", default=4 * hidden)
    bias = 2 * width + hidden if k.flag("add_bias_linear") else 0
    shared = Block(
        count=hybrid,
        mixer=mixer,
        ffn=Dense(width=width, other_params=bias),
        norm_params=3 * hidden,
        half=True,
        stored=min(hybrid, k.count("num_mem_blocks", limit="small", default=1)),
    )
    rank = k.count("adapter_rank", limit="hidden", default=0, low=0) if k.model_type == "zamba2" else 0
    adapters = rank * (hidden + 2 * width) + (3 * rank * 4 * hidden if k.flag("use_shared_attention_adapter") else 0)
    if not adapters:
        return [shared]
    return [shared, Block(count=hybrid, mixer=None, ffn=None, extra_matmul_params=adapters, half=True)]


def deepseek_v4(k: Keys, facts: Facts) -> Parts:
    """DeepSeek-V4: a window of plain keys and compressed entries of older tokens, low-rank outputs, widened residuals."""
    hidden, layers = k.count(*HIDDEN, limit="hidden"), layer_count(k)
    streams = k.count("hc_mult", limit="small", default=0, low=0)
    mixes = streams * streams + 2 * streams
    experts = moe(k, facts, hidden)
    made: dict[int, Block] = {}
    chosen = []
    for ratio in _compression(k, layers):
        if ratio not in made:
            mixer, extra = _compressed_attention(k, hidden, ratio)
            made[ratio] = Block(
                count=1,
                mixer=mixer,
                ffn=experts,
                norm_params=2 * hidden,
                other_params=2 * (mixes + 3) if streams else 0,
                extra_matmul_params=extra + 2 * mixes * streams * hidden,
            )
        chosen.append(made[ratio])
    head = streams * streams * hidden + streams + 1 if streams else 0
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=chosen, other=hidden + head)


def _compression(k: Keys, layers: int) -> list[int]:
    """Tokens per compressed entry of every layer, 0 for a layer that has its window only."""
    if k.has("compress_ratios"):
        return [k.whole("compress_ratios", x, "tokens", 0) for x in k.per_layer(layers, "compress_ratios")]
    rates = k.data.get("compress_rates")
    rates = rates if isinstance(rates, dict) else {}
    sizes = {
        "sliding_attention": 0,
        "compressed_sparse_attention": k.whole("compress_rates", rates.get("compressed_sparse_attention", 4), "tokens"),
        "heavily_compressed_attention": k.whole(
            "compress_rates", rates.get("heavily_compressed_attention", 128), "tokens"
        ),
    }
    words = k.per_layer(layers, "layer_types")
    if not words:
        raise k.refuse(("compress_ratios", "layer_types"), "which layer is what")
    if unknown := [word for word in words if not isinstance(word, str) or word not in sizes]:
        raise InputError(
            f"{k.name('layer_types')} has the unknown layer kind {unknown[0]!r}; known kinds: {', '.join(sizes)}"
        )
    return [sizes[word] for word in words]


def _compressed_attention(k: Keys, hidden: int, ratio: int) -> tuple[Attention, int]:
    """The mixer of one layer, and the compressor's weights that multiply each token."""
    heads, dim = k.count(*HEADS, limit="heads"), k.count("head_dim", limit="head")
    rank, groups = k.count("q_lora_rank", limit="hidden"), k.count("o_groups", limit="heads")
    sparse = ratio == 4  # the sparse form overlaps two windows and selects entries with an indexer
    width = dim * (2 if sparse else 1)
    other = rank + dim + heads + (ratio * width + dim if ratio else 0)
    extra = 2 * hidden * width if ratio else 0
    index: Indexer | None = None
    if sparse:
        index = indexer(k, rank)
        index = replace(index, other_params=2 * ratio * index.head_dim + index.head_dim)
        extra += 3 * hidden * index.head_dim
    mixer = Attention(
        heads=heads,
        kv_heads=1,
        head_dim=dim,
        value_dim=dim,
        window=k.count("sliding_window", limit="tokens"),
        query_rank=rank,
        keys_are_values=True,
        one_cache=True,
        compression=ratio,
        indexer=index,
        other_params=other,
        output_groups=groups,
        output_rank=k.count("o_lora_rank", limit="hidden"),
    )
    return mixer, extra


def streams(k: Keys, facts: Facts) -> Parts:
    """Residuals of several streams, mixed before and after each half of a layer (Hunyuan 4)."""
    parts = decoder(k, facts)
    count = k.count("hc_mult", limit="small")
    wide = count * parts.hidden
    parts.layers = [
        replace(
            layer, extra_matmul_params=layer.extra_matmul_params + 4 * count * wide,
            other_params=layer.other_params + 2 * (2 * count + 2),
        )
        for layer in parts.layers
    ]  # fmt: skip
    parts.other += count * wide + count + 1
    return parts


def two_kinds_of_experts(k: Keys, facts: Facts) -> Parts:
    """ERNIE 4.5 VL: beside the experts for text as many for images, which a text token never chooses."""
    sizes = k.list("moe_intermediate_size") or [1536, 512]
    if len(sizes) != 2:
        raise InputError(
            f"{k.name('moe_intermediate_size')} must be two widths, for text and for images; correct the config"
        )
    single = {
        key: value[0] for key, value in k.data.items() if key.startswith("moe_") and isinstance(value, list) and value
    }
    parts = decoder(renamed(k, **{**single, "moe_intermediate_size": sizes[0]}), facts)
    made = []
    for layer in parts.layers:
        made.append(layer)
        if isinstance(layer.ffn, MoE):
            width = k.whole("moe_intermediate_size", sizes[1])
            images = replace(layer.ffn, topk=0, width=width, shared_width=0, other_params=0)
            made.append(Block(count=1, mixer=None, ffn=images, half=True))
    parts.layers = made
    return parts
