"""Feed-forwards from keys: which layers are dense or experts, and how wide."""

from __future__ import annotations

from rooflab.hf.attention import switch
from rooflab.hf.facts import Facts
from rooflab.hf.keys import Keys
from rooflab.model import Dense, FeedForward, MoE
from rooflab.units import InputError

WIDTH = (
    "intermediate_size",
    "n_inner",
    "ffn_dim",
    "ffn_hidden_size",
    "ff_intermediate_size",
    "mlp_hidden_size",
    "dim_ff",
    "dff",
    "d_ff",
)
EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "num_routed_experts", "n_experts")
TOPK = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_top_k",
    "moe_topk",
    "top_k_experts",
    "moe_k",
    "experts_per_token",
    "num_selected_experts",
    "top_k",
)
DENSE_WIDTH = ("dense_intermediate_size", "intermediate_size_mlp")
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "shared_experts_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)


def dense(k: Keys, facts: Facts, hidden: int, width: int) -> Dense:
    """One dense network with the biases the family has."""
    other = ((2 if facts.gated else 1) * width + hidden) if switch(k, facts.ffn_bias) else 0
    other += hidden if facts.down_bias else 0
    other += width if facts.ffn_norm else 0
    return Dense(width=width, gated=facts.gated, other_params=other)


def dense_width(k: Keys, hidden: int, facts: Facts) -> int:
    """Width of a dense layer."""
    if k.has(*DENSE_WIDTH):
        return k.count(*DENSE_WIDTH)
    if k.has("expansion_ratio"):
        return int(k.number("expansion_ratio", 4.0, 0.01, 64.0) * hidden)
    width = k.count(*WIDTH, default=facts.ffn_ratio * hidden) if facts.ffn_ratio else k.count(*WIDTH)
    return width // 2 if facts.fused_width else width


def experts_of(k: Keys) -> int:
    """Routed experts, 0 in a dense model."""
    return k.count(*EXPERTS, limit="experts", default=0, low=0)


def check_choice(k: Keys, topk: int, experts: int) -> None:
    """Refuse a token that would pass more experts than there are."""
    if topk > experts:
        raise InputError(f"{k.name('num_experts_per_tok')} = {topk} exceeds the {experts} experts; correct the config")


def moe(k: Keys, facts: Facts, hidden: int) -> MoE:
    """Routed experts with their shared part."""
    experts = k.count(*EXPERTS, limit="experts")
    topk = k.count(*TOPK, limit="experts")
    check_choice(k, topk, experts)
    width = k.count(*facts.expert_width)
    shared = shared_width(k, width)
    router = experts if switch(k, facts.router_bias) else 0
    other = hidden if facts.shared_gate and shared else 0
    if shared and switch(k, facts.ffn_bias):
        other += (2 if facts.gated else 1) * shared + hidden
    return MoE(
        experts=experts,
        topk=topk,
        width=width,
        gated=facts.gated,
        shared_width=shared,
        shared_gated=facts.gated,
        expert_other_params=((2 if facts.gated else 1) * width + hidden) if switch(k, facts.expert_bias) else 0,
        router_other_params=router + facts.router_parameters * experts,
        other_params=other,
    )


def shared_width(k: Keys, expert_width: int) -> int:
    """Summed width of the shared experts."""
    count = k.count(*SHARED_COUNT, limit="experts", default=0, low=0)
    width = k.count(*SHARED_WIDTH, default=0, low=0)
    if (k.has(*SHARED_COUNT) and not count) or (k.has(*SHARED_WIDTH) and not width):
        return 0
    return max(count, 1) * width if width else count * expert_width


def sparse_layers(k: Keys, layers: int) -> list[bool]:
    """For every layer whether it has routed experts, from whichever keys the config uses to say so."""
    if not experts_of(k):
        return [False] * layers
    kinds = k.per_layer(layers, "mlp_layer_types")
    if kinds:
        return [kind not in ("dense", "mlp") for kind in kinds]
    if isinstance(k.data.get("moe_layers_enum"), list):
        on = {x for x in k.list("moe_layers_enum") if isinstance(x, int)}
        return [i in on for i in range(layers)]
    if k.has("moe_layers_enum"):
        return listed(k, layers)
    if isinstance(k.data.get("moe_layer_freq"), list) and k.data["moe_layer_freq"]:
        return [bool(x) for x in k.per_layer(layers, "moe_layer_freq")]
    first = k.count(
        "first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped", limit="layers", default=0, low=0
    )
    step = k.count("decoder_sparse_step", "moe_layer_freq", "moe_layer_interval", limit="layers", default=1, low=0)
    offset = 1 if k.has("decoder_sparse_step", "moe_layer_interval") else 0
    if k.has("interleave_moe_layer_step"):
        step, offset = k.count("interleave_moe_layer_step", limit="layers", low=0), 1
    if k.has("expert_layer_period"):
        step = k.count("expert_layer_period", limit="layers")
        offset = -k.count("expert_layer_offset", limit="layers", default=0, low=0)
    start = k.count("moe_layer_start_index", limit="layers", default=0, low=0)
    end = (
        k.count("moe_layer_end_index", limit="layers", default=layers - 1, low=-1)
        if k.has("moe_layer_end_index")
        else -1
    )
    end = layers - 1 if end < 0 else end
    only_dense = {i for i in k.list("mlp_only_layers") if isinstance(i, int)}
    return [
        first <= i and start <= i <= end and i not in only_dense and step > 0 and (i + offset) % step == 0
        for i in range(layers)
    ]


def listed(k: Keys, layers: int) -> list[bool]:
    """Expert layers written as "4,5,6"."""
    words = k.text("moe_layers_enum").split(",")
    try:
        chosen = {int(word) for word in words if word.strip()}
    except ValueError as error:
        raise InputError(
            f"{k.name('moe_layers_enum')} must be layer numbers with commas; correct the config"
        ) from error
    return [i in chosen for i in range(layers)]


def feed_forward(k: Keys, facts: Facts, hidden: int, sparse: bool) -> FeedForward:
    """The feed-forward of one layer."""
    return moe(k, facts, hidden) if sparse else dense(k, facts, hidden, dense_width(k, hidden, facts))
