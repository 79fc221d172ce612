"""Layers of an ordinary decoder: one mixer and one feed-forward each, chosen layer by layer from the keys."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.hf.attention import HIDDEN, head_dim_of, latent, norm_params, shape_of, softmax, switch
from rooflab.hf.facts import Facts
from rooflab.hf.feedforward import feed_forward, sparse_layers
from rooflab.hf.keys import Keys
from rooflab.hf.layers import Kind, kinds, layer_count
from rooflab.hf.recurrent import recurrent
from rooflab.model import Block, Mixer
from rooflab.units import InputError

VOCABULARY = ("vocab_size", "n_vocab", "padded_vocab_size")
CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "n_ctx",
    "context_length",
)


class Parts(msgspec.Struct, kw_only=True):
    """What a builder hands over: one block a layer, and everything outside the layers."""

    hidden: int
    vocab: int
    layers: list[Block]
    other: int = 0
    mtp_layers: list[Block] = []
    """Layers of one multi-token-prediction module where they are not the last layer's like."""
    fields: dict[str, Any] = {}
    """Further fields of the model (`embedding_width`, `head_params`, `lookup_params`)."""


def decoder(k: Keys, facts: Facts) -> Parts:
    """An ordinary decoder."""
    hidden = k.count(*HIDDEN, limit="hidden")
    layers = layer_count(k)
    k = with_index_kinds(k, layers)
    made: dict[object, Block] = {}
    chosen = []
    for i, (kind, experts) in enumerate(zip(kinds(k, facts, layers), sparse_layers(k, layers), strict=True)):
        own = layer_keys(k, i)
        key = (kind, experts, None if own is k else repr(_changed(own, k)))
        if key not in made:
            made[key] = block(own, facts, hidden, kind, experts)
        chosen.append(made[key])
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=chosen, other=outside(k, facts, hidden))


PER_LAYER = (
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "moe_intermediate_size",
    "num_experts_per_tok",
    "num_experts",
    "sliding_window",
    "indexer_types",
)
"""Sizes that some configs give as one value a layer."""


def layer_keys(k: Keys, i: int) -> Keys:
    """The keys as layer `i` sees them: lists with one value a layer, and overrides by layer."""
    own: dict[str, Any] = {}
    for key in PER_LAYER:
        for name in (f"{key}_per_layer", key):
            value = k.data.get(name)
            if isinstance(value, list):
                if i >= len(value):
                    raise InputError(
                        f"{k.name(name)} has {len(value)} entries, too few for layer {i}; correct the config"
                    )
                own[key] = value[i]
                break
    section = k.data.get("per_layer_config")
    if isinstance(section, dict):
        for name in (str(i), f"{i:02d}", f"{i:03d}"):
            if isinstance(section.get(name), dict):
                own.update(section[name])
    return renamed(k, **own) if own else k


def with_index_kinds(k: Keys, layers: int) -> Keys:
    """Which layers select keys themselves and which reuse the selection before, where a pattern or a stride says."""
    if not k.find("index_n_heads")[1] or k.has("indexer_types"):
        return k
    pattern = k.find("index_topk_pattern")[1]
    if isinstance(pattern, str):
        words = {"F": "full", "S": "shared"}
        return renamed(k, indexer_types=[words.get(letter, letter) for letter in pattern])
    if isinstance(pattern, list):
        return renamed(k, indexer_types=pattern)
    stride = k.count("index_topk_freq", limit="layers", default=1, low=0)
    if stride <= 1:
        return k
    offset = k.count("index_skip_topk_offset", limit="layers", default=2, low=0)
    return renamed(
        k, indexer_types=["full" if max(i - offset + 1, 0) % stride == 0 else "shared" for i in range(layers)]
    )


def _changed(own: Keys, k: Keys) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in own.data.items() if k.data.get(key) != value]


def renamed(k: Keys, **values: object) -> Keys:
    """The same section with some keys said in the usual vocabulary."""
    other = Keys({**k.data, **values}, k.path, k.notes, k.nested, k.seen)
    other.model_type, other.extra_defaults, other.taken = k.model_type, k.extra_defaults, k.taken
    return other


def vocabulary(k: Keys) -> int:
    """Rows of the embedding table."""
    if k.has("padded_vocab_size"):
        return k.count("padded_vocab_size", limit="vocabulary")
    return k.count(*VOCABULARY, limit="vocabulary")


def block(k: Keys, facts: Facts, hidden: int, kind: Kind, sparse: bool) -> Block:
    """One layer of one kind."""
    norms = facts.norms + (1 if facts.sparse_norm and sparse else 0)
    return Block(
        count=1,
        mixer=mixer(k, facts, hidden, kind),
        ffn=feed_forward(k, facts, hidden, sparse),
        norm_params=norms * norm_params(facts.norm, hidden),
        parallel=switch(k, facts.parallel),
        extra_matmul_params=head_gate(k, facts, hidden, kind),
        other_params=facts.layer_other,
    )


def head_gate(k: Keys, facts: Facts, hidden: int, kind: Kind) -> int:
    """Projection of an output gate with one value a head."""
    if kind.name == "recurrent" or not switch(k, facts.head_gate):
        return 0
    heads = shape_of(k, hidden, kind.name)[0]
    if facts.head_gate_wide and k.data.get(facts.head_gate_wide) not in (None, True, "per-head"):
        return hidden * heads * head_dim_of(k, hidden, heads)
    return hidden * heads


def mixer(k: Keys, facts: Facts, hidden: int, kind: Kind) -> Mixer | None:
    """The mixer of one layer: linear, latent or softmax."""
    if kind.name == "recurrent":
        return recurrent(k, hidden)
    if k.find("kv_lora_rank")[1] and k.data.get("use_mla") is not False:
        return latent(k, facts, hidden, kind.window)
    return softmax(k, facts, hidden, kind.name, kind.window)


def outside(k: Keys, facts: Facts, hidden: int) -> int:
    """Final norm, norm after the embedding, learned positions and the head's bias."""
    total = norm_params(facts.norm, hidden) * (int(facts.final_norm) + int(facts.embedding_norm))
    if facts.positions:
        total += (k.count(facts.positions, limit="vocabulary") + facts.positions_offset) * hidden
    if switch(k, facts.head_bias):
        total += vocabulary(k)
    return total


def merged(layers: list[Block]) -> tuple[Block, ...]:
    """Equal layers become one block with a count, in order of first appearance."""
    counts: dict[bytes, int] = {}
    first: dict[bytes, Block] = {}
    for layer in layers:
        key = msgspec.msgpack.encode(msgspec.structs.replace(layer, count=1))
        counts[key] = counts.get(key, 0) + layer.count
        first.setdefault(key, layer)
    return tuple(msgspec.structs.replace(first[key], count=counts[key]) for key in first)
