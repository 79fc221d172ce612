"""Limits: which batch and context suit a chip, in a real browser (C-020..C-049, D-230..D-239, D-900)."""

from pathlib import Path

import pytest

from rooflab.api import answer

LLAMA = "#/limits?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b128&p=w8"
PLOTS = [
    "Step time against batch", "Cost per token against batch", "Cost per token at five contexts",
    "Knee against context", "Memory against context", "Memory against batch",
    "If the chip were different: intensity", "If the chip were different: B*",
]  # fmt: skip


def chip(**changes):
    ask = {"kind": "chip", "model": "llama-3.1-70b", "on": "4x h100-sxm", "tp": 4, "weights": "fp8", "batch": 128}
    return answer({**ask, "context": 2304, **changes})["chip"]


@pytest.fixture(params=["served", "static"])
def address(request):
    return request.getfixturevalue(request.param)


def exact(page, name):
    return float(page.get_attribute(f"[data-kpi=limit-{name}]", "title"))


def shows(page, name, value):
    page.wait_for_function(
        "([name, value]) => Math.abs(Number(document.querySelector(`[data-kpi=limit-${name}]`)?.title) / value - 1) < 1e-9",
        arg=[name, value],
    )


def test_the_figures_are_those_of_the_chip_by_hand(reader, address):
    """C-030, C-031, D-900: of the scenario's own machine. By hand: AI = 1979/3.35 = 590.7; B* = AI / 2 at one byte a
    weight; L* = 2·68.45e9·3.35e12 / (1979e12 · 2·80·8·128·2) = 707.2."""
    page = reader().open(address + LLAMA)
    shows(page, "intensity", 1979 / 3.35)
    assert exact(page, "critical") == pytest.approx(1979 / 3.35 / 2)
    assert exact(page, "batch") == pytest.approx(1979 / 3.35)
    assert exact(page, "context") == pytest.approx(707.2, rel=1e-3)
    assert "KV cache" in page.inner_text("[data-kpi=limit-regime]")
    words = page.inner_text("#finding")
    assert "591" in words
    assert "707" in words


def test_sliders_change_the_scenario_and_the_regime_flips(reader, served):
    """C-020, C-021: no copies; a context of half of L* and a batch of 16 waits for weights, one of 512 for compute."""
    page = reader().open(served + LLAMA)
    fields = page.get_by_role("group", name="Batch and context of the scenario, and rates of the chip")
    fields.get_by_role("textbox", name="Context", exact=True).fill("384")
    fields.get_by_role("textbox", name="Batch", exact=True).fill("16")
    page.wait_for_function("() => document.querySelector('[data-kpi=limit-regime]')?.innerText.includes('weights')")
    assert "128 in, 256 out" in page.inner_text("[data-segment=workload]")
    fields.get_by_role("textbox", name="Batch", exact=True).fill("512")
    page.wait_for_function("() => document.querySelector('[data-kpi=limit-regime]')?.innerText.includes('compute')")
    page.wait_for_function("() => location.hash.includes('b512')")
    slider = fields.get_by_role("slider", name="Batch, on a scale of doublings")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_function("() => location.hash.includes('-b1&') || location.hash.endsWith('-b1')")


def test_knobs_scale_the_chip_and_mark_the_sensitivity(reader, address):
    """C-022, D-231..D-233: twice the FLOP/s doubles AI and B*; four times the bandwidth then halves them."""
    page = reader().open(address + LLAMA)
    fields = page.get_by_role("group", name="Batch and context of the scenario, and rates of the chip")
    fields.get_by_role("textbox", name="FLOP/s", exact=True).fill("2")
    shows(page, "intensity", 2 * 1979 / 3.35)
    fields.get_by_role("textbox", name="Bandwidth", exact=True).fill("4")
    shows(page, "critical", 1979 / 3.35 / 4)
    assert "flops=2" in page.evaluate("location.href")
    assert "bandwidth ×4" in page.locator("section", has_text=PLOTS[7]).last.inner_text()
    fields.get_by_role("textbox", name="Bandwidth", exact=True).fill("100")
    assert "from 0.25 to 8" in fields.inner_text()
    page.get_by_role("button", name="This machine's own rates").click()
    shows(page, "intensity", 1979 / 3.35)


