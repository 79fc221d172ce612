"""The command line: every command and example answers, bad input is one line and status 2, and nothing slow is loaded.

Expected numbers are those of `api.answer` or of the unit rules; the laws here are about form.
"""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from rooflab import api
from rooflab.api.asks import Ask
from rooflab.api.simulate_asks import SimulateAsk
from rooflab.cli import designs, main, options, reading, serving, terminal
from rooflab.cli.commands import COMMANDS, group
from rooflab.show import page
from rooflab.units import InputError

ESTIMATE = ["estimate", "llama-3.1-8b", "--on", "h100-sxm", "--batch", "32"]
QUESTION = {"kind": "estimate", "model": "llama-3.1-8b", "on": "h100-sxm", "batch": 32}


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command line in this process; gives (status, output, complaints)."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def command(*args):
        status = main([str(arg) for arg in args])
        caught = capsys.readouterr()
        return status, caught.out, caught.err

    return command


# ------------------------------------------------------------------------------------------------------- answers


def test_json_is_the_report_as_it_is(run):
    status, out, err = run(*ESTIMATE, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(api.answer(QUESTION)))


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.kind])
def test_every_example_of_the_help_answers(run, name):
    for line in COMMANDS[name].examples:
        status, out, err = run(*_words(line))
        assert (status, err) == (0, ""), line
        assert len(out.splitlines()) > 5, line


def _words(line):
    import shlex

    words = shlex.split(line)
    assert words[0] == "rooflab"
    return words[1:]


def test_a_saved_report_is_asked_again(run, tmp_path):
    report = tmp_path / "report.json"
    report.write_text(json.dumps(api.answer(QUESTION)), encoding="utf-8")
    assert json.loads(run("ask", report, "--json")[1])["tpot"] == api.answer(QUESTION)["tpot"]
    report.write_text(json.dumps(QUESTION), encoding="utf-8")
    assert run("ask", report) == run(*ESTIMATE)


def test_the_schema_describes_questions_and_reports(run):
    status, out, _ = run("schema")
    assert status == 0
    assert {"ask", "report"} <= json.loads(out)["properties"].keys()


def test_version(run):
    from rooflab import __version__

    assert run("--version") == (0, f"rooflab {__version__}\n", "")


def test_numbers_carry_prefixes_and_pairs_carry_units(run):
    """128k is 128,000 tokens and 128Ki is 131,072 (units' rule); --set reads units, --switch numbers and truth values."""
    line = [*ESTIMATE, "--json", "--prompt", "2k", "--output", "1Ki", "--reserve", "0.2"]
    line += ["--set", "memory_bandwidth=4 TB/s", "--switch", "memory_efficiency=0.9", "--switch", "tiles=false"]
    ask = json.loads(run(*line)[1])["ask"]
    assert (ask["prompt"], ask["output"], ask["reserve"]) == (2000, 1024, 0.2)
    assert ask["changes"] == {"memory_bandwidth": "4 TB/s"}
    assert ask["switches"] == {"memory_efficiency": 0.9, "tiles": False}


def test_every_field_of_every_question_has_its_option():
    """A new field of an ask appears as an option by itself; its words have to be written."""
    questions = {kind: set(kind.__struct_fields__) for kind in reading.KINDS.values()}
    questions[SimulateAsk] = set(SimulateAsk.__struct_fields__) - serving.APART
    for kind, _ in designs.COMMANDS.values():
        questions[kind] = set(kind.__struct_fields__) - designs.APART.get(kind, frozenset())
    for kind, fields in questions.items():
        for field in fields:
            assert field in options.FLAGS, f"{field} of {kind.__name__}: say in cli/options.py what it does"
            assert options.FLAGS[field].help
    used = set().union(*questions.values())
    assert set(options.FLAGS) == used
    assert {command.kind for command in COMMANDS.values() if command.kind} == set(_kinds())


def _kinds():
    from typing import get_args

    return get_args(Ask)


