"""Planning knowledge as data: targets, templates, rules of thumb, checks, engines. Directional guidance, each with its limits."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rooflab.sweep.engines import Engine
from rooflab.units import InputError, nearest, shown

FOLDER = Path(__file__).parent


@cache
def names() -> tuple[str, ...]:
    """Every collection of rules, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def rules(name: str) -> dict[str, Any]:
    """One collection as plain data.

    Raises InputError naming the collections there are.
    """
    if name not in names():
        raise InputError(f"rules: {shown(name)} is not a collection{nearest(str(name), names())}; {', '.join(names())}")
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def engines() -> dict[str, Engine]:
    """The serving engines by name."""
    return msgspec.convert(rules("engines"), dict[str, Engine])
