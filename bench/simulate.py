"""Speed of the serving simulator on one core, beside a plain loop that tells how fast the machine is just now.

python bench/simulate.py            the figures of docs/simulator.md
python bench/simulate.py 1000000    and a run of so many requests
"""

from __future__ import annotations

import sys
import time

from rooflab.api.answers import scene_of
from rooflab.api.resolve import setting_of
from rooflab.api.simulate_asks import SimulateAsk
from rooflab.sim import place, study
from rooflab.sim.cluster import simulate
from rooflab.sim.measure import measure
from rooflab.sim.surface import SceneSurface
from rooflab.sim.traffic import lengths, open_loop

LOOP = 10**6
NOMINAL = 0.06
"""Seconds of the loop on the core the bars are meant for."""


def calibrate() -> float:
    """CPU seconds of a plain loop."""
    best = 1e9
    for _ in range(3):
        start, total = time.process_time(), 0
        for i in range(LOOP):
            total += i * i
        best = min(best, time.process_time() - start)
    return best


def timed(action):
    """(CPU seconds, result), best of three."""
    best, result = 1e9, None
    for _ in range(3):
        start = time.process_time()
        result = action()
        best = min(best, time.process_time() - start)
    return best, result


def main() -> None:
    slow = calibrate() / NOMINAL
    print(f"plain loop of {LOOP:,}: {slow * NOMINAL:.3f} CPU s, {slow:.2f} × nominal")
    scene = scene_of(setting_of(SimulateAsk(model="llama-3.1-8b", on="h100-sxm")))
    prompt, output = lengths(1024, "prompt"), lengths(256, "output")
    limits = place.limits_for(scene, 1280.0)
    setup = study.Setup(surface=SceneSurface(scene), limits=limits)

    def make(rate, seed, count=2000):
        return open_loop(count, rate, prompt, output, seed=seed)

    full = study.saturation(setup, make(1.0, 0))
    print(f"saturated: {full:.1f} requests/s; figures below are requests per CPU second, and × slowness in brackets")
    for load in (0.05, 0.3, 0.7, 0.95, 1.3):
        traffic = make(load * full, 1, 20_000)
        bare, run = timed(lambda traffic=traffic: simulate(traffic, setup.surface, limits))
        whole, _ = timed(lambda traffic=traffic: _whole(traffic, setup.surface, limits))
        rates = [len(traffic) / seconds for seconds in (bare, whole)]
        text = ", ".join(f"{rate:,.0f} [{rate * slow:,.0f}]" for rate in rates)
        print(f"load {load:.0%}: engine, all with table {text}; {run.events / len(traffic):.2f} events a request")
    seconds, _ = timed(lambda: study.load_sweep(setup, make, [full * i / 10 for i in range(1, 11)], replications=1))
    print(f"10 loads × 2,000 requests: {seconds:.2f} CPU s [{seconds / slow:.2f}]")
    for count in [int(text) for text in sys.argv[1:]]:
        start = time.process_time()
        _whole(make(0.7 * full, 1, count), setup.surface, limits)
        spent = time.process_time() - start
        print(f"{count:,} requests with everything: {spent:.1f} CPU s [{spent / slow:.1f}]")


def _whole(traffic, surface, limits):
    """A run with percentiles and the table of its requests."""
    run = simulate(traffic, surface, limits)
    columns = run.columns()
    return measure(run, slo={"ttft": 0.5, "tpot": 0.05}, columns=columns)


if __name__ == "__main__":
    main()
