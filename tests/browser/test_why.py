"""The why panel: its formulas can be worked out by hand, their terms light up what they stand for; labels keep off roofs."""

import math

import pytest
from calculator import by_hand

LLAMA = "m=llama-3.1-8b&s=h100-sxm*2&l=tp2&w=1024-128-b16"
MIXTURE = "m=deepseek-v3&s=h200-sxm*8&l=adp8-ep8&w=1024-128-b16"
TIMES = ["tpot", "ttft", "ttft_one", "e2e"]
RATES = [
    "tokens_per_second_per_user",
    "throughput_per_device",
    "output_throughput",
    "bandwidth_share",
    "cost",
    "energy",
]
BYTES = ["memory", "weights", "kv", "workspace"]
SHOWN = """() => [...document.querySelectorAll('aside.why .f')].map((each) => ({
  title: each.querySelector('.q').textContent,
  numbers: (each.querySelector('.sub') ?? each.children[0]).textContent.replace(/^.*?= /, ''),
  value: each.querySelector('b').textContent,
}))"""
SELECT = """(to) => new Promise((done) => {
  if (location.hash === to) return done();
  addEventListener('hashchange', done, { once: true });
  location.hash = to;
})"""
SETTLED = """() => {
  const panel = document.querySelector('aside.why');
  const said = [...panel.querySelectorAll('.f b')].at(-1)?.textContent;
  return said && panel.ariaBusy !== 'true' && said === panel.querySelector('.big b')?.textContent;
}"""
CASES = {
    "dense": (LLAMA, [*TIMES, *RATES, *BYTES, "op:down", "op:attention_decode", "op:all_reduce_ffn"]),
    "experts": ("m=mixtral-8x7b&s=h100-sxm*2&l=tp2", [*TIMES, "kv", "weights", "op:experts_up"]),
    "latent": (MIXTURE, ["tpot", "kv", "memory", "op:absorb_q", "op:dispatch@moe"]),
    "hybrid": ("m=qwen3-next-80b-a3b&s=h100-sxm*4&l=tp4", ["tpot", "kv", "op:recurrence_decode@gated_delta_net"]),
    "sharded": (f"{LLAMA}&f=sharded", ["tpot", "weights", "workspace", "op:S5", "op:C2"]),
    "classroom": (f"{LLAMA}&f=classroom", ["tpot", "ttft", "workspace", "op:linear", "op:pass_overhead"]),
    "envelope": (f"{LLAMA}&f=envelope", ["tpot", "memory", "op:feed-forward weights"]),
}


@pytest.mark.parametrize("case", CASES)
def test_every_number_can_be_worked_out_from_what_is_shown(reader, served, case):
    """F-04, D-103, ux §5: each line of a formula, worked out by hand from the numbers in it, is the figure under it."""
    scenario, subjects = CASES[case]
    page = reader().open(f"{served}#/step?{scenario}")
    lines = 0
    for subject in subjects:
        page.evaluate(SELECT, f"#/step?{scenario}&sel={subject if ':' in subject else f'kpi:{subject}'}")
        page.wait_for_function(SETTLED)
        for line in page.evaluate(SHOWN):
            found, shown = by_hand(line["numbers"]), by_hand(line["value"])
            # Half a unit of the third digit (a share has two), and what five digits of the inputs lose.
            room = 0.5 * 10.0 ** (math.floor(math.log10(abs(shown) or 1.0)) - (1 if "%" in line["value"] else 2))
            assert abs(found - shown) <= room * 1.02 + abs(shown) * 2e-4, (subject, line)
            assert "_" not in line["title"] + line["numbers"], (subject, line)
            lines += 1
    assert lines >= len(subjects)


def test_a_term_lights_up_what_it_stands_for_and_the_other_way_round(reader, served):
    """ux §5: hovering or focusing a term shows its mark in the view and its row of inputs; a mark shows its term."""
    page = reader().open(f"{served}#/step?{LLAMA}&sel=kpi:tpot")
    term = page.locator("aside .term[data-op=attention_decode]").first
    term.wait_for()
    ground = "(each) => getComputedStyle(each).backgroundColor"
    ring = "(each) => getComputedStyle(each.querySelector('.focus')).stroke"
    mark, row = page.locator("svg .pt[data-op=attention_decode]"), page.locator("aside li [data-op=attention_decode]")
    plain, none = row.evaluate(ground), mark.evaluate(ring)
    term.hover()
    assert row.evaluate(ground) != plain
    assert mark.evaluate(ring) != none
    assert (
        page.locator(".strip [data-op=attention_decode]").evaluate("(each) => getComputedStyle(each).outlineStyle")
        == "solid"
    )
    page.mouse.move(5, 5)
    assert row.evaluate(ground) == plain
    mark.hover()
    assert term.evaluate(ground) != "rgba(0, 0, 0, 0)"
    # By the keyboard: one stop in a formula, arrows along it, Enter goes deeper.
    page.mouse.move(5, 5)
    page.locator("aside .term[tabindex='0']").first.focus()
    page.keyboard.press("ArrowRight")
    second = page.evaluate("() => document.activeElement.dataset.op")
    assert page.locator(f"aside li [data-op={second}]").evaluate(ground) != plain
    page.keyboard.press("Enter")
    page.wait_for_function("(name) => location.hash.includes(`sel=op:${name}`)", arg=second)
    # Inputs: the bandwidth is the slanted roof and a row.
    page.locator("aside .term", has_text="peak bandwidth").first.hover()
    input_row = page.locator("aside .inputs tr", has_text="peak bandwidth")
    assert input_row.evaluate(ground) != plain
    assert page.locator("[data-of='roof:memory']").evaluate("(each) => getComputedStyle(each).strokeWidth") == "2px"
    input_row.hover()
    assert page.locator("aside .term", has_text="peak bandwidth").first.evaluate(ground) != "rgba(0, 0, 0, 0)"


