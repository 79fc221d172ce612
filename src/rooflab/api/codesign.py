"""Machines and layouts chosen together: the question, its steps, and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator

from rooflab.api.answers import header
from rooflab.api.design_asks import CodesignAsk, CodesignReport
from rooflab.api.resolve import model_of, precision_of, system_of
from rooflab.api.tables import table_of
from rooflab.sweep import joint
from rooflab.units import InputError

STOPPED = "stopped before every machine was tried"


def codesign_steps(ask: CodesignAsk) -> Generator[tuple[int, int], bool | None, CodesignReport | None]:
    """Machines and layouts together, a few machines at a time; None where it was stopped."""
    model = model_of(ask.model)
    precision, notes = precision_of(model, ask)
    system = system_of(ask.on, ask.changes)
    found = yield from joint.codesign_steps(
        model, system=system, context=ask.context, batch=ask.batch, mode=ask.mode, scope=ask.scope, depth=ask.depth,
        weights=ask.cost_weights, refit=ask.refit, precision=precision, outside=ask.outside,
    )  # fmt: skip
    if found is None:
        return None
    notes = [
        *model.notes,
        *notes,
        "the cost is a score: weight × multiple of each knob's default, added up; it is no price",
    ]
    if not found.pareto:
        notes.append(
            "no layout fits any of these machines: take a shorter context, fewer sequences or narrower formats"
        )
    doublings = [{k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
                 for row in found.doublings]  # fmt: skip
    return CodesignReport(
        **header(ask, CodesignReport, notes),
        name=model.name,
        system=system.name,
        totals=found.machines.totals,
        machines=table_of(found.machines),
        pareto=found.pareto,
        baseline=found.baseline,
        doublings=doublings,
    )


def answer_codesign(
    ask: CodesignAsk, *, progress: Callable[[int, int], None] | None = None, cancel: Callable[[], bool] | None = None
) -> CodesignReport:
    """Machines and layouts together; `progress` is told (machines done, machines).

    Raises InputError when `cancel` says so before the end: a part of the machines is no answer.
    """
    steps = codesign_steps(ask)
    stop: bool | None = None
    while True:
        try:
            done, total = steps.send(stop)
        except StopIteration as end:
            if end.value is None:
                raise InputError(STOPPED) from None
            return end.value
        if progress is not None:
            progress(done, total)
        stop = cancel is not None and cancel()
