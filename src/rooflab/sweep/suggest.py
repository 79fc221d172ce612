"""Which layout to serve with: ranked, with reasons, and only layouts that a named engine would start.

A layout is tried for a number of users with prompts and answers of given lengths; users are spread evenly over replicas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rooflab.estimate import Estimate, Workload, estimate
from rooflab.fitted import USUAL
from rooflab.model import Attention, Model
from rooflab.profiles import Profile, profile
from rooflab.sweep.engines import Engine, command, refusals
from rooflab.sweep.evaluate import run
from rooflab.sweep.frame import Frame
from rooflab.sweep.serving import serving_layouts
from rooflab.sweep.spaces import space
from rooflab.system import System
from rooflab.units import InputError, format, shown
from rooflab.work import Layout, Precision

GOALS = {
    "cost": ("max:throughput_per_device", "tpot", "ttft_alone"),
    "latency": ("tpot", "ttft_alone", "devices"),
    "devices": ("devices", "max:throughput_per_device", "tpot"),
}
"""What a layout is ranked by, once it meets the limits."""


class Suggested(msgspec.Struct, frozen=True, kw_only=True):
    """One layout, what it does for these users, and how to start it."""

    layout: Layout
    devices: int
    batch: int
    """Sequences at once in a replica: its share of the users."""
    ttft: float
    """Of a prompt that arrives alone while the others decode; queueing and percentiles are for the simulator."""
    ttft_together: float
    """Of the last of all users' prompts when they arrive at once."""
    tpot: float
    """Mean time between tokens of one answer, without prefills in between."""
    tpot_loaded: float
    """The same with the prefills of the other users in between, when every user asks again at once."""
    e2e: float
    """From arrival to the last token when all arrive at once."""
    interactivity: float
    throughput_per_device: float
    output_throughput: float
    cost: float | None
    """USD per million tokens."""
    memory_share: float
    free: float
    meets: bool
    """Whether both limits are met."""
    why: tuple[str, ...]
    commands: dict[str, str]
    """Engine -> command that realises it; only engines that would start it."""
    refused: dict[str, str]
    """Engine -> why it would not."""


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Layouts best first; none where nothing fits. `frame` holds everything that was tried."""

    layouts: tuple[Suggested, ...]
    frame: Frame
    limits_met: bool
    tightest: dict[str, float]
    """The least TTFT and TPOT that any layout reaches for these users."""


def _replicas(most: int, inner: int) -> list[int]:
    """Numbers of replicas of a layout on a machine: powers of two, and as many as there is room for."""
    room = most // inner
    return sorted({*[2**i for i in range(room.bit_length()) if 2**i <= room], room})


def candidates(model: Model, most: int, used: Profile, users: int) -> list[dict[str, int]]:
    """Layouts with replicas that a machine of `most` devices holds; no more replicas than users."""
    found = []
    for degrees in serving_layouts(model, most, used=used, axes={"cp": (1,)}):
        inner = degrees["tp"] * degrees["pp"] * degrees["attention_dp"]
        for dp in _replicas(most, inner):
            if dp <= users and degrees["attention_dp"] <= math.ceil(users / dp):
                found.append({**degrees, "dp": dp})
    return found


def suggest(
    model: Model,
    *,
    system: System,
    users: int,
    prompt: int,
    output: int,
    ttft: float | None = None,
    tpot: float | None = None,
    engines: Mapping[str, Engine],
    name: str = "MODEL",
    goal: str = "cost",
    weights: str | None = None,
    kv: str | None = None,
    precision: Precision | None = None,
    used: Profile | None = None,
    prices: str = USUAL,
    engine: str = "vllm",
    count: int = 5,
) -> Ranking:
    """Ranked layouts for users, lengths and limits.

    Layouts that meet the limits come first, ordered by the goal: cost (most tokens per device), latency (least TPOT) or
    devices (fewest). Where none does, the one that misses them least comes first and is marked. `name` is what the command
    serves; `weights` and `kv` are formats that differ from the checkpoint's.
    """
    _checked(users, prompt, output, count, ttft, tpot, goal)
    chosen, formats = used or profile("operator"), precision or Precision()
    layouts = candidates(model, min(system.devices, MOST), chosen, users)
    how = {"precision": formats, "used": chosen, "prices": prices, "engine": engine}
    frame = _tried(model, system, layouts, users, prompt, output, how)
    frame = _with_single(model, system, frame, prompt, output, how)
    order, tightest = _ranked(frame, goal, ttft, tpot), _tightest(frame)
    found: list[Suggested] = []
    seen: set[tuple[Any, ...]] = set()
    for at in order:
        row = frame.row(at)
        degrees: dict[str, Any] = {axis: int(row[axis]) for axis in ("tp", "pp", "cp", "dp", "ep", "attention_dp")}
        layout = Layout(**degrees)
        work = Workload(batch=math.ceil(users / int(layout.dp)), prompt=prompt, output=output)
        refused = {
            key: why
            for key, one in engines.items()
            if (why := refusals(one, model, layout, system, formats, work, chosen))
        }
        if len(refused) == len(engines) and engines:
            continue
        known = len(seen)
        seen.add((row["devices"], row["dp"], row["tpot"], row["ttft"]))
        if len(seen) == known:
            continue
        shape = estimate(model, formats, layout, system, work, chosen, band=False)
        starting = {key: one for key, one in engines.items() if key not in refused}
        commands = {key: command(one, name, layout, work, weights=weights, kv=kv) for key, one in starting.items()}
        found.append(_one(frame, at, layout, work, shape, order, ttft, tpot, commands, refused, model))
        if len(found) == count:
            break
    return Ranking(layouts=tuple(found), frame=frame, limits_met=any(each.meets for each in found), tightest=tightest)


def _checked(
    users: int, prompt: int, output: int, count: int, ttft: float | None, tpot: float | None, goal: str
) -> None:
    """Refuses what cannot be asked."""
    for field, value in (("users", users), ("prompt", prompt), ("output", output), ("count", count)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{field}: {shown(value)} must be a whole number of at least 1")
    for field, limit in (("ttft", ttft), ("tpot", tpot)):
        if limit is not None and not limit > 0:
            raise InputError(f"{field}: {shown(limit)} must be above 0")
    if goal not in GOALS:
        raise InputError(f"goal: {shown(goal)} is not one of {', '.join(GOALS)}")


MOST = 1024  # count
"""Devices of a machine that are looked at; larger machines are fleets of replicas, which `plan` sizes."""


def _tried(
    model: Model,
    system: System,
    layouts: Sequence[Mapping[str, int]],
    users: int,
    prompt: int,
    output: int,
    how: Mapping[str, Any],
) -> Frame:
    """Every candidate at its own share of the users."""
    frames = []
    shares: dict[int, list[Mapping[str, int]]] = {}
    for layout in layouts:
        shares.setdefault(math.ceil(users / layout["dp"]), []).append(layout)
    for batch, group in shares.items():
        asked = space(
            model, on=system, layouts=group, vary={"batch": (batch,)}, **how, work=Workload(prompt=prompt, output=output),
        )  # fmt: skip
        frames.append(run(asked))
    if not frames:
        raise InputError(f"model: no layout on {system.name} divides the heads and layers of {model.name}")
    first = frames[0]
    columns = {name: [v for f in frames for v in _listed(f.column(name))] for name in first.columns}
    feasible = [v for f in frames for v in _listed(f.feasible)]
    return msgspec.structs.replace(
        first,
        columns=columns,
        feasible=feasible,
        reason=[v for f in frames for v in _listed(f.reason)],
        totals={"enumerated": float(len(feasible)), "feasible": float(feasible.count(True))},
    )


def _with_single(model: Model, system: System, frame: Frame, prompt: int, output: int, how: Mapping[str, Any]) -> Frame:
    """The frame with the time to the first token of a prompt that arrives alone."""
    names: tuple[str, ...] = ("tp", "pp", "ep", "attention_dp")
    rows = [tuple(int(frame.column(name)[i]) for name in names) for i in range(len(frame))]
    distinct = list(dict.fromkeys(rows))
    layouts: list[dict[str, int]] = [dict(zip(names, row, strict=True)) for row in distinct]
    work = Workload(prompt=prompt, output=output)
    asked = space(model, on=system, layouts=layouts, vary={"batch": (1,)}, work=work, **how)
    alone = dict(zip(distinct, _listed(run(asked).column("ttft")), strict=True))
    columns = {**frame.columns, "ttft_alone": [alone[row] for row in rows]}
    return msgspec.structs.replace(frame, columns=columns, units={**frame.units, "ttft_alone": "s"})


def _listed(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _excess(frame: Frame, at: int, ttft: float | None, tpot: float | None) -> float:
    """By what factor the limits are missed, at most; 1 where both are met."""
    over = [frame.column("ttft_alone")[at] / ttft] if ttft is not None else []
    later = frame.column("tpot")[at]
    over += [later / tpot] if tpot is not None and later == later else []
    return max([1.0, *over])


def _ranked(frame: Frame, goal: str, ttft: float | None, tpot: float | None) -> list[int]:
    """Feasible rows, those that meet the limits first."""

    def key(at: int) -> tuple[float, ...]:
        parts: list[float] = [_excess(frame, at, ttft, tpot)]
        for item in GOALS[goal]:
            sign, _, name = item.rpartition(":")
            value = frame.column(name)[at]
            parts.append(0.0 if value != value else -value if sign == "max" else value)
        return tuple(parts)

    return sorted(frame.positions(), key=key)


def _tightest(frame: Frame) -> dict[str, float]:
    found = {}
    for name, column in (("ttft", "ttft_alone"), ("tpot", "tpot")):
        values = [frame.column(column)[i] for i in frame.positions()]
        values = [value for value in values if value == value]
        if values:
            found[name] = min(values)
    return found


def _one(
    frame: Frame,
    at: int,
    layout: Layout,
    work: Workload,
    found: Estimate,
    order: Sequence[int],
    ttft: float | None,
    tpot: float | None,
    commands: dict[str, str],
    refused: dict[str, str],
    model: Model,
) -> Suggested:
    row = frame.row(at)
    memory = found.memory
    return Suggested(
        layout=layout,
        devices=int(layout.devices()),
        batch=int(work.batch),
        ttft=row["ttft_alone"],
        ttft_together=row["ttft"],
        tpot=row["tpot"],
        tpot_loaded=(row["e2e"] - row["ttft_alone"]) / max(int(work.output) - 1, 1),
        e2e=row["e2e"],
        interactivity=row["interactivity"],
        throughput_per_device=row["throughput_per_device"],
        output_throughput=row["output_throughput"],
        cost=None if row["cost"] != row["cost"] else row["cost"],
        memory_share=float(memory.used / memory.capacity),
        free=float(memory.free),
        meets=_excess(frame, at, ttft, tpot) <= 1.0,
        why=_why(frame, at, order, layout, found, ttft, tpot, model),
        commands=commands,
        refused=refused,
    )


def _why(
    frame: Frame,
    at: int,
    order: Sequence[int],
    layout: Layout,
    found: Estimate,
    ttft: float | None,
    tpot: float | None,
    model: Model,
) -> tuple[str, ...]:
    """What speaks for a layout, in numbers, and what against."""
    row, reasons = frame.row(at), []
    meeting = [i for i in order if _excess(frame, i, ttft, tpot) <= 1.0] or list(order)
    if ttft is not None or tpot is not None:
        limits = {"TTFT": (row["ttft_alone"], ttft), "TPOT": (row["tpot"], tpot)}
        parts = [
            f"{name} {format(value, 's')} of at most {format(limit, 's')}"
            for name, (value, limit) in limits.items()
            if limit is not None and value == value
        ]
        met = "meets the limits" if _excess(frame, at, ttft, tpot) <= 1.0 else "misses a limit"
        reasons.append(f"{met}: {', '.join(parts)}")
    for column, sign, text in (
        ("throughput_per_device", -1.0, "most tokens per device"),
        ("tpot", 1.0, "least time per token"),
        ("ttft_alone", 1.0, "least time to the first token"),
        ("devices", 1.0, "fewest devices"),
    ):
        values = [sign * frame.column(column)[i] for i in meeting if frame.column(column)[i] == frame.column(column)[i]]
        if values and sign * row[column] <= min(values):
            scope = "of the layouts that meet the limits" if ttft is not None or tpot is not None else "of all that fit"
            reasons.append(f"{text} {scope}")
    memory = found.memory
    reasons.append(f"{format(float(memory.free), 'byte')} free on each device after the runtime's reserve")
    heads = [block.mixer.kv_heads for block in model.blocks if isinstance(block.mixer, Attention)]
    if heads and layout.tp > min(heads):
        reasons.append(f"tp exceeds the {min(heads)} KV heads, so each is held {layout.tp / min(heads):g} times")
    return tuple(reasons)
