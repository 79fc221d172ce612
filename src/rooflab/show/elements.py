"""What a page is made of: a title, verdicts, bars, tables, formulas and notes, before anyone decides how to draw them.

A report becomes a page once; the terminal and the notebook each draw the same page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rooflab.units import MISSING, number
from rooflab.units import format as shown

Report = Mapping[str, Any]


class Cell(msgspec.Struct, frozen=True):
    """One entry of a table: text in a tone, or a share of one drawn as a bar before its text."""

    text: str
    tone: str = ""
    """What it is about (see `TONES`); the renderer picks the colour."""
    share: float | None = None


class Column(msgspec.Struct, frozen=True):
    """A column: how it is set, and how soon it goes when the page is narrow."""

    title: str
    right: bool = False
    rank: int = 0
    """0 always stays; of the others the highest goes first."""
    wraps: bool = False
    tone: str = ""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under columns; a last row may be a total."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    title: str = ""
    total: bool = False
    """Whether the last row adds up the others."""


class Verdict(msgspec.Struct, frozen=True):
    """The answer in one line: yes (True), no (False) or neither (None)."""

    good: bool | None
    text: str
    detail: str = ""


class Part(msgspec.Struct, frozen=True):
    """One stretch of a stacked bar."""

    label: str
    value: float
    text: str
    tone: str = ""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Parts side by side; `limit` is marked where the parts go beyond it."""

    title: str
    parts: tuple[Part, ...]
    limit: float | None = None
    limit_text: str = ""


class Formula(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity: what it means, its formula, the same with numbers, and what that comes to."""

    name: str
    text: str
    formula: str = ""
    numbers: str = ""
    value: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    """(label, text): what it counts, leaves out, its source, where it holds."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """Paragraphs or points under a heading; quiet ones stay in the background."""

    lines: tuple[str, ...]
    title: str = ""
    quiet: bool = False
    points: bool = False


Block = Table | Verdict | Bar | Formula | Words

TONES = (
    "good", "bad", "quiet", "strong", "part",
    "compute", "memory", "kv", "comm", "overhead", "workspace", "reserve", "free",
)  # fmt: skip


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A report as people read it."""

    title: str
    detail: str = ""
    blocks: tuple[Block, ...] = ()


# ---------------------------------------------------------------------------------------------- words and numbers

BOUNDS = {
    "compute": ("compute", "compute"),
    "weight": ("reading weights", "memory"),
    "kv": ("reading the cache", "kv"),
    "activation": ("moving activations", "memory"),
    "memory": ("memory", "memory"),
    "comm": ("communication", "comm"),
    "overhead": ("launch overhead", "overhead"),
    "trivial": ("nothing", "quiet"),
}
"""What binds, in words, and its tone."""


def bound(name: str) -> Cell:
    """What binds, in words."""
    text, tone = BOUNDS.get(name, (name, ""))
    return Cell(text, tone)


def percent(share: float) -> str:
    """A share in whole percent; what is not zero never reads as zero."""
    if 0.0 < share < 0.005:
        return "<1%"
    return f"{share:.0%}"


def share(value: float, tone: str = "") -> Cell:
    """A share with its bar."""
    return Cell(percent(value), tone, value)


def binary(size: float) -> str:
    """Bytes in powers of 1,024, for those who bought 80 GB and read 80 GiB."""
    unit = next((u for u in ("TiB", "GiB", "MiB", "KiB") if size >= 1.0 and float(_in(size, u)) >= 1.0), "B")
    return shown(size, "byte", unit=unit)


def _in(size: float, unit: str) -> str:
    return shown(size, "byte", unit=unit).partition(" ")[0].replace(",", "")


def dollars(value: float | None) -> str:
    """USD with three significant digits."""
    return MISSING if value is None or not math.isfinite(value) else f"${number(value)}"


def band(low: float | None, high: float | None, dimension: str) -> str:
    """Two ends of a band, the unit said once where it is the same."""
    if low is None or high is None:
        return ""
    first, last = shown(low, dimension), shown(high, dimension)
    if first == last:
        return first
    value, _, unit = first.partition(" ")
    return f"{value if unit == last.partition(' ')[2] else first} – {last}"


def plural(count: float, noun: str) -> str:
    """A count and its noun: 1 device, 8 devices."""
    return f"{shown(count, '1')} {noun}{'' if count == 1 else 's'}"


def joined(parts: Iterable[str]) -> str:
    """Parts in one line, empty ones left out."""
    return " · ".join(part for part in parts if part)


def notes(report: Report, more: Sequence[str] = ()) -> Words:
    """What was assumed, at the end and quiet."""
    return Words(title="Notes", lines=(*report.get("notes", ()), *more), quiet=True, points=True)


def layout(ask: Mapping[str, Any]) -> str:
    """The degrees that are not one."""
    axes = ("tp", "pp", "cp", "dp", "ep", "attention_dp", "microbatches")
    return joined(f"{axis} {ask[axis]}" for axis in axes if ask.get(axis, 1) != 1)


def formats(ask: Mapping[str, Any]) -> str:
    """The number formats that were asked for."""
    weights = ask.get("weights")
    if isinstance(weights, Mapping):
        weights = ", ".join(f"{key}={value}" for key, value in weights.items())
    return joined([f"weights {weights}" if weights else "", f"cache {ask['kv']}" if ask.get("kv") else ""])


def memory_bar(memory: Mapping[str, float]) -> Bar:
    """Memory of the busiest device by kind, with what is free or over."""
    tones = {"weights": "memory", "kv": "kv", "workspace": "workspace", "reserve": "reserve", "free": "free"}
    labels = {"kv": "cache"}
    parts = tuple(
        Part(labels.get(name, name), memory[name], shown(memory[name], "byte"), tone)
        for name, tone in tones.items()
        if memory[name] > 0
    )
    capacity = shown(memory["capacity"], "byte")
    return Bar(
        title=f"Memory of one device: {capacity} = {binary(memory['capacity'])}",
        parts=parts,
        limit=memory["capacity"] if memory["over"] > 0 else None,
        limit_text=f"{capacity} there",
    )


def memory_verdict(memory: Mapping[str, float], fits: bool) -> Verdict:
    """Fits or not, and by how much."""
    used, capacity = shown(memory["used"], "byte"), shown(memory["capacity"], "byte")
    if fits:
        return Verdict(True, "fits", f"{used} of {capacity} used, {shown(memory['free'], 'byte')} free")
    return Verdict(False, "does not fit", f"{used} needed, {capacity} there: {shown(memory['over'], 'byte')} over")
