"""An estimate of a serving engine in a closed loop: so many requests always in flight."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import loaded
from rooflab.api.answers import FiguresReport, basis_of, basis_shares, memory_report, scene_of
from rooflab.api.asks import EstimateAsk, LoopReport
from rooflab.api.resolve import Setting, workload_of
from rooflab.estimate import MILLION, Estimate, Figures, Workload, cost_per_million, energy_per_token
from rooflab.fits import memory
from rooflab.fitted import Fitted
from rooflab.loaded import Loaded
from rooflab.units import InputError


def loop_fields(ask: EstimateAsk, setting: Setting, one: Estimate) -> tuple[dict[str, Any], list[str]]:
    """Fields of an estimate report for `concurrency` requests in flight, and what to say about them.

    Memory is that of the requests that run at once; an engine without room for one request has no figures.
    """
    if ask.output < 2:
        raise InputError(
            "output: a closed loop needs answers of 2 tokens or more; a one-token answer has no time between tokens"
        )
    made = loaded.engine(ask.engine)
    if ask.varied:
        made = loaded.of_varied_lengths(made)
    if ask.max_batched_tokens is not None:
        made = msgspec.structs.replace(made, max_batched_tokens=ask.max_batched_tokens)
    if isinstance(setting.pricer, Fitted):
        setting.pricer.launch_scale = made.launch_scale
    work, _ = workload_of(ask, setting.model)
    scene = msgspec.structs.replace(scene_of(setting), pricer=setting.pricer)
    flight = -(-int(ask.concurrency or 1) // ask.dp)
    ends = {end: loaded.closed_loop(scene, work, float(flight), made, end=end) for end in ("mid", "low", "high")}
    mid = ends["mid"]
    if mid.pieces.room < 1:
        return {"fits": False}, [
            "no request fits beside the weights, so no performance is shown; fit says what is over"
        ]
    held = memory(
        setting.model,
        setting.precision,
        setting.layout,
        setting.system,
        setting.profile,
        batch=mid.pieces.batch,
        context=work.prompt + work.output / 2.0,
        prompt=min(float(work.prompt), float(made.max_batched_tokens)),
    )
    fields: dict[str, Any] = {"fits": True, "memory": memory_report(held), **_figures(mid.figures)}
    fields.update(_shares(one), **_money(setting, work, mid, ask))
    low, high = _bounds(*(ends[end].figures for end in ("low", "mid", "high")))
    fields.update(low=low, high=high, basis=basis_of(one.decode or one.prefill))
    fields["tokens_per_second_per_user"] = 1.0 / float(mid.figures.tpot or 1.0)
    fields["loop"] = LoopReport(
        concurrency=int(ask.concurrency or 1),
        engine=made.name,
        running=float(mid.pieces.batch),
        room=float(mid.pieces.room),
        waits=bool(flight > mid.pieces.room),
        decode_step=float(mid.step),
        prefill_per_request=float(mid.prefill),
        max_batched_tokens=int(made.max_batched_tokens),
    )
    return fields, _notes(ask, made, mid, flight)


def _notes(ask: EstimateAsk, made: loaded.Engine, mid: Loaded, flight: int) -> list[str]:
    """What a reader must know of a closed loop's figures."""
    notes = [
        f"closed loop of {ask.concurrency} requests on {made.title}: host constants fitted on runs of one model on one device",
        "TTFT counts the wait for other prompts; estimate, not a benchmark",
        "simulate plays the same loop with the same host work: the same time per token within a few % where lengths vary, and an "
        "earlier first token, since nobody there is kept on the way to the scheduler",
    ]
    if flight > mid.pieces.room:
        notes.append(
            f"{flight} requests in flight exceed the {mid.pieces.room:.0f} whose caches fit: the rest wait for memory"
        )
    return notes


def _figures(figures: Figures) -> dict[str, float]:
    return {name: float(getattr(figures, name)) for name in FiguresReport.__struct_fields__}


def _bounds(*ends: Figures) -> tuple[FiguresReport, FiguresReport]:
    """Element by element smallest and largest figures: a loop whose steps are slower may queue less."""
    found = [_figures(each) for each in ends]
    low = {name: min(each[name] for each in found) for name in found[0]}
    high = {name: max(each[name] for each in found) for name in found[0]}
    return FiguresReport(**low), FiguresReport(**high)


def _shares(one: Estimate) -> dict[str, Any]:
    """What binds, from the single pass and step of the same workload."""
    phases = {"prefill": one.prefill, "decode": one.decode}
    return {
        "bound": {name: next(iter(step.share("bound"))) for name, step in phases.items() if step is not None},
        "shares": {name: step.share("part") for name, step in phases.items() if step is not None},
        "basis_shares": {name: basis_shares(step) for name, step in phases.items() if step is not None},
    }


def _money(setting: Setting, work: Workload, mid: Loaded, ask: EstimateAsk) -> dict[str, Any]:
    """Cost and energy at the loop's rate; input and output share the devices' time as prompts and steps do."""
    system, devices = setting.system, float(setting.layout.devices())
    rate = float(mid.figures.output_throughput)
    turn = work.output / rate
    prompts = mid.pieces.batch * mid.prefill / (mid.pieces.batch * mid.prefill + work.output * mid.step)
    money: dict[str, Any] = {"cost_per_million_tokens": None, "energy_per_token": None}
    if system.device_price is not None:
        price = system.device_price
        money["cost_per_million_tokens"] = {
            "input": cost_per_million(price, devices, turn * prompts, float(work.prompt), MILLION),
            "output": cost_per_million(price, devices, turn * (1.0 - prompts), float(work.output), MILLION),
            "all": cost_per_million(price, devices, turn, float(work.context), MILLION),
        }
    if system.device.power is not None:
        money["energy_per_token"] = energy_per_token(system.device.power, devices, turn, float(work.output))
    return money
