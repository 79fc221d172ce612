"""Serve: what happens under load, and the scheduler's board, in a real browser (A-050..A-055, B-070..B-079, E-08, E-18)."""

import re
from pathlib import Path

import pytest

from rooflab.api import answer

LLAMA = "#/serve?m=llama-3.1-8b&s=h100-sxm&w=1024-256-b32&vs=none"
ASK = {
    "kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "prompt": 1024, "output": 256, "requests": 300,
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
}  # fmt: skip


@pytest.fixture(params=["served", "static"])
def address(request):
    return request.getfixturevalue(request.param)


def at(load="", run="requests=300", **more):
    """The view's address with a load and settings."""
    said = {"load": load, "run": run, **more}
    return LLAMA + "".join(f"&{key}={str(value).replace(' ', '+')}" for key, value in said.items() if value != "")


def whole(page, patience=90_000):
    """Wait until every run is there."""
    page.wait_for_selector("[data-work=done]", timeout=patience)
    page.wait_for_function("() => document.querySelector('#made .lever')", timeout=patience)


def figure(page, name):
    """A cell of the policies: its exact value."""
    return page.get_attribute(f"[data-figure='{name}']", "title").split(". Click")[0]


# ---------------------------------------------------------------------------------------------- the board


def test_the_board_step_by_step(reader, address):
    """B-075..B-078: eight requests in four slots; by hand static takes max(8,2,3,6) + max(4,2,7,3) = 15 iterations, refilled
    slots 12; 35 iterations of work over 4 × 15 and 4 × 12 slots are 58.3 % and 72.9 %."""
    page = reader().open(address + LLAMA)
    board = page.get_by_role("group", name="The scheduler's board")
    board.get_by_role("button", name="refill").click()
    run = board.get_by_role("button", name="Run it")
    assert run.is_disabled()
    board.get_by_role("button", name="4", exact=True).click()
    run.click()
    step, back = board.get_by_role("button", name="Step"), board.get_by_role("button", name="Back")
    assert back.is_disabled()
    for _ in range(3):
        step.click()
    grids = board.locator("svg")
    # B's two iterations are over: static leaves its slot idle, refill gives it to E
    assert "slot 2 idle" in grids.nth(0).get_attribute("aria-label")
    assert "slot 2 request E" in grids.nth(1).get_attribute("aria-label")
    back.click()
    assert board.get_attribute("data-at") == "2"
    assert "slot 2 request B" in grids.nth(0).get_attribute("aria-label")
    for _ in range(13):
        page.keyboard.press("ArrowRight")
    result = board.locator("[data-result]").inner_text()
    assert "15 iterations against 12" in result
    assert "58.3\u00a0%" in result
    assert "72.9\u00a0%" in result
    assert "You said refill, by 4: right, though by 3." in result
    assert "can shrink or reverse the benefit" in result
    board.get_by_role("button", name="Try it with real costs").click()
    assert page.evaluate("() => document.activeElement.closest('section').innerText.includes('Traffic and engine')")


def test_the_board_plays_and_honours_reduced_motion(reader, served):
    """F-03: with movement it goes on by itself; without, the end is there at once and Back walks through it."""
    page = reader().open(served + LLAMA)
    board = page.locator("#board")
    board.get_by_role("button", name="skip prediction").click()
    board.get_by_role("button", name="Play").click()
    page.wait_for_function("() => Number(document.getElementById('board')?.dataset.at) >= 2")
    board.get_by_role("button", name="Pause").click()
    still = reader(reduced_motion="reduce").open(served + LLAMA)
    still.locator("#board").get_by_role("button", name="skip prediction").click()
    still.locator("#board").get_by_role("button", name="Play").click()
    assert still.get_attribute("#board", "data-at") == "15"
    still.locator("#board").get_by_role("button", name="Back").click()
    assert still.get_attribute("#board", "data-at") == "14"
    still.locator("#board button").last.focus()
    still.keyboard.press("t")
    rows = still.get_by_role("region", name=re.compile("^Start simpler")).get_by_role("row")
    rows.first.wait_for()
    assert rows.count() == 1 + 14 + 12  # static so far, refill's whole run


# ---------------------------------------------------------------------------------------------- under load


