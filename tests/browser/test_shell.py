"""The shell: what cannot be taken, keys, focus, the baseline's chips, reset, other widths, the command box."""

import json
from pathlib import Path

import pytest

from rooflab.api import answer

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = json.loads((ROOT / "src/rooflab/web/start.json").read_text())["scenario"]


def focused(page):
    return page.evaluate(
        """() => {
            const e = document.activeElement;
            return e.dataset.segment ?? e.dataset.kpi ?? e.getAttribute('aria-label') ?? e.innerText;
        }"""
    )


def find(page, phrase):
    """Type a phrase into the command box and wait until its effect is there."""
    page.keyboard.press("Control+k")
    page.keyboard.type(phrase)
    page.wait_for_function(
        """() => {
            const one = document.querySelector('#commands li[aria-selected=true]');
            return one && !one.textContent.startsWith('Go to') && one.querySelector('.e').textContent;
        }"""
    )
    return page.inner_text("#commands li[aria-selected=true]").replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("segment", "label", "typed", "why"),
    [
        ("workload", "Batch", "0", "at least 1"),
        ("workload", "Prompt tokens", "80 GB", "without a unit"),
        ("workload", "Answer tokens", "1e99", "at most 2,097,152"),
        ("system", "Memory", "80", "a quantity with its unit"),
        ("system", "Bandwidth", "-3 TB/s", "a quantity with its unit"),
        ("profile", "Memory kept for the runtime", "lots", "a size such as 2 GB"),
    ],
)
def test_what_cannot_be_taken_stays_with_its_reason_and_the_last_result(reader, served, segment, label, typed, why):
    """F-02: what was typed stays, with why; the numbers before stand, marked; closed, all is as before."""
    page = reader().open(served)
    before = page.get_attribute("[data-kpi=memory]", "title")
    page.click(f"[data-segment={segment}]")
    field = page.locator(".editor").get_by_role("textbox", name=label, exact=True)
    field.fill(typed)
    page.wait_for_selector(".finding .bad")
    assert "Not updated" in page.inner_text(".finding .bad")
    assert why in page.inner_text(".editor footer")
    assert field.input_value() == typed
    assert field.get_attribute("aria-invalid") == "true"
    assert page.get_attribute("main", "data-late") == "true"
    assert page.get_attribute("[data-kpi=memory]", "title") == before
    page.keyboard.press("Escape")
    page.wait_for_selector(".finding .bad", state="detached")
    assert focused(page) == segment
    assert page.get_attribute("main", "data-late") is None


def test_fields_take_what_is_pasted_and_their_labels_are_dragged(reader, served):
    """Commas, exponents and k are numbers; a dragged label steps through powers of two, one undo back."""
    one = reader()
    page = one.open(served)
    page.click("[data-segment=workload]")
    field = page.locator(".editor").get_by_role("textbox", name="Prompt tokens", exact=True)
    for typed, want in (("1e3", "1000"), ("4,096 tokens", "4096"), ("8k", "8192")):
        field.fill(typed)
        page.wait_for_function("(want) => location.hash.includes(`w=${want}-256`)", arg=want)
    one.settled()
    box = page.locator(".editor label", has_text="Prompt tokens").bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 6)
    page.mouse.down()
    page.mouse.move(box["x"] + 22, box["y"] + 6, steps=3)
    page.mouse.up()
    assert field.input_value() == "32,768"
    page.keyboard.press("Escape")
    page.keyboard.press("Control+z")
    page.wait_for_function("() => location.hash.includes('w=8192-256')")


