"""Saving, comparing and exporting in the page, by both transports: what the engine says, in files that need nothing else.

Expected numbers are `api.answer`'s; files are read as another program would read them.
"""

import csv
import io
import json
import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote

import pytest

from rooflab.api import answer
from rooflab.cli import main
from rooflab.store import Saved, Store, dump

ROOT = Path(__file__).resolve().parents[2]
START = json.loads((ROOT / "src/rooflab/web/start.json").read_text())
SCENARIO = START["scenario"]
DROP = """(text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], 'config.json'));
    dispatchEvent(new DragEvent('drop', { dataTransfer: data }));
}"""
EVIL = "<img src=x onerror=\"document.title='ran'\">"
HOSTILE = {"name": EVIL, "ask": {"model": EVIL}, "version": "1", "time": "t"}


@pytest.fixture(params=["served", "static"])
def address(request, store):
    store.unlink(missing_ok=True)
    return request.getfixturevalue(request.param)


@pytest.fixture
def local(served, store):
    """The local server, with nothing saved."""
    store.unlink(missing_ok=True)
    return served


def estimate(**changes):
    return answer({"kind": "estimate", **SCENARIO, **changes})


def config(name):
    """A config.json of the catalog."""
    return json.loads((ROOT / f"src/rooflab/catalog/models/{name}.json").read_text())


def columns(page, count):
    """Wait until so many columns stand there."""
    page.wait_for_selector(f".compare [data-columns='{count}']")


def values(page, quantity):
    """Exact values of a row, None where a column has none."""
    titles = page.eval_on_selector_all(f"[data-quantity={quantity}] td", "(all) => all.map((td) => td.title)")
    return [float(title.split()[0]) if title else None for title in titles]


def save(page, name):
    page.get_by_label("Name to save under").fill(name)
    page.get_by_role("button", name="Save this one").click()
    page.wait_for_function("(name) => document.querySelector('.toast')?.textContent.includes(name)", arg=name)


def downloaded(page, click):
    with page.expect_download() as loading:
        click()
    return loading.value.suggested_filename, Path(loading.value.path()).read_bytes()


def menu(page, title):
    page.get_by_role("button", name=f"{title}: save or copy").click()
    page.wait_for_selector("[role=menu]")


# ------------------------------------------------------------------------------------------------ saving and comparing


def test_save_change_and_compare(reader, address):
    """D-130, D-132: saved under a name, beside the present scenario and the baseline; best in bold; only differences."""
    page = reader().open(address)
    page.keyboard.press("s")
    page.wait_for_selector(".compare")
    columns(page, 2)
    assert values(page, "tpot") == [estimate()["tpot"], estimate(weights=None)["tpot"]]
    best = page.eval_on_selector_all(
        "[data-quantity=tpot] td", "(all) => all.map((td) => td.classList.contains('best'))"
    )
    assert best == [True, False]
    save(page, "mine")
    columns(page, 3)
    assert values(page, "used") == [
        estimate()["memory"]["used"],
        estimate(weights=None)["memory"]["used"],
        estimate()["memory"]["used"],
    ]
    assert page.locator("[data-quantity=kv]").count() == 1
    page.get_by_label("Only differences").check()
    assert page.locator("[data-quantity=kv]").count() == 0
    assert page.locator("[data-quantity=tpot]").count() == 1
    page.wait_for_selector("[data-operator=gate_up]")
    assert page.locator("[data-operator=attention_decode]").count() == 0  # the same with other weights


def test_a_saved_scenario_is_there_again_and_restores_every_control(reader, address):
    """D-134, E-23: after a reload it is loaded back, with everything that was set; a name gets a number."""
    one = reader()
    page = one.open(
        address
        + "#/step?m=llama-3.1-8b&s=h100-sxm*2;memory_bandwidth=4TB/s&l=tp2&w=1000-100-b7-c10&p=wfp8kvfp8&f=operator;tiles=false"
    )
    before = one.kpi("tpot")
    page.keyboard.press("s")
    save(page, "all of it")
    columns(page, 2)
    save(page, "all of it")
    columns(page, 3)
    page.goto(address + "#/step?m=qwen3-8b&s=h200-sxm")
    one.reload()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("button", name="Use all of it", exact=True).click()
    page.wait_for_function(
        "(t) => document.querySelector('[data-kpi=tpot]')?.title.split(' ')[0] === t", arg=repr(before)
    )
    for part in ("m=llama-3.1-8b", "memory_bandwidth=", "tp2", "1000-100-b7-c10", "wfp8kvfp8", "tiles=false"):
        assert part in unquote(page.evaluate("location.href"))
    columns(page, 4)
    page.get_by_role("button", name="Pin all of it 2").click()
    assert "all of it 2" in page.inner_text(".base")


