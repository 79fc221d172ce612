"""The built page, and what is put into it: stored reports for the first paint, and which engine answers."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from rooflab.api import answer
from rooflab.units import InputError

HERE = Path(__file__).resolve().parent
PAGE = HERE / "page"
SHELVES = ("models", "systems", "devices", "links", "formats", "profiles")


def page() -> Path:
    """The folder of the built page; in a checkout it is built first when its sources changed.

    Raises InputError where there is none.
    """
    why, hook = "", HERE.parents[2] / "hatch_build.py"
    if hook.is_file() and (HERE.parents[2] / "page/package.json").is_file():
        spec = importlib.util.spec_from_file_location("hatch_build", hook)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        checkout = module.Page(HERE.parents[2])
        if not checkout.fresh():
            print("Building the page; its sources changed.", file=sys.stderr, flush=True)
        why = checkout.ensure()
    if not (PAGE / "index.html").is_file():
        raise InputError(
            why or "this installation has no page: install a wheel, or build it in a checkout: hatch_build.py"
        )
    if why:
        print(f"{why}; the page built before is used", file=sys.stderr, flush=True)
    return PAGE


def start() -> dict[str, Any]:
    """The opening scenario and where its baseline differs, as the page has them."""
    return json.loads((HERE / "start.json").read_text(encoding="utf-8"))


def first_asks() -> Iterator[dict[str, Any]]:
    """What the first view asks, so that it needs no engine to be painted."""
    opening = start()
    scenario, changed = opening["scenario"], {**opening["scenario"], **opening["baseline"]}
    for each in (scenario, changed):
        yield {"kind": "estimate", **each, "detail": True}
        yield {"kind": "estimate", **each, "batch": 1, "detail": True}
    formats = {name: scenario[name] for name in ("weights", "kv") if name in scenario}
    context = scenario["prompt"] + scenario["output"]
    yield {"kind": "inspect", "model": scenario["model"], **formats, "context": context}
    yield {"kind": "inspect", "model": scenario["model"]}
    yield {"kind": "fit", **scenario}
    yield {"kind": "explain", **scenario, "op": "tpot"}


@lru_cache(maxsize=1)
def stored() -> str:
    """Questions and their reports as JSON that is safe inside a script element."""
    asks = [*first_asks(), *({"kind": "catalog", "what": what} for what in SHELVES)]
    text = json.dumps([[ask, answer(ask)] for ask in asks], ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def index(engine: str) -> str:
    """The page's index.html, with the stored reports in it, for an engine: server or browser. The page is built first."""
    return filled(engine, page() / "index.html")


def filled(engine: str, file: Path) -> str:
    """An index.html for an engine, with the stored reports in it."""
    text = file.read_text(encoding="utf-8")
    text = text.replace('name="rooflab-engine" content="browser"', f'name="rooflab-engine" content="{engine}"')
    before, found, after = text.partition('<script type="application/json" id="baked">[]</script>')
    if not found:
        raise InputError("the built page has no place for stored reports; build it again: hatch_build.py --force")
    return f'{before}<script type="application/json" id="baked">{stored()}</script>{after}'


class Home:
    """The index.html that a server hands out: read again when the file is another, so that it names the files beside it."""

    def __init__(self) -> None:
        page()
        self._stamp = self._now()
        self._text = filled("server", PAGE / "index.html")

    @staticmethod
    def _now() -> tuple[float, int] | None:
        """When the file was written and its size; None while a new page is being put there."""
        try:
            found = (PAGE / "index.html").stat()
        except OSError:
            return None
        return found.st_mtime, found.st_size

    def text(self) -> str:
        """The page of now; the one before while there is none."""
        stamp = self._now()
        if stamp is not None and stamp != self._stamp:
            try:
                self._text, self._stamp = filled("server", PAGE / "index.html"), stamp
            except (OSError, ValueError, InputError):
                return self._text
            print(
                "The page on disk is another now and is served; restart for the engine beside it.",
                file=sys.stderr,
                flush=True,
            )
        return self._text
