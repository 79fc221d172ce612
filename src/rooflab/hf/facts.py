"""What one model type fixes in code: the record that `families` fills, one row a type."""

from __future__ import annotations

import msgspec

Switch = bool | str
"""A fact, or the name of the config key that decides it."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one model type; the defaults describe a Llama."""

    norm: str = "rms"
    """rms | layer (with bias) | layer_no_bias | none (no parameters)."""
    norms: int = 2
    """Norms of one layer over the hidden size."""
    final_norm: bool = True
    embedding_norm: bool = False
    qkv_bias: Switch = False
    out_bias: Switch = False
    ffn_bias: Switch = False
    head_bias: Switch = False
    qk_norm: str = ""
    """head (one weight a channel of a head) | head_layer (with bias) | width (over all heads) | "" for none."""
    rope_norm: bool = False
    """A norm over the rotary key of latent attention."""
    qk_norm_key: str = ""
    """Key that switches the query/key norm on; empty when it is always there."""
    gated: bool = True
    gate: Switch = False
    """Output gate of attention as wide as the queries."""
    head_gate: Switch = False
    """Output gate of attention with one value a head."""
    head_gate_wide: str = ""
    """Key that makes that gate as wide as the queries where it is neither true nor "per-head"."""
    sinks: Switch = False
    parallel: Switch = False
    tied: bool = False
    """Tying where neither the file nor the class says."""
    window: str = "key"
    """Which layers are windowed when no list of layer kinds says: key (all, if the window key is set) | none |
    qwen (above max_window_layers, if use_sliding_window) | even | pattern (all but every n-th)."""
    kinds: str = ""
    """Kinds of layers, over and over, where the file lists none."""
    positions: str = ""
    """Key with the number of learned positions."""
    positions_offset: int = 0
    expert_width: tuple[str, ...] = ("moe_intermediate_size",)
    router_bias: Switch = False
    expert_bias: Switch = False
    router_parameters: int = 0
    """Correction biases per expert that are parameters and not buffers."""
    shared_gate: bool = False
    """A gate of one column over the shared expert."""
    mtp: str = ""
    """copies: the module repeats embedding and head; copies_biases: the published count adds its router's correction
    biases; plain: it repeats neither; "" when the checkpoint has none."""
    mtp_layers: int = 0
    """Modules where no key counts them."""
    ffn_ratio: int = 0
    """Feed-forward over hidden size where the file gives no width."""
    fused_width: bool = False
    """True where the width in the file counts gate and up together."""
    ffn_norm: bool = False
    """A norm over the feed-forward's width."""
    sparse_norm: bool = False
    """One more norm in layers with experts."""
    layer_other: int = 0
    """Single parameters of a layer that fit nowhere else."""
    gate_bias: bool = False
    """The output gate has the queries' bias."""
    down_bias: bool = False
    """A bias on the way down alone."""
    build: str = ""
    """Builder of the layers where they are not one mixer and one feed-forward."""
    mixer_path: str = "self_attn"
    """Where modules lie inside a layer of a checkpoint, for the patterns of quantisation sections."""
    linear_path: str = "linear_attn"
    ffn_path: str = "mlp"
    expert_path: str = "mlp.experts"
    shared_path: str = "shared_experts"
    defaults: dict[str, int | bool | str] = {}
    """Defaults of remote configuration classes."""