def test_options_not_given_are_left_to_the_question():
    """Defaults are stated once, in the ask."""
    for tag, kind in reading.KINDS.items():
        assert options.ask(kind, dict.fromkeys(kind.__struct_fields__)) == {"kind": tag}


# ------------------------------------------------------------------------------------------------------ complaints


BAD = {
    "no machine": (["estimate", "llama-3.1-8b"], "--on"),
    "no such command": (["estmate"], "estimate"),
    "no such option": ([*ESTIMATE, "--bath", "3"], "--batch"),
    "no such choice": (["step", "llama-3.1-8b", "--on", "h100-sxm", "--phase", "foo"], "prefill"),
    "no such shelf": (["catalog", "chairs"], "devices"),
    "no such model": (["inspect", "lama-3.1-8b"], "llama-3.1-8b"),
    "no such system": (["estimate", "llama-3.1-8b", "--on", "h100-smx"], "h100-sxm"),
    "no such operator": (["explain", "llama-3.1-8b", "--on", "h100-sxm", "--op", "gateup"], "gate_up"),
    "no such switch": ([*ESTIMATE, "--switch", "tile=false"], "tiles"),
    "no such field": ([*ESTIMATE, "--set", "memory_bandwidht=4 TB/s"], "memory_bandwidth"),
    "no such profile": ([*ESTIMATE, "--profile", "operators"], "operator"),
    "no such format": ([*ESTIMATE, "--weights", "fp9"], "fp8"),
    "not a number": ([*ESTIMATE, "--prompt", "long"], "128k"),
    "not whole": ([*ESTIMATE, "--tp", "1.5"], "whole"),
    "zero": ([*ESTIMATE, "--output", "0"], "between 1"),
    "negative": ([*ESTIMATE, "--cached", "-5"], "zero or more"),
    "huge": ([*ESTIMATE, "--prompt", "1e30"], "between"),
    "not a pair": ([*ESTIMATE, "--set", "price"], "KEY=VALUE"),
    "wrong unit": ([*ESTIMATE, "--set", "memory=4 s"], "memory"),
    "no unit": ([*ESTIMATE, "--set", "memory_bandwidth=4.8"], "has no unit"),
    "two counts": (["estimate", "llama-3.1-8b", "--on", "8x 8x h100-sxm"], "two counts"),
    "refused layout": ([*ESTIMATE, "--tp", "3"], "32 heads"),
    "missing file": (["ask", "nowhere.json"], "nowhere.json"),
    "missing value": ([*ESTIMATE, "--tp"], "--tp"),
    "needless argument": (["inspect", "gpt2", "gpt2-xl"], "gpt2-xl"),
    "newline in a name": (["inspect", "a\nb"], "a"),
}


@pytest.mark.parametrize("args, says", BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_status_two(run, args, says):
    """F: errors name the thing, show the value and say what would be right; never a traceback."""
    status, out, err = run(*args)
    assert (status, out) == (2, "")
    assert re.fullmatch(r"rooflab: .{10,500}\n", err)
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"kind": "nonsense"}', '{"kind": "estimate"}', "[" * 100_000])
def test_a_file_that_holds_no_question_is_one_line(run, tmp_path, text):
    file = tmp_path / "ask.json"
    file.write_text(text, encoding="utf-8")
    status, out, err = run("ask", file)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_a_fault_of_ours_is_one_line_unless_debugging(run, monkeypatch):
    def fails(question):
        raise ZeroDivisionError("by\nnothing")

    monkeypatch.setattr(api, "answer", fails)
    status, out, err = run(*ESTIMATE)
    assert (status, out) == (1, "")
    assert re.fullmatch(r"rooflab: internal error: ZeroDivisionError: by nothing; please report it.*--debug.*\n", err)
    with pytest.raises(ZeroDivisionError):
        main([*ESTIMATE, "--debug"])


