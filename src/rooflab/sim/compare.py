"""A real serving run replayed: the same arrivals and lengths through the simulated engine, and how far its times are off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from rooflab.sim.cluster import simulate
from rooflab.sim.run import Run
from rooflab.sim.schedule import Limits
from rooflab.sim.surface import StepSurface
from rooflab.sim.traffic import Traffic

FIGURES = ("mean", "p50", "p99")


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Measured and simulated figures in seconds by name, and their relative errors (simulated / measured − 1)."""

    measured: dict[str, float]
    simulated: dict[str, float]
    error: dict[str, float]
    per_request: dict[str, float]
    """Median of the absolute relative error of single requests."""
    preemptions: int
    requests: int


def _figures(name: str, values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)

    def at(share: float) -> float:
        place = (len(ordered) - 1) * share
        low = int(place)
        return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)

    mean = math.fsum(ordered) / len(ordered)
    return dict(zip((f"{name}_{figure}" for figure in FIGURES), (mean, at(0.5), at(0.99)), strict=True))


def vllm_limits(cache_tokens: float, block_tokens: int, slots: int, budget: int) -> Limits:
    """Limits of a vLLM (0.19) run from its log: one block is kept aside, scheduling ahead and prefix caching are on."""
    return Limits(
        blocks=int(cache_tokens) // block_tokens - 1,
        block_tokens=block_tokens,
        slots=slots,
        budget=budget,
        asynchronous=True,
        caching=True,
    )


def replay(
    traffic: Traffic, surface: StepSurface, limits: Limits, measured: Mapping[str, Sequence[float]]
) -> tuple[Compared, Run]:
    """Plays the traffic and compares with measured columns in seconds: ttft (from arrival), tpot, e2e.

    Nothing is fitted: the surface and the limits are what they were before the run was looked at.
    """
    run = simulate(traffic, surface, limits)
    columns = run.columns()
    real: dict[str, float] = {}
    ours: dict[str, float] = {}
    single: dict[str, float] = {}
    for name, values in measured.items():
        pairs = [(v, s) for v, s in zip(values, columns[name], strict=True) if s is not None and v > 0.0]
        real.update(_figures(name, [v for v, _ in pairs]))
        ours.update(_figures(name, [s for _, s in pairs]))
        single[name] = _figures("x", [abs(s / v - 1.0) for v, s in pairs])["x_p50"]
    if "e2e" in measured:
        arrivals = [moment or 0.0 for moment in traffic.arrival]
        real["makespan"] = max(a + e for a, e in zip(arrivals, measured["e2e"], strict=True)) - min(arrivals)
        ours["makespan"] = run.makespan()
    error = {name: ours[name] / value - 1.0 for name, value in real.items() if value}
    return (
        Compared(
            measured=real, simulated=ours, error=error, per_request=single,
            preemptions=sum(run.preempted), requests=len(run),  # int
        ),
        run,
    )  # fmt: skip
