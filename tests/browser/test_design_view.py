"""Design in a real browser: layouts, every cut, hardware with layouts, suggestions, capacity (A-040..A-047, D-140..D-171)."""

import csv
import re
from pathlib import Path

import pytest

from rooflab.api import answer

LLAMA = "m=llama-3.1-8b&s=h100-sxm*2&l=tp2&w=1024-128-b16"
QWEN = "m=qwen3-8b&s=sip&l=tp8-cp2&w=130816-256"
SWEEP = {
    "kind": "sweep", "model": "llama-3.1-8b", "on": "2x h100-sxm", "also_on": ["2x h200-sxm"], "layouts": 2, "prompt": 1024,
    "output": 128, "where": ["interactivity >= 30"],
}  # fmt: skip
HERE = f"#/design?{LLAMA}&most=2&with=h200-sxm"


@pytest.fixture(params=["served", "static"])
def address(request):
    return request.getfixturevalue(request.param)


def found(page, selector="[data-took]"):
    """Wait until a search has ended."""
    page.wait_for_selector(selector, state="attached", timeout=120_000)


def addressed(page, text):
    """Wait until the address says something."""
    page.wait_for_function("text => decodeURIComponent(location.hash).includes(text)", arg=text)


def panel(page, title):
    return page.locator("section.panel").filter(has=page.get_by_role("heading", name=title, exact=True))


def saved(page, where):
    """The rows of a panel's CSV."""
    where.get_by_role("button", name="save or copy").click()
    with page.expect_download() as loading:
        page.get_by_role("menuitem", name="CSV").click()
    return list(csv.DictReader(Path(loading.value.path()).read_text().splitlines()))


def rows_of_frontier(page, script, value):
    """Wait until what a script says of the frontier's table is a value."""
    panel = "[...document.querySelectorAll('section.panel')].find(each => each.querySelector('h2').innerText === 'Frontier')"
    page.wait_for_function(f"value => (panel => {script})({panel}) === value", arg=value)


def chart(page, at=0):
    return page.locator("[aria-roledescription='scatter chart']").nth(at)


def test_the_frontier_is_the_engines(reader, address):
    """A-040..A-043, A-046, A-092: every point that fits is there; the frontier drawn and listed is that of the engine."""
    page = reader().open(address + HERE)
    found(page)
    report = answer(SWEEP)
    table = report["table"]["columns"]
    assert f"{report['totals']['feasible']:.0f} of {report['totals']['enumerated']:.0f} points fit" in page.inner_text(
        "main"
    )
    rows = saved(page, panel(page, "Frontier"))
    want = {(table["batch"][i], table["throughput_per_device"][i]) for i in report["pareto"]}
    assert len(rows) == len(want)
    for row in rows:
        assert any(
            int(row["batch"]) == batch
            and float(row["throughput_per_device_token_per_s"]) == pytest.approx(rate, rel=1e-9)
            for batch, rate in want
        )
    assert {row["bound"] for row in rows} <= {"memory", "compute", "network", "latency"}
    best = max(want, key=lambda pair: pair[1])
    assert f"batch {best[0]}" in page.inner_text("#finding")


def test_a_layout_is_used_and_taken_back(reader, served):
    """D-150, D-168: the point's own numbers are the scenario's afterwards; undo brings back what was."""
    page = reader().open(served + HERE)
    found(page)
    row = panel(page, "Frontier").locator("tbody tr").first
    cells = row.locator("td").all_inner_texts()
    row.click()
    assert "Selected point" in page.inner_text("aside")
    assert "pt:" in page.evaluate("location.href").replace("%3A", ":")
    page.wait_for_function("() => document.querySelector('aside')?.innerText.includes(' hold')")  # D-410, on this point
    page.get_by_role("button", name="Use this layout").click()
    system, batch, tpot = cells[0], cells[3], cells[5]
    addressed(page, f"-b{batch}")
    assert system.replace("\u00a0", " ") in page.inner_text("[data-segment=system]").replace("\u00a0", " ")
    page.keyboard.press("1")
    page.wait_for_function(
        "want => document.querySelector('[data-kpi=tpot]')?.innerText.replace(/\\s+/g, '').includes(want)",
        arg="".join(tpot.split()),
    )
    page.keyboard.press("Control+z")
    addressed(page, "-b16")


def test_a_point_is_pinned_and_saved(reader, static):
    """A-043, D-130: the point without using it: as the baseline, and among the saved scenarios."""
    page = reader().open(static + HERE)
    found(page)
    panel(page, "Frontier").locator("tbody tr").first.click()
    page.get_by_role("button", name="Save to compare").click()
    page.wait_for_function("() => document.querySelector('.toast')?.innerText.includes('Saved as')")
    page.get_by_role("button", name="Pin as baseline").click()
    page.wait_for_function("() => location.hash.includes('vs=')")
    assert "b16" in page.evaluate("location.href").split("vs=")[0]


