"""Linear-time mixers from keys: state-space (Mamba 1 and 2), gated delta nets, lightning attention, short convolution."""

from __future__ import annotations

from rooflab.hf.attention import HEADS, head_dim_of
from rooflab.hf.keys import Keys
from rooflab.model import Recurrent
from rooflab.units import InputError

LOW_RANK_GATES = ("kimi_linear", "glm5_next", "glm5_next_text")
"""Model types whose delta attention has low-rank gates though no section of the config says so."""


def recurrent(k: Keys, hidden: int) -> Recurrent:
    """The linear mixer a config describes, recognised by the keys only that mixer has."""
    if k.has("linear_attn_config") or k.find("linear_head_dim")[1]:
        return kda(k, hidden)
    if k.has("no_kda_lora", "kda_safe_gate", "kda_lower_bound"):  # as many and as wide heads as the attention has
        heads = k.count(*HEADS, limit="heads")
        sizes = {"linear_num_heads": heads, "linear_head_dim": head_dim_of(k, hidden, heads)}
        return kda(Keys({**k.data, **sizes}, k.path, k.notes, k.nested, k.seen), hidden)
    if k.find("linear_num_value_heads")[1]:
        return gated_delta_net(k)
    if k.find("mamba_n_heads", "mamba_num_heads", "mamba_headdim", "mamba_head_dim")[1]:
        return mamba2(k, hidden)
    if k.find("num_heads")[1] and k.find("n_groups")[1]:
        return mamba2(k, hidden)
    if k.find("mamba_d_state", "state_size", "ssm_state_size")[1]:
        return mamba1(k, hidden)
    if k.find("conv_L_cache")[1]:
        return short_convolution(k, hidden)
    if k.find("lru_width")[1] or k.has("conv1d_width"):
        return rg_lru(k, hidden)
    if k.has("attn_type_list") or k.model_type.startswith("minimax"):
        return lightning(k, hidden)
    if k.has("layer_group_size"):
        return lightning(k, hidden, qk_norm=k.flag("use_qk_norm"))
    raise InputError(
        "the config has linear layers but none of the keys that describe them: linear_num_value_heads, linear_attn_config, "
        "mamba_d_state, mamba_num_heads, conv_L_cache or lru_width; add them or use the original config.json"
    )


def gated_delta_net(k: Keys) -> Recurrent:
    """Gated delta net: per value head a key × value state; queries, keys and values pass a short convolution."""
    value_heads = k.count("linear_num_value_heads", limit="heads")
    key_heads = k.count("linear_num_key_heads", limit="heads")
    key_dim = k.count("linear_key_head_dim", limit="head")
    value_dim = k.count("linear_value_head_dim", limit="head")
    kernel = k.count("linear_conv_kernel_dim", limit="small")
    values = value_heads * value_dim
    channels = 2 * key_heads * key_dim + values
    return Recurrent(
        form="gated_delta_net",
        heads=value_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        in_width=channels + values + 2 * value_heads,
        out_width=values,
        conv_channels=channels,
        conv_kernel=kernel,
        other_params=channels * kernel + 2 * value_heads + value_dim,
    )


def kda(k: Keys, hidden: int) -> Recurrent:
    """Kimi delta attention: a decay per channel; its gates are low-rank, or full where the config has no rank."""
    inner = k.section("linear_attn_config")
    if inner is None and k.model_type in LOW_RANK_GATES:
        heads, dim = k.count("linear_num_heads", limit="heads"), k.count("linear_head_dim", limit="head")
        kernel = k.count("linear_conv_kernel_dim", limit="small")
        gates, low_rank = 2 * dim, 2 * dim * heads * dim
    elif inner is not None:
        heads, dim = inner.count("num_heads", limit="heads"), inner.count("head_dim", limit="head")
        kernel = inner.count("short_conv_kernel_size", limit="small")
        gates, low_rank = 2 * dim, 2 * dim * heads * dim
    else:
        heads, dim = k.count("linear_num_heads", limit="heads"), k.count("linear_head_dim", limit="head")
        kernel = k.count("short_conv_kernel_size", "linear_conv_kernel_dim", limit="small")
        full = k.flag("no_kda_lora", default=True)
        gates, low_rank = (2 * heads * dim, 0) if full else (2 * dim, 2 * dim * heads * dim)
    width = heads * dim
    return Recurrent(
        form="kda",
        heads=heads,
        key_dim=dim,
        value_dim=dim,
        in_width=3 * width + gates + heads,
        out_width=width,
        inner_params=low_rank,
        conv_channels=3 * width,
        conv_kernel=kernel,
        state_flop=7.0,
        other_params=3 * width * kernel + heads + width + dim,
    )