def test_a_link_of_the_catalog_takes_the_place_of_the_systems(reader, served):
    """B-020: NVLink 5 instead of NVLink 4 is 900 GB/s each way; chosen back, nothing of it is left."""
    page = reader().open(served)
    page.click("[data-segment=system]")
    chosen = page.locator("#link-0")
    assert "NVLink 4" in chosen.locator("option:checked").inner_text()
    page.wait_for_function("() => document.querySelectorAll('#link-0 option').length > 9")
    names = chosen.locator("option").all_inner_texts()
    assert any("PCIe 5" in each and "64.0" in each for each in names)
    assert any("400 Gb" in each for each in names)
    chosen.select_option("nvlink5")
    want = answer(
        {"kind": "estimate", **SCENARIO, "changes": {"links.0.bandwidth": "900 GB/s", "links.0.latency": "1.5 us"}}
    )
    page.wait_for_function(
        "(want) => Math.abs(parseFloat(document.querySelector('[data-kpi=tpot]')?.title) / want - 1) < 1e-9",
        arg=want["tpot"],
    )
    assert "in baseline" in page.inner_text("[data-segment=system]")
    chosen.select_option("nvlink4")
    page.wait_for_function("() => !location.hash.includes('links')")


def test_the_focus_comes_back_and_stays_in_a_sheet(reader, served):
    """From the drawer, the command box and an editor; the keyboard stays in an editor until it is closed."""
    page = reader(viewport={"width": 1100, "height": 800}).open(served)
    page.click("[data-kpi=memory]")
    page.wait_for_selector("aside.why.drawn")
    assert focused(page) == "Close"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.wait_for_selector("aside.why.drawn", state="hidden")
    assert focused(page) == "memory"
    page.keyboard.press("Control+k")
    page.wait_for_selector("#commands")
    page.keyboard.press("Escape")
    page.wait_for_selector("#commands", state="detached")
    assert focused(page) == "memory"
    page.keyboard.press("Control+k")
    page.keyboard.type("change precision")
    page.keyboard.press("Enter")
    page.wait_for_selector(".editor")
    for _ in range(40):
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.closest('.editor') !== null")
    page.keyboard.press("Escape")
    assert focused(page) == "precision"


def test_single_keys_can_be_off_and_reset_names_what_goes(reader, served):
    """B-014: kept over a reload; reset asks first, says what it forgets, and brings the opening scenario back."""
    one = reader()
    page = one.open(served + "#/step?m=qwen3-8b&s=h100-sxm&w=1024-128-b8")
    page.keyboard.press("?")
    page.get_by_label("Single letters and digits are keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    one.reload()
    page.keyboard.press("3")
    assert "#/step" in page.evaluate("location.href")
    page.locator(".foot").get_by_role("button", name="Reset").click()
    words = page.inner_text("dialog")
    assert "Qwen3-8B" in words
    assert "baseline" in words
    page.get_by_role("button", name="Keep all").click()
    assert "m=qwen3-8b" in page.evaluate("location.href")
    page.locator(".foot").get_by_role("button", name="Reset").click()
    page.locator("dialog").get_by_role("button", name="Reset").click()
    page.wait_for_function("() => document.title.includes('Llama-3.1-70B')")


@pytest.mark.parametrize(
    ("link", "chips"),
    [
        ("#/step?m=llama-3.1-8b&s=h100-sxm&w=1024-256-b8&vs=m:llama-3.1-70b", ["different model", "does not fit"]),
        ("#/step?m=llama-3.1-8b&s=h100-sxm&w=1024-256-b8&vs=f:classroom", ["different method"]),
        ("#/step?m=llama-3.1-8b&s=h100-sxm&w=1024-256-b8&vs=w:1024-256-b4|p:wfp8", ["2 changes"]),
    ],
)
def test_the_baseline_says_what_to_know_of_it(reader, served, link, chips):
    """Another model or method, what does not fit, and how many changes; no change is shown against what cannot run."""
    page = reader().open(served + link)
    for chip in chips:
        page.wait_for_function("(chip) => document.querySelector('.base .t')?.textContent.includes(chip)", arg=chip)
    if "does not fit" in chips:
        assert "baseline does not fit" in page.inner_text("[data-kpi=tpot]")
    if "different method" in chips:
        assert "another method" in page.inner_text(".finding")
    page.get_by_role("button", name="Unpin the baseline").click()
    page.wait_for_function("() => location.hash.includes('vs=none')")
    assert page.locator(".was").count() == 0


def test_what_is_typed_before_the_box_is_there_is_typed_into_it(reader, served):
    """The box comes a moment after the first paint; its key and a phrase may come sooner."""
    one = reader()
    held = []
    one.page.route("**/assets/tools-*.js", lambda route: held.append(route))
    with one.page.expect_request("**/assets/tools-*.js"):  # by itself, a moment after the first paint
        page = one.open(served)
    page.keyboard.press("Control+k")
    page.keyboard.type("batch 16")
    page.keyboard.press("Enter")
    assert len(held) == 1
    assert page.locator("#commands").count() == 0
    for route in held:
        route.continue_()
    page.wait_for_function("() => location.hash.includes('-b16')")
    page.wait_for_selector("#commands", state="detached")


def test_phrases_say_what_they_would_do_before_they_do_it(reader, served):
    """ux: changes, comparisons, numbers and traffic; what the machine cannot do is passed over."""
    page = reader().open(served)
    for phrase, words in (
        ("batch 64", "TPOT"), ("fp8 kv", "TPOT"), ("tp 8", "TPOT"), ("2x bandwidth", "TPOT"),
        ("compare h200", "TPOT"), ("why tpot", "ms"),
    ):  # fmt: skip
        assert words in find(page, phrase), phrase
        page.keyboard.press("Escape")
    page.wait_for_selector("#commands", state="detached")
    seen = find(page, "5 req/s")
    page.wait_for_function("() => /TTFT .* of 200 requests/.test(document.querySelector('#commands')?.textContent)")
    assert seen.startswith("Load 5 requests/s")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.startsWith('#/serve') && location.hash.includes('load=5')")
    find(page, "policy static")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => location.hash.includes('run=policy=static') || location.hash.includes('run=policy%3Dstatic')"
    )
    assert "load=5" in page.evaluate("location.href")


