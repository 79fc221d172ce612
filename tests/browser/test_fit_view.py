"""The Fit view: whether it fits, where every byte sits, and what would make it fit; by both transports."""

import json
from pathlib import Path

import pytest

from rooflab.api import answer

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = json.loads((ROOT / "src/rooflab/web/start.json").read_text())["scenario"]
OVER = "#/fit?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b256"
SIP = "#/fit?m=llama-3.1-70b&s=sip&l=tp8-cp8&w=32768-256-b4"


@pytest.fixture(params=["served", "static"])
def address(request):
    return request.getfixturevalue(request.param)


def fit(**changes):
    return answer({"kind": "fit", **SCENARIO, **changes})


def said(page, words):
    page.wait_for_function("(words) => document.querySelector('#finding')?.textContent.includes(words)", arg=words)


def test_it_says_what_is_free_and_the_first_values_that_do_not_fit(reader, address):
    """A-071, C-046, C-047: free memory, and the batch and context where the limit is crossed, are the engine's."""
    page = reader().open(address + "#/fit")
    said(page, "free on each of 4 devices")
    want = fit()
    used = page.get_attribute("[data-fit=used] button", "title")
    assert float(used.split()[0]) == want["memory"]["used"]
    page.wait_for_function("() => document.querySelectorAll('[data-first]').length === 2")
    first = [
        int(value) for value in page.eval_on_selector_all("[data-first]", "(all) => all.map((e) => e.dataset.first)")
    ]
    assert first == [want["max_batch"] + 1, want["max_context"] + 1]
    assert fit(batch=first[0])["fits"] is False
    assert fit(batch=first[0] - 1)["fits"] is True
    assert fit(prompt=first[1] - SCENARIO["output"])["fits"] is False
    assert fit(prompt=first[1] - 1 - SCENARIO["output"])["fits"] is True


def test_memory_is_told_by_kind_and_for_the_whole_model(reader, served):
    """D-107, D-121, D-122: weights, cache, workspace and what is free of a device; the model uncut; over budget in GB."""
    page = reader().open(served + "#/fit")
    said(page, "free on each of 4 devices")
    want = fit()
    for kind in ("Weights", "KV cache", "workspace", "free of"):
        assert kind.lower() in page.inner_text("main").lower()
    text = page.inner_text(".uncut").replace("\xa0", " ")
    assert f"weights {want['whole']['weights'] / 1e9:.1f} GB" in text
    assert f"together {want['whole']['total'] / 1e9:.0f} GB" in text
    page.goto(served + OVER)
    over = fit(weights=None, kv=None, batch=256)["memory"]["over"]
    assert over > 1e9
    said(page, f"{over / 1e9:.3g}")


def test_the_largest_batch_is_one_click_away(reader, served):
    one = reader()
    page = one.open(served + "#/fit")
    panel = page.locator("section.panel", has=page.get_by_role("heading", name="Against batch", exact=True))
    panel.get_by_role("button", name="Use it").click()
    want = fit()["max_batch"]
    page.wait_for_function("(b) => location.hash.includes(`-b${b}`)", arg=want)
    said(page, "Fits")


def test_what_does_not_fit_shows_changes_that_work(reader, address):
    """B-040: the change that is chosen makes it fit."""
    page = reader().open(address + OVER)
    said(page, "Does not fit")
    page.wait_for_selector(".fix .good")
    page.locator(".fix:has(.good)").first.click()
    said(page, "Fits")


def test_the_map_draws_every_device_and_who_holds_the_same(reader, served):
    """D-106, D-110: eight ranks hold the same weights across cp; the cache is held once."""
    page = reader().open(served + SIP)
    page.wait_for_selector(".sq[aria-pressed=true]")
    assert page.locator(".units .sq:not(.idle)").count() == 64
    page.get_by_label("Bytes of").select_option("attention weights")
    page.wait_for_function("() => document.querySelectorAll('.sq.twin').length === 8")
    page.get_by_label("Bytes of").select_option("KV cache")
    page.wait_for_function("() => document.querySelectorAll('.sq.twin').length === 1")
    page.focus(".sq[aria-pressed=true]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-rank='1']")
    assert "8–15" in page.inner_text("[data-rank='1']")  # 64 query heads over 8 ranks
    assert "rank=1" in page.evaluate("location.href")