def test_figures_are_the_engine_s_under_every_policy(reader, address):
    """A-051, A-092, B-071, B-074: the same seeded requests under three policies; each figure is that of a run of one's own."""
    page = reader().open(address + at(load=10))
    whole(page)
    for policy in ("chunked", "prefill_first", "static"):
        run = answer({**ASK, "rate": 10, "policy": policy})["run"]
        for name, value in (("ttft_p95", run["ttft"]["p95"]), ("tpot_p50", run["tpot"]["p50"])):
            assert float(figure(page, f"{name}@{policy}")) == value
        assert float(figure(page, f"output_throughput@{policy}")) == run["output_throughput"]
    found = answer({**ASK, "rate": 10, "find": "load"})["found"]["load"]
    assert f"{float(f'{found:.3g}'):g}" in page.inner_text("#finding")
    assert "both limits" in page.inner_text("#finding")


def test_the_load_is_moved_by_slider_chart_and_key(reader, served):
    page = reader().open(served + at(load=3))
    whole(page)
    # Far below the load that the view opens with, which the address leaves out.
    slider = page.get_by_role("slider", name="Offered load")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => !location.hash.includes('load=3&')")
    moved = float(re.search(r"load=([\d.]+)", page.evaluate("location.href"))[1])
    assert moved > 3
    chart = page.get_by_role("img", name=re.compile("^TPOT, 95th percentile against the load"))
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("was => !location.hash.includes(`load=${was}&`)", arg=f"{moved:g}")
    whole(page)
    rate = float(re.search(r"load=([\d.]+)", page.evaluate("location.href"))[1])
    assert float(figure(page, "tpot_p95@chunked")) == answer({**ASK, "rate": rate})["run"]["tpot"]["p95"]


def test_one_request_from_arrival_to_its_last_token(reader, address):
    """A-052, B-074: its wait, the iterations that computed its prompt, first token and TPOT, as a run says them."""
    page = reader().open(address + at(load=14, sel="request:200"))
    way = answer({**ASK, "rate": 14, "request": 199})["request"]
    page.wait_for_selector("#made .f")
    assert page.get_attribute("#made .big b", "title") == str(way["ttft"])
    made = page.inner_text("#made")
    assert "Request 200" in made
    assert f"{len(way['chunks'])}" in page.inner_text("#made section:has(h3:has-text('Prefill, iteration'))")
    assert "TTFT = wait + prefill" in made
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelector('#made')?.innerText.includes('Why this number')")


def test_requests_over_time_are_walked_zoomed_and_listed(reader, served):
    """A-052, B-074, F-03: rows and dots, keys, the strip, and the same as a table."""
    page = reader().open(served + at(load=14))
    whole(page)
    stage = page.get_by_role("group", name=re.compile("^Timeline of"))
    stage.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => location.hash.includes('sel=request:2')")
    page.keyboard.press("Escape")
    drawn = "() => Number(document.querySelector('canvas')?.dataset.drawn)"
    page.wait_for_function(f"() => 90 < ({drawn})() && ({drawn})() < 150")  # about the first hundred of three hundred
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function(f"() => ({drawn})() === 300")
    strip = page.get_by_role("slider", name=re.compile("^Stretch of time"))
    strip.focus()
    page.keyboard.press("+")
    page.wait_for_function(f"() => ({drawn})() < 300")
    assert "span=" in page.evaluate("location.href")
    page.get_by_role("button", name="Requests over time: save or copy").click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name=re.compile("CSV")).click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0].startswith("request,arrival_s,admitted_s,first_s,finish_s,prompt_token,output_token,ttft_s")
    table = answer({**ASK, "rate": 14, "requests_table": True})["requests_table"]
    assert float(lines[1 + 199].split(",")[7]) == table["ttft"][199]
    assert len(lines) == 1 + 300
    page.get_by_role("button", name="TTFT", exact=True).click()
    page.get_by_role("group", name=re.compile("^TTFT of .* requests over their arrival")).wait_for()
    page.get_by_role("button", name="TTFT per request: save or copy").click()
    page.get_by_role("menuitem", name="Table").click()
    row = page.get_by_role("region", name="Requests", exact=True).get_by_role("row").nth(1)
    row.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('sel=request:')")


