"""Speed of the serving simulator on one core, as ratios to a plain loop that tells how fast the machine is just now.

python bench/simulate.py                   the figures of docs/simulator.md
python bench/simulate.py 1000000 10000000  and compiled runs of so many requests
"""

from __future__ import annotations

import sys
import time

from rooflab.api.answers import scene_of
from rooflab.api.resolve import setting_of
from rooflab.api.simulate_asks import SimulateAsk
from rooflab.sim import fast, place, study
from rooflab.sim.cluster import simulate
from rooflab.sim.measure import measure
from rooflab.sim.surface import SceneSurface
from rooflab.sim.traffic import lengths, open_loop
from rooflab.units import InputError

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


def timed(action, times=3):
    """(CPU seconds, result), best of a few."""
    best, result = 1e9, None
    for _ in range(times):
        start = time.process_time()
        result = action()
        best = min(best, time.process_time() - start)
    return best, result


def setup_of(ahead=False):
    """Llama-3.1-8B on one H100, and the requests per second of a queue that never empties."""
    scene = scene_of(setting_of(SimulateAsk(model="llama-3.1-8b", on="h100-sxm")))
    limits = place.limits_for(scene, 1280.0, asynchronous=ahead)
    setup = study.Setup(surface=SceneSurface(scene, 38), limits=limits)
    return setup, study.saturation(setup, make(2000, 1.0, 0))


def make(count, rate, seed=1):
    """Poisson arrivals of 1,024 tokens in and 256 out."""
    return open_loop(count, rate, lengths(1024, "prompt"), lengths(256, "output"), seed=seed)


def whole(traffic, setup):
    """A run with percentiles and the table of its requests."""
    run = setup.play(traffic)
    return run, measure(run, slo={"ttft": 0.5, "tpot": 0.05}, columns=run.columns())


def million(count):
    """CPU seconds of traffic, compiled run, percentiles and table, once the machine code is there."""
    setup, full = setup_of(ahead=True)
    simulate(make(10, 1.0), setup.surface, setup.limits, loop="numba")
    fresh = study.Setup(
        surface=SceneSurface(setup.surface.scene, setup.surface.bits), limits=setup.limits, loop="numba"
    )
    start = time.process_time()
    run, _ = whole(make(count, 0.7 * full), fresh)
    spent = time.process_time() - start
    assert run.loop == "numba", run.why_python
    return spent


def main() -> None:
    loop = calibrate()
    print(f"unit: a plain loop of {LOOP:,}, {loop:.3f} CPU s here ({loop / NOMINAL:.2f} of nominal)")
    setup, full = setup_of()
    print(f"saturated: {full:.1f} requests/s; requests per unit, engine alone and with percentiles and table")
    for load in (0.05, 0.3, 0.7, 0.95, 1.3):
        traffic = make(20_000, load * full)
        bare, run = timed(lambda traffic=traffic: setup.play(traffic))
        all_of_it, _ = timed(lambda traffic=traffic: whole(traffic, setup))
        rates = ", ".join(f"{len(traffic) / seconds * loop:8,.0f}" for seconds in (bare, all_of_it))
        stepped, _ = timed(lambda traffic=traffic: simulate(traffic, setup.surface, setup.limits, longest_jump=1), 1)
        events, iterations = (count / len(traffic) for count in (run.events, run.iterations()))
        print(
            f"load {load:4.0%}: {rates}; {events:.2f} events a request for {iterations:.1f} iterations; "
            f"{stepped / bare:.1f} × as fast as one event an iteration"
        )
    loads = [full * i / 10 for i in range(1, 11)]
    seconds, _ = timed(
        lambda: study.load_sweep(setup, lambda rate, seed: make(2000, rate, seed), loads, replications=1)
    )
    print(f"10 loads × 2,000 requests: {seconds / loop:.1f} units ({seconds:.2f} s)")
    python, _ = timed(lambda: whole(make(100_000, 0.7 * full), setup), 1)
    print(f"100,000 requests with everything, Python: {python / loop:.1f} units ({python:.2f} s)")
    if not fast.installed():
        raise InputError("numba: is not installed; pip install 'rooflab[fast]' compiles long runs")
    for count in [int(text) for text in sys.argv[1:]] or [10**6]:
        seconds = million(count)
        ratio = python / 100_000 / (seconds / count)
        print(
            f"{count:,} with everything, compiled: {seconds / loop:.1f} units ({seconds:.2f} s), {ratio:.1f} × Python"
        )


if __name__ == "__main__":
    main()
