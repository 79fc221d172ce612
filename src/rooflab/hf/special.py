"""Builders of the families whose layers are not one plain mixer and one plain feed-forward, or whose keys are unusual.

Most only translate keys into the usual vocabulary and hand over to `decoder`; a few assemble layers themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from rooflab.hf import composed, hybrids, layerwise
from rooflab.hf.attention import HEADS, head_dim_of, kv_heads_of
from rooflab.hf.decoder import Parts, decoder, renamed, vocabulary
from rooflab.hf.facts import Facts
from rooflab.hf.keys import Keys
from rooflab.hf.layers import layer_count
from rooflab.model import Attention, Indexer
from rooflab.units import InputError

Builder = Callable[[Keys, Facts], Parts]


def opt(k: Keys, facts: Facts) -> Parts:
    """OPT: the embedding may be narrower than the layers; post-norm models have no final norm."""
    final = k.flag("do_layer_norm_before", default=True) and not k.flag("_remove_final_layer_norm")
    norm = facts.norm if k.flag("layer_norm_elementwise_affine", default=True) else "none"
    parts = decoder(k, replace(facts, final_norm=final, norm=norm))
    width = k.count("word_embed_proj_dim", limit="hidden", default=parts.hidden)
    if width != parts.hidden:
        parts.other += 2 * width * parts.hidden
        parts.fields = {"embedding_width": width, "head_params": 0}
    return parts


def mpt(k: Keys, facts: Facts) -> Parts:
    """MPT keeps its attention switches in a section of their own."""
    inner = k.section("attn_config")
    return decoder(renamed(k, num_key_value_heads=inner.data.get("kv_n_heads") if inner else None), facts)


def dbrx(k: Keys, facts: Facts) -> Parts:
    """DBRX keeps attention and experts in two sections."""
    attention, experts = k.section("attn_config"), k.section("ffn_config")
    if attention is None or experts is None:
        raise InputError(
            "the config does not say a size it needs: no section attn_config or ffn_config (model_type dbrx)"
        )
    wanted = {"num_key_value_heads": attention.count("kv_n_heads", limit="heads")}
    for key in ("ffn_hidden_size", "moe_num_experts", "moe_top_k"):
        wanted[key] = experts.count(key)
    return decoder(renamed(k, **wanted), facts)


def falcon(k: Keys, facts: Facts) -> Parts:
    """Falcon: three layouts of heads and norms by two switches."""
    new, parallel = k.flag("new_decoder_architecture"), k.flag("parallel_attn", default=True)
    norms = k.count("num_ln_in_parallel_attn", limit="small", default=2 if new else 1) if parallel else 2
    heads = k.count(*HEADS, limit="heads")
    if k.model_type.lower() == "refinedweb":
        new, norms = True, 2
    if new:
        kv_heads = k.count("num_kv_heads", "n_head_kv", limit="heads", default=heads)
    else:
        kv_heads = 1 if k.flag("multi_query", default=True) else heads
    return decoder(renamed(k, num_kv_heads=kv_heads, multi_query=False), replace(facts, norms=norms, parallel=parallel))


def qwen(k: Keys, facts: Facts) -> Parts:
    """Qwen of the first generation: `no_bias` speaks of everything but queries, keys and values."""
    bias = not k.flag("no_bias", default=True)
    return decoder(k, replace(facts, out_bias=bias, ffn_bias=bias))


def chatglm(k: Keys, facts: Facts) -> Parts:
    """ChatGLM 2 and 3, GLM-4-9B: norms by name, and a rotary table stored among the weights."""
    linear = k.flag("add_bias_linear")
    qkv = linear or k.flag("add_qkv_bias")
    norm = "rms" if k.flag("rmsnorm", default=True) else "layer"
    final = k.flag("post_layer_norm", default=True)
    parts = decoder(k, replace(facts, norm=norm, qkv_bias=qkv, out_bias=linear, ffn_bias=linear, final_norm=final))
    parts.other += head_dim_of(k, parts.hidden, k.count(*HEADS, limit="heads")) // 4
    k.note("the stored rotary frequencies are counted, as the published checkpoint does")
    return parts


def molmo(k: Keys, facts: Facts) -> Parts:
    """Molmo: a second table of image tokens beside the vocabulary."""
    size = k.count("embedding_size", limit="vocabulary", default=vocabulary(k))
    parts = decoder(renamed(k, vocab_size=size), replace(facts, tied=k.flag("weight_tying")))
    extra = 128 if k.model_type == "molmo" else 0
    parts.other += k.count("additional_vocab_size", limit="vocabulary", default=extra, low=0) * parts.hidden
    return parts


def minimax_m3(k: Keys, facts: Facts) -> Parts:
    """MiniMax-M3: block-sparse layers carry an indexer of their own shape."""
    shared = 0 if k.has("n_shared_experts") else 1
    parts = decoder(renamed(k, n_shared_experts=1) if shared else k, facts)
    section = k.section("sparse_attention_config")
    if section is not None:
        sparse = [bool(x) for x in section.per_layer(len(parts.layers), "sparse_attention_freq")] or [True] * len(
            parts.layers
        )
        heads, dim = (
            section.count("sparse_num_index_heads", limit="heads"),
            section.count("sparse_index_dim", limit="head"),
        )
        size = section.count("sparse_topk_blocks", limit="tokens") * section.count("sparse_block_size", limit="tokens")
    else:
        sparse = [word == "minimax_m3_sparse" for word in k.per_layer(len(parts.layers), "layer_types")] or [
            False
        ] * len(parts.layers)
        heads, dim = k.count("index_n_heads", limit="heads"), k.count("index_head_dim", limit="head")
        size = k.count("index_topk_blocks", limit="tokens") * k.count("index_block_size", limit="tokens")
    index = Indexer(
        heads=heads, head_dim=dim, topk=size, query_width=parts.hidden, weighted=False, other_params=2 * dim
    )
    parts.layers = [
        replace(layer, mixer=replace(layer.mixer, indexer=index))
        if on and isinstance(layer.mixer, Attention)
        else layer
        for layer, on in zip(parts.layers, sparse, strict=True)
    ]
    return parts


def llama4(k: Keys, facts: Facts) -> Parts:
    """Llama 4: experts on every n-th layer, or on the layers of a list; one shared expert as wide as a routed one."""
    chosen = k.data.get("moe_layers")
    layers = layer_count(k)
    step = k.count("interleave_moe_layer_step", limit="layers", default=1)
    on = {i for i in chosen if isinstance(i, int)} if isinstance(chosen, list) and chosen else None
    types = ["sparse" if (i in on if on is not None else (i + 1) % step == 0) else "dense" for i in range(layers)]
    return decoder(renamed(k, mlp_layer_types=types, n_shared_experts=1), facts)


def step3(k: Keys, facts: Facts) -> Parts:
    """Step-3: queries pass one low-rank path with a norm (multi-matrix factorised attention)."""
    parts = decoder(renamed(k, n_shared_experts=1), facts)
    rank = k.count("share_q_dim", limit="hidden")
    parts.layers = [
        replace(layer, mixer=replace(layer.mixer, query_rank=rank, other_params=layer.mixer.other_params + rank))
        if isinstance(layer.mixer, Attention)
        else layer
        for layer in parts.layers
    ]
    return parts


def diffllama(k: Keys, facts: Facts) -> Parts:
    """Differential attention: four vectors a layer mix two softmaxes."""
    parts = decoder(k, facts)
    parts.layers = [
        replace(layer, other_params=layer.other_params + 4 * layer.mixer.head_dim)
        if isinstance(layer.mixer, Attention)
        else layer
        for layer in parts.layers
    ]
    return parts


def doge(k: Keys, facts: Facts) -> Parts:
    """Doge: residual weights, and a dynamic mask from a projection of the values."""
    if k.flag("is_moe"):
        raise InputError(
            "doge with is_moe = true (cross-domain experts) is not known; only its dense form is estimated"
        )
    parts = decoder(renamed(k, num_experts=None), facts)
    kv_heads = kv_heads_of(k, k.count(*HEADS, limit="heads"))
    width = kv_heads * head_dim_of(k, parts.hidden, k.count(*HEADS, limit="heads"))
    bias = kv_heads if k.flag("attention_bias") else 0
    parts.layers = [
        replace(layer, extra_matmul_params=width * kv_heads, other_params=2 * parts.hidden + kv_heads + bias)
        for layer in parts.layers
    ]
    return parts


def lfm2(k: Keys, facts: Facts) -> Parts:
    """Liquid models: short convolutions and attention; the width in the file may still be adjusted."""
    width = k.count("block_ff_dim", "intermediate_size")
    if k.flag("block_auto_adjust_ff_dim", default=k.model_type == "lfm2"):
        width = int(k.number("block_ffn_dim_multiplier", 1.0, 0.01, 64.0) * int(2 * width / 3))
        multiple = k.count("block_multiple_of", limit="width", default=256)
        width = multiple * -(-width // multiple)
    norms = 4 if k.flag("use_sandwich_norm") else 2
    return decoder(renamed(k, intermediate_size=width), replace(facts, norms=norms))


def mimo_v2(k: Keys, facts: Facts) -> Parts:
    """MiMo V2: windowed layers have twice the key/value heads unless the file says, and sinks."""
    if not k.has("swa_num_key_value_heads"):
        k = renamed(k, swa_num_key_value_heads=2 * k.count("num_key_value_heads", limit="heads"))
    if not k.has("layer_types", "hybrid_layer_pattern"):
        layers = layer_count(k)
        k = renamed(k, hybrid_layer_pattern=[0 if i == 0 or (i + 1) % 6 == 0 else 1 for i in range(layers)])
    parts = decoder(k, facts)
    for i, layer in enumerate(parts.layers):
        if not isinstance(layer.mixer, Attention):
            continue
        key = "add_swa_attention_sink_bias" if layer.mixer.window else "add_full_attention_sink_bias"
        if k.flag(key, default=bool(layer.mixer.window)):
            mixer = replace(layer.mixer, other_params=layer.mixer.other_params + layer.mixer.heads)
            parts.layers[i] = replace(layer, mixer=mixer)
    return parts


def cohere2_moe(k: Keys, facts: Facts) -> Parts:
    """Command A with experts: leading dense layers have a width of their own."""
    width = k.data.get("prefix_dense_intermediate_size") or k.data.get("intermediate_size")
    return decoder(renamed(k, dense_intermediate_size=width), facts)


def stablelm(k: Keys, facts: Facts) -> Parts:
    """StableLM: parallel layers have one norm."""
    return decoder(k, replace(facts, norms=1 if k.flag("use_parallel_residual") else 2))


def hyperclovax(k: Keys, facts: Facts) -> Parts:
    """HyperCLOVA X: norms after attention and feed-forward too, if switched on."""
    return decoder(k, replace(facts, norms=4 if k.flag("use_post_norm") else 2))


def hunyuan_moe(k: Keys, facts: Facts) -> Parts:
    """Hunyuan with experts: a shared network beside them; some sizes are lists of one value a layer."""
    single = {}
    for key in ("moe_topk", "num_shared_expert", "moe_intermediate_size"):
        value = k.data.get(key)
        if isinstance(value, list) and value:
            if any(each != value[0] for each in value):
                raise InputError(f"{k.name(key)} differs between layers, which is not known here; give one value")
            single[key] = value[0]
    if k.count("num_experts", limit="experts", default=1) <= 1:
        return decoder(renamed(k, num_experts=None, **single), facts)
    shared = single.get("num_shared_expert", k.data.get("num_shared_expert")) or 1
    parts = decoder(renamed(k, **{**single, "num_shared_expert": shared}), facts)
    factor = k.count("cla_share_factor", limit="layers", default=1) if k.flag("use_cla") else 1
    for i, layer in enumerate(parts.layers):  # cross-layer attention: only every n-th layer has keys and values
        if i % factor and isinstance(layer.mixer, Attention):
            lost = layer.mixer.head_dim if layer.mixer.other_params else 0
            mixer = replace(layer.mixer, shares_kv=True, other_params=layer.mixer.other_params - lost)
            parts.layers[i] = replace(layer, mixer=mixer)
    return parts


def step3p5(k: Keys, facts: Facts) -> Parts:
    """Step 3.5: windowed layers may have more heads; experts on listed layers, one shared; lists may run on to the MTP layers."""
    other = k.data.get("attention_other_setting")
    if isinstance(other, dict):
        names = {"num_attention_heads": "swa_num_attention_heads", "num_attention_groups": "swa_num_key_value_heads",
                 "num_key_value_heads": "swa_num_key_value_heads", "head_dim": "swa_head_dim"}  # fmt: skip
        k = renamed(k, **{names[key]: value for key, value in other.items() if key in names})
    if k.data.get("use_head_wise_attn_gate") is False:
        facts = replace(facts, head_gate=False)
    if not k.has("mlp_layer_types", "moe_layers_enum"):
        layers = layer_count(k)
        k = renamed(k, mlp_layer_types=["sparse" if i >= 3 else "dense" for i in range(layers)])
    return decoder(renamed(k, n_shared_experts=1), facts)


def arctic(k: Keys, facts: Facts) -> Parts:
    """Arctic: a dense network as wide as the hidden size runs beside the experts."""
    beside = k.data.get("hidden_size") if k.flag("parallel_attn_mlp_res", default=True) else 0
    step = k.count("moe_layer_frequency", limit="layers", default=1)
    types = ["sparse" if (i + 1) % step == 0 else "dense" for i in range(layer_count(k))]
    own = renamed(k, mlp_layer_types=types, shared_intermediate_size=beside)
    return decoder(own, replace(facts, norms=3 if beside else 2))


def grok(k: Keys, facts: Facts) -> Parts:
    """Grok: experts alone, or (Grok 2) a dense network beside narrower ones, then with a head of its own."""
    if not k.flag("residual_moe"):
        return decoder(k, facts)
    parts = decoder(renamed(k, shared_intermediate_size=k.count("intermediate_size")), facts)
    parts.fields = {"tied": k.flag("tie_word_embeddings", default=False)}
    return parts


def minicpmv(k: Keys, facts: Facts) -> Parts:
    """MiniCPM-V: the language model of its version, flat in the same file."""
    version = str(k.data.get("version", ""))
    if not version.startswith(("2.0", "2.5", "2.6", "4.0", "4.5")):
        raise InputError(
            f"{k.name('version')} = {version[:20]!r} of MiniCPM-V is not known; known: 2.0, 2.5, 2.6, 4.0, 4.5"
        )
    qwen3 = version.startswith("4.5")
    own = replace(facts, qkv_bias=version.startswith("2.6"), qk_norm="head" if qwen3 else "")
    return decoder(k, own)


def gpt_neox_japanese(k: Keys, facts: Facts) -> Parts:
    """GPT-NeoX Japanese: no biases but one, on the last layer's way out of attention."""
    hidden = k.count("hidden_size", limit="hidden")
    width = k.count("intermediate_multiple_size", limit="small", default=4) * hidden
    parts = decoder(renamed(k, intermediate_size=width), facts)
    parts.other += hidden
    return parts


