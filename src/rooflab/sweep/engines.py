"""Serving engines: which layouts they start, how much memory they leave, and the command that realises a layout.

What an engine is called with is data (`catalog/rules/engines.toml`); this module only reads it.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab import fits
from rooflab.estimate import Workload
from rooflab.model import Model, MoE
from rooflab.profiles import Profile
from rooflab.system import System
from rooflab.work import Layout, Precision


class Engine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine as its documentation describes it."""

    title: str
    source: str
    """Where its flags are described."""
    command: str
    """Start of the command; {model} stands for what is served."""
    reserve: float
    """Share of a device's memory it leaves alone."""
    flags: dict[str, str]
    """Flag per setting; {value} stands for its number. A flag of a degree is left out where the degree is 1."""
    options: dict[str, str] = {}
    """Settings it takes from a file only, as lines of YAML: attention_dp, or kv_ and a cache format."""
    option_flag: str = ""
    """Flag that names that file."""
    batch_of: str = "replica"
    """What its limit of sequences counts: replica, or group (one attention group)."""
    axes: tuple[str, ...] = ("tp", "pp", "dp", "ep", "attention_dp")
    """Degrees it can set."""
    groups: str = "any"
    """Attention groups: any, or whole (attention runs either on all ranks together or on each alone)."""
    experts: str = "any"
    """Expert ranks: any divisor, or whole (all ranks of a replica, or one)."""
    ranks: str = "tp"
    """What its tensor-parallel flag counts: tp, or world (tp × attention groups)."""
    replicas: str = ""
    """How independent replicas are started, where no flag does it; {value} stands for their number."""
    formats: dict[str, str] = {}
    """Weight format -> flag that quantises a 16-bit checkpoint on loading; other formats need a quantised checkpoint."""
    cache_formats: dict[str, str] = {}
    """Cache format -> flag."""


def refusals(
    engine: Engine, model: Model, layout: Layout, system: System, formats: Precision, work: Workload, used: Profile
) -> str:
    """Why an engine would not start this layout; empty where it would."""
    for axis in ("pp", "cp", "dp", "ep", "attention_dp"):
        if getattr(layout, axis) > 1 and axis not in engine.axes and not (axis == "dp" and engine.replicas):
            return f"{engine.title} has no {axis}"
    if any(m.heads % layout.tp for m in (block.mixer for block in model.blocks) if m is not None and m.heads):
        return f"tp={layout.tp} does not divide the heads"
    ranks = int(layout.tp * layout.attention_dp)
    experts = any(isinstance(block.ffn, MoE) for block in model.blocks)
    if layout.attention_dp > 1 and not experts:
        return "attention groups need experts"
    if engine.groups == "whole" and layout.attention_dp > 1 and layout.tp > 1:
        return f"{engine.title} runs attention on all ranks together or on each alone"
    if engine.experts == "whole" and layout.ep not in (1, ranks):
        return f"{engine.title} spreads experts over all {ranks} ranks of a replica or over none"
    if layout.dp > 1 and layout.attention_dp > 1 and not engine.replicas:
        return f"{engine.title} counts replicas and attention groups with one flag; start the replicas apart"
    own = msgspec.structs.replace(used, reserve=max(engine.reserve, _share(used, system)))
    memory = fits.memory(
        model, formats, layout, system, own, batch=work.batch, context=work.context, prompt=work.prompt
    )
    if not memory.fits:
        return f"does not fit the {1 - engine.reserve:.0%} of memory {engine.title} uses"
    return ""


def _share(used: Profile, system: System) -> float:
    """The profile's reserve as a share of a device."""
    reserve = float(used.reserve)
    return reserve if reserve < 1 else reserve / float(system.device.memory)


def command(
    engine: Engine,
    name: str,
    layout: Layout,
    work: Workload,
    *,
    weights: str | None = None,
    kv: str | None = None,
) -> str:
    """The command that starts one layout for a workload."""
    groups = int(layout.attention_dp)
    degrees: dict[str, Any] = {
        "tp": int(layout.tp) * (groups if engine.ranks == "world" else 1),
        "pp": int(layout.pp),
        "attention_dp": groups,
        "dp": int(layout.dp) if groups == 1 else 1,
        "ep": int(layout.ep),
    }
    parts = [engine.command.replace("{model}", name)]
    lines: list[str] = []
    for axis, value in degrees.items():
        if value > 1 and axis in engine.flags:
            parts.append(engine.flags[axis].replace("{value}", str(value)))
        elif value > 1 and axis in engine.options:
            lines.append(engine.options[axis])
    settings = {
        "length": int(work.prompt) + int(work.output),
        "batch": math.ceil(work.batch / groups) if engine.batch_of == "group" else int(work.batch),
        "memory": f"{1 - engine.reserve:.2f}",
    }
    parts += [
        engine.flags[key].replace("{value}", str(value)) for key, value in settings.items() if key in engine.flags
    ]
    if weights and weights in engine.formats:
        parts.append(engine.formats[weights])
    if kv and kv in engine.cache_formats:
        parts.append(engine.cache_formats[kv])
    elif kv and f"kv_{kv}" in engine.options:
        lines.append(engine.options[f"kv_{kv}"])
    return _written(engine, parts, lines, _remarks(engine, layout, weights, kv))


def _written(engine: Engine, parts: list[str], lines: list[str], remarks: list[str]) -> str:
    """The whole command: options of a file are written to it first, remarks follow as comments."""
    text = " ".join(parts)
    if lines:
        content = "\\n".join(lines)
        text = f"printf '{content}\\n' > options.yaml && {text} {engine.option_flag} options.yaml"
    return text + "".join(f"  # {remark}" for remark in remarks)


def _remarks(engine: Engine, layout: Layout, weights: str | None, kv: str | None) -> list[str]:
    """What a command line cannot say."""
    remarks = []
    if weights and weights not in engine.formats:
        remarks.append(f"serve a checkpoint quantised to {weights}")
    if kv and kv not in (*engine.cache_formats, "bf16", "fp16") and f"kv_{kv}" not in engine.options:
        remarks.append(f"no flag for a {kv} cache is known")
    if layout.dp > 1 and engine.replicas and (layout.attention_dp > 1 or "dp" not in engine.flags):
        remarks.append(engine.replicas.replace("{value}", str(int(layout.dp))))
    return remarks
