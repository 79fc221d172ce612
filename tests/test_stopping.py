"""Long work that is stopped: how far it says it is, what it keeps, and what Ctrl-C does on the command line."""

import json
import os
import signal
import threading
import time

import msgspec
import pytest
import typer

from rooflab.api import answer
from rooflab.cli import main, watching
from rooflab.cli.watching import watched
from rooflab.sim import study
from rooflab.sim.cluster import Transfer
from rooflab.sim.schedule import Limits
from rooflab.sim.surface import LineSurface
from rooflab.sim.traffic import lengths, open_loop
from rooflab.sweep import pools
from rooflab.units import InputError

SETUP = study.Setup(surface=LineSurface(4e-3, 1e-5, 1e-8, 1e-5), limits=Limits(blocks=10**6, slots=64))
SLO = {"tpot": 0.008, "ttft": 0.1}
pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def poisson(count):
    return lambda load, seed: open_loop(count, load, lengths(200, "prompt"), lengths(30, "output"), seed=seed)


class Told:
    """A watch that stops once so many runs have been played."""

    def __init__(self, runs):
        self.runs, self.seen = runs, []

    def __call__(self, done, expected):
        self.seen.append((done, expected))
        return self.made.played >= self.runs

    def study(self):
        self.made = study.Runs(self)
        return self.made


@pytest.mark.parametrize("runs", range(4, 9))
def test_a_stopped_search_has_the_best_so_far(runs):
    """A-051: the highest load that had held, the lowest that had missed, and that more may hold."""
    whole, told = study.highest_load(SETUP, poisson(300), SLO), Told(runs)
    part = study.highest_load(SETUP, poisson(300), SLO, runs=told.study())
    assert part.stopped
    assert not whole.stopped
    assert part.tried == whole.tried[: runs - 2]  # one run alone and one saturated come before
    assert part.load == max(load for load, held in part.tried if held)
    assert part.beyond == min(load for load, held in part.tried if not held)
    assert part.load <= whole.load < part.beyond


def test_how_far_a_search_says_it_is():
    """Requests finished never fall, and stay below what is expected until the end."""
    told = Told(1000)
    study.highest_load(SETUP, poisson(300), SLO, runs=told.study())
    assert [done for done, _ in told.seen] == sorted(done for done, _ in told.seen)
    assert all(done < expected for done, expected in told.seen)
    assert told.seen[-1][0] == 300 * (told.made.played - 1)


@pytest.mark.parametrize("runs", [0, 1, 2])
def test_a_search_stopped_before_anything_held(runs):
    told = Told(runs)
    with pytest.raises(study.Stopped):
        study.highest_load(SETUP, poisson(300), SLO, runs=told.study())
    with pytest.raises(study.Stopped):
        study.fewest_replicas(SETUP, poisson(900)(900.0, 0), SLO, runs=Told(runs).study())


def test_stopped_replicas_and_divisions():
    """The fewest replicas and the best division so far."""
    traffic = poisson(1500)(900.0, 0)
    whole = study.fewest_replicas(SETUP, traffic, SLO)
    first = next(i for i, (_, held) in enumerate(whole.tried) if held)
    told = Told(first + 2)  # one alone before them
    part = study.fewest_replicas(SETUP, traffic, SLO, runs=told.study())
    assert (part.replicas, part.stopped, part.holds) == (int(whole.tried[first][0]), True, True)
    assert part.replicas > whole.replicas
    apart = msgspec.structs.replace(SETUP, transfer=Transfer(bytes_per_token=10.0, bandwidth=1e9))
    part = study.best_split(apart, poisson(200)(60.0, 0), SLO, 5, runs=Told(2).study())
    assert part.stopped
    assert [name for name, _ in part.tried] == ["1:4", "2:3"]
    with pytest.raises(study.Stopped):
        study.best_split(apart, poisson(200)(60.0, 0), SLO, 5, runs=Told(0).study())


ASK = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "requests": 60, "rate": 4, "prices": "roofline"}


def stop_after(calls):
    count = [0]

    def cancel():
        count[0] += 1
        return count[0] > calls

    return cancel


def test_what_a_stopped_answer_says():
    """Policies that were not played and a search that went on are said; the rest of the report stands."""
    ask = {**ASK, "policies": "all", "find": "load", "slo": "tpot=7ms"}
    whole = answer(ask)
    assert len(whole["policies"]) == 5
    assert not any("stopped" in note for note in whole["notes"])
    none = answer(ask, cancel=stop_after(2))
    assert list(none["policies"]) == list(whole["policies"])[:2]
    assert none["found"] is None
    assert {"stopped early: 2 of 5 policies were played", "stopped early: the search has found nothing yet"} <= set(
        none["notes"]
    )
    some = answer(ask, cancel=stop_after(12))
    assert some["policies"] == whole["policies"]
    assert some["found"]["value"] == f"at least {some['found']['load']:.4g} requests/s"
    assert any("the search would have gone on" in note for note in some["notes"])
    del ask["rate"]
    with pytest.raises(InputError, match="stopped before the load was known"):
        answer(ask, cancel=lambda: True)


