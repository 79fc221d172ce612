"""Long answers in parts: the same rows as in one go, with NumPy and without, a stop between two parts, and what binds a point."""

import asyncio
import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from rooflab import api, catalog, hf
from rooflab.api.stream import stream
from rooflab.estimate import Workload, estimate
from rooflab.fitted import pricer_of
from rooflab.price import BOUNDS
from rooflab.profiles import profile
from rooflab.sweep import evaluate, gather, grid, joint, pieces, space, spaces
from rooflab.work import Layout, Precision

SWEEP = {
    "kind": "sweep", "model": "llama-3.1-8b", "on": "2x h100-sxm", "also_on": ["2x h200-sxm"], "layouts": 2,
    "columns": ["system", "tp", "batch", "tpot", "throughput_per_device", "bound"],
}  # fmt: skip
SHARDED = {
    "kind": "sharded", "model": "qwen3-8b", "context": 131072, "axes": {"cp": [1, 2], "tp": [4, 8], "pp": [1, 2]},
    "rows": "distinct", "columns": ["cp", "tp", "pp", "ring", "latency", "same_as"],
}  # fmt: skip
CODESIGN = {"kind": "codesign", "model": "qwen3-8b", "context": 131072}


@pytest.fixture(params=["numpy", "plain"])
def mode(request, monkeypatch):
    """With NumPy, and as in a browser without it."""
    if request.param == "plain":
        for module in (grid, evaluate, gather, spaces, pieces, joint):
            monkeypatch.setattr(module, "numpy_or_none", lambda: None)
        evaluate._planned.cache_clear()
    yield request.param
    evaluate._planned.cache_clear()


def _all(question, stopped=bool):
    found = [json.loads(text) for text in stream(question, stopped)]
    return [each["part"] for each in found if "part" in each], found[-1]


def _rows(table):
    """Rows of a table as tuples."""
    return list(zip(*table["columns"].values(), table["feasible"], table["reason"], strict=True))


@pytest.mark.parametrize("ask", [SWEEP, SHARDED], ids=["sweep", "sharded"])
def test_parts_together_are_the_whole_answer(mode, ask):
    """A-040, D-140, D-151: rows in the order of one go; progress ends at the whole; the report names the same frontier."""
    parts, last = _all(ask)
    whole = api.answer(ask)
    rows = [row for part in parts for row in _rows(part["table"])]
    want = _rows(whole["table"])
    if ask is SHARDED:  # the named rows that are copies of others come after the distinct ones
        want = want[: len(rows)]
    assert len(rows) == len(want) > 50
    for row, expected in zip(rows, want, strict=True):
        assert row == expected
    assert parts[-1]["done"] == parts[-1]["total"] == whole["totals"]["enumerated"]
    assert (len(parts) > 1) == (mode == "plain" or ask is SWEEP)
    report = last["report"]
    assert report["totals"] == whole["totals"]
    assert report["reasons"] == whole["reasons"]
    front, expected = ([_rows(each["table"])[i] for i in each["pareto"]] for each in (report, whole))
    assert [row[:2] for row in front] == [row[:2] for row in expected]
    assert len(report["table"]["feasible"]) < len(want)


def test_a_stop_leaves_what_came(mode):
    """D-140: cancelled between two parts, the report is of the rows so far, and says so."""
    parts, last = _all(SWEEP, stopped=lambda: True)
    assert len(parts) == 1
    assert last["report"]["totals"]["evaluated"] == parts[0]["done"] < parts[0]["total"]
    assert any("cancelled" in note for note in last["report"]["notes"])


def test_parts_say_which_rows_meet_the_conditions(mode):
    """A-042: the frontier is of those that do."""
    parts, last = _all({**SWEEP, "rows": "feasible", "where": ["tpot < 10 ms"]})
    rows = [
        (tpot, meets)
        for part in parts
        for tpot, meets in zip(part["table"]["columns"]["tpot"], part["meets"], strict=True)
    ]
    assert {meets for _, meets in rows} == {True, False}
    assert all(meets == (tpot < 0.010) for tpot, meets in rows)
    table = last["report"]["table"]["columns"]
    assert all(table["tpot"][at] < 0.010 for at in last["report"]["pareto"])


def test_a_joint_search_tells_how_far_it_is(monkeypatch):
    """D-161, D-169: as in a browser, a set of rates at a time; the same report; stopped, there is none."""
    joint._known.clear()
    whole = api.answer(CODESIGN)
    joint._known.clear()
    for module in (grid, joint):
        monkeypatch.setattr(module, "numpy_or_none", lambda: None)
    parts, last = _all({**CODESIGN})
    assert [part["done"] for part in parts] == list(range(2, 65, 2))
    assert last["report"]["pareto"] == whole["pareto"]
    assert last["report"]["machines"]["columns"]["latency"] == pytest.approx(
        whole["machines"]["columns"]["latency"], rel=1e-12
    )
    assert [row["knob"] for row in last["report"]["doublings"]] == [row["knob"] for row in whole["doublings"]]
    parts, other = _all({**CODESIGN, "cost_weights": {"memory": 3}})
    assert parts == []  # other weights need no other search
    costs = zip(*(each["report"]["machines"]["columns"]["cost"] for each in (last, other)), strict=True)
    memory = last["report"]["machines"]["columns"]["memory ×"]
    assert all(b == pytest.approx(a + 2 * times) for (a, b), times in zip(costs, memory, strict=True))
    joint._known.clear()
    assert "stopped" in _all(CODESIGN, stopped=lambda: True)[1]["error"]


