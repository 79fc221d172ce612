"""Serving layouts of a model: every one the rules admit, and the frontier of speed for a user against tokens per device.

Requirements A-040–A-047.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from rooflab import fits
from rooflab.estimate import Workload
from rooflab.fitted import USUAL
from rooflab.model import Model, MoE
from rooflab.profiles import Profile, profile
from rooflab.sweep.spaces import Space, space
from rooflab.system import System
from rooflab.units import InputError, shown
from rooflab.work import Layout, Precision

BATCHES = tuple(2**i for i in range(10))
"""Requirement A-040: 1 to 512."""
PROMPT, OUTPUT = 2048, 256
OBJECTIVES = {"interactivity": "max", "throughput_per_device": "max"}
"""Tokens/s for a user and tokens/s per device (requirement A-041)."""
WIDER = {**OBJECTIVES, "cost": "min", "energy": "min"}
"""The same with USD per million tokens and J per token as further axes."""
AXES = ("tp", "pp", "cp", "attention_dp", "ep")


def has_experts(model: Model) -> bool:
    """Whether some layer routes tokens to experts."""
    return any(isinstance(block.ffn, MoE) for block in model.blocks)


def _powers(most: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(most.bit_length()) if 2**i <= most)


def serving_layouts(
    model: Model, most: int, *, used: Profile | None = None, axes: Mapping[str, Sequence[int]] | None = None
) -> list[dict[str, int]]:
    """Degrees of every layout of at most `most` devices that the model admits; powers of two unless `axes` says more.

    Attention groups and expert ranks are tried for models with experts only: elsewhere they change nothing or are refused.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InputError(f"devices: {shown(most)} must be a whole number of at least 1")
    chosen = used or profile("operator")
    given = dict(axes or {})
    experts = has_experts(model)
    values = {name: tuple(given.get(name, _powers(most))) for name in AXES}
    if not experts:
        values |= {name: tuple(given.get(name, (1,))) for name in ("attention_dp", "ep")}
    found: list[dict[str, int]] = []
    for tp, pp, cp, groups in itertools.product(*[values[name] for name in ("tp", "pp", "cp", "attention_dp")]):
        if tp * pp * cp * groups > most:
            continue
        for ep in values["ep"]:
            if ep > tp * cp * groups:
                continue
            degrees: dict[str, Any] = {"tp": tp, "pp": pp, "cp": cp, "attention_dp": groups, "ep": ep}
            if all(rule.holds for rule in fits.layout_rules(model, Layout(**degrees), None, chosen)):
                found.append(degrees)
    return found


def serving_space(
    model: Model,
    systems: Mapping[str, System],
    *,
    most: int = 8,
    batches: Sequence[int] = BATCHES,
    prompt: int = PROMPT,
    output: int = OUTPUT,
    precision: Precision | None = None,
    weights: Sequence[str] = (),
    kv: Sequence[str] = (),
    used: Profile | None = None,
    axes: Mapping[str, Sequence[int]] | None = None,
    prices: str = USUAL,
    engine: str = "vllm",
) -> Space:
    """The space of serving layouts: systems × formats × layouts × batches."""
    layouts = serving_layouts(model, most, used=used, axes=axes)
    if not layouts:
        raise InputError(f"model: no layout of at most {most} devices divides the heads and layers of {model.name}")
    vary: dict[str, Any] = {"batch": tuple(batches)}
    if len(systems) > 1:
        vary["system"] = tuple(systems)
    if weights:
        vary["weights"] = tuple(weights)
    if kv:
        vary["kv"] = tuple(kv)
    return space(
        model,
        on=systems,
        vary=vary,
        layouts=layouts,
        precision=precision,
        used=used,
        work=Workload(prompt=prompt, output=output),
        prices=prices,
        engine=engine,
    )
