"""What someone with a calculator gets from a line of a formula with its numbers in their units."""

import re

from rooflab import explain

_SIZES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
_NUMBER = re.compile(
    r"([\d.]+(?:e[+-]?\d+)?) ([kMGTPEmµn]?)(B/s|B|FLOP/s|FLOP|USD/s|USD|s|W|J|token/s|tok/s|%)(?![a-z])"
)


def by_hand(text: str) -> float:
    """The value of "80 · (max(27.184 µs, 49.412 µs) + 7.7416 µs)" in SI units; "5 ms of 10 more" is one number."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text.replace("\u00a0", " ")).replace("·", "*")
    plain = re.sub(r" of \d+ more", "", plain).replace("max(", "maximum(").replace("min(", "minimum(")

    def size(found: re.Match[str]) -> str:
        factor = 0.01 if found[3] == "%" else _SIZES.get(found[2], 1.0)
        return f"({found[1]} * {factor!r})"

    return explain.evaluate(_NUMBER.sub(size, plain))