def test_other_questions_come_whole_and_bad_ones_in_words():
    ask = {"kind": "inspect", "model": "llama-3.1-8b"}
    assert _all(ask) == ([], {"report": api.answer(ask)})
    assert "no-such" in _all({"kind": "sweep", "model": "no-such", "on": "h100-sxm"})[1]["error"]
    assert "tpot" in _all({**SWEEP, "columns": ["tpto"]})[1]["error"]


@pytest.mark.parametrize("prices", ["roofline", "fitted"])
def test_bound_of_every_point(mode, prices):
    """A-041, E-24: what most of a decode step waits for, operator by operator, at random points; layouts in arrays or alone."""
    random.seed(5)
    model, system, used = hf.load("qwen2.5-0.5b"), catalog.system("8x h100-sxm"), profile("operator")
    batches = (1, 64, 600, *sorted(random.sample(range(601, 4096), 4)))
    vary = {"tp": (1, 2), "batch": batches}
    asked = space(model, on=system, vary=vary, work=Workload(prompt=16, output=8), used=used, prices=prices)
    frame = evaluate.run(asked, figures=("tpot", "bound"))
    classes = {"compute": "compute", "comm": "network", "overhead": "latency", "trivial": "latency"}
    seen = set()
    for row in frame.rows():
        layout = Layout(tp=int(row["tp"]))
        work = Workload(batch=int(row["batch"]), prompt=16, output=8)
        pricer = pricer_of(prices, system, layout, used, "vllm")
        found = estimate(model, Precision(), layout, system, work, used, pricer=pricer)
        if found.decode is None:
            assert row["bound"] == ""
            continue
        waits = dict.fromkeys(BOUNDS, 0.0)
        for fine, share in found.decode.share("bound").items():
            waits[classes.get(fine, "memory")] += share
        assert row["bound"] == max(waits, key=lambda name: waits[name])
        seen.add(row["bound"])
    assert len(seen) == (4 if prices == "roofline" else 3), seen


@pytest.fixture
def client():
    from litestar.testing import TestClient

    from rooflab.web.app import create

    with TestClient(create(), base_url="http://127.0.0.1") as found:
        yield found


def test_the_socket_brings_parts_and_answers_others_meanwhile(client):
    """Parts under the question's number, then its report; a short question between them is answered on the same line."""
    with client.websocket_connect("/api/ws") as line:
        line.send_text(json.dumps({"id": 1, "ask": SWEEP, "parts": True}))
        line.send_text(json.dumps({"id": 2, "ask": {"kind": "inspect", "model": "llama-3.1-8b"}}))
        found = []
        while not any(each["id"] == 1 and "report" in each for each in found) or not any(
            each["id"] == 2 for each in found
        ):
            found.append(json.loads(line.receive_text()))
        assert sum("part" in each for each in found) == 2
        line.send_text(
            json.dumps({"id": 3, "ask": {"kind": "sweep", "model": "/etc/passwd", "on": "h100"}, "parts": True})
        )
        assert "files are not read here" in json.loads(line.receive_text())["error"]
        other = {"kind": "sweep", "model": "llama-3.1-8b", "on": "h100", "also_on": ["./x.toml"]}
        line.send_text(json.dumps({"id": 6, "ask": other}))
        assert "files are not read here" in json.loads(line.receive_text())["error"]
        line.send_text(json.dumps({"id": 99, "cancel": True}))  # nobody's number: nothing happens
        line.send_text(json.dumps({"id": 4, "ask": {"kind": "catalog", "what": "profiles"}}))
        assert json.loads(line.receive_text())["id"] == 4


def test_the_socket_stops_a_long_answer():
    """D-140: told to stop, a line's long answer ends at the next part."""
    from rooflab.web.app import Message, _Line

    class Socket:
        def __init__(self):
            self.said = []

        async def send_data(self, text):
            self.said.append(json.loads(text))

    async def talk():
        socket = Socket()
        line = _Line(socket)
        await line.take(Message(id=5, ask=SWEEP, parts=True))
        await line.take(Message(id=5, cancel=True))
        await asyncio.gather(*line._tasks)
        return socket.said

    with ThreadPoolExecutor(1) as thread:  # a browser test in this process may have left a loop running in this one
        said = thread.submit(asyncio.run, talk()).result()
    assert sum("part" in each for each in said) == 1
    assert any("cancelled" in note for note in said[-1]["report"]["notes"])


def test_nothing_is_an_array_while_another_thread_imports_numpy(monkeypatch):
    """A long question imports NumPy in its thread; short ones meanwhile see a module that is not whole yet."""
    import sys
    import types

    from rooflab import num

    monkeypatch.setitem(sys.modules, "numpy", types.ModuleType("numpy"))
    assert num.is_array(1.0) is False
