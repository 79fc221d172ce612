"""A small sample of measured rows beside what was predicted for them, for a chart: `data/accuracy_points.json`.

The file is {"note", "units", "points", "families"}:

- `points`: [{family, system, label, measured, predicted, low, high}], and `fit` where a fit has seen the row. `family` is a
  kernel family (`gemm`, `decode_attention`, …) in seconds a call, or `tpot`, `ttft` (seconds) or `throughput` (output tokens a
  second) of an engine run; `units` names the unit of each family. `low` and `high` are the ends of the band. `label` says the
  engine, the format or model, and the sizes.
- `families`: [{family, n, median, p90, within_10, within_20, correlation, coverage}] over every row the sample was
  drawn from, of kernels those held out: shares within 10 and 20 %, and the correlation of the logarithms, as others state
  their accuracy.

Of a partition of kernels with many rows one is held out and one was fitted; of a small one, one is held out. Runs of the
model that the engines' constants were fitted on were seen, the others not. The rows of a partition are put in order of
measured time and taken at even steps, so the sample knows nothing of the errors and is the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rooflab.measure import calibrate, compare, endtoend, tables

Array = Any
Row = dict[str, Any]

FEW = 200
"""Rows from which on a partition of kernels shows a fitted one beside one held out."""
FITTED_MODEL = "Qwen3-32B"
"""Whose runs the constants of the engines were fitted on (`catalog/engines.toml`)."""
RUN_ROWS = 4
"""Rows shown of each partition of engine runs, per figure."""
FIGURES = ("tpot", "ttft", "throughput")
DIGITS = 3
NOTE = "Rows in data/ beside their predictions; those marked fit were seen by one. See docs/accuracy.md."

_SIZES: dict[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "batched_gemm": ("groups", "m", "n", "k"),
    "experts": ("routed", "hidden", "inter"),
    "decode_attention": ("sequences", "heads", "kv_heads", "head_dim", "context"),
    "prefill_attention": ("sequences", "heads", "kv_heads", "head_dim", "new"),
    "latent_decode": ("sequences", "heads", "context"),
    "latent_prefill": ("sequences", "heads", "new"),
    "convolution": ("tokens", "channels"),
    "scan": ("tokens", "heads", "key_dim"),
    "update": ("sequences", "heads", "key_dim"),
    "elementwise": ("activation_bytes",),
}
"""Numbers that name a row, by family; collectives have their message and peers."""
_SHORT = {
    "sequences": "seq",
    "kv_heads": "kv",
    "head_dim": "dim",
    "key_dim": "dim",
    "message_bytes": "byte",
    "activation_bytes": "byte",
    "routed": "pairs",
}
"""What labels call a number."""


def at_even_steps(measured: Sequence[float], rows: int) -> list[int]:
    """Positions of so many rows, evenly spaced in order of what was measured."""
    order = sorted(range(len(measured)), key=lambda i: (measured[i], i))
    if len(order) <= rows:
        return order
    return [order[int((step + 0.5) * len(order) / rows)] for step in range(rows)]


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _point(family: str, system: str, label: str, figures: Sequence[float], fit: bool) -> Row:
    values = dict(zip(("measured", "predicted", "low", "high"), map(_short, figures), strict=True))
    return {
        "family": family,
        "system": system.replace("_", "-"),
        "label": label,
        **values,
        **({"fit": True} if fit else {}),
    }


def _sizes(batch: Any, row: int) -> str:
    """The numbers that name a row of a batch: "m 128, n 4096, k 4096"."""
    op = batch.op
    found = []
    for name in _SIZES.get(calibrate.base_family(batch.family), ("message_bytes", "peers")):
        value = op.shape[name] if name in op.shape else getattr(op, name)
        value = value[row] if getattr(value, "shape", None) else value
        found.append(f"{_SHORT.get(name, name)} {float(value):.10g}")
    return ", ".join(found)


def kernel_points(folder: str | Path) -> tuple[list[Row], list[Row]]:
    """Sampled rows and figures by family of every kernel table in a folder."""
    batches, _skipped = compare.operators_of(tables.files(folder))
    groups: dict[tuple[str, str, str, str], list[compare.Prediction]] = {}
    fitted: dict[tuple[str, str, str, str], list[compare.Prediction]] = {}
    for batch, machine in batches:
        key = (batch.family, batch.system, batch.backend, batch.dtype)
        for found, rows in ((groups, batch.held), (fitted, ~batch.held)):
            chosen = calibrate.take(batch, rows)
            if len(chosen.seconds):
                found.setdefault(key, []).append(compare.predict(chosen, machine))
    points: list[Row] = []
    for key, members in sorted(groups.items()):
        points.append(_middle(key, members, fit=False))
        if sum(len(one.batch.seconds) for one in members) >= FEW and key in fitted:  # a count
            points.append(_middle(key, fitted[key], fit=True))
    families = dict.fromkeys(key[0] for key in sorted(groups))
    return points, [
        _kernel_family(name, [p for k, g in groups.items() if k[0] == name for p in g]) for name in families
    ]


def _middle(key: tuple[str, str, str, str], members: Sequence[compare.Prediction], fit: bool) -> Row:
    """The row in the middle of a partition, in order of measured time."""
    family, system, backend, dtype = key
    places = [(one, row) for one in members for row in range(len(one.batch.seconds))]
    at = at_even_steps([float(one.batch.seconds[row]) for one, row in places], 1)[0]
    one, row = places[at]
    name = backend if dtype == "any" else f"{backend} {dtype}"
    return _point(family, system, f"{name}, {_sizes(one.batch, row)}", _figures(one, row), fit)


def _figures(one: compare.Prediction, row: int) -> list[float]:
    import numpy

    shape = one.batch.seconds.shape
    return [float(numpy.broadcast_to(v, shape)[row]) for v in (one.batch.seconds, one.seconds, one.low, one.high)]


def _kernel_family(name: str, members: Sequence[compare.Prediction]) -> Row:
    import numpy

    def joined(values: list[Array]) -> Array:
        sized = zip(values, members, strict=True)
        return numpy.concatenate([numpy.broadcast_to(value, one.batch.seconds.shape) for value, one in sized])

    measured, predicted = joined([p.batch.seconds for p in members]), joined([p.seconds for p in members])
    low, high = joined([p.low for p in members]), joined([p.high for p in members])
    return _family(name, measured, predicted, (low <= measured) & (measured <= high))


def _family(name: str, measured: Array, predicted: Array, inside: Array) -> Row:
    """How far a family's rows are off, in the terms others use."""
    import numpy

    error = numpy.abs(predicted / measured - 1.0)
    return {
        "family": name,
        "n": len(measured),
        "median": _short(float(numpy.median(error))),
        "p90": _short(float(numpy.quantile(error, 0.9))),
        "within_10": _short(float(numpy.mean(error <= 0.1))),
        "within_20": _short(float(numpy.mean(error <= 0.2))),
        "correlation": _short(float(numpy.corrcoef(numpy.log(measured), numpy.log(predicted))[0, 1])),
        "coverage": _short(float(numpy.mean(inside))),
    }