def test_the_tables_are_the_rules_report(reader, served):
    """D-112, D-113, D-120: shapes whole and per device, heads of every rank, copies."""
    page = reader().open(served + "#/fit")
    page.wait_for_selector(".tbl")
    assert "8,192 × 2,048" in page.inner_text(".tbl tr:has-text('W_Q')")
    assert "128,256 × 8,192" in page.inner_text(".tbl tr:has-text('embedding')")
    used = fit()["memory"]
    said = page.inner_text(".sum").replace("\xa0", " ")
    assert f"weights {used['weights'] / 1e9:.1f} GB, cache {used['kv'] / 1e9:.1f} GB" in said
    page.get_by_role("button", name="Products").click()
    assert "(128 × 8,192) · (8,192 × 2,560)" in page.inner_text(".tbl tr:has-text('QKV')")
    page.get_by_role("button", name="Per device", exact=True).click()
    page.wait_for_selector("td:has-text('48–63')")
    assert page.locator(".tbl tbody tr").count() == 4
    page.get_by_role("button", name="Replicated").click()
    page.wait_for_selector("td:has-text('norms and biases')")
    assert "TP" in page.inner_text(".tbl tr:has-text('norms and biases')")


def test_thousands_of_devices_are_one_picture(reader, served):
    """D-106: 4,096 PEs in cubes in SIPs; the chosen one's cube beneath, walked with the arrows; who holds the same is said."""
    page = reader().open(served + "#/fit?m=llama-3.1-70b&s=sip&l=tp8-cp64-dp8&w=32768-256-b4&p=wint4")
    page.wait_for_selector(".crowd canvas")
    label = page.get_attribute(".crowd", "aria-label")
    assert "4,096 devices in cubes of 8 in SIPs of 16" in label
    assert "512 hold the same bytes as rank 0" in label  # 64 context ranks of 8 replicas
    assert page.locator(".units .sq").count() == 8
    page.focus(".sq[aria-pressed=true]")
    page.keyboard.press("End")
    page.wait_for_selector("[data-rank='4095']")
    assert "SIP 31, cube 511, PE 7" in page.inner_text("[data-rank='4095']")
    page.click(".crowd canvas", position={"x": 2, "y": 2})
    page.wait_for_selector("[data-rank='0']")


def test_hybrid_and_latent_models_are_told_in_full(reader, served):
    """D-112, D-113, D-120: recurrent state beside the cache, ranks with the same KV head, heads of a latent cache."""
    page = reader().open(served + "#/fit?m=qwen3-next-80b-a3b&s=h200-sxm*8&l=tp8&w=32768-256-b64")
    page.wait_for_selector(".sq.twin")
    used = fit(model="qwen3-next-80b-a3b", on="8x h200-sxm", tp=8, prompt=32768, output=256, batch=64, weights=None)[
        "memory"
    ]
    said = page.inner_text(".sum").replace("\xa0", " ")
    assert f"cache {(used['kv'] - used['state']) / 1e9:.1f} GB, recurrent state {used['state'] / 1e6:.0f} MB" in said
    assert page.locator(".sq.twin").count() == 4  # two KV heads over eight ranks
    assert "36, gated delta net layers" in page.inner_text(".tbl tr:has-text('W_in')")
    page.goto(served + "#/fit?m=deepseek-v3&s=h200-sxm*8&l=tp8&w=4096-256-b4&tab=ranks")
    page.wait_for_selector("td:has-text('one latent')")
    assert "16–31" in page.inner_text(".tbl tbody tr:nth-child(2)")


def test_nothing_fits_is_said_with_what_it_would_take(reader, served):
    """B-021, B-040: the weights alone are too much; what was tried, and how many devices would have to share it."""
    page = reader().open(served + "#/fit?m=llama-3.1-405b&s=rtx-4090&w=8192-256-b64")
    said(page, "The weights alone take")
    page.wait_for_selector(".fixes .none")
    assert "would have to share it" in page.inner_text(".fixes .none")
    assert page.locator(".fix .good").count() == 0


def test_a_hint_is_tried_with_one_click(reader, served):
    """D-111: its effect stands beside it; the scenario takes the change."""
    page = reader().open(served + SIP + "&tab=hints")
    hint = page.locator(".hints li").filter(has_text="Feed-forward over").filter(has_text="on each device")
    hint.get_by_role("button").click()
    page.wait_for_function("() => location.hash.includes('ffn_tp_cp')")


