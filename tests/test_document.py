"""The report in one file: it needs nothing else, runs nothing, and says what the engine says (D-907, E-22, F-03, F-04, F-05).

Expected numbers are those of the estimate and of its explanations, written by the units' own rules.
"""

import itertools
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rooflab import api
from rooflab.cli import main
from rooflab.document import charts, curves, words
from rooflab.document.elements import about
from rooflab.units import InputError, short
from rooflab.units import format as shown

FP8 = {"model": "llama-3.1-70b", "on": "4x h100-sxm", "tp": 4, "batch": 128, "prompt": 2048, "weights": "fp8"}
TINY = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
EVIL = "</style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
VOID = {"meta", "br", "img", "hr", "input", "link"}


class Read(HTMLParser):
    """Elements as they open and close; text by element."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.text, self.crossed = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def document(scenario, **more):
    return api.answer({"kind": "document", "scenario": scenario, **more})["html"]


def plain(html):
    return " ".join(" ".join(Read(html).text).split())


CASES = {
    "fits": FP8,
    "does not fit": {"model": "llama-3.1-70b", "on": "h100-sxm"},
    "shown all the same": {"model": "llama-3.1-70b", "on": "h100-sxm", "ignore_memory": True},
    "one token": {"model": "llama-3.1-8b", "on": "h100-sxm", "output": 1},
    "experts": {"model": "deepseek-v3", "on": "hgx-h200", "tp": 8, "batch": 16},
    "recurrent": {"model": "qwen3-next-80b-a3b", "on": "dgx-h100", "tp": 4},
    "closed loop": {"model": "llama-3.1-8b", "on": "h100-sxm", "concurrency": 16},
    "sharded": {"model": "qwen3-8b", "on": "sip", "tp": 8, "cp": 2, "profile": "sharded"},
    "classroom": {"model": "llama-3.1-8b", "on": "dgx-h100", "tp": 4, "profile": "classroom"},
    "envelope": {"model": "qwen3-8b", "on": "h100-sxm", "profile": "envelope"},
    "no price": {"model": TINY, "on": "sip", "prices": "roofline"},
}


@pytest.mark.parametrize("scenario", CASES.values(), ids=CASES)
def test_a_report_needs_nothing_and_runs_nothing(scenario):
    """F-05: no script, no address that is fetched, a policy that forbids both; elements close as they opened."""
    html = document(scenario)
    page = Read(html)
    assert page.crossed == []
    assert page.open == []
    assert not {"script", "iframe", "img", "link", "object", "embed", "form", "base"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "srcset", "srcdoc", "xlink:href")
        ]
        if "href" in attributes:
            assert tag == "a"
    assert not re.search(r"url\(|@import|expression\(", html)
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "nan" not in plain(html).lower().split()
    assert html == document(scenario)


def test_it_says_what_the_engine_says():
    """The headline numbers, every operator and every headline formula are those of the reports."""
    text = plain(document(FP8))
    report = api.answer({"kind": "estimate", **FP8, "detail": True})
    for key in ("tpot", "ttft", "e2e"):
        assert shown(report[key], "s") in text
    assert shown(report["memory"]["used"], "byte") in text
    assert shown(report["output_throughput"], "token/s").replace("token/s", "tok/s") in text
    for phase in ("prefill", "decode"):
        for op in report[f"{phase}_step"]["ops"]:
            if op["time"]:
                assert words.operator_name(op["name"]) in text
                assert shown(op["time"], "s") in text
    for note in report["notes"]:
        assert " ".join(note.split()) in text
    explained = api.answer({"kind": "explain", **FP8, "op": "memory"})["lines"][-1]
    assert words.in_words(explained) in text
    assert words.in_numbers(explained) in text


def test_every_basis_is_beside_its_number():
    """E-22, A-066: what is assumed, fitted or from a datasheet says so, and so does the whole."""
    rates = document({**FP8, "prices": "roofline"})
    assert 'class="badge assumed"' in rates
    assert 'class="badge datasheet"' in rates
    assert "not a benchmark" in plain(rates)
    assert "estimates and comparisons are the point" in plain(rates)
    fitted = document({**FP8, "prices": "fitted"})
    assert 'class="badge fitted"' in fitted


def test_what_does_not_fit_shows_no_speed_but_what_would_help():
    """B-040, F-02."""
    text = plain(document(CASES["does not fit"]))
    assert text.count("Does not fit") == 1
    assert "Any one of these fits" in text
    assert "TPOT –" in text
    assert "One decode step" not in text


def test_the_baseline_stands_beside_it():
    html = document(FP8, baseline={**FP8, "weights": None}, baseline_name="bf16")
    text = plain(html)
    now, was = (api.answer({"kind": "estimate", **FP8, "weights": w})["tpot"] for w in ("fp8", None))
    assert f"{abs(now / was - 1):.1%}".replace("%", " %") in text
    assert "Beside the baseline" in text
    assert "Feed-forward weights fp8 bf16" in text
    assert "Beside the baseline" not in plain(document(FP8, baseline=FP8))


def test_the_question_in_it_gives_it_again():
    html = document({**FP8, "model": TINY, "tp": 1}, date="2026-01-31")
    question = json.loads(unescape(re.findall(r"<pre>(\{.*?)</pre>", html, flags=re.S)[0]))
    assert question.pop("kind") == "estimate"
    assert document(question, date="2026-01-31") == html


@pytest.mark.parametrize("field", ["title", "baseline_name", "date", "model", "weights", "links"])
def test_hostile_text_stays_text(field):
    """Names from a config, a machine's file or a link are shown, never run."""
    scenario, more = dict(FP8), {"baseline": {**FP8, "batch": 1}}
    if field in ("title", "baseline_name", "date"):
        more[field] = EVIL
    elif field == "model":
        scenario = {"model": {**TINY, "_name_or_path": EVIL}, "on": "h100-sxm"}
    elif field == "links":
        device = {"memory": "80 GB", "memory_bandwidth": "3 TB/s", "flop_rate": {"bf16": "1 PFLOP/s"}}
        scenario = {"model": TINY, "on": {"name": EVIL, "title": EVIL, "device": device}, "batch": 2}
    else:
        with pytest.raises(InputError):
            document({**FP8, "weights": EVIL})
        return
    html = document(scenario, **more)
    page = Read(html)
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert page.crossed == []
    assert "<script" not in html
    assert "alert(1)" in plain(html)


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "data:text/html,x", "//elsewhere", " https://x", "file:///etc/passwd"]
)
def test_a_link_is_an_address_of_the_web(link):
    with pytest.raises(InputError, match="link"):
        document(FP8, link=link)