def test_a_plan_and_a_joint_search_stop_through_the_door(monkeypatch):
    """Without NumPy machines are tried a few at a time, and a part of them is no answer."""
    plan = {"kind": "plan", "model": "llama-3.1-8b", "on": "h100-sxm", "users": 8, "tpot": "30 ms", "percentile": "p95"}
    assert any("stopped" in note for note in answer(plan, cancel=lambda: True)["notes"])
    monkeypatch.setattr("rooflab.sweep.joint.numpy_or_none", lambda: None)
    told = []
    joint = {"kind": "codesign", "model": "qwen3-8b", "depth": "balanced", "context": 5000}
    with pytest.raises(InputError, match="stopped before every machine"):
        answer(joint, progress=lambda done, total: told.append((done, total)), cancel=lambda: True)
    assert told == [(2, 64)]  # six knobs, each as it is or doubled; the memory's two at a time


# --------------------------------------------------------------------------- Ctrl-C


def press():
    signal.raise_signal(signal.SIGINT)


def press_twice():
    with watched("runs") as seen:
        assert not seen.cancel()
        press()
        assert seen.cancel()
        press()


def test_the_first_ctrl_c_asks_and_the_second_leaves():
    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_after_the_work_ctrl_c_is_as_it_was():
    with watched("runs") as seen:
        pass
    seen.end()
    with pytest.raises(KeyboardInterrupt):
        press()
    with watched("runs") as seen:
        press()
    with pytest.raises(typer.Exit) as left:
        seen.end()
    assert left.value.exit_code == 130


def refused(before):
    with watched("runs"):
        before()
        raise InputError("stopped before anything was known")


def test_nothing_to_show_for_it():
    """A refusal after Ctrl-C is the end that was asked for; without it, it is a refusal."""
    with pytest.raises(KeyboardInterrupt):
        refused(press)
    with pytest.raises(InputError):
        refused(lambda: None)


def test_who_must_not_hear_ctrl_c_does_not():
    """A background job is started deaf to it, and a thread may not set what the process hears."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with watched("runs") as seen:
            press()
        assert not seen.stopped
    finally:
        signal.signal(signal.SIGINT, before)
    failed = []

    def aside():
        try:
            with watched("runs"):
                pass
        except Exception as problem:
            failed.append(problem)

    thread = threading.Thread(target=aside)
    thread.start()
    thread.join()
    assert not failed


def test_a_bar_only_where_a_person_watches(capsys, monkeypatch):
    with watched("runs") as seen:
        assert seen.progress is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with watched("runs") as seen:
        assert seen.progress is not None
        seen.progress(3, 14)
        press()
    shown = capsys.readouterr().err
    assert "3/14" in shown
    assert watching.STOPPING in shown


FIND = ["simulate", "llama-3.1-8b", "--on", "h100-sxm", "--requests", "60", "--rate", "4", "--prices", "roofline",
        "--find", "load", "--slo", "tpot=7ms"]  # fmt: skip


def test_ctrl_c_during_a_search_prints_what_it_found(capsys, monkeypatch):
    """The report on standard output, one word on standard error, and the status of an interrupted command."""
    plays, real = [], study.Setup.play

    def play(self, traffic, watch=None):
        plays.append(1)
        if len(plays) == 7:
            press()
        return real(self, traffic, watch)

    monkeypatch.setattr(study.Setup, "play", play)
    status = main([*FIND, "--json"])
    caught = capsys.readouterr()
    assert (status, caught.err) == (130, "rooflab: stopped\n")
    assert json.loads(caught.out)["found"]["value"].startswith("at least ")
    assert len(plays) == 7


def test_ctrl_c_during_a_sweep_keeps_its_rows(capsys, monkeypatch, tmp_path):
    """Rows that were done are in the report, the file and the journal, and the same command goes on from there."""
    from rooflab.sweep import evaluate

    real, calls = evaluate.work_on, []

    def work(*given, **more):
        calls.append(1)
        if len(calls) == 2:
            press()
        return real(*given, **more)

    monkeypatch.setattr(evaluate, "work_on", work)
    out, journal = tmp_path / "rows.csv", tmp_path / "study"
    words = ["sweep", "llama-3.1-8b", "--on", "h100-sxm", "--vary", "batch=1,2,3,4", "--vary", "tp=1,2,4,8",
             "--resume", str(journal), "--out", str(out), "--json"]  # fmt: skip
    monkeypatch.setattr(evaluate.run, "__kwdefaults__", {**evaluate.run.__kwdefaults__, "chunk": 4})
    status = main(words)
    caught = capsys.readouterr()
    assert (status, caught.err) == (130, "rooflab: stopped\n")
    report = json.loads(caught.out)
    assert any("cancelled" in note for note in report["notes"])
    assert len(out.read_text().splitlines()) == 1 + 8  # two chunks of four
    assert main(words) == 0
    assert len(out.read_text().splitlines()) == 1 + 16
    assert len(calls) == 4


# --------------------------------------------------------------------------- worker processes


def slow(seconds):
    """A task that asks now and then whether anybody waits for it, as a long simulation does."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds and not pools.stopped():
        time.sleep(0.01)
    return seconds


def test_workers_end_with_the_one_that_hands_out_the_work():
    """A cancelled run waits neither for tasks under way nor for those queued behind them."""
    begun = time.monotonic()
    asked = []
    found = pools.results(slow, [60.0] * 20, workers=2, cancel=lambda: bool(asked.append(1)) or len(asked) > 4)
    assert list(found) == [None]
    assert time.monotonic() - begun < 60.0  # the time of a single task
    assert not pools.stopped()
