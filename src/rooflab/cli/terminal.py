"""Pages in a terminal: colours that read on dark and on light, tables that drop columns before they break, bars.

Rich does the setting; this file knows which element looks how.
"""

from __future__ import annotations

import io
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

from rich.box import Box
from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from rooflab.show.elements import Bar, Block, Cell, Column, Formula, Page, Part, Table, Verdict, Words

# Of the 256 colours, those in the middle: they stand out from black and from white alike.
STYLES = {
    "": "", "strong": "bold", "quiet": "color(245)", "good": "bold color(29)", "bad": "bold color(167)",
    "part": "color(67)", "compute": "color(33)", "memory": "color(172)", "kv": "color(133)", "comm": "color(167)",
    "overhead": "color(245)", "workspace": "color(30)", "reserve": "color(245)", "free": "color(245)",
}  # fmt: skip
MARKS = {True: ("✔", "good"), False: ("✘", "bad"), None: ("●", "compute")}
EIGHTHS = " ▏▎▍▌▋▊▉█"
PATTERNS = "█▓▒░"
"""What tells parts of a bar apart where there is no colour."""
WIDE = 150
"""Columns of output that goes to a file or a pipe, unless COLUMNS says otherwise: every table is whole."""
READABLE = 100
"""Columns that bars and paragraphs take at most."""
GAP = 2
BARS = (16, 10, 6, 0)
"""Cells of the bar of a share, from wide pages to narrow ones."""
NARROWEST = 40
WRAP = 28
"""Columns a wrapping column keeps at least."""
_RULED = Box("    \n    \n ── \n    \n ── \n ── \n    \n    \n")


class _Console(Console):
    """Characters the stream cannot carry are replaced when written (`cli.streams`), so Rich need not avoid them."""

    @property
    def encoding(self) -> str:
        return "utf-8"


def console(file: IO[str] | None = None, width: int | None = None, colour: bool | None = None) -> Console:
    """A console for a stream; `colour` forces colours on or off, else the stream and the environment decide.

    A pipe or a file is given `WIDE` columns unless COLUMNS says otherwise.
    """
    stream = file or sys.stdout
    if width is None and not os.environ.get("COLUMNS") and not stream.isatty():
        width = WIDE
    looks: dict[str, Any] = {"highlight": False, "emoji": False, "markup": False}
    if colour is True:
        looks |= {"force_terminal": True, "color_system": "256", "no_color": False, "legacy_windows": False}
    elif colour is False:
        looks |= {"no_color": True, "color_system": None}
    made = _Console(file=stream, width=width, **looks)
    if made.width < NARROWEST:
        made.width = NARROWEST
    return made


def text(page: Page, to: Console) -> str:
    """A page as it is printed on that console; lines end where their text does."""
    with to.capture() as captured:
        to.print(rendered(page, to))
    return re.sub(" +$", "", captured.get(), flags=re.MULTILINE)


def plain(page: Page, width: int = READABLE) -> str:
    """A page as text without colours."""
    return text(page, console(io.StringIO(), width, colour=False)).rstrip("\n")


def rendered(page: Page, to: Console) -> Group:
    """A page as Rich sees it, set for that console's width and colours."""
    parts: list[RenderableType] = [Text(page.title, "bold")]
    if page.detail:
        parts.append(Text(page.detail, STYLES["quiet"]))
    for block in page.blocks:
        drawn = list(_block(block, to))
        if drawn:
            parts += [Text(""), *drawn]
    return Group(*parts)


def _block(block: Block, to: Console) -> Iterator[RenderableType]:
    if isinstance(block, Table):
        yield from _table(block, to)
    elif isinstance(block, Verdict):
        yield _verdict(block)
    elif isinstance(block, Bar):
        yield from _bar(block, to)
    elif isinstance(block, Formula):
        yield Constrain(Group(*_formula(block)), READABLE)
    elif block.lines:
        yield Constrain(Group(*_words(block)), READABLE)


def _verdict(block: Verdict) -> Text:
    mark, tone = MARKS[block.good]
    text = Text(f"{mark} {block.text}", STYLES[tone])
    if block.detail:
        text.append(f"  {block.detail}", style="not bold default")
    return text


def _words(block: Words) -> Iterator[RenderableType]:
    style = STYLES["quiet"] if block.quiet else ""
    if block.title:
        yield Text(block.title, style or "bold")
    for line in block.lines:
        if block.points:
            grid = RichTable.grid(padding=(0, 1))
            grid.add_row(Text("·", style), Text(line, style))
            yield grid
        else:
            yield Text(line, style)


def _formula(block: Formula) -> Iterator[RenderableType]:
    head = Text(block.name, "bold")
    if block.text:
        head.append(f"  {block.text}", style="not bold")
    yield head
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    for text, style in ((block.formula, STYLES["compute"]), (block.numbers, ""), (block.value, "bold")):
        if text:
            grid.add_row(Text("=", STYLES["quiet"]), Text(text, style))
    for label, text in block.facts:
        grid.add_row(Text(label, STYLES["quiet"]), Text(text, STYLES["quiet"]))
    yield Padding(grid, (0, 0, 0, 2))


# --------------------------------------------------------------------------------------------------------- tables


