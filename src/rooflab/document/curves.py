"""Curves of a report as inline SVG: lines and points over logarithmic or straight axes, and memory as stacked bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import msgspec

from rooflab.document.charts import Log
from rooflab.units import format as shown

WIDTH, HEIGHT = 430, 250
LEFT, RIGHT, TOP, BOTTOM = 50, 64, 20, 34
LINE = 12.0
"""Height of a label."""
LETTER = 5.6
STACK = (("weights", "weights"), ("kv", "kv"), ("transient", "workspace"), ("reserve", "reserve"))
"""Field of a memory budget, and the kind it is drawn as."""

Point = tuple[float, float]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line: its name stands at its end."""

    name: str
    points: Sequence[Point]
    kind: str = "ink"
    """compute, memory, weights, kv, or ink."""
    thin: bool = False


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """An upright: where the scenario is, or a bound of the chip."""

    x: float
    name: str


class Straight(Log):
    """A straight axis from zero."""

    def __init__(self, high: float, first: float, last: float):
        step = 10.0 ** math.floor(math.log10(high / 2))
        self.step = next(step * each for each in (1.0, 2.0, 5.0, 10.0) if high / (step * each) <= 5)
        self.low, self.high = 0.0, math.ceil(high / self.step) * self.step
        self.first, self.last = first, last

    def __call__(self, value: float) -> float:
        return self.first + value / self.high * (self.last - self.first)

    def decades(self) -> list[float]:
        """Round values on the axis."""
        return [self.step * count for count in range(round(self.high / self.step) + 1)]


def over_time(said: str, series: Sequence[Series], unit: str, axes: tuple[str, str]) -> str:
    """Series over straight axes from zero, each named at its end."""
    points = [point for each in series for point in each.points]
    if not points or max(each[0] for each in points) <= 0:
        return ""
    x = Straight(max(each[0] for each in points), LEFT, WIDTH - RIGHT)
    y = Straight(max(max(each[1] for each in points), 1e-9), HEIGHT - BOTTOM, TOP)
    ticks = [(each, f"{each:,.12g}") for each in x.decades()]
    out, ends = [_open(said), *_grid(x, y, ticks, unit, axes)], []
    for each in series:
        drawn = [(x(px), y(py)) for px, py in each.points]
        path = "L".join(f"{px:.1f},{py:.1f}" for px, py in drawn)
        out.append(f'<path class="line {each.kind}{" thin" if each.thin else ""}" d="M{path}"/>')
        ends.append((drawn[-1][1], drawn[-1][0], each.name))
    return "".join([*out, *_names(ends), "</svg>"])


def rounded(low: float, high: float) -> list[float]:
    """Values of one digit times a power of ten within a range: the fewer of them the wider it is."""
    powers, decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1), math.log10(high / low)
    leads = (1.0,) if decades > 3 else (1.0, 2.0, 5.0) if decades > 0.7 else tuple(map(float, range(1, 10)))
    return [lead * 10.0**power for power in powers for lead in leads if low <= lead * 10.0**power <= high]


def lines(
    said: str, series: Sequence[Series], marks: Sequence[Mark], ticks: Sequence[tuple[float, str]], unit: str,
    axes: tuple[str, str], dots: Sequence[Point] = (),
) -> str:  # fmt: skip
    """Series over logarithmic axes, each named at its end, and single points behind them."""
    points = [point for each in series for point in each.points if point[1] > 0]
    if not points:
        return ""
    dots = [dot for dot in dots if dot[0] > 0 and dot[1] > 0]
    x = Log(*_ends([each[0] for each in (*points, *dots)]), LEFT, WIDTH - RIGHT, exact=True)
    y = Log(*_ends([each[1] for each in (*points, *dots)]), HEIGHT - BOTTOM, TOP)
    out = [_open(said), *_grid(x, y, ticks, unit, axes)]
    if dots:
        drawn = "".join(f"M{x(px):.1f},{y(py):.1f}h0" for px, py in dots)
        out.append(f'<path class="dots" d="{drawn}"/>')
    inside = [mark for mark in marks if x.low <= mark.x <= x.high]
    out += _uprights(x, sorted(inside, key=lambda mark: mark.x))
    ends: list[tuple[float, float, str]] = []
    for each in series:
        drawn = [(x(px), y(py)) for px, py in each.points if py > 0]
        if not drawn:
            continue
        path = "L".join(f"{px:.1f},{py:.1f}" for px, py in drawn)
        out.append(f'<path class="line {each.kind}{" thin" if each.thin else ""}" d="M{path}"/>')
        ends.append((drawn[-1][1], drawn[-1][0], each.name))
    out += _names(ends)
    return "".join([*out, "</svg>"])


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The range of an axis; a single value has room on both sides."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low / 2, high * 2)


def _open(said: str) -> str:
    return (
        f'<svg class="chart curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(said, quote=True)}">'
    )


