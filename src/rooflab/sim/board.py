"""The scheduler's board: a few requests, a few slots, iterations of equal length (requirements B-075 to B-078, E-18).

It is the engine itself with a constant step and free admission; no hardware enters.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rooflab.sim.cluster import simulate
from rooflab.sim.schedule import Limits
from rooflab.sim.surface import LineSurface
from rooflab.sim.traffic import Traffic
from rooflab.units import InputError

MOST = 1000
"""Requests, slots and iterations of one answer that a board shows at most."""
EIGHT = (8, 2, 3, 6, 4, 2, 7, 3)
"""The eight requests of the illustration."""


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """Per iteration the request in each slot, or None."""

    iterations: int
    used: float
    """Share of the slots that did work."""
    slots: list[list[int | None]]
    start: list[int]
    """First iteration of each request."""
    finish: list[int]
    """Iteration after its last."""


def board(answers: Sequence[int] = EIGHT, slots: int = 4, policy: str = "chunked") -> Board:
    """Requests of these many iterations, all there at the start, in this many slots under a policy."""
    for name, value in (("slots", slots), ("answers", len(answers)), *(("answers", answer) for answer in answers)):
        if not 1 <= value <= MOST:
            raise InputError(f"{name}: {value} must be between 1 and {MOST:,}")
    count = len(answers)
    traffic = Traffic(arrival=[0.0] * count, prompt=[1] * count, output=list(answers))
    limits = Limits(blocks=count * MOST, block_tokens=1, slots=slots, budget=max(slots, count))
    run = simulate(traffic, LineSurface(1.0), limits, policy_name=policy)
    start = [at >> run.bits for at in run.admitted]
    finish = [at >> run.bits for at in run.finish]
    rows: list[list[int | None]] = [[None] * slots for _ in range(max(finish))]
    for request in sorted(range(count), key=lambda r: (start[r], r)):
        place = next(slot for slot in range(slots) if rows[start[request]][slot] is None)
        for iteration in range(start[request], finish[request]):
            rows[iteration][place] = request
    used = sum(answers) / (len(rows) * slots)  # int
    return Board(iterations=len(rows), used=used, slots=rows, start=start, finish=finish)
