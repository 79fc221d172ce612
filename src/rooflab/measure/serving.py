"""Real serving runs: their arrivals and lengths replayed through the simulator, times compared request by request.

Two tables: runs (`run`, `gpu`, `model`, and the engine's limits where they are known) and their requests (`run`, `input_toks`,
`output_toks`, `arrival_s`, measured times in milliseconds). Nothing is fitted on a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rooflab import loaded
from rooflab.estimate import Scene, Workload
from rooflab.fits import feasible, layout_rules
from rooflab.fitted import Fitted
from rooflab.measure import endtoend, spelling
from rooflab.measure.endtoend import number, rows_of, whole
from rooflab.profiles import profile
from rooflab.sim.cluster import simulate
from rooflab.sim.compare import vllm_limits
from rooflab.sim.schedule import Limits
from rooflab.sim.surface import HostWork, SceneSurface, Segment, StepSurface
from rooflab.sim.traffic import Traffic
from rooflab.units import InputError
from rooflab.work import Layout

RUNS = ("run", "gpu", "model")
REQUESTS = ("run", "input_toks", "output_toks", "arrival_s")
TIMES = {"ttft": ("ttft_from_arrival_ms", "ttft_ms"), "tpot": ("tpot_ms",), "e2e": ("latency_ms", "e2e_ms")}
"""Columns of measured times, the best first."""
SLOTS, BUDGET, BLOCK = 256, 2048, 16
"""What vLLM does unless told otherwise: sequences at once, tokens an iteration, tokens a block."""
LIMIT = 10_000_000  # count
"""Tokens or sequences an engine's limit or a request has at most."""
_PER_SECOND = 1e3  # count

__all__ = ["REQUESTS", "RUNS", "is_requests", "is_runs", "predict", "read"]


def is_runs(columns: Sequence[str]) -> bool:
    """Whether a table holds runs."""
    return set(RUNS) <= set(columns)


def is_requests(columns: Sequence[str]) -> bool:
    """Whether a table holds requests of runs."""
    return set(REQUESTS) <= set(columns)


def read(path: str | Path) -> list[dict[str, str]]:
    """Rows of a table as they are written."""
    with Path(path).open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        return [row for _line, row, _fits in rows_of(path, stream)]


