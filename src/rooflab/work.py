"""How the work is cut and what one step is: number formats, layout, step, and the operator they meet in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Number = Any


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A number format as stored: bytes per element with its scales, and the rate its matrix products run at."""

    size: float
    """Bytes per element, block scales included."""
    rate: str
    """Key of the device's FLOP rate its products run at."""
    plain: float = 0.0
    """Bytes per element without scales; 0 means the same as `size`."""
    note: str = ""


FORMATS: dict[str, Format] = {
    "fp32": Format(size=4.0, rate="fp32"),
    "bf16": Format(size=2.0, rate="bf16"),
    "fp16": Format(size=2.0, rate="fp16"),
    "fp8": Format(size=1.0, rate="fp8", note="one scale per tensor or row, not counted"),
    "fp8_block": Format(size=1.0 + 4.0 / (128.0 * 128.0), rate="fp8", plain=1.0, note="fp32 scale per 128×128 block"),
    "mxfp8": Format(size=1.0 + 1.0 / 32.0, rate="fp8", plain=1.0, note="8-bit scale per 32 elements"),
    "int8": Format(size=1.0, rate="int8", note="one scale per row, not counted"),
    "int8_weight": Format(size=1.0, rate="bf16", note="weight-only: products run in bf16"),
    "fp8_weight": Format(size=1.0, rate="bf16", note="weight-only: products run in bf16"),
    "int4": Format(
        size=0.5 + 2.5 / 128.0, rate="bf16", plain=0.5, note="weight-only, fp16 scale and 4-bit zero per 128"
    ),
    "int4_g32": Format(size=0.5 + 2.0 / 32.0, rate="bf16", plain=0.5, note="weight-only, bf16 scale per 32"),
    "int3": Format(size=0.375 + 2.5 / 128.0, rate="bf16", plain=0.375, note="weight-only, scale and zero per 128"),
    "int2": Format(size=0.25 + 2.5 / 128.0, rate="bf16", plain=0.25, note="weight-only, scale and zero per 128"),
    "nvfp4": Format(size=0.5 + 1.0 / 16.0, rate="fp4", plain=0.5, note="fp8 scale per 16 elements"),
    "mxfp4": Format(size=0.5 + 1.0 / 32.0, rate="fp4", plain=0.5, note="8-bit scale per 32 elements"),
    "q8_0": Format(size=34.0 / 32.0, rate="bf16", plain=1.0, note="GGUF: fp16 scale per 32"),
    "q6_k": Format(size=210.0 / 256.0, rate="bf16", plain=0.75, note="GGUF super-block of 256"),
    "q5_k": Format(size=176.0 / 256.0, rate="bf16", plain=0.625, note="GGUF super-block of 256"),
    "q4_k": Format(size=144.0 / 256.0, rate="bf16", plain=0.5, note="GGUF super-block of 256"),
    "q4_0": Format(size=18.0 / 32.0, rate="bf16", plain=0.5, note="GGUF: fp16 scale per 32"),
    "q3_k": Format(size=110.0 / 256.0, rate="bf16", plain=0.375, note="GGUF super-block of 256"),
    "q2_k": Format(size=84.0 / 256.0, rate="bf16", plain=0.25, note="GGUF super-block of 256"),
}
"""Every number format by name. A file that mixes formats (Q4_K_M, say) is set per tensor class in `Precision`."""


def size_of(name: str) -> float:
    """Bytes per element of a format, scales included."""
    return FORMATS[name].size


