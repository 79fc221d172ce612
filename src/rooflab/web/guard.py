"""What is not answered over the network: questions that would read files of this machine."""

from __future__ import annotations

import os
from typing import Any

from rooflab.units import InputError

_NAMED = ("model", "on", "prices", "also_on")
"""Fields that name a thing, of which a file of this machine is one."""
_INSIDE = ("scenario", "baseline", "cases", "ask", "question")
"""Fields that hold questions of their own."""


def refuse_files(ask: Any) -> None:
    """Over the network a model or a system is a catalog name, a hub id or its own content, never a file of this machine."""
    if not isinstance(ask, dict):
        return
    for field in _NAMED:
        given = ask.get(field)
        for name in given if isinstance(given, list) else [given]:
            if isinstance(name, str) and (name.startswith((".", "/", "~")) or "\\" in name or _exists(name)):
                raise InputError(
                    f"{field}: files are not read here; drop the config.json on the page, or use the command line"
                )
    if ask.get("trace") is not None:
        raise InputError("trace: files are not read here; drop the file on the page, or use the command line")
    for field in _INSIDE:
        given = ask.get(field)
        for each in given if isinstance(given, list) else [given]:
            refuse_files(each)


def _exists(name: str) -> bool:
    """Whether a name is a file of this machine; what is no path at all is none."""
    try:
        return os.path.exists(name)  # noqa: PTH110
    except ValueError:
        return False
