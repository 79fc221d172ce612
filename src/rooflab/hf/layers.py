"""Which layer is what: full, windowed, chunked, cross or linear, from whichever keys a config uses to say so."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.hf.facts import Facts
from rooflab.hf.keys import Keys
from rooflab.units import InputError, shown

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks")
WINDOW = ("sliding_window", "sliding_window_size", "window_size", "attention_window_size")


class Kind(NamedTuple):
    """What mixes the tokens of one layer."""

    name: str
    """full | sliding | recurrent | cross | none"""
    window: int = 0


FULL = Kind("full")
RECURRENT = Kind("recurrent")
WORDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full", "global_attention": "full",
    "reference_sliding_attention": "full",
    "indexed_attention": "full", "sparse_attention": "full", "minimax_m3_sparse": "full", "*": "full",
    "sliding_attention": "sliding", "sliding": "sliding", "local": "sliding", "local_attention": "sliding",
    "sliding_window": "sliding", "swa": "sliding", "sliding_window_attention": "sliding", "window_attention": "sliding",
    "hybrid_sliding": "sliding",
    "chunked_attention": "chunked", "chunked": "chunked",
    "linear_attention": "recurrent", "mamba": "recurrent", "mamba2": "recurrent", "conv": "recurrent",
    "recurrent": "recurrent", "linear": "recurrent", "lightning_attention": "recurrent", "kda": "recurrent",
    "gated_deltanet": "recurrent", "hybrid": "hybrid",
    "cross_attention": "cross",
}  # fmt: skip
"""Names of layer kinds in configs → ours."""


def layer_count(k: Keys) -> int:
    """Number of layers; a config that lists every layer may leave the number out."""
    if not k.has(*LAYERS):
        for key in ("layer_types", "layers_block_type", "hybrid_override_pattern", "block_configs"):
            value = k.data.get(key)
            if isinstance(value, (list, str)) and value:
                return k.whole(f"{key} (its length)", len(value), "layers")
    return k.count(*LAYERS, limit="layers")


def kinds(k: Keys, facts: Facts, layers: int) -> list[Kind]:
    """The kind of every layer."""
    for reader in (_words, _linear_lists, _intervals):
        found = reader(k, layers)
        if found:
            return found
    if facts.kinds:
        words = facts.kinds.split()
        return [_word(k, "layer_types", words[i % len(words)]) for i in range(layers)]
    cross = {i for i in k.list("cross_attention_layers") if isinstance(i, int)}
    return [Kind("cross") if i in cross else _windowed(k, facts, i) for i in range(layers)]


def _words(k: Keys, layers: int) -> list[Kind]:
    """A list with one word a layer, or a short list that repeats."""
    for key in ("layer_types", "layers_block_type", "attention_layers", "attn_layers"):
        if k.has(key):
            return [_word(k, key, word) for word in k.per_layer(layers, key)]
    for key in ("block_types", "_block_types"):
        words = k.list(key)
        if words:
            return [_word(k, key, words[i % len(words)]) for i in range(layers)]
    return []


def _word(k: Keys, key: str, word: object) -> Kind:
    name = WORDS.get(word) if isinstance(word, str) else None
    if name is None:
        known = ", ".join(sorted(WORDS))
        raise InputError(f"{k.name(key)} has the unknown layer kind {shown(word)}; known kinds: {known}")
    if name == "sliding":
        return sliding(k)
    if name == "chunked":
        return Kind("sliding", k.count("attention_chunk_size", limit="tokens"))
    return Kind(name)


def sliding(k: Keys) -> Kind:
    """A windowed layer; without a window size it is a full one."""
    window = k.count(*WINDOW, limit="tokens", default=0, low=0)
    return Kind("sliding", window) if window else FULL


def _linear_lists(k: Keys, layers: int) -> list[Kind]:
    """Lists of the layers that are full attention among linear ones."""
    section = k.section("linear_attn_config")
    if section is not None:
        full = {i for i in section.list("full_attn_layers") if isinstance(i, int)}  # counted from one
        return [FULL if i + 1 in full else RECURRENT for i in range(layers)]
    if k.has("attn_type_list"):
        return [FULL if x else RECURRENT for x in k.per_layer(layers, "attn_type_list")]
    if k.model_type == "bamba" and not k.has("attn_layer_indices"):
        return [RECURRENT] * layers
    for key in ("attn_layer_indices", "full_attn_idxs"):
        if k.has(key):
            full = {i for i in k.list(key) if isinstance(i, int)}
            return [FULL if i in full else RECURRENT for i in range(layers)]
    if k.has("hybrid_layer_pattern"):  # 0 full, 1 windowed
        return [sliding(k) if x else FULL for x in k.per_layer(layers, "hybrid_layer_pattern")]
    return []


def _intervals(k: Keys, layers: int) -> list[Kind]:
    """Every n-th layer is full attention among linear ones."""
    if k.find("linear_num_value_heads")[1] and k.find("full_attention_interval")[1]:
        step = k.count("full_attention_interval", limit="layers", default=4)
        return [FULL if (i + 1) % step == 0 else RECURRENT for i in range(layers)]
    if k.has("attn_layer_period"):
        period = k.count("attn_layer_period", limit="layers")
        offset = k.count("attn_layer_offset", limit="layers", default=0, low=0)
        return [FULL if i % period == offset % period else RECURRENT for i in range(layers)]
    if k.has("layer_group_size"):
        group = k.count("layer_group_size", limit="layers")
        last = layers // group * group
        return [FULL if (i + 1) % group == 0 or i >= last else RECURRENT for i in range(layers)]
    return []


def _windowed(k: Keys, facts: Facts, i: int) -> Kind:
    """Full or windowed attention where no list of kinds says which."""
    if facts.window == "chunked":
        no_rope = k.list("no_rope_layers")
        step = k.count("no_rope_layer_interval", limit="layers", default=4)
        local = bool(no_rope[i]) if i < len(no_rope) else (i + 1) % step != 0
        chunk = k.count("attention_chunk_size", limit="tokens", default=0, low=0)
        return Kind("sliding", chunk) if local and chunk else FULL
    pattern = k.find("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")[1]
    if facts.window == "none" or k.data.get("use_sliding_window") is False:
        return FULL
    if facts.window == "qwen":
        enabled = k.flag("use_sliding_window") and i >= k.count("max_window_layers", limit="tokens", default=0, low=0)
        return sliding(k) if enabled else FULL
    if facts.window == "even":
        return FULL if i % 2 else sliding(k)
    if facts.window == "pattern" and isinstance(pattern, str) and pattern:
        if set(pattern) - set("LG"):
            raise InputError(
                f"{k.name('sliding_window_pattern')} = {shown(pattern)} must be of L and G; correct the config"
            )
        return sliding(k) if pattern[i % len(pattern)] == "L" else FULL
    if facts.window == "pattern" and pattern:
        every = k.whole("sliding_window_pattern", pattern, "layers")
        return FULL if (i + 1) % every == 0 else sliding(k)
    return FULL if facts.window == "pattern" else sliding(k)