def _grid(x: Log, y: Log, ticks: Sequence[tuple[float, str]], unit: str, axes: tuple[str, str]) -> list[str]:
    base, right, last = HEIGHT - BOTTOM, WIDTH - RIGHT, -99.0
    out = []
    for at, name in ticks:
        wide = len(name) * LETTER / 2
        if not x.low <= at <= x.high or x(at) - wide < last + 4:
            continue
        last = x(at) + wide
        out.append(f'<path class="grid" d="M{x(at):.1f},{TOP}V{base}"/>')
        out.append(f'<text x="{x(at):.1f}" y="{base + 14}" text-anchor="middle">{escape(name)}</text>')
    steps = y.decades() if len(y.decades()) > 1 else [y.low, *(each for each in y.decades() if each > y.low), y.high]
    for each in steps[:: max(1, -(-len(steps) // 7))]:
        label = f"{each:,.12g}" if unit == "1" else shown(each, unit, 1)
        out.append(f'<path class="grid" d="M{LEFT},{y(each):.1f}H{right}"/>')
        out.append(f'<text x="{LEFT - 5}" y="{y(each) + 3.5:.1f}" text-anchor="end">{escape(label)}</text>')
    out.append(f'<path class="axis" d="M{LEFT},{base}H{right}"/>')
    out.append(f'<text class="lab" x="2" y="10">{escape(axes[1])}</text>')
    out.append(f'<text class="lab" x="{right}" y="{HEIGHT - 4}" text-anchor="end">{escape(axes[0])}</text>')
    return out


def _uprights(x: Log, marks: Sequence[Mark]) -> list[str]:
    """Upright lines; a name that would meet its neighbour's goes below it."""
    out, edge, row = [], -99.0, 0
    for mark in marks:
        at, wide = x(mark.x), len(mark.name) * LETTER
        start = at + 4 if at + wide + 8 < WIDTH - RIGHT else at - 4 - wide
        row = row + 1 if start < edge + 4 else 0
        edge = max(edge, start + wide)
        out.append(f'<path class="ridge" d="M{at:.1f},{TOP}V{HEIGHT - BOTTOM}"/>')
        y = TOP + 9 + row * LINE
        out.append(f'<text class="lab halo" x="{start:.1f}" y="{y:.1f}">{escape(mark.name)}</text>')
    return out


def _names(ends: Sequence[tuple[float, float, str]]) -> list[str]:
    """Names at the lines' ends, moved apart where ends meet, within the frame."""
    rows = sorted(end for end in ends if end[2])
    places: list[float] = []
    for y, _, _ in rows:
        places.append(max(y + 3.5, places[-1] + LINE if places else TOP + 3.5))
    lowest = HEIGHT - BOTTOM + 3.5
    for index in range(len(places) - 1, -1, -1):  # from below, what was pushed out of the frame comes back
        places[index] = min(places[index], lowest)
        lowest = places[index] - LINE
    return [
        f'<text class="lab halo" x="{x + 5:.1f}" y="{at:.1f}">{escape(name)}</text>'
        for at, (_, x, name) in zip(places, rows, strict=True)
    ]


def stacks(said: str, rows: Sequence[dict[str, float]], key: str, now: float, name: Callable[[float], str]) -> str:
    """Memory of a device as bars over contexts or batches, the device's capacity as a limit."""
    if not rows:
        return ""
    budget, base, right = rows[0]["budget"], HEIGHT - BOTTOM, WIDTH - 8
    top = 1.06 * max(budget, min(max(row["used"] for row in rows), 1.45 * budget))
    pitch = (right - LEFT) / len(rows)
    wide = min(30.0, pitch * 0.66)

    def y(amount: float) -> float:
        return base - min(amount, top) / top * (base - TOP)

    out = [_open(said)]
    for index, row in enumerate(rows):
        middle, at = LEFT + pitch * (index + 0.5), 0.0
        for kind, drawn in STACK:
            upper, lower = y(at + row[kind]), y(at)
            at += row[kind]
            if lower - upper > 0.05:
                size = f'width="{wide:.1f}" height="{lower - upper:.1f}"'
                out.append(f'<rect class="kind {drawn}" x="{middle - wide / 2:.1f}" y="{upper:.1f}" {size}/>')
        if row["used"] > budget:
            out.append(
                f'<text class="bad" x="{middle:.1f}" y="{max(y(row["used"]) - 4, 11):.1f}" text-anchor="middle">×</text>'
            )
    middles = [(LEFT + pitch * (index + 0.5), name(row[key]), row[key] == now) for index, row in enumerate(rows)]
    out += _below(middles, base + 14)
    out.append(
        f'<path class="axis" d="M{LEFT},{base}H{right}"/><path class="limit" d="M{LEFT},{y(budget):.1f}H{right}"/>'
    )
    out.append(f'<text class="bad" x="2" y="10">{escape(shown(budget, "byte"))} there</text>')
    out.append(f'<text class="lab" x="{right}" y="{HEIGHT - 4}" text-anchor="end">{escape(key)}</text>')
    return "".join([*out, "</svg>"])


def _below(places: Sequence[tuple[float, str, bool]], y: float) -> list[str]:
    """Names under their bars: the one that is now in any case, its neighbours where there is room."""
    out, taken = [], []
    for middle, name, strong in sorted(places, key=lambda place: (not place[2], place[0])):
        half = len(name) * LETTER * (1.1 if strong else 1.0) / 2 + 2
        if any(middle - half < right and left < middle + half for left, right in taken):
            continue
        taken.append((middle - half, middle + half))
        kind = ' class="labs"' if strong else ""
        out.append(f'<text{kind} x="{middle:.1f}" y="{y}" text-anchor="middle">{escape(name)}</text>')
    return out
