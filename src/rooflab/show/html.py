"""Pages in a notebook: one self-contained piece of HTML that follows the notebook's own colours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from rooflab.show.elements import Bar, Block, Cell, Formula, Page, Table, Verdict, Words

COLOURS = {
    "good": "#00875f", "bad": "#d75f5f", "part": "#5f87af", "compute": "#0087ff", "memory": "#d78700", "kv": "#af5faf",
    "comm": "#d75f5f", "overhead": "#8a8a8a", "workspace": "#008787", "reserve": "#8a8a8a", "free": "#8a8a8a40",
}  # fmt: skip
STYLE = """
.rooflab{font:14px/1.45 system-ui,sans-serif;max-width:72em;font-variant-numeric:tabular-nums}
.rooflab h4{margin:0}.rooflab p{margin:.1em 0}.rooflab .quiet{opacity:.65}
.rooflab section{margin:.8em 0}.rooflab table{font:inherit;border-collapse:collapse;margin:0}
.rooflab th,.rooflab td{padding:.1em .9em .1em 0;text-align:left;vertical-align:top;border:0;background:none;white-space:nowrap}
.rooflab section{overflow-x:auto}.rooflab .wraps{white-space:normal}
.rooflab th{font-weight:normal;opacity:.65;border-bottom:1px solid #8a8a8a80}
.rooflab th:first-child{font-weight:bold;opacity:1}.rooflab .right{text-align:right}
.rooflab .total td{border-top:1px solid #8a8a8a80}.rooflab ul{margin:0;padding-left:1.2em}
.rooflab .bar{display:flex;position:relative;height:1.1em;max-width:48em}
.rooflab .bar b{position:absolute;top:-.2em;bottom:-.2em;border-left:2px solid #d75f5f}
.rooflab .share{display:inline-block;width:7em;margin-left:.5em}.rooflab .share i{display:block;height:.75em}
.rooflab .number{display:inline-block;width:2.6em;text-align:right}
.rooflab .key{display:inline-block;margin-right:1em}.rooflab .key i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
.rooflab code{background:none;font-size:.95em}
"""


def document(page: Page) -> str:
    """A page as HTML."""
    body = "".join(f"<section>{''.join(_block(block))}</section>" for block in page.blocks)
    detail = f"<p class=quiet>{escape(page.detail)}</p>" if page.detail else ""
    return f"<div class=rooflab><style>{STYLE}</style><h4>{escape(page.title)}</h4>{detail}{body}</div>"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Verdict):
        yield _verdict(block)
    elif isinstance(block, Bar):
        yield from _bar(block)
    elif isinstance(block, Formula):
        yield from _formula(block)
    elif block.lines:
        yield from _words(block)


def _paint(tone: str) -> str:
    if tone == "strong":
        return " style='font-weight:bold'"
    if tone == "quiet":
        return " class=quiet"
    return f" style='color:{COLOURS[tone]}'" if tone in COLOURS else ""


def _verdict(block: Verdict) -> str:
    mark, tone = {True: ("✔", "good"), False: ("✘", "bad"), None: ("●", "compute")}[block.good]
    return f"<b{_paint(tone)}>{mark} {escape(block.text)}</b> {escape(block.detail)}"


def _words(block: Words) -> Iterator[str]:
    quiet = " class=quiet" if block.quiet else ""
    yield f"<div{quiet}>"
    if block.title:
        yield f"<b>{escape(block.title)}</b>"
    item = ("<ul>", "<li>", "</li>", "</ul>") if block.points else ("", "<p>", "</p>", "")
    yield item[0] + "".join(f"{item[1]}{escape(line)}{item[2]}" for line in block.lines) + item[3]
    yield "</div>"


def _formula(block: Formula) -> Iterator[str]:
    yield f"<b>{escape(block.name)}</b> {escape(block.text)}"
    for text in (block.formula, block.numbers, block.value):
        if text:
            yield f"<p><code>= {escape(text)}</code></p>"
    for label, text in block.facts:
        yield f"<p class=quiet>{escape(label)}: {escape(text)}</p>"


def _table(block: Table) -> Iterator[str]:
    sides = [" class=right" if column.right else " class=wraps" if column.wraps else "" for column in block.columns]
    if block.title:
        yield f"<b>{escape(block.title)}</b>"
    heads = "".join(f"<th{side}>{escape(c.title)}</th>" for c, side in zip(block.columns, sides, strict=True))
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for number, row in enumerate(block.rows):
        last = " class=total" if block.total and number == len(block.rows) - 1 else ""
        cells = "".join(
            f"<td{side}>{_cell(cell, column.tone)}</td>"
            for cell, column, side in zip(row, block.columns, sides, strict=True)
        )
        yield f"<tr{last}>{cells}</tr>"
    yield "</tbody></table>"


def _cell(cell: Cell | str, tone: str) -> str:
    if isinstance(cell, str):
        cell = Cell(cell, tone)
    text = escape(cell.text).replace("  ", "&ensp;")
    if cell.share is None:
        return f"<span{_paint(cell.tone or tone)}>{text}</span>"
    width = min(cell.share, 1.0)
    bar = f"<i style='width:{width:.2%};background:{COLOURS.get(cell.tone, 'currentColor')}'></i>"
    return f"<span class=number>{text}</span><span class=share>{bar}</span>"


def _bar(block: Bar) -> Iterator[str]:
    yield f"<p class=quiet>{escape(block.title)}</p><div class=bar>"
    for part in block.parts:
        label = escape(f"{part.label} {part.text}", quote=True)
        yield f"<i title='{label}' style='flex:{part.value:.6g};background:{COLOURS.get(part.tone, 'gray')}'></i>"
    if block.limit is not None:
        yield f"<b style='left:{block.limit / math.fsum(part.value for part in block.parts):.2%}'></b>"
    yield "</div>"
    if block.limit is not None:
        yield f"<p{_paint('bad')}>{escape(block.limit_text)}</p>"
    for part in (part for part in block.parts if part.tone != "free"):
        swatch = f"<i style='background:{COLOURS.get(part.tone, 'gray')}'></i>"
        yield f"<span class=key>{swatch}{escape(part.label)} {escape(part.text)}</span>"
