"""One device's share of a step: tokens, heads and ranks after the layout has cut the model."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num
from rooflab.model import Attention, Block, Model
from rooflab.work import Layout, Precision, Step, size_of

Number = Any


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers every counting function shares; all per device of one replica."""

    model: Model
    precision: Precision
    layout: Layout
    step: Step
    prefill_sequences: Number
    """Prefill sequences of one attention group."""
    prefill_tokens: Number
    """New tokens per prefill sequence on this device (a cp-th of the prompt)."""
    decode_sequences: Number
    decode_tokens_local: Number
    """Cached tokens of a decode sequence on this device (a cp-th of the context)."""
    tokens: Number
    """Rows of every projection: new tokens on this device."""
    rows: Number
    """Rows of the output head: sequences that produce a token."""

    def weight_size(self, tensor: str) -> float:
        """Bytes per weight of a tensor class of `Precision`."""
        return self.precision.weight_size(getattr(self.precision, tensor))

    @property
    def activation_size(self) -> float:
        return size_of(self.precision.activation)

    @property
    def kv_size(self) -> float:
        return size_of(self.precision.kv)

    @property
    def index_size(self) -> float:
        """Bytes per element of index keys: in fp8 one fp32 scale for every 128."""
        return self.kv_size + (size_of("fp32") / 128.0 if self.precision.kv.startswith("fp8") else 0.0)

    @property
    def state_size(self) -> float:
        return size_of(self.precision.state)

    def kv_heads(self, mixer: Attention) -> Number:
        """KV heads one tensor-parallel rank holds: an even share, or whole heads when there are more ranks than heads."""
        share = mixer.kv_heads / self.layout.tp
        if self.layout.kv_shard == "split":
            return share
        return num.maximum(num.ceil(share), 1.0)

    def split_ranks(self, mixer: Attention) -> Number:
        """Ranks that share one KV head in split mode; 1 where heads are whole."""
        if self.layout.kv_shard != "split":
            return 1
        return num.maximum(self.layout.tp / mixer.kv_heads, 1.0)

    def ffn_ranks(self) -> Number:
        """Ranks a dense feed-forward is split over."""
        scope = self.layout.ffn_scope
        ranks = self.layout.tp
        if scope in ("tp_cp", "tp_cp_dp"):
            ranks = ranks * self.layout.cp
        if scope == "tp_cp_dp":
            ranks = ranks * self.layout.dp
        return ranks

    def ffn_tokens(self) -> Number:
        """Tokens a dense feed-forward sees: ranks that share it beyond tp bring theirs.

        Decode ranks of cp hold the same token, so they add none.
        """
        scope = self.layout.ffn_scope
        prefill = self.prefill_sequences * self.prefill_tokens
        decode = self.decode_sequences
        if scope in ("tp_cp", "tp_cp_dp"):
            prefill = prefill * self.layout.cp
        if scope == "tp_cp_dp":
            prefill, decode = prefill * self.layout.dp, decode * self.layout.dp
        return prefill + decode

    def expert_ranks(self) -> tuple[Number, Number]:
        """(ranks an expert's width is split over, ranks the experts are spread over)."""
        if self.layout.ep_mode == "dedicated":
            return self.ffn_ranks(), self.layout.ep
        return self.ffn_ranks() * self.layout.attention_dp / self.layout.ep, self.layout.ep


def kept(block: Block) -> int:
    """Sets of weights kept for a block's layers: one each, or fewer where layers share them."""
    return block.count if block.stored is None else block.stored


def cache_width(mixer: Attention) -> int:
    """Cache elements of one KV head and token: key and value, or one vector that is both."""
    return mixer.head_dim + (0 if mixer.one_cache else mixer.value_dim)


def local_tokens(tokens: Number, cp: Number) -> Number:
    """Cached tokens one of `cp` ranks holds: an even share, rounded up.

    On one rank nothing is rounded, so that a mean context, which need not be whole, counts as it is.
    """
    if isinstance(cp, int) and cp == 1:
        return tokens
    return num.where(cp > 1, num.ceil_div(tokens, cp), tokens)


def cut(model: Model, precision: Precision, layout: Layout, step: Step) -> Cut:
    """Share a step over the ranks of a replica.

    Attention groups take ⌈sequences / attention_dp⌉; context-parallel ranks take ⌈tokens / cp⌉ of each prompt and of
    each cache. The busiest rank is described.
    """
    prefill_sequences = num.ceil_div(step.prefill_sequences, layout.attention_dp) if step.has_prefill else 0
    prefill_tokens = num.ceil_div(step.prefill_tokens, layout.cp) if step.has_prefill else 0
    decode_sequences = num.ceil_div(step.decode_sequences, layout.attention_dp) if step.has_decode else 0
    return Cut(
        model=model,
        precision=precision,
        layout=layout,
        step=step,
        prefill_sequences=prefill_sequences,
        prefill_tokens=prefill_tokens,
        decode_sequences=decode_sequences,
        decode_tokens_local=local_tokens(step.decode_context, layout.cp) if step.has_decode else 0,
        tokens=prefill_sequences * prefill_tokens + decode_sequences,
        rows=prefill_sequences + decode_sequences,
    )
