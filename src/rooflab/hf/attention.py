"""Softmax mixers from keys: separate keys and values (MHA, GQA, MQA) or one latent (MLA), with an indexer or not."""

from __future__ import annotations

from rooflab.hf.facts import Facts, Switch
from rooflab.hf.keys import Keys
from rooflab.model import Attention, Indexer, LatentAttention
from rooflab.units import InputError, shown

HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim", "embedding_dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = (
    "num_key_value_heads",
    "n_head_kv",
    "num_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
    "num_query_groups",
    "n_kv_heads",
)
HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim", "dim_head", "head_size")


def switch(k: Keys, fact: Switch) -> bool:
    """A fact, or the config's own word where the fact names a key."""
    return fact if isinstance(fact, bool) else k.flag(fact)


def kv_heads_of(k: Keys, heads: int) -> int:
    """Key/value heads; absent means one per query head unless multi-query is switched on."""
    if k.data.get("multi_query_attention") is False:  # grouping is present but switched off
        return heads
    if k.flag("multi_query"):
        return 1
    found = k.count(*KV_HEADS, limit="heads", default=0)
    if found and not k.has(*KV_HEADS) and heads % found:  # a class default made for other heads
        k.taken = {key: value for key, value in k.taken.items() if key not in KV_HEADS}
        found = 0
    return found or heads


def head_dim_of(k: Keys, hidden: int, heads: int) -> int:
    """Size of one head: explicit, else hidden size over heads (rounded down, as reference code does)."""
    found = k.count(*HEAD_DIM, limit="head", default=0)
    if found:
        return found
    if heads > hidden:
        raise InputError(f"{k.name(HEADS[0])} = {heads} is more than the hidden size {hidden}; correct the config")
    if hidden % heads:
        k.note(f"hidden size {hidden} is no multiple of {heads} heads: head size rounded down to {hidden // heads}")
    return hidden // heads


def check_groups(k: Keys, heads: int, kv_heads: int) -> None:
    """Refuse groups that no attention kernel could form."""
    if heads % kv_heads:
        name, _ = k.find(*KV_HEADS)
        raise InputError(f"{k.name(name)} = {kv_heads} does not divide the {heads} heads; correct the config")


def norm_params(norm: str, width: int) -> int:
    """Parameters of one norm."""
    return {"rms": width, "layer": 2 * width, "layer_no_bias": width, "none": 0}[norm]


def qk_norm_params(k: Keys, facts: Facts, shape: tuple[int, int, int], keys_too: bool = True) -> int:
    """Parameters of the norms on queries and keys."""
    heads, kv_heads, head_dim = shape
    if not facts.qk_norm or (facts.qk_norm_key and not k.flag(facts.qk_norm_key)):
        return 0
    if facts.qk_norm == "width":
        return heads * head_dim + (kv_heads * head_dim if keys_too else 0)
    return head_dim * (2 if facts.qk_norm == "head_layer" else 1) * (2 if keys_too else 1)


def softmax(k: Keys, facts: Facts, hidden: int, kind: str = "full", window: int = 0) -> Attention:
    """Attention with separate keys and values for one kind of layer."""
    heads, kv_heads, head_dim, value_dim = shape_of(k, hidden, kind)
    check_groups(k, heads, kv_heads)
    biases = heads * head_dim + kv_heads * (head_dim + value_dim) if switch(k, facts.qkv_bias) else 0
    biases += hidden if switch(k, facts.out_bias) else 0
    other = biases + qk_norm_params(k, facts, (heads, kv_heads, head_dim))
    other += heads if switch(k, facts.sinks) else 0
    gate = switch(k, facts.gate)
    if gate and facts.gate_bias and switch(k, facts.qkv_bias):
        other += heads * head_dim
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=value_dim,
        window=window,
        gate=gate,
        other_params=other,
    )


def shape_of(k: Keys, hidden: int, kind: str) -> tuple[int, int, int, int]:
    """Heads, key/value heads, head size and value size; windowed layers may have their own (`swa_…`)."""
    heads = k.count(*HEADS, limit="heads")
    kv_heads = kv_heads_of(k, heads)
    head_dim = head_dim_of(k, hidden, heads)
    value_dim = k.count("v_head_dim", limit="head", default=head_dim, low=0) or head_dim
    if kind == "sliding" and k.has("swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim"):
        heads = k.count("swa_num_attention_heads", limit="heads", default=heads)
        kv_heads = k.count("swa_num_key_value_heads", limit="heads", default=kv_heads)
        head_dim = k.count("swa_head_dim", limit="head", default=head_dim)
        value_dim = k.count("swa_v_head_dim", limit="head", default=value_dim if k.has("v_head_dim") else head_dim)
    return heads, kv_heads, head_dim, value_dim


def latent(k: Keys, facts: Facts, hidden: int, window: int = 0) -> LatentAttention:
    """Multi-head latent attention, with a sparse selector where the config has index keys."""
    heads = k.count(*HEADS, limit="heads")
    query_rank = k.count("q_lora_rank", limit="hidden", default=0)
    kv_rank = k.count("kv_lora_rank", limit="hidden")
    nope = k.count("qk_nope_head_dim", limit="head")
    rope = k.count("qk_rope_head_dim", limit="head", low=0)
    value = k.count("v_head_dim", limit="head")
    other = kv_rank + query_rank  # one norm on each latent
    if switch(k, facts.qkv_bias):
        other += query_rank + kv_rank + rope
    other += hidden if switch(k, facts.out_bias) else 0
    other += rope if facts.rope_norm else 0
    other += heads if switch(k, facts.sinks) else 0
    selects = bool(k.find("index_n_heads")[1]) and not window  # a windowed layer needs no selection
    return LatentAttention(
        heads=heads,
        query_rank=query_rank,
        kv_rank=kv_rank,
        nope_dim=nope,
        rope_dim=rope,
        value_dim=value,
        window=window,
        gate=switch(k, facts.gate),
        indexer=indexer(k, query_rank or hidden) if selects else None,
        other_params=other,
    )


def indexer(k: Keys, query_width: int) -> Indexer:
    """The sparse selector of DeepSeek's kind: per-head queries from the latent, one key, one weight a head."""
    heads, head_dim, topk = (
        k.count(key, limit=limit, default=k.find(key)[1])
        for key, limit in (("index_n_heads", "heads"), ("index_head_dim", "head"), ("index_topk", "tokens"))
    )
    kind = k.data.get("indexer_types") or "full"
    if kind not in ("full", "shared"):
        raise InputError(f"{k.name('indexer_types')} has the unknown kind {shown(kind)}; known: full, shared")
    return Indexer(
        heads=heads,
        head_dim=head_dim,
        topk=topk,
        query_width=query_width,
        other_params=2 * head_dim,
        owns_keys=kind == "full",
    )