def test_what_the_page_saves_the_command_line_has_and_the_other_way_round(reader, local, store, capsys):
    """E-23: one store. A scenario saved in the page is compared on the command line; one saved there is in the page."""
    page = reader().open(local)
    page.keyboard.press("s")
    save(page, "from the page")
    line = [
        "llama-3.1-70b",
        "--on",
        "4x h200-sxm",
        "--tp",
        "4",
        "--batch",
        "128",
        "--prompt",
        "2048",
        "--weights",
        "fp8",
    ]
    assert main(["save", "from the line", *line, "--store", str(store)]) == 0
    assert main(["compare", "from the page", "from the line", "--json", "--store", str(store)]) == 0
    report = json.loads(capsys.readouterr().out.partition("\n")[2])
    tpot = next(row["values"] for row in report["rows"] if row["key"] == "tpot")
    assert tpot == [estimate()["tpot"], estimate(on="4x h200-sxm")["tpot"]]
    page.get_by_role("button", name="Close Compare").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    columns(page, 4)
    assert values(page, "tpot")[2:] == tpot
    page.get_by_role("button", name="Rename from the page").click()
    page.get_by_label("New name").fill("renamed")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Use renamed").wait_for()
    assert [each.name for each in Store(store).all()] == ["renamed", "from the line"]
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete renamed").click()
    columns(page, 3)
    assert [each.name for each in Store(store).all()] == ["from the line"]


def test_a_damaged_store_is_said_in_the_page(reader, local, store):
    store.write_bytes(b"certainly not a database, but long enough" * 20)
    page = reader().open(local)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector(".compare [role=alert]")
    assert "holds no saved scenarios" in page.inner_text(".compare [role=alert]")
    columns(page, 2)  # the present scenario and the baseline are there all the same
    store.unlink()


def test_two_profiles_side_by_side(reader, address):
    """E-26: two profiles for one scenario, and each switch that makes them differ, evaluated alone."""
    page = reader().open(address)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("button", name="Profiles").click()
    page.wait_for_selector("[data-switch=memory_efficiency]")
    assert values(page, "tpot") == [estimate()["tpot"], estimate(profile="envelope")["tpot"]]
    page.get_by_role("button", name="sharded").click()
    columns(page, 3)
    assert values(page, "tpot")[2] == estimate(profile="sharded")["tpot"]


def test_what_does_not_fit_is_red_and_what_is_refused_says_why(reader, local, store):
    """D-132, F-02: over budget with a sign; a refused column keeps its reason and leaves the others alone."""
    over, bad = {**SCENARIO, "batch": 100_000}, {**SCENARIO, "tp": 3}
    for name, ask in (("over", over), ("bad", bad)):
        Store(store).save(Saved(name=name, ask=ask, version="0.0.1", time="2020-01-01T00:00:00Z", digest={"tpot": 1.0}))
    page = reader().open(local)
    page.get_by_role("button", name="Compare", exact=True).click()
    columns(page, 4)
    heads = page.eval_on_selector_all(".compare thead th", "(all) => all.map((th) => th.innerText)")
    assert "does not fit" in heads[3]
    assert "64 heads" in heads[4]
    assert "saved with 0.0.1: TPOT was 1.00 s" in heads[3]
    assert values(page, "tpot")[:2] == [estimate()["tpot"], estimate(weights=None)["tpot"]]
    assert "▲" in page.locator("[data-quantity=used] td").nth(2).inner_text()


