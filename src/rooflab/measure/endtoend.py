"""Engine runs: reading them, predicting every row, and fitting an engine's few constants.

Two kinds of table: closed-loop runs (`concurrency`, `ttft_ms`, `tpot_ms`) and batches that start together (`prefill_ms`,
`tbt_ms`). A row that cannot be predicted is counted with its reason, never dropped.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import loaded
from rooflab.estimate import Scene, Workload, estimate
from rooflab.fits import feasible, layout_rules
from rooflab.fitted import Fitted
from rooflab.measure import spelling
from rooflab.model import Model, MoE
from rooflab.parameters import STOCK
from rooflab.profiles import profile
from rooflab.units import InputError, shown
from rooflab.work import FORMATS, Layout, Precision

RANDOM_LENGTHS = 0.9
"""Mean share of the nominal lengths in runs that draw them at random (data/README.md)."""
SMALLEST, LARGEST = 1e-6, 1e12  # count
"""What figures of a run lie between: times in milliseconds, lengths, counts."""
DEVICES = 16384  # count
"""Devices no run has more of."""
_CLOSED = ("system", "backend", "model_path", "isl", "osl", "concurrency", "tp_size", "ttft_ms", "tpot_ms")
_BATCHES = ("model", "hardware", "tensor_parallel", "isl", "osl", "batch_size", "prefill_ms", "tbt_ms")
_ONE_LOOP = ("", "agg", "aggregated", "nan")
"""What `mode` says where one engine works prompts and answers."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One measured configuration; seconds."""

    line: int
    kind: str
    """closed or batch."""
    model: str
    system: str
    backend: str
    version: str
    tp: int
    pp: int
    attention_dp: int
    ep: int
    formats: dict[str, str]
    prompt: float
    output: float
    flight: float
    ttft: float
    tpot: float
    varied: bool
    """Whether lengths were drawn at random."""
    group: str
    """Names runs that differ only in layout and load."""

    def throughput(self) -> float:
        """Output tokens a second that the measured times mean."""
        return self.flight * self.output / (self.ttft + (self.output - 1.0) * self.tpot)


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its prediction: predicted / measured, and the ends of the band over measured."""

    run: Run
    tpot: float
    ttft: float
    throughput: float
    low: dict[str, float]
    high: dict[str, float]

    def measured(self, name: str) -> float:
        """What was measured: seconds of "ttft" or "tpot", or output tokens a second of "throughput"."""
        return self.run.throughput() if name == "throughput" else getattr(self.run, name)


def number(row: dict[str, str], name: str, least: float | None = None) -> float:
    """A figure of a row; an empty cell is `least` where the column may be missing.

    Raises InputError naming the column.
    """
    text = (row.get(name) or "").strip()
    if text in ("", "nan", "NaN") and least is not None:
        return least
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{name}: {shown(text)} is not a number") from None
    if not math.isfinite(value) or value <= 0.0:
        raise InputError(f"{name}: {shown(text)} must be above zero")
    if not SMALLEST <= value <= LARGEST:
        raise InputError(f"{name}: {shown(text)} must be between {SMALLEST:g} and {LARGEST:g}")
    return value


def whole(row: dict[str, str], name: str, least: float | None = None, most: int = DEVICES) -> int:
    """A count of a row.

    Raises InputError naming the column where it is no whole number, or above `most`.
    """
    value = number(row, name, least)
    if value != int(value) or value > most:
        raise InputError(f"{name}: {shown(row.get(name))} must be a whole number, {most} at most")
    return int(value)


def rows_of(path: str | Path, stream: Iterable[str]) -> Iterator[tuple[int, dict[str, str], bool]]:
    """(line, cells by column, whether the line has as many cells as the header) of a text table.

    Raises InputError where the text cannot be taken apart.
    """
    reader = csv.DictReader(stream, restkey="", restval=None)
    try:
        for row in reader:
            rest = row.pop("", None)
            fits = None not in row.values() and not (isinstance(rest, list) and any(rest))
            yield reader.line_num, {name: value or "" for name, value in row.items()}, fits
    except csv.Error as problem:
        raise InputError(f"{Path(path).name}: line {reader.line_num + 1} cannot be read: {problem}") from None


def read(path: str | Path) -> tuple[list[Run], list[tuple[int, str]]]:
    """Runs of a table, and the lines refused with their reasons.

    Raises InputError when the table is of neither kind.
    """
    with Path(path).open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        try:
            columns = next(csv.reader(stream), [])
        except csv.Error as problem:
            raise InputError(f"{Path(path).name}: line 1 cannot be read: {problem}") from None
        kinds = {"closed": (_CLOSED, _closed), "batch": (_BATCHES, _batch)}
        found = next((k for k, (needed, _) in kinds.items() if set(needed) <= set(columns)), None)
        if found is None:
            raise InputError(
                f"{Path(path).name}: is neither closed-loop runs ({', '.join(_CLOSED)}) nor batches ({', '.join(_BATCHES)})"
            )
        runs, refused = [], []
        stream.seek(0)
        for line, row, fits in rows_of(path, stream):
            try:
                if not fits:
                    raise InputError("has more or fewer cells than the header")
                runs.append(kinds[found][1](line, row))
            except InputError as problem:
                refused.append((line, str(problem)))
    return runs, refused


def _formats(row: dict[str, str]) -> dict[str, str]:
    """Number formats a row states for its matrix products and its cache, else the one its model's name says."""
    whole = spelling.number_format(row.get("precision") or "") or spelling.format_in(row["model_path"])
    stated: dict[str, str] = dict.fromkeys(("attention", "ffn", "expert"), whole) if whole else {}
    columns = {
        "gemm_quant_mode": ("attention", "ffn"),
        "moe_quant_mode": ("expert",),
        "kvcache_quant_mode": ("kv",),
        "kv_cache_dtype": ("kv",),
    }
    for column, classes in columns.items():
        name = spelling.number_format(row.get(column) or "")
        if name:
            stated.update(dict.fromkeys(classes, name))
    return stated


