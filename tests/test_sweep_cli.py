"""`sweep`, `suggest`, `plan`, `sharded`, `codesign` and `rules`: what people type, what files hold, what is refused in a line."""

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


def test_sharded(run, tmp_path):
    """D-140, D-149, D-153: the report of the question; axes and a layout to vary around as typed; every row in a file."""
    out = tmp_path / "cuts.csv"
    words = ["sharded", "qwen3-8b", "--context", "128Ki", "--axis", "cp=1,2", "--axis", "tp=4,8", "--out", str(out)]
    report = json.loads(run(*words, "--around", "tp=8", "--around", "cp=2", "--around", "cp_placement=outer", "--json"))
    rows = list(csv.reader(out.read_text().splitlines()))
    assert len(rows) - 1 == report["totals"]["enumerated"] == 27648 / 9
    assert "latency [s]" in rows[0]
    around = report["sensitivities"]["dp"]["columns"]
    assert (set(around["tp"]), set(around["cp"]), set(around["cp_placement"])) == ({8}, {2}, {"outer"})
    text = run("sharded", "qwen3-8b", "--context", "128Ki")
    for said in (
        "15,584 of 27,648",
        "2.06 ms on 128 devices",
        "16.27 ms on 8 devices",
        "One knob at a time",
        "Least memory",
    ):
        assert said in text


def test_codesign(run):
    """D-163, D-164, D-167: weights change the cost; the layout may be kept when a part is doubled."""
    words = ["codesign", "qwen3-8b", "--context", "128Ki"]
    report = json.loads(run(*words, "--weigh", "memory=3", "--weigh", "flop_rate=0", "--keep-layout", "--json"))
    machines = report["machines"]["columns"]
    assert machines["cost"][0] == 6 + 2 - 1
    assert report["ask"]["refit"] is False
    assert report["ask"]["cost_weights"] == {"memory": 3.0, "flop_rate": 0.0}
    text = run(*words)
    assert "machines on the frontier" in text
    assert "memory_bandwidth ×2" in text


def test_codesign_says_why_nothing_runs(run):
    """A million sequences of 8 billion parameters' caches fit nowhere, and the report says so."""
    assert "no layout fits any of these machines" in " ".join(run("codesign", "qwen3-8b", "--batch", "1M").split())


def test_rules(run):
    """D-409, D-410: the seven checks with numbers, as the question answers."""
    words = [
        "rules",
        "llama-3.1-70b",
        "--on",
        "dgx-h100",
        "--tp",
        "16",
        "--pp",
        "2",
        "--tpot",
        "30ms",
        "--prompt",
        "4k",
    ]
    report = json.loads(run(*words, "--json"))
    assert len(report["checks"]) == 7
    assert report["ask"]["prompt"] == 4000
    failed = [each for each in report["checks"] if each["passed"] is False]
    text = run(*words)
    assert "tp 16, 8 KV heads" in text
    assert f"{len(failed)} rules broken" in text


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
        ([*SMALL, "--cluster", ""], "--cluster: is empty"),
        ([*SMALL, "--pareto", ""], "--pareto: is empty"),
        ([*SMALL, "--out", ""], "--out: is empty"),
        ([*SMALL, "--vary", "tp=4"], "'tp' is given twice"),
        (["sweep", "llama-3.1-8b", "--on", "h100-sxm", "--vary", "zzz=4"], "use tp, pp"),
        ([*SMALL, "--vary", "profile=operator,envelope"], "ask once for each profile"),
        ([*SMALL, "--vary", "system=a10"], "name the others among the systems"),
        ([*SMALL, "--out", "missing/rows.csv"], "'missing/rows.csv' cannot be written"),
        ([*SMALL, "--resume", "missing/study"], "'missing/study' cannot be used"),
        ([*SMALL, "--resume", "."], "'.' cannot be used"),
        ([*SMALL, "--out", "rows.csv", "--resume", "./rows.csv"], "--out already"),
        (["sharded", "qwen3-8b", "--around", "tp=1,2"], "tp has 2 values"),
        (["sharded", "qwen3-8b", "--axis", "tp=1", "--axis", "tp=2"], "'tp' is given twice"),
        (["suggest", "llama-3.1-8b", "--on", "h100-sxm", "--users", "many"], "--users"),
        (["plan", "llama-3.1-8b", "--on", "h100-sxm", "--tpot", "soon"], "tpot"),
        (["sharded", "qwen3-8b", "--axis", "cp"], "--axis"),
        (["sharded", "qwen3-8b", "--axis", "pc=1,2"], "cp"),
        (["sharded", "qwen3-8b", "--around", "ring=none"], "around.ring"),
        (["sharded", "qwen3-8b", "--context", "0"], "--context"),
        (["sharded", "no-such-model"], "no-such-model"),
        (["codesign", "qwen3-8b", "--weigh", "memory=much"], "--weigh memory"),
        (["codesign", "qwen3-8b", "--weigh", "memroy=2"], "memory"),
        (["rules", "llama-3.1-8b", "--on", "h100-sxm", "--tp", "3"], "tp=3"),
        (["rules", "llama-3.1-8b", "--on", "h100-sxm", "--tpot", "soon"], "tpot"),
    ],
)
def test_refusals(run, words, message):
    """One line that names the option."""
    complaint = run(*words)
    assert message in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("name", ["sweep", "suggest", "plan", "sharded", "codesign", "rules"])
def test_examples_of_the_help_are_read(run, name):
    """Every example of the help is a question that is answered."""
    for line in COMMANDS[name].examples:
        words = shlex.split(line)[2:]
        if "--out" in words:
            at = words.index("--out")
            words = [*words[:at], *words[at + 2 :]]
        assert json.loads(run(name, *words, "--json"))["kind"] == name