def test_the_link_back_is_there():
    html = document(FP8, link='https://example.org/#/step?m=x"onclick="alert(1)')
    hrefs = [a["href"] for tag, a in Read(html).tags if tag == "a" and "href" in a]
    assert 'https://example.org/#/step?m=x"onclick="alert(1)' in hrefs


def test_every_chart_says_in_words_what_it_shows():
    """F-03: a role, a sentence with the leading values, a table beside it."""
    page = Read(document(FP8))
    drawn = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(drawn) == 11  # memory, two rooflines, four plots of the limits, two of memory, two of other devices
    assert all(each["role"] == "img" and len(each["aria-label"]) > 60 for each in drawn)


@pytest.mark.parametrize("case", ["fits", "does not fit", "experts", "recurrent", "sharded"])
def test_the_limits_are_those_of_the_chip(case):
    """ux §14: figures, every curve with its rows, formulas, guidance; the curves reach the batch that is aimed for."""
    scenario = CASES[case]
    context = scenario.get("prompt", 1024) + scenario.get("output", 256)
    keys = ("model", "on", "tp", "cp", "weights", "batch", "profile")
    ask = {"kind": "chip", "context": context, "prompt": scenario.get("prompt", 1024)}
    chip = api.answer({**ask, **{key: scenario[key] for key in keys if key in scenario}})["chip"]
    html = document(scenario)
    text = plain(html)
    assert f"This device wants a batch near {about(chip['good_batch'])}" in text
    assert chip["guidance"] in text
    for each in chip["formulas"]:
        assert each["meaning"] in text
        assert each["text"] in text
    for point in (*chip["curves"]["step_latency"], chip["step"]):
        assert f"{point['batch']:,.0f} {shown(point['weight'], 's')}" in text
    for row in chip["curves"]["memory_vs_context"]:
        assert shown(row["used"], "byte") in text
    batches = [
        float(each.replace(",", ""))
        for each in re.findall(
            r'<td class="n">([\d,]+)</td>',
            html.partition("Step time against batch, in figures")[2].partition("</table>")[0],
        )
    ]
    assert max(batches) >= min(chip["good_batch"], 256 * 2**8)


def test_rules_band_and_symbols_are_there():
    """D-410, A-066: every rule with its verdict and numbers, the band of every headline number, shares by basis."""
    text = plain(document(FP8))
    report, rules = api.answer({"kind": "estimate", **FP8}), api.answer({"kind": "rules", **FP8})
    failed = [each for each in rules["checks"] if each["passed"] is False]
    assert text.count("✕ fail") == len(failed) > 0
    for each in rules["checks"]:
        assert each["says"][2:] in text
    for end in ("low", "high"):
        assert shown(report[end]["tpot"], "s") in text
    for each in rules["glossary"]:
        assert each["meaning"] in text
    assert "rooflab simulate" in text


@pytest.mark.parametrize("scenario", CASES.values(), ids=CASES)
def test_a_report_is_small_and_its_contents_lead_somewhere(scenario):
    """Under 1 MB; every link of the contents names a section, once."""
    html = document(scenario, baseline={**scenario, "batch": 2})
    assert len(html.encode()) < 1_000_000
    page = Read(html)
    inside = [attributes["href"][1:] for tag, attributes in page.tags if attributes.get("href", "").startswith("#")]
    named = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert sorted(inside) == sorted(named)
    assert len(set(named)) == len(named) > 6