def _closed(line: int, row: dict[str, str]) -> Run:
    """A closed-loop run; lengths drawn at random are shorter than nominal on average."""
    if (row.get("mode") or "").strip().lower() not in _ONE_LOOP:
        raise InputError(f"mode: {shown(row['mode'])} is not one engine's loop, so its times are not predicted")
    _, version = spelling.engine(row["backend"])
    random = "inferencex" in (row.get("origin") or "")
    share = RANDOM_LENGTHS if random else 1.0
    prompt, output = number(row, "isl") * share, number(row, "osl") * share
    return Run(
        line=line,
        kind="closed",
        model=row["model_path"],
        system=row["system"],
        backend=row["backend"],
        version=row.get("backend_version") or version,
        tp=whole(row, "tp_size"),
        pp=whole(row, "pp_size", 1.0),
        attention_dp=whole(row, "attention_dp_size", 1.0),
        ep=whole(row, "moe_ep_size", 1.0),
        formats=_formats(row),
        prompt=prompt,
        output=max(output, 2.0),
        flight=number(row, "concurrency"),
        ttft=number(row, "ttft_ms") / 1e3,  # count
        tpot=number(row, "tpot_ms") / 1e3,  # count
        varied=random,
        group=f"{row['model_path']} {row['backend']} {row['isl']}/{row['osl']}",
    )


def _batch(line: int, row: dict[str, str]) -> Run:
    """A batch that starts together."""
    return Run(
        line=line,
        kind="batch",
        model=row["model"],
        system={"a100-80gb": "a100-sxm-80gb", "h100-80gb": "h100-sxm"}.get(row["hardware"], row["hardware"]),
        backend=row.get("backend") or "vllm",
        version=row.get("version") or "",
        tp=whole(row, "tensor_parallel"),
        pp=1,
        attention_dp=1,
        ep=1,
        formats={},
        prompt=number(row, "isl"),
        output=number(row, "osl"),
        flight=number(row, "batch_size"),
        ttft=number(row, "prefill_ms") / 1e3,  # count
        tpot=number(row, "tbt_ms") / 1e3,  # count
        varied=False,
        group=f"{row['model']} {row['hardware']} {row['isl']}/{row['osl']}",
    )


