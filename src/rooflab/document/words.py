"""Names and formulas as people read them, for pages made without a browser's script."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rooflab.units import format as shown
from rooflab.units import number

BOUNDS = ("memory", "compute", "network", "latency")
_FINE = {
    "compute": "compute", "weight": "memory", "kv": "memory", "activation": "memory", "memory": "memory",
    "comm": "network", "network": "network",
}  # fmt: skip
_ACRONYMS = (("kv", "KV"), ("ffn", "FFN"), ("moe", "MoE"), ("mla", "MLA"))
SUBJECTS = {
    "tpot": "Time per output token", "ttft": "Time to first token, whole batch", "e2e": "Time to the last token",
    "output_throughput": "Output throughput", "memory": "Memory per device", "weights": "Weights per device",
    "kv": "KV cache per device", "workspace": "Workspace per device", "bandwidth_share": "Memory bandwidth in use",
    "cost": "Cost", "energy": "Energy per output token",
}  # fmt: skip
LONGEST_SUM = 4
"""Terms of a sum that are still written out."""


@cache
def _words() -> dict[str, dict[str, str]]:
    """The names that the page uses, too."""
    return json.loads((Path(__file__).parent / "words.json").read_text(encoding="utf-8"))


def bound_of(fine: str) -> str:
    """The colour and shape of what the engine says binds an operator."""
    return _FINE.get(fine, "latency")


def _sentence(name: str) -> str:
    text = name.replace("_", " ")
    for plain, written in _ACRONYMS:
        text = re.sub(rf"\b{plain}\b", written, text)
    return text[:1].upper() + text[1:]


def operator_name(name: str) -> str:
    """An operator in words; operators of some layers only say which."""
    base, _, layers = name.partition("@")
    plain = _words()["operators"].get(base) or _sentence(base)
    if not layers or re.match("experts|shared|router", base):
        return plain
    kind, _, other = layers.partition(".")
    window = re.fullmatch(r"w(\d+)", kind)
    said = (
        f"window {int(window[1]):,}" if window else _words()["layers"].get(kind) or f"{kind.replace('_', ' ')} layers"
    )
    return f"{plain}, {said}{f' ({other})' if other else ''}"


def part_name(name: str) -> str:
    """A part of a step in words."""
    return _words()["parts"].get(name) or _sentence(name)


def symbol_name(name: str, quantity: str = "") -> str:
    """A formula's variable in words, as it stands in the formula of a quantity."""
    if name == "efficiency":
        return "share of the bandwidth reached" if quantity == "memory_time" else "share of the peak reached"
    return _words()["symbols"].get(name) or operator_name(name)


def symbol_unit(name: str, unit: str) -> str:
    """The unit a formula's input is shown in, where the formula's own is `unit`."""
    return unit if name == "rate" and unit == "token/s" else _words()["symbol_units"].get(name, "1")


DIGITS = 5
"""Digits of a formula's numbers: enough that what is worked out from them shows the figure beside them."""


def figure(value: float, unit: str) -> str:
    """A number of a formula, in its unit, in as many digits as working it out by hand takes."""
    if unit == "1":
        return f"{value:,.0f}" if value == int(value) else f"{value:,.{DIGITS}g}"
    if unit == "USD/s":  # other quantities of a formula are in seconds, too
        return f"{value:.{DIGITS}g} {unit}"
    head, _, tail = shown(value, unit, DIGITS).partition(" ")
    head = re.sub(r"\.?0+$", "", head) if "." in head else head
    return f"{head} {tail}".rstrip()


_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def substituted(formula: str) -> str:
    """A formula whose numbers are in it already, its numbers in few characters."""
    return re.sub(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?", lambda found: _short(float(found[0])), _tidy(formula))


def _short(x: float) -> str:
    if x == int(x) and abs(x) < 10**7:
        return f"{int(x):,}"
    power = math.floor(math.log10(abs(x)))
    if -3 <= power < 5:
        return f"{x:.4g}"
    return f"{number(x / 10.0**power)}·10{str(power).translate(_SUPER)}"


def in_words(line: Mapping[str, Any]) -> str:
    """A formula with its symbols in words; a long sum is shortened."""
    return _put(line, line["names"])


def in_numbers(line: Mapping[str, Any]) -> str:
    """A formula with its numbers in their units; a long sum is shortened."""
    return _put(line, {name: figure(value, line["units"][name]) for name, value in line["inputs"].items()})


def _put(line: Mapping[str, Any], said: Mapping[str, str]) -> str:
    parts = line["parts"]
    if not parts:
        symbol = re.compile(r"(?<![\w.])[a-z_][a-z_0-9]*\b(?!\()")
        return _tidy(symbol.sub(lambda found: said.get(found[0], found[0]), line["formula"]))
    kept = sorted(parts, key=lambda name: -parts[name])[: None if len(parts) <= LONGEST_SUM else 3]
    terms = [_term(line, name, said[name]) for name in parts if name in kept]
    if len(kept) < len(parts):
        rest = math.fsum(value for name, value in parts.items() if name not in kept)
        others = f"{len(parts) - len(kept)} more"
        terms.append(others if said is line["names"] else f"{figure(rest, line['unit'])} of {others}")
    return " + ".join(terms)


def _term(line: Mapping[str, Any], name: str, said: str) -> str:
    """A term of a sum, with how often it counts."""
    times = line["parts"][name] / line["inputs"][name]
    said = f"({said})" if " + " in said else said
    return said if math.isclose(times, 1.0) else f"{figure(times, '1')} · {said}"


def _tidy(text: str) -> str:
    text = re.sub(r"(^|[^\w.])1(?:\.0)? \* ", r"\1", text).replace(" * ", " · ")
    text = re.sub(r"\b(\d+)\.0\b", r"\1", text)
    return text.replace("maximum(", "max(").replace("minimum(", "min(")