class Precision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number format of each class of tensor. Norms, router and biases always follow `activation`."""

    attention: str = "bf16"
    """Weights of attention and recurrent projections."""
    ffn: str = "bf16"
    """Weights of dense and shared feed-forwards."""
    expert: str = "bf16"
    """Weights of routed experts."""
    embedding: str = "bf16"
    head: str = "bf16"
    kv: str = "bf16"
    """KV cache, index keys included."""
    state: str = "bf16"
    """Recurrent state."""
    activation: str = "bf16"
    metadata: float = 0.0
    """Extra share of the weight bytes of formats under two bytes (0.05 for 5 %); then block scales are not counted."""

    def weight_size(self, name: str) -> float:
        """Bytes per weight of a format under this precision's convention for scales."""
        form = FORMATS[name]
        if self.metadata and form.size < FORMATS["bf16"].size:
            return (form.plain or form.size) * (1.0 + self.metadata)
        return form.size


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one model is cut over devices. Degrees may be arrays; the named choices are fixed for a whole call."""

    tp: Number = 1
    """Tensor parallelism: heads and feed-forward width."""
    pp: Number = 1
    """Pipeline parallelism: layers."""
    cp: Number = 1
    """Context parallelism: positions of the cache, and prompt tokens in prefill."""
    dp: Number = 1
    """Independent replicas."""
    ep: Number = 1
    """Expert parallelism: routed experts."""
    attention_dp: Number = 1
    """Groups inside a replica that run attention on different sequences and share the experts."""
    ep_mode: str = "overlay"
    """overlay: experts spread over the tp × attention_dp devices; dedicated: ep multiplies the devices."""
    kv_shard: str = "replicate"
    """replicate | split: what happens to KV heads when tp exceeds them."""
    ffn_scope: str = "tp"
    """tp | tp_cp | tp_cp_dp: the ranks a feed-forward is split over."""
    ring: str = "kv"
    """kv | qoml: what travels in the context-parallel ring during prefill."""
    tp_placement: str = "inner"
    """inner: ranks fill the innermost level of the system; outer: each rank sits in a unit of the next level."""
    cp_placement: str = "inner"
    microbatches: Number = 1
    """Pieces a batch is cut into for the pipeline."""

    def replica_devices(self) -> Number:
        """Devices of one replica."""
        dedicated = self.ep if self.ep_mode == "dedicated" else 1
        return self.tp * self.pp * self.cp * self.attention_dp * dedicated

    def devices(self) -> Number:
        """Devices of all replicas."""
        return self.replica_devices() * self.dp


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One forward pass of one replica: a prefill part, a decode part, or both. Counts may be arrays."""

    prefill_sequences: Number = 0
    prefill_tokens: Number = 0
    """New prompt tokens of each prefill sequence."""
    prefill_context: Number = 0
    """Tokens of each prefill sequence already cached."""
    decode_sequences: Number = 0
    decode_context: Number = 0
    """Cached tokens a decode sequence attends to, the new one included."""

    @property
    def has_prefill(self) -> bool:
        return not (isinstance(self.prefill_sequences, int) and self.prefill_sequences == 0)

    @property
    def has_decode(self) -> bool:
        return not (isinstance(self.decode_sequences, int) and self.decode_sequences == 0)


class Reason(msgspec.Struct, frozen=True):
    """Where a quantity came from: the formula function and the arguments it was called with."""

    quantity: str
    formula: Callable[..., Number]
    arguments: tuple[Number, ...]


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One operator of a step, on one device, once; it runs `count` times. All work is exact, none of it is time."""

    name: str
    kind: str
    """gemm | grouped_gemm | attention | latent_attention | recurrence | elementwise | embedding | collective."""
    part: str
    """attention projections | attention | ffn | experts | router | elementwise | head | embedding | collective."""
    stage: str = ""
    """Name of the group it belongs to when a profile prices coarser than operators."""
    count: Number = 1
    dtype: str = "bf16"
    """Format whose matrix rate applies; "vector" for work outside the matrix units."""
    m: Number = 0
    n: Number = 0
    k: Number = 0
    groups: Number = 1
    """Separate matrix products of m × n × k (experts touched, heads)."""
    flop: Number = 0.0
    weight_bytes: Number = 0.0
    activation_bytes: Number = 0.0
    kv_bytes: Number = 0.0
    resident_bytes: Number = 0.0
    """Weights this operator keeps in memory, read or not."""
    collective: str = ""
    """all_reduce | all_gather | reduce_scatter | all_to_all | send | ring; empty for local work."""
    message_bytes: Number = 0.0
    """Payload per device of a collective."""
    peers: Number = 1
    axis: str = ""
    """Axis of the layout whose ranks talk: tp | cp | ep | ffn | pp | split | attention_dp."""
    hides_under: tuple[str, ...] = ()
    """Stages this communication can overlap."""
    format: str = ""
    """Stored format of what it mainly reads from memory: weights of a product, entries of a cache, a state."""
    shape: dict[str, Number] = {}
    """Numbers a kernel's price depends on beyond m, n, k and groups: sequences, heads, context, experts' loads, …"""
    why: tuple[Reason, ...] = ()

    def bytes(self) -> Number:
        """All bytes one execution moves to or from memory."""
        moved = self.weight_bytes + self.activation_bytes
        return moved if isinstance(self.kv_bytes, float) and not self.kv_bytes else moved + self.kv_bytes
