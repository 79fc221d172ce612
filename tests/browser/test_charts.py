"""What every chart and table does, whatever its view: axes, table, keys, columns, colours."""

import csv
import io
from pathlib import Path
from urllib.parse import unquote

LLAMA = "m=llama-3.1-8b&s=h100-sxm*2&l=tp2&w=1024-128-b16"
FORCED = """() => {
  const drawn = (selector, name) => getComputedStyle(document.querySelector(selector)).getPropertyValue(name);
  const box = document.createElement("i");
  box.style.color = "CanvasText";
  document.body.append(box);
  const own = getComputedStyle(box).color;
  box.remove();
  const roof = drawn("svg[aria-label^=Roofline] path[stroke='var(--ink)']", "stroke");
  const [chip, strip] = [".bound .g-memory", ".strip button"].map((each) => drawn(each, "background-color"));
  return { own, roof, chip, strip };
}"""


def menu(page, title, item):
    page.get_by_role("button", name=f"{title}: save or copy", exact=True).click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def panel(page, title):
    return page.locator("section.panel").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_an_axis_is_switched_in_the_menu_and_kept_in_the_address(reader, served):
    """ux §9: straight or logarithmic by the panel's menu; the address holds it; the roofline's marks stay on its axes."""
    one = reader()
    page = one.open(f"{served}#/step?{LLAMA}")
    ticks = "() => [...document.querySelectorAll('svg[aria-label^=Roofline] text')].map(each => each.textContent)"
    assert "1,000 FLOP/B" in page.evaluate(ticks)
    menu(page, "Roofline", "Straight axes")
    page.wait_for_function("() => location.hash.includes('scale=roofline.xy')")
    straight = page.evaluate(ticks)
    assert "0" in straight
    one.reload()
    assert page.evaluate(ticks) == straight
    menu(page, "Roofline", "Logarithmic axes")
    page.wait_for_function("() => !location.hash.includes('scale=')")
    away = """() => {
      const svg = document.querySelector('svg[aria-label^=Roofline]'), box = svg.getBoundingClientRect();
      const of = box.width / svg.viewBox.baseVal.width;
      const middle = mark => mark.querySelector('.focus').getBoundingClientRect();
      const off = mark => (middle(mark).left + middle(mark).width / 2 - box.left) / of - mark.dataset.x;
      return Math.max(...[...svg.querySelectorAll('.pt')].map(mark => Math.abs(off(mark))));
    }"""
    page.wait_for_function(f"() => ({away})() < 1")  # the marks have flown to their logarithmic places
    page.evaluate(f"""() => {{
      const away = {away};
      window.frames_ = {{ worst: 0, widths: new Set(), still: 0 }};
      const each = () => {{
        const seen = window.frames_, width = document.querySelector('svg[aria-label^=Roofline]').viewBox.baseVal.width;
        seen.still = seen.widths.has(width) ? seen.still + 1 : 0;
        seen.widths.add(width);
        seen.worst = Math.max(seen.worst, away());
        requestAnimationFrame(each);
      }};
      requestAnimationFrame(each);
    }}""")
    for drawn, width in enumerate((1440, 1100, 700, 390, 1300), 1):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("least => frames_.widths.size >= least && frames_.still > 3", arg=drawn)
    assert page.evaluate("frames_.worst") < 1  # in every frame that was drawn: at once, not after a flight


def test_a_chart_is_one_stop_and_t_shows_its_table(reader, served):
    """ux §9, F-03: Tab comes to a chart once, arrows walk its marks with a tooltip, Enter selects, T is the table and back."""
    page = reader().open(f"{served}#/step?{LLAMA}")
    for phase in ("prefill", "decode"):  # both are answered, so the marks that are walked stay
        page.wait_for_selector(f"[data-phase={phase}]")
    for title in ("Roofline", "Memory per device", "One pass, in order", "What binds each phase"):
        marks = panel(page, title).locator(".pt")
        assert marks.count() > 2
        assert panel(page, title).locator(".pt[tabindex='0']").count() == 1
        panel(page, title).locator(".pt[tabindex='0']").focus()
        page.keyboard.press("Home")
        for _ in range(marks.count() - 1):
            before = page.evaluate("Number(document.activeElement.dataset.x)")
            page.keyboard.press("ArrowRight")
            assert page.evaluate("Number(document.activeElement.dataset.x)") >= before
        assert page.locator(".tip").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".tip").count() == 0
    panel(page, "Roofline").locator("svg.chart").scroll_into_view_if_needed()
    places = page.evaluate("""() => [...document.querySelectorAll('svg[aria-label^=Roofline] .pt')].map(mark => {
      const at = mark.querySelector('.focus').getBoundingClientRect();
      return [at.left + at.width / 2, at.top + at.height / 2, mark.ariaLabel];
    })""")
    left, top, _ = min(places)
    at = (left - 14, top + 12)  # beside the leftmost mark, on none
    page.mouse.move(*at)
    nearest = min(places, key=lambda place: (place[0] - at[0]) ** 2 + (place[1] - at[1]) ** 2)[2]
    assert nearest.startswith(page.locator(".tip b").first.inner_text())
    page.mouse.move(2, 2)
    panel(page, "Roofline").locator(".pt[tabindex='0']").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('sel=op:')")
    marks = panel(page, "Roofline").locator(".pt").count()
    page.keyboard.press("t")
    page.wait_for_function("() => document.activeElement.classList.contains('tblwrap')")
    assert panel(page, "Roofline").locator("tbody tr").count() >= marks
    page.keyboard.press("t")
    panel(page, "Roofline").locator("svg.chart").wait_for()
    assert panel(page, "Roofline").locator("tbody").count() == 0


