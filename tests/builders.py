"""Small hand-made models and machines whose counts fit on a slip of paper, and ways to add operators up."""

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from rooflab import graph
from rooflab.model import Attention, Block, Dense, Indexer, LatentAttention, Model, MoE, Recurrent
from rooflab.profiles import Profile, profile
from rooflab.system import Device, Link, System
from rooflab.work import Layout, Op, Precision, Step

BF16 = Precision()
HIDDEN, VOCAB = 64, 1000
GQA = Attention(heads=8, kv_heads=4, head_dim=16, value_dim=16)
LATENT = LatentAttention(heads=4, query_rank=24, kv_rank=32, nope_dim=16, rope_dim=8, value_dim=16)
INDEXER = Indexer(heads=2, head_dim=8, topk=6, query_width=64)
RECURRENT = Recurrent(
    form="gated_delta_net",
    heads=4,
    key_dim=8,
    value_dim=16,
    in_width=200,
    out_width=64,
    inner_params=640,
    conv_channels=128,
    conv_kernel=4,
)
COMPRESSED = Attention(
    heads=8,
    kv_heads=1,
    head_dim=16,
    value_dim=16,
    window=4,
    query_rank=24,
    keys_are_values=True,
    one_cache=True,
    compression=2,
    output_rank=12,
    output_groups=2,
)
DENSE = Dense(width=160)
MIXTURE = MoE(experts=8, topk=2, width=48, shared_width=32)


def model(*blocks: Block, **more: Any) -> Model:
    """A model of these blocks; hidden 64 and vocabulary 1,000 unless said otherwise."""
    fields: dict[str, Any] = {"name": "tiny", "hidden": HIDDEN, "vocab": VOCAB, "other_params": HIDDEN} | more
    return Model(blocks=blocks, **fields)


def layers(count: int, mixer: Any, ffn: Any, **more: Any) -> Block:
    """Equal layers with two norms each."""
    return Block(count=count, mixer=mixer, ffn=ffn, norm_params=2 * HIDDEN, **more)


TINY = model(layers(2, GQA, DENSE))
KINDS = {
    "dense": TINY,
    "moe": model(layers(2, GQA, MIXTURE)),
    "latent": model(layers(2, LATENT, MIXTURE)),
    "recurrent": model(layers(2, RECURRENT, DENSE)),
    "windowed": model(layers(1, msgspec.structs.replace(GQA, window=8), DENSE), layers(1, GQA, DENSE)),
    "indexed": model(layers(2, msgspec.structs.replace(LATENT, indexer=INDEXER), MIXTURE)),
    "parallel": model(layers(2, GQA, DENSE, parallel=True), tied=True),
    "compressed": model(
        layers(1, COMPRESSED, MIXTURE), layers(1, msgspec.structs.replace(COMPRESSED, indexer=INDEXER), MIXTURE)
    ),
    "shared": model(layers(3, RECURRENT, None), layers(3, GQA, DENSE, stored=1, half=True, extra_matmul_params=640)),
    "idle": model(layers(2, GQA, DENSE), Block(count=2, mixer=None, ffn=MoE(experts=6, topk=0, width=48), half=True)),
}
"""One small model of every kind that counting treats differently."""


def published(params: float = 8.03e9) -> Model:
    """32 layers, 32 query and 8 KV heads of 128, with exactly as many parameters as asked for (requirement B-056)."""
    mixer = Attention(heads=32, kv_heads=8, head_dim=128, value_dim=128)
    bare = Model(
        name="lab",
        hidden=4096,
        vocab=128256,
        blocks=(Block(count=32, mixer=mixer, ffn=Dense(width=14336)),),
    )
    return msgspec.structs.replace(bare, other_params=int(params) - bare.params())


def device(
    rate: float = 100e12,
    bandwidth: float = 1e12,
    memory: float = 80e9,
    tile: tuple[int, int, int] = (1, 1, 1),
    **more: Any,
) -> Device:
    """A device of round figures."""
    return Device(name="round", memory=memory, memory_bandwidth=bandwidth, flop_rate={"bf16": rate}, tile=tile, **more)


def link(bandwidth: float = 100e9, latency: float = 1e-6, size: int = 8, **more: Any) -> Link:
    """One level of a network."""
    return Link(name=f"link{size}", bandwidth=bandwidth, latency=latency, size=size, **more)


def machine(*links: Link, **more: Any) -> System:
    """A machine of round devices on these links."""
    return System(name="round", device=device(**more), links=links, devices=math.prod(each.size for each in links))


def switched(name: str, **changes: Any) -> Profile:
    """A profile with some of its switches changed."""
    return msgspec.structs.replace(profile(name), **changes)


ALIGNED: dict[str, Any] = {
    "compute_efficiency": 1.0,
    "memory_efficiency": 1.0,
    "link_efficiency": 1.0,
    "launch_time": 0.0,
    "launch_band": (0.0, 0.0),
    "pass_time": 0.0,
    "tiles": False,
    "vector_units": False,
}
"""Switches that take a profile's overheads away: peak rates and nothing beside the work."""


def operators(
    what: Model, step: Step, layout: Layout | None = None, precision: Precision = BF16, **how: Any
) -> list[Op]:
    """Operators of a step, everything at its plainest unless said."""
    return graph.operators(what, precision, layout or Layout(), step, **how)


def by_name(ops: Iterable[Op]) -> dict[str, Op]:
    """Operators by name; names are unique."""
    named: dict[str, Op] = {}
    for op in ops:
        assert op.name not in named, op.name
        named[op.name] = op
    return named


def total(ops: Iterable[Op], field: str) -> float:
    """Sum of a field over all executions."""
    return math.fsum(float(getattr(op, field) * op.count) for op in ops)
