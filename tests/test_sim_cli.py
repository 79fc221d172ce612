"""`rooflab simulate` as people type it: every option, tables, seeds, workers, and what is refused in one line (A-050 to A-055,
B-070 to B-079)."""

import csv
import inspect
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rooflab import api
from rooflab.api import serving as questions
from rooflab.cli import main
from rooflab.cli.serving import simulate
from rooflab.sim import traffic
from rooflab.units import InputError

TRACE = Path(__file__).parent.parent / "data" / "traces" / "azure_2023_conv_first2000.csv"
START = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--requests", "60"]
DGX = ["simulate", "llama-3.1-8b", "--on", "dgx-h100", "--requests", "60", "--rate", "4"]


@pytest.fixture
def run(capsys, monkeypatch):
    """A command line in this process: (status, output, complaints)."""
    monkeypatch.setenv("COLUMNS", "160")

    def command(*words):
        status = main([str(word) for word in words])
        caught = capsys.readouterr()
        return status, caught.out, caught.err

    return command


def report_of(run, *words):
    status, out, err = run(*words, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


# option: words (after the model and --on), and what the report must then say of it: {dotted path: value}
OPTIONS = {
    "changes": (["--set", "memory_bandwidth=4 TB/s"], {"ask.changes.memory_bandwidth": "4 TB/s"}),
    "tp": (["--tp", "2"], {"devices": 2}),
    "pp": (["--pp", "2"], {"devices": 2}),
    "cp": (["--cp", "2"], {"devices": 2}),
    "dp": (["--dp", "2"], {"ask.dp": 2}),
    "ep": (["--ep", "1"], {"ask.ep": 1}),
    "attention_dp": (["--tp", "2", "--attention-dp", "2"], {"ask.attention_dp": 2}),
    "ep_mode": (["--ep-mode", "dedicated"], {"ask.ep_mode": "dedicated"}),
    "kv_shard": (["--kv-shard", "replicate"], {"ask.kv_shard": "replicate"}),
    "ffn_scope": (["--ffn-scope", "tp"], {"ask.ffn_scope": "tp"}),
    "ring": (["--ring", "qoml"], {"ask.ring": "qoml"}),
    "tp_placement": (["--tp", "2", "--tp-placement", "inner"], {"ask.tp_placement": "inner"}),
    "cp_placement": (["--cp", "2", "--cp-placement", "inner"], {"ask.cp_placement": "inner"}),
    "microbatches": (["--pp", "2", "--microbatches", "2"], {"ask.microbatches": 2}),
    "weights": (["--weights", "fp8"], {"ask.weights": "fp8"}),
    "kv": (["--kv", "fp8"], {"kv_bytes_per_token": 65_536.0}),  # half of 131,072
    "profile": (["--profile", "envelope"], {"profile": "envelope"}),
    "switches": (["--switch", "compute_efficiency=0.5", "--prices", "roofline"], {"ask.switches.compute_efficiency": 0.5}),
    "reserve": (["--reserve", "20%"], {"ask.reserve": "20%"}),
    "prices": (["--prices", "roofline"], {"ask.prices": "roofline"}),
    "engine": (["--engine", "sglang"], {"ask.engine": "sglang"}),
    "rate": ([], {"ask.rate": 4.0}),
    "variation": (["--variation", "0"], {"traffic": "evenly spaced arrivals at 4 requests/s, seed 0"}),
    "turns": (["--turns", "3", "--think", "1s"], {"run.served": 60}),
    "think": (["--turns", "2", "--think", "2s"], {"ask.think": "2s"}),
    "policy": (["--policy", "static"], {"policy": "static"}),
    "paging": (["--paging", "reserve"], {"limits.kv": "reserve"}),
    "slots": (["--slots", "3"], {"limits.slots": 3}),
    "budget": (["--budget", "512"], {"limits.budget": 512}),
    "block_tokens": (["--block-tokens", "32"], {"limits.block_tokens": 32}),
    "kv_tokens": (["--kv-tokens", "16k"], {"kv_tokens": 16_000.0}),
    "caching": (["--caching"], {"limits.caching": True}),
    "swap": (["--swap", "64 GB"], {"limits.host_blocks": int(64e9 / (16 * 131_072))}),
    "host_link": (["--swap", "64 GB", "--host-link", "32 GB/s"], {"limits.swap_time": 16 * 131_072 / 32e9}),
    "replicas": (["--replicas", "2"], {"replicas": 2, "devices": 2}),
    "routing": (["--replicas", "2", "--routing", "least_loaded"], {"ask.routing": "least_loaded"}),
    "disaggregate": (["--disaggregate", "1:2"], {"replicas": 3}),
    "link": (["--disaggregate", "1:1", "--link", "50 GB/s"], {"ask.link": "50 GB/s"}),
    "draft_tokens": (["--draft-tokens", "3"], {"ask.draft_tokens": 3}),
    "acceptance": (["--draft-tokens", "3", "--acceptance", "0.5"], {"ask.acceptance": 0.5}),
    "slo": (["--slo", "ttft=500ms,tpot=50ms"], {"slo.ttft": 0.5, "slo.tpot": 0.05, "run.attainment": 1.0}),
    "at": (["--at", "p99", "--slo", "ttft=1s", "--find", "replicas"], {"found.holds": True, "ask.at": "p99"}),
    "find": (["--find", "replicas", "--slo", "tpot=50ms"], {"found.replicas": 1}),
    "policies": (["--policies", "chunked,static"], {"policies.static.served": 60}),
    "warmup": (["--warmup", "10"], {"run.ttft.count": 50}),
    "seed": (["--seed", "7"], {"traffic": "Poisson arrivals at 4 requests/s, seed 7"}),
    "loop": (["--loop", "python"], {"loop": "python"}),
    "prompt": (["--prompt", "1k"], {"ask.prompt": 1000}),
    "output": (["--output", "uniform:10:20"], {"ask.output": "uniform:10:20"}),
    "no_chunked": (["--no-chunked"], {"limits.chunked": False}),
    "no_ahead": (["--no-ahead"], {"limits.asynchronous": False}),
}  # fmt: skip
APART = {"model", "on", "requests", "json", "html", "concurrency", "load", "trace", "speed", "loads", "replications", "out",
         "steps_out", "workers", "cluster", "spread"}  # fmt: skip
"""Tested by name below, because they stand beside other options or write files."""


def test_no_option_is_forgotten():
    assert set(inspect.signature(simulate()).parameters) == set(OPTIONS) | APART


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_heard(run, name):
    """The report repeats what was asked, or shows what came of it."""
    words, said = OPTIONS[name]
    found = report_of(run, *DGX, *words)
    for path, value in said.items():
        here = found
        for part in path.split("."):
            here = here[part]
        assert here == (pytest.approx(value) if isinstance(value, float) else value), path


def test_traffic_from_users_shares_and_traces(run):
    """B-072: users who wait, a share of what a full queue is served at, and a recorded trace, cut to the requests asked for."""
    assert "closed loop of 8 users" in report_of(run, *START, "--concurrency", "8")["traffic"]
    assert report_of(run, *START, "--concurrency", "8", "--spread", "0.2")["ask"]["spread"] == 0.2
    assert any("50%" in note for note in report_of(run, *START, "--load", "0.5")["notes"])
    found = report_of(run, *START, "--trace", TRACE)
    assert TRACE.name in found["traffic"]
    assert found["run"]["served"] == 60
    assert report_of(run, *START, "--trace", TRACE, "--speed", "2")["ask"]["speed"] == 2.0


def test_the_text_says_what_the_report_says(run):
    """A-051, B-074: percentiles with their intervals, rates, the verdict and the protocol, on a screen as in JSON."""
    words = [*START[:4], "--requests", "400", "--rate", "10", "--slo", "ttft=500ms,tpot=30ms"]
    report = report_of(run, *words)
    status, out, _ = run(*words)
    assert status == 0
    assert "400 of 400 requests served" in out
    assert all(name in out for name in ("p50", "p95", "p99", "±", "Time to first token", "Gap between tokens"))
    assert set(report["run"]["ttft"]["interval"]) == {"mean", "p50", "p90", "p95", "p99"}
    assert all(half > 0 for half in report["run"]["ttft"]["interval"].values())
    assert any("20 batches" in line for line in report["protocol"])


def test_overload_is_said_and_no_first_token_time_is_shown(run):
    """A-054: the queue grows, so a TTFT would only tell how long one looked."""
    words = [*START[:4], "--requests", "600", "--rate", "90"]
    report = report_of(run, *words)
    assert report["run"]["overload"]
    assert report["run"]["ttft"] is report["run"]["e2e"] is None
    assert report["run"]["tpot"] is not None
    assert "the queue grows" in run(*words)[1]


def test_seeds_make_the_run(run):
    """A-054, B-079: the same seed gives the same bytes, another gives others."""
    first, again, other = (
        run(*START, "--rate", "9", "--prompt", "lognormal:900:1", "--seed", seed, "--json")[1] for seed in (5, 5, 6)
    )
    assert first == again
    assert json.loads(first)["run"] != json.loads(other)["run"]


# --------------------------------------------------------------------------- tables


@pytest.mark.parametrize("loop", ["python", "numba"])
def test_tables_go_to_files(run, tmp_path, loop):
    """A-052, B-074: a row per request and per event, in CSV and Parquet, the same from both loops; the report stays short."""
    parquet = pytest.importorskip("pyarrow.parquet")
    if loop == "numba":
        pytest.importorskip("numba")
    words = [*START, "--rate", "9", "--output", "geometric:9", "--loop", loop]
    names = [tmp_path / name for name in ("r.csv", "s.csv", "r.parquet", "s.parquet")]
    report = report_of(run, *words, "--out", names[0], "--steps-out", names[1])
    run(*words, "--out", names[2], "--steps-out", names[3])
    assert "requests_table" not in report
    whole = api.answer(
        {**report["ask"], "kind": "simulate", "loop": "python", "requests_table": True, "steps_table": True}
    )
    for table, text, binary in (("requests_table", names[0], names[2]), ("steps_table", names[1], names[3])):
        columns = whole[table]
        rows = list(csv.DictReader(text.read_text(encoding="utf-8").splitlines()))
        assert len(rows) == len(columns[next(iter(columns))])
        for name, column in columns.items():
            read = [None if row[name] == "" else float(row[name]) for row in rows]
            assert read == column, name
        assert parquet.read_table(binary).to_pydict() == columns
    first = whole["requests_table"]
    assert any(count == 1 for count in first["output"])  # their time per token is empty, not zero
    assert all((tpot is None) == (count == 1) for tpot, count in zip(first["tpot"], first["output"], strict=True))


# --------------------------------------------------------------------------- curves, here and elsewhere

CURVE = [*START[:4], "--requests", "150", "--loads", "4,16,90", "--replications", "2"]


def test_a_curve_is_the_same_from_several_processes(run):
    """A-051: the same loads from this process and from two."""
    here, there = report_of(run, *CURVE), report_of(run, *CURVE, "--workers", "2")
    assert here == there
    assert [point["overload"] for point in here["curve"]] == [False, False, True]
    assert all(point["replications"] == 2 for point in here["curve"])
    assert here["curve"][1]["interval"]["ttft_p95"] > 0


def test_a_curve_is_the_same_in_any_order(monkeypatch):
    """Whatever finishes first, points come by load: an executor that ends its tasks backwards changes nothing."""
    import concurrent.futures

    from rooflab.api.simulate import answer_simulate
    from rooflab.api.simulate_asks import SimulateAsk

    class Backwards(concurrent.futures.Executor):
        def __init__(self):
            self.waiting = []

        def submit(self, work, /, *given, **more):
            future = concurrent.futures.Future()
            self.waiting.append((future, work, given))
            if len(self.waiting) == 6:
                for one, does, what in reversed(self.waiting):
                    one.set_result(does(*what))
            return future

    ask = SimulateAsk(
        model="llama-3.1-8b", on="h100-sxm", requests=150, loads=[4.0, 16.0, 90.0], replications=2, prices="roofline"
    )
    told = []
    assert answer_simulate(ask, spread={"executor": Backwards()}) == answer_simulate(
        ask, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(done, 6) for done in range(6)]
    stopped = answer_simulate(ask, cancel=lambda: len(told) > 0)
    assert stopped.curve == []
    assert any("stopped early: 0 of 3" in note for note in stopped.notes)


@pytest.mark.filterwarnings("ignore")
def test_a_curve_on_a_cluster(run):
    """Two Dask workers give the curve that this process gives."""
    distributed = pytest.importorskip("distributed")
    here = report_of(run, *CURVE)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        assert report_of(run, *CURVE, "--cluster", cluster.scheduler_address) == here


# --------------------------------------------------------------------------- refusals


def bad_trace(folder, row):
    path = folder / "t.csv"
    path.write_text(f"arrival_s,input_tokens,output_tokens\n0,10,2\n{row}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("row", ["1,x,2", "1,10", "1,10,0", "-1,10,2", "nan,10,2", "1,10,1e30"])
def test_a_bad_trace_is_refused_by_its_line(run, tmp_path, row):
    status, out, err = run(*START[:4], "--trace", bad_trace(tmp_path, row))
    assert (status, out) == (2, "")
    assert "t.csv, line 3" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "0"], "--rate"),
        (["--rate", "-3"], "--rate"),
        (["--rate", "often"], "--rate"),
        (["--requests", "0"], "--requests"),
        (["--requests", "100000000"], "--requests"),
        (["--prompt", "999999"], "no request fits"),
        (["--kv-tokens", "100"], "no request fits"),
        (["--prompt", "-5"], "--prompt"),
        (["--output", "bell:3"], "output"),
        (["--slo", "ttft=1us", "--find", "load"], "cannot be met"),
        (["--slo", "ttft=1us", "--find", "replicas"], "cannot be met"),
        (["--slo", "speed=3"], "slo"),
        (["--find", "replicas"], "slo"),
        (["--policy", "fastest"], "--policy"),
        (["--policies", "chunked,fastest"], "fastest"),
        (["--routing", "random"], "--routing"),
        (["--rate", "3", "--load", "0.5"], "choose one"),
        (["--trace", "nowhere.csv"], "nowhere.csv"),
        (["--loads", "4,x"], "loads"),
        (["--loads", "4,0"], "loads"),
        (["--disaggregate", "two"], "1:3"),
        (["--swap", "64 GB", "--paging", "reserve"], "swap"),
        (["--host-link", "25 GB/s"], "swap"),
        (["--out", "rows.xls"], "--out"),
        (["--out", "/nowhere/rows.csv"], "--out"),
        (["--out", "rows.csv", "--loads", "4,8"], "--loads"),
        (["--steps-out", "rows.csv", "--loads", "4,8"], "--steps-out"),
        (["--workers", "2"], "--loads"),
        (["--workers", "-1"], "--workers"),
        (["--cluster", "tcp://127.0.0.1:9"], "--loads"),
        (["--cluster", "nowhere", "--loads", "4"], "cluster"),
        (["--cluster", "", "--loads", "4"], "--cluster: is empty"),
        (["--loads", ""], "--loads: is empty"),
        (["--policies", " "], "--policies: is empty"),
        (["--slo", ""], "--slo: is empty"),
        (["--loop", "c"], "--loop"),
        (["--seed", "-1"], "--seed"),
        (["--acceptance", "2"], "acceptance"),
        (["--variation", "-1"], "variation"),
        (["--think", "2"], "unit"),
        (["--warmup", "60", "--requests", "60"], "none of the 60 requests"),
        (["--link", "50 GB/s"], "--disaggregate"),
        (["--speed", "2"], "--trace"),
        (["--acceptance", "0.5"], "--draft-tokens"),
        (["--replications", "2"], "--loads"),
        (["--loads", ", ,"], "names no rate"),
        (["--policies", ","], "names none"),
        (["--slo", "ttft=1s,tpot=9ms,ttft=2s"], "'ttft' is given twice"),
        (["--trace", TRACE, "--prompt", "1k"], "--prompt"),
        (["--out", "rows.csv", "--steps-out", "./rows.csv"], "--out already"),
        (["--trace", "rows.csv", "--out", "rows.csv"], "--trace already"),
    ],
)
def test_what_cannot_be_played_is_said_in_a_line(run, words, said):
    status, out, err = run(*START[:4], *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_table_that_cannot_be_written_is_refused_before_the_run(run, tmp_path, monkeypatch):
    """Hours of simulated traffic are not played for a file that has no place."""
    monkeypatch.setattr("rooflab.api.simulate.answer_simulate", lambda *_, **__: pytest.fail("played"))
    for place in (tmp_path / "missing" / "rows.csv", tmp_path / "folder.csv"):
        (tmp_path / "folder.csv").mkdir(exist_ok=True)
        status, out, err = run(*START, "--out", place)
        assert (status, out) == (2, "")
        assert "cannot be written" in err
        assert "--out: " in err


def test_the_help_shows_distributions_as_they_are_written(run):
    """No part of an example is drawn as a picture."""
    _, out, _ = run("simulate", "--help")
    assert "uniform:128:2000" in "".join(out.replace("│", " ").split())


@pytest.mark.parametrize(
    "more, said", [({}, "take fewer"), ({"loop": "python"}, "asked for"), ({"concurrency": 4}, "follow")]
)
def test_a_run_too_large_for_the_memory_is_refused_before_it_starts(monkeypatch, more, said):
    """Ten million requests on a machine with 4 GB free: what they take, what there is, and what helps."""
    monkeypatch.setattr(questions, "_free_memory", lambda: 4e9)
    monkeypatch.setattr("rooflab.sim.fast.installed", lambda: True)
    ask = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "requests": 10**7, **more}
    began = time.process_time()
    with pytest.raises(InputError, match=r"10,000,000.*memory") as caught:
        api.answer(ask)
    assert said in str(caught.value)
    assert "4.00 GB" in str(caught.value)
    assert time.process_time() - began < 20


