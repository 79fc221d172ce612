"""From a scene to an engine: the surface of its prices and the blocks that its memory holds beside weights and workspace."""

from __future__ import annotations

import math
from typing import Any

from rooflab import fits, graph
from rooflab.estimate import Scene
from rooflab.sim.schedule import Limits
from rooflab.units import InputError, format


def bytes_per_token(scene: Scene, tokens: float) -> float:
    """Cache bytes of a sequence of `tokens`, recurrent state included, per token, on the busiest device of a replica."""
    one = graph.kv_bytes_per_device(scene.model, scene.precision, scene.layout, tokens, 1.0)
    one += graph.state_bytes_per_device(scene.model, scene.precision, scene.layout, 1.0)
    return one / tokens


def cache_tokens(scene: Scene, tokens: float, budget: int, slots: int) -> float:
    """Tokens that one replica's memory holds in sequences of `tokens`, beside weights, workspace and reserve.

    The workspace is that of an iteration of `budget` tokens with `slots` rows at the output head.
    """
    memory = fits.memory(
        scene.model, scene.precision, scene.layout, scene.system, scene.profile, batch=1.0, context=1.0, prompt=budget
    )
    rows = fits.workspace_bytes(
        scene.model, scene.precision, scene.layout, scene.profile, float(slots), 1.0, "decode"
    ) - fits.workspace_bytes(scene.model, scene.precision, scene.layout, scene.profile, 1.0, 1.0, "decode")
    room = memory.capacity - memory.weights - memory.workspace - memory.reserve - rows
    if room <= 0.0:
        need = format(memory.weights + memory.workspace + memory.reserve + rows, "byte")
        raise InputError(
            f"memory: weights, workspace and reserve take {need} of {format(memory.capacity, 'byte')} per device, so there is "
            "no room for a cache; raise tp or pp, use narrower weights, or lower budget or slots"
        )
    one = bytes_per_token(scene, tokens)
    return room / one * scene.layout.attention_dp if one else 1e12  # count


def limits_for(scene: Scene, tokens: float, **chosen: Any) -> Limits:
    """The engine's limits on this scene for sequences of about `tokens`; blocks follow from memory unless chosen."""
    plain = {key: value for key, value in chosen.items() if value is not None}
    limits = Limits(**{"blocks": 1, **plain})
    if "blocks" in plain:
        return limits
    held = cache_tokens(scene, tokens, limits.budget, limits.slots)
    blocks = math.floor(held / limits.block_tokens)
    if blocks < 1:
        raise InputError(f"memory: the cache holds {held:.0f} tokens, less than a block of {limits.block_tokens}")
    return Limits(**{**plain, "blocks": min(blocks, 2**39)})