def test_an_impossible_layout_is_said(reader, served):
    """B-060: the reason, and the nearest degrees that divide the heads; one click takes one."""
    page = reader().open(served + "#/fit?m=llama-3.1-70b&s=h100-sxm*6&l=tp6&p=wfp8")
    said(page, "Not evaluated")
    assert "Evaluating" not in page.inner_text("aside")
    page.get_by_role("button", name="Use TP 4").click()
    said(page, "free on each of 4 devices")
    assert "l=tp4" in page.evaluate("location.href")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("place", ["#/fit", OVER, SIP + "&tab=hints"])
def test_axe_finds_nothing_serious_in_fit(reader, served, theme, place, serious):
    page = reader(color_scheme=theme).open(served + place)
    page.wait_for_selector(".units")
    assert not serious(page)


def test_fit_holds_on_a_narrow_screen(reader, served):
    one = reader(viewport={"width": 390, "height": 844}, has_touch=True)
    page = one.open(served + "#/fit")
    page.wait_for_selector(".units")
    one.still()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_map_nests_the_machines_levels(reader, served):
    """D-106, E-15: eight PEs a cube, eight cubes of one SIP for tp 8 × cp 8; each ring hop leaves the cube, none the SIP."""
    page = reader().open(served + SIP)
    page.wait_for_selector(".sq[aria-pressed=true]")
    assert page.locator("[data-level=SIP]").count() == 1
    assert page.locator("[data-level=SIP] [data-level=cube]").count() == 8
    assert page.locator("[data-level=cube][data-group='3'] .sq").count() == 8
    words = page.inner_text("[data-topology]")
    for said in ("PE in cube in SIP", "cubes used\n8", "SIPs used\n1", "CP hops inside one SIP\n8"):
        assert said in words
    assert "inside one cube" not in words
    assert "SIP 0, cube 0, PE 0" in page.inner_text("[data-rank='0']")
    page.goto(served + "#/fit?m=llama-3.1-70b&s=sip&l=tp2-cp4-cpon_inner&w=8192-256-b1&f=sharded")
    page.wait_for_function("() => document.querySelector('[data-topology]')?.textContent.includes('inside one cube')")


def test_a_tensor_shows_where_it_is_split_and_where_its_parts_sit(reader, served):
    """D-108, D-109: W_Q by columns and W_O by rows over eight ranks; a rank's part is its number; its CP group is picked from."""
    page = reader().open(served + SIP)
    page.wait_for_selector("[data-band='7']")
    assert page.locator("[data-band]").count() == 8
    chart = page.locator(".shards svg")
    assert "columns split into 8 parts of 1,024; rank 0 holds part 0" in chart.get_attribute("aria-label")
    page.get_by_label("TP rank").select_option("5")
    page.wait_for_selector("[data-band='5'][data-mine=true]")
    assert page.locator(".one[data-rank='5']").count() == 1
    page.get_by_label("Tensor that is split").select_option("W_O")
    page.wait_for_function(
        "() => document.querySelector('.shards svg')?.getAttribute('aria-label').includes('rows split')"
    )
    page.get_by_text("enlarge, with where each part sits").click()
    page.wait_for_function("() => document.querySelector('[data-band=\"3\"]')?.textContent.includes('cube 0, PE 3')")
    group = page.get_by_role("button", name="CP 2, rank 21")
    assert group.get_attribute("title") == "CP 2: SIP 0, cube 2, PE 5"
    group.click()
    page.wait_for_selector(".one[data-rank='21']")


def test_the_why_panel_opens_on_memory(reader, served):
    """What Fit is about is explained first."""
    page = reader().open(served + "#/fit")
    page.wait_for_function("() => document.querySelector('.why .t')?.textContent === 'Memory per device'")
    page.wait_for_function("() => document.querySelector('.why')?.innerText.includes('memory =')")


def test_labels_of_the_memory_strip_do_not_touch_when_it_overflows(reader, served):
    """No two texts of the strip overlap, and none lies under the outline of what does not fit."""
    one = reader()
    page = one.open(served + "#/fit?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b400&vs=w:2048-256-b64")
    said(page, "Does not fit")
    one.still()
    boxes = page.eval_on_selector_all(
        "section.panel:has-text('Memory per device') svg.chart text",
        """(all) => all.map((e) => {
            const b = e.getBBox();
            return [b.x, b.y + 2, b.x + b.width, b.y + b.height - 2, e.textContent];
        })""",
    )
    assert len(boxes) >= 4
    for i, (x0, y0, x1, y1, one) in enumerate(boxes):
        for a0, b0, a1, b1, other in boxes[i + 1 :]:
            assert x1 <= a0 or a1 <= x0 or y1 <= b0 or b1 <= y0, f"{one} touches {other}"
