"""What is computed: a model as a composition of a few closed types, with exact parameter and cache counts.

A `Model` is a tuple of `Block`s; a block is `count` equal layers of one token mixer and one feed-forward. Nothing here or
after it knows an architecture by name: `hf.py` translates a `config.json` into these types once, at the border.
Counts are integers (parameters, elements) or floats (bytes); `context` may be a number or a NumPy array.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num

Number = Any
"""A float, an int or a NumPy array: every formula takes either (see `num`)."""


class Indexer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sparse-attention selector that scores every cached token and keeps `topk` of them for the main attention."""

    heads: int
    head_dim: int
    topk: int
    query_width: int
    """Width of the vector its query projection reads (the query latent, or the hidden size)."""
    owns_keys: bool = True
    """False where the layer reuses another layer's selection and so caches no index keys and has no weights."""
    weighted: bool = True
    """True where a projection of the hidden vector weighs the heads' scores."""
    other_params: int = 0
    """Norms and biases beside the projections."""

    def matmul_params(self, hidden: int) -> int:
        """Weights multiplied per token: query, key and head-weight projections."""
        if not self.owns_keys:
            return 0
        return self.query_width * self.heads * self.head_dim + hidden * (
            self.head_dim + (self.heads if self.weighted else 0)
        )

    def params(self, hidden: int) -> int:
        return self.matmul_params(hidden) + (self.other_params if self.owns_keys else 0)


class Attention(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="attention", tag_field="kind"
):
    """Softmax attention with separate keys and values: MHA, GQA or MQA, full or windowed, self or cross."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int = 0
    """Keys a query can see at most; 0 is unlimited. Chunked attention counts as its chunk."""
    gate: bool = False
    """True where the query projection is doubled to gate the output."""
    query_rank: int = 0
    """Width of a low-rank query path, 0 for a direct projection."""
    input_width: int = 0
    """Width the projections read, 0 for the hidden size."""
    shares_kv: bool = False
    """True where the layer reads another layer's cache: no K/V projections and no cache of its own."""
    keys_are_values: bool = False
    """True where one projection serves as both keys and values (both are still cached)."""
    one_cache: bool = False
    """True where the cache also holds them once."""
    compression: int = 0
    """Tokens that one cached entry stands for beside the window's own; 0 where nothing is compressed."""
    output_rank: int = 0
    """Width per group of a low-rank output path, 0 for a direct projection."""
    output_groups: int = 1
    cross: bool = False
    """True for cross-attention: its cache holds encoder tokens and does not grow with the text."""
    indexer: Indexer | None = None
    state: int = 0
    """Constant elements one sequence keeps beside the cache: the last inputs of short convolutions."""
    other_params: int = 0
    """Biases, query/key norms, sinks: everything that is not one of the projections."""

    def query_params(self, hidden: int) -> int:
        out = self.heads * self.head_dim * (2 if self.gate else 1)
        width = self.input_width or hidden
        return (width * self.query_rank + self.query_rank * out) if self.query_rank else width * out

    def kv_params(self, hidden: int) -> int:
        if self.shares_kv:
            return 0
        values = 0 if self.keys_are_values else self.value_dim
        return (self.input_width or hidden) * self.kv_heads * (self.head_dim + values)

    def output_params(self, hidden: int) -> int:
        if self.output_rank:
            return self.heads * self.value_dim * self.output_rank + self.output_groups * self.output_rank * hidden
        return self.heads * self.value_dim * hidden

    def matmul_params(self, hidden: int) -> int:
        index = self.indexer.matmul_params(hidden) if self.indexer else 0
        return self.query_params(hidden) + self.kv_params(hidden) + self.output_params(hidden) + index

    def params(self, hidden: int) -> int:
        index = self.indexer.params(hidden) if self.indexer else 0
        projections = self.query_params(hidden) + self.kv_params(hidden) + self.output_params(hidden)
        return projections + index + self.other_params

    def kv_elements(self) -> int:
        """Cache elements one more token needs while the window is not full (index keys apart)."""
        if self.shares_kv or self.cross:
            return 0
        return self.kv_heads * (self.head_dim + (0 if self.one_cache else self.value_dim))

    def index_elements(self) -> int:
        return self.indexer.head_dim if self.indexer and self.indexer.owns_keys and not self.shares_kv else 0

    def state_elements(self) -> int:
        return self.state


