"""Text for a field of a question: "128k" tokens, "0.5" times. What a field wants is in its annotation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from rooflab.api.asks import Ask
from rooflab.units import parse, parse_count

TOKENS = ("prompt", "output", "context", "cached", "prefill_tokens")
MOST = 2**53
KINDS: dict[str, type[msgspec.Struct]] = {kind.__struct_config__.tag: kind for kind in get_args(Ask)}
"""Kind of question → its record."""


@cache
def hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Field of an ask → its annotation."""
    return get_type_hints(kind, include_extras=True)


def plain(annotation: Any) -> Any:
    """An annotation without `| None`; of several others the first."""
    if get_origin(annotation) in (Union, UnionType):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def bounds(annotation: Any) -> tuple[Any, int, int]:
    """(int, float or another type, least, most) of a field."""
    base, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    found = {end: value for mark in marks for end in ("ge", "le") if (value := getattr(mark, end, None)) is not None}
    return base, found.get("ge", 0), found.get("le", MOST)


def reader(kind: type[msgspec.Struct], field: str, label: str) -> Callable[[str], Any] | None:
    """What reads text for a number field; `label` is how its messages call the field. None for other fields."""
    annotation = plain(hints(kind)[field])
    base, least, most = bounds(annotation)
    if base is int:
        dimension = "token" if field in TOKENS else "1"
        return partial(parse_count, field=label, dimension=dimension, least=least, most=most)
    if base is float:
        zero = any(getattr(mark, "ge", None) is not None for mark in get_args(annotation)[1:])
        return partial(parse, dimension="1", field=label, positive=not zero)
    return None