def test_small_runs_ask_for_no_memory(monkeypatch, run):
    monkeypatch.setattr(questions, "_free_memory", lambda: 1.0)
    assert run(*START, "--rate", "4")[0] == 0
    monkeypatch.setattr(questions, "_free_memory", lambda: None)
    monkeypatch.setattr(questions, "MANY", 1)
    assert run(*START, "--rate", "4")[0] == 0


# --------------------------------------------------------------------------- speed


def test_a_hundred_thousand_requests_with_everything(tmp_path):
    """Start, traffic, run, percentiles, tables of requests and events: 6 s of a quiet core (four times that here)."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
    from simulate import NOMINAL, calibrate

    words = ["--requests", "100000", "--rate", "15", "--slo", "ttft=500ms,tpot=30ms", "--loop", "python"]
    files = ["--out", str(tmp_path / "r.csv"), "--steps-out", str(tmp_path / "s.csv")]
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "rooflab", *START[:4], *words, *files], check=True, capture_output=True, timeout=200
    )
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    slow = max(1.0, calibrate() / NOMINAL)
    assert spent < 24.0 * slow
    with (tmp_path / "r.csv").open() as stream:
        assert sum(1 for _ in stream) == 100_001


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95])
def test_events_stay_few(share):
    """At most 3.5 events a request of 1,024/256 (4.5 decided ahead) at any load; one iteration at a time takes up to 140."""
    ask = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "requests": 2000, "load": share}
    for ahead, most in ((False, 3.5), (True, 4.5)):
        run = api.answer({**ask, "ahead": ahead})["run"]
        assert run["events"] <= most * 2000
        assert run["iterations"] >= run["events"] or math.isclose(share, 0.95)


def test_growth_is_close_to_linear(monkeypatch):
    """Eight times the requests take eight times the events, and at most twice that in time."""
    from rooflab.sim.cluster import simulate as play
    from rooflab.sim.schedule import Limits
    from rooflab.sim.surface import LineSurface
    from rooflab.sim.traffic import lengths, open_loop

    surface = LineSurface(5e-3, 1e-5, 2e-8, 2e-5)
    found = []
    for count in (5000, 40_000):
        work = open_loop(count, 25.0, lengths(1024, "p"), lengths("geometric:256", "o"), seed=2)
        assert count < traffic.MANY
        times = []
        for _ in range(3):
            began = time.process_time()
            run = play(work, surface, Limits(blocks=25_000))
            times.append(time.process_time() - began)
        found.append((run.events, min(times)))
    assert found[1][0] == pytest.approx(8 * found[0][0], rel=0.05)
    assert found[1][1] < 16 * found[0][1]
