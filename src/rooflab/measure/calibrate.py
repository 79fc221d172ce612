"""Fitting kernels' parameters to measurements, with priors: a fit that leaves them is not believed more than the data say.

The rule: least mean |log(predicted / measured)| plus a small penalty for leaving the priors, by Nelder–Mead, on a sample of
the rows of the shapes that are not held out. Bands are quantiles of measured over predicted time that eight in ten of the
shapes held out fall between.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import catalog, kernels
from rooflab.fitted import PEAK, Fitted
from rooflab.measure import operators, spelling, tables
from rooflab.measure.operators import Batch
from rooflab.parameters import Chosen, Fit
from rooflab.price import Roofline
from rooflab.profiles import profile
from rooflab.system import System
from rooflab.units import InputError, shown
from rooflab.work import Layout

Array = Any

SAMPLE = 4000
"""Rows a fit looks at; more change nothing."""
PENALTY = 0.02
ROUNDS = 500
"""Evaluations of each of three starts."""
LEAST_ROWS = 24
EDGES = (0.085, 0.915)
"""Quantiles of the rows fitted between which a band lies: eight in ten of shapes not seen, which scatter a little more."""
NOTHING = 0.01
"""Share of a kernel's fixed cost below which a further one is left out."""
CURRENT = 400
"""Rows the newest version of an engine must have to stand for it alone."""
SLOWEST = 100.0
"""Times its peak roofline, and a launch, above which a table's usual row is: then all its rows are in a wrong unit."""
LAUNCH = 1.0e-5
FASTEST = 0.25
"""Share of its peak roofline's time below which a row is taken for a wrong unit (caches allow a little)."""


class Pick:
    """Fits of one set of parameters, whatever is asked: what a fit in progress prices with."""

    def __init__(self, chosen: Chosen | None):
        self.chosen = chosen
        self.group = None

    def choose(
        self, family: str, _dtypes: tuple[str, ...], _backend: str, _kernel: str = "", _version: str = ""
    ) -> Chosen | None:
        return self.chosen if self.chosen is not None and self.chosen.source == family else None


def predict(batch: Batch, system: System, parameters: Any, dtype: str | None = None) -> Array:
    """Seconds of every row of a batch under a family's parameters."""
    family = base_family(batch.family)
    chosen = Chosen(parameters=parameters, low=1.0, high=1.0, basis="fitted", dtype=dtype or batch.dtype, source=family)
    return seconds(batch, Fitted(system, layout_of(batch), profile("operator"), fits=Pick(chosen)))


def layout_of(batch: Batch) -> Layout:
    """Ranks of a collective are tensor-parallel ones."""
    return Layout(tp=batch.op.peers) if batch.op.collective else Layout()


def base_family(name: str) -> str:
    """The family whose formula prices a batch: partitions of a table may be finer."""
    return name.removesuffix("_wide")


def seconds(batch: Batch, pricer: Fitted) -> Array:
    """Seconds of every row of a batch under a pricer."""
    import numpy

    if batch.op.collective:
        cost = pricer.exchange(batch.op, batch.family)
    else:
        cost = pricer.cost(batch.op)
    time = numpy.maximum(cost.compute, cost.memory) + cost.comm + cost.overhead
    return numpy.broadcast_to(time, batch.seconds.shape)


def take(batch: Batch, which: Array) -> Batch:
    """The rows of a batch that a mask or an index picks."""

    def cut(value: Any) -> Any:
        return value[which] if getattr(value, "shape", None) == batch.seconds.shape else value

    op = batch.op
    changes = {name: cut(getattr(op, name)) for name in _ROW_FIELDS}
    changes["shape"] = {name: cut(value) for name, value in op.shape.items()}
    return msgspec.structs.replace(
        batch,
        op=msgspec.structs.replace(op, **changes),
        seconds=batch.seconds[which],
        held=batch.held[which],
        lines=batch.lines[which],
    )


