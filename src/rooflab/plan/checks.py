"""Sanity checks evaluated on a scenario: pass or fail, with the numbers and what to change (requirements D-409, D-410).

Which checks there are, their titles and limits are data (`catalog/rules/checks.toml`); how each is computed is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rooflab import chip
from rooflab.estimate import Estimate, Workload, estimate
from rooflab.model import Attention, LatentAttention, Model
from rooflab.plan.storage import copies
from rooflab.price import Pricer
from rooflab.profiles import Profile
from rooflab.system import System
from rooflab.units import InputError, format, shown
from rooflab.work import Layout, Precision


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: None where it does not apply."""

    name: str
    title: str
    passed: bool | None
    value: float | None
    limit: float | None
    unit: str
    says: str
    fix: str
    """What to change; empty where it passed."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What is checked."""

    model: Model
    precision: Precision
    layout: Layout
    system: System
    profile: Profile
    work: Workload
    ttft: float | None = None
    tpot: float | None = None
    pricer: Callable[[Layout], Pricer | None] | None = None
    """What prices the operators of a layout; None for the profile's roofline."""

    def estimate(self, layout: Layout | None = None) -> Estimate:
        """The scenario's estimate, also where it does not fit."""
        cut = layout or self.layout
        return estimate(
            self.model, self.precision, cut, self.system, self.work, self.profile, band=False, ignore_memory=True,
            pricer=self.pricer(cut) if self.pricer else None,
        )  # fmt: skip


Found = tuple[bool | None, float | None, float | None, str, str]


def check(asked: Scenario, rows: Sequence[Mapping[str, Any]]) -> tuple[Check, ...]:
    """Every check of the data on a scenario."""
    found = asked.estimate()
    results = []
    for row in rows:
        name = str(row["check"])
        if name not in CHECKS:
            raise InputError(f"check: {shown(name)} is not known; {', '.join(CHECKS)}")
        passed, value, limit, unit, says = CHECKS[name](asked, found, row)
        results.append(
            Check(
                name=name,
                title=str(row["title"]),
                passed=passed,
                value=value,
                limit=limit,
                unit=unit,
                says=says,
                fix=str(row.get("fix", "")) if passed is False else "",
            )
        )
    return tuple(results)


def fewest_kv_heads(model: Model) -> int | None:
    """KV heads of the attention with the fewest; a latent counts as one; None without attention."""
    heads = [block.mixer.kv_heads for block in model.blocks if isinstance(block.mixer, Attention)]
    heads += [1 for block in model.blocks if isinstance(block.mixer, LatentAttention)]
    return min(heads, default=None)


def _domain(asked: Scenario, _found: Estimate, _row: Mapping[str, Any]) -> Found:
    size = asked.system.links[0].size if asked.system.links else 1
    tp = int(asked.layout.tp)
    return tp <= size, float(tp), float(size), "1", f"tp {tp}, {size} devices on the fastest link"


def _kv_heads(asked: Scenario, _found: Estimate, _row: Mapping[str, Any]) -> Found:
    heads, tp = fewest_kv_heads(asked.model), int(asked.layout.tp)
    if heads is None:
        return None, None, None, "1", "the model has no attention heads to split"
    return tp <= heads, float(tp), float(heads), "1", f"tp {tp}, {heads} KV head{'s' if heads > 1 else ''}"


def _copies(asked: Scenario, _found: Estimate, _row: Mapping[str, Any]) -> Found:
    held = copies(asked.model, asked.precision, asked.layout, context=asked.work.context, batch=asked.work.batch)
    waste = math.fsum(one.waste for one in held)
    names = ", ".join(one.tensor for one in sorted(held, key=lambda one: -one.waste)[:2] if one.waste > 0)
    says = f"{format(waste, 'byte')} of copies on each device" + (f": {names}" if names else "")
    small = 1e-3 * float(asked.system.device.memory)  # norms and routers are held everywhere
    return waste <= small, waste, small, "byte", says


def _exposed(asked: Scenario, found: Estimate, row: Mapping[str, Any]) -> Found:
    step = found.decode or found.prefill
    limit = float(row["limit"])
    if step is None or not step.time:
        return None, None, limit, "1", "there is no step to look at"
    share = float(step.share("bound").get("comm", 0.0))
    return share <= limit, share, limit, "1", f"communication shows for {share:.1%} of a step, at most {limit:.0%}"


def _bubble(asked: Scenario, _found: Estimate, row: Mapping[str, Any]) -> Found:
    stages, pieces, limit = int(asked.layout.pp), int(asked.layout.microbatches), float(row["limit"])
    share = (stages - 1) / (pieces + stages - 1)
    return (
        share <= limit,
        share,
        limit,
        "1",
        f"{stages} stages, {pieces} microbatches: {share:.1%} idle, at most {limit:.0%}",
    )


def _meets(asked: Scenario, found: Estimate, _row: Mapping[str, Any]) -> Found:
    if asked.tpot is None or found.mid is None or found.mid.tpot is None:
        return None, None, asked.tpot, "s", "no limit on the time per token is given"
    value = float(found.mid.tpot)
    says = f"{format(value, 's')} a token, at most {format(asked.tpot, 's')}"
    return value <= asked.tpot, value, asked.tpot, "s", says


def _knee(asked: Scenario, _found: Estimate, row: Mapping[str, Any]) -> Found:
    one = chip.of(asked.model, asked.precision, asked.system.device, max(int(asked.work.context), 1))
    critical = float(chip.critical_batch(one))
    low, high = float(row["low"]), float(row["high"])
    batch = float(asked.work.batch)
    ratio = batch / critical
    says = f"batch {batch:g} is {ratio:.2f} × the critical batch {critical:,.0f}; aim for {low:g} to {high:g} ×"
    return low <= ratio <= high, ratio, low, "1", says


CHECKS: dict[str, Callable[[Scenario, Estimate, Mapping[str, Any]], Found]] = {
    "tp_in_domain": _domain,
    "tp_within_kv_heads": _kv_heads,
    "no_copies_in_domain": _copies,
    "exposed_communication": _exposed,
    "bubble": _bubble,
    "step_meets_limit": _meets,
    "batch_near_knee": _knee,
}