def test_every_point_by_keys_and_in_the_table(reader, served):
    """F-03: arrows walk the points in order, Enter chooses, R draws a region, Escape clears; the table has as many."""
    page = reader().open(served + HERE)
    found(page)
    chart(page).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    said = page.inner_text(".tip")
    assert "batch" in said
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('pt')")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.wait_for_function("() => location.hash.includes('region=')")
    before = page.evaluate("location.href")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_function("before => location.href !== before", arg=before)
    assert "inside the region" in panel(page, "Frontier").inner_text()
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('region=')")
    main = page.locator("section.panel").filter(
        has=page.get_by_role("heading", name="Speed per user against throughput per device")
    )
    main.get_by_role("button", name="save or copy").click()
    page.get_by_role("menuitem", name="Table").click()
    main.locator("tbody tr").first.wait_for()
    assert main.locator("tbody tr").count() == answer(SWEEP)["totals"]["feasible"]


def test_a_region_is_drawn_with_the_mouse(reader, served):
    """A-041: dragging filters the frontier's table; the region is in the address and a click clears it."""
    one = reader()
    page = one.open(served + HERE)
    found(page)
    one.still()  # the finding takes a second line once the scenario is compared
    rows = panel(page, "Frontier").locator("tbody tr").count()
    box = chart(page).bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] - 50, steps=6)
    page.mouse.up()
    page.wait_for_function("() => location.hash.includes('region=')")
    assert panel(page, "Frontier").locator("tbody tr").count() < rows
    page.get_by_role("button", name="Clear the region").click()
    page.wait_for_function("() => !location.hash.includes('region=')")


def test_conditions_machines_and_axes(reader, served):
    """A-042, A-047: conditions go to the engine, and so do machines; a condition it cannot read is said at its field."""
    page = reader().open(served + HERE)
    found(page)
    also = page.get_by_role("textbox", name="Also")
    also.fill("devices <= 1; ttft < 200 ms")
    also.press("Enter")
    page.wait_for_function("() => document.querySelector('#finding')?.innerText.includes('2 ×') === false")
    found(page)
    report = answer({**SWEEP, "where": [*SWEEP["where"], "devices <= 1", "ttft < 200 ms"]})
    rows_of_frontier(page, "panel?.querySelectorAll('tbody tr').length", len(report["pareto"]))
    also.fill("tpto < 1")
    also.press("Enter")
    page.wait_for_function("() => document.querySelector('.filters [role=alert]')?.innerText.includes('tpot')")
    assert also.get_attribute("aria-invalid") == "true"
    also.fill("")
    also.press("Enter")
    page.get_by_role("group", name="Filters").get_by_role("button", name="H200").click()
    page.wait_for_function("() => location.hash.includes('with=none')")
    page.get_by_label("Up", exact=False).first.select_option("cost_output")
    page.wait_for_function("() => location.hash.includes('y=cost_output')")
    assert "USD" in chart(page).get_attribute("aria-label")


def test_knobs_and_doubling_are_the_estimates(reader, served):
    """D-149, A-044: one knob at a time around the scenario, and what doubling a part buys, as single estimates say."""
    page = reader().open(served + HERE)
    found(page)
    ask = {
        "kind": "estimate",
        "model": "llama-3.1-8b",
        "on": "2x h100-sxm",
        "tp": 2,
        "batch": 16,
        "prompt": 1024,
        "output": 128,
    }
    base, then = answer(ask)["tpot"], answer({**ask, "changes": {"memory_bandwidth": "2x"}})["tpot"]
    page.wait_for_function("() => document.body.innerText.includes('% faster')")
    row = panel(page, "Double one part of the machine").locator("li").filter(has_text="Memory bandwidth")
    assert f"{(base / then - 1) * 100:.0f}" in row.inner_text()
    page.get_by_role("group", name=re.compile("^TPOT against Batch: .*128 ")).wait_for()
    page.get_by_role("button", name="Batch 32:").click()
    addressed(page, "-b32")


