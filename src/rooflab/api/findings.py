"""The answer of a comparison in a sentence or two."""

from __future__ import annotations

from typing import Any

from rooflab.api.asks import EstimateReport
from rooflab.api.compare_asks import SwitchReport
from rooflab.units import format as shown

LONGEST = 40
"""Characters of a name in a sentence."""
Column = tuple[str, EstimateReport | None, str]
"""Its name, its figures if it has some, else why not."""


def finding(columns: list[Column], switches: list[SwitchReport], profiles: bool) -> str:
    """Which column is best at what matters, which switch moves most, and what has no figures."""
    if len(columns) < 2:
        return "One scenario stands alone: save it, change something, and both stand side by side."
    said = [*_times(columns, profiles), *_largest(switches)]
    over = [name for name, report, _ in columns if report and not report.fits]
    refused = [name for name, _, error in columns if error]
    if over:
        said.append(f"{_named(over)} {'do' if len(over) > 1 else 'does'} not fit")
    if refused:
        said.append(f"{_named(refused)} cannot be evaluated")
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in said) or "None of these has figures to compare."


def _times(columns: list[Column], profiles: bool) -> list[str]:
    """Who takes the least time a token, and who gives the most from each device."""
    timed = [(name, report) for name, report, _ in columns if report and report.tpot is not None]
    names = [name for name, _ in timed]
    times = [float(report.tpot or 0.0) for _, report in timed]
    rates = [float(report.throughput_per_device or 0.0) for _, report in timed]
    if len(timed) < 2:
        return []
    if profiles:
        under = [f"{_time(time)} under {name}" for name, time in zip(names, times, strict=True)]
        return [f"a token takes {_joined(under)}"]
    if min(times) == max(times):
        return [f"all take {_time(times[0])} a token"]
    quick, rich = best(times, "down"), best(rates, "up")
    verb, also = ("take" if len(quick) > 1 else "takes"), quick == rich
    slow = names[times.index(max(times))]
    found = [
        f"{_named([names[at] for at in quick])} {verb} the least time a token, {_time(min(times))} against "
        f"{_time(max(times))} of {_named([slow])}{', with the most from each device' if also else ''}"
    ]
    if rich and not also:
        most = shown(max(rates), "token/s", 3)
        found.append(f"the most from each device comes from {_named([names[at] for at in rich])}, {most}")
    return found


def _largest(switches: list[SwitchReport]) -> list[str]:
    """The switch that moves the time of a token most by itself."""
    moves = [
        (each.tpot_before, each.tpot, each.means)
        for each in switches
        if each.tpot is not None and each.tpot_before is not None
    ]
    before, after, means = max(moves, key=lambda each: abs(each[1] - each[0]), default=(0.0, 0.0, ""))
    if before == after:
        return []
    return [f"the switch that moves it most is {means.partition(';')[0]}: {_time(before)} to {_time(after)} by itself"]


def _time(seconds: float) -> str:
    return shown(seconds, "s", 3)


def _named(names: list[str]) -> str:
    """Names in quotes, the long ones shortened."""
    return _joined([f"“{name[: LONGEST - 1].rstrip()}…”" if len(name) > LONGEST else f"“{name}”" for name in names])


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def best(values: list[Any], better: str) -> list[int]:
    """Positions of the best of several numbers; none where fewer than two are given or all are the same."""
    known = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if better == "none" or len(known) < 2 or min(known) == max(known):
        return []
    wanted = min(known) if better == "down" else max(known)
    return [index for index, value in enumerate(values) if value == wanted and not isinstance(value, bool)]
