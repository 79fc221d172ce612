"""Every control of the scenario: its values, its ranges, and that the engine's answer follows; what a phase is bound by."""

import json
import re
from pathlib import Path

import pytest

from rooflab.api import answer

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = json.loads((ROOT / "src/rooflab/web/start.json").read_text())["scenario"]


def estimate(**changes):
    return answer({"kind": "estimate", **SCENARIO, **changes})


def edit(page, segment):
    page.keyboard.press("Escape")
    page.click(f"[data-segment={segment}]")
    return page.locator(".editor")


def choices(editor, name):
    """Names of the values of a choice, without what is said of them to screen readers."""
    group = editor.get_by_role("group", name=name, exact=True)
    group.wait_for()
    return [re.sub(r":.*", "", each).strip() for each in group.locator("button").all_inner_texts()]


def until(page, name, value):
    """Wait until a headline number is one the engine gives."""
    page.wait_for_function(
        "([name, value]) => Math.abs(parseFloat(document.querySelector(`[data-kpi=${name}]`)?.title) / value - 1) < 1e-9",
        arg=[name, value],
    )


def test_every_input_of_the_calculator_moves_the_engine(reader, served):
    """B-020, E-19: rates, memory and links of the machine, absolute and as multiples; shares of the peak; the reserve."""
    page = reader().open(
        served + "#/step?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b64&p=wfp8&f=operator;prices=roofline"
    )
    base = {"batch": 64, "prices": "roofline"}
    until(page, "tpot", estimate(**base)["tpot"])
    editor = edit(page, "system")
    changes = {}
    for label, value, field in (
        ("Bandwidth", "5 TB/s", "memory_bandwidth"),
        ("FLOP/s, 16-bit", "1200 TFLOP/s", "flop_rate"),
        ("Rate, one way", "300 GB/s", "links.0.bandwidth"),
        ("Latency", "4 us", "links.0.latency"),
    ):
        editor.get_by_label(label, exact=True).fill(value)
        changes[field] = value
        until(page, "tpot", estimate(**base, changes=changes)["tpot"])
    multiple = editor.get_by_label("Bandwidth, times the machine's own")
    assert abs(float(multiple.input_value()) - 5 / 3.35) < 1e-3
    multiple.fill("2")
    assert editor.get_by_label("Bandwidth", exact=True).input_value().replace("\u00a0", " ") == "6.70 TB/s"
    changes["memory_bandwidth"] = "2x"
    until(page, "tpot", estimate(**base, changes=changes)["tpot"])
    editor = edit(page, "profile")
    editor.get_by_label("Bandwidth used, %").fill("70")
    base["switches"] = {"memory_efficiency": 0.7}
    until(page, "tpot", estimate(**base, changes=changes)["tpot"])
    editor.get_by_label("Compute used, %").fill("0")
    assert "at least 1" in editor.inner_text()
    editor.get_by_label("Compute used, %").fill("90")
    base["switches"]["compute_efficiency"] = 0.9
    until(page, "ttft_one", estimate(**{**base, "batch": 1}, changes=changes)["ttft"])
    editor.get_by_label("Memory kept for the runtime").fill("4 GB")
    until(page, "memory", estimate(**base, changes=changes, reserve="4 GB")["memory"]["used"])


def test_the_model_list_says_what_a_model_is_and_its_figures_can_be_changed(reader, served):
    """D-020, D-021: attention, heads and layers of the preset; half the layers, by the engine's own count."""
    one = reader()
    page = one.open(served)
    editor = edit(page, "model")
    editor.get_by_text("80 × GQA 64/8 × 128").wait_for()
    editor.get_by_role("button", name="Change them").click()
    most_of = {
        "Width": 65_536, "Query heads": 256, "KV heads": 256, "Head width": 512, "Layers": 200, "FFN width": 131_072,
    }  # fmt: skip
    for label, most in most_of.items():
        field = editor.get_by_role("textbox", name=label, exact=True)
        before = field.input_value()
        field.fill(str(most + 1))
        assert f"at most {most:,}" in editor.inner_text()
        field.fill(before)
    editor.get_by_role("textbox", name="Layers", exact=True).fill("40")
    until(page, "memory", estimate(model={"like": "llama-3.1-70b", "num_hidden_layers": 40})["memory"]["used"])
    assert "Llama-3.1-70B, changed" in page.inner_text("[data-segment=model]")
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('\"num_hidden_layers\":40')")
    again = reader()
    again.open(page.evaluate("location.href"))
    until(again.page, "memory", estimate(model={"like": "llama-3.1-70b", "num_hidden_layers": 40})["memory"]["used"])
    editor.get_by_role("button", name="As published").click()
    until(page, "memory", estimate()["memory"]["used"])


