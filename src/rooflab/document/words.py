"""Names and formulas as people read them, for pages made without a browser's script."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

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


def symbol_name(name: str) -> str:
    """A formula's variable in words."""
    return _words()["symbols"].get(name) or operator_name(name)


def symbol_unit(name: str, line: dict[str, Any]) -> str:
    """The unit a formula's input is shown in; inputs of a sum have the sum's."""
    if line["source"].startswith("sum of the parts") or (name == "rate" and line["unit"] == "token/s"):
        return line["unit"]
    return "1" if name == "efficiency" else _words()["symbol_units"].get(name, "1")


_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def figure(text: str) -> str:
    """A number of a substituted formula in few characters."""
    x = float(text)
    if not math.isfinite(x) or x == 0:
        return "0" if x == 0 else text
    if x == int(x) and abs(x) < 10**7:
        return f"{int(x):,}"
    power = math.floor(math.log10(abs(x)))
    if -3 <= power < 5:
        return f"{x:.4g}"
    return f"{number(x / 10.0**power)}·10{str(power).translate(_SUPER)}"


def _tidy(text: str) -> str:
    text = re.sub(r"(^|[^\w.])1(?:\.0)? \* ", r"\1", text).replace(" * ", " · ")
    text = re.sub(r"\b(\d+)\.0\b", r"\1", text)
    return text.replace("maximum(", "max(").replace("minimum(", "min(")


def symbolic(formula: str) -> str:
    """A formula with its symbols; a long sum is shortened."""
    return _shorten(_tidy(formula))


def substituted(formula: str) -> str:
    """A formula with its numbers; a long sum is shortened."""
    filled = re.sub(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?", lambda found: figure(found[0]), _tidy(formula))
    return _shorten(filled)


def _shorten(text: str) -> str:
    parts = text.split(" + ")
    if len(parts) <= LONGEST_SUM or "(" in text:
        return text
    return f"{' + '.join(parts[:3])} + … {len(parts) - 3} more"