@pytest.mark.parametrize("width", [390, 900, 1100])
def test_long_names_leave_room_for_the_rest(reader, served, width):
    """A name of a hundred letters is cut, its whole is said on hover; segments and baseline keep their words."""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "_name_or_path": "someone/" + "very-long-name-" * 8,
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
        "intermediate_size": 14336, "vocab_size": 128256,
    }  # fmt: skip
    from urllib.parse import quote

    page = reader(viewport={"width": width, "height": 800}).open(
        served + "#/step?s=h100-sxm&mx=" + quote(json.dumps(config))
    )
    box = page.locator("[data-segment=model]").bounding_box()
    assert box["width"] <= 281
    assert "very-long-name" in page.locator("[data-segment=model] .v").get_attribute("title")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".base .t").bounding_box()["width"] > 60


@pytest.mark.parametrize("width", [320, 390, 600, 759, 760, 1023, 1024, 1279])
def test_every_action_is_at_hand_at_any_width(reader, served, width):
    """ux §13, WCAG 1.4.10: every view and action without scrolling sideways, what has no room of its own in a menu."""
    page = reader(viewport={"width": width, "height": 640}, has_touch=width < 760).open(
        served + "#/step?m=qwen3-8b&s=h100-sxm&w=1024-128-b8&vs=w:1024-128-b4"
    )
    find(page, "batch 16")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('-b16')")
    page.get_by_role("button", name="Undo the last change").click()
    outside = page.evaluate(
        """() => [...document.querySelectorAll('.top :is(a, button)')].filter((each) => each.offsetParent)
            .filter((each) => { const box = each.getBoundingClientRect(); return box.left < 0 || box.right > innerWidth; })
            .map((each) => each.textContent.trim())"""
    )
    assert not outside
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    actions = {"Redo", "Compare", "Share link", "HTML report", "Import scenarios", "Swap", "Pin", "Unpin", "theme"}
    page.keyboard.press("e")
    page.get_by_role("menuitem").first.wait_for()
    seen = page.get_by_role("menuitem").all_inner_texts()
    page.keyboard.press("Escape")
    if width >= 760:  # on a phone the scenario bar is scrolled
        seen += [
            each.inner_text() or each.get_attribute("aria-label")
            for each in page.locator(":is(.top, .base) button:visible").all()
        ]
    if width >= 1024:
        actions.add("Find or change")
    missing = [action for action in actions if not any(action in each for each in seen)]
    assert not missing
    assert page.get_by_role("navigation", name="Views").get_by_role("link").count() == 6