def test_lengths_and_batch_have_one_range_and_step_through_doublings(reader, served):
    """D-022, D-023, E-20: powers of two by the arrows, up to 2,097,152 tokens everywhere, and why a batch matters."""
    page = reader().open(served)
    editor = edit(page, "workload")
    prompt = editor.get_by_role("textbox", name="Prompt tokens", exact=True)
    prompt.press("ArrowUp")
    assert prompt.input_value() == "4,096"
    prompt.fill("2097153")
    assert "at most 2,097,152" in editor.inner_text()
    assert page.eval_on_selector("input[aria-label^='Prompt tokens, on']", "(e) => 2 ** e.max") == 2**21
    words = editor.inner_text()
    assert "weights are read once for all of them" in words
    assert "all-reduce" in words
    batch = editor.get_by_role("textbox", name="Batch", exact=True)
    batch.fill("100")
    batch.press("ArrowUp")
    assert batch.input_value() == "128"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Prefill, one prompt").click()
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('refill')")
    page.keyboard.press("3")
    page.wait_for_selector("input[aria-label^='Context, on']")
    assert page.eval_on_selector("input[aria-label^='Context, on']", "(e) => 2 ** e.max") == 2**21


def test_every_degree_of_the_layout_can_be_chosen(reader, served):
    """D-024, D-028: the reference's values of every axis, and what the feed-forward is divided by."""
    page = reader().open(served + "#/step?m=llama-3.1-70b&s=sip&l=tp8-cp2&w=8192-256-b1&f=sharded")
    editor = edit(page, "layout")
    want = {
        "TP": [1, 2, 4, 8, 16, 32], "PP": [1, 2, 4, 8, 16, 32], "DP, replicas": [1, 2, 4, 8, 16],
        "CP, context": [1, 2, 4, 8, 16, 32, 48, 64, 96],
    }  # fmt: skip
    for name, values in want.items():
        assert {str(value) for value in values} <= set(choices(editor, name))
    editor.get_by_role("button", name="All fields").click()
    assert {"TP, ÷8", "TP+CP, ÷16", "TP+CP+DP, ÷16"} <= set(choices(editor, "FFN scope"))
    page.goto(served + "#/step?m=mixtral-8x7b&s=h100-sxm*8&l=tp8&w=8192-256-b1")
    editor = edit(page, "layout")
    editor.get_by_role("group", name="EP, experts").wait_for()
    assert {"1", "2", "4", "8", "16", "32"} <= set(choices(editor, "EP, experts"))


SIP = "#/step?m=qwen3-8b&s=sip&l=tp16-cp4-pp2-dp2&w=130816-256-b1&f=sharded"


def test_the_smallest_layout_is_one_click_for_each_half(reader, address):
    """D-026, D-100, D-037: what the engine's search calls smallest; everything else of the layout as when nothing is said."""
    page = reader().open(address + SIP)
    for name, scope in (("attention", "attention"), ("feed-forward", "ffn"), ("both", "full")):
        report = answer(
            {"kind": "sharded", "model": "qwen3-8b", "on": "sip", "context": 131072, "batch": 1, "scope": scope}
        )
        row = {column: values[report["smallest"]] for column, values in report["table"]["columns"].items()}
        editor = edit(page, "layout")
        if scope == "attention":
            page.wait_for_function(
                "() => /Smallest that fits: CP/.test(document.querySelector('.editor')?.textContent)"
            )
            caption = editor.locator(".cap").first.inner_text()
            assert re.search(r"CP 1, TP 8, PP 1 on 8 PE, 1 cube, 1 SIP", caption), caption
        editor.get_by_role("group", name="Smallest layout that fits").get_by_role("button", name=name).click()
        layout = "-".join(f"{axis}{int(row[axis])}" for axis in ("tp", "pp", "cp") if row[axis] > 1) or "none"
        page.wait_for_function("(want) => new RegExp(`[?&]l=${want}(?:-|&|$)`).test(location.hash)", arg=layout)
        assert "dp" not in re.search(r"[?&]l=([^&]*)", page.evaluate("location.href"))[1]
    assert "scope=" not in page.evaluate("location.href")