def test_every_cut_is_the_reference_table(reader, address):
    """D-140..D-148, D-153: Qwen3 8B, decode at 131,072 tokens: 27,648 layouts, 15,584 possible, 12 on the frontier,
    2.061 ms on 128 devices, 16.27 ms on 8."""
    page = reader().open(address + f"#/design?{QWEN}&way=sharded")
    found(page)
    facts = {
        name: page.inner_text(f"[data-fact={name}] b")
        for name in ("enumerated", "feasible", "front", "fastest", "smallest")
    }
    assert facts["enumerated"] == "27,648"
    assert facts["feasible"] == "15,584"
    assert facts["front"] == "12"
    assert facts["fastest"].split() == ["2.06", "ms"]
    assert facts["smallest"] == "8 devices"
    assert panel(page, "Frontier").locator("tbody tr").count() == 12
    assert panel(page, "Top ten by memory").locator("tbody tr").count() == 10
    assert page.locator("figure").count() == 5
    cloud = panel(page, "Time of a step against devices")
    cloud.get_by_role("button", name="save or copy").click()
    page.get_by_role("menuitem", name="Table").click()
    said = re.search(r"([\d,]+) rows", cloud.locator("thead").inner_text())[1]
    rows = int(said.replace(",", ""))
    assert 1000 < rows <= int(facts["feasible"].replace(",", ""))
    assert cloud.locator("table").get_attribute("aria-rowcount") == str(rows + 1)
    assert cloud.locator("tr[data-row]").count() < 80  # those in sight
    cloud.locator("tr[data-row]").first.focus()
    for key, at in (("End", rows - 1), ("ArrowUp", rows - 2), ("Home", 0), ("ArrowDown", 1)):
        page.keyboard.press(key)
        page.wait_for_function("n => document.activeElement.dataset.at === String(n)", arg=at)


def test_a_cut_is_loaded_with_all_its_fields(reader, served):
    """D-100, D-150: scope buttons, then the chosen row in the scenario, placements and scope of the feed-forward included."""
    page = reader().open(served + f"#/design?{QWEN}&way=sharded")
    found(page)
    page.get_by_role("button", name="Attention", exact=True).click()
    want = answer({"kind": "sharded", "model": "qwen3-8b", "context": 131072, "scope": "attention", "rows": "pareto"})
    page.wait_for_function(
        "n => document.querySelector('[data-fact=feasible] b')?.innerText === n",
        arg=f"{want['totals']['feasible']:,.0f}",
    )
    rows = saved(page, panel(page, "Frontier"))
    panel(page, "Frontier").locator("tbody tr").first.click()
    page.get_by_role("button", name="Use this layout").click()
    page.wait_for_function("() => location.hash.includes('f=sharded')")
    first = rows[0]
    for field in ("cp", "tp"):
        assert first[field] == "1" or f"{field}{first[field]}" in page.evaluate("location.href")
    assert ("tpon_outer" in page.evaluate("location.href")) == (first["tp_placement"] == "outer")


def test_machines_and_layouts_with_weights_of_ones_own(reader, served):
    """D-160..D-167: cost 6 at the defaults; a weight of 3 for memory makes it 8; doubling is sorted; a machine is used whole."""
    page = reader().open(served + f"#/design?{QWEN}&way=hardware")
    found(page)
    report = answer({"kind": "codesign", "model": "qwen3-8b", "context": 131072})
    table = panel(page, "Frontier")
    assert table.locator("tbody tr").count() == len(report["pareto"])
    assert table.locator("tbody tr").first.locator("td").nth(1).inner_text() == "6.00"
    shares = [float(row["speedup"]) for row in report["doublings"]]
    assert page.locator("aside li, section li").first.inner_text().startswith("Memory bandwidth")
    assert f"{shares[0] * 100:.0f}" in page.locator("section li").first.inner_text()
    weight = page.get_by_role("textbox", name="Memory of a device")
    weight.fill("3")
    weight.press("Enter")
    rows_of_frontier(page, "panel?.querySelector('tbody tr td:nth-child(2)')?.innerText", "8.00")
    assert "weigh=memory:3" in page.evaluate("location.href").replace("%3A", ":")
    table.locator("tbody tr").last.click()
    page.get_by_role("button", name="Use this machine and layout").click()
    addressed(page, "memory_bandwidth=2x")


def test_suggestions_with_reasons_and_commands(reader, address):
    """D-040, A-044: ranked as the engine ranks; each engine's command; a limit nobody meets is said with the tightest."""
    page = reader().open(address + f"#/design?{LLAMA}&way=suggest&most=2&users=32&tpot=30ms")
    page.wait_for_selector("code", timeout=90_000)
    ask = {
        "kind": "suggest",
        "model": "llama-3.1-8b",
        "on": "2x h100-sxm",
        "users": 32,
        "prompt": 1024,
        "output": 128,
        "tpot": "30ms",
    }
    report = answer(ask)
    assert page.locator("code").first.inner_text() == report["layouts"][0]["commands"]["vllm"]
    page.get_by_role("button", name="SGLang").click()
    assert page.locator("code").first.inner_text() == report["layouts"][0]["commands"]["sglang"]
    assert page.locator("code").count() == len(report["layouts"])
    limit = page.get_by_role("textbox", name="TPOT at most")
    limit.fill("1 us")
    limit.press("Enter")
    page.wait_for_function("() => document.querySelector('#finding')?.innerText.includes('No layout meets the limits')")
    limit.fill("soon")
    limit.press("Enter")
    page.wait_for_function("() => document.querySelector('#finding')?.innerText.includes('Not evaluated')")
    assert limit.get_attribute("aria-invalid") == "true"


