"""`rooflab sweep`, `suggest` and `plan`: what people type, what files hold, and what is refused in one line."""

import csv
import json
import shlex

import pytest

from rooflab.cli import main
from rooflab.cli.commands import COMMANDS

SMALL = ["sweep", "llama-3.1-8b", "--on", "h100-sxm", "--vary", "tp=1,2", "--vary", "batch=1..8"]


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command line in this process; its output, or its complaint where it is refused."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words):
        status = main([str(word) for word in words])
        caught = capsys.readouterr()
        assert status in (0, 2), caught.err
        return caught.out if status == 0 else caught.err

    return command


def test_sweep_prints_the_frontier_and_writes_every_row(run, tmp_path):
    """Rows in a CSV file with units; the report as JSON has as many."""
    out = tmp_path / "rows.csv"
    report = json.loads(run(*SMALL, "--where", "ttft < 1 s", "--out", str(out), "--json"))
    rows = list(csv.reader(out.read_text().splitlines()))
    assert len(rows) == 1 + 2 * 4 == 1 + report["totals"]["enumerated"]
    assert "ttft [s]" in rows[0]
    assert report["kind"] == "sweep"
    assert report["pareto"]
    assert "on the frontier" in run(*SMALL)


def test_sweep_resumes_and_uses_processes(run, tmp_path):
    """The same report from a journal read again and from two processes."""
    plain = json.loads(run(*SMALL, "--json"))
    journal = str(tmp_path / "study")
    for words in (["--resume", journal], ["--resume", journal], ["--workers", "2"]):
        assert json.loads(run(*SMALL, "--json", *words)) == plain


def test_suggest_and_plan(run):
    text = run("suggest", "llama-3.1-8b", "--on", "h100-sxm", "--users", "16", "--tpot", "30ms")
    assert "vllm serve meta-llama/Meta-Llama-3.1-8B" in text
    words = ["--users", "1k", "--context", "4k", "--tpot", "30ms", "--json"]
    report = json.loads(run("plan", "llama-3.1-8b", "--on", "h100-sxm", *words))
    assert (report["ask"]["users"], report["ask"]["context"]) == (1000, 4000)
    assert report["feasible"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep", "llama-3.1-8b", "--on", "h100-sxm", "--vary", "tp"], "not FIELD=VALUES"),
        ([*SMALL, "--out", "rows.xls"], "must end in"),
        ([*SMALL, "--where", "speed"], "not a condition"),
        ([*SMALL, "--cluster", "nowhere"], "cluster"),
        (["suggest", "llama-3.1-8b", "--on", "h100-sxm", "--users", "many"], "--users"),
        (["plan", "llama-3.1-8b", "--on", "h100-sxm", "--tpot", "soon"], "tpot"),
    ],
)
def test_refusals(run, words, message):
    """One line that names the option."""
    complaint = run(*words)
    assert message in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("name", ["sweep", "suggest", "plan"])
def test_examples_of_the_help_are_read(run, name):
    """Every example of the help is a question that is answered."""
    for line in COMMANDS[name].examples:
        words = shlex.split(line)[2:]
        if "--out" in words:
            at = words.index("--out")
            words = [*words[:at], *words[at + 2 :]]
        assert json.loads(run(name, *words, "--json"))["kind"] == name
