"""Charts of a report as inline SVG: the roofline, memory, and time by what it waits for. Colours are the page's variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from rooflab.document.words import BOUNDS, bound_of, operator_name
from rooflab.units import format as shown
from rooflab.units import number

WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 18, 64
MOST_LABELS = 9
LETTER = 6.1
"""Width of a letter of a label, about."""
KINDS = (("weights", "Weights"), ("kv", "KV cache"), ("workspace", "Workspace"), ("reserve", "Reserve"))

Box = tuple[float, float, float, float]


def mark(bound: str, x: float, y: float, r: float) -> str:
    """The path of a mark: triangle compute, square memory, diamond network, circle latency."""
    k, q = r * 1.2, r * 0.89
    if bound == "compute":
        return f"M{x:.1f},{y - k:.1f}L{x + k:.1f},{y + k * 0.8:.1f}L{x - k:.1f},{y + k * 0.8:.1f}Z"
    if bound == "memory":
        return f"M{x - q:.1f},{y - q:.1f}h{2 * q:.1f}v{2 * q:.1f}h{-2 * q:.1f}Z"
    if bound == "network":
        return f"M{x:.1f},{y - k:.1f}L{x + k:.1f},{y:.1f}L{x:.1f},{y + k:.1f}L{x - k:.1f},{y:.1f}Z"
    return f"M{x - r:.1f},{y:.1f}a{r:.1f},{r:.1f} 0 1 0 {2 * r:.1f},0a{r:.1f},{r:.1f} 0 1 0 {-2 * r:.1f},0Z"


class Log:
    """A logarithmic axis from one range to another, held within it."""

    def __init__(self, low: float, high: float, first: float, last: float, *, exact: bool = False):
        self.low = low if exact else _half_decade(low, down=True)
        self.high = high if exact else _half_decade(high, down=False)
        self.first, self.last = first, last

    def __call__(self, value: float) -> float:
        share = math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return self.first + min(max(share, 0.0), 1.0) * (self.last - self.first)

    def decades(self) -> list[float]:
        """Powers of ten on the axis."""
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        return [10.0**power for power in range(first, last + 1)]


def _half_decade(value: float, *, down: bool) -> float:
    """The next of …, 1, 3, 10, 30, … beyond a value."""
    power = math.floor(math.log10(value))
    steps = [10.0**power, 3 * 10.0**power, 10.0 ** (power + 1)]
    if down:
        return max(step for step in steps if step <= value * (1 + 1e-12))
    return min(step for step in steps if step >= value * (1 - 1e-12))


def roofline(step: dict[str, Any], title: str) -> str:
    """Every operator of a step on the roofs of its device; area is share of time."""
    roofs, ops = step["roofs"], [op for op in step["ops"] if op["time"]]
    on = sorted((op for op in ops if op["flop"] and op["intensity"]), key=lambda op: -op["share"])
    beside = sorted((op for op in ops if not (op["flop"] and op["intensity"])), key=lambda op: -op["time"])
    used = [name for name in {op["dtype"]: 0 for op in on} if name in roofs["achievable_flop_rate"]]
    formats = sorted(used or list(roofs["achievable_flop_rate"])[:1], key=lambda f: -roofs["achievable_flop_rate"][f])
    top = formats[0]
    xs = [op["intensity"] for op in on]
    x = Log(min([0.5, *xs]), max([roofs["ridge"][top] * 2.5, *(each * 1.4 for each in xs)]), LEFT, WIDTH - RIGHT)
    lowest = min([op["achieved"] for op in on if op["achieved"]] + [roofs["achievable_flop_rate"][top] / 300])
    y = Log(lowest / 1.8, max(roofs["flop_rate"][name] for name in formats) * 1.05, HEIGHT - BOTTOM, TOP)
    said = "; ".join(
        f"{operator_name(op['name'])} at {number(op['intensity'])} FLOP per byte reaches {shown(op['achieved'], 'FLOP/s')}, "
        f"{bound_of(op['bound'])}-bound, {op['share']:.0%} of the time"
        for op in on[:6]
    )
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{title}: {said}", quote=True)}">',
        *_axes(x, y),
        *_roofs(x, y, roofs, formats),
        *_marks(x, y, on),
        *_labels(x, y, on, roofs, top),
        *_beside(beside),
        "</svg>",
    ]
    return "".join(parts)


def _axes(x: Log, y: Log) -> list[str]:
    out, base = [], HEIGHT - BOTTOM
    for index, value in enumerate(decades := x.decades()):
        unit = " FLOP/byte" if index == len(decades) - 1 else ""
        anchor = "end" if x(value) > WIDTH - 80 else "middle"
        out.append(f'<path class="grid" d="M{x(value):.1f},{TOP}V{base}"/>')
        out.append(f'<text x="{x(value):.1f}" y="{base + 15}" text-anchor="{anchor}">{value:,.12g}{unit}</text>')
    for value in y.decades():
        label = shown(value, "FLOP/s", 1).replace("FLOP/s", "").strip()
        out.append(f'<path class="grid" d="M{LEFT},{y(value):.1f}H{WIDTH - RIGHT}"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y(value) + 3.5:.1f}" text-anchor="end">{escape(label)}</text>')
    out.append(
        f'<text class="lab" x="2" y="{TOP - 6}">FLOP/s</text><path class="axis" d="M{LEFT},{base}H{WIDTH - RIGHT}"/>'
    )
    return out


def _roof(x: Log, y: Log, rate: float, bandwidth: float) -> str:
    start = max(x.low, y.low / bandwidth)
    corner = rate / bandwidth
    return f"M{x(start):.1f},{y(start * bandwidth):.1f}L{x(corner):.1f},{y(rate):.1f}L{WIDTH - RIGHT},{y(rate):.1f}"


def _roofs(x: Log, y: Log, roofs: dict[str, Any], formats: Sequence[str]) -> list[str]:
    top, reach = formats[0], roofs["achievable_bandwidth"]
    out = [f'<path class="peak" d="{_roof(x, y, roofs["flop_rate"][top], roofs["memory_bandwidth"])}"/>']
    for name in formats[1:3]:
        out.append(f'<path class="roof thin" d="{_roof(x, y, roofs["achievable_flop_rate"][name], reach)}"/>')
    out.append(f'<path class="roof" d="{_roof(x, y, roofs["achievable_flop_rate"][top], reach)}"/>')
    ridge, rate = roofs["ridge"][top], roofs["achievable_flop_rate"][top]
    out.append(f'<path class="ridge" d="M{x(ridge):.1f},{y(rate):.1f}V{HEIGHT - BOTTOM}"/>')
    out.append(f'<text class="halo" x="{x(ridge) + 5:.1f}" y="{HEIGHT - BOTTOM - 7}">ridge {number(ridge)}</text>')
    return out


def _radius(share: float, whole: float = 38.0) -> float:
    return max(3.4, math.sqrt(max(share, 0.0)) * whole)


def _shape(op: dict[str, Any], px: float, py: float, r: float) -> str:
    bound = bound_of(op["bound"])
    words = f"{operator_name(op['name'])}: {shown(op['time'], 's')}, {op['share']:.1%} of the time, {bound}"
    return f'<path class="mark {bound}" d="{mark(bound, px, py, r)}"><title>{escape(words)}</title></path>'


def _marks(x: Log, y: Log, on: Sequence[dict[str, Any]]) -> list[str]:
    return [_shape(op, x(op["intensity"]), y(op["achieved"]), _radius(op["share"])) for op in on]


def _labels(x: Log, y: Log, on: Sequence[dict[str, Any]], roofs: dict[str, Any], top: str) -> list[str]:
    """The roofs' names, then those of the longest operators where there is room."""
    rate, ridge = roofs["achievable_flop_rate"][top], x(roofs["ridge"][top])
    name = f"{top} roof {shown(rate, 'FLOP/s')}"
    right = ridge - 10
    out = [f'<text class="lab halo" x="{right:.1f}" y="{y(rate) - 3:.1f}" text-anchor="end">{escape(name)}</text>']
    out.append(_bandwidth_label(x, y, roofs))
    taken: list[Box] = [(right - len(name) * LETTER, right, y(rate) - 16, y(rate) + 2)]
    solid = [(x(op["intensity"]), y(op["achieved"]), _radius(op["share"])) for op in on]
    marks: list[Box] = [(px - r, px + r, py - r, py + r) for px, py, r in solid]
    for op, (px, py, r) in list(zip(on, solid, strict=True))[:MOST_LABELS]:
        share = f" {shown(op['time'], 's')}" if op["share"] > 0.03 else ""
        text = operator_name(op["name"]) + share
        found = _room(text, px, py, r, taken, marks)
        if found is None:
            continue
        box, anchor, leader = found
        taken.append(box)
        tx, ty = (box[0] + 2 if anchor == "start" else box[1] - 2), box[3] - 4
        if leader:
            out.append(f'<path class="leader" d="M{px:.1f},{py:.1f}L{tx:.1f},{ty - 4:.1f}"/>')
        out.append(f'<text class="lab halo" x="{tx:.1f}" y="{ty:.1f}" text-anchor="{anchor}">{escape(text)}</text>')
    return out