def test_marks_lie_where_the_numbers_say():
    """The roofline's axes are logarithmic: a decade is as wide wherever it lies; no mark is outside the frame."""
    axis = charts.Log(0.5, 900.0, 40.0, 700.0)
    assert (axis.low, axis.high) == pytest.approx((0.3, 1000.0))
    assert axis(10.0) - axis(1.0) == pytest.approx(axis(1000.0) - axis(100.0))
    assert (axis(0.3), axis(1000.0), axis(1e9)) == pytest.approx((40.0, 700.0, 700.0))
    step = api.answer({"kind": "estimate", **FP8, "detail": True})["decode_step"]
    for x, y in re.findall(r'class="mark \w+" d="M([\d.-]+),([\d.-]+)', charts.roofline(step, "x")):
        assert -20 < float(x) < charts.WIDTH + 20
        assert -20 < float(y) < charts.HEIGHT + 20


def test_lines_lie_where_the_numbers_say_and_names_do_not_meet():
    """Equal ratios are equal distances on both axes; names at the ends stay apart; what is no number draws nothing."""
    series = [
        curves.Series(name=f"s{n}", points=[(1.0, 1e-3 * n), (10.0, 1e-2 * n), (100.0, 1e-1 * n)]) for n in (1.0, 1.01)
    ]
    svg = curves.lines("said", series, [curves.Mark(x=10.0, name="now")], [(1.0, "1"), (100.0, "100")], "s", ("x", "y"))
    drawn = re.search(r'class="line ink" d="M([\d.]+),([\d.]+)L([\d.]+),([\d.]+)L([\d.]+),([\d.]+)"', svg)
    x0, y0, x1, y1, x2, y2 = map(float, drawn.groups())
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert f'd="M{x1:.1f},' in svg  # the upright
    names = [float(y) for y in re.findall(r'y="([\d.]+)">s1', svg)]
    assert abs(names[1] - names[0]) >= curves.LINE
    low = [curves.Series(name=f"low{n}", points=[(1.0, 1.0), (9.0, 1e-3 + 1e-6 * n)]) for n in range(5)]
    below = curves.lines("said", low, [], [], "s", ("x", "y"))
    names = sorted(float(y) for y in re.findall(r'y="([\d.]+)">low', below))
    assert all(two - one >= curves.LINE - 0.11 for one, two in itertools.pairwise(names))
    assert names[-1] <= curves.HEIGHT - curves.BOTTOM + 4
    assert curves.lines("said", [curves.Series(name="a", points=[(1.0, 0.0)])], [], [], "s", ("x", "y")) == ""


def test_names_under_bars_do_not_meet_and_what_is_now_is_named():
    kinds = {"weights": 1e9, "kv": 1e9, "transient": 0.0, "reserve": 1e9, "used": 3e9, "budget": 2e9}
    rows = [{"batch": float(n), **kinds} for n in (*(2**k for k in range(11)), 5000)]
    svg = curves.stacks("said", rows, "batch", 5000.0, short)
    placed = [(float(x), name) for x, name in re.findall(r'x="([\d.]+)" y="230" text-anchor="middle">([^<]+)<', svg)]
    assert "4.88 Ki" in [name for _, name in placed]
    edges = sorted((x - 2.6 * len(name), x + 2.6 * len(name)) for x, name in placed)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(edges))
    assert svg.count("×") == len(rows)


def test_the_command_line_writes_the_same_page(capsys, tmp_path, monkeypatch):
    """One generator: `--html` writes what the engine's question gives."""
    monkeypatch.setattr("rooflab.store.now", lambda: "2026-01-31T00:00:00Z")
    file = tmp_path / "report.html"
    line = ["estimate", "llama-3.1-70b", "--on", "4x h100-sxm", "--tp", "4", "--batch", "128", "--prompt", "2048"]
    assert main([*line, "--weights", "fp8", "--html", str(file)]) == 0
    assert "opens in any browser" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == document(FP8, date="2026-01-31")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert main([*line, "--html", str(tmp_path / "no/such/folder.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main([*line, "--html", str(tmp_path)]) == 2
    capsys.readouterr()
    assert main([*line, "--weights", "fp8", "--html", "-"]) == 0
    assert capsys.readouterr().out == document(FP8, date="2026-01-31")
    assert main([*line, "--weights", "fp8", "--html", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tpot"] == api.answer({"kind": "estimate", **FP8})["tpot"]


def test_a_link_is_written_through_and_a_full_disk_leaves_no_scrap(capsys, tmp_path, monkeypatch):
    """What a link leads to is written, the link stays; a file that cannot be written whole is not there, nor a piece of it."""
    line = ["estimate", "llama-3.1-8b", "--on", "h100-sxm", "--html"]
    link, target = tmp_path / "link.html", tmp_path / "target.html"
    link.symlink_to(target)
    assert main([*line, str(link)]) == 0
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    target.unlink()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert main([*line, str(target)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["link.html"]