_ROW_FIELDS = (
    "m",
    "n",
    "k",
    "groups",
    "flop",
    "weight_bytes",
    "activation_bytes",
    "kv_bytes",
    "message_bytes",
    "peers",
)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One fit with its errors, and the batches it was made from."""

    fit: Fit
    batches: tuple[Batch, ...]


def sample(batch: Batch, rows: int, seed: int = 1) -> Batch:
    """At most so many rows, drawn evenly."""
    import numpy

    if len(batch.seconds) <= rows:
        return batch
    return take(batch, numpy.sort(numpy.random.default_rng(seed).choice(len(batch.seconds), rows, replace=False)))


def fit_parameters(training: Sequence[Batch], system: System, dtype: str) -> Any:
    """The parameters of one family that explain the training rows best without leaving their priors for nothing."""
    import numpy

    try:
        from scipy.optimize import minimize
    except ImportError:
        raise InputError("fitting needs SciPy; run: pip install 'rooflab[calibrate]'") from None
    family = base_family(training[0].family)
    priors = kernels.priors(family, dtype)
    names = list(priors)
    centre = numpy.array([priors[name][0] for name in names])
    spread = numpy.array([priors[name][1] for name in names])
    share = min(SAMPLE / sum(len(batch.seconds) for batch in training), 1.0)  # int
    parts = [sample(batch, math.ceil(share * len(batch.seconds))) for batch in training]

    def record(x: Array, chosen: dict[str, float]) -> Any:
        values = centre * numpy.exp(x)
        kept = {n: min(float(v), 1.0) if n in kernels.SHARES else float(v) for n, v in zip(names, values, strict=True)}
        return kernels.PARAMETERS[family](**kept, **chosen)

    def search(chosen: dict[str, float]) -> tuple[float, Any]:
        def loss(x: Array) -> float:
            return misfit(parts, system, record(x, chosen), dtype) + PENALTY * float(numpy.mean((x / spread) ** 2))

        best = numpy.zeros(len(names))
        value = loss(best)
        for step in (0.3, -0.25, 0.15):
            simplex = numpy.vstack([best, best + numpy.eye(len(names)) * step])
            options = {"maxfev": ROUNDS, "xatol": 1e-3, "fatol": 1e-6, "adaptive": True, "initial_simplex": simplex}
            found = minimize(loss, best, method="Nelder-Mead", options=options)
            if found.fun < value:
                best, value = found.x, float(found.fun)
        return value, record(best, chosen)

    ways = kernels.CHOICES.get(family, {})
    tried = [search(dict(zip(ways, each, strict=True))) for each in itertools.product(*ways.values())]
    return min(tried, key=lambda each: each[0])[1]


def misfit(parts: Sequence[Batch], system: System, parameters: Any, dtype: str) -> float:
    """Mean |log(predicted / measured)|."""
    import numpy

    return float(
        numpy.mean(
            numpy.concatenate(
                [numpy.abs(numpy.log(predict(part, system, parameters, dtype) / part.seconds)) for part in parts]
            )
        )
    )


def with_wide_groups(parameters: Any, wide: Sequence[Batch], system: System, dtype: str) -> Any:
    """Decode attention's parameters with the further seconds of groups that fill more than one row block."""
    from scipy.optimize import minimize_scalar

    parts = [sample(part, SAMPLE) for batch in wide if len((part := take(batch, ~batch.held)).seconds)]
    if sum(len(part.seconds) for part in parts) < LEAST_ROWS:  # int
        return parameters

    def tried(share: float) -> Any:
        return msgspec.structs.replace(parameters, wide=float(share) * parameters.launch)

    found = minimize_scalar(
        lambda share: misfit(parts, system, tried(share), dtype), bounds=(0.0, 1.0), method="bounded"
    )
    return tried(found.x)


def errors(predicted: Array, measured: Array) -> Array:
    """|predicted / measured − 1|."""
    import numpy

    return numpy.abs(predicted / measured - 1.0)