def run_points(files: Sequence[str | Path], configs: str | Path | None = None) -> tuple[list[Row], list[Row]]:
    """Sampled rows and figures by kind of every table of engine runs."""
    import numpy

    found = [one for file in files for one in endtoend.predict(endtoend.read(file)[0], configs)[0]]
    groups: dict[tuple[str, str, str], list[endtoend.Predicted]] = {}
    for one in found:
        groups.setdefault((one.run.model, one.run.system, one.run.backend), []).append(one)
    points: list[Row] = []
    for figure in FIGURES:
        for (model, system, backend), members in sorted(groups.items()):
            for at in at_even_steps([one.measured(figure) for one in members], RUN_ROWS):
                run, measured = members[at].run, members[at].measured(figure)
                sizes = f"tp {run.tp}, {run.prompt:.0f} in, {run.output:.0f} out, {run.flight:.0f} at once"
                ratios = (1.0, getattr(members[at], figure), members[at].low[figure], members[at].high[figure])
                name = model.split("/")[-1]
                figures = [measured * ratio for ratio in ratios]
                points.append(_point(figure, system, f"{backend} {name}, {sizes}", figures, name == FITTED_MODEL))
    rows = []
    for figure in FIGURES:
        measured = numpy.array([one.measured(figure) for one in found])
        ratio = numpy.array([getattr(one, figure) for one in found])
        inside = numpy.array([one.low[figure] <= 1.0 <= one.high[figure] for one in found])
        rows.append(_family(figure, measured, measured * ratio, inside))
    return points, rows


def sample(data: str | Path) -> dict[str, Any]:
    """The whole file for a folder of tables laid out as the project's `data`."""
    kernels, kernel_rows = kernel_points(Path(data) / "operators")
    runs, run_rows = run_points(sorted((Path(data) / "endtoend").glob("*.csv")))
    families = run_rows + kernel_rows
    units = {row["family"]: "token/s" if row["family"] == "throughput" else "s" for row in families}
    return {"note": NOTE, "units": units, "points": runs + kernels, "families": families}
