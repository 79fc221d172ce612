"""Machines and layouts chosen together: the question, its steps, and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from rooflab.api.answers import header
from rooflab.api.design_asks import CodesignAsk, CodesignReport
from rooflab.api.resolve import model_of, precision_of, system_of
from rooflab.api.tables import table_of
from rooflab.model import Model
from rooflab.sweep import joint
from rooflab.system import System
from rooflab.units import InputError

STOPPED = "stopped before every machine was tried"


def codesign_parts(ask: CodesignAsk, stopped: Callable[[], bool]) -> Iterator[tuple[int, int] | CodesignReport]:
    """Machines and layouts together, a few machines at a time: (machines done, machines) after each part, the report last.

    Raises InputError when `stopped` says so before the end: a part of the machines is no answer.
    """
    model = model_of(ask.model)
    precision, notes = precision_of(model, ask)
    system = system_of(ask.on, ask.changes)
    found = yield from joint.codesign_steps(
        model, system=system, context=ask.context, batch=ask.batch, mode=ask.mode, scope=ask.scope, depth=ask.depth,
        weights=ask.cost_weights, refit=ask.refit, precision=precision, outside=ask.outside, stopped=stopped,
    )  # fmt: skip
    if found is None:
        raise InputError(STOPPED)
    yield _report(ask, model, system, found, notes)


def _report(ask: CodesignAsk, model: Model, system: System, found: joint.Codesign, notes: list[str]) -> CodesignReport:
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
    """Machines and layouts together; `progress` is told (machines done, machines). InputError where `cancel` ends it early."""
    for part in codesign_parts(ask, cancel or (lambda: False)):
        if isinstance(part, CodesignReport):
            return part
        if progress is not None:
            progress(*part)
    raise AssertionError("the last part is the report")