def test_every_plot_says_itself_in_words_in_a_table_and_in_a_file(reader, served):
    """F-03 for C-040..C-049: a text alternative with values, the table, and a CSV in SI units."""
    page = reader().open(served + LLAMA)
    for title in PLOTS:
        panel = page.locator("section.panel").filter(has=page.get_by_role("heading", name=title, exact=True))
        words = panel.get_by_role("img").get_attribute("aria-label")
        assert sum(each.isdigit() for each in words) > 6, title
        panel.get_by_role("button", name=f"{title}: save or copy").click()
        with page.expect_download() as loading:
            page.get_by_role("menuitem", name="CSV").click()
        rows = Path(loading.value.path()).read_text().splitlines()
        panel.get_by_role("button", name=f"{title}: save or copy").click()
        page.get_by_role("menuitem", name="Table").click()
        panel.locator("tbody tr").first.wait_for()
        assert panel.locator("tbody tr").count() == len(rows) - 1 >= 6, title


def test_the_file_of_the_step_holds_the_engines_numbers(reader, served):
    """C-040: to the last digit, every batch of the engine's curve and the scenario's own."""
    page = reader().open(served + LLAMA)
    page.get_by_role("button", name="Step time against batch: save or copy").click()
    with page.expect_download() as loading:
        page.get_by_role("menuitem", name="CSV").click()
    header, *rows = [line.split(",") for line in Path(loading.value.path()).read_text().splitlines()]
    assert header == ["batch", "weight_s", "compute_s", "kv_s", "memory_s", "total_s", "basis"]
    found = {float(row[0]): float(row[5]) for row in rows}
    want = {point["batch"]: point["total"] for point in chip()["curves"]["step_latency"]}
    assert {batch: found[batch] for batch in want} == want


def test_figures_open_their_formula_and_the_tables_agree(reader, served):
    """C-033..C-036, D-238, D-239: regimes, formulas with numbers, guidance, no knee past L*, what is left out."""
    page = reader().open(served + LLAMA)
    page.click("[data-kpi=limit-context]")
    made = page.inner_text("#made")
    assert "2·N_active·W / (C·kv)" in made
    assert "707 tokens" in made.replace("\u00a0", " ")
    assert page.evaluate("location.href").endswith("sel=limit:context")
    page.locator("tr[data-row=B_knee] button").click()
    assert "no knee" in page.inner_text("#made")
    for said in (chip()["guidance"], "t_step = N·b/W", "bottleneck", "Peak roofline"):
        assert said in page.inner_text("main")
    page.keyboard.press("Escape")
    assert "Good batch" in page.inner_text("#made h2")


def test_a_mixture_says_what_its_sparsity_does(reader, served):
    """C-032, D-237: B* grows by N_total / N_active."""
    page = reader().open(served + "#/limits?m=deepseek-v3&s=hgx-h200&l=tp8&w=4096-512-b64")
    page.wait_for_function("() => document.querySelector('#made')?.innerText.includes('times the dense one')")
    want = answer({"kind": "chip", "model": "deepseek-v3", "on": "hgx-h200", "tp": 8, "batch": 64, "context": 4608})
    shows(page, "critical", want["chip"]["critical_batch"])


def test_what_the_engine_refuses_is_said(reader, served):
    page = reader().open(served + "#/limits?m=no-such-model&s=h100-sxm")
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('Not evaluated')")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_it_holds_on_any_screen_and_axe_finds_nothing_serious(reader, served, theme, width, serious):
    """F-03: both themes, laptop and phone, charts and tables."""
    page = reader(color_scheme=theme, viewport={"width": width, "height": 900}).open(served + "#/limits")
    page.wait_for_selector("#made")
    page.get_by_role("button", name="Memory against batch: save or copy").click()
    page.get_by_role("menuitem", name="Table").click()
    assert not serious(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