def precision_in(stated: dict[str, str], model: Model, name: str = "") -> Precision:
    """Formats a model runs in: the checkpoint's own, else those stated; a cache format that is stated counts anyway.

    Where the model's name says a format of another width than the config's, the config is that of its original: its
    feed-forward and experts are in the format named.
    """
    plain = "bf16" if model.dtype == "fp32" else model.dtype
    formats: dict[str, str] = dict.fromkeys(("attention", "ffn", "expert", "embedding", "head"), plain)
    own = {key: value for key, value in model.quantization.items() if key in (*formats, "kv")}
    cache = {key: value for key, value in stated.items() if key == "kv"}
    named = spelling.format_in(name)
    renamed = {key: named for key in ("ffn", "expert") if named and key in own and not _alike(named, own[key])}
    chosen: dict[str, Any] = {**formats, **(own or stated), **renamed, **cache}
    return Precision(**chosen)


def _alike(one: str, other: str) -> bool:
    """Whether two formats are about equally wide, so that one is a spelling of the other."""
    return 0.7 < FORMATS[one].size / FORMATS[other].size < 1.4


def scene_of(run: Run, model: Model, launch_scale: float) -> Scene:
    """The scene of a run, its kernels priced by the fits of its engine as it is today: who publishes runs asks for fast kernels.

    Raises InputError where device, layout or engine is not one there is.
    """
    ep = run.ep if any(isinstance(block.ffn, MoE) for block in model.blocks) else 1
    layout, used = Layout(tp=run.tp, pp=run.pp, ep=ep, attention_dp=run.attention_dp), profile("operator")
    system = spelling.machine(run.system, int(layout.devices()))
    holds, reasons = feasible(layout_rules(model, layout, system, used))
    if not holds:
        raise InputError(f"layout: {'; '.join(reasons)}")
    backend, _ = spelling.engine(run.backend)
    pricer = Fitted(system, layout, used, KERNELS.get(backend, backend), launch_scale=launch_scale)
    return Scene(
        model=model,
        precision=precision_in(run.formats, model, run.model),
        layout=layout,
        system=system,
        profile=used,
        pricer=pricer,
    )


KERNELS = {"transformers": STOCK}
"""Engines that run another's kernels."""
SYNCHRONOUS_UNTIL = {"vllm": (0, 12)}
"""Newest version of an engine that schedules between iterations, as (major, minor)."""


def constants_of(name: str, version: str) -> str:
    """The constants of an engine in a version."""
    parts = [int(p) if p.isdigit() else 0 for p in version.lstrip("v").split(".")[:2]]
    old = len(parts) == 2 and tuple(parts) <= SYNCHRONOUS_UNTIL.get(name, (-1, 0))
    return f"{name}-sync" if old else name


def engine_of(run: Run) -> loaded.Engine:
    """Constants for a run's engine and version; batches that start together ran on an older one."""
    name, _ = spelling.engine(run.backend)
    old = run.kind == "batch" and name == "vllm"
    made = loaded.engine("batch" if old else constants_of(name, run.version))
    return loaded.of_varied_lengths(made) if run.varied else made


def work_of(run: Run) -> Workload:
    """A run's lengths."""
    return Workload(batch=run.flight, prompt=run.prompt, output=run.output)


def figures(run: Run, scene: Scene, made: loaded.Engine, end: str = "mid") -> tuple[float, float, float]:
    """(TTFT, TPOT, output tokens a second) of a run."""
    if run.kind == "batch":
        return batch_figures(run, scene, made, end)
    loop = loaded.closed_loop(scene, work_of(run), run.flight, made, end=end)
    if loop.pieces.room < 1:
        raise InputError(f"memory: {run.system} × {run.tp} has no room for a request of this model beside its weights")
    found = loop.figures
    return found.ttft, found.tpot or 0.0, found.output_throughput


