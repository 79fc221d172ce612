"""How many replicas hold a percentile, and how they divide best into prefill and decode, with how sure that is.

Every candidate is played with the same random numbers, several seeds each. It holds when each limited statistic, with its 95 %
interval over the seeds, is within its limit; it misses when one is beyond with its interval, or a queue grows; else it is open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from rooflab.sim.clock import seconds
from rooflab.sim.study import Make, Point, Runs, Setup, averaged, possible
from rooflab.units import InputError

SPREAD = 4
"""Divisions of a number of replicas that are tried at most."""
Told = Callable[[int, int], bool]
"""Told (runs played, runs expected); True stops."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate."""

    replicas: int
    split: tuple[int, int] | None
    within: bool
    """Whether the means over the seeds are within every limit."""
    holds: bool | None
    """True and False are sure at 95 %; None is open."""
    point: Point


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """The fewest replicas by the means; `least` and `sure` bound the answer at 95 %."""

    replicas: int
    least: int
    """Fewer than these surely miss."""
    sure: int | None
    """These surely hold; None where not even twice as many do."""
    trial: Trial


class Search:
    """Candidates of one service, each played once."""

    def __init__(
        self, setup: Setup, make: Make, rate: float, slo: Mapping[str, float], *, at: str = "p95", seeds: int = 3, seed: int = 0,
        told: Told | None = None,
    ):  # fmt: skip
        if seeds < 2:
            raise InputError(f"seeds: {seeds} says nothing of how sure an answer is; take at least 2")
        self.setup, self.rate, self.slo, self.at = setup, rate, dict(slo), at
        self._traffics = [make(rate, seed + number) for number in range(seeds)]
        self._runs = Runs(None if told is None else lambda *_: told(*self._progress()))
        self._tried: dict[tuple[int, tuple[int, int] | None], Trial] = {}
        self.expected = 8 * seeds
        """Runs that a search takes, roughly."""

    def _progress(self) -> tuple[int, int]:
        return self._runs.played, max(self.expected, self._runs.played + 1)

    @property
    def tried(self) -> list[Trial]:
        """Every candidate, in the order in which they were played."""
        return list(self._tried.values())

    def trial(self, replicas: int, split: tuple[int, int] | None = None) -> Trial:
        """One candidate, played or remembered."""
        key = (replicas, split)
        if key not in self._tried:
            setup = msgspec.structs.replace(self.setup, replicas=replicas, split=split)
            measures = []
            for traffic in self._traffics:
                measures.append(setup.measured(self._runs.play(setup, traffic), slo=self.slo))
            refused = any(one.refused or one.overload for one in measures)
            point = averaged(self.rate, measures)
            within, holds = self._verdict(point, refused)
            self._tried[key] = Trial(replicas=replicas, split=split, within=within, holds=holds, point=point)
        return self._tried[key]

    def _verdict(self, point: Point, lost: bool) -> tuple[bool, bool | None]:
        within, sure, missed = not lost, not lost, lost
        for name, limit in self.slo.items():
            value, half = (table[f"{name}_{self.at}"] for table in (point.figures, point.interval))
            if value is None or half is None:
                within, sure, missed = False, False, True
                continue
            within = within and value <= limit
            sure = sure and value + half <= limit
            missed = missed or value - half > limit
        return within, False if missed else True if sure else None

    def fewest(self, most: int) -> Sized:
        """The fewest undivided replicas by bisection, and the bounds of that number.

        Raises InputError when a request alone misses a limit, or `most` replicas are not enough.
        """
        possible(self.setup, self._traffics[0], self.slo, self.at, self._runs)
        low, high = 0, 1
        while not self.trial(high).within:
            if high >= most:
                raise InputError(f"slo: {high:,} replicas do not hold {self.at}; allow more time or slow the traffic")
            low, high = high, min(most, high * 2)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.trial(middle).within else (middle, high)
        least, sure = high, high
        while least > 1 and self.trial(least - 1).holds is None:
            least -= 1
        while self.trial(sure).holds is not True and sure < min(most, 2 * high + 1):
            sure += 1
        return Sized(replicas=high, least=least, sure=sure if self.trial(sure).holds else None, trial=self.trial(high))

    def divided(self, most: int) -> Trial | None:
        """The fewest replicas of which some division into prefill and decode holds by its means, best attainment first.

        A replica cannot prefill more than its time allows, so divisions with less prefill than the traffic needs are left out;
        None where no number up to `most` does.
        """
        first = self._prefill_needed()
        for replicas in range(first + 1, most + 1):
            good = [
                trial
                for before in range(first, min(replicas, first + SPREAD))
                if (trial := self.trial(replicas, (before, replicas - before))).within
            ]
            if good:
                return min(good, key=_merit)
        return None

    def _prefill_needed(self) -> int:
        """Replicas whose whole time the traffic's prompts take, each alone: no division can do with fewer."""
        traffic, surface = self._traffics[0], self.setup.surface
        prompts = [int(count) for count in traffic.prompt[:1000]]
        budget = self.setup.limits.budget
        ticks = 0
        for prompt in prompts:
            whole, rest = divmod(prompt, budget)
            for chunk in range(whole):
                ticks += surface.mixed(0, 0, [(budget, chunk * budget)])
            if rest:
                ticks += surface.mixed(0, 0, [(rest, whole * budget)])
        busy = self.rate * seconds(ticks, surface.bits) / len(prompts)
        # prompts that share an iteration share its weights: down to half the time of each alone
        return max(1, math.ceil(busy / 2.0))


def _merit(trial: Trial) -> tuple[float, float]:
    """Most requests within the limits first, then the shortest answers."""
    figures = trial.point.figures
    kept, whole = figures["attainment"], figures["e2e_mean"]
    return -(kept or 0.0), math.inf if whole is None else whole
