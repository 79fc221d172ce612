"""The Evidence view: how far the numbers can be trusted and what is left out; by both transports."""

import json
import re
from pathlib import Path

import pytest

from rooflab.api import answer

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = json.loads((ROOT / "src/rooflab/web/start.json").read_text())["scenario"]
OVER = "#/evidence?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b256"
FITTED = "#/evidence?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b64&f=operator;prices=fitted"


@pytest.fixture(params=["served", "static"])
def address(request):
    return request.getfixturevalue(request.param)


def verdicts(page):
    return dict(
        page.eval_on_selector_all("[data-check]", "(all) => all.map((e) => [e.dataset.check, e.dataset.passed])")
    )


def test_the_rules_are_evaluated_on_the_scenario(reader, address):
    """D-410: seven checks, each with its numbers; tp 4 is within 8 devices of a link and 8 KV heads."""
    page = reader().open(address + "#/evidence")
    page.wait_for_selector("[data-check]")
    found = verdicts(page)
    assert len(found) == 7
    assert found["tp_in_domain"] == found["tp_within_kv_heads"] == "true"
    assert found["step_meets_limit"] == "null"
    assert found == {
        check["name"]: json.dumps(check["passed"]) for check in answer({"kind": "rules", **SCENARIO})["checks"]
    }


def test_a_limit_is_judged_once_it_is_said(reader, served):
    """A step of 20 ms meets 25 ms and not 10 ms; what is no time is refused in words."""
    one = reader()
    page = one.open(served + "#/evidence")
    page.wait_for_selector("[data-check]")
    tpot = answer({"kind": "estimate", **SCENARIO})["tpot"]
    assert 0.010 < tpot < 0.025
    for limit, passed in (("25 ms", "true"), ("10 ms", "false")):
        page.get_by_label("Time per token, at most").fill(limit)
        page.keyboard.press("Enter")
        page.wait_for_selector(f"[data-check=step_meets_limit][data-passed={passed}]")
    page.get_by_label("Time per token, at most").fill("soon")
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel p.bad")


def test_the_glossary_is_live(reader, address):
    """D-105: 80 layers and 64 query heads; the batch follows the scenario."""
    one = reader()
    page = one.open(address + "#/evidence?about=glossary")
    page.wait_for_selector("[data-symbol=L]")
    assert "80" in page.inner_text("[data-symbol=L] .v")
    assert "64" in page.inner_text("[data-symbol=H_q] .v")
    assert page.inner_text("[data-symbol=B] .v") == "128"
    page.keyboard.press("Control+k")
    page.keyboard.type("batch 32")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('[data-symbol=B] .v')?.textContent === '32'")


def test_every_profile_says_what_it_leaves_out(reader, served):
    """D-907: the engine's own list, the profile in use marked."""
    page = reader().open(served + "#/evidence?about=profiles")
    page.wait_for_selector("[data-profile].on")
    for row in answer({"kind": "catalog", "what": "profiles"})["rows"]:
        words = page.inner_text(f"[data-profile={row['name']}]").lower()
        assert all(each.lower() in words for each in row["leaves_out"])
    assert page.locator("[data-profile].on").get_attribute("data-profile") == "operator"
    page.get_by_role("button", name="Two profiles beside each other").click()
    page.get_by_role("button", name="Profiles", exact=True, pressed=True).wait_for()


def test_the_method_is_said(reader, served):
    """A-090, B-003, B-091–B-095: operators, architectures, SRAM machines, mixed serving, validation, and what is assumed."""
    page = reader().open(served + "#/evidence?about=method")
    page.wait_for_selector(".method")
    said = page.inner_text(".method").lower()
    for word in ("operators", "architectures", "lpus", "heterogeneous", "speculative", "validation", "fragmentation", "balanced",
                 "unfused attention", "re-reads", "planning assumptions", "run the real model"):  # fmt: skip
        assert word in said
    for view in ("step", "fit", "limits", "evidence"):
        page.goto(served + f"#/{view}")
        page.wait_for_function("() => document.body.innerText.includes('Analytical model, not a benchmark')")