DRAWN = """() => {
  const svg = document.querySelector('svg[aria-label^=Roofline]');
  const moving = document.getAnimations().some((each) => each.playState === 'running');
  return svg && !moving && Math.abs(svg.getBoundingClientRect().width - svg.viewBox.baseVal.width) < 1;
}"""
"""The chart has been drawn at the width it has now."""
OVERLAPS = """() => {
  const svg = document.querySelector('svg[aria-label^=Roofline]');
  const box = (each) => each.getBoundingClientRect();
  const size = box(svg).width / svg.viewBox.baseVal.width, [left, top] = [box(svg).left, box(svg).top];
  const names = [...svg.querySelectorAll('g[pointer-events=none] text.halo')].filter((each) => !each.hasAttribute('transform'));
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const found = [];
  for (const a of names) for (const b of names) if (a !== b && meet(box(a), box(b))) found.push([a.textContent, b.textContent]);
  for (const path of svg.querySelectorAll(':scope > path:not([fill^=var])')) {
    if (!path.getAttribute('d').startsWith('M') || path.getAttribute('stroke') === 'var(--baseline)') continue;
    for (let at = 0; at < path.getTotalLength(); at += 2) {
      const { x, y } = path.getPointAtLength(at), [px, py] = [left + x * size, top + y * size];
      const under = (b) => px > b.left + 1 && px < b.right - 1 && py > b.top + 3 && py < b.bottom - 3;
      found.push(...names.filter((each) => under(box(each))).map((each) => [each.textContent, path.getAttribute('stroke')]));
    }
  }
  return { found, names: names.length };
}"""


@pytest.mark.parametrize(
    "scenario",
    ["", LLAMA, "m=gpt-oss-120b&s=b200-sxm&w=2048-256-b64", MIXTURE],
    ids=["two formats", "dense", "three formats", "experts"],
)
def test_labels_keep_off_roofs_and_each_other(reader, served, scenario):
    """ux §9: at any width no name of the roofline lies on a roof or on another name."""
    page = reader().open(f"{served}#/step?{scenario}")
    for width in (1440, 1280, 1024, 768, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(DRAWN)
        seen = page.evaluate(OVERLAPS)
        assert not seen["found"], (width, seen["found"][:4])
        assert seen["names"] >= 3, width


def test_an_operator_that_is_not_in_the_step_gives_way_to_the_views_number(reader, served):
    """ux §11: a selection that another profile does not have explains the main number; nothing is dimmed for it."""
    page = reader().open(f"{served}#/step?{LLAMA}&f=sharded&sel=op:down")
    page.wait_for_selector("aside .t:has-text('Time per output token')")
    assert page.locator("svg[aria-label^=Roofline] .pt[opacity='0.32']").count() == 0
    page.evaluate("(to) => location.hash = to", f"#/step?{LLAMA}&sel=op:down")
    page.wait_for_selector("aside .crumb:has-text('FFN down')")


def test_every_chart_says_its_finding(reader, served):
    """F-03: what stands in place of a chart is a sentence with numbers; of Step, Fit and Limits, whatever fits."""
    page = reader().open(f"{served}#/step?{LLAMA}")
    said = """() => [...document.querySelectorAll('main svg.chart, main [data-chart]')].filter((each) => !each.closest('aside'))
      .map((each) => [each.getAttribute('role'), each.getAttribute('aria-label') ?? ''])"""
    for place, least in (("step", 5), ("fit", 4), ("limits", 8), ("step?m=llama-3.1-405b&s=h100-sxm", 1)):
        page.evaluate("(to) => location.hash = to", f"#/{place}" if "?" in place else f"#/{place}?{LLAMA}")
        page.wait_for_function(f"() => ({said})().length >= {least}")
        for role, text in page.evaluate(said):
            assert role in ("img", "group"), (place, text)
            assert len(text.split()) >= 6, (place, text)
            assert any(each.isdigit() for each in text) or "W_Q" in text, (place, text)