def test_whole_systems_are_told_from_devices_once_the_catalog_has_come(reader, served):
    """What the bar says of a system is drawn again when its name is known, however late."""
    one = reader()
    one.context.add_init_script(
        """const get = Document.prototype.getElementById;
        Document.prototype.getElementById = function (id) {
            const found = get.call(this, id);
            if (id === 'baked') found.textContent = '[]';  // nothing is stored: all is asked
            return found;
        };"""
    )
    page = one.open(served + "#/step?m=llama-3.1-8b&s=dgx-h100&l=tp8")
    page.wait_for_function("() => document.querySelector('[data-segment=system] .v').textContent === 'DGX H100'")


def test_an_address_is_gone_to_even_while_a_change_settles(reader, served):
    """The page writes its own address a moment after a change; one that the reader has entered meanwhile is not lost to it."""
    page = reader().open(served)
    for batch, view in ((16, "fit"), (32, "limits")):
        page.keyboard.press("Control+k")
        page.keyboard.type(f"batch {batch}")
        page.keyboard.press("Enter")
        page.wait_for_function("(batch) => location.hash.includes(`-b${batch}`)", arg=batch)
        # Busy for longer than a change takes to settle: both are due at once then.
        page.evaluate(
            "() => setTimeout(() => { for (const until = performance.now() + 1000; performance.now() < until; ); })"
        )
        page.goto(f"{served}#/{view}?m=qwen3-8b&s=h100-sxm&w=1024-128-b{batch + 1}")
        page.wait_for_function("(view) => document.title.toLowerCase().startsWith(view)", arg=view)
        assert f"-b{batch + 1}" in page.evaluate("location.hash")


def test_a_printout_is_light_and_whole_with_nothing_to_press(reader, served):
    """ux §7: on paper the finding, its scenario, every panel and why, in the light theme; tables are not cut."""
    page = reader(color_scheme="dark").open(served)
    page.wait_for_selector("aside.why .big")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 within its margins
    for gone in (".top", ".panel .dots", ".base .btn", ".foot .link:not(.note)", ".hint"):
        assert page.locator(f"{gone}:visible").count() == 0, gone
    for there in ("#finding", ".scen", "[data-kpi=tpot]", "aside.why .big", ".foot .note"):
        assert page.locator(there).first.is_visible(), there
    ground = "(each) => getComputedStyle(document.querySelector(each)).backgroundColor"
    assert page.evaluate(ground, ".panel") == "rgb(255, 255, 255)"
    cut = page.evaluate(
        "() => [...document.querySelectorAll('.tbl')].filter((each) => each.getBoundingClientRect().right > innerWidth).length"
    )
    assert cut == 0
    assert page.pdf(format="A4")[:5] == b"%PDF-"


def test_in_forced_colours_what_is_chosen_is_seen(reader, served):
    """What is pressed keeps its ground and its text, what only a shadow marks has an outline."""
    page = reader(forced_colors="active").open(served)
    outline = "(each) => getComputedStyle(document.querySelector(each)).outlineStyle"
    assert page.evaluate(outline, "[data-segment=precision]") == "solid"
    assert page.evaluate(outline, "[data-segment=model]") == "none"
    assert page.evaluate(outline, ".kpi[aria-pressed=true]") == "solid"
    page.click("[data-segment=layout]")
    pressed = page.locator(".editor button[aria-pressed=true]").first
    ground, ink = pressed.evaluate("(each) => [getComputedStyle(each).backgroundColor, getComputedStyle(each).color]")
    assert ground != ink
    assert (
        page.evaluate(
            "(each) => getComputedStyle(document.querySelector(each)).forcedColorAdjust",
            ".editor button[aria-pressed=true]",
        )
        == "none"
    )