class Shared:
    """The iteration of one of several replicas that share their experts and step together: all as busy as this one."""

    def __init__(self, inner: StepSurface, replicas: int):
        self.inner, self.replicas, self.bits = inner, replicas, inner.bits

    def segment(self, batch: int, total: int) -> Segment:
        a, b, end = self.inner.segment(batch * self.replicas, total * self.replicas)
        return a, b * self.replicas, -(-end // self.replicas)

    def mixed(self, batch: int, total: int, chunks: list[tuple[int, int]]) -> int:
        return self.inner.mixed(batch * self.replicas, total * self.replicas, chunks * self.replicas)


def _yes(row: dict[str, str], name: str) -> bool:
    return (row.get(name) or "").strip().lower() in ("true", "1", "yes")


def _scene(row: dict[str, str], configs: str | Path | None, made: loaded.Engine) -> Scene:
    """The scene of a run, priced on measured kernels; replicas that share their experts are one scene."""
    model = spelling.model(row["model"], configs)
    tp, dp = whole(row, "tp", 1.0), whole(row, "dp", 1.0)
    together = dp if _yes(row, "ep") else 1
    layout, used = Layout(tp=tp, ep=tp * together if _yes(row, "ep") else 1, attention_dp=together), profile("operator")
    system = spelling.machine(row["gpu"], tp * together)
    holds, reasons = feasible(layout_rules(model, layout, system, used))
    if not holds:
        raise InputError(f"layout: {'; '.join(reasons)}")
    pricer = Fitted(system, layout, used, "vllm", version=row.get("vllm") or "", launch_scale=made.launch_scale)
    stated = spelling.number_format(row.get("dtype") or "") or spelling.format_in(row["model"])
    formats: dict[str, str] = dict.fromkeys(("attention", "ffn", "expert"), stated) if stated else {}
    precision = endtoend.precision_in(formats, model, row["model"])
    return Scene(model=model, precision=precision, layout=layout, system=system, profile=used, pricer=pricer)


def _limits(row: dict[str, str], scene: Scene, members: Sequence[dict[str, Any]], ahead: bool) -> Limits:
    """The engine's limits: from its log where it has them, else its defaults and the memory left beside the weights."""
    slots, budget = whole(row, "max_num_seqs", SLOTS, LIMIT), whole(row, "max_num_batched_tokens", BUDGET, LIMIT)
    block, cache = whole(row, "block_size", BLOCK, LIMIT), number(row, "kv_tokens", 0.0)
    if not cache:
        mean = [sum(m[name] for m in members) / len(members) for name in ("prompt", "output")]  # int
        work = Workload(batch=1, prompt=mean[0], output=mean[1])
        room = float(loaded.room_for(scene, work, budget)) / int(scene.layout.attention_dp)
        cache = room * (mean[0] + mean[1] / 2.0)
    if cache < 2 * block:
        raise InputError(f"memory: {row['gpu']} has no room for a request of this model beside its weights")
    limits = vllm_limits(cache, block, slots, budget)
    return msgspec.structs.replace(limits, asynchronous=ahead)


def _instant(row: dict[str, str], name: str) -> float:
    """Seconds since the start, zero included."""
    text = (row.get(name) or "").strip()
    return 0.0 if text and not text.strip("0.") else number(row, name)


def _members(requests: Sequence[dict[str, str]]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Requests by arrival with whole lengths and measured seconds, and how many could not be read, by reason."""
    found: list[dict[str, Any]] = []
    skipped: dict[str, int] = {}
    for row in requests:
        try:
            one: dict[str, Any] = {
                "arrival": _instant(row, "arrival_s"),
                "prompt": whole(row, "input_toks", most=LIMIT),
                "output": whole(row, "output_toks", most=LIMIT),
            }
            for name, columns in TIMES.items():
                column = next((c for c in columns if c in row), columns[0])
                one[name] = number(row, column, 0.0) / _PER_SECOND
        except InputError as problem:
            skipped[str(problem)] = skipped.get(str(problem), 0) + 1
            continue
        found.append(one)
    return sorted(found, key=lambda m: m["arrival"]), skipped


def _one(row: dict[str, str], members: list[dict[str, Any]], configs: str | Path | None) -> dict[str, Any]:
    """A run's errors: simulated over measured, less one."""
    version = row.get("vllm") or ""
    made = loaded.engine(endtoend.constants_of("vllm", version))
    ahead = made.name == "vllm"
    scene, replicas = _scene(row, configs, made), whole(row, "dp", 1.0)
    together = int(scene.layout.attention_dp)
    surface: StepSurface = SceneSurface(scene, host=HostWork.of(made, together))
    if together > 1:
        surface = Shared(surface, replicas)
    traffic = Traffic(
        arrival=[m["arrival"] for m in members],
        prompt=[m["prompt"] for m in members],
        output=[m["output"] for m in members],
        title=f"replay of {row['run']}",
    )
    limits = msgspec.structs.replace(_limits(row, scene, members, ahead), reach=float(made.arrival))
    run = simulate(
        traffic, surface, limits, replicas=replicas, routing="least_loaded" if replicas > 1 else "round_robin"
    )
    columns = run.columns()
    report: dict[str, Any] = {"run": row["run"], "n": len(members), "makespan_error": None}
    for name in TIMES:
        report[name] = _errors([m[name] for m in members], columns[name])
    ends = [m["arrival"] + m["e2e"] for m in members if m["e2e"]]
    if ends:
        report["makespan_error"] = run.makespan() / (max(ends) - members[0]["arrival"]) - 1.0
    return report


def _errors(measured: Sequence[float], ours: Sequence[float | None]) -> dict[str, float] | None:
    """Errors of the mean, the median and the 99th percentile, and the median error of single requests; None without times."""
    pairs = [(value, mine) for value, mine in zip(measured, ours, strict=True) if mine is not None and value > 0.0]
    if not pairs:
        return None
    import numpy

    real, mine = numpy.array(pairs).T
    errors = {"mean_error": float(mine.mean() / real.mean() - 1.0)}
    for name, share in (("median_error", 0.5), ("p99_error", 0.99)):
        errors[name] = float(numpy.quantile(mine, share) / numpy.quantile(real, share) - 1.0)
    return {**errors, "per_request": float(numpy.median(numpy.abs(mine / real - 1.0)))}


def predict(
    runs: Sequence[dict[str, str]], requests: Sequence[dict[str, str]], configs: str | Path | None = None
) -> tuple[list[dict[str, Any]], list[tuple[str, int]]]:
    """Errors of every run, and the reasons of runs and requests that cannot be replayed with their numbers of requests."""
    found: list[dict[str, Any]] = []
    skipped: list[tuple[str, int]] = []
    for row in runs:
        rows = [m for m in requests if m["run"] == row["run"]]
        members, refused = _members(rows)
        skipped += [(f"run {row['run']}: {reason}", count) for reason, count in refused.items()]
        try:
            if not members:
                raise InputError("has no requests that can be read")
            found.append(_one(row, members, configs))
        except (InputError, ValueError, ArithmeticError) as problem:
            skipped.append((f"run {row['run']}: {problem}", max(len(members), 1)))
    known = {row["run"] for row in runs}
    orphans = [m for m in requests if m["run"] not in known]
    if orphans:
        skipped.append(("requests of a run that no table of runs has", len(orphans)))
    return found, skipped