@pytest.fixture(params=["served", "static"])
def address(request):
    return request.getfixturevalue(request.param)


def test_a_model_brings_the_layout_that_is_suggested_for_it(reader, served):
    """D-025: CP, TP, PP and CP's placement become the suggestion, DP = EP = 1, which is said; one step keeps the old ones."""
    page = reader().open(served + "#/step?m=llama-3.1-8b&s=h100-sxm*4&l=tp2-dp2&w=2048-256-b16")
    layout = lambda: page.inner_text("[data-segment=layout] .v")  # noqa: E731
    edit(page, "model").get_by_role("combobox").fill("llama-3.1-70b")
    page.keyboard.press("Enter")
    page.wait_for_selector(".toast")
    assert "smallest that holds Llama-3.1-70B" in page.inner_text(".toast")
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('bound')")
    larger = layout()
    assert "DP" not in larger
    degree = int(re.search(r"TP (\d+)", larger)[1])
    on = f"{degree}x h100-sxm"
    assert answer({"kind": "fit", "model": "llama-3.1-70b", "on": on, "tp": degree, "batch": 16, "prompt": 2048})[
        "fits"
    ]
    half = {"on": f"{degree // 2}x h100-sxm", "tp": degree // 2}
    assert not answer({"kind": "fit", "model": "llama-3.1-70b", "batch": 16, "prompt": 2048, **half})["fits"]
    edit(page, "model").get_by_role("combobox").fill("qwen3-8b")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('[data-segment=layout] .v')?.textContent === 'One device'")
    page.locator(".toast").get_by_role("button", name=f"Keep {larger}").click()
    page.wait_for_function(
        "(want) => document.querySelector('[data-segment=layout] .v')?.textContent === want", arg=larger
    )
    assert "Qwen3-8B" in page.inner_text("[data-segment=model]")


def test_each_phase_says_what_binds_it_and_its_work_per_byte(reader, address):
    """B-022, B-023: prefill and decode apart, on log scales under a ceiling that is said to be none that was measured."""
    page = reader().open(address)
    for phase, step, changes in (("prefill", "prefill_step", {"batch": 1}), ("decode", "decode_step", {})):
        want = estimate(detail=True, **changes)[step]
        words = page.inner_text(f"[data-phase={phase}]")
        assert f"{want['bound']}-bound" in words
        shown = float(re.search(r"([\d,.]+)\s+FLOP/B", words)[1].replace(",", ""))
        assert shown == pytest.approx(
            next(each["intensity"] for each in want["work"] if each["name"] == "all"), rel=5e-3
        )
    panel = page.locator(".panel", has_text="What binds each phase")
    assert panel.locator(".pt").count() == 6
    assert "not a measured rate" in panel.inner_text()
    assert "added up" in panel.inner_text()
    assert "a bound from FP8 compute" in panel.inner_text()


def test_the_ceiling_of_a_phase_is_of_the_format_it_computes_in(reader, served):
    """B-023: a model that computes in BF16 has the ridge of BF16, though the device has faster formats."""
    page = reader().open(served + "#/step?m=llama-3.1-8b&s=h100-sxm*1")
    want = estimate(model="llama-3.1-8b", on="h100-sxm", tp=1, batch=1, prompt=1024, weights=None, detail=True)
    ridge = want["decode_step"]["roofs"]["ridge"]
    assert ridge["bf16"] < ridge["fp8"]
    page.wait_for_selector("[data-phase=prefill]")  # its format counts, too
    words = page.inner_text("[data-phase=decode]")
    assert float(re.search(r"ridge at\s+([\d.]+)", words)[1]) == pytest.approx(ridge["bf16"], rel=5e-3)


def test_a_batch_is_taken_from_the_throughput_chart(reader, served):
    """B-024: a mark a batch; those over memory are crossed and not joined; a click changes the batch and nothing else."""
    one = reader()
    page = one.open(served + "#/limits")
    page.wait_for_selector("[data-batch='512']")
    fits = dict(page.eval_on_selector_all("[data-batch]", "(all) => all.map((e) => [e.dataset.batch, e.dataset.fits])"))
    assert fits == {batch: str(estimate(batch=int(batch))["fits"]).lower() for batch in fits}
    assert "false" in fits.values()
    assert "true" in fits.values()
    page.focus("[data-batch='32']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('w=2048-256-b64&')")
    assert "l=tp4&" in page.evaluate("location.href")
    page.wait_for_selector("[data-batch='64'][aria-pressed=true]")


def test_the_charts_of_limits_are_walked_by_the_keyboard(reader, served):
    """C-045, C-069: the view is a place of the app; arrows go along a curve and say its values; memory is apart from compute."""
    page = reader().open(served)
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Limits").click()
    page.wait_for_selector("svg.walked")
    chart = page.locator(".panel", has_text="Cost per token against batch").locator("svg.walked")
    chart.focus()
    said = chart.locator("xpath=following-sibling::span[@aria-live]")
    for key, start in (("ArrowRight", "batch 1:"), ("ArrowRight", "batch 2:"), ("ArrowLeft", "batch 1:")):
        page.keyboard.press(key)
        page.wait_for_function("([e, start]) => e.textContent.startsWith(start)", arg=[said.element_handle(), start])
    words = said.inner_text()
    assert all(name in words for name in ("weights", "KV cache", "memory", "compute", "total"))
    assert page.locator(".tip").count() == 1
    outline = chart.evaluate("(e) => getComputedStyle(e).outlineStyle")
    assert outline == "solid"
    stacks = page.locator(".panel", has_text="Memory against batch").locator("svg.walked")
    stacks.focus()
    page.keyboard.press("End")
    page.wait_for_function(
        "(e) => /batch 1,024: .*Weights/.test(e.textContent)",
        arg=stacks.locator("xpath=following-sibling::span[@aria-live]").element_handle(),
    )


def test_warnings_of_a_placement_are_gathered(reader, served):
    """D-036: a tensor-parallel group that spills out of its unit says both bandwidths; heads split over ranks are noted."""
    page = reader().open(served + "#/fit?m=llama-3.1-70b&s=sip&l=tp16-cp16-cpon_outer&w=130816-256-b1&f=sharded")
    page.get_by_role("button", name="Hints").click()
    page.wait_for_selector(".hints li")
    words = page.inner_text(".hints")
    assert "TP 16 spans 2 units: 512 GB/s inside, 128 GB/s between them" in words.replace("\u00a0", " ")
    page.get_by_role("button", name="Per device", exact=True).click()
    page.wait_for_selector(".tbl")
    sharded = {"model": "llama-3.1-70b", "on": "sip", "tp": 16, "profile": "sharded"}
    assert answer({"kind": "rules", **sharded})["ranks"][0]["note"] in page.inner_text(".tbl")


def test_the_title_names_the_model_and_every_view_is_there(reader, served):
    """D-037, E-23: the views in their order; the model in the title; scenario and baseline in one address."""
    page = reader().open(served)
    names = page.get_by_role("navigation", name="Views").get_by_role("link").all_inner_texts()
    assert [each for each in names if each in ("Step", "Fit", "Limits", "Evidence")] == [
        "Step",
        "Fit",
        "Limits",
        "Evidence",
    ]
    assert "Llama-3.1-70B" in page.title()
    page.keyboard.press("Control+k")
    page.keyboard.type("qwen3-8b")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.title.includes('Qwen3-8B')")
    page.wait_for_function("() => location.hash.includes('m=qwen3-8b') && location.hash.includes('vs=')")


def test_a_knob_is_set_by_its_value_or_by_its_multiple(reader, served):
    """E-19: twice 3.35 TB/s is typed as either; each shows the other."""
    page = reader().open(served + "#/limits")
    value = page.get_by_label("Bandwidth, TB/s")
    value.wait_for()
    value.fill("6.7")
    value.press("Enter")
    page.wait_for_function("() => location.hash.includes('bandwidth=2')")
    times = page.get_by_role("textbox", name="Bandwidth", exact=True)
    assert times.input_value() == "2"
    times.fill("4")
    page.wait_for_function("() => document.querySelector('input[aria-label=\"Bandwidth, TB/s\"]')?.value === '13.4'")
    value.fill("100")
    page.wait_for_selector(".knob .why")
    assert "from 0.25 to 8" in page.inner_text(".knob .why")


@pytest.mark.parametrize(
    ("segment", "knob", "shown"),
    [
        ("workload", "Batch", "128"), ("workload", "Answer", "256"), ("precision", "Weights", "FP8"),
        ("system", "Latency of nvlink4", "1×"),
    ],
)  # fmt: skip
def test_a_field_is_varied_alone(reader, served, segment, knob, shown):
    """From the field to Design with its chart ringed and in sight; the address says which."""
    page = reader().open(served)
    edit(page, segment).get_by_role("button", name=f"Vary this: {knob}").click()
    page.wait_for_selector(f'[data-knob="{knob}"].varied circle')
    assert f"knob={knob.replace(' ', '+')}" in page.evaluate("location.href")
    assert page.evaluate("location.href").split("#")[1].startswith("/design")
    assert shown in page.inner_text(f'[data-knob="{knob}"]')
    page.wait_for_function(
        """() => {
            const box = document.querySelector('.varied').getBoundingClientRect();
            return box.top >= 0 && box.bottom <= innerHeight;
        }"""
    )


def test_fewer_devices_take_the_layout_along(reader, served):
    """B-060, F-02: two devices for a layout of four halve its ranks, and say so; an address that asks for it is offered both."""
    page = reader().open(served + "#/step")
    page.click("[data-segment=system]")
    page.get_by_label("Devices", exact=True).fill("2")
    page.wait_for_function("() => location.hash.includes('h100-sxm*2') && location.hash.includes('l=tp2')")
    page.goto(served + "#/step?m=llama-3.1-70b&s=h100-sxm*2&l=tp4&w=2048-256-b8&p=wfp8")
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('Not evaluated')")
    page.get_by_role("button", name="Use 4 devices").wait_for()
    page.get_by_role("button", name="Use TP 2").click()
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('memory-bound')")


def test_stages_have_names_and_findings_are_sentences(reader, served):
    """D-102, D-103: no stage is shown by its letter alone; what takes longest is named whatever the profile calls it."""
    one = reader()
    for profile, longest in (
        ("sharded", "Attention scores"),
        ("envelope", "Feed-forward weights"),
        ("classroom", "Matrix products"),
    ):
        page = one.open(served + f"#/step?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b64&p=wfp8&f={profile}")
        page.wait_for_function(
            "(name) => document.querySelector('#finding')?.textContent.includes(`the longest part is ${name} with`)",
            arg=longest,
        )
        names = page.eval_on_selector_all(
            ".tbl[aria-label='Operators by time'] tbody tr td:first-child", "(all) => all.map((e) => e.innerText)"
        )
        assert names
        assert not [name for name in names if re.match(r"^C?[SFC]\d", name)]


def test_an_answer_of_one_token_shows_its_prefill(reader, served):
    """B-051: no time per output token; the pass that there is is drawn, and its operators are explained."""
    page = reader().open(served + "#/step?m=gpt2&s=h100-sxm&w=32-1-b1")
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('has no decode step')")
    page.get_by_role("button", name="Formulas").click()
    page.wait_for_function("() => document.querySelectorAll('.stages mark').length > 10")
    assert page.get_by_role("button", name="Decode step").is_disabled()
