"""Fitting engines' constants on measured closed loops, with priors, as `catalog/engines.toml` records them.

Engines share what is not theirs alone: a kernel's launch in a graph, the work of a prompt, the way of a request to the
scheduler. What differs is when the host works: between iterations, or ahead of the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import loaded
from rooflab.estimate import Workload
from rooflab.measure import endtoend, spelling
from rooflab.measure.endtoend import Run

SHARED = {"launch_scale": (0.82, 0.12), "request": (2.4e-3, 0.6), "arrival": (1.0e-2, 0.8)}
OWN = {"step": (8e-4, 0.6), "sequence": (1.2e-5, 0.8)}
"""What is believed before a fit: the value, and a standard deviation; of the logarithm, except for the share."""
BETWEEN = {"step": (1.6e-3, 0.6), "sequence": (2.2e-5, 0.8)}
"""The same of engines that schedule between iterations (`-sync`)."""
PLAIN = frozenset({"launch_scale"})
"""Constants that are shares rather than times."""
WEIGHT = 0.02
"""What a prior one standard deviation away costs, in mean |log ratio|."""
_ENDS = (0.5, 1.0)


def arrays(runs: Sequence[Run], configs: str | Path | None = None, batched: float = 8192.0) -> dict[str, Any]:
    """Kernel seconds of every run at two launch scales; what lies between is linear in the scale."""
    import numpy

    columns: dict[str, list[float]] = {}
    models: dict[str, Any] = {}
    for run in runs:
        if run.model not in models:
            models[run.model] = spelling.model(run.model, configs)
        for scale in _ENDS:
            scene = endtoend.scene_of(run, models[run.model], scale)
            pieces = loaded.pieces_of(scene, endtoend.work_of(run), run.flight, batched)
            for name in pieces.__struct_fields__:
                columns.setdefault(f"{name}@{scale}", []).append(float(getattr(pieces, name)))
        for name in ("prompt", "output", "flight", "ttft", "tpot"):
            columns.setdefault(name, []).append(getattr(run, name))
        columns.setdefault("throughput", []).append(run.throughput())
    return {name: numpy.array(values) for name, values in columns.items()}


def predict(columns: dict[str, Any], made: loaded.Engine) -> Any:
    """Figures of all runs with an engine's constants."""
    share = (made.launch_scale - _ENDS[0]) / (_ENDS[1] - _ENDS[0])

    def between(name: str) -> Any:
        return columns[f"{name}@{_ENDS[0]}"] * (1.0 - share) + columns[f"{name}@{_ENDS[1]}"] * share

    pieces = loaded.Pieces(**{name: between(name) for name in loaded.Pieces.__struct_fields__})
    work = Workload(batch=1, prompt=columns["prompt"], output=columns["output"])
    return loaded.combine(pieces, work, columns["flight"], made, 1, 1).figures


def _value(name: str, x: float) -> float:
    return min(max(x, 0.3), 1.2) if name in PLAIN else math.exp(x)


def _point(name: str, value: float) -> float:
    return value if name in PLAIN else math.log(value)


def fit(
    groups: Mapping[str, Sequence[Run]],
    engines: Mapping[str, loaded.Engine],
    configs: str | Path | None = None,
) -> dict[str, loaded.Engine]:
    """Constants of several engines from their closed-loop runs: mean |log ratio| of TPOT, throughput and half of TTFT.

    `engines` gives what is not fitted: how far prompts are worked in step, and turns. Needs SciPy (extra `calibrate`).
    """
    import numpy
    from scipy.optimize import minimize

    columns = {name: arrays(runs, configs) for name, runs in groups.items()}
    believed = {name: SHARED[name] for name in SHARED}
    for group in groups:
        own = BETWEEN if group.endswith("-sync") else OWN
        believed |= {f"{field} {group}": own[field] for field in OWN}
    start = numpy.array([_point(name.split()[0], value) for name, (value, _) in believed.items()])
    spread = numpy.array([deviation for _, deviation in believed.values()])

    def made(x: Any) -> dict[str, loaded.Engine]:
        found = {name: _value(name.split()[0], float(v)) for name, v in zip(believed, x, strict=True)}
        shared = {name: found[name] for name in SHARED}
        return {
            group: msgspec.structs.replace(engines[group], **shared, **{f: found[f"{f} {group}"] for f in OWN})
            for group in groups
        }

    def loss(x: Any) -> float:
        wrong = []
        for group, engine in made(x).items():
            found, measured = predict(columns[group], engine), columns[group]
            wrong.append(
                numpy.abs(numpy.log(found.tpot / measured["tpot"]))
                + numpy.abs(numpy.log(found.output_throughput / measured["throughput"]))
                + 0.5 * numpy.abs(numpy.log(found.ttft / measured["ttft"]))
            )
        return float(numpy.mean(numpy.concatenate(wrong)) + WEIGHT * numpy.sum(((x - start) / spread) ** 2))

    simplex = numpy.vstack([start, start + numpy.diag(spread) * 0.5])
    options = {
        "maxiter": 6000,
        "maxfev": 12000,
        "xatol": 1e-6,
        "fatol": 1e-7,
        "adaptive": True,
        "initial_simplex": simplex,
    }
    best = minimize(loss, start, method="Nelder-Mead", options=options)
    fields = (*SHARED, *OWN)
    return {
        group: msgspec.structs.replace(engine, **{f: float(f"{getattr(engine, f):.3g}") for f in fields})
        for group, engine in made(best.x).items()
    }
