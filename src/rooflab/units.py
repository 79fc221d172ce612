"""Units: the only place that knows a prefix, a kilobyte or an hour.

Inside RoofLab every number is a float in SI base units: byte, s, FLOP, byte/s, FLOP/s, W, J, USD, token.
Text for people and data files is read by ``parse`` and written by ``format``:

* GB is 1e9 bytes and GiB is 2**30 bytes, always; b is a bit and B a byte, so 400 Gb/s is 50 GB/s.
* A multiply-add counts as 2 FLOP; FLOP is a count, FLOP/s a rate (TFLOPS and TOPS are read as rates).
* For counts k is 1,000 and Ki is 1,024: "128k" tokens are 128,000, "128Ki" tokens are 131,072.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec


class InputError(ValueError):
    """Bad input from outside; the message is one line, names the thing and says what to do."""


# --------------------------------------------------------------------------------------------- types


def quantity(dimension: str, *, positive: bool = False) -> msgspec.Meta:
    """The marker that gives a field its unit, in validation, in ``load`` and in the JSON Schema (``x-unit``)."""
    if positive:
        return msgspec.Meta(gt=0, extra_json_schema={"x-unit": dimension})
    return msgspec.Meta(ge=0, extra_json_schema={"x-unit": dimension})


Bytes = Annotated[float, quantity("byte")]
Seconds = Annotated[float, quantity("s")]
Flop = Annotated[float, quantity("FLOP")]
BytesPerSecond = Annotated[float, quantity("byte/s")]
FlopPerSecond = Annotated[float, quantity("FLOP/s")]
Intensity = Annotated[float, quantity("FLOP/byte")]
Watts = Annotated[float, quantity("W")]
Joules = Annotated[float, quantity("J")]
Usd = Annotated[float, quantity("USD")]
UsdPerSecond = Annotated[float, quantity("USD/s")]
Hertz = Annotated[float, quantity("Hz")]
Tokens = Annotated[float, quantity("token")]
TokensPerSecond = Annotated[float, quantity("token/s")]
RequestsPerSecond = Annotated[float, quantity("request/s")]
Ratio = Annotated[float, quantity("1")]


def unit_of(annotation: Any) -> tuple[str, bool] | None:
    """(dimension, must be above zero) of an annotation made with ``quantity``, also under ``| None``; else None."""
    for meta in getattr(annotation, "__metadata__", ()):
        schema = meta.extra_json_schema if isinstance(meta, msgspec.Meta) else None
        if schema and "x-unit" in schema:
            return schema["x-unit"], meta.gt == 0
    if get_origin(annotation) in (Union, UnionType):
        return next((found for each in get_args(annotation) if (found := unit_of(each))), None)
    return None


# --------------------------------------------------------------------------------------------- nouns

NOUNS: dict[str, str] = {
    # time
    "time": "s", "ttft": "s", "tpot": "s", "e2e": "s", "latency": "s", "launch_time": "s", "queue_time": "s",
    "step_time": "s", "prefill_time": "s", "decode_time": "s", "compute_time": "s", "memory_time": "s",
    "network_time": "s", "launch": "s", "transfer_time": "s", "makespan": "s", "arrival": "s", "start": "s",
    "finish": "s", "wait": "s",
    # memory and traffic
    "memory": "byte", "weights": "byte", "kv": "byte", "state": "byte", "activations": "byte", "workspace": "byte",
    "reserve": "byte", "free": "byte", "used": "byte", "bytes": "byte", "on_chip": "byte", "message": "byte",
    "weight_bytes": "byte", "activation_bytes": "byte", "kv_bytes": "byte", "resident_bytes": "byte",
    "message_bytes": "byte", "wire_bytes": "byte", "kv_per_token": "byte/token",
    # work
    "flop": "FLOP", "flop_rate": "FLOP/s", "vector_rate": "FLOP/s", "achieved": "FLOP/s",
    "flop_per_token": "FLOP/token",
    "memory_bandwidth": "byte/s", "host_bandwidth": "byte/s",
    "bandwidth": "byte/s", "intensity": "FLOP/byte", "ridge": "FLOP/byte",
    "clock": "Hz",
    # rates people feel
    "throughput": "token/s", "throughput_per_device": "token/s", "throughput_per_user": "token/s",
    "interactivity": "token/s", "prefill_throughput": "token/s", "decode_throughput": "token/s", "goodput": "request/s",
    "request_rate": "request/s", "arrival_rate": "request/s",
    # money and energy
    "power": "W", "energy": "J", "energy_per_token": "J/token", "price": "USD/s", "cost": "USD",
    "cost_per_token": "USD/token", "cost_per_request": "USD/request", "electricity_price": "USD/J",
    # counts and shares
    "tokens": "token", "context": "token", "prompt": "token", "output": "token", "max_context": "token",
    "knee_context": "token", "batch": "1", "concurrency": "1", "devices": "1", "replicas": "1", "requests": "request",
    "params": "1", "active_params": "1", "layers": "1", "hidden": "1", "vocab": "1", "tp": "1", "pp": "1", "cp": "1",
    "dp": "1", "ep": "1", "count": "1", "peers": "1", "share": "1", "utilisation": "1", "efficiency": "1", "error": "1",
    "speedup": "1", "bubble": "1", "score": "1",
}  # fmt: skip

_STATISTIC = re.compile(r"_(p\d{1,2}|mean|median|min|max|low|mid|high|total|limit|budget)$")


def dimension_of(noun: str) -> str:
    """The dimension of a public quantity, e.g. ``ttft`` -> ``s``; ``ttft_p99`` and ``tpot_mean`` follow their noun."""
    name = noun
    while name not in NOUNS:
        shorter = _STATISTIC.sub("", name)
        if shorter == name:
            raise InputError(f"quantity {shown(noun)} has no unit on record{nearest(noun, NOUNS)}")
        name = shorter
    return NOUNS[name]


# --------------------------------------------------------------------------------------------- units

_DECIMAL = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"n": 1e-9, "µ": 1e-6, "u": 1e-6, "μ": 1e-6, "m": 1e-3}
_LARGE = {**_DECIMAL, "K": 1e3}

# spelling -> (base unit, factor, prefixes it may carry)
_SYMBOLS: dict[str, tuple[str, float, Mapping[str, float]]] = {
    **dict.fromkeys(("B", "byte", "bytes"), ("byte", 1.0, {**_LARGE, **_BINARY})),
    **dict.fromkeys(("b", "bit", "bits"), ("byte", 0.125, {**_LARGE, **_BINARY})),
    **dict.fromkeys(("s", "sec", "second", "seconds"), ("s", 1.0, _SMALL)),
    **dict.fromkeys(("min", "minute", "minutes"), ("s", 60.0, {})),
    **dict.fromkeys(("h", "hr", "hour", "hours"), ("s", 3600.0, {})),
    **dict.fromkeys(("day", "days"), ("s", 86400.0, {})),
    **dict.fromkeys(("FLOP", "FLOPs", "OP", "OPs"), ("FLOP", 1.0, _LARGE)),
    "W": ("W", 1.0, {**_SMALL, **_LARGE}),
    "J": ("J", 1.0, {**_SMALL, **_LARGE}),
    "Wh": ("J", 3600.0, _LARGE),
    **dict.fromkeys(("USD", "$"), ("USD", 1.0, _LARGE)),
    "Hz": ("Hz", 1.0, _LARGE),
    **dict.fromkeys(("token", "tokens", "tok"), ("token", 1.0, {**_LARGE, **_BINARY})),
    **dict.fromkeys(("request", "requests", "req"), ("request", 1.0, _LARGE)),
}
_SQUASHED = {"FLOPS": "FLOP/s", "OPS": "OP/s", "Bps": "B/s", "bps": "b/s"}
_POWERS = {float(f"1e{power}"): power for power in range(-18, 19)}
_COUNTS = ("token", "request", "1")

EXAMPLES: dict[str, str] = {
    "byte": "80 GiB", "byte/s": "3.35 TB/s", "s": "3 us", "FLOP": "16 GFLOP", "FLOP/s": "989 TFLOP/s", "W": "700 W",
    "J": "5 kJ", "USD": "2.99 USD", "USD/s": "2.99 USD/h", "Hz": "1.98 GHz", "token": "128k", "token/s": "50 token/s",
    "request/s": "10 request/s", "request": "1000", "FLOP/byte": "295 FLOP/byte", "byte/token": "128 KiB/token",
    "FLOP/token": "16 GFLOP/token", "J/token": "0.5 J/token", "USD/token": "0.6 USD/Mtoken",
    "USD/request": "0.01 USD/request", "USD/J": "0.12 USD/kWh", "1": "0.8",
}  # fmt: skip


def _atom(text: str) -> tuple[str, float] | None:
    """One unit with its prefix, e.g. ``GiB`` -> ("byte", 2**30); None if unknown."""
    exact = _SYMBOLS.get(text)
    if exact:
        return exact[0], exact[1]
    for width in (1, 2):
        prefix, symbol = text[:width], text[width:]
        entry = _SYMBOLS.get(symbol)
        if entry and prefix in entry[2]:
            return entry[0], entry[1] * entry[2][prefix]
    return None


def _unit(text: str) -> tuple[str, float] | None:
    """A unit expression with at most one slash -> (dimension, factor to SI); None if unknown."""
    for squashed, long in _SQUASHED.items():
        if text.endswith(squashed) and "/" not in text:
            text = text[: -len(squashed)] + long
            break
    above, slash, below = text.partition("/")
    top = _atom(above.strip())
    if not slash or top is None:
        return top
    bottom = _atom(below.strip())
    if bottom is None:
        return None
    if top[0] == bottom[0]:
        return "1", top[1] / bottom[1]
    return f"{top[0]}/{bottom[0]}", top[1] / bottom[1]


# --------------------------------------------------------------------------------------------- parse

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(
    rf"(?P<dollar>\$)?\s*(?P<sign>[+\-−])?\s*(?P<number>{_NUMBER})\s*(?P<unit>[^\d\s.,].*)?", re.DOTALL | re.ASCII
)
_LONGEST = 80


def parse(value: Any, dimension: str, field: str = "value", *, positive: bool = False) -> Any:
    """Read a quantity: text with its unit ("3.35 TB/s"), or a bare number already in SI base units.

    Returns a finite, non-negative float (above zero when ``positive``); arrays pass through checked.
    Anything else raises InputError naming the field, the value and an example.
    """
    if hasattr(value, "dtype") and getattr(value, "ndim", 0):
        _check_array(value, field, positive)
        return value
    if isinstance(value, str):
        number = _parse_text(value, dimension, field)
    elif isinstance(value, bool) or not hasattr(value, "__float__"):
        raise InputError(f"{field}: {shown(value)} is not a quantity; {_example(dimension)}")
    else:
        try:
            number = float(value)
        except (OverflowError, ValueError, TypeError):
            raise InputError(f"{field}: {shown(value)} is not a finite number; {_example(dimension)}") from None
    if not math.isfinite(number):
        raise InputError(f"{field}: {shown(value)} is not a finite number; {_example(dimension)}")
    if number < 0 or (positive and number == 0):
        need = "above zero" if positive else "zero or more"
        raise InputError(f"{field}: {shown(value)} must be {need}; {_example(dimension)}")
    return number


def _parse_text(text: str, dimension: str, field: str) -> float:
    stripped = text.strip()
    if not stripped:
        raise InputError(f"{field}: is empty; {_example(dimension)}")
    match = _QUANTITY.fullmatch(stripped) if len(stripped) <= _LONGEST else None
    if not match:
        raise InputError(f"{field}: {shown(text)} is not a number with a unit; {_example(dimension)}")
    unit = "".join((match["unit"] or "").split())  # "1M tokens", "GB / s"
    if match["dollar"]:
        unit = "USD" + unit
    number = _times(match["number"].replace(",", ""), _factor(unit, dimension, field, text))
    return -number if match["sign"] in ("-", "−") else number


def _times(digits: str, factor: float) -> float:
    """Digits × factor, rounded once: a power of ten goes into the exponent, so "3.35 TB/s" is exactly 3.35e12."""
    power = _POWERS.get(factor)
    if power is None:
        return float(digits) * factor
    mantissa, _, exponent = digits.lower().partition("e")
    return float(f"{mantissa}e{int(exponent or 0) + power}")


def _factor(unit: str, dimension: str, field: str, text: str) -> float:
    """What to multiply by to reach SI, or InputError when the unit does not measure ``dimension``."""
    if dimension in _COUNTS:
        prefix = {**_LARGE, **_BINARY, "": 1.0}.get(unit)
        if prefix is not None:
            return prefix
        if dimension == "1" and unit == "%":
            return 0.01
    if not unit:
        raise InputError(f"{field}: {shown(text)} has no unit; {_example(dimension)}")
    found = _unit(unit)
    if found is None:
        raise InputError(
            f"{field}: {shown(text)} has an unknown unit {shown(unit)}{_spelling(unit)}; {_example(dimension)}"
        )
    if found[0] == dimension:
        return found[1]
    if dimension == "FLOP/s" and found[0] == "FLOP" and unit.endswith("OPs"):
        return found[1]  # "989 TFLOPs" where a rate is asked for can only mean per second
    raise InputError(f"{field}: {shown(text)} is in {found[0]}, not {dimension}; {_example(dimension)}")


_COMMON = "B kB MB GB TB KiB MiB GiB TiB MB/s GB/s TB/s GFLOP/s TFLOP/s TFLOPS TOPS USD/h kWh MHz GHz s ms ns W kW J"


def _spelling(unit: str) -> str:
    if re.fullmatch(r"[kmgtpKMGTP]i?b(ps|/s)?", unit):
        return " (write B for bytes or b for bits, with a capital prefix)"
    right = {known.lower(): known for known in _COMMON.split()}.get(unit.lower())
    if right:
        return f" (did you mean {right}?)"
    return ""


def _check_array(value: Any, field: str, positive: bool) -> None:
    low, high = float(value.min()) if value.size else 0.0, float(value.max()) if value.size else 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"{field}: the array holds a value that is not a finite number")
    if low < 0 or (positive and value.size and low == 0):
        raise InputError(
            f"{field}: the array holds {low:g}; every value must be {'above zero' if positive else 'zero or more'}"
        )


def parse_count(value: Any, field: str = "value", *, dimension: str = "1", least: int = 1, most: int = 2**53) -> int:
    """A whole number such as a batch, a degree or a token count: 8, "8", "128k" (128,000) or "128Ki" (131,072)."""
    if isinstance(value, str) and "%" in value:
        raise InputError(f"{field}: {shown(value)} must be a whole number, for example 8")
    try:
        number = parse(value, dimension, field)
    except InputError as problem:
        if dimension != "1":
            raise
        raise InputError(f"{str(problem).rpartition('; ')[0]}; write a whole number, for example 8") from None
    if number != math.floor(number):
        raise InputError(f"{field}: {shown(value)} must be a whole number, for example 8")
    if not least <= number <= most:
        raise InputError(f"{field}: {shown(value)} must be between {least:,} and {most:,}")
    return int(number)


def _example(dimension: str) -> str:
    return f"write for example '{EXAMPLES[dimension]}'" if dimension in EXAMPLES else f"give it in {dimension}"


def shown(value: Any) -> str:
    """A value as an error message shows it: quoted, on one line, cut when long."""
    text = repr(value) if isinstance(value, str) else re.sub(r"\s+", " ", repr(value))
    return text if len(text) <= 60 else f"{text[:40]}…{text[-10:]}"


def nearest(name: str, names: Any, prefix: str = "; did you mean ") -> str:
    """``; did you mean 'a' or 'b'?`` for the known names closest to ``name``, or nothing."""
    close = get_close_matches(str(name)[:100].lower(), list(names), n=3, cutoff=0.5)
    if not close:
        return ""
    return prefix + " or ".join(f"'{each}'" for each in close) + "?"


# --------------------------------------------------------------------------------------------- format

_SCALES: dict[str, tuple[tuple[str, float], ...]] = {
    "byte": (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12), ("PB", 1e15)),
    "FLOP": (
        ("FLOP", 1.0),
        ("kFLOP", 1e3),
        ("MFLOP", 1e6),
        ("GFLOP", 1e9),
        ("TFLOP", 1e12),
        ("PFLOP", 1e15),
        ("EFLOP", 1e18),
    ),
    "W": (("mW", 1e-3), ("W", 1.0), ("kW", 1e3), ("MW", 1e6)),
    "J": (("µJ", 1e-6), ("mJ", 1e-3), ("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("GJ", 1e9)),
    "Hz": (("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)),
}
_PER_SECOND_STAY = {"FLOP/s": ("TFLOP/s", 1e12, 1e16)}  # datasheets print 1,979 TFLOP/s, not 1.98 PFLOP/s
_FIXED = {"USD/s": ("USD/h", 1.0 / 3600.0), "USD/token": ("USD/Mtoken", 1e-6), "USD/J": ("USD/kWh", 1.0 / 3.6e6)}
_CLOCK = (("ns", 1e-9, 1), ("µs", 1e-6, 2), ("ms", 1e-3, 2), ("s", 1.0, 2))
MISSING = "–"


def format(x: float | None, dimension: str, digits: int | None = None, unit: str | None = None) -> str:
    """A quantity for people, with a readable prefix; ``digits`` are significant digits (3 unless told).

    Time follows one rule: 0; below 1 µs in ns (1 decimal); below 1 ms in µs (2); below 1 s in ms (2); then s (2).
    Bytes use GB = 1e9. A price shows per hour and a token's cost per million. ``unit`` fixes the unit instead.
    """
    if x is None or not math.isfinite(x):
        return MISSING
    if x < 0:
        return "−" + format(-x, dimension, digits, unit)
    if unit is not None:
        return f"{number(x / _factor(unit, dimension, 'unit', unit), digits or 3)} {unit}"
    if dimension == "s":
        return _format_time(x, digits)
    if dimension in _FIXED:
        name, factor = _FIXED[dimension]
        return f"{number(x / factor, digits or 3)} {name}"
    if dimension in _COUNTS:
        text = f"{int(x):,}" if float(x).is_integer() and x < 1e15 else number(x, digits or 3)
        return text if dimension == "1" else f"{text} {dimension}{'' if x == 1 else 's'}"
    return _format_scaled(x, dimension, digits or 3)


def _format_time(x: float, digits: int | None) -> str:
    if x == 0:
        return "0"
    for name, factor, decimals in _CLOCK:
        scaled = x / factor
        text = number(scaled, digits) if digits else f"{scaled:,.{decimals}f}"
        if name == "s" or float(text.replace(",", "")) < 1000.0:
            return f"{text} {name}"
    raise AssertionError("unreachable")


def _format_scaled(x: float, dimension: str, digits: int) -> str:
    if dimension in _PER_SECOND_STAY:
        name, factor, ceiling = _PER_SECOND_STAY[dimension]
        if factor <= x < ceiling:
            return f"{number(x / factor, digits)} {name}"
    base, slash, per = dimension.partition("/")
    if dimension == "FLOP/byte":
        return f"{number(x, digits)} FLOP/byte"
    scales = _SCALES.get(base, ((base, 1.0),))
    home = next(index for index, scale in enumerate(scales) if scale[1] == 1.0)
    index = home if x == 0 else max((i for i, scale in enumerate(scales) if x >= scale[1]), default=0)
    text = number(x / scales[index][1], digits)
    if index + 1 < len(scales) and float(text.replace(",", "")) >= 1000.0:
        index += 1
        text = number(x / scales[index][1], digits)
    return f"{text} {scales[index][0]}{slash}{per}"


def number(x: float, digits: int = 3) -> str:
    """Significant digits with trailing zeros kept; the integer part is never cut: 8.70, 0.500, 1,979, 128."""
    if x == 0:
        return "0"
    if x < 0:
        return "−" + number(-x, digits)
    if float(x).is_integer() and x < 1e15:
        return f"{int(x):,}" if x >= 10 ** (digits - 1) else f"{x:.{max(0, digits - len(str(int(x))))}f}"
    x = math.nextafter(x, math.inf)  # a half goes up, as in the page
    exponent = int(f"{x:.{digits - 1}e}".partition("e")[2])
    if exponent < -4 or exponent >= 15:
        return f"{x:.{digits - 1}e}"
    return f"{x:,.{max(0, digits - 1 - exponent)}f}"


def short(count: float) -> str:
    """A count in few characters, as an axis shows it: 512, 8 Ki, 1 Mi."""
    for prefix in ("Mi", "Ki"):
        if count >= _BINARY[prefix]:
            return f"{count / _BINARY[prefix]:.3g} {prefix}"
    return f"{count:,.0f}"


def symbol(dimension: str) -> str:
    """The unit as a column suffix in exports: ``byte/s`` -> ``byte_per_s``; nothing for pure numbers."""
    return "" if dimension == "1" else dimension.replace("/", "_per_")
