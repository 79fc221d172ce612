"""Fidelity profiles: named records of every switch on which published models of inference differ (requirement E-26).

`operator` prices an engine's kernels one by one, `sharded` the stages of one device of a hierarchy, `classroom` two stages
of a pass, `envelope` one step of a chip. A profile is only data: any switch can be replaced, and every result names its profile.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.units import InputError, nearest, parse, shown

Number = Any


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How work is counted, grouped and priced."""

    name: str
    title: str = ""
    counting: str = "kernels"
    """kernels | stages | published | weights: the grain of the counted operators."""
    group: str = "op"
    """op | stage | two_stage | step: what the maximum of compute and memory time is taken over."""
    combine: str = "max"
    """max: compute and memory overlap; sum: weight, compute and cache terms are added."""
    causal: str = "exact"
    """exact | half | full: prefill pairs of the stages."""
    compute_efficiency: Number = 0.65
    """Achieved share of the peak FLOP rate in mid-range work."""
    memory_efficiency: Number = 0.80
    link_efficiency: Number = 0.80
    best: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Compute, memory and link efficiency of the fast end of the band."""
    worst: tuple[float, float, float] = (0.40, 0.60, 0.50)
    """The same of the slow end."""
    launch_time: Number = 2.5e-6
    """Seconds each operator costs beside its work."""
    launch_band: tuple[float, float] = (0.0, 10.0e-6)
    pass_time: Number = 0.0
    """Seconds each forward pass costs beside its operators."""
    link_latency: bool = True
    """Whether a message step pays the link's latency."""
    collective: str = "auto"
    """auto (fastest of ring, one-shot, hierarchical, in-network) | ring | flat | hierarchical | none."""
    overlap: bool = False
    """Whether communication hides under the stages it names."""
    tiles: bool = True
    """Whether matrix dimensions are rounded up to the device's tile."""
    vector_units: bool = True
    """Whether elementwise work runs at the vector rate instead of the matrix rate."""
    rate_by_dtype: bool = True
    """Whether narrower formats raise the FLOP rate."""
    outside: bool = True
    """Whether embedding and output head are counted."""
    metadata: float = 0.0
    """Extra share of quantised weight bytes; 0 counts the format's own scales."""
    tpot: str = "mean_growing"
    """mean_growing: mean over the answer's growing context; fixed: one step at the given context."""
    workspace: str = "engine"
    """engine | sharded | eight_buffers: the activation memory beside weights and cache."""
    reserve: Number = 0.10
    """Memory kept for the runtime: a share of the device when below 1, bytes otherwise."""
    kv_shard: str = "replicate"
    ffn_scope: str = "tp"
    cp_placement: str = "inner"
    dense_only: bool = False
    """Whether only dense softmax-attention models are covered."""
    axes: tuple[str, ...] = ("tp", "pp", "cp", "dp", "ep", "attention_dp")
    """Axes of a layout the profile understands."""
    leaves_out: tuple[str, ...] = ()
    """What it does not model, for people."""


PROFILES: dict[str, Profile] = {
    "operator": Profile(
        name="operator",
        title="engine kernels, achievable rates",
        leaves_out=(
            "engine scheduling, tokenisation and network time",
            "kernel choice and tuning: the engine's usual kernel is taken, the band shows how far off that may be",
            "overlap of communication with computation",
        ),
    ),
    "sharded": Profile(
        name="sharded",
        title="stages of one device in a hierarchy",
        counting="stages",
        group="stage",
        causal="half",
        compute_efficiency=0.8,
        memory_efficiency=1.0,
        link_efficiency=1.0,
        worst=(0.5, 0.7, 0.7),
        launch_time=0.0,
        launch_band=(0.0, 0.0),
        collective="flat",
        overlap=True,
        tiles=False,
        vector_units=False,
        rate_by_dtype=False,
        tpot="fixed",
        workspace="sharded",
        reserve=0.0,
        kv_shard="split",
        ffn_scope="tp_cp",
        cp_placement="outer",
        leaves_out=("launch overhead", "pipeline bubbles: pp does not shorten or lengthen one token", "queueing"),
    ),
    "classroom": Profile(
        name="classroom",
        title="two stages of a pass",
        counting="published",
        group="two_stage",
        compute_efficiency=0.5,
        memory_efficiency=0.7,
        link_efficiency=1.0,
        worst=(0.3, 0.5, 0.7),
        launch_time=0.0,
        launch_band=(0.0, 0.0),
        pass_time=1.0e-4,
        link_latency=False,
        collective="ring",
        tiles=False,
        vector_units=False,
        rate_by_dtype=False,
        metadata=0.05,
        workspace="eight_buffers",
        reserve=parse("2 GB", "byte"),
        dense_only=True,
        axes=("tp",),
        leaves_out=(
            "MoE, latent attention, recurrences, sliding windows, speculative decoding, prefix caching, offload",
            "fragmentation, paging, temporary quantisation buffers, quadratic attention workspace",
            "link latency, topology and overlap of communication",
            "re-reads and other kernel traffic of fused attention",
        ),
    ),
    "envelope": Profile(
        name="envelope",
        title="one step of a chip at peak",
        counting="weights",
        group="step",
        combine="sum",
        compute_efficiency=1.0,
        memory_efficiency=1.0,
        link_efficiency=1.0,
        worst=(0.5, 0.7, 0.7),
        launch_time=0.0,
        launch_band=(0.0, 0.0),
        collective="none",
        tiles=False,
        vector_units=False,
        outside=False,
        tpot="fixed",
        workspace="sharded",
        reserve=0.0,
        leaves_out=("communication and sharding overheads", "embedding and output head", "utilisation below peak"),
    ),
}


def profile(name: str) -> Profile:
    """The profile of that name.

    Raises InputError naming the profiles there are.
    """
    if name not in PROFILES:
        raise InputError(f"profile: {shown(name)} is not one of {', '.join(PROFILES)}{nearest(name, PROFILES)}")
    return PROFILES[name]