def test_a_full_or_foreign_browser_storage_stops_nothing(reader, static):
    """B-014: what another program left in the browser is said, kept aside, and never run."""
    one = reader()
    foreign = json.dumps(
        {
            "rooflab": "scenarios",
            "format": 1,
            "scenarios": [
                {
                    "name": EVIL,
                    "ask": {"model": EVIL, "on": EVIL},
                    "digest": {"name": EVIL},
                    "version": "1",
                    "time": "t",
                },
                7,
            ],
        }
    )
    one.context.add_init_script(
        f"if (!localStorage.getItem('rooflab.saved')) localStorage.setItem('rooflab.saved', {json.dumps(foreign)})"
    )
    page = one.open(static)
    page.get_by_role("button", name="Compare", exact=True).click()
    columns(page, 3)
    assert "1 of 2 saved scenarios are damaged" in page.inner_text(".compare [role=alert]")
    assert page.locator(".compare img").count() == 0
    page.locator(".compare .acts button").first.click()
    page.wait_for_selector("#finding:has-text('Not evaluated')")
    assert page.locator("#finding img, .notice img").count() == 0
    assert page.title() != "ran"
    page.get_by_role("button", name="Undo the last change").click()
    columns(page, 3)
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') } }")
    page.get_by_role("button", name="Save this one").click()
    columns(page, 4)
    assert "storage is full" in page.inner_text(".compare [role=alert]")


# ------------------------------------------------------------------------------------------------ files


def test_export_and_import_go_round(reader, address, tmp_path):
    """D-134: what is exported is imported, here and on the command line; names get numbers."""
    page = reader().open(address)
    page.keyboard.press("s")
    save(page, "one")
    name, content = downloaded(page, lambda: page.locator(".compare .ctl").get_by_role("button", name="Export").click())
    assert name == "scenarios.json"
    file = tmp_path / "scenarios.json"
    file.write_bytes(content)
    other = tmp_path / "other.sqlite3"
    assert main(["saved", "import", str(file), "--store", str(other)]) == 0
    assert [each.name for each in Store(other).all()] == ["one"]
    with page.expect_file_chooser() as choosing:
        page.locator(".compare .ctl").get_by_role("button", name="Import").click()
    choosing.value.set_files(file)
    page.get_by_role("button", name="Use one 2").wait_for()


