"""Fitting an engine's constants on measured runs, with priors, as `catalog/engines.toml` records them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import loaded
from rooflab.estimate import Workload
from rooflab.measure import endtoend, spelling
from rooflab.measure.endtoend import Run

FIELDS = ("launch_scale", "step", "request", "arrival", "synchrony")
PRIOR = {"launch_scale": 0.82, "step": 7.6e-4, "request": 2.4e-3, "arrival": 2.4e-2, "synchrony": 0.2}
SPREAD = {"launch_scale": 0.12, "step": 0.6, "request": 0.6, "arrival": 0.6, "synchrony": 0.3}
"""Standard deviations of the priors: absolute for the two shares, of the logarithm for the three times."""
WEIGHT = 0.02
"""What a prior one standard deviation away costs, in mean |log ratio|."""
_ENDS = (0.5, 1.0)


def _arrays(runs: Sequence[Run], configs: str | Path | None, batched: float) -> dict[str, Any]:
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
    return {name: numpy.array(values) for name, values in columns.items()}


def _predict(columns: dict[str, Any], made: loaded.Engine) -> Any:
    """Figures of all runs with an engine's constants."""
    share = (made.launch_scale - _ENDS[0]) / (_ENDS[1] - _ENDS[0])

    def between(name: str) -> Any:
        return columns[f"{name}@{_ENDS[0]}"] * (1.0 - share) + columns[f"{name}@{_ENDS[1]}"] * share

    pieces = loaded.Pieces(**{name: between(name) for name in loaded.Pieces.__struct_fields__})
    work = Workload(batch=1, prompt=columns["prompt"], output=columns["output"])
    return loaded.combine(pieces, work, columns["flight"], made, 1, 1).figures


def _engine(values: Sequence[float], name: str, batched: float) -> loaded.Engine:
    """An engine from unbounded values: logarithms of the times, the two shares held between their limits."""
    scale, step, request, arrival, sync = values
    return loaded.Engine(
        name=name,
        launch_scale=min(max(scale, 0.3), 1.2),
        step=math.exp(step),
        request=math.exp(request),
        arrival=math.exp(arrival),
        synchrony=min(max(sync, 0.0), 1.0),
        max_batched_tokens=batched,
    )


def fit(
    runs: Sequence[Run],
    name: str,
    configs: str | Path | None = None,
    *,
    batched: float = 8192.0,
    prior: dict[str, float] | None = None,
) -> loaded.Engine:
    """An engine's constants from its closed-loop runs: mean |log ratio| of TPOT, throughput and TTFT, plus the priors.

    Needs SciPy (extra `calibrate`).
    """
    import numpy
    from scipy.optimize import minimize

    columns = _arrays(runs, configs, batched)
    expected = prior or PRIOR
    start = [expected[f] if f in ("launch_scale", "synchrony") else math.log(expected[f]) for f in FIELDS]
    spread = [SPREAD[f] for f in FIELDS]
    rate = columns["flight"] * columns["output"] / (columns["ttft"] + (columns["output"] - 1.0) * columns["tpot"])

    def loss(values: Any) -> float:
        found = _predict(columns, _engine(values, name, batched))
        wrong = numpy.mean(numpy.abs(numpy.log(found.tpot / columns["tpot"])))
        wrong += numpy.mean(numpy.abs(numpy.log(found.output_throughput / rate)))
        wrong += 0.5 * numpy.mean(numpy.abs(numpy.log(found.ttft / columns["ttft"])))
        pull = sum(((v - s) / d) ** 2 for v, s, d in zip(values, start, spread, strict=True))  # int
        return float(wrong + WEIGHT * pull)

    best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 1500, "xatol": 1e-3, "fatol": 1e-5})
    made = _engine(best.x, name, batched)
    rounded = {field: float(f"{getattr(made, field):.3g}") for field in FIELDS}
    return msgspec.structs.replace(made, **rounded)