def test_columns_are_chosen_and_remembered_and_the_file_has_all(reader, served):
    """ux §10, §14: a column put away stays away on the next visit; the CSV has it still, and says what each row stands on."""
    one = reader()
    page = one.open(f"{served}#/step?{LLAMA}")
    table = panel(page, "Slowest operators")
    menu(page, "Slowest operators", "Columns")
    page.get_by_role("menuitemcheckbox", name="Launch").click()
    page.wait_for_function(
        "() => document.querySelector('table[aria-label=\"Operators by time\"] thead')?.innerText.includes('Launch') === false"
    )
    page.get_by_role("menuitemcheckbox", name="Per pass").click()  # the list stays open
    assert "Per pass" not in table.locator("thead").inner_text()
    one.reload()
    assert "Launch" not in table.locator("thead").inner_text()
    with page.expect_download() as loading:
        menu(page, "Slowest operators", "CSV")
    rows = list(csv.DictReader(io.StringIO(Path(loading.value.path()).read_text())))
    assert all(float(row["launch_s"]) >= 0 for row in rows)
    assert {row["basis"] for row in rows} <= {"fitted", "assumed", "measured", "roofline"}
    with page.expect_download() as loading:
        menu(page, "Where time goes", "CSV")
    assert "assumed" in next(csv.DictReader(io.StringIO(Path(loading.value.path()).read_text())))["basis"]


def test_charts_over_one_axis_share_what_is_pointed_at(reader, served):
    """ux §9: the crosshair of one is that of the other."""
    page = reader().open(f"{served}#/limits?{LLAMA}")
    page.locator("svg[aria-label^='Step time against batch']").hover()
    here = "svg[aria-label^='Cost per token against batch'] circle"
    page.wait_for_function("selector => document.querySelectorAll(selector).length >= 4", arg=here)
    page.mouse.move(2, 2)
    page.wait_for_function("selector => document.querySelectorAll(selector).length === 0", arg=here)


def test_a_region_is_drawn_with_the_keys(reader, served):
    """ux §9: Enter on the chart, arrows move an edge, Tab takes the next one, Escape clears."""
    page = reader().open(f"{served}#/evidence?{LLAMA}")
    chart = page.locator(".scatter svg")
    chart.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('box=')")

    def region():
        return [
            float(each) for each in unquote(page.evaluate("location.href")).split("box=")[1].split("&")[0].split(",")
        ]

    first = region()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    box = "decodeURIComponent(location.hash).split('box=')[1].split(',')"
    page.wait_for_function(f"([a, b]) => a < +{box}[0] && +{box}[1] < b", arg=first[:2])
    low, high, *rest = region()
    assert first[0] < low < high < first[1]
    assert rest == first[2:]
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.hash.includes('box=')")


def test_in_forced_colours_marks_keep_hue_and_lines_take_the_reader_s_ink(reader, served):
    """ux §13: chips and bars are not painted over; the roof is drawn in the reader's text colour on light and dark."""
    for scheme in ("light", "dark"):
        page = reader(forced_colors="active", color_scheme=scheme).open(f"{served}#/step?{LLAMA}")
        page.locator(".strip button").first.wait_for()
        found = page.evaluate(FORCED)
        assert found["roof"] == found["own"]
        assert found["chip"] == "rgb(219, 124, 0)"
        assert found["strip"] not in ("rgba(0, 0, 0, 0)", found["own"])


def test_a_tooltip_can_be_reached_and_dismissed_and_stays(reader, served):
    """ux §13, WCAG 1.4.13: the pointer goes to it, it stays there, Esc dismisses it, it goes when the pointer has left."""
    page = reader().open(served)
    mark = page.locator("svg.chart .pt[aria-label^='Attention']").first.bounding_box()
    x, y = mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2
    page.mouse.move(x, y)
    page.wait_for_selector(".tip")
    words, box = page.inner_text(".tip"), page.locator(".tip").bounding_box()
    page.mouse.move(x, box["y"] + box["height"] / 2, steps=12)
    page.wait_for_timeout(700)
    assert page.inner_text(".tip") == words
    page.keyboard.press("Escape")
    assert page.locator(".tip").count() == 0
    page.mouse.move(x, y + 3)
    page.wait_for_selector(".tip")
    page.mouse.move(x, 5)
    page.wait_for_selector(".tip", state="detached")


def test_what_a_title_says_is_told_to_keyboard_and_touch(reader, served):
    """The exact number of a focused figure, and of a cell that is touched; Esc dismisses it."""
    page = reader().open(served)
    page.keyboard.press("Tab")
    page.locator("[data-kpi=tpot]").focus()
    page.wait_for_selector(".tip")
    assert page.inner_text(".tip") == page.get_attribute("[data-kpi=tpot]", "title")
    page.keyboard.press("Escape")
    assert page.locator(".tip").count() == 0
    phone = reader(viewport={"width": 390, "height": 844}, has_touch=True).open(served + "#/compare")
    cell = phone.locator("[data-quantity=tpot] td").first
    cell.tap()
    phone.wait_for_selector(".tip")
    assert phone.inner_text(".tip") == cell.get_attribute("title")
    box = phone.locator(".tip").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    phone.locator("#finding").tap()
    phone.wait_for_selector(".tip", state="detached")