class LatentAttention(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="latent_attention", tag_field="kind"
):
    """Multi-head latent attention: one compressed vector and one rotary key per token, shared by all heads."""

    heads: int
    query_rank: int
    """Width of the query latent, 0 for a direct projection."""
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    window: int = 0
    gate: bool = False
    indexer: Indexer | None = None
    other_params: int = 0

    def query_params(self, hidden: int) -> int:
        out = self.heads * (self.nope_dim + self.rope_dim)
        return (hidden * self.query_rank + self.query_rank * out) if self.query_rank else hidden * out

    def down_params(self, hidden: int) -> int:
        return hidden * (self.kv_rank + self.rope_dim)

    def up_params(self) -> int:
        """The up-projection of the latent; decode absorbs it into the query and the output."""
        return self.kv_rank * self.heads * (self.nope_dim + self.value_dim)

    def output_params(self, hidden: int) -> int:
        return self.heads * self.value_dim * hidden * (2 if self.gate else 1)

    def matmul_params(self, hidden: int) -> int:
        index = self.indexer.matmul_params(hidden) if self.indexer else 0
        return (
            self.query_params(hidden) + self.down_params(hidden) + self.up_params() + self.output_params(hidden) + index
        )

    def params(self, hidden: int) -> int:
        extra = self.indexer.params(hidden) - self.indexer.matmul_params(hidden) if self.indexer else 0
        return self.matmul_params(hidden) + extra + self.other_params

    def kv_elements(self) -> int:
        return self.kv_rank + self.rope_dim

    def index_elements(self) -> int:
        return self.indexer.head_dim if self.indexer and self.indexer.owns_keys else 0

    def state_elements(self) -> int:
        return 0


class Recurrent(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="recurrent", tag_field="kind"
):
    """A linear-time mixer with a constant state: state-space, gated delta net, linear attention, short convolution.

    All share four pieces: projections in, a short causal convolution, a recurrence over `heads` states of
    `key_dim` × `value_dim`, and a projection out.
    """

    form: str
    """mamba | mamba2 | gated_delta_net | kda | lightning | linear | short_conv | rg_lru | rwkv: a name for people."""
    heads: int
    key_dim: int
    value_dim: int
    in_width: int
    """Columns of all projections that read the hidden vector."""
    out_width: int
    """Rows of the projection back to the hidden size."""
    inner_params: int = 0
    """Weights of matrix products between in and out (low-rank gates, dt and B/C projections)."""
    conv_channels: int = 0
    conv_kernel: int = 0
    state_flop: float = 5.0
    """FLOP per state element and token of the recurrence (decay, rank-one update, read-out)."""
    chunk: int = 64
    """Tokens handled at once by the chunked prefill form."""
    state: int = 0
    """Constant elements one sequence keeps for parts beside the recurrence."""
    other_params: int = 0

    def matmul_params(self, hidden: int) -> int:
        return hidden * self.in_width + self.out_width * hidden + self.inner_params

    def params(self, hidden: int) -> int:
        return self.matmul_params(hidden) + self.other_params

    def kv_elements(self) -> int:
        return 0

    def index_elements(self) -> int:
        return 0

    def state_elements(self) -> int:
        """Constant elements one sequence keeps: the recurrent state and the convolution's last inputs."""
        return self.heads * self.key_dim * self.value_dim + self.conv_channels * self.conv_kernel + self.state


class Dense(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="dense", tag_field="kind"):
    """A feed-forward network every token passes: up (and gate), activation, down."""

    width: int
    gated: bool = True
    other_params: int = 0

    def matrices(self) -> int:
        return 3 if self.gated else 2

    def matmul_params(self, hidden: int) -> int:
        return self.matrices() * hidden * self.width

    def params(self, hidden: int) -> int:
        return self.matmul_params(hidden) + self.other_params

    def active_params(self, hidden: int) -> int:
        return self.params(hidden)


class MoE(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="moe", tag_field="kind"):
    """Routed experts, `topk` per token, with an optional always-on part (shared experts or a parallel dense network)."""

    experts: int
    topk: int
    width: int
    gated: bool = True
    shared_width: int = 0
    """Summed width of everything every token passes beside the routed experts."""
    shared_gated: bool = True
    latent: int = 0
    """Width the experts read and write where it is not the hidden size (then two projections lead in and out)."""
    expert_other_params: int = 0
    """Biases of one expert."""
    router_other_params: int = 0
    """Router biases and scales that are parameters."""
    other_params: int = 0
    """Shared-expert gates and norms."""

    def expert_params(self, hidden: int) -> int:
        return (3 if self.gated else 2) * (self.latent or hidden) * self.width + self.expert_other_params

    def shared_params(self, hidden: int) -> int:
        return (3 if self.shared_gated else 2) * hidden * self.shared_width

    def router_params(self, hidden: int) -> int:
        return hidden * self.experts + self.router_other_params

    def latent_params(self, hidden: int) -> int:
        return 2 * hidden * self.latent

    def always_params(self, hidden: int) -> int:
        always = self.shared_params(hidden) + self.router_params(hidden) + self.latent_params(hidden)
        return always + self.other_params

    def params(self, hidden: int) -> int:
        return self.experts * self.expert_params(hidden) + self.always_params(hidden)

    def active_params(self, hidden: int) -> int:
        return self.topk * self.expert_params(hidden) + self.always_params(hidden)


