"""How fast the engine answers, as ratios to plain Python work done in the same run (machines differ, ratios hardly do).

    python bench/engine.py [--json]

Measures: one estimate of an 80-layer model; a command-line answer, imports included; 10⁶ (layout × batch) points of
DeepSeek-V3 in one call, with the peak memory of the process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import numpy as np
from timing import best, yardstick

from rooflab import catalog, hf
from rooflab.estimate import Workload, estimate
from rooflab.profiles import profile
from rooflab.work import Layout, Precision

LIMITS = {"estimate_s": 1e-3, "command_line_s": 0.35, "million_points_s": 1.0, "peak_memory_bytes": 500e6}
"""What the project promises on a quiet core of its test machine."""


def one_estimate() -> float:
    """Llama-3.1-70B, tp 4, batch 32: 80 layers, band and operator detail included."""
    model, system, used = hf.load("llama-3.1-70b"), catalog.system("h100-sxm"), profile("operator")
    work = Workload(batch=32, prompt=1024, output=256)
    return best(lambda: estimate(model, Precision(), Layout(tp=4), system, work, used), 300)


def command_line() -> float:
    """The README's first question, as a user types it."""
    command = [sys.executable, "-m", "rooflab", "estimate", "llama-3.1-8b", "--on", "h100-sxm"]
    command += ["--batch", "32", "--prompt", "1024", "--output", "256", "--json"]
    return best(lambda: subprocess.run(command, check=True, capture_output=True), 7)


def million_points() -> float:
    """1,000 layouts × 1,000 batches of DeepSeek-V3: memory, TTFT, TPOT, throughput, cost and energy of each."""
    model, system, used = hf.load("deepseek-v3"), catalog.system("dgx-h100"), profile("operator")
    random = np.random.default_rng(1)
    degrees = {name: random.choice([1.0, 2.0, 4.0, 8.0], (1000, 1)) for name in ("tp", "attention_dp", "ep", "pp")}
    work = Workload(batch=np.arange(1.0, 1001.0)[None, :], prompt=2048, output=256)
    return best(lambda: estimate(model, Precision(), Layout(**degrees), system, work, used), 2)


def main() -> None:
    unit = yardstick()
    found = {"estimate_s": one_estimate(), "command_line_s": command_line(), "million_points_s": million_points()}
    found["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    ratios = {name: value / unit for name, value in found.items() if name.endswith("_s")}
    if "--json" in sys.argv:
        print(json.dumps({"yardstick_s": unit, "found": found, "ratios": ratios, "limits": LIMITS}, indent=2))
        return
    print(f"yardstick: {unit * 1e3:.2f} ms for 100,000 float additions in a Python loop")
    for name, value in found.items():
        limit = LIMITS[name]
        ratio = f", {ratios[name]:.2f} × yardstick" if name in ratios else ""
        print(f"{name:20s} {value:.4g} (limit {limit:g}, {'within' if value <= limit else 'OVER'}){ratio}")


if __name__ == "__main__":
    main()
