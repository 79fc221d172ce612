"""One scenario, every door: an estimate, a sweep's row, a comparison, an explanation, the library, a saved scenario and the
report in HTML say the same numbers (D-103, D-133, E-20).

Nothing here is an expected value: the laws are that two ways to ask the same agree. Where NumPy computes one of the two, the
last digits of logarithms and powers may differ.
"""

import random
from html import unescape

import pytest

import rooflab
from rooflab import api
from rooflab.units import InputError
from rooflab.units import format as shown

MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "mixtral-8x7b",
    "deepseek-v3",
    "gpt-oss-20b",
    "gemma-3-27b",
    "qwen3-next-80b-a3b",
)
MACHINES = ("h100-sxm", "dgx-h100", "hgx-h200", "dgx-b200", "a100-sxm-80gb", "mi300x")
FIGURES = ("ttft", "tpot", "e2e", "output_throughput", "throughput_per_device")
COLUMNS = {"used": "used", "weight_bytes": "weights", "workspace": "workspace"}
TOTALS = (
    *FIGURES, "decode_throughput", "tokens_per_second_per_user", "energy_per_token", "memory.used", "weights", "kv", "state",
    "workspace",
)  # fmt: skip


def scenario(seed: int):
    """A random scenario that can be run, with its estimate."""
    dice = random.Random(seed)
    while True:
        given = {
            "model": dice.choice(MODELS), "on": dice.choice(MACHINES), "tp": dice.choice((1, 2, 4, 8)),
            "pp": dice.choice((1, 1, 2)), "dp": dice.choice((1, 2)), "ep": dice.choice((1, 1, 8)),
            "attention_dp": dice.choice((1, 1, 2)), "batch": dice.choice((1, 3, 16, 64)),
            "prompt": dice.choice((128, 1000, 4096)), "output": dice.choice((2, 64, 300)),
            "engine": dice.choice(("vllm", "sglang", "trtllm")),
            "prices": dice.choice((None, "roofline")), "weights": dice.choice((None, "fp8", "int4")),
            "kv": dice.choice((None, "fp8")), "reserve": dice.choice((None, "20%", "2 GB")),
        }  # fmt: skip
        given = {name: value for name, value in given.items() if value is not None}
        try:
            report = api.answer({"kind": "estimate", **given, "detail": True})
        except InputError:
            continue
        if report["fits"]:
            return given, report


def at(report, name):
    """A number of an estimate by its name, those of the memory after a dot."""
    place = report["memory"]
    return report[name] if name in report else place[name.removeprefix("memory.")]


@pytest.fixture(scope="module", params=range(8))
def asked(request):
    return scenario(request.param)


def test_library_comparison_fit_and_snapshot(asked):
    """The same formulas on the same floats: equal to the last digit."""
    given, report = asked
    rest = {name: value for name, value in given.items() if name not in ("model", "on")}
    library = rooflab.estimate(given["model"], on=given["on"], **rest)
    kept = api.answer({"kind": "snapshot", "scenario": given})["digest"]
    cases = [{"name": "one", "scenario": given}, {"name": "two", "scenario": {**given, "batch": given["batch"] + 1}}]
    rows = {row["key"]: row["values"][0] for row in api.answer({"kind": "compare", "cases": cases})["rows"]}
    for name in FIGURES:
        assert library[name] == report[name], name
        assert rows.get(name, report[name]) == report[name], name
        assert kept.get(name, report[name]) == report[name], name
    assert {"ttft", "tpot"} <= set(rows) & set(kept)
    assert api.answer({"kind": "fit", **given})["memory"] == report["memory"]


def test_sweeps_and_arrays(asked):
    """A row of a sweep, and an element of an array, are the estimate of that point."""
    given, report = asked
    rest = {name: value for name, value in given.items() if name != "batch"}
    batches = [given["batch"], given["batch"] + 1]
    rows = api.answer({"kind": "sweep", **rest, "vary": {"batch": batches}})["table"]
    assert rows["feasible"][0] == report["fits"]
    for name in FIGURES:
        assert rows["columns"][name][0] == pytest.approx(report[name], rel=1e-12), name
    for column, name in COLUMNS.items():
        assert rows["columns"].get(column, [report["memory"][name]])[0] == report["memory"][name]
    more = {name: value for name, value in rest.items() if name not in ("model", "on")}
    points = rooflab.estimate(given["model"], on=given["on"], **{**more, "batch": batches})
    assert float(points.ttft[0]) == pytest.approx(report["ttft"], rel=1e-12)
    assert float(points.tpot[0]) == pytest.approx(report["tpot"], rel=1e-12)


def test_explanations(asked):
    """D-103: every total and every operator's time is explained to the number that the estimate shows."""
    given, report = asked
    for name in TOTALS:
        if at(report, name) is None:
            continue
        explained = api.answer({"kind": "explain", **given, "op": name})
        assert explained["value"] == pytest.approx(at(report, name), rel=1e-12), name
    for phase in ("decode", "prefill"):
        step = report[f"{phase}_step"]
        for op in sorted(step["ops"], key=lambda op: -op["time"])[:4]:
            explained = api.answer({"kind": "explain", **given, "op": op["name"], "phase": phase})
            assert explained["value"] == pytest.approx(op["time"], rel=1e-9), op["name"]


def test_report_in_html(asked):
    """D-907: the page of the scenario shows the estimate's numbers by the units' own rules."""
    given, report = asked
    text = unescape(api.answer({"kind": "document", "scenario": given})["html"])
    for name in ("ttft", "tpot", "e2e"):
        assert shown(report[name], "s") in text
    assert shown(report["memory"]["used"], "byte") in text