def batch_figures(run: Run, scene: Scene, made: loaded.Engine, end: str = "mid") -> tuple[float, float, float]:
    """A batch that starts together: one prefill, then decode steps, each with the engine's host work and exchanges."""
    found = estimate(
        scene.model,
        scene.precision,
        scene.layout,
        scene.system,
        work_of(run),
        scene.profile,
        ignore_memory=True,
        band=end != "mid",
        pricer=scene.pricer,
    )
    if found.mid is None or found.mid.tpot is None or found.prefill is None or found.decode is None:
        raise InputError("output: a batch needs two tokens or more to have a time between tokens")
    count = math.fsum(op.count for op in found.decode_operators)
    decode = found.mid.tpot + (found.decode.comm or 0.0) * (made.decode_exchange - 1.0)
    tpot = loaded.eager_step(decode, count, made.eager, made.step)
    ttft = found.mid.ttft + (found.prefill.comm or 0.0) * (made.prefill_exchange - 1.0) + made.request + made.arrival
    if end != "mid":
        side = getattr(found, end)
        tpot, ttft = tpot * side.tpot / found.mid.tpot, ttft * side.ttft / found.mid.ttft
    return ttft, tpot, run.flight * run.output / (ttft + (run.output - 1.0) * tpot)


def predict(
    runs: Sequence[Run], configs: str | Path | None = None, band: bool = True
) -> tuple[list[Predicted], list[tuple[str, int]]]:
    """Every run's prediction, and the reasons of those that have none with their number."""
    found: list[Predicted] = []
    skipped: dict[str, int] = {}
    models: dict[str, Model] = {}
    for run in runs:
        try:
            if run.model not in models:
                models[run.model] = spelling.model(run.model, configs)
            made = engine_of(run)
            scene = scene_of(run, models[run.model], made.launch_scale)
            mid = figures(run, scene, made)
            ends = [figures(run, scene, made, end) for end in ("low", "high")] if band else [mid, mid]
        except (InputError, ArithmeticError) as problem:
            reason = str(problem)
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        measured = (run.ttft, run.tpot, run.throughput())
        names = ("ttft", "tpot", "throughput")
        ratios = dict(zip(names, (m / x for m, x in zip(mid, measured, strict=True)), strict=True))
        bounds = [dict(zip(names, (e / x for e, x in zip(one, measured, strict=True)), strict=True)) for one in ends]
        low = {n: min(b[n] for b in bounds) for n in names}
        high = {n: max(b[n] for b in bounds) for n in names}
        found.append(Predicted(run=run, low=low, high=high, **ratios))
    return found, sorted(skipped.items(), key=lambda pair: -pair[1])


def errors(ratios: Iterable[tuple[float, float, float]]) -> dict[str, float]:
    """Median, mean and 90th percentile of |predicted / measured − 1|, bias and band coverage of (ratio, low, high)."""
    rows = list(ratios)
    wrong = sorted(abs(r - 1.0) for r, _, _ in rows)
    middle = sorted(r for r, _, _ in rows)

    def quantile(values: list[float], share: float) -> float:
        return values[min(int(share * len(values)), len(values) - 1)]

    return {
        "median": quantile(wrong, 0.5),
        "mean": math.fsum(wrong) / len(wrong),
        "p90": quantile(wrong, 0.9),
        "bias": quantile(middle, 0.5) - 1.0,
        "coverage": sum(low <= 1.0 <= high for _, low, high in rows) / len(rows),  # int
    }


def table(found: Sequence[Predicted], total: Callable[[Run], tuple[str, ...]] | None = None) -> list[dict[str, Any]]:
    """Errors by model × system × engine."""
    key = total or (lambda run: (run.model, run.system, run.backend))
    groups: dict[tuple[str, ...], list[Predicted]] = {}
    for one in found:
        groups.setdefault(key(one.run), []).append(one)
    rows = []
    for names, members in sorted(groups.items()):
        row: dict[str, Any] = dict(zip(("model", "system", "backend"), names, strict=False))
        row["n"] = row["predicted"] = len(members)
        for name in ("tpot", "ttft", "throughput"):
            row[name] = errors((getattr(p, name), p.low[name], p.high[name]) for p in members)
        rows.append(row)
    return rows
