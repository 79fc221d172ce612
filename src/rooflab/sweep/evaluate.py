"""Evaluating a space: in chunks, with progress and cancelling, on this process, on several, or on a cluster.

A chunk is one task whatever runs it, and rows have numbers, so the result is the same in any order and each chunk counts once.
"""

from __future__ import annotations

import concurrent.futures
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from rooflab import fits, num
from rooflab.estimate import Estimate, Scene, estimate
from rooflab.fitted import pricer_of
from rooflab.price import BOUNDS, Pricer
from rooflab.sweep import pools
from rooflab.sweep.bounds import bound_of, name_of
from rooflab.sweep.frame import Frame
from rooflab.sweep.fronts import frontier, objectives
from rooflab.sweep.gather import FIGURES, USUAL, Kept, Part, Rows, pick
from rooflab.sweep.grid import numpy_or_none
from rooflab.sweep.journal import Journal
from rooflab.sweep.spaces import CHUNK, WORK, Group, Plan, Space, Task
from rooflab.system import System
from rooflab.units import InputError, shown
from rooflab.work import Layout

_MEMORY = "needs more memory than the device has"


@lru_cache(maxsize=8)
def _planned(_digest: str, holder: _Holder, chunk: int) -> Plan:
    return Plan(holder.space, chunk)


class _Holder:
    """A space that a cache can hold; equal to any other, because the digest beside it tells them apart."""

    def __init__(self, asked: Space):
        self.space = asked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holder)

    def __hash__(self) -> int:
        return 0


def plan_of(asked: Space, chunk: int = CHUNK) -> Plan:
    """The space laid out; kept for the spaces last used."""
    return _planned(asked.digest(), _Holder(asked), chunk)


def work_on(asked: Space, task: Task, names: tuple[str, ...], keep: tuple[str, ...], chunk: int) -> Part:
    """One task: what a worker does. `keep` names objectives; then only the task's own frontier comes back."""
    plan = plan_of(asked, chunk)
    group = plan.groups[task.group]
    if numpy_or_none() is None:
        figures, reason, reasons = _scalars(asked, plan, group, task, names)
    else:
        figures, reason, reasons = _arrays(asked, plan, group, task, names)
    rows = plan.rows_of(task)
    feasible = int((reason == 0).sum()) if num.is_array(reason) else reason.count(0)
    if keep:
        goals = objectives(keep)
        among = reason == 0 if num.is_array(reason) else [code == 0 for code in reason]
        best = sorted(frontier([figures[name] for name in goals[0]], goals[1], among=among, ties="all"))
        figures = {name: pick(column, best) for name, column in figures.items()}
        rows, reason = pick(rows, best), pick(reason, best)
    return Part(
        index=task.index, rows=rows, figures=figures, reason=reason, reasons=tuple(reasons), feasible=feasible,
        points=plan.count(task),
    )  # fmt: skip


def hardware(system: System, figures: Mapping[str, Any]) -> System:
    """The system with hardware figures in SI, numbers or arrays."""
    rates = dict(system.device.flop_rate)
    device: dict[str, Any] = {}
    links = list(system.links)
    price = system.price
    for name, value in figures.items():
        head, _, rest = name.partition(".")
        if head == "flop_rate":
            scaled = rates if not rest else {rest: rates.get(rest)}  # type: ignore[dict-item]
            factor = value / system.device.rate(rest or "bf16")
            rates |= {dtype: rate * factor for dtype, rate in scaled.items() if rate is not None}
        elif head == "links":
            level, _, field = rest.partition(".")
            links[int(level)] = msgspec.structs.replace(links[int(level)], **{field: value})
        elif name == "price":
            price = value
        else:
            device[name] = value
    changed = msgspec.structs.replace(system.device, flop_rate=rates, **device)
    return msgspec.structs.replace(system, device=changed, links=tuple(links), price=price)


