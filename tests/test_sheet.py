"""Reports of Design and Serve in one HTML file each: what the terminal says, charts with words, nothing fetched (D-907, F-05)."""

import json
import re

import pytest
from test_document import EVIL, TINY, Read

from rooflab import api
from rooflab.cli import main
from rooflab.document import curves
from rooflab.show.sheet import MOST_ROWS, sheet
from rooflab.units import format as shown

MODEL = ["llama-3.1-8b", "--on", "h100-sxm"]
COMMANDS = {
    "sweep": [*MODEL, "--vary", "tp=1,2", "--vary", "batch=1..64", "--where", "ttft < 10 s"],
    "suggest": [*MODEL, "--users", "8"],
    "plan": [*MODEL, "--users", "200", "--context", "2k", "--tpot", "30ms"],
    "sharded": ["qwen3-8b", "--context", "4k", "--axis", "tp=1,2", "--axis", "cp=1,2"],
    "codesign": ["qwen3-8b", "--context", "16k", "--depth", "balanced"],
    "rules": [*MODEL, "--batch", "8"],
    "simulate": [*MODEL, "--rate", "4", "--requests", "40"],
}
CHARTS = {"sweep": 1, "sharded": 1, "codesign": 1, "simulate": 2}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Command -> (its page, its report): both are asked of one run of the command line."""
    found = {}
    for name, words in COMMANDS.items():
        file = tmp_path_factory.mktemp(name) / "report.html"
        with pytest.MonkeyPatch.context() as patch:
            said = []
            patch.setattr("rooflab.cli.streams.write", said.append)
            assert main([name, *words, "--html", str(file), "--json"]) == 0
        found[name] = file.read_text(encoding="utf-8"), json.loads("".join(said))
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_needs_nothing_and_runs_nothing(pages, name):
    """F-05: no script, no address, a policy that forbids both; elements close as they opened; contents lead somewhere."""
    html, _ = pages[name]
    read = Read(html)
    assert (read.crossed, read.open) == ([], [])
    assert not {"script", "iframe", "img", "link", "object", "embed", "form", "base"} & {tag for tag, _ in read.tags}
    assert not re.search(r"url\(|@import|https?://", html)
    policy = next(found["content"] for tag, found in read.tags if tag == "meta" and found.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    ids = [found["id"] for _, found in read.tags if "id" in found]
    assert len(set(ids)) == len(ids)
    assert {found["href"] for tag, found in read.tags if tag == "a"} == {f"#{each}" for each in ids}
    assert sum(tag == "h1" for tag, _ in read.tags) == 1  # int


@pytest.mark.parametrize("name", COMMANDS)
def test_charts_say_what_they_show(pages, name):
    """F-04: every chart has its numbers in words; colours follow the reader's light or dark."""
    html, _ = pages[name]
    charts = [found for tag, found in Read(html).tags if tag == "svg"]
    assert len(charts) == CHARTS.get(name, 0)
    for chart in charts:
        assert chart["role"] == "img"
        assert re.search(r"\d", chart["aria-label"])
    assert "prefers-color-scheme:dark" in html
    assert "NaN" not in html


def test_pages_hold_the_reports_numbers(pages):
    """Rows of the frontier, fleets, times of requests and rules are those of the JSON."""
    for name, (html, report) in pages.items():
        text = " ".join(Read(html).text)
        if name == "sweep":
            columns = report["table"]["columns"]
            wanted = [shown(columns["tpot"][at], "s") for at in report["pareto"]]
        elif name == "suggest":
            wanted = [shown(one["ttft"], "s") for one in report["layouts"]]
        elif name == "plan":
            wanted = [shown(one["tpot"], "s") for one in report["fleets"]]
        elif name == "simulate":
            wanted = [shown(report["run"]["ttft"][each], "s") for each in ("mean", "p50", "p99")]
        elif name == "rules":
            wanted = [one["title"] for one in report["checks"]]
        elif name == "sharded":
            wanted = [shown(report["table"]["columns"]["latency"][at], "s") for at in report["pareto"]]
        else:
            wanted = [shown(report["machines"]["columns"]["latency"][at], "s") for at in report["pareto"]]
        assert wanted
        for each in wanted:
            assert each in text, name


