"""One line of an explanation: a formula, the same with numbers, and its inputs with their names, units and bases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rooflab import explain
from rooflab.api.asks import Line
from rooflab.document.words import symbol_name, symbol_unit

_BASES = {
    **dict.fromkeys(("rate", "bandwidth", "power", "price"), "datasheet"),
    **dict.fromkeys(("efficiency", "launch", "workspace", "latency", "pass_overhead"), "assumed"),
    **dict.fromkeys(("flop", "moved", "payload", "link_rate", "seconds", "ttft", "tpot", "traverse"), "derived"),
    **dict.fromkeys(("pairs", "group_time", "alone", "together", "cover"), "derived"),
}
"""Where a formula's input comes from, by its name; whatever is not here was counted from the model and the ask."""
_SUM = "sum of the parts, each explained by its own name"
Terms = dict[str, float]


def line(
    quantity: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    unit: str,
    *,
    titles: dict[str, str] | None = None,
) -> Line:
    """One explained quantity from a formula function and its arguments."""
    text = explain.describe(function)
    inputs = {name: float(value) for name, value in zip(explain.symbols(function), arguments, strict=True)}
    return _named(
        titles or {},
        quantity=quantity,
        unit=unit,
        formula=explain.expression(function),
        substituted=explain.substitute(function, arguments),
        value=float(function(*arguments)),
        inputs=inputs,
        bases={name: _BASES.get(name, "exact") for name in inputs},
        means=text["means"],
        counts=text["counts"],
        source=text["source"],
        holds=text["holds"],
    )


def total(
    quantity: str, terms: Terms, unit: str, means: str, counts: str, *, titles: dict[str, str] | None = None
) -> Line:
    """One explained quantity that is a sum of named terms."""
    return weighted(quantity, {name: (1.0, value) for name, value in terms.items()}, unit, means, counts, titles=titles)


def weighted(
    quantity: str,
    terms: dict[str, tuple[float, float]],
    unit: str,
    means: str,
    counts: str,
    *,
    titles: dict[str, str] | None = None,
) -> Line:
    """One explained quantity that is a sum of named terms, each as often as its factor says."""
    shown = {name: term for name, term in terms.items() if term[0] * term[1]}
    factor = {name: "" if times == 1.0 else f"{explain.figure(times)} * " for name, (times, _) in shown.items()}
    return _named(
        titles or {},
        quantity=quantity,
        unit=unit,
        formula=" + ".join(factor[name] + name for name in shown) or "0",
        substituted=" + ".join(factor[name] + explain.figure(value) for name, (_, value) in shown.items()) or "0",
        value=math.fsum(times * value for times, value in shown.values()),
        inputs={name: value for name, (_, value) in shown.items()},
        parts={name: times * value for name, (times, value) in shown.items()},
        bases={name: _BASES.get(name, "derived") for name in shown},
        means=means,
        counts=counts,
        source=_SUM,
        holds="always",
    )


def written(quantity: str, formula: str, inputs: Terms, unit: str, means: str, counts: str) -> Line:
    """One explained quantity by a formula in its own symbols, each of which another line explains or the profile gives."""
    values = {name: explain.figure(value) for name, value in inputs.items()}
    substituted = explain.filled(formula, values)
    return _named(
        {},
        quantity=quantity,
        unit=unit,
        formula=formula,
        substituted=substituted,
        value=explain.evaluate(substituted),
        inputs=inputs,
        bases={name: "exact" if name == "executions" else _BASES.get(name, "derived") for name in inputs},
        means=means,
        counts=counts,
        source="as the profile combines them",
        holds="always",
    )


def _named(titles: dict[str, str], *, quantity: str, unit: str, inputs: Terms, **rest: Any) -> Line:
    """A line whose quantity and inputs carry names and units for people."""
    return Line(
        quantity=quantity,
        title=titles.get(quantity) or symbol_name(quantity, quantity),
        unit=unit,
        inputs=inputs,
        names={name: titles.get(name) or symbol_name(name, quantity) for name in inputs},
        units={name: unit if "parts" in rest else symbol_unit(name, unit) for name in inputs},
        **rest,
    )