def _arrays(asked: Space, plan: Plan, group: Group, task: Task, names: tuple[str, ...]) -> tuple[Any, Any, list[str]]:
    """Figures and reasons of a task in array calls: layouts down, inner points across."""
    import numpy

    degrees, shape = _axes_of(plan, task)
    wide, inner = task.high - task.low, plan.inner_values(task, group)
    flat = msgspec.structs.replace(group.layout, **degrees)
    reasons = ["", _MEMORY]
    code = numpy.zeros(shape, dtype=numpy.int16)
    for rule in reversed(fits.layout_rules(asked.model, flat, group.system, group.profile)):
        broken = ~numpy.broadcast_to(numpy.asarray(rule.holds, dtype=bool), shape)
        if broken.any():
            reasons.append(_general(rule.reason))
            code[broken] = len(reasons) - 1
    tall = math.prod(shape)
    code = code.reshape(tall)
    allowed = code == 0
    if asked.layouts:  # a list has no axes to share, so refused layouts are not priced
        degrees = {name: values[allowed] for name, values in degrees.items()}
        shape = (int(allowed.sum()),)
    figures = {name: numpy.full((tall, wide), numpy.nan) for name in names}
    codes = numpy.repeat(code[:, None], wide, axis=1)
    if allowed.any():
        layout = msgspec.structs.replace(group.layout, **{n: v[None, ..., None] for n, v in degrees.items()})
        across = {name: values.astype(float) for name, values in inner.items()}
        work = msgspec.structs.replace(asked.work, **{n: v for n, v in across.items() if n in WORK})
        work = msgspec.structs.replace(
            work, batch=numpy.broadcast_to(numpy.asarray(work.batch, dtype=float), (1, wide))
        )
        system = hardware(group.system, {n: v for n, v in across.items() if n not in WORK})
        pricer = pricer_of(asked.prices, system, layout, group.profile, asked.engine)
        found = estimate(asked.model, group.precision, layout, system, work, group.profile, pricer=pricer)
        whole = (1, *shape, wide)
        inside = slice(None) if not asked.layouts else allowed
        fit = numpy.broadcast_to(found.fits, whole).reshape(-1, wide)
        for name in names:
            value = (
                bound_of(_scene(asked, group, layout, system, pricer), work)
                if name == "bound"
                else figure(found, layout, name)
            )
            value = numpy.broadcast_to(value, whole).reshape(-1, wide)
            figures[name][inside] = value if name in _SIZES else numpy.where(fit, value, numpy.nan)
            figures[name][~allowed] = numpy.nan
        codes[allowed] = numpy.where(fit if asked.layouts else fit[allowed], 0, 1)
    if "bound" in figures:
        known = numpy.nan_to_num(figures["bound"], nan=-1.0).astype(int)
        figures["bound"] = numpy.array([*BOUNDS, ""], dtype=object)[known]
    kept = [i - task.first for i in plan.kept(task)]
    if len(kept) < tall:
        return {name: value[kept].ravel() for name, value in figures.items()}, codes[kept].ravel(), reasons
    return {name: value.ravel() for name, value in figures.items()}, codes.ravel(), reasons


def _axes_of(plan: Plan, task: Task) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Degrees of a block of layouts: one array each, over axes of their own where they form a product."""
    import numpy

    if not plan.shape:
        listed = {n: numpy.array(v[task.first : task.last], dtype=float) for n, v in plan.degrees.items()}
        return listed, (task.last - task.first,)
    degrees: dict[str, Any] = {}
    shape: list[int] = []
    left = plan.layouts
    for axis, (name, length) in enumerate(zip(plan.degrees, plan.shape, strict=True)):
        left //= length
        values = plan.space.vary[name]
        whole = left * length <= task.last - task.first
        taken = values if whole else (values[task.first // left % length],)
        view = [1] * len(plan.shape)
        view[axis] = -1
        degrees[name] = numpy.array(taken, dtype=float).reshape(view)
        shape.append(len(taken))
    return degrees, tuple(shape)


def _scene(asked: Space, group: Group, layout: Layout, system: System, pricer: Pricer | None) -> Scene:
    return Scene(
        model=asked.model, precision=group.precision, layout=layout, system=system, profile=group.profile, pricer=pricer
    )


_SIZES = ("devices", "weight_bytes", "kv_bytes", "used", "over", "memory_share")
"""Figures that a layout which does not fit still has."""


def _general(reason: str) -> str:
    """A rule's reason without the values of single layouts."""
    text = re.sub(r"^the layout needs \S+ devices; (.+) has (\d+)$", r"needs more devices than the \2 of \1", reason)
    text = re.sub(r"\b(tp|pp|cp|dp|ep|attention_dp|microbatches)=\S+(?= )", lambda m: m[1], text)
    return re.sub(r"^\S+ ranks", "the ranks", text)