def _table(block: Table, to: Console) -> Iterator[RenderableType]:
    kept, bar = _fitting(block, to.width)
    narrow = kept[0] if kept and _needs(block, kept, bar) > to.width else None  # its words wrap before numbers are cut
    if block.title:
        yield Text(block.title, "bold")
    table = RichTable(
        box=_RULED, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, border_style=STYLES["quiet"], header_style=""
    )
    for index in kept:
        column = block.columns[index]
        table.add_column(
            Text(column.title, "bold" if index == kept[0] else STYLES["quiet"]),
            justify="right" if column.right else "left",
            style=STYLES[column.tone],
            no_wrap=not column.wraps and index != narrow,
            overflow="fold" if column.wraps or index == narrow else "ellipsis",
        )
    for number, row in enumerate(block.rows):
        last = block.total and number == len(block.rows) - 2
        table.add_row(*(_cell(row[index], bar) for index in kept), end_section=last)
    yield table
    gone = [column.title for index, column in enumerate(block.columns) if index not in kept and column.title]
    if gone:
        yield Text(f"a wider terminal also shows {', '.join(gone)}", STYLES["quiet"])


def _fitting(block: Table, width: int) -> tuple[list[int], int]:
    """Indices of the columns that fit, and the cells a bar gets: bars shrink first, then the least needed columns go."""
    kept = list(range(len(block.columns)))
    *wider, least, none = BARS
    for bar in wider:
        if _needs(block, kept, bar) <= width:
            return kept, bar
    while _needs(block, kept, least) > width:
        highest = max(block.columns[index].rank for index in kept)
        if highest == 0:
            break
        kept.remove(max(index for index in kept if block.columns[index].rank == highest))
    return kept, next((bar for bar in BARS[1:] if _needs(block, kept, bar) <= width), none)


def _needs(block: Table, kept: Sequence[int], bar: int) -> float:
    """Columns of the terminal that these columns of the table need."""
    sizes = [_size(block.columns[index], [row[index] for row in block.rows], bar) for index in kept]
    return math.fsum(sizes) + GAP * (len(kept) - 1)


def _size(column: Column, cells: Sequence[Cell | str], bar: int) -> int:
    """Columns a column needs; one that wraps needs its heading and a few words."""
    longest = max([len(column.title), *(_cell(cell, bar).cell_len for cell in cells)])
    return min(longest, max(WRAP, len(column.title))) if column.wraps else longest


def _cell(cell: Cell | str, bar: int) -> Text:
    if isinstance(cell, str):
        return Text(cell)
    if cell.share is None:
        return Text(cell.text, STYLES[cell.tone])
    if not bar:
        return Text(f"{cell.text:>4}", STYLES[cell.tone])
    return Text(f"{cell.text:>4} ").append(stretch(min(cell.share, 1.0) * bar).ljust(bar), STYLES[cell.tone])


def stretch(length: float) -> str:
    """A bar of that many character cells, to an eighth; what is not zero shows."""
    eighths = round(length * 8)
    if eighths == 0 and length > 0:
        eighths = 1
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (EIGHTHS[rest] if rest else "")


# ----------------------------------------------------------------------------------------------------------- bars


def _bar(block: Bar, to: Console) -> Iterator[RenderableType]:
    width = min(to.width, READABLE)
    cells = _shared_out([part.value for part in block.parts], width)
    colour = to.color_system is not None and not to.no_color
    glyphs = [_glyph(part, index, colour) for index, part in enumerate(block.parts)]
    yield Text(block.title, STYLES["quiet"])
    line = Text()
    for part, count, glyph in zip(block.parts, cells, glyphs, strict=True):
        line.append(glyph * count, style=STYLES[part.tone])
    yield line
    if block.limit is not None:
        yield _limit(block, width)
    yield _legend(block, glyphs, width)


def _legend(block: Bar, glyphs: Sequence[str], width: int) -> Text:
    """What each stretch is, as many to a line as there is room for; what is free the verdict has said."""
    legend, used = Text(), 0
    for part, glyph in zip(block.parts, glyphs, strict=True):
        if part.tone == "free":
            continue
        entry = f" {part.label} {part.text}"
        gap = "" if not used else "  " if used + len(entry) + 3 <= width else "\n"
        used = len(entry) + 1 + (0 if gap == "\n" else used + len(gap))
        legend.append(gap).append(glyph, style=STYLES[part.tone]).append(entry)
    return legend


def _limit(block: Bar, width: int) -> Text:
    """A mark under the bar where the limit lies."""
    whole = math.fsum(part.value for part in block.parts)
    at = min(width - 1, round((block.limit or 0.0) / whole * width))
    label = f"▲ {block.limit_text}"
    start = at if at + len(label) <= width else max(0, at - len(label) + 1)
    text = label if start == at else f"{block.limit_text} ▲"
    return Text(" " * start + text, STYLES["bad"])


def _glyph(part: Part, index: int, colour: bool) -> str:
    if part.tone == "free":
        return "·"
    return "█" if colour else PATTERNS[index % len(PATTERNS)]


def _shared_out(values: Sequence[float], width: int) -> list[int]:
    """Cells for each value: in proportion, at least one each, adding up to the width."""
    whole = math.fsum(values) or 1.0
    cells = [max(1, round(value / whole * width)) for value in values]
    largest: Any = max(range(len(cells)), key=lambda index: cells[index]) if cells else 0
    if cells:
        cells[largest] += width - sum(cells)  # int
    return cells
