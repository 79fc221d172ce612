"""What is shown is what was evaluated: F-04, D-103, E-31.

Every formula reachable from an operator, over all catalog models and profiles, is printed with its numbers and computed
again from the printed text.
"""

import inspect
import math
import re
from pathlib import Path
from types import ModuleType

import pytest
from builders import KINDS, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab import catalog, chip, collectives, explain, fits, graph, hf, price
from rooflab import estimate as est
from rooflab.graph import formulas
from rooflab.profiles import PROFILES
from rooflab.units import InputError
from rooflab.work import Layout, Precision, Step

REQUIREMENTS = (Path(__file__).parent.parent / "docs" / "requirements.tsv").read_text(encoding="utf-8")
MODULES: tuple[ModuleType, ...] = (formulas, price, collectives, est, fits, chip.formulas)


def formulas_of(module: ModuleType) -> list:
    """Functions of a module that say what they count."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [f for _, f in found if f.__module__ == module.__name__ and "Counts:" in (f.__doc__ or "")]


FORMULAS = [function for module in MODULES for function in formulas_of(module)]
LAYOUTS = (
    Layout(),
    Layout(tp=2, cp=2, pp=2, attention_dp=2, ep=2, dp=2),
    Layout(tp=16, kv_shard="split", ffn_scope="tp_cp", cp=4, ring="qoml", ep=4, ep_mode="dedicated"),
)
STEPS = (
    Step(prefill_sequences=3, prefill_tokens=1234, prefill_context=77, decode_sequences=5, decode_context=9999),
    Step(prefill_sequences=1, prefill_tokens=5000),
    Step(decode_sequences=33, decode_context=4000.5),
)


def reasons() -> dict:
    """Every formula the engine records, with the different arguments it was called with."""
    called: dict = {}
    models = [hf.load(name) for name in catalog.model_names()] + list(KINDS.values())
    precision = Precision(ffn="int4", expert="nvfp4", kv="fp8", attention="fp8_block")
    for what in models:
        for used in PROFILES.values():
            for layout, step in zip(LAYOUTS, STEPS, strict=True):
                ops = graph.operators(
                    what, precision, layout, step, counting=used.counting, causal=used.causal, outside=used.outside
                )
                for op in ops:
                    for reason in op.why:
                        called.setdefault(reason.formula, {})[reason.arguments] = None
    return called


CALLED = reasons()


def again(function, arguments) -> float:
    """The value of the printed line."""
    return explain.evaluate(explain.substitute(function, arguments))


def test_every_counting_formula_is_recorded_by_some_operator():
    """F-04, E-31: no formula is written and never used; a new one is reached by this test or refused."""
    assert set(CALLED) == set(formulas_of(formulas))


@pytest.mark.parametrize("function", CALLED, ids=lambda f: f.__name__)
def test_printed_lines_of_all_models_evaluate_to_what_was_counted(function):
    """F-04: over all catalog models, profiles, layouts and phases: the substituted text gives the number."""
    calls = list(CALLED[function])
    for arguments in calls[:: max(1, len(calls) // 250)]:
        value = function(*arguments)
        assert math.isclose(again(function, arguments), value, rel_tol=1e-9, abs_tol=1e-12), arguments


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f"{f.__module__.split('.')[-1]}.{f.__name__}")
@given(data=st.data())
@settings(max_examples=25)
def test_any_numbers_can_be_put_in(function, data):
    """F-04: whatever the (positive) arguments, the substituted text evaluates to the function's value."""
    names = explain.symbols(function)
    # Printed numbers carry twelve digits, so a rounding formula is asked about whole numbers only.
    rounds = re.search(r"ceil|floor|round_up", explain.expression(function))
    numbers = st.integers(1, 10**6) if rounds else st.one_of(st.integers(1, 10**6), st.floats(0.01, 1e9))
    arguments = tuple(data.draw(numbers, label=name) for name in names)
    if function is formulas.distinct_experts:  # a token picks at most all experts
        arguments = (arguments[0] + arguments[1], arguments[1], arguments[2])
    try:
        value = function(*arguments)
    except (OverflowError, ZeroDivisionError):
        return
    assert math.isclose(again(function, arguments), value, rel_tol=1e-6, abs_tol=1e-9)


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f"{f.__module__.split('.')[-1]}.{f.__name__}")
def test_every_formula_says_what_it_counts_where_it_is_from_and_when_it_holds(function):
    """F-04: one sentence, Counts, Source and Holds; a source is a requirement, a reference of the catalog, or in words."""
    text = explain.describe(function)
    for field in ("means", "counts", "source", "holds"):
        assert text[field], field
        assert text[field].endswith("."), field
    for key in text["source"].split("`")[1::2]:
        if not key.startswith("truth"):
            assert key in catalog.refs(), key
    known = set(re.findall(r"^([A-F]-\d+)", REQUIREMENTS, re.MULTILINE))
    assert set(re.findall(r"\b[A-F]-\d+", text["source"])) <= known


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f"{f.__module__.split('.')[-1]}.{f.__name__}")
def test_symbols_are_the_parameters_and_all_are_used(function):
    """F-04: a formula names each of its inputs, and nothing else."""
    written = set(re.findall(r"[a-z_]+", re.sub(r"\b\d[\w.]*", "", explain.expression(function))))
    functions = {"ceil", "clip", "floor", "maximum", "minimum", "where", "round_up", "ceil_div", "if", "else"}
    assert written - functions == set(explain.symbols(function))