def test_overload_is_said_in_words_instead_of_a_ttft(reader, served):
    """A-054, and no waiting time where it says only how long the traffic lasted."""
    page = reader().open(served + at(load=200, run="requests=600"))
    whole(page)
    assert answer({**ASK, "requests": 600, "rate": 200})["run"]["overload"]
    assert "no TTFT to tell" in page.inner_text("#finding")
    assert page.inner_text("[data-figure='ttft_p95@chunked']").startswith("grows")
    page.click("[data-figure='ttft_p95@chunked']")
    assert "The queue grows" in page.inner_text("#made")


def test_limits_that_cannot_be_held_and_models_that_do_not_fit(reader, served):
    page = reader().open(served + at(run="requests=300;tpot=1 ms"))
    page.wait_for_function("() => document.getElementById('finding')?.innerText.includes('cannot hold')")
    words = page.inner_text("#finding")
    assert "TPOT 1.00" in words
    assert "engine to itself" in words
    page.goto(served + "#/serve?m=llama-3.1-405b&s=h100-sxm")
    page.wait_for_function("() => document.getElementById('finding')?.innerText.includes('Does not fit')")
    page.get_by_role("heading", name="Changes that make it fit").wait_for()


def test_a_trace_of_one_s_own(reader, static, tmp_path):
    """B-072: its arrivals and lengths are played; a bad row is named with its line; a link does not carry it."""
    rows = [(i * 0.05, 300 + i, 50) for i in range(240)]
    good = tmp_path / "mine.csv"
    good.write_text("arrival,prompt,output\n" + "".join(f"{a},{p},{o}\n" for a, p, o in rows))
    page = reader().open(static + at(run="arrivals=trace;requests=300", load="1"))
    assert "Drop a trace" in page.inner_text("#finding")
    page.set_input_files("input[type=file][accept*='.jsonl']", good)
    page.wait_for_function("() => document.getElementById('finding')?.innerText.includes('Drop a trace') === false")
    whole(page)
    run = answer({**ASK, "arrivals": [list(row) for row in rows]})["run"]
    assert float(figure(page, "ttft_p95@chunked")) == run["ttft"]["p95"]
    assert "mine" not in page.evaluate("location.href")
    bad = tmp_path / "bad.csv"
    bad.write_text("arrival,prompt,output\n0,100,10\n1,many,10\n")
    page.set_input_files("input[type=file][accept*='.jsonl']", bad)
    page.wait_for_function("() => document.getElementById('finding')?.innerText.includes('line 3')")


def test_settings_go_to_the_engine_and_stay_in_the_address(reader, served):
    """B-072, E-08, E-18: slots, budget, replicas and lengths; bad input stays in its field with the reason."""
    page = reader().open(served + at(load=4))
    whole(page)
    panel = page.locator("section:has(> header h2:has-text('Traffic and engine'))")
    panel.get_by_role("textbox", name="Slots").fill("16")
    panel.get_by_role("textbox", name="Prompt lengths").fill("lognormal:1024:0.5")
    panel.get_by_role("button", name="All settings").click()
    panel.get_by_role("combobox", name="KV cache").select_option("reserve")
    page.wait_for_function(
        "() => ['slots=16', 'paging=reserve', 'lognormal'].every((each) => decodeURIComponent(location.hash).includes(each))"
    )
    whole(page)
    run = answer({**ASK, "rate": 4, "slots": 16, "prompt": "lognormal:1024:0.5", "paging": "reserve"})["run"]
    assert float(figure(page, "ttft_p95@chunked")) == run["ttft"]["p95"]
    panel.get_by_role("textbox", name="Prompt lengths").fill("lognormal:1024")
    page.wait_for_function("() => document.querySelector('p.why')?.innerText.includes('is not a length')")
    assert panel.get_by_role("textbox", name="Prompt lengths").get_attribute("aria-invalid") == "true"


