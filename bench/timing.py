"""What the benches share: the least time of several runs, and a yardstick of plain Python to compare with."""

from __future__ import annotations

import time
from collections.abc import Callable


def best(action: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Shortest of several runs, in seconds of a clock: the one that others disturbed least.

    `time.process_time` counts CPU time only; the default also counts waiting.
    """
    times = []
    for _ in range(repeats):
        start = clock()
        action()
        times.append(clock() - start)
    return min(times)


def yardstick(clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a fixed loop of float arithmetic: what this machine makes of plain Python right now."""

    def loop() -> float:
        total = 0.0
        for i in range(100_000):
            total += i * 0.5
        return total

    return best(loop, 15, clock)