def test_ctrl_c_is_one_line_and_status_130(run, monkeypatch):
    def stops(question):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "answer", stops)
    assert run(*ESTIMATE) == (130, "", "rooflab: stopped\n")


def test_a_full_disk_is_one_line(run, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(terminal, "text", full)
    status, _, err = run(*ESTIMATE)
    assert (status, err) == (1, f"rooflab: cannot read or write: {os.strerror(errno.ENOSPC)}\n")


# ------------------------------------------------------------------------------------------------------- the pages


REPORTS = {
    "estimate": QUESTION,
    "answer of one token": {**QUESTION, "output": 1},
    "does not fit": {**QUESTION, "model": "llama-3.1-70b"},
    "ignoring memory": {**QUESTION, "model": "llama-3.1-70b", "ignore_memory": True},
    "detail": {**QUESTION, "detail": True},
    "no price": {**QUESTION, "on": "rtx-4090"},
    "every axis": {"kind": "estimate", "model": "deepseek-v3", "on": "hgx-h200", "tp": 4, "attention_dp": 2, "ep": 8, "pp": 2},
    "classes": {**QUESTION, "weights": {"attention": "fp8"}, "kv": "fp8"},
    "step": {"kind": "step", "model": "deepseek-v3", "on": "hgx-h200", "tp": 8, "batch": 64},
    "prefill": {"kind": "step", "model": "mixtral-8x7b", "on": "dgx-h100", "tp": 2, "phase": "prefill", "cached": 64},
    "mixed": {"kind": "step", "model": "qwen3-next-80b-a3b", "on": "dgx-h100", "tp": 2, "phase": "mixed"},
    "envelope": {"kind": "step", "model": "llama-3.1-8b", "on": "h100-sxm", "profile": "envelope"},
    "fits": {"kind": "fit", "model": "llama-3.1-8b", "on": "h100-sxm"},
    "what would fit": {"kind": "fit", "model": "llama-3.1-70b", "on": "h100-sxm"},
    "nothing fits": {"kind": "fit", "model": "deepseek-v3", "on": "t4"},
    "chip": {"kind": "chip", "model": "deepseek-v3", "on": "h200-sxm", "flops_multiplier": 2.0},
    "chip without a cache": {"kind": "chip", "model": "llama-3.1-8b", "on": "h100-sxm", "context": 1, "kv": "int4"},
    "inspect": {"kind": "inspect", "model": "deepseek-v3"},
    "inspect a hybrid": {"kind": "inspect", "model": "qwen3-next-80b-a3b", "batch": 4},
    **{op: {**QUESTION, "kind": "explain", "op": op} for op in ("ttft", "kv", "weights", "cost", "qkv", "workspace")},
    **{what: {"kind": "catalog", "what": what} for what in ("systems", "devices", "links", "formats", "profiles")},
}  # fmt: skip


@pytest.mark.parametrize("question", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("width", [40, 80, 120, 150])
def test_pages_keep_to_their_width(question, width):
    """F: at any width a page neither overflows, nor leaves blanks at line ends, nor shows what is not a number."""
    text = terminal.plain(page(api.answer(question)), width)
    assert text.splitlines()[0].strip()
    for line in text.splitlines():
        assert len(line) <= width, line
        assert line == line.rstrip()
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert "\x1b" not in text


def test_nothing_is_cut_where_there_is_room():
    """A-008: the operator table has all its columns in a file or a pipe."""
    text = terminal.plain(page(api.answer(REPORTS["step"])), terminal.WIDE)
    heading = next(line for line in text.splitlines() if line.startswith("Slowest operators"))
    columns = "count M×N×K FLOP bytes FLOP/byte compute memory launch total share bound"
    assert heading.split()[2:] == columns.split()
    assert "…" not in text


def test_operators_come_slowest_first():
    """A-008: ranked by time; every operator of the report is there once."""
    report = api.answer(REPORTS["step"])
    lines = terminal.plain(page(report), terminal.WIDE).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Slowest operators")) + 2
    names = [line.split()[0] for line in lines[start : start + len(report["ops"])]]
    assert names == [op["name"] for op in sorted(report["ops"], key=lambda op: -op["time"])]


def test_a_narrow_page_says_what_it_leaves_out():
    text = terminal.plain(page(api.answer(REPORTS["step"])), 80)
    assert re.search(r"a wider terminal also shows .*M×N×K", text.replace("\n", " "))


def test_the_estimate_says_the_bars_of_memory_and_the_band():
    """B-001, A-066: fits, memory by kind, times with their band, cost, energy, and what was assumed."""
    text = terminal.plain(page(api.answer(QUESTION)), 100)
    for word in ("fits", "85.9 GB = 80.0 GiB", "weights", "cache", "workspace", "reserve", "TTFT", "TPOT", "E2E", "band",
                 "Cost per million", "Energy", "bound by", "prices fitted"):  # fmt: skip
        assert word in text


@pytest.mark.parametrize("width", range(1, 60, 7))
def test_bars_are_in_proportion(width):
    """A share of one fills the bar, an eighth of a cell is drawn, and what is not zero shows."""
    assert terminal.stretch(width) == "█" * width
    assert terminal.stretch(width / 2).count("█") == width // 2
    assert terminal.stretch(0) == ""
    assert terminal.stretch(1e-9) == "▏"


def test_colours_only_where_they_are_wanted(run, monkeypatch):
    assert "\x1b[" not in run(*ESTIMATE)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run(*ESTIMATE)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9;]*m", run(*ESTIMATE)[1])  # bold may stay, colour may not


def test_the_help_names_every_command_and_option(run):
    status, out, _ = run("--help")
    assert status == 0
    assert all(name in out for name in COMMANDS)
    assert run()[1] == out  # no command: the same
    status, out, _ = run("estimate", "--help")
    assert status == 0
    for field in reading.KINDS["estimate"].__struct_fields__:
        if field != "model":
            assert options.spelling(field) in out
    assert "rooflab estimate llama-3.1-8b" in out


# --------------------------------------------------------------------------------------------- as a process of its own


def start(*args, **options):
    environment = {**os.environ, **options.pop("env", {})}
    environment.pop("COLUMNS", None)
    line = [sys.executable, "-m", "rooflab", *args]
    return subprocess.run(line, capture_output=True, env=environment, timeout=120, **options)


def test_json_loads_neither_numpy_nor_rich():
    """What is slow to import stays out of the way: the command answers in a quarter of a second."""
    seen = "[m for m in ('numpy', 'rich', 'pandas') if m in sys.modules]"
    code = f"import sys; from rooflab.cli import main; main(sys.argv[1:]); print({seen}, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *ESTIMATE, "--json"], capture_output=True, text=True, timeout=120
    )
    assert done.stderr.strip() == "[]"