def calibrate_group(
    batches: Sequence[Batch],
    system: System,
    kernel: str = "",
    *,
    wide: Sequence[Batch] = (),
    spread: Sequence[Batch] = (),
) -> Measured:
    """One fit: parameters and band from the rows not held out, errors and coverage from those that are.

    `wide` are rows of wide groups of query heads, `spread` those whose scatter the band covers where they are more than
    the rows fitted: every kernel an engine ran, where a price does not name one.
    """
    import numpy

    first = batches[0]
    training = [take(b, ~b.held) for b in batches if (~b.held).any()] or list(batches)
    held = [take(b, b.held) for b in batches if b.held.any()]
    family, dtype = base_family(first.family), first.dtype
    parameters = fit_parameters(training, system, dtype)
    if wide:
        parameters = with_wide_groups(parameters, wide, system, dtype)

    def ratios(parts: Sequence[Batch]) -> Array:
        return numpy.concatenate([predict(p, system, parameters, dtype) / p.seconds for p in parts])

    inside = ratios(training)
    outside = ratios(held) if held else inside
    around = ratios([take(b, ~b.held) for b in spread if (~b.held).any()]) if spread else inside
    low, high = (float(q) for q in numpy.quantile(1.0 / around, EDGES))
    covered = float(numpy.mean((1.0 / outside >= low) & (1.0 / outside <= high)))
    fit = Fit(
        family=family,
        dtype=dtype,
        backend=first.backend if first.backend not in ("nccl", "vidur") else "any",
        parameters=msgspec.structs.asdict(parameters),
        kernel=kernel,
        version=", ".join(versions(batches)),
        rows=len(inside),
        held_rows=len(outside) if held else 0,
        fit_error=float(numpy.median(numpy.abs(inside - 1.0))),
        held_error=float(numpy.median(numpy.abs(outside - 1.0))),
        held_p90=float(numpy.quantile(numpy.abs(outside - 1.0), 0.9)),
        coverage=covered,
        band=(low, high),
    )
    return Measured(fit=fit, batches=tuple(batches))


def system_of(name: str) -> System | None:
    """The catalog's machine a table's system name means, None where there is none."""
    try:
        return spelling.machine(name)
    except InputError:
        return None


def impossible(batch: Batch, system: System) -> list[tuple[int, str]]:
    """Rows far below their peak roofline's time, or all of a batch that is far above: a wrong unit, not a kernel."""
    import numpy

    cost = Roofline(system, layout_of(batch), profile("operator"), PEAK).cost(batch.op)
    least = numpy.maximum(numpy.maximum(cost.compute, cost.memory), cost.comm) * FASTEST
    wrong = batch.seconds < least
    floors = numpy.broadcast_to(least / FASTEST, batch.seconds.shape)
    usual = float(numpy.median(batch.seconds / (floors + LAUNCH))) if len(batch.seconds) else 0.0
    if usual > SLOWEST:
        why = f"times are {usual:.0f} times the peak roofline in the median: is the unit milliseconds?"
        return [(int(line), f"{time:.3g} s: {why}") for line, time in zip(batch.lines, batch.seconds, strict=True)]
    return [
        (int(line), f"{time:.3g} s is below the peak roofline's {floor:.3g} s: is the unit milliseconds?")
        for line, time, floor in zip(batch.lines[wrong], batch.seconds[wrong], floors[wrong], strict=True)
    ]


def versions(batches: Sequence[Batch]) -> list[str]:
    """Every version measured, oldest first."""
    found = {version for batch in batches for version in batch.version.split(", ") if version}
    return sorted(found, key=operators.in_order)


def _kind(batch: Batch) -> tuple[str, str, str]:
    return batch.family, batch.dtype, batch.backend


def of_kind(batches: Sequence[Batch], kind: tuple[str, str, str], kernel: str = "") -> list[Batch]:
    """Batches of a family, format and engine, by one kernel or by all."""
    return [batch for batch in batches if _kind(batch) == kind and kernel in ("", batch.kernel)]


def _rows(batches: Sequence[Batch]) -> int:
    return sum(len(batch.seconds) for batch in batches)  # int


def groups_of(batches: Sequence[Batch]) -> dict[tuple[str, str, str, str], list[Batch]]:
    """Batches that share parameters: family, format, engine and kernel.

    Kernel "" is what the newest version runs for most shapes; all it runs where no kernel ran enough of them, and of
    convolutions, whose kernels are those of two phases and not rivals.
    """
    engines: dict[tuple[str, str, str], list[Batch]] = {}
    for batch in batches:
        engines.setdefault(_kind(batch), []).append(batch)
    found: dict[tuple[str, str, str, str], list[Batch]] = {}
    for key, group in engines.items():
        kernels_run = dict.fromkeys(batch.kernel for batch in group)
        newest = (versions(group) or [""])[-1]
        current = [batch for batch in group if newest in batch.version.split(", ")]
        enough = _rows(current) >= CURRENT
        usual = max(kernels_run, key=lambda name: _rows(of_kind(current, key, name)))
        most = of_kind(current, key, usual)
        rivals = key[0] != "convolution" and _rows(most) >= CURRENT
        found[(*key, "")] = (most if rivals else current) if enough else group
        if len(kernels_run) > 1:
            for name in kernels_run:
                found[(*key, name)] = of_kind(group, key, name)
    return found