def test_text_of_a_formula():
    """F-04, D-103: symbols, and the same line with numbers in the place of names."""
    assert explain.expression(formulas.weight_bytes) == "1.0 * n * k * size"
    assert explain.substitute(formulas.weight_bytes, (6144.0, 4096, 0.5625)) == "1.0 * 6144 * 4096 * 0.5625"
    assert explain.evaluate("2.0 * 32 * 6144 * 4096") == 1610612736
    # Calls lose their module; a negative number or a fraction keeps its brackets' meaning.
    assert explain.expression(price.padded_rows) == "round_up(m, where(m < tile, minimum(tile, 16.0), tile))"
    assert explain.evaluate(explain.substitute(formulas.causal_pairs, (3, -0.5))) == formulas.causal_pairs(3, -0.5)


def test_what_describes_a_formula():
    """F-04: the fields of a docstring by name."""
    text = explain.describe(formulas.matmul_flop)
    assert text["means"].startswith("FLOP of a matrix product")
    assert text["source"] == "requirement A-016."
    assert explain.describe(test_text_of_a_formula)["counts"] == ""


def test_only_formulas_are_printed():
    """F-02: a function of several statements is no formula, and says so."""

    def two_lines(a):
        b = 2.0 * a
        return b

    with pytest.raises(TypeError, match="two_lines must be one return expression"):
        explain.expression(two_lines)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "open('x')",
        "(1).real",
        "[1, 2]",
        "x + 1",
        "lambda: 1",
        "f'{1}'",
        "max(1, 2)",
    ],
)
def test_only_arithmetic_is_evaluated(text):
    """F-02: a printed line is arithmetic; anything else is refused unread."""
    with pytest.raises(ValueError, match="not a formula"):
        explain.evaluate(text)


def test_no_number_is_no_value():
    """F-02: NaN is not a result."""
    with pytest.raises(ValueError, match="not a number"):
        explain.evaluate("1e308 * 10 * 0")


def test_prices_of_operators_are_explained_by_the_same_functions():
    """E-31: an operator's arithmetic and traffic times are the printed formulas of its counts."""
    system, used = machine(), PROFILES["operator"]
    pricer = price.Roofline(system, Layout(), used, price.rates_of(used)["low"])
    for op in graph.operators(KINDS["dense"], Precision(), Layout(), STEPS[0]):
        cost = pricer.cost(op)
        arguments = (op.flop, pricer.peak(op.dtype), 1.0)
        assert cost.compute == pytest.approx(again(price.compute_time, arguments), rel=1e-9)
        arguments = (op.bytes(), system.device.memory_bandwidth, 1.0)
        assert cost.memory == pytest.approx(again(price.memory_time, arguments), rel=1e-9)


def test_unknown_precision_formats_are_not_explained_away():
    """F-02: a format nobody knows is an error that names it, not a number."""
    with pytest.raises((KeyError, InputError), match="bf17"):
        graph.operators(KINDS["dense"], Precision(ffn="bf17"), Layout(), STEPS[0])
