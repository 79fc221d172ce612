"""The design questions through the one door: plain data both ways, messages for people, a page for each report."""

import json
import math
import re

import pytest

from rooflab import api
from rooflab.api.spans import values_of
from rooflab.show import page
from rooflab.units import InputError

ASKS = {
    "sweep": {"model": "llama-3.1-70b", "on": "8x h100-sxm", "vary": {"tp": "1..8", "batch": "1..512", "kv": "bf16,fp8"}},
    "serving": {
        "kind": "sweep", "model": "mixtral-8x7b", "on": "dgx-h100", "also_on": ["hgx-h200"], "layouts": 8, "rows": "pareto",
    },
    "suggest": {"model": "llama-3.1-8b", "on": "8x h100-sxm", "users": 200, "ttft": "300 ms", "tpot": 0.03},
    "plan": {"model": "llama-3.1-70b", "on": "dgx-h100", "users": 1000, "tpot": "40 ms"},
    "infeasible": {"kind": "plan", "model": "llama-3.1-70b", "on": "dgx-h100", "users": 10, "tpot": "0.4 ms"},
    "sharded": {"model": "qwen3-8b", "context": 131072, "rows": "pareto"},
    "codesign": {"model": "qwen3-8b", "depth": "two_stage"},
    "rules": {"model": "llama-3.1-70b", "on": "dgx-h100", "tp": 16, "pp": 2, "tpot": "30 ms"},
}  # fmt: skip


def _answer(name):
    return api.answer({"kind": name, **ASKS[name]})


@pytest.mark.parametrize("name", ASKS)
def test_reports_are_plain_and_have_a_page(name):
    """JSON without NaN, the question inside it gives the same report again, and the report becomes a page."""
    report = _answer(name)
    text = json.dumps(report, allow_nan=False)
    again = json.dumps(api.answer(report["ask"]), allow_nan=False)
    assert again == text
    shown = page(report)
    assert shown.title
    assert shown.blocks


def test_sweep_report():
    """A-042, A-046: frontier positions are of the returned table; the best per objective is on it; reasons are counted."""
    report = _answer("sweep")
    table = report["table"]
    assert report["totals"]["enumerated"] == 4 * 10 * 2 == len(table["feasible"])
    speed, rate = table["columns"]["interactivity"], table["columns"]["throughput_per_device"]
    for i in report["pareto"]:
        assert table["feasible"][i]
        assert not any(
            speed[j] >= speed[i] and rate[j] >= rate[i] and (speed[j], rate[j]) != (speed[i], rate[i])
            for j in range(len(speed)) if table["feasible"][j]
        )  # fmt: skip
    assert set(report["best"].values()) <= set(report["pareto"])
    refused = sum(report["reasons"].values())
    assert refused == table["feasible"].count(False) == len(table["feasible"]) - report["totals"]["feasible"]
    assert table["units"]["tpot"] == "s"
    limited = api.answer({"kind": "sweep", **ASKS["sweep"], "where": ["tpot < 15 ms"]})
    assert all(limited["table"]["columns"]["tpot"][i] < 0.015 for i in limited["pareto"])


def test_serving_report():
    """Only frontier rows come back, from both systems' layouts, and name their system."""
    report = _answer("serving")
    assert sorted(report["pareto"]) == list(range(len(report["table"]["feasible"])))
    assert set(report["table"]["columns"]["system"]) <= {"dgx-h100", "hgx-h200"}
    assert report["systems"] == ["dgx-h100", "hgx-h200"]


def test_sharded_report():
    """D-145, D-148, D-149: counts, positions in the table, five sensitivities around the fastest."""
    report = _answer("sharded")
    assert report["totals"]["feasible"] == 15584
    assert len(report["pareto"]) == 12
    assert len(report["top_by_memory"]) == 10
    assert set(report["sensitivities"]) == {"cp", "tp", "pp", "dp", "batch"}
    latency = report["table"]["columns"]["latency"]
    assert latency[report["fastest"]] == min(latency)
    around = api.answer({"kind": "sharded", **ASKS["sharded"], "around": {"cp": 4, "tp": 8, "kv_shard": "split"}})
    assert around["sensitivities"]["cp"]["columns"]["tp"] == [8] * 6


def test_plan_report():
    """D-303, D-305, D-311: axes with what to do first; an infeasible limit says the tightest feasible one."""
    report = _answer("plan")
    assert report["feasible"]
    assert [axis["name"] for axis in report["axes"]] == ["capacity", "kv", "throughput"]
    assert all(axis["first"] and axis["then"] for axis in report["axes"])
    assert report["total"] == report["replicas"] * report["devices_per_replica"]
    assert report["fleets"][0]["total"] >= report["total"]  # exchanges and achievable rates only add devices
    assert len(report["targets"]) == 5
    none = _answer("infeasible")
    assert not none["feasible"]
    assert none["total"] is None
    assert none["tightest"] > 0.0004


@pytest.mark.parametrize("how", [{}, {"prices": "roofline"}, {"profile": "sharded"}])
def test_rules_are_judged_at_the_prices_of_the_estimate(how):
    """D-409, D-410: the step that meets a limit is the one that the estimate shows, whatever prices it."""
    asked = {"model": "llama-3.1-70b", "on": "4x h100-sxm", "tp": 4, "batch": 64, "prompt": 2048, "output": 256, **how}
    tpot = api.answer({"kind": "estimate", **asked})["tpot"]
    for limit, passed in ((tpot * 1.01, True), (tpot * 0.99, False)):
        checks = {one["name"]: one for one in api.answer({"kind": "rules", **asked, "tpot": limit})["checks"]}
        assert checks["step_meets_limit"]["value"] == pytest.approx(tpot, rel=1e-12)
        assert checks["step_meets_limit"]["passed"] is passed


def test_sources_of_a_machine():
    """A-066, E-22: cards with what else rests on them, and whether its kernels were measured."""
    asked = {"model": "llama-3.1-70b", "tp": 4, "batch": 4}
    found = {on: api.answer({"kind": "rules", **asked, "on": f"4x {on}"}) for on in ("h100-sxm", "h200-sxm", "tpu-v5p")}
    assert {on: one["measured"] for on, one in found.items()} == {
        "h100-sxm": "own",
        "h200-sxm": "carried",
        "tpu-v5p": "none",
    }
    assert api.answer({"kind": "rules", **asked, "on": "4x h100-sxm", "prices": "roofline"})["measured"] == "own"
    card = next(one for one in found["tpu-v5p"]["sources"] if one["key"] == "S5")
    assert card["url"].startswith("https://")
    assert {"tpu-v5e", "tpu-v6e"} <= set(card["used_by"])
    assert "tpu-v5p" not in card["used_by"]
    assert found["h100-sxm"]["sources"][0]["gives"] == ["kernels measured on h100-sxm"]
    assert found["h100-sxm"]["sources"][0]["date"]
    assert re.search(
        r"off by [\d.]+% .* by [\d.]+% on shapes held out", found["h100-sxm"]["sources"][0]["notes"]
    )


def test_rules_report():
    """D-105, D-110–D-113, D-400, D-410: everything of a scenario in one report, with the guidance behind it."""
    report = _answer("rules")
    assert len(report["checks"]) == 7
    assert report["waste"] == pytest.approx(math.fsum(one["waste"] for one in report["copies"]))
    assert len(report["ranks"]) == 16
    assert {"guidance", "techniques", "levers", "playbook", "targets", "deployment"} <= set(report["guidance"])
    assert report["guidance"]["guidance"]["notice"] in report["notes"]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("tp", "1,2,4", (1, 2, 4)),
        ("batch", "1..512", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
        ("batch", "3..20", (3, 6, 12, 20)),
        ("batch", "8..24+8", (8, 16, 24)),
        ("prompt", "1k,128Ki", (1000, 131072)),
        ("tp", [1, 2, 2], (1, 2)),
        ("memory_bandwidth", "1x,2x", ("1x", "2x")),
        ("kv", "bf16,fp8", ("bf16", "fp8")),
    ],
)
def test_spans(name, given, expected):
    """ "1..512" doubles, "8..24+8" steps, counts carry prefixes, the rest is text."""
    assert values_of(name, given) == expected


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        ({"kind": "sweep", "vary": {"tp": "8..1"}}, "goes down"),
        ({"kind": "sweep", "vary": {"batch": "1..1000000+1", "prompt": "1..1000"}}, "at once"),
        ({"kind": "sweep", "vary": {"colour": "1"}}, "field of a scenario"),
        ({"kind": "sweep", "where": ["ttft ! 3"]}, "not a condition"),
        ({"kind": "sweep", "pareto": ["max:colour"]}, "no such column"),
        ({"kind": "sweep", "layouts": 8, "vary": {"tp": "1,2"}}, "every degree"),
        ({"kind": "suggest", "tpot": "fast"}, "tpot"),
        ({"kind": "suggest", "ttft": -1.0}, "ttft"),
        ({"kind": "plan", "users": 0}, "users"),
        ({"kind": "plan", "context": 100, "output": 100}, "output"),
        ({"kind": "plan", "tpot": None}, "tpot"),
        ({"kind": "sharded", "axes": {"tp": ["x"]}}, "axes.tp"),
        ({"kind": "sharded", "around": {"tp": "x"}}, "around.tp"),
        ({"kind": "codesign", "cost_weights": {"memory": -1}}, "weights.memory"),
        ({"kind": "rules", "tp": 3}, "does not divide"),
    ],
)
def test_bad_questions(ask, word):
    """Bad input is one line that names the field."""
    with pytest.raises(InputError, match=word) as caught:
        api.answer({"model": "llama-3.1-8b", "on": "h100-sxm", **ask})
    assert "\n" not in str(caught.value)