def mamba1(k: Keys, hidden: int) -> Recurrent:
    """Selective state space of the first kind: one state vector per channel."""
    states = k.count("mamba_d_state", "state_size", "ssm_state_size", limit="head")
    kernel = k.count("mamba_d_conv", "conv_kernel", limit="small")
    inner = k.data.get("inner_size")
    inner = k.count("mamba_expand", "expand", limit="small", default=2) * hidden if inner is None else inner
    rank = k.find("mamba_dt_rank", "time_step_rank")[1]
    rank = -(-hidden // 16) if rank in (None, "auto") else k.whole("mamba_dt_rank", rank, "hidden")
    other = inner * states + 2 * inner + inner * kernel  # A, D and the dt bias, convolution
    other += inner if k.flag("mamba_conv_bias", "use_conv_bias", default=True) else 0
    if k.flag("mamba_proj_bias") or k.flag("use_bias"):
        other += 2 * inner + hidden
    return Recurrent(
        form="mamba",
        heads=inner,
        key_dim=states,
        value_dim=1,
        in_width=2 * inner,
        out_width=inner,
        inner_params=inner * (rank + 2 * states) + rank * inner,
        conv_channels=inner,
        conv_kernel=kernel,
        chunk=256,
        other_params=other + (rank + 2 * states if k.model_type == "jamba" else 0),
    )


def mamba2(k: Keys, hidden: int) -> Recurrent:
    """Selective state space of the second kind: heads of head_dim × state, scalar decay a head."""
    heads = k.count("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads", limit="heads")
    found = k.find("mamba_d_head", "mamba_head_dim", "mamba_headdim", "head_dim")[1]
    if found in (None, "auto"):
        dim = k.count("mamba_expand", "expand", limit="small", default=2) * hidden // heads
    else:
        dim = k.whole("mamba_d_head", found, "head")
    states = k.count("mamba_d_state", "ssm_state_size", "state_size", limit="head")
    groups = k.count("mamba_n_groups", "n_groups", "mamba_ngroups", limit="heads", default=1)
    kernel = k.count("mamba_d_conv", "conv_kernel", limit="small")
    inner = heads * dim
    channels = inner + 2 * groups * states
    in_width = inner + channels + heads
    other = 3 * heads + channels * kernel  # A, D and the dt bias; convolution
    other += inner if k.flag("mamba_rms_norm", default=True) else 0
    other += channels if k.flag("mamba_conv_bias", "use_conv_bias", default=True) else 0
    if k.flag("mamba_proj_bias") or k.flag("use_bias"):
        other += in_width + hidden
    return Recurrent(
        form="mamba2",
        heads=heads,
        key_dim=states,
        value_dim=dim,
        in_width=in_width,
        out_width=inner,
        conv_channels=channels,
        conv_kernel=kernel,
        chunk=k.count("mamba_chunk_size", "chunk_size", limit="width", default=256),
        other_params=other,
    )


def short_convolution(k: Keys, hidden: int) -> Recurrent:
    """A gated short convolution: no state but its last inputs."""
    kernel = k.count("conv_L_cache", limit="small")
    bias = k.flag("conv_bias")
    return Recurrent(
        form="short_conv",
        heads=0,
        key_dim=0,
        value_dim=0,
        in_width=3 * hidden,
        out_width=hidden,
        conv_channels=hidden,
        conv_kernel=kernel,
        other_params=hidden * kernel + (5 * hidden if bias else 0),
    )


def rg_lru(k: Keys, hidden: int) -> Recurrent:
    """Real-gated linear recurrent unit (Griffin): a diagonal state, block-diagonal gates."""
    width = k.count("lru_width", limit="hidden", default=hidden)
    heads = k.count(*HEADS, limit="heads")
    kernel = k.count("conv1d_width", limit="small")
    block = width // heads
    return Recurrent(
        form="rg_lru",
        heads=heads,
        key_dim=block,
        value_dim=1,
        in_width=2 * width,
        out_width=width,
        inner_params=2 * heads * block * block,
        conv_channels=width,
        conv_kernel=kernel,
        chunk=256,
        other_params=2 * width + hidden + width * kernel + width + width + 2 * heads * block,
    )


def lightning(k: Keys, hidden: int, qk_norm: bool = False) -> Recurrent:
    """Lightning attention: linear attention with a fixed decay a head and an output gate."""
    heads = k.count(*HEADS, limit="heads")
    dim = head_dim_of(k, hidden, heads)
    return Recurrent(
        form="lightning",
        heads=heads,
        key_dim=dim,
        value_dim=dim,
        in_width=4 * heads * dim,
        out_width=heads * dim,
        state_flop=5.0,
        chunk=256,
        other_params=heads * dim + (2 * dim if qk_norm else 0),
    )