def test_prefill_and_decode_apart_beside_the_policies(reader, served):
    """The divided engine is compared with as many undivided replicas."""
    page = reader().open(served + at(load=10, run="requests=300;disaggregate=1:2;link=50 GB/s"))
    whole(page)
    apart = answer({**ASK, "rate": 10, "disaggregate": "1:2", "link": "50 GB/s"})["run"]
    together = answer({**ASK, "rate": 10, "replicas": 3})["run"]
    assert float(figure(page, "tpot_p95@apart")) == apart["tpot"]["p95"]
    assert float(figure(page, "tpot_p95@chunked")) == together["tpot"]["p95"]
    page.get_by_role("button", name="how many devices").click()
    page.wait_for_function("() => location.hash.startsWith('#/design')")
    page.get_by_role("heading", name="Capacity planner", exact=True).wait_for()


def test_ten_million_requests_are_refused_at_once(reader, address):
    """A clear refusal that says what to do, typed or in a link; the figures before stay."""
    page = reader().open(address + at(load=10, run="requests=10000000"))
    page.wait_for_function("() => document.querySelector('.problem')?.innerText.includes('rooflab simulate')")
    field = page.get_by_role("textbox", name="Requests")
    field.fill("10000000")
    assert "at most 200,000" in page.inner_text("section:has(> header h2:has-text('Traffic and engine'))")
    assert field.get_attribute("aria-invalid") == "true"


@pytest.mark.parametrize(
    "place",
    [
        at(load="abc", run="=;;policy=;slots", span="9-2", show="?", sel="request:999999"),
        at(load=5000, run="requests=1", span="0-0.0001", sel="serve:luck@static"),
        at(load=3, run="arrivals=users;requests=40;think=1 s", show="ttft", sel="serve:ttft_p99@nobody"),
    ],
)
def test_odd_addresses_still_show_something(reader, served, place):
    """What cannot be read is left out and said; nothing breaks."""
    page = reader().open(served + place)
    page.wait_for_selector("[data-work=done]")
    page.wait_for_selector("canvas")
    assert len(page.inner_text("#finding")) > 20
    assert len(page.inner_text("#made")) > 20


def test_long_work_tells_how_far_it_is_and_is_cancelled(reader, address):
    """What has come stays, said to be partial; short questions are answered meanwhile; it goes on when asked to."""
    page = reader().open(address + at(load=10, run="requests=200000"))
    page.get_by_role("button", name="Cancel").wait_for()
    page.wait_for_selector("progress")
    page.wait_for_function("() => /^1 of [1-9]\\d/.test(document.querySelector('[data-work=busy]')?.innerText)")
    page.evaluate("""() => {
      const where = document.querySelector('[data-work]');
      window.said_ = '';
      const note = () => (said_ += where.innerText.replace(/\\s+/g, ' ') + ';');
      new MutationObserver(note).observe(where, { subtree: true, childList: true, characterData: true });
    }""")
    page.get_by_role("textbox", name="Seed").fill("3")  # a new question while the long one is played: it is dropped
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('seed=3')")
    page.wait_for_function("() => /0 of 1 run.*;1 of [1-9]\\d/.test(said_)")  # anew, and on
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("[data-work=stopped]")
    assert "Partial" in page.inner_text("[data-work]")
    page.get_by_role("button", name="Go on").click()
    page.wait_for_selector("[data-work=busy]")


def test_cancel_where_python_hears_no_message_while_it_computes(reader, static):
    """Some browsers cannot let Python wait: the engine is then started anew, and goes on answering."""
    one = reader()

    def deaf(route):
        answered = route.fetch()
        script, changed = re.subn(r"[`'\"]Suspending[`'\"] ?in WebAssembly", "false", answered.text())
        assert changed == 1
        route.fulfill(response=answered, body=script)

    one.context.route("**/py.worker*.js", deaf)
    page = one.open(static + at(load=10, run="requests=100000"))
    page.get_by_role("button", name="Cancel").wait_for(timeout=90_000)
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("[data-work=stopped]")
    page.get_by_role("textbox", name="Requests").fill("300")
    whole(page)
    assert float(figure(page, "tpot_p50@chunked")) == answer({**ASK, "rate": 10})["run"]["tpot"]["p50"]


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_nothing_serious_for_axe(reader, served, theme, width, serious):
    page = reader(color_scheme=theme, viewport={"width": width, "height": 900}).open(served + at(load=10))
    whole(page)
    assert not serious(page)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