def _bandwidth_label(x: Log, y: Log, roofs: dict[str, Any]) -> str:
    reach = roofs["achievable_bandwidth"]
    at = max(x.low * 3.2, y.low * 2.2 / reach)
    slope = math.degrees(math.atan2(y(10 * at * reach) - y(at * reach), x(10 * at) - x(at)))
    where = f"translate({x(at):.1f},{y(at * reach) - 7:.1f}) rotate({slope:.1f})"
    return f'<text class="lab halo" transform="{where}">memory roof {escape(shown(reach, "byte/s"))}</text>'


def _room(
    text: str, px: float, py: float, r: float, taken: Sequence[Box], marks: Sequence[Box]
) -> tuple[Box, str, bool] | None:
    """A free place for a label beside its mark, or a little further off with a leader line."""
    wide, near = len(text) * LETTER, r * 1.15 + 6
    tries = [(near, 4.0), (-near, 4.0)]
    for step in range(1, 10):
        away = near + 6 + (14 if step > 4 else 0)
        tries += [(side * away, up * step * 17 + 4.0) for up in (1, -1) for side in (1, -1)]
    for dx, dy in tries:
        edge, line = px + dx, py + dy
        box = (
            (edge - 2, edge + wide + 2, line - 12, line + 4)
            if dx > 0
            else (edge - wide - 2, edge + 2, line - 12, line + 4)
        )
        inside = box[0] >= LEFT + 4 and box[1] <= WIDTH - RIGHT and box[2] >= TOP and box[3] <= HEIGHT - BOTTOM - 6
        free = not any(a[0] < box[1] and box[0] < a[1] and a[2] < box[3] and box[2] < a[3] for a in (*taken, *marks))
        if inside and free:
            return box, "start" if dx > 0 else "end", abs(dy - 4) > 1
    return None