def test_capacity_is_the_plan(reader, address):
    """D-300..D-313: the engine's fleet, what decides in words, squares for devices, presets, and no fleet below the floor."""
    page = reader().open(address + "#/design?way=plan&people=3000&context=4096&pace=40ms&largest=8")
    page.wait_for_function(
        "() => document.querySelector('#finding')?.innerText.includes('replicas of')", timeout=90_000
    )
    ask = {
        "kind": "plan",
        "model": "llama-3.1-70b",
        "on": "8x h100-sxm",
        "weights": "fp8",
        "users": 3000,
        "context": 4096,
        "tpot": "40ms",
        "largest": 8,
    }
    report = answer(ask)
    words = page.inner_text("#finding")
    assert f"{report['total']} devices" in words
    assert f"{report['replicas']} replicas of {report['devices_per_replica']}" in words
    assert page.locator(".rep").count() == report["replicas"]
    assert page.locator(".rep i").count() == report["total"]
    holds = [int(text.replace(",", "")) for text in page.locator(".hold .v").all_inner_texts()]
    assert holds == [report["batch_in_memory"], report["batch_at_limit"]]
    assert "decides" in page.locator(".hold").nth(holds.index(min(holds))).inner_text()
    assert page.get_by_role("table", name="Smallest fleets").locator("tbody tr").count() == len(report["fleets"])
    page.get_by_label("Limits of a kind of service").select_option("voice")
    page.wait_for_function("() => location.hash.includes('pace=25')")
    page.get_by_label("Templates").select_option("medium")
    page.wait_for_function("() => location.hash.includes('context=131072')")
    limit = page.get_by_role("textbox", name="TPOT at most")
    limit.fill("0.1 ms")
    limit.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#finding')?.innerText.includes('The tightest that can be met')"
    )
    assert page.locator(".rep").count() == 0


CAME = """() => /^[1-9]/.test(document.querySelector('[data-work=busy]')?.innerText)
  && [...document.querySelectorAll('.cap')].some(each => /^[1-9][\\d,]* of .* points fit/.test(each.innerText))"""


def test_a_long_search_is_stopped_and_blocks_nothing(reader, static):
    """D-140: in the browser itself: points come, another question is answered meanwhile, and Cancel keeps what came."""
    page = reader().open(static + "#/design?m=deepseek-v3&s=h200-sxm*8&l=tp8&w=1024-128-b16&most=64&with=b200-sxm")
    page.get_by_role("button", name="Cancel").wait_for(timeout=120_000)
    page.wait_for_function(CAME, timeout=120_000)
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Find or change")
    box.fill("batch 32")
    box.press("Enter")
    addressed(page, "-b32")
    # The search begins again; what stands there is of the one before, and pale, until the first points of this one come.
    page.wait_for_function(f"() => !document.querySelector('.panel.stale') && ({CAME})()", timeout=120_000)
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("[data-work=stopped]")
    words = page.inner_text("[data-work=stopped]").split("\n")[0].replace(",", "").split()
    done, total = int(words[1]), int(words[3])
    assert 0 < done < total


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("way", ["", "hardware", "sharded", "suggest", "plan"])
def test_it_holds_on_any_screen_and_axe_finds_nothing_serious(reader, served, theme, width, way, serious):
    """F-03: both themes, laptop and phone."""
    page = reader(color_scheme=theme, viewport={"width": width, "height": 900}).open(served + f"#/design?way={way}")
    found(page, {"suggest": "code", "plan": ".rep"}.get(way, "[data-took]"))
    assert not serious(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_does_not_fit_has_no_speed(reader, served):
    """B-040, F-02: nothing fits: said, with the reasons counted and what would help; no speed-up is claimed."""
    one = reader()
    page = one.open(served + "#/design?m=deepseek-v3&s=l4&w=4096-512-b64&most=1&with=none")
    found(page)
    assert "Nothing fits" in page.inner_text("#finding")
    assert "10 of 10 points are not possible" in page.inner_text("main")
    page.wait_for_function("() => document.body.innerText.includes('Nothing to draw')")
    one.still()
    assert "faster" not in panel(page, "Double one part of the machine").inner_text()


def test_a_model_that_cannot_be_had_is_said(reader, served):
    page = reader().open(served + "#/design?m=no-such-model&s=h100-sxm")
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('Not evaluated')")