def test_an_ascii_stream_is_served():
    """UTF-8 may be missing; the output then has stand-ins, the JSON escapes."""
    done = start(*ESTIMATE, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert "####" in text
    assert "?" not in text
    done = start(*ESTIMATE, "--json", env={"PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout.decode("ascii")) == json.loads(json.dumps(api.answer(QUESTION)))


@pytest.mark.skipif(os.name == "nt", reason="pipes and signals of POSIX")
def test_a_reader_that_leaves_ends_it_quietly():
    line = [sys.executable, "-m", "rooflab", "catalog", "devices"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_from_outside(tmp_path):
    fifo = tmp_path / "ask.json"
    os.mkfifo(fifo)  # opening it waits for a writer: the command is certain to be running
    line = [sys.executable, "-m", "rooflab", "ask", str(fifo)]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - jobs of a shell's background ignore it
    with subprocess.Popen(line, stderr=subprocess.PIPE, preexec_fn=heard) as process:
        deadline = time.monotonic() + 60
        while not _blocked(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert said == b"rooflab: stopped\n"
        assert process.returncode == 130


def _blocked(pid):
    """Whether the process waits for the other end of its pipe (Linux tells; elsewhere a second must do)."""
    where = Path(f"/proc/{pid}/wchan")
    try:
        return "fifo" in where.read_text() or "wait_for_partner" in where.read_text()
    except OSError:
        time.sleep(1.0)
        return True


def test_every_report_has_a_page():
    """A new kind of question gets a page, or its command cannot print."""
    from rooflab.show import _PAGES

    assert {kind.__struct_config__.tag for kind in _kinds()} <= _PAGES.keys()
    assert all(issubclass(kind, msgspec.Struct) for kind in _kinds())


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_with_nothing_after_it_is_refused(run, name):
    """F-02: blank text is no value of any option; the line names the option, and nothing is computed or written."""
    first = {"save": ["x", "llama-3.1-8b"], "compare": ["a", "b"], "site": ["folder"], "ask": ["-"]}
    none = ("serve", "measure", "validate", "calibrate", "saved", "schema", "catalog")
    words = [] if name in none else first.get(name, ["llama-3.1-8b"])
    for parameter in group(name).commands[name].params:
        if parameter.param_type_name == "option" and not parameter.is_flag:
            option = parameter.opts[0]
            status, out, complaint = run(name, *words, option, " ")
            assert (status, out) == (2, ""), option
            assert option in complaint
            assert complaint.count("\n") == 1


def test_examples_are_shown_in_lines_that_a_shell_takes(run):
    """E-19: an example of the help is copied from a terminal of 80 columns as it stands: folded lines end in a backslash."""
    for name, command in COMMANDS.items():
        shown = run(name, "--help")[1].partition(" Examples\n")[2]
        lines = shown.strip("\n").splitlines()
        assert all(len(line) <= 79 and line == line.rstrip() for line in lines), name
        assert re.sub(r" \\\n +", " ", "\n".join(lines)).split("\n") == [f" {each}" for each in command.examples]


def test_numbers_are_whole_in_a_narrow_terminal(run, monkeypatch):
    """E-19: at 40 columns words wrap and bars go before a number loses its unit."""
    monkeypatch.setenv("COLUMNS", "40")
    for words in (ESTIMATE, ["suggest", "llama-3.1-8b", "--on", "h100-sxm"], ["catalog", "devices"]):
        text = run(*words)[1]
        assert "…" not in text
        assert all(len(line) <= 40 for line in text.splitlines())


def test_a_reserve_above_one_needs_its_unit(run):
    """F-02: 1.5 could be bytes, gigabytes or a share; digits of other scripts are no share either."""
    for text in ("1.5", "2", "٣"):
        status, _, complaint = run(*ESTIMATE, "--reserve", text)
        assert status == 2
        assert "reserve" in complaint
    assert run(*ESTIMATE, "--reserve", "0")[0] == run(*ESTIMATE, "--reserve", ".05")[0] == 0


@pytest.mark.parametrize("words, message", [
    ((*ESTIMATE, "--batch", "200%"), "whole number"),
    ((*ESTIMATE, "--html", "report"), "--html: 'report' must end in .html"),
    ((*ESTIMATE, "--html", "nowhere/report.html"), "--html: 'nowhere/report.html' cannot be written"),
    ((*ESTIMATE, "--prices", "missing.csv"), "prices: 'missing.csv' does not exist"),
    (("chip", "llama-3.1-8b", "--on", "h100-sxm", "--prices", "fitted"), "no such option"),
    (("estimate", "llama-3.1-8b", "--on", "."), "a machine of your own is a file that ends in .toml"),
    (("saved", "--store", "n" * 300), "too long"),
    (("compare", "llama-3.1-8b --on h100-sxm", "--profiles", "operator,x"), "profile: 'x' is not one of"),
    (("sharded", "qwen3-8b", "--context", "1k", "--around", "a=1"), "around.a: is no knob of a layout"),
    (("sweep", "llama-3.1-8b", "--on", "h100-sxm", "--vary", "tp=1,2", "--tp", "2"), "--tp: --vary tp=1,2 gives its values"),
    (("sweep", "llama-3.1-8b", "--on", "h100-sxm", "--layouts", "4", "--tp", "2"), "--tp: --layouts 4 tries every degree"),
    (("sweep", "llama-3.1-8b", "--on", "h100-sxm", "--layouts", "4", "--batch", "8"), "--vary batch=8"),
])  # fmt: skip
def test_what_would_count_for_nothing_is_refused(run, words, message):
    """F-02: a value that is no value, or an option that another one overrides, is one line and status 2."""
    status, out, complaint = run(*words)
    assert (status, out) == (2, "")
    assert message in complaint


def test_chips_prices_are_checked_though_they_change_nothing():
    """F-02: whoever sends the fields of an estimate may send its prices, but not some that there are not."""
    question = {"kind": "chip", "model": "llama-3.1-8b", "on": "h100-sxm"}
    assert api.answer({**question, "prices": "fitted"})["chip"] == api.answer(question)["chip"]
    with pytest.raises(InputError, match="prices: 'x' is not"):
        api.answer({**question, "prices": "x"})


def test_searches_take_the_machine_and_the_profile_as_estimates_do(run):
    """E-20: --set, --switch, --engine and degrees mean the same to a sweep, a suggestion and a plan as to an estimate."""
    machine = ["--on", "h100-sxm", "--set", "memory_bandwidth=4 TB/s", "--switch", "memory_efficiency=0.7", "--reserve", "20%"]
    words = ["llama-3.1-8b", *machine, "--prompt", "512", "--output", "64", "--tp", "2"]
    one = json.loads(run("estimate", *words, "--batch", "4", "--json")[1])
    rows = json.loads(run("sweep", *words, "--vary", "batch=4,8", "--json")[1])["table"]["columns"]
    assert (rows["ttft"][0], rows["tpot"][0]) == (one["ttft"], one["tpot"])
    alone = [word for word in words if word not in ("--tp", "2")]
    first = json.loads(run("suggest", *alone, "--users", "1", "--goal", "devices", "--json")[1])["layouts"][0]
    assert first["tpot"] == json.loads(run("estimate", *alone, "--json")[1])["tpot"]
    plan = json.loads(run("plan", "llama-3.1-8b", *machine, "--users", "8", "--context", "1k", "--json")[1])
    assert plan["ask"]["changes"] == {"memory_bandwidth": "4 TB/s"}


def test_ctrl_c_is_one_line_from_the_start(monkeypatch, capsys):
    """F-02: also while the command's modules are being read."""
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("rooflab.cli._guarded", stop)
    assert main(["estimate"]) == 130
    assert capsys.readouterr().err == "rooflab: stopped\n"


@pytest.mark.parametrize("kind", ["document", "snapshot"])
def test_reports_for_programs_have_no_page(run, tmp_path, kind):
    """F-02: `ask` says how to get what is no page, and writes the page that a question is of."""
    file = tmp_path / "question.json"
    file.write_text(json.dumps({"kind": kind, "scenario": {"model": "llama-3.1-8b", "on": "h100-sxm"}}), encoding="utf-8")
    status, _, complaint = run("ask", file)
    assert (status, complaint) == (2, f"rooflab: {kind}: its report is data for programs and has no page; add --json\n")
    assert json.loads(run("ask", file, "--json")[1])["kind"] == kind
    if kind == "document":
        assert run("ask", file, "--html", tmp_path / "page.html")[0] == 0
        assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_search_stopped_at_once_has_nothing_to_report():
    """F-02: a sweep that was cancelled before its first point says so."""
    with pytest.raises(InputError, match="stopped before a point"):
        api.answer({"kind": "sweep", "model": "llama-3.1-8b", "on": "h100-sxm", "vary": {"batch": "1..8"}}, cancel=lambda: True)
