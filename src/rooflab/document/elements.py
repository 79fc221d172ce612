"""What every section of a report is made of: sections, tables, badges, values as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape, unescape
from typing import Any

from rooflab.document.style import STYLE
from rooflab.units import MISSING, number
from rooflab.units import format as shown

Report = dict[str, Any]


def shell(title: str, version: str, head: str, sections: Sequence[str]) -> str:
    """A whole page of such sections, which runs nothing and asks for nothing."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<meta name="generator" content="RoofLab {escape(version, quote=True)}"><meta name="referrer" content="no-referrer">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>{head}{_contents(sections)}{''.join(sections)}</main></body></html>\n"
    )


def _contents(sections: Sequence[str]) -> str:
    """Where everything is."""
    titles = re.findall(r"<h2>(.*?)</h2>", "".join(sections))
    found = "".join(f'<li><a href="#{slug(unescape(title))}">{title.partition(":")[0]}</a></li>' for title in titles)
    return f'<nav aria-label="Contents"><ul>{found}</ul></nav>\n'


def slug(title: str) -> str:
    """A title as the address of its section."""
    return re.sub(r"[^a-z0-9]+", "-", title.partition(":")[0].lower()).strip("-")


def section(title: str, *inner: str, long: bool = False) -> str:
    """A part of the report under a title."""
    kind = ' class="long"' if long else ""
    label = f'tabindex="0" aria-label="{escape(title, quote=True)}"'  # wide tables scroll, by the keyboard too
    return f'<section id="{slug(title)}"{kind} {label}><h2>{escape(title)}</h2>{"".join(inner)}</section>\n'


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = (), kinds: Sequence[str] = ()
) -> str:
    """A table; cells are HTML already."""
    sides = [' class="n"' if index in right else "" for index in range(len(heads))]
    head = "".join(
        f"<th{side}>{escape(each)}</th>" if each else f"<td{side}></td>"
        for each, side in zip(heads, sides, strict=True)
    )
    lines = []
    for index, row in enumerate(rows):
        kind = f' class="{kinds[index]}"' if index < len(kinds) and kinds[index] else ""
        cells = "".join(f"<td{side}>{cell}</td>" for cell, side in zip(row, sides, strict=True))
        lines.append(f"<tr{kind}>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def folded(title: str, inner: str) -> str:
    """What is there on demand, without a script; on paper it is there."""
    return f"<details><summary>{escape(title)}</summary>{inner}</details>"


def listed(lines: Iterable[str]) -> str:
    """A list; lines are text."""
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{found}</ul>" if found else ""


def sentence(text: str) -> str:
    """Words as they begin a line, axes of a layout in capitals."""
    written = re.sub(r"\b(tp|pp|cp|dp|ep)\b", lambda found: found[0].upper(), text)
    return written[:1].upper() + written[1:]


def figures(cells: Iterable[tuple[str, str, Sequence[str]]], kind: str = "") -> str:
    """Headline figures: a name, its value and notes under it, as HTML."""
    found = []
    for name, text, notes in cells:
        small = "".join(f"<small>{note}</small>" for note in notes if note)
        found.append(f"<div><dt>{escape(name)}</dt><dd>{text}{small}</dd></div>")
    return f'<dl class="kpis{kind}">{"".join(found)}</dl>'


def share(part: float) -> str:
    """A share in percent."""
    return "under 1 %" if 0 < part < 0.005 else f"{part:.0%}".replace("%", " %")


def badge(basis: str) -> str:
    """What a number rests on."""
    return f'<span class="badge {escape(basis, quote=True)}">{escape(basis)}</span>'


def value(given: Any, unit: str) -> str:
    """A value with its unit as HTML."""
    if given is None:
        return MISSING
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, str) or unit == "":
        return escape(str(given))
    if unit == "share":
        return share(given)
    if unit == "USD":
        return f"${number(given)}"
    if unit == "1":
        return f"{given:,}" if isinstance(given, int) else escape(shown(given, "1"))
    return escape(shown(given, unit))


def about(count: float | None, absent: str = MISSING) -> str:
    """A count that need not be whole: in full from 100 on."""
    return absent if count is None else f"{count:,.0f}" if count >= 100 else number(count)