def test_a_page_can_be_asked_again(pages, tmp_path, capsys):
    """The question in the page is the one that was asked, without what nobody said; `ask` gives the same report."""
    html, report = pages["sweep"]
    question = json.loads(next(each for each in Read(html).text if each.startswith("{")))
    assert set(question) == {"kind", "model", "on", "vary", "where"}
    file = tmp_path / "question.json"
    file.write_text(json.dumps(question), encoding="utf-8")
    assert main(["ask", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    again = tmp_path / "again.html"
    assert main(["ask", str(file), "--html", str(again)]) == 0
    assert again.read_text(encoding="utf-8") == html


def test_a_curve_is_drawn_against_its_loads(tmp_path):
    """B-073: times and output against the load, from the same points as the table."""
    file = tmp_path / "curve.html"
    words = ["--loads", "2,4,8", "--requests", "40", "--replications", "2", "--html", str(file)]
    assert main(["simulate", *MODEL, *words]) == 0
    said = [found["aria-label"] for tag, found in Read(file.read_text(encoding="utf-8")).tags if tag == "svg"]
    assert len(said) == 2
    assert "TTFT p95" in said[0]
    assert re.search(r"output [\d,.]+ token/s at 2\.00 to [\d,.]+ token/s at 8\.00", said[1])


def test_hostile_names_stay_words(tmp_path):
    """F-05: a model's name is text, wherever the page shows it."""
    model = tmp_path / "config.json"
    model.write_text(json.dumps({**TINY, "_name_or_path": EVIL}), encoding="utf-8")
    file = tmp_path / "page.html"
    assert main(["sweep", str(model), "--on", "h100-sxm", "--vary", "batch=1,2,4", "--html", str(file)]) == 0
    html = file.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "<img" not in html
    assert all(not name.startswith("on") for _, found in Read(html).tags for name in found)


def test_a_long_search_keeps_its_page_short(pages):
    """Rows beyond what anybody reads are left to the file that --out writes; the page says how many fit."""
    html, report = pages["sweep"]
    assert "Every row" in html
    rows = report["table"]
    many = MOST_ROWS // len(rows["feasible"]) + 1
    longer = {
        **report,
        "table": {
            **rows,
            "columns": {name: values * many for name, values in rows["columns"].items()},
            "feasible": rows["feasible"] * many,
        },
    }
    assert "Every row" not in sheet(longer)


def test_straight_axes_start_at_zero():
    """Round steps, at most five of them, and the last at or above the highest value."""
    axis = curves.Straight(33.4, 50.0, 366.0)
    assert axis.decades() == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert (axis(0.0), axis(40.0)) == (50.0, 366.0)
    assert curves.Straight(0.7, 0.0, 1.0).decades() == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert curves.rounded(6.0, 13.0) == [6.0, 7.0, 8.0, 9.0, 10.0]
    assert curves.rounded(1.0, 100.0) == [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    assert curves.rounded(1e-3, 1e3) == pytest.approx([1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3])


@pytest.mark.parametrize("file", ["report", "report.txt", "--json"])
def test_a_page_has_a_name_that_browsers_open(capsys, file):
    """An option or a table is not taken for the name of a page, and nothing is computed for it."""
    assert main(["sweep", *MODEL, "--vary", "batch=1..8", "--html", file]) == 2
    assert "--html: " in (complaint := capsys.readouterr().err)
    assert "must end in .html" in complaint


def test_columns_that_are_not_there_are_not_drawn():
    """A question may ask for fewer columns than a chart would need."""
    report = api.answer({"kind": "sharded", "model": "qwen3-8b", "context": 4096, "columns": ["tp"], "axes": {"tp": [1, 2]}})
    assert "<svg" not in sheet(report)


def test_the_line_of_a_frontier_is_of_its_two_figures():
    """D-149: a frontier of three goals has rows that others beat in two of them; the line leaves those out."""
    report = api.answer({"kind": "sharded", "model": "qwen3-8b", "context": 131072, "rows": "pareto"})
    columns = report["table"]["columns"]
    places = [(columns["devices"][at], columns["latency"][at]) for at in report["pareto"]]
    beaten = [one for one in places if any(two[0] <= one[0] and two[1] <= one[1] and two != one for two in places)]
    assert beaten
    said = next(found["aria-label"] for tag, found in Read(sheet(report)).tags if tag == "svg")
    assert f"{len(places) - len(beaten)} points on the frontier" in said
    named = api.answer({"kind": "sweep", "model": "llama-3.1-8b", "on": "h100-sxm", "vary": {"batch": [1, 8, 64]},
                        "pareto": ["ttft", "min:cost"]})  # fmt: skip
    assert "cost against ttft" in sheet(named)