def figure(found: Estimate, layout: Layout, name: str) -> Any:
    """One figure of an estimate."""
    mid, memory = found.mid, found.memory
    if name == "devices":
        return layout.devices()
    if name == "memory_share":
        return memory.used / memory.capacity
    if name in _SIZES:
        return getattr(memory, name.removesuffix("_bytes").replace("weight", "weights"))
    if mid is None:
        return math.nan
    if name == "interactivity":
        return math.nan if mid.tpot is None else 1.0 / mid.tpot
    if name in ("cost", "cost_output"):
        value = (found.cost or {}).get("all" if name == "cost" else "output")
    elif name == "energy":
        value = found.energy
    else:
        value = getattr(mid, name)
    return math.nan if value is None else value


def _scalars(asked: Space, plan: Plan, group: Group, task: Task, names: tuple[str, ...]) -> tuple[Any, Any, list[str]]:
    """The same without NumPy: one point at a time."""
    kept, inner = plan.kept(task), plan.inner_values(task, group)
    reasons = ["", _MEMORY]
    codes: list[int] = []
    figures: dict[str, list[Any]] = {name: [] for name in names}
    points = [dict(zip(inner, row, strict=True)) for row in zip(*inner.values(), strict=True)] or [{}]
    for i in kept:
        layout = msgspec.structs.replace(group.layout, **{name: values[i] for name, values in plan.degrees.items()})
        for point in points:
            work = msgspec.structs.replace(asked.work, **{n: v for n, v in point.items() if n in WORK})
            system = hardware(group.system, {n: v for n, v in point.items() if n not in WORK})
            pricer = pricer_of(asked.prices, system, layout, group.profile, asked.engine)
            found = estimate(
                asked.model, group.precision, layout, system, work, group.profile, band=False, pricer=pricer
            )
            why = "" if found.fits else _MEMORY if found.feasible else _general(found.reasons[0])
            if why not in reasons:
                reasons.append(why)
            codes.append(reasons.index(why))
            for name in names:
                known = found.fits or (name in _SIZES and found.feasible)
                if name == "bound":
                    code = bound_of(_scene(asked, group, layout, system, pricer), work) if known else math.nan
                    figures[name].append(name_of(code))
                else:
                    figures[name].append(float(figure(found, layout, name)) if known else math.nan)
    return figures, codes, reasons


def run(
    asked: Space,
    *,
    figures: Sequence[str] = USUAL,
    keep: Sequence[str] = (),
    workers: int = 0,
    cluster: str | None = None,
    executor: concurrent.futures.Executor | None = None,
    journal: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    chunk: int = CHUNK,
) -> Frame:
    """Every point of a space.

    keep: objectives such as ("tpot", "max:throughput_per_device"); then only rows that can be on their frontier are kept,
    which is what a study too large for memory needs. workers: processes on this machine; cluster: address of a Dask
    scheduler; executor: any other. journal: a file that remembers finished chunks, so that a stopped run continues.
    progress(done, total) is called after every chunk; cancel() is asked before every chunk, and what is done is returned.
    """
    names = tuple(dict.fromkeys((*figures, *objectives(tuple(keep))[0])))
    for name in names:
        if name not in FIGURES:
            raise InputError(f"figures: {shown(name)} is not one of {', '.join(FIGURES)}")
    plan = plan_of(asked, chunk)
    book = Journal(journal, asked.digest(), (*names, *keep, str(chunk))) if journal is not None else None
    table = Rows(plan, names) if not keep else Kept(plan, names)
    left = {task.index: task for task in plan.tasks}
    points = 0

    def take(part: Part) -> None:
        nonlocal points
        if left.pop(part.index, None) is not None:
            points += part.points
            table.add(part)

    for _, part in book.read(Part) if book is not None else ():
        take(part)
    if progress is not None:
        progress(points, plan.rows)
    stopped = False
    work = partial(work_on, asked, names=names, keep=tuple(keep), chunk=chunk)
    for found in pools.results(
        work, list(left.values()), workers=workers, cluster=cluster, executor=executor, cancel=cancel
    ):
        if found is None:
            stopped = True
            break
        part = found[1]
        if book is not None and part.index in left:
            book.write(part)
        take(part)
        if progress is not None:
            progress(points, plan.rows)
    return table.frame(stopped)


__all__ = ["FIGURES", "Part", "hardware", "plan_of", "run", "work_on"]