def run(path: str | Path, device: str, families: Sequence[str] | None = None, strict: bool = True) -> dict[str, Any]:
    """Fit every family a table, or a folder of tables, has rows of for a device.

    Returns {"device", "fits", "refused", "skipped"}: records of `Fit`, lines refused with their file and reason, and rows
    that no fit could use by reason. Raises InputError where nothing can be fitted.
    """
    target = catalog.device(device)
    system = catalog.system(target.name)
    unknown = [name for name in families or () if name not in kernels.PARAMETERS]
    if unknown:
        raise InputError(f"family: {shown(unknown[0])} is not one of {', '.join(kernels.PARAMETERS)}")
    batches, refused, skipped = gather(path, target.name, system, strict)
    fits: list[Fit] = []
    found = groups_of(batches)
    for (family, dtype, backend, kernel), group in found.items():
        rows = _rows(group)
        if families and base_family(family) not in families:
            continue
        if family not in kernels.PARAMETERS:
            if (base_family(family), dtype, backend, "") not in found:
                skipped[f"{family}: nothing of {base_family(family)} to add it to"] = rows
            continue
        if rows < LEAST_ROWS:
            skipped[f"{family} {dtype} {backend} {kernel}: too few rows to fit".replace("  ", " ")] = rows
            continue
        wide = of_kind(batches, (f"{family}_wide", dtype, backend), kernel)
        spread = () if kernel else of_kind(batches, (family, dtype, backend))
        fits.append(calibrate_group(group, system, kernel, wide=wide, spread=spread).fit)
    if not fits:
        raise InputError(f"data: no rows of {target.name} to fit{_why(refused, skipped)}")
    return {
        "device": target.name,
        "fits": [msgspec.to_builtins(fit) for fit in fits],
        "refused": refused,
        "skipped": [{"reason": reason, "n": count} for reason, count in skipped.items()],
    }


def _why(refused: Sequence[dict[str, Any]], skipped: dict[str, int]) -> str:
    if refused:
        return f"; line {refused[0]['line']} of {refused[0]['file']}: {refused[0]['reason']}"
    return "".join(f"; {count} rows: {reason}" for reason, count in list(skipped.items())[:1])


def gather(
    path: str | Path, device: str, system: System, strict: bool = True
) -> tuple[list[Batch], list[dict[str, Any]], dict[str, int]]:
    """Every batch of a device in the tables at a path, what was refused, and what was skipped."""
    import numpy

    batches: list[Batch] = []
    refused: list[dict[str, Any]] = []
    skipped: dict[str, int] = {}
    for file in tables.files(path):
        table = tables.check(tables.load(file), file.name, strict)
        refused += [{"file": file.name, "line": line, "reason": reason} for line, reason in table.refused]
        systems = {name: system_of(str(name)) for name in table.frame["system"].unique()}
        mine = [name for name, found in systems.items() if found is not None and found.device.name == device]
        other = int((~table.frame["system"].isin(mine)).sum())
        if other:
            skipped["rows of other devices"] = skipped.get("rows of other devices", 0) + other
        own = msgspec.structs.replace(table, frame=table.frame[table.frame["system"].isin(mine)])
        found, left = operators.batches(own)
        for reason, count in left.items():
            skipped[reason] = skipped.get(reason, 0) + count
        for batch in found:
            wrong = impossible(batch, system)
            refused += [{"file": file.name, "line": line, "reason": reason} for line, reason in wrong]
            lines = {line for line, _ in wrong}
            batches.append(take(batch, ~numpy.isin(batch.lines, list(lines))) if lines else batch)
    return batches, refused, skipped
