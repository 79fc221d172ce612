"""Real serving runs: their arrivals and lengths replayed through the simulator, times compared request by request.

Two tables: runs (`run`, `gpu`, `model`, the engine's limits) and their requests (`run`, `input_toks`, `output_toks`, `arrival_s`,
measured times in milliseconds). Nothing is fitted on a run.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rooflab import loaded
from rooflab.estimate import Scene
from rooflab.fits import feasible, layout_rules
from rooflab.fitted import Fitted
from rooflab.measure import endtoend, tables
from rooflab.measure.endtoend import number
from rooflab.profiles import profile
from rooflab.sim.compare import replay, vllm_limits
from rooflab.sim.surface import SceneSurface
from rooflab.sim.traffic import Traffic
from rooflab.units import InputError
from rooflab.work import Layout, Precision

RUNS = ("run", "gpu", "model", "max_num_seqs", "max_num_batched_tokens", "kv_tokens", "block_size")
REQUESTS = ("run", "input_toks", "output_toks", "arrival_s", "ttft_ms", "tpot_ms", "latency_ms")
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
    with Path(path).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _scene(row: dict[str, str], configs: str | Path | None, made: loaded.Engine) -> Scene:
    """The scene of a run, priced on measured kernels."""
    model = endtoend.model_of(row["model"], configs)
    tp = int(number(row, "tp", 1.0))
    system = tables.machine(row["gpu"], tp)
    ep = tp if (row.get("ep") or "").strip().lower() in ("true", "1") else 1
    layout, used = Layout(tp=tp, ep=ep), profile("operator")
    holds, reasons = feasible(layout_rules(model, layout, system, used))
    if not holds:
        raise InputError(f"layout: {'; '.join(reasons)}")
    pricer = Fitted(system, layout, used, "vllm", launch_scale=made.launch_scale)
    kept: dict[str, Any] = {k: v for k, v in model.quantization.items() if k in Precision.__struct_fields__}
    return Scene(model=model, precision=Precision(**kept), layout=layout, system=system, profile=used, pricer=pricer)


def _one(row: dict[str, str], members: list[dict[str, str]], configs: str | Path | None) -> dict[str, Any]:
    """A run's errors: simulated over measured, less one."""
    if int(number(row, "dp", 1.0)) != 1:
        raise InputError(f"dp: {row['dp']} replicas share no log of which request went where")
    made = loaded.engine("vllm")
    scene = _scene(row, configs, made)
    members = sorted(members, key=lambda m: float(m["arrival_s"]))
    traffic = Traffic(
        arrival=[float(m["arrival_s"]) for m in members],
        prompt=[int(number(m, "input_toks")) for m in members],
        output=[int(number(m, "output_toks")) for m in members],
        title=f"replay of {row['run']}",
    )
    limits = vllm_limits(
        number(row, "kv_tokens"),
        int(number(row, "block_size")),
        int(number(row, "max_num_seqs")),
        int(number(row, "max_num_batched_tokens")),
    )
    first = "ttft_from_arrival_ms" if "ttft_from_arrival_ms" in members[0] else "ttft_ms"
    columns = {"ttft": first, "tpot": "tpot_ms", "e2e": "latency_ms"}
    measured = {name: [number(m, c, 0.0) / _PER_SECOND for m in members] for name, c in columns.items()}
    compared, _run = replay(traffic, SceneSurface(scene), limits, measured)
    report: dict[str, Any] = {"run": row["run"], "n": len(members), "makespan_error": compared.error["makespan"]}
    for name in columns:
        report[name] = {
            "mean_error": compared.error[f"{name}_mean"],
            "median_error": compared.error[f"{name}_p50"],
            "p99_error": compared.error[f"{name}_p99"],
            "per_request": compared.per_request[name],
        }
    return report


def predict(
    runs: Sequence[dict[str, str]], requests: Sequence[dict[str, str]], configs: str | Path | None = None
) -> tuple[list[dict[str, Any]], list[tuple[str, int]]]:
    """Errors of every run, and the reasons of those that cannot be replayed with their numbers of requests."""
    found: list[dict[str, Any]] = []
    skipped: list[tuple[str, int]] = []
    for row in runs:
        members = [m for m in requests if m["run"] == row["run"]]
        try:
            if not members:
                raise InputError(f"run {row['run']}: has no requests")
            found.append(_one(row, members, configs))
        except (InputError, ValueError) as problem:
            skipped.append((f"run {row['run']}: {problem}", len(members)))
    return found, skipped