@pytest.mark.parametrize(
    "content, says",
    [
        ("{", "is not JSON"),
        ('{"rooflab": "scenarios", "format": 2, "scenarios": []}', "newer RoofLab"),
        ('{"rooflab": "scenarios", "format": 1, "scenarios": [{"name": "x"}]}', "scenarios[0]"),
        (json.dumps({"rooflab": "scenarios", "format": 1, "scenarios": [HOSTILE]}), "on: is missing"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_words_and_never_run(reader, local, tmp_path, content, says):
    page = reader().open(local)
    file = tmp_path / "given.json"
    file.write_text(content)
    page.keyboard.press("e")
    with page.expect_file_chooser() as choosing:
        page.get_by_role("menuitem", name="Import scenarios").click()
    choosing.value.set_files(file)
    page.wait_for_selector(".notice")
    assert says in page.inner_text(".notice")
    assert page.locator(".notice img").count() == 0
    assert page.title() != "ran"


def test_the_report_is_that_of_the_engine_and_needs_nothing(reader, address, browser, tmp_path, serious):
    """One generator: the page's report is the command line's; opened from disk it asks for nothing and looks right."""
    page = reader().open(address)
    page.keyboard.press("e")
    name, content = downloaded(page, lambda: page.get_by_role("menuitem", name="HTML report").click())
    assert name.endswith(".html")
    html = content.decode()
    date = re.search(r" · (\d{4}-\d\d-\d\d) ", html)[1]
    link = re.search(r'href="([^"]*)"[^>]*>This scenario', html)
    baseline = {**SCENARIO, **START["baseline"]}
    more = {"baseline_name": "BF16 weights", "date": date, "link": link[1] if link else ""}
    wanted = answer({"kind": "document", "scenario": SCENARIO, "baseline": baseline, **more})
    figures = [re.findall(r"<dd>.*?</dd>", text) for text in (html, wanted["html"])]
    assert figures[0] == figures[1]
    if "served" in str(address):
        assert html == wanted["html"]
    file = tmp_path / name
    file.write_bytes(content)
    for theme, wide in (("light", 1440), ("dark", 390)):
        context = browser.new_context(viewport={"width": wide, "height": 900}, color_scheme=theme, offline=True)
        shown, asked = context.new_page(), []
        shown.on("request", lambda request, asked=asked: asked.append(request.url))
        shown.on("console", lambda message, asked=asked: asked.append(message.text))
        shown.goto(file.as_uri())
        assert shown.locator("svg.chart").count() == 11
        assert shown.evaluate("document.documentElement.scrollWidth") <= wide
        assert asked == [file.as_uri()]
        assert not serious(shown)
        context.close()


def test_a_panel_s_rows_are_exact(reader, local):
    """F-03: CSV of a chart, a table and figures: the engine's numbers to the last digit, units in the header."""
    page = reader().open(local)
    step = estimate(detail=True)["decode_step"]
    menu(page, "Roofline")
    _, content = downloaded(page, lambda: page.get_by_role("menuitem", name="CSV").click())
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert [float(row["time_s"]) for row in rows] == [op["time"] for op in step["ops"]]
    assert {row["basis"] for row in rows} == {op["basis"] for op in step["ops"]}
    menu(page, "Where time goes")
    _, content = downloaded(page, lambda: page.get_by_role("menuitem", name="CSV").click())
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert [float(row["time_s"]) for row in rows] == [part["time"] for part in step["parts"]]
    menu(page, "Whole request")
    _, content = downloaded(page, lambda: page.get_by_role("menuitem", name="CSV").click())
    found = {row["quantity"]: row for row in csv.DictReader(io.StringIO(content.decode()))}
    assert float(found["TPOT"]["value"]) == estimate()["tpot"]
    assert found["TPOT"]["unit"] == "s"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_brings_its_colours_fonts_title_and_scenario(reader, local, theme):
    """ux §14: PNG and SVG of a panel with title, finding, scenario line; nothing in it refers to the page."""
    page = reader(color_scheme=theme).open(local)
    for title in ("Roofline", "Where time goes", "Memory per device", "One pass, in order", "Slowest operators"):
        menu(page, title)
        name, content = downloaded(page, lambda: page.get_by_role("menuitem", name="SVG").click())
        assert name.endswith(".svg")
        text = content.decode()
        root = ET.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        words = " ".join(root.itertext())
        assert title in words
        assert "Llama-3.1-70B · 4 × H100 SXM" in words
        assert "memory-bound" in words
        assert "basis" in words
        assert not re.search(r"var\(|class=|<script|foreignObject| on\w+=", text)
        assert not re.findall(r"(?:href|src)=\"(?!data:)[^\"#]", text)
        assert "font/woff2;base64" in text
        drawn = {each.tag.rpartition("}")[2] for each in root.iter()}
        assert drawn & {"path", "rect", "circle"}
    menu(page, "Roofline")
    _, png = downloaded(page, lambda: page.get_by_role("menuitem", name="PNG").click())
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    wide = int.from_bytes(png[16:20], "big")
    assert wide > 2 * page.locator("section.panel").filter(has_text="Roofline").bounding_box()["width"] - 40
    menu(page, "Where time goes")
    _, plain = downloaded(page, lambda: page.get_by_role("menuitem", name="SVG").click())
    memory = {"light": "rgb(219, 124, 0)", "dark": "rgb(247, 168, 35)"}[theme]
    assert memory in plain.decode()


def test_the_command_of_a_panel_asks_the_same(reader, local, capsys):
    """The copied command gives the number on the page; the link opens the panel."""
    import shlex

    one = reader(permissions=["clipboard-read", "clipboard-write"])
    page = one.open(local)
    menu(page, "Slowest operators")
    page.get_by_role("menuitem", name="Copy command").click()
    page.wait_for_selector(".toast")
    command = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert main([*command[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tpot"] == one.kpi("tpot")
    menu(page, "Slowest operators")
    page.get_by_role("menuitem", name="Copy link to this panel").click()
    page.wait_for_function("() => document.querySelector('.toast')?.textContent.includes('Link')")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.endswith("at=slowest-operators")
    page.goto("about:blank")
    page.goto(link)
    page.get_by_role("heading", name="Slowest operators").wait_for()
    at = "document.querySelector('section.panel:has(.stages, [data-row])').getBoundingClientRect().top"
    page.wait_for_function(f"() => {at} < 400")


def test_the_menu_is_a_keyboard_s(reader, local):
    """F-03: opened, walked, closed and left by keys; focus goes back; the selection stays."""
    page = reader().open(local + "#/step?sel=op:down")
    page.locator("[data-status=ready]").wait_for()
    page.get_by_role("button", name="Roofline: save or copy").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=menu]")
    page.wait_for_function("() => document.activeElement.getAttribute('role') === 'menuitem'")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "CSV"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.textContent") == "Copy command"
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('[role=menu]')")
    assert page.evaluate("document.activeElement.ariaLabel") == "Roofline: save or copy"
    assert "sel=op:down" in page.evaluate("location.href").replace("%3A", ":")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_compare(reader, local, theme, serious):
    page = reader(color_scheme=theme).open(local)
    page.keyboard.press("s")
    save(page, "one")
    columns(page, 3)
    assert not serious(page)
    page.get_by_role("button", name="Profiles").click()
    page.wait_for_selector("[data-switch=tiles]")
    assert not serious(page)
    page.keyboard.press("Escape")
    menu(page, "Roofline")
    assert not serious(page)


def test_compare_holds_on_a_narrow_screen(reader, local):
    """On a phone Compare is a place of its own, which Back leaves."""
    page = reader(viewport={"width": 390, "height": 844}, has_touch=True).open(local)
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Compare", exact=True).click()
    columns(page, 2)
    save(page, "on a phone")
    columns(page, 3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "#/compare" in page.evaluate("location.href")
    page.go_back()
    page.wait_for_selector("[data-kpi=tpot]")


def test_compare_is_a_place_with_an_address(reader, local, store):
    """ux §2, §3: a full page under #/compare; what stands there is in the address, and is left again by Back."""
    for name, ask in (("batch 1", {**SCENARIO, "batch": 1}), ("batch 2", {**SCENARIO, "batch": 2})):
        Store(store).save(Saved(name=name, ask=ask, version="0.0.1", time="2020-01-01T00:00:00Z"))
    one = reader()
    page = one.open(f"{local}#/compare?cols=batch%202%0Agone&only=1")
    columns(page, 3)
    assert page.title().startswith("Compare · ")
    assert values(page, "tpot")[2] == estimate(batch=2)["tpot"]
    assert page.locator("[data-quantity=prompt]").count() == 0
    assert "Not saved here: gone" in page.inner_text(".compare")
    assert "“batch 2” takes the least time a token" in page.inner_text("h1")
    assert "saved with 0.0.1; asked again, the same figures" in page.locator(".compare thead th").nth(3).inner_text()
    page.get_by_role("button", name="batch 1", exact=True).click()
    columns(page, 4)
    one.settled()
    page.get_by_role("button", name="Profiles").click()
    page.wait_for_selector("[data-switch=tiles]")
    assert "sides=profiles" in page.evaluate("location.href")
    assert "a token takes" in page.inner_text("h1").lower()
    page.reload()
    page.wait_for_selector("[data-switch=tiles]")
    page.go_back()
    columns(page, 4)
    page.go_back()
    columns(page, 3)
    page.locator("section", has_text="Side by side").get_by_role("button", name="save or copy").click()
    _, content = downloaded(page, lambda: page.get_by_role("menuitem", name="CSV").click())
    rows = {row["quantity"]: row for row in csv.DictReader(io.StringIO(content.decode()))}
    assert float(rows["TPOT"]["batch 2"]) == estimate(batch=2)["tpot"]
    panel = page.locator("section", has_text="Side by side")
    rows = panel.locator("tr").count()
    panel.get_by_role("button", name="save or copy").click()
    _, content = downloaded(page, lambda: page.get_by_role("menuitem", name="SVG").click())
    root = ET.fromstring(content.decode())
    assert float(root.get("height")) > 24 * rows  # all of them, not what is scrolled to
    assert "Rename" not in "".join(root.itertext())


def test_a_thousand_saved_scenarios_can_be_found(reader, local, store, tmp_path):
    """A file larger than the engine takes at once is read in pieces; what is offered stays short, the rest is looked for."""
    ask = {**SCENARIO, "batch": 1}
    many = [
        Saved(name=f"number {n}", ask=ask, version="0.1.0", time="2020-01-01T00:00:00Z", digest={"words": "x" * 1500})
        for n in range(1000)
    ]
    file = tmp_path / "many.json"
    file.write_text(dump(many, "0.1.0"))
    assert file.stat().st_size > 1_700_000
    page = reader().open(f"{local}#/compare?cols=-")
    columns(page, 2)
    with page.expect_file_chooser() as choosing:
        page.locator(".compare .ctl").get_by_role("button", name="Import").click()
    choosing.value.set_files(file)
    page.wait_for_function("() => document.querySelector('.toast')?.textContent === 'Imported 1000 scenarios'")
    assert [each.name for each in Store(store).all()] == [each.name for each in many]
    picks = page.get_by_role("group", name="Saved scenarios shown")
    assert picks.locator("[aria-pressed]").count() < 60
    page.goto(f"{local}#/compare?cols=-")
    columns(page, 2)
    page.get_by_label("Find a saved scenario").fill("number 123")
    picks.get_by_role("button", name="number 123", exact=True).click()
    columns(page, 3)
    assert values(page, "tpot")[2] == estimate(batch=1)["tpot"]
    page.get_by_label("Find a saved scenario").fill("number 99")
    page.get_by_role("button", name="As a list").click()
    rows = page.get_by_role("table", name="Saved scenarios").locator("[data-row]")
    assert rows.count() == 19  # 99, 199 to 999, 990 to 998
    page.get_by_role("button", name="Name", exact=True).click()
    assert rows.first.get_attribute("data-row") == "number 199"
    rows.first.click()
    columns(page, 4)
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete these 19").click()
    page.wait_for_function("() => document.querySelector('.toast')?.textContent.startsWith('Deleted 19 scenarios')")
    assert len(Store(store).all()) == 981
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelectorAll('.list [data-row]').length === 19")
    assert len(Store(store).all()) == 1000
    page.get_by_label("Name to save under").fill("one too\u200b many")
    page.get_by_role("button", name="Save this one").click()
    assert "characters that cannot be seen" in page.inner_text(".compare [role=alert]")
    page.get_by_role("button", name="Save this one").click()
    page.wait_for_selector(".compare [role=alert]")
    assert "holds 1,000 scenarios already" in page.inner_text(".compare [role=alert]")
    assert "#/compare" in page.evaluate("location.href")


def test_a_scenario_too_long_for_a_link_becomes_a_file_that_is_imported(reader, local, tmp_path):
    """ux §3: over 6 kB a link offers a file in its place, and Import takes that file."""
    draw = random.Random(7)
    names = {
        key: "".join(draw.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4000)) for key in ("name", "_name_or_path")
    }
    page = reader().open(f"{local}#/step?m=llama-3.1-8b&s=h100-sxm")
    page.evaluate(DROP, json.dumps({**config("llama-3.1-8b"), **names}))
    page.wait_for_function("() => location.hash.includes('mx=~')")  # packed
    assert len(page.evaluate("location.hash")) > 6000
    page.get_by_role("button", name="Share link").click()
    item = page.get_by_role("menuitem")
    item.first.wait_for()
    assert re.fullmatch(r"Download scenario: a link would have [\d,]+ characters", item.inner_text())
    name, content = downloaded(page, lambda: item.click())
    (record, *_) = json.loads(content)["scenarios"]
    assert record["ask"]["model"]["name"] == names["name"]
    file = tmp_path / name
    file.write_bytes(content)
    assert main(["saved", "import", str(file), "--store", str(tmp_path / "other.sqlite3")]) == 0


def test_an_imported_model_travels_if_that_is_chosen(reader, local):
    """ux §14: the link carries what counts of it, once it is chosen; what the catalog has needs no content."""
    page = reader(permissions=["clipboard-read", "clipboard-write"]).open(f"{local}#/step?m=llama-3.1-8b&s=h100-sxm")
    page.evaluate(DROP, json.dumps({**config("llama-3.1-8b"), "num_hidden_layers": 31, "bos_token_id": 1}))
    page.wait_for_function("() => document.querySelector('.toast')?.textContent.startsWith('config.json is now')")
    page.wait_for_function("() => location.hash.includes('mx=') && location.hash.length < 500")  # what counts
    page.get_by_role("button", name="Share link").click()
    page.get_by_role("menuitem", name="Copy link with the imported model").click()
    page.wait_for_function(
        "() => /^Link copied.*baseline, the imported model$/.test(document.querySelector('.toast')?.textContent)"
    )
    link = page.evaluate("navigator.clipboard.readText()")
    again = reader()
    again.open(link)
    again.page.click("[data-segment=model]")
    again.page.wait_for_function("() => document.querySelector('.editor')?.textContent.includes('31 ×')")
    # The catalog's own needs no content.
    page.evaluate(DROP, json.dumps({**config("qwen3-8b"), "bos_token_id": 7}))
    page.wait_for_function(
        "() => document.querySelector('.toast')?.textContent.includes('Qwen3-8B, which the catalog has')"
    )
    page.wait_for_function("() => location.hash.includes('m=qwen3-8b&')")


def test_opened_from_disk_the_site_says_what_it_needs(browser, site_folder):
    """A browser runs no modules from a file; the reader is told, not shown an empty page."""
    page = browser.new_page()
    page.goto((site_folder / "index.html").as_uri())
    page.wait_for_selector("text=python3 -m http.server")
    page.close()