def mamba_ssm(k: Keys, facts: Facts) -> Parts:
    """State-space models in their authors' own format: no model type, defaults of the package, a padded vocabulary."""
    inner = k.section("ssm_cfg") or Keys({})
    multiple = k.count("pad_vocab_size_multiple", limit="width", default=1)
    rows = multiple * -(-k.count("vocab_size", limit="vocabulary") // multiple)
    kernel, expand = inner.count("d_conv", limit="small", default=4), inner.count("expand", limit="small", default=2)
    if k.data.get("attn_layer_idx"):
        raise InputError(
            f"{k.name('attn_layer_idx')}: attention among the state spaces of this format is not known here"
        )
    own: dict[str, object] = {"vocab_size": rows, "conv_kernel": kernel, "expand": expand, "intermediate_size": None}
    if inner.text("layer").lower() == "mamba2":
        dim = inner.count("headdim", limit="head", default=64)
        heads = expand * k.count("d_model", limit="hidden") // dim
        states, groups = (
            inner.count("d_state", limit="head", default=128),
            inner.count("ngroups", limit="heads", default=1),
        )
        own |= {"mamba_num_heads": heads, "mamba_head_dim": dim, "ssm_state_size": states, "n_groups": groups}
        own["chunk_size"] = 256
    else:
        own |= {"state_size": inner.count("d_state", limit="head", default=16)}
    return hybrids.mamba(renamed(k, **own), facts)


BUILDERS: dict[str, Builder] = {
    "": decoder, "opt": opt, "mpt": mpt, "dbrx": dbrx, "falcon": falcon, "qwen": qwen, "chatglm": chatglm, "molmo": molmo,
    "minimax_m3": minimax_m3, "llama4": llama4, "step3": step3, "mllama": hybrids.mllama, "diffllama": diffllama, "doge": doge,
    "granite_hybrid": hybrids.granite_hybrid, "gemma3n": hybrids.gemma3n, "gemma4": hybrids.gemma4, "lfm2": lfm2,
    "nemotron_h": hybrids.nemotron_h, "mamba": hybrids.mamba, "mimo_v2": mimo_v2, "falcon_h1": hybrids.falcon_h1,
    "cohere2_moe": cohere2_moe, "stablelm": stablelm, "hyperclovax": hyperclovax, "hunyuan_moe": hunyuan_moe,
    "longcat": hybrids.longcat, "jetmoe": hybrids.jetmoe, "rwkv": hybrids.rwkv, "xlstm": hybrids.xlstm, "zamba": hybrids.zamba,
    "deepseek_v4": hybrids.deepseek_v4, "step3p5": step3p5, "blockwise": layerwise.blockwise, "openelm": layerwise.openelm,
    "arctic": arctic,
    "mamba_ssm": mamba_ssm, "gpt_neox_japanese": gpt_neox_japanese,
    "axk2": composed.axk2, "mistral_large4": composed.mistral_large4, "glm5_next": composed.glm5_next, "zaya": composed.zaya,
    "inkling": composed.inkling, "inkling2": composed.inkling2, "inkling2_loop": composed.inkling2_loop,
    "muse_spark": composed.muse_spark, "molmo2": composed.molmo2, "voxtral_realtime": composed.voxtral_realtime,
    "dory": composed.dory, "hrm_text": composed.hrm_text, "qwen4_exp": composed.qwen4_exp,
    "streams": hybrids.streams, "two_kinds_of_experts": hybrids.two_kinds_of_experts, "grok": grok, "minicpmv": minicpmv,
}  # fmt: skip
