"""Values of a field as people write them: "1,2,4,8", "1..512" (doubling), "8..64+8" (in steps)."""

from __future__ import annotations

import re
from typing import Any

from rooflab.api.design_asks import Values
from rooflab.sweep.spaces import DEGREES, WORK
from rooflab.units import InputError, parse_count, shown

MOST_ROWS = 2_000_000
"""Rows a question may ask for at once; larger studies run from Python with `keep`."""


def values_of(name: str, given: Values) -> tuple[Any, ...]:
    """The values of a field, from a list or from text."""
    items = list(given) if isinstance(given, (list, tuple)) else [item.strip() for item in str(given).split(",")]
    found: list[Any] = []
    for item in items:
        span = re.fullmatch(r"(\S+?)\.\.(\S+?)(?:\+(\S+))?", item) if isinstance(item, str) else None
        if span is not None and (name in DEGREES or name in WORK):
            found += _span(name, *span.groups())
        elif isinstance(item, str) and (name in DEGREES or name in WORK):
            found.append(parse_count(item, f"vary.{name}", most=2**31))
        else:
            found.append(item)
    return tuple(dict.fromkeys(found))


def _span(name: str, low: str, high: str, step: str | None) -> list[int]:
    """Whole numbers from low to high: doubling, or in steps."""
    first, last = (parse_count(text, f"vary.{name}", most=2**31) for text in (low, high))
    if last < first:
        raise InputError(f"vary.{name}: {shown(f'{low}..{high}')} goes down; write the smaller number first")
    if step is None:
        found = [first]
        while found[-1] * 2 <= last and found[-1] > 0:
            found.append(found[-1] * 2)
        return found if found[-1] == last else [*found, last]
    wide = parse_count(step, f"vary.{name}", most=2**31)
    if (last - first) // wide > MOST_ROWS:
        raise InputError(f"vary.{name}: more than {MOST_ROWS:,} values")
    return list(range(first, last + 1, wide))
