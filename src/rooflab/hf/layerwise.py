"""Builders of models whose layers differ one by one: cut by a search, or growing from layer to layer."""

from __future__ import annotations

from rooflab.hf.attention import HEADS, HIDDEN, softmax
from rooflab.hf.decoder import Parts, decoder, outside, renamed, vocabulary
from rooflab.hf.facts import Facts
from rooflab.hf.feedforward import dense
from rooflab.hf.keys import Keys
from rooflab.hf.layers import layer_count
from rooflab.model import Block, Dense
from rooflab.units import InputError


def blockwise(k: Keys, facts: Facts) -> Parts:
    """Models cut layer by layer by a search (DeciLM, Llama-Nemotron): parts missing, made linear, or of their own width."""
    configs = k.list("block_configs")
    if not configs:
        return decoder(k, facts)
    hidden = k.count(*HIDDEN, limit="hidden")
    if len(configs) != layer_count(k):
        raise InputError(
            f"{k.name('block_configs')} has {len(configs)} entries for {layer_count(k)} layers; correct the config"
        )
    made = [_searched_layer(k, facts, hidden, i, config) for i, config in enumerate(configs)]
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=made, other=outside(k, facts, hidden))


def _searched_layer(k: Keys, facts: Facts, hidden: int, i: int, config: object) -> Block:
    """One layer of `block_configs`."""
    section = Keys(config if isinstance(config, dict) else {}, f"{k.name('block_configs')}.{i}", k.notes, nested=True)
    attention, network = section.section("attention"), section.section("ffn")
    if attention is None or network is None:
        raise InputError(f"{section.path} has no attention or no ffn part; correct the config")
    mixer, ffn, norms, linear = None, None, 0, 0
    heads = k.count(*HEADS, limit="heads")
    if attention.flag("replace_with_linear"):
        norms, linear = norms + 1, hidden * hidden
    elif not attention.flag("no_op"):
        if attention.has("num_key_value_heads"):
            kv_heads = attention.count("num_key_value_heads", limit="heads")
        else:
            kv_heads = heads // attention.count("n_heads_in_group", limit="heads")
        window = attention.count("window_length", limit="tokens", default=0, low=0)
        mixer = softmax(renamed(k, num_key_value_heads=kv_heads), facts, hidden, window=window)
        norms += 1
    if network.flag("replace_with_linear"):
        norms, linear = norms + 1, linear + hidden * hidden
    elif not network.flag("no_op"):
        if network.has("moe"):
            raise InputError(
                f"{network.name('moe')}: experts in searched layers are not known; only dense ones are estimated"
            )
        ffn = dense(k, facts, hidden, _searched_width(network, hidden))
        norms += 1
    return Block(count=1, mixer=mixer, ffn=ffn, norm_params=norms * hidden, extra_matmul_params=linear)


def _searched_width(network: Keys, hidden: int) -> int:
    """Width of a searched feed-forward: given, or two thirds of a multiple rounded up to 256."""
    if network.has("intermediate_size"):
        return network.count("intermediate_size")
    if not network.has("ffn_mult"):
        raise network.refuse(("intermediate_size", "ffn_mult"), "a width it needs")
    width = int(2 * network.number("ffn_mult", 1.0, 0.001, 256.0) * hidden / 3)
    return 256 * -(-width // 256)


def openelm(k: Keys, facts: Facts) -> Parts:
    """OpenELM: heads and widths grow from layer to layer."""
    hidden = k.count("model_dim", limit="hidden")
    layers = k.count("num_transformer_layers", limit="layers")
    dim = k.count("head_dim", limit="head")
    queries, keys = k.per_layer(layers, "num_query_heads"), k.per_layer(layers, "num_kv_heads")
    ratios = k.per_layer(layers, "ffn_multipliers")
    if not queries or not keys or not ratios:
        raise k.refuse(("num_query_heads", "num_kv_heads", "ffn_multipliers"), "a list it needs")
    divisor = k.count("ffn_dim_divisor", limit="width", default=256)
    made = []
    for i in range(layers):
        own = renamed(k, num_attention_heads=queries[i], num_key_value_heads=keys[i], head_dim=dim)
        ratio = Keys({"ffn_multipliers": ratios[i]}, k.path).number("ffn_multipliers", 4.0, 0.001, 64.0)
        width = divisible(ratio * hidden, divisor)
        made.append(Block(count=1, mixer=softmax(own, facts, hidden), ffn=Dense(width=width), norm_params=2 * hidden))
    if k.data.get("share_input_output_layers") is not None:
        k.note("head and table are one as share_input_output_layers says")
    return Parts(hidden=hidden, vocab=vocabulary(k), layers=made, other=hidden)


def divisible(value: float, divisor: int) -> int:
    """The multiple of `divisor` nearest to a value, at least nine tenths of it."""
    rounded = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded
