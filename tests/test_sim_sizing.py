"""Fleets held to percentiles under traffic: the fewest replicas, the best division, and how sure the answer is (A-051, B-070)."""

import json

import msgspec
import pytest

from rooflab import api
from rooflab.api.design import answer_plan
from rooflab.api.design_asks import PlanAsk
from rooflab.cli import main
from rooflab.sim.cluster import Transfer
from rooflab.sim.schedule import Limits
from rooflab.sim.sizing import Search
from rooflab.sim.study import Setup, Stopped
from rooflab.sim.surface import LineSurface
from rooflab.sim.traffic import lengths, open_loop
from rooflab.units import InputError

SETUP = Setup(
    surface=LineSurface(5e-3, 1e-5, 2e-8, 2e-5), limits=Limits(blocks=10**6, slots=64), routing="least_loaded",
    transfer=Transfer(bytes_per_token=10.0, bandwidth=1e9),
)  # fmt: skip


def make(rate, seed):
    return open_loop(400, rate, lengths(300, "p"), lengths(40, "o"), seed=seed)


def search(rate=250.0, slo=None, **more):
    return Search(SETUP, make, rate, slo or {"ttft": 0.05, "tpot": 0.009}, **more)


@pytest.mark.parametrize("at", ["p50", "p95", "p99"])
def test_the_fewest_are_the_fewest_of_all(at):
    """Bisection finds what trying every number finds; fewer than `least` surely miss, `sure` surely holds."""
    asked = search(at=at)
    found = asked.fewest(64)
    each = {count: asked.trial(count) for count in range(1, found.replicas + 3)}
    assert found.replicas == min(count for count, trial in each.items() if trial.within) > 2
    assert found.trial == each[found.replicas]
    assert all(asked.trial(count).holds is False for count in range(1, found.least))
    assert found.least <= found.replicas <= found.sure
    assert asked.trial(found.sure).holds is True


def test_stricter_percentiles_never_need_fewer():
    counts = [search(at=at).fewest(64).replicas for at in ("p50", "p90", "p99")]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_a_limit_at_the_mean_is_open():
    """A limit that is the very mean over the seeds is within, and neither sure to hold nor to be missed; 1 % of the interval
    beyond it the answer is the same, three intervals beyond it is sure."""
    free = search(slo={"ttft": 100.0}).trial(6)
    mean, half = free.point.figures["ttft_p95"], free.point.interval["ttft_p95"]
    assert half > 0.0
    for limit, within, holds in ((mean, True, None), (mean - 0.01 * half, False, None), (mean - 3 * half, False, False),
                                 (mean + 3 * half, True, True)):  # fmt: skip
        trial = search(slo={"ttft": limit}).trial(6)
        assert (trial.within, trial.holds) == (within, holds)


def test_the_best_division_is_of_the_fewest_replicas():
    """No smaller number has a division within the limits, and none of the same number keeps more requests."""
    asked = search(rate=300.0, slo={"ttft": 0.1, "tpot": 0.01})
    found = asked.divided(12)
    assert found is not None
    assert found.within
    assert found.replicas > 2
    for replicas in range(2, found.replicas + 1):
        for before in range(1, replicas):
            other = asked.trial(replicas, (before, replicas - before))
            assert not other.within or replicas == found.replicas
            if other.within:
                assert other.point.figures["attainment"] <= found.point.figures["attainment"]
    assert asked.divided(found.replicas - 1) is None


def test_a_search_tells_how_far_it_is_and_stops():
    told = []
    full = search(told=lambda done, expected: told.append((done, expected)) and False)
    full.fewest(64)
    assert [done for done, _ in told] == list(range(1 + 3 * len(full.tried)))  # one alone, then three seeds of each
    assert all(done < expected for done, expected in told)
    with pytest.raises(Stopped):
        search(told=lambda done, expected: done >= 4).fewest(64)


def test_what_cannot_be_sized_is_said():
    with pytest.raises(InputError, match="seeds"):
        search(seeds=1)
    with pytest.raises(InputError, match="cannot be met"):
        search(slo={"tpot": 0.001}).fewest(64)
    with pytest.raises(InputError, match="2 replicas do not hold"):
        search(rate=2000.0).fewest(2)


# --------------------------------------------------------------------------- the door and the command

PLAN = {"kind": "plan", "model": "llama-3.1-8b", "on": "h100-sxm", "users": 200, "context": 2048, "tpot": "20 ms",
        "ttft": "500 ms", "requests": 300}  # fmt: skip


def test_a_plan_is_held_to_a_percentile():
    """Plain JSON; the mean of the closed form needs fewer devices than the percentile under twice the traffic; the same again."""
    report = api.answer({**PLAN, "percentile": "p95", "divide": True, "link": "50 GB/s"})
    json.dumps(report, allow_nan=False)
    found = report["simulated"]
    assert found["total"] == found["replicas"] * found["devices_per_replica"]
    assert found["chosen"]["within"]
    assert found["chosen"]["ttft"] <= 0.5
    assert found["chosen"]["tpot"] <= 0.02
    assert found["least"] <= found["replicas"]
    assert found["rate"] == pytest.approx(200 / (0.5 + 255 * 0.02))
    assert found["divided"]["split"] is not None
    assert api.answer({**PLAN, "percentile": "p95", "divide": True, "link": "50 GB/s"}) == report
    twice = api.answer({**PLAN, "percentile": "p95", "rate": 2 * found["rate"]})["simulated"]
    assert twice["total"] > found["total"]
    assert api.answer(PLAN)["simulated"] is None


@pytest.mark.parametrize(
    "more, said",
    [
        ({"rate": 3}, "percentile"),
        ({"divide": True}, "percentile"),
        ({"percentile": "p97"}, "percentile"),
        ({"percentile": "p95", "seeds": 1}, "seeds"),
        ({"percentile": "p95", "requests": 5}, "requests"),
        ({"percentile": "p95", "rate": 0}, "rate"),
        ({"percentile": "p95", "output": 1, "ttft": None}, "rate"),
        ({"percentile": "p95", "divide": True, "link": "fast"}, "link"),
    ],
)
def test_what_a_plan_cannot_take_is_said_in_a_line(more, said):
    with pytest.raises(InputError, match=said) as caught:
        api.answer({**PLAN, **more})
    assert "\n" not in str(caught.value)


def test_no_layout_on_the_mean_is_said():
    report = api.answer({**PLAN, "tpot": "0.1 ms", "percentile": "p95"})
    assert report["simulated"] is None
    assert any("none was simulated" in note for note in report["notes"])


def test_a_plan_can_be_stopped():
    told = []
    ask = msgspec.convert({key: value for key, value in PLAN.items() if key != "kind"} | {"percentile": "p95"}, PlanAsk)
    report = answer_plan(ask, progress=lambda done, total: told.append((done, total)), cancel=lambda: len(told) > 2)
    assert report.simulated is None
    assert any("stopped" in note for note in report.notes)
    assert told == sorted(told)


def test_the_command_takes_percentiles(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    words = [
        "plan",
        "llama-3.1-8b",
        "--on",
        "h100-sxm",
        "--users",
        "200",
        "--context",
        "2k",
        "--tpot",
        "20ms",
        "--requests",
        "200",
    ]
    assert main([*words, "--percentile", "95", "--rate", "20", "--seeds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["simulated"]
    assert (found["percentile"], found["rate"], found["seeds"]) == ("p95", 20.0, 2)
    assert main([*words, "--percentile", "p95"]) == 0
    assert "hold p95" in capsys.readouterr().out
    for more, said in (
        (["--percentile", "97"], "percentile"),
        (["--rate", "9"], "percentile"),
        (["--rate", "x"], "--rate"),
    ):
        assert main([*words, *more]) == 2
        caught = capsys.readouterr().err
        assert said in caught
        assert caught.count("\n") == 1
