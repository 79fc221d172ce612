"""What most of a decode step waits for, at many points: compute, memory, network or latency (requirements A-041, E-24)."""

from __future__ import annotations

from typing import Any

from rooflab.estimate import Scene, Workload, decode_contexts, decode_step, prefill_step
from rooflab.price import BOUNDS, Roofline, binding, rates_of

Number = Any


def bound_of(scene: Scene, work: Workload) -> Number:
    """Position in `price.BOUNDS` of what the last stretch of decoding waits for, of the prefill where the answer is one token."""
    rates = rates_of(scene.profile, scene.system.device.launch_time)["mid"]
    pricer = scene.pricer or Roofline(scene.system, scene.layout, scene.profile, rates)
    single = isinstance(work.output, int) and work.output == 1
    if single:
        step = prefill_step(work, scene.layout)
    else:
        step = decode_step(work, scene.layout, decode_contexts(scene.model, work, scene.profile)[-1][0])
    return binding(scene.operators(step), pricer, scene.profile)


def name_of(code: float) -> str:
    """The bound's name; empty where there is none."""
    return "" if code != code else BOUNDS[int(code)]
