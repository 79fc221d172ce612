"""Formulas as text: the expression a function evaluates, with the actual numbers put in.

A formula function's body is one `return` expression over its parameters. What is printed is that expression, taken from the
function's own source, so the displayed formula is the evaluated one. `evaluate` computes a printed line again, for tests.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any

from rooflab import num

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": num.ceil,
    "ceil_div": num.ceil_div,
    "clip": num.clip,
    "floor": num.floor,
    "maximum": num.maximum,
    "minimum": num.minimum,
    "where": num.where,
    "round_up": num.round_up,
}
_FIELDS = ("Counts", "Source", "Holds")


@cache
def _parsed(function: Callable[..., Any]) -> tuple[ast.expr, tuple[str, ...]]:
    """The return expression of a formula function and its parameter names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise TypeError(f"{function!r} is not a formula function")
    body = [
        node for node in definition.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        raise TypeError(f"{function.__name__} must be one return expression to be explained")
    return body[0].value, tuple(arg.arg for arg in definition.args.args)


class _Plain(ast.NodeTransformer):
    """Writes `num.where(…)` as `where(…)` and puts numbers in the place of names."""

    def __init__(self, values: dict[str, ast.expr]):
        self.values = values

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(id=node.attr, ctx=ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.values.get(node.id, node)


def _copied(function: Callable[..., Any]) -> ast.expr:
    expression, _ = _parsed(function)
    return ast.parse(ast.unparse(expression), mode="eval").body


def expression(function: Callable[..., Any]) -> str:
    """The formula with its symbols: "2.0 * m * n * k"."""
    return ast.unparse(_Plain({}).visit(_copied(function)))


def symbols(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a formula's parameters, in order."""
    return _parsed(function)[1]


def figure(value: Any) -> str:
    """A number as it is put into a formula: short, and equal to the value to at least twelve digits."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, tuple):
        return "(" + ", ".join(figure(item) for item in value) + ")"
    return str(value)


def substitute(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """The formula with the numbers in it: "2.0 * 32 * 6144 * 4096"."""
    _, names = _parsed(function)
    values = {name: figure(value) for name, value in zip(names, arguments, strict=True)}
    return filled(ast.unparse(_copied(function)), values)


def filled(formula: str, values: dict[str, str]) -> str:
    """A formula with figures in the place of names."""
    nodes = {name: ast.parse(f"({value})", mode="eval").body for name, value in values.items()}
    return ast.unparse(_Plain(nodes).visit(ast.parse(formula, mode="eval").body))


def evaluate(text: str) -> float:
    """The value of a printed formula; only arithmetic, comparisons and the functions formulas use are understood.

    Raises ValueError for anything else.
    """
    tree = ast.parse(text, mode="eval")
    allowed = (
        ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Call, ast.Name, ast.Load, ast.Compare, ast.IfExp, ast.Tuple,
        ast.operator, ast.unaryop, ast.cmpop,
    )  # fmt: skip
    for node in ast.walk(tree):
        if not isinstance(node, allowed) or (isinstance(node, ast.Name) and node.id not in _FUNCTIONS):
            raise ValueError(f"not a formula: {ast.unparse(node)}")
    value = float(eval(compile(tree, "<formula>", "eval"), {"__builtins__": {}}, dict(_FUNCTIONS)))
    if math.isnan(value):
        raise ValueError(f"not a number: {text}")
    return value


class Text(dict[str, str]):
    """A formula's docstring by field: `means`, `counts`, `source`, `holds`."""


@cache
def describe(function: Callable[..., Any]) -> Text:
    """What a formula says of itself: one sentence, what it counts and leaves out, its source, where it holds."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    text = Text(means="", counts="", source="", holds="")
    field = "means"
    for line in lines:
        head, found, rest = line.partition(":")
        if found and head in _FIELDS:
            field, line = head.lower(), rest
        text[field] = f"{text[field]} {line.strip()}".strip()
    return text