Mixer = Attention | LatentAttention | Recurrent
FeedForward = Dense | MoE


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`count` equal layers, not necessarily adjacent."""

    count: int
    mixer: Mixer | None
    ffn: FeedForward | None
    norm_params: int = 0
    """Layer norms of one layer."""
    parallel: bool = False
    """True where mixer and feed-forward read the same input and their outputs are added (one all-reduce)."""
    extra_matmul_params: int = 0
    """Further weights of one layer that every token multiplies (per-layer embedding gates and the like)."""
    other_params: int = 0
    """Further parameters of one layer that no matrix product uses."""
    half: bool = False
    """True where these are second halves of layers that another block counts (two mixers side by side, say)."""
    stored: int | None = None
    """Sets of weights kept for the `count` layers where layers share them; None is one each."""

    def _params(self, hidden: int, active: bool) -> int:
        total = self.norm_params + self.extra_matmul_params + self.other_params
        if self.mixer is not None:
            total += self.mixer.params(hidden)
        if self.ffn is not None:
            total += self.ffn.active_params(hidden) if active else self.ffn.params(hidden)
        return (self.count if self.stored is None else self.stored) * total

    def params(self, hidden: int) -> int:
        """Parameters of all `count` layers."""
        return self._params(hidden, active=False)

    def active_params(self, hidden: int) -> int:
        """Parameters one token touches in all `count` layers."""
        return self._params(hidden, active=True)


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decoder language model: embedding, blocks, head. Text only; towers and MTP are counted beside it."""

    name: str
    hidden: int
    vocab: int
    blocks: tuple[Block, ...]
    tied: bool = False
    max_context: int = 0
    """Longest context the config allows, 0 when it does not say."""
    embedding_width: int = 0
    """Width of the embedding table where it is not the hidden size."""
    head_params: int | None = None
    """Parameters of the output head; None means vocab × hidden, or none of its own when tied."""
    other_params: int = 0
    """Final norm, position tables, projections around the embedding, head bias."""
    lookup_params: int = 0
    """Tables read one row per token beside the token embedding (per-layer embeddings): resident, hardly ever moved."""
    mtp_params: int | None = None
    """Multi-token-prediction modules, not part of `params`; None when there are none."""
    vision_params: int | None = None
    """Vision or audio towers and projectors, not part of `params`; None when absent or not determined (see notes)."""
    dtype: str = "bf16"
    """Number format of the weights that are not quantised."""
    quantization: dict[str, str] = {}
    """Tensor class → number format, from the config's quantisation section (see `work.Precision`)."""
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """Decoder layers, all blocks together."""
        return sum(block.count for block in self.blocks if not block.half)  # int

    def embedding_params(self) -> int:
        """The token table, stored once: a tied head adds nothing."""
        return self.vocab * (self.embedding_width or self.hidden)

    def output_params(self) -> int:
        """Parameters the head adds to the token table (0 when tied)."""
        if self.head_params is not None:
            return self.head_params
        return 0 if self.tied else self.vocab * self.hidden

    def params(self) -> int:
        """All parameters of the text model, tied weights once, without MTP modules and towers.

        Source: the reference implementations' own counts (refs.toml `truth`).
        """
        outside = self.embedding_params() + self.output_params() + self.other_params + self.lookup_params
        return outside + sum(block.params(self.hidden) for block in self.blocks)  # int

    def active_params(self) -> int:
        """Parameters one token touches: routed experts count `topk` times, everything else once; embeddings included."""
        outside = self.embedding_params() + self.output_params() + self.other_params + self.lookup_params
        return outside + sum(block.active_params(self.hidden) for block in self.blocks)  # int

    def active_params_without_embedding(self) -> int:
        """Active parameters without the tables read by row; a tied table stays, because the head multiplies by it."""
        return self.active_params() - self.lookup_params - (0 if self.tied else self.embedding_params())

    def kv_elements(self, context: Number) -> Number:
        """Cache elements one sequence of `context` tokens needs (index keys apart): the architecture's minimum."""
        total: Number = 0.0
        for block in self.blocks:
            if block.mixer is not None:
                window = getattr(block.mixer, "window", 0)
                compression = getattr(block.mixer, "compression", 0)
                tokens = num.minimum(context, float(window)) if window else context
                if compression:
                    tokens = tokens + num.floor(context / float(compression))
                total = total + float(block.count * block.mixer.kv_elements()) * tokens
        return total

    def index_elements(self, context: Number) -> Number:
        """Index-key elements one sequence of `context` tokens needs for sparse attention."""
        total: Number = 0.0
        for block in self.blocks:
            if block.mixer is not None and block.mixer.index_elements():
                compression = getattr(block.mixer, "compression", 0)
                keys = num.floor(context / float(compression)) if compression else context
                total = total + float(block.count * block.mixer.index_elements()) * keys
        return total

    def index_layers(self) -> int:
        """Layers that cache index keys."""
        return sum(b.count for b in self.blocks if b.mixer is not None and b.mixer.index_elements())  # int

    def state_elements(self) -> int:
        """Constant state elements one sequence keeps, whatever its length."""
        return sum(b.count * b.mixer.state_elements() for b in self.blocks if b.mixer is not None)  # int