def test_the_basis_of_prices_and_the_inputs_behind_them(reader, served):
    """A-060, A-066: shares by basis; datasheet and assumed inputs of the step."""
    page = reader().open(served + "#/evidence")
    rows = page.get_by_role("table", name="Inputs and their basis")
    rows.wait_for()
    rates = page.locator(".rates")
    assert "3.35\u00a0TB/s" in rates.inner_text()
    assert "datasheet" in rates.inner_text()
    few = rows.locator("tbody tr").count()
    shares = [float(each.split("%")[0]) for each in rows.locator("tbody td:nth-child(2)").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    page.get_by_role("button", name=re.compile("^All .* operators")).click()
    steps = answer({"kind": "estimate", **SCENARIO, "detail": True})["decode_step"]["ops"]
    assert rows.locator("tbody tr").count() == sum(op["kind"] != "overhead" and op["time"] > 0 for op in steps) > few
    assert "assumed" in rows.inner_text()
    rates.get_by_role("button").first.click()
    card = page.locator("details[open]")
    want = next(
        each for each in answer({"kind": "rules", **SCENARIO})["sources"] if each["gives"][0].startswith("device")
    )
    card.wait_for()
    for said in (want["title"], want["licence"], *want["used_by"]):
        assert said in card.inner_text()
    page.goto(served + FITTED)
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('measured kernels')")
    assert page.locator(".share .basis[data-b=fitted]").count() == 2


def test_accuracy_is_that_of_the_project_page(reader, served):
    """A-065: partitions with their medians, every table of docs/accuracy.md, searched."""
    page = reader().open(served + "#/evidence")
    page.wait_for_selector(".accuracy")
    assert page.locator(".accuracy tr:has-text('Qwen3-32B')").count() >= 3
    page.get_by_label("Table of errors").select_option("Kernels, rows no fit has seen")
    page.get_by_role("searchbox", name="Search the rows").fill("gemm h100_sxm vllm bf16")
    page.wait_for_function("() => document.querySelector('.accuracy tbody tr td')?.textContent.includes('gemm')")
    row = page.locator(".accuracy tbody tr", has_text="gemm").first.inner_text()
    assert "%" in row
    page.get_by_role("searchbox", name="Search the rows").fill("nothing of the kind")
    page.wait_for_selector("text=No row has these words")


def test_the_guidance_is_there_in_full(reader, served):
    """D-306..D-311, D-400..D-408, D-411: seven ways to split, eleven problems, five cases, nine beliefs; services, contexts,
    what binds, layers, templates, guesses; both orders, the notice and the close."""
    page = reader().open(served + "#/evidence?about=guidance")
    page.wait_for_selector(".says")
    counts = page.eval_on_selector_all(".says", "(all) => all.map((one) => one.tBodies[0].rows.length)")
    assert counts == [7, 11, 5, 9, 5, 3, 3, 3, 3, 3]
    said = page.locator("section.panel", has=page.get_by_role("heading", name="Behind the numbers")).inner_text()
    for part in ("not a procedure", "give the chattiest the fastest links", "Then measure", "mostly unpublished"):
        assert part in said
    assert page.locator(".cards ol").evaluate_all("(all) => all.map((one) => one.children.length)") == [7, 6]


def test_a_machine_that_nobody_measured_says_so_and_how_to(reader, served, tmp_path):
    """A-066: next to the numbers, and what to run; the template is a table that the engine reads."""
    work = "m=llama-3.1-70b&s=tpu-v5p*4&l=tp4&w=2048-256-b64"
    page = reader().open(served + f"#/step?{work}")
    page.wait_for_function("() => document.querySelector('footer')?.textContent.includes('no kernels measured')")
    page.goto(served + f"#/evidence?{work}")
    page.wait_for_function(
        "() => document.querySelector('#finding')?.textContent.includes('no measurement for this system')"
    )
    panel = page.locator("section.panel", has=page.get_by_role("heading", name="No measurement for this system"))
    assert "rooflab calibrate --data measured --on tpu-v5p" in panel.inner_text()
    with page.expect_download() as loading:
        panel.get_by_role("link", name="kernels.csv").click()
    table = tmp_path / "kernels.csv"
    loading.value.save_as(table)
    asked = {"model": "llama-3.1-70b", "on": "4x tpu-v5p", "tp": 4, "batch": 64, "prompt": 2048, "output": 256}
    notes = answer({"kind": "estimate", **asked, "prices": str(table)})["notes"]
    assert any("prices measured: 2 rows of tpu-v5p" in note for note in notes)


def test_what_does_not_fit_is_not_priced(reader, served):
    page = reader().open(served + OVER)
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('does not fit')")
    assert page.locator(".band").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "place, width", [("#/evidence?about=guidance", 1440), (OVER + "&about=glossary", 1440), (FITTED, 390)]
)
def test_axe_finds_nothing_serious_in_evidence(reader, served, theme, place, width, serious):
    page = reader(color_scheme=theme, viewport={"width": width, "height": 844}).open(served + place)
    page.wait_for_selector(".says, [data-symbol=L], [data-source]")
    assert not serious(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


SAMPLE = json.loads((ROOT / "data/accuracy_points.json").read_text())
POINTS, FAMILIES = SAMPLE["points"], SAMPLE["families"]


def scatter(page):
    panel = page.locator("section.panel").filter(
        has=page.get_by_role("heading", name="Predicted against measured", exact=True)
    )
    panel.locator(".pt").first.wait_for()
    return panel


def test_predicted_is_drawn_against_measured(reader, address):
    """A-065, A-066, A-092: a mark a shipped row, by family and machine, how many are within 20 %, what none means."""
    page = reader().open(address + "#/evidence")
    panel = scatter(page)
    rows = [row for row in POINTS if row["family"] == "tpot"]
    assert panel.locator(".pt").count() == len(rows)
    near = sum(abs(row["predicted"] / row["measured"] - 1) <= 0.2 for row in rows)
    assert f"{near} of {len(rows)} rows within 20" in panel.inner_text()
    assert f"{near} of {len(rows)} rows within 20 percent" in panel.locator("svg").get_attribute("aria-label")
    every = next(row for row in FAMILIES if row["family"] == "tpot")
    assert f"of all {every['n']} runs" in panel.inner_text()
    solid = panel.locator(".pt circle[fill='var(--ink-2)']").count()
    assert 0 < solid == sum(row.get("fit", False) for row in rows) < len(rows)
    furthest = max(rows, key=lambda row: abs(row["predicted"] / row["measured"] - 1))
    assert furthest["label"] in panel.locator("tbody tr").first.inner_text()
    panel.get_by_label("What was measured").select_option("gemm")
    gemms = [row for row in POINTS if row["family"] == "gemm"]
    page.wait_for_function("(n) => document.querySelectorAll('.scatter .pt').length === n", arg=len(gemms))
    assert "rows held out" in panel.inner_text()
    one = gemms[0]["system"]
    panel.get_by_label("Machine").select_option(one)
    want = sum(row["system"] == one for row in gemms)
    page.wait_for_function("(n) => document.querySelectorAll('.scatter .pt').length === n", arg=want)
    assert "family=gemm" in page.evaluate("location.href")
    panel.get_by_label("What was measured").select_option("tpot")
    panel.get_by_label("Machine").select_option("")


def test_rows_are_walked_brushed_and_read_as_a_table(reader, served):
    """F-03: keys, a region that the table follows and the address keeps, and a file in SI units."""
    one = reader()
    page = one.open(served + "#/evidence")
    panel = scatter(page)
    panel.locator(".pt").first.focus()
    page.keyboard.press("Home")
    first = page.evaluate("document.activeElement.getAttribute('aria-label')")
    rows = sorted((row for row in POINTS if row["family"] == "tpot"), key=lambda row: row["measured"])
    assert rows[0]["label"] in first
    assert page.locator(".tip").count() == 1
    page.keyboard.press("End")
    assert rows[-1]["label"] in page.evaluate("document.activeElement.getAttribute('aria-label')")
    one.still()
    box = panel.locator("svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + box["height"] * 0.1)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] * 0.88, steps=4)
    page.mouse.up()
    page.wait_for_function("() => location.hash.includes('box=')")
    region = [
        float(each)
        for each in re.search(r"box=([^&]*)", page.evaluate("location.href"))[1].replace("%2C", ",").split(",")
    ]
    inside = [
        row for row in rows if region[0] <= row["measured"] <= region[1] and region[2] <= row["predicted"] <= region[3]
    ]
    assert 0 < len(inside) < len(rows)
    panel.get_by_role("button", name="Predicted against measured: save or copy").click()
    page.get_by_role("menuitem", name="Table").click()
    panel.locator("tbody tr").first.wait_for()
    assert panel.locator("tbody tr").count() == len(inside)
    panel.get_by_role("button", name="Predicted against measured: save or copy").click()
    with page.expect_download() as loading:
        page.get_by_role("menuitem", name="CSV").click()
    header, *lines = Path(loading.value.path()).read_text().splitlines()
    assert "measured_s" in header
    assert len(lines) == len(inside)
    panel.get_by_role("button", name="Whole range").click()
    page.wait_for_function("() => !location.hash.includes('box=')")
