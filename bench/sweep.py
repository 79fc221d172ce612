"""How fast design questions are answered, as CPU seconds on one core and as ratios to plain Python in the same run.

    python bench/sweep.py [--json]

Measures: the sharded sweep of 27,648 layouts with its frontier, with NumPy and without it; 729 machines × 1,728 layouts; all
serving layouts of DeepSeek-V3 on up to 64 devices of eight kinds; 10⁶ points of a space at the roofline and at fitted
prices; points per second of a study that keeps its frontier only; the peak memory of the process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from functools import partial

import timing

from rooflab import catalog, hf, sweep
from rooflab.model import Attention, Block, Dense, Model
from rooflab.sweep.serving import OBJECTIVES, serving_space
from rooflab.sweep.spaces import Space, space

LIMITS = {
    "sharded_s": 0.060, "sharded_plain_s": 4.0, "codesign_s": 1.5, "serving_s": 5.0, "million_s": 1.0, "million_fitted_s": 5.0,
    "peak_memory_bytes": 1e9,
}  # fmt: skip
"""What the project promises on a quiet core; without NumPy in a browser."""
KINDS = ("dgx-h100", "hgx-h200", "dgx-b200", "dgx-b300", "gb200-nvl72", "mi300x-x8", "mi355x-x8", "hgx-h20")


best = partial(timing.best, clock=time.process_time)
"""Least CPU time: what others do on the machine counts little."""
yardstick = partial(timing.yardstick, time.process_time)


def dense_8b() -> Model:
    """The reference's default model: 36 layers of 32 query and 8 KV heads, hidden 4,096, feed-forward 12,288."""
    mixer = Attention(heads=32, kv_heads=8, head_dim=128, value_dim=128)
    block = Block(count=36, mixer=mixer, ffn=Dense(width=12288))
    return Model(name="dense 8B", hidden=4096, vocab=151936, blocks=(block,))


def sharded(vectorise: bool) -> None:
    frame = sweep.sharded(dense_8b(), system=catalog.system("sip"), context=131072, vectorise=vectorise)
    sweep.pareto(frame)


def codesign() -> None:
    sweep.codesign(dense_8b(), system=catalog.system("sip"), context=131072, depth="coarse")


def serving() -> int:
    """All serving layouts of DeepSeek-V3 on up to 64 devices of eight kinds, two formats, ten batches, and the frontier."""
    systems = {name: catalog.system(name) for name in KINDS}
    frame = sweep.run(serving_space(hf.load("deepseek-v3"), systems, most=64, weights=("fp8", "nvfp4")))
    frame.pareto(OBJECTIVES)
    return len(frame)


def million_points(prices: str) -> Space:
    vary = {"tp": (1, 2, 4, 8), "attention_dp": (1, 2, 4, 8), "ep": (1, 2, 4, 8, 16, 32), "pp": (1, 2, 4)}
    batches = {"batch": tuple(range(1, 3473))}
    return space(hf.load("deepseek-v3"), on=catalog.system("dgx-h100"), vary={**vary, **batches}, prices=prices)


def million(prices: str) -> None:
    sweep.run(million_points(prices))


def study() -> float:
    """Points per second and core of a study that keeps only its frontier, as one too large for memory does."""
    asked = million_points("roofline")
    goals = ("max:throughput_per_device", "tpot")
    seconds = best(lambda: sweep.run(asked, figures=("tpot",), keep=goals), 3)
    return 999_936 / seconds


def main() -> None:
    unit = yardstick()
    found = {
        "sharded_s": best(lambda: sharded(True), 10),
        "sharded_plain_s": best(lambda: sharded(False), 2),
        "codesign_s": best(codesign, 5),
        "serving_s": best(serving, 3),
        "million_s": best(lambda: million("roofline"), 3),
        "million_fitted_s": best(lambda: million("fitted"), 2),
        "study_points_per_second": study(),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
    }
    ratios = {name: value / unit for name, value in found.items() if name.endswith("_s")}
    if "--json" in sys.argv:
        print(json.dumps({"yardstick_s": unit, "found": found, "ratios": ratios, "limits": LIMITS}, indent=2))
        return
    print(f"yardstick: {unit * 1e3:.2f} ms for 100,000 float additions in a Python loop")
    for name, value in found.items():
        limit, ratio = LIMITS.get(name), f", {ratios[name]:.2f} × yardstick" if name in ratios else ""
        verdict = "" if limit is None else f" (limit {limit:g}, {'within' if value <= limit else 'OVER'})"
        print(f"{name:24s} {value:.4g}{verdict}{ratio}")


if __name__ == "__main__":
    main()
