"""Predicting measured kernels, and saying by how much the predictions were off.

Every row of a table is priced with the catalog's parameters; a row that cannot be is counted with its reason. Figures are
of |predicted / measured − 1| by family, system, engine and number format; bias is the median of predicted over measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from rooflab.fitted import Fitted
from rooflab.measure import calibrate, operators, spelling, tables
from rooflab.measure.operators import Batch
from rooflab.parameters import Fits, fits_for
from rooflab.price import Roofline, rates_of
from rooflab.profiles import profile
from rooflab.system import System
from rooflab.units import InputError

Array = Any
Frame = Any


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one batch with what was predicted for them."""

    batch: Batch
    seconds: Array
    low: Array
    high: Array
    basis: str


def predict(batch: Batch, system: System, fits: Any = None, prices: str = "fitted") -> Prediction:
    """Seconds and band of every row of a batch on a machine; `prices` "roofline" gives the profile's rates instead."""
    import numpy

    layout, used = calibrate.layout_of(batch), profile("operator")
    if prices == "roofline":
        pricer: Any = Roofline(system, layout, used, rates_of(used, system.device.launch_time)["mid"])
        cost = pricer.cost(batch.op)
    else:
        backend = spelling.engine(batch.backend)[0] if batch.backend not in ("nccl", "vidur") else "any"
        found = fits if fits is not None else fits_for(system)
        version = batch.version.rpartition(", ")[2]
        pricer = Fitted(
            system, layout, used, backend, kernel=batch.kernel, dtype=batch.dtype, version=version, fits=found
        )
        cost = pricer.exchange(batch.op, batch.family) if batch.op.collective else pricer.cost(batch.op)
    time = numpy.maximum(cost.compute, cost.memory) + cost.comm + cost.overhead
    time = numpy.broadcast_to(time, batch.seconds.shape)
    low, high = cost.ends(time)
    return Prediction(batch=batch, seconds=time, low=low, high=high, basis=cost.basis)


def operators_of(
    sources: Iterable[Any], systems: dict[str, System] | None = None
) -> tuple[list[tuple[Batch, System]], dict[str, int]]:
    """Every batch of the tables given (paths or frames) with its machine, and the rows that have none, by reason."""
    found: list[tuple[Batch, System]] = []
    skipped: dict[str, int] = {}
    known: dict[str, System | None] = dict(systems or {})
    for source in sources:
        frame, name = (tables.load(source), Path(source).name) if isinstance(source, (str, Path)) else (source, "table")
        try:
            table = tables.check(frame, name, strict=False)
        except InputError as error:
            skipped[str(error)] = skipped.get(str(error), 0) + len(frame)
            continue
        for _line, reason in table.refused:
            skipped[f"refused: {reason}"] = skipped.get(f"refused: {reason}", 0) + 1
        batches, left = operators.batches(table)
        for reason, count in left.items():
            skipped[reason] = skipped.get(reason, 0) + count
        for batch in batches:
            if batch.system not in known:
                known[batch.system] = calibrate.system_of(batch.system)
            machine = known[batch.system]
            if machine is None:
                reason = f"system {batch.system!r} is not in the catalog"
                skipped[reason] = skipped.get(reason, 0) + len(batch.seconds)
            else:
                found.append((batch, machine))
    return found, skipped


BY = ("family", "system", "backend", "dtype")


def operators_errors(
    path: str | Path | Any,
    *,
    held: bool = False,
    prices: str = "fitted",
    left_out: Literal["", "device", "kin", "engine"] = "",
    by: Sequence[str] = BY,
) -> dict[str, Any]:
    """Errors of every row of a table, a folder of tables, or a frame, by family, system, engine and format.

    Returns {"operators": [{family, system, backend, dtype, n, predicted, median, mean, p90, bias, coverage}], "skipped":
    [{reason, n}]}. With `held` only the rows that no fit has seen count. With `left_out` fits are put away: those of the row's
    "device", so that it is predicted from the others; the same for a GPU of which nothing is known but its datasheet, "kin"; or
    those of the row's "engine", where another engine's kernels of the family were measured on the device.
    """
    sources: Sequence[Any] = tables.files(path) if isinstance(path, (str, Path)) else [path]
    batches, skipped = operators_of(sources)
    groups: dict[tuple[str, ...], list[Prediction]] = {}
    counted: dict[tuple[str, ...], int] = {}
    for batch, machine in batches:
        chosen = calibrate.take(batch, batch.held) if held else batch
        if not len(chosen.seconds):
            continue
        if left_out == "engine":
            if not _has_rivals(chosen, machine):
                continue
            chosen = msgspec.structs.replace(chosen, kernel="")
        key = tuple(getattr(batch, name) for name in by)
        counted[key] = counted.get(key, 0) + len(chosen.seconds)
        try:
            groups.setdefault(key, []).append(predict(chosen, machine, _unseen(chosen, machine, left_out), prices))
        except InputError as error:
            skipped[str(error)] = skipped.get(str(error), 0) + len(chosen.seconds)
    named = [(dict(zip(by, key, strict=True)), key, found) for key, found in sorted(groups.items()) if found]
    rows = [{**names, **summary(found, counted[key])} for names, key, found in named]
    return {"operators": rows, "skipped": [{"reason": reason, "n": count} for reason, count in skipped.items()]}


@lru_cache
def _fits(device: str, kind: str, clock: float | None, without: str) -> Fits:
    return Fits(device, kind, clock, without=without)


def _unseen(batch: Batch, system: System, left_out: str) -> Fits | None:
    """The fits a batch would get had nobody measured its device or its engine; None for what there is."""
    device = system.device
    name = "" if left_out == "kin" else device.name
    if left_out in ("device", "kin"):
        return _fits(name, device.kind, device.clock, device.name)
    return _fits(name, device.kind, device.clock, spelling.engine(batch.backend)[0]) if left_out == "engine" else None


def _has_rivals(batch: Batch, system: System) -> bool:
    """Whether another engine's kernels of the family were measured on the device."""
    if batch.backend in ("nccl", "vidur"):
        return False
    engine, family = spelling.engine(batch.backend)[0], calibrate.base_family(batch.family)
    own = [shelf for shelf in fits_for(system).shelves if shelf.device == system.device.name]
    return any(fit.family == family and fit.backend not in (engine, "any") for shelf in own for fit in shelf.fits)


def summary(found: Sequence[Prediction], count: int) -> dict[str, Any]:
    """n, how many were predicted, and median, mean and p90 error, bias and coverage of those."""
    import numpy

    measured = numpy.concatenate([one.batch.seconds for one in found])
    predicted = numpy.concatenate([one.seconds for one in found])
    inside = numpy.concatenate([(one.batch.seconds >= one.low) & (one.batch.seconds <= one.high) for one in found])
    error = numpy.abs(predicted / measured - 1.0)
    return {
        "n": count,
        "predicted": len(measured),
        "median": float(numpy.median(error)),
        "mean": float(numpy.mean(error)),
        "p90": float(numpy.quantile(error, 0.9)),
        "bias": float(numpy.median(predicted / measured)),
        "coverage": float(numpy.mean(inside)),
    }