def _beside(ops: Sequence[dict[str, Any]]) -> list[str]:
    """What has no intensity, in a strip under the axis."""
    out, at = [], LEFT + 14.0
    for op in ops:
        r = min(12.0, _radius(op["share"], 30.0))
        text = f"{operator_name(op['name'])} {shown(op['time'], 's')}"
        wide = len(text) * 5.8 + r + 22
        room = at + wide < WIDTH - RIGHT
        out.append(_shape(op, at, HEIGHT - 19.0, r))
        if room:
            out.append(f'<text class="lab" x="{at + r + 8:.1f}" y="{HEIGHT - 15}">{escape(text)}</text>')
        at += wide + r if room else r * 2 + 8
        if at > WIDTH - RIGHT - 10:
            break
    return out


def memory_strip(memory: dict[str, Any], title: str) -> str:
    """Memory of the busiest device by kind; what does not fit lies beyond the line of its capacity."""
    whole = max(memory["capacity"], memory["used"])
    said = ", ".join(f"{name} {shown(memory[key], 'byte')}" for key, name in KINDS if memory[key])
    rest = f"{shown(memory['over'], 'byte')} over" if memory["over"] else f"{shown(memory['free'], 'byte')} free"
    label = escape(f"{title}: {said}; {rest} of {shown(memory['capacity'], 'byte')}", quote=True)
    out = [f'<svg class="chart" viewBox="0 0 {WIDTH} 54" role="img" aria-label="{label}">']
    edge = memory["capacity"] / whole * WIDTH
    out.append(f'<rect class="room" x="0" y="14" width="{edge:.1f}" height="28"/>')
    at = 0.0
    for key, name in KINDS:
        wide = memory[key] / whole * WIDTH
        if not wide:
            continue
        text = f"{name} {shown(memory[key], 'byte')}"
        out.append(
            f'<rect class="kind {key}" x="{at:.1f}" y="14" width="{wide:.1f}" height="28"><title>{text}</title></rect>'
        )
        if wide > len(text) * LETTER + 10:
            out.append(f'<text class="on {key}" x="{at + 7:.1f}" y="32">{text}</text>')
        at += wide
    if memory["over"]:
        out.append(f'<rect class="over" x="{edge:.1f}" y="13" width="{WIDTH - edge:.1f}" height="30"/>')
    out.append(f'<path class="roof" d="M{min(edge, WIDTH - 1):.1f},8V48"/>')
    words = f"{shown(memory['capacity'], 'byte')} there, {rest}"
    side, anchor = (-6.0, "end") if edge > len(words) * LETTER + 8 else (6.0, "start")
    out.append(
        f'<text class="lab" x="{min(edge, WIDTH - 1) + side:.1f}" y="9" text-anchor="{anchor}">{escape(words)}</text></svg>'
    )
    return "".join(out)


def terms_bar(terms: dict[str, float], most: float) -> str:
    """One bar, its stretches what the time waits for."""
    stretches = "".join(
        f'<i class="{name}" style="width:{terms.get(name, 0.0) / most:.2%}" title="{name} {shown(terms[name], "s")}"></i>'
        for name in BOUNDS
        if terms.get(name)
    )
    return f'<span class="bar">{stretches}</span>'
