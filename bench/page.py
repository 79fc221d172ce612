"""How fast the page is, in Chromium: from a move of a slider to its repaint, and from the address to the first result.

    python bench/page.py [--json] [--steps 40] [--starts 3] [--side served]

Both transports are measured: the local server, and a written site whose engine runs in the page. Times come from the page's
own clock: a step is timed from the input event to the first frame after the number has changed. Ratios are to an empty
change, timed the same way in the same page (machines differ, ratios hardly do).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.server
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from rooflab.web import site

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {
    "step_median_s": 0.050,
    "step_p95_s": 0.100,
    "first_result_s": 1.0,
    "engine_ready_s": 8.0,
    "first_load_bytes": 9e6,
    "own_bytes": 250e3,
}
"""What the project promises on a quiet core of its test machine."""
WORK = "m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b64&p=wfp8&f=operator"
PLACES = {
    "roofline": f"#/step?{WORK};prices=roofline",
    "fitted": f"#/step?{WORK};prices=fitted",
    "limits": f"#/limits?{WORK}",
}
"""The opening view by both kinds of prices, and the view that redraws most: eight charts."""
SLIDERS = {"batch": "Batch, on a scale of doublings", "prompt": "Prompt tokens, on a scale of doublings"}
LIMITS_SLIDERS = {"batch": "Batch, on a scale of doublings", "context": "Context, on a scale of doublings"}
STEP = """
async ([label, steps, selector]) => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now());
    channel.port2.postMessage(0);
  }));
  const slider = document.querySelector(`input[aria-label="${label}"]`);
  const number = document.querySelector(selector);
  const least = Number(slider.min), room = Number(slider.max) - least;
  const read = () => number.title + number.textContent;
  const changed = (before, from) => new Promise((done) => {
    const seen = () => {
      if (read() === before) return;
      watch.disconnect();
      clearTimeout(late);
      painted().then((at) => done(at - from));
    };
    const watch = new MutationObserver(seen);
    watch.observe(number, { attributes: true, childList: true, subtree: true, characterData: true });
    const late = setTimeout(() => { watch.disconnect(); done(null); }, 20000);
    seen();
  });
  const times = [];
  for (let i = 0; i < steps; i += 1) {
    slider.value = String(least + room * (0.15 + 0.45 * ((i * 0.618) % 1)));
    const before = read(), from = performance.now();
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    const took = await changed(before, from);
    if (took !== null) times.push(took / 1000);
    await new Promise((done) => setTimeout(done, 30));
  }
  return times;
}
"""
EMPTY = """
async (steps) => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now());
    channel.port2.postMessage(0);
  }));
  const mark = document.createElement("i");
  document.body.append(mark);
  const times = [];
  for (let i = 0; i < steps; i += 1) {
    const from = performance.now();
    mark.textContent = String(i);
    times.push((await painted() - from) / 1000);
    await new Promise((done) => setTimeout(done, 7));
  }
  mark.remove();
  return times;
}
"""
WATCH = """
window.seen = {};
new MutationObserver((_, watch) => {
  const found = document.querySelector("[data-kpi=tpot]");
  if (found && !found.title.startsWith("no") && !seen.result) {
    seen.result = -1;
    requestAnimationFrame(() => setTimeout(() => { seen.result = performance.now() / 1000; }));
  }
  if (document.querySelector("[data-status=ready]") && !seen.ready) {
    seen.ready = performance.now() / 1000;
    watch.disconnect();
  }
}).observe(document, { subtree: true, childList: true, attributes: true });
"""


def chromium() -> str:
    """Where the browser is."""
    return os.environ.get("CHROMIUM", "/usr/bin/chromium")


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Address of the local server."""
    server = subprocess.Popen(
        [sys.executable, "-m", "rooflab", "serve", "--no-browser"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+/", server.stdout.readline())
        if not found:
            raise SystemExit("rooflab serve did not say where it is")
        yield found.group(0)
    finally:
        server.terminate()
        server.wait(20)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Any plain web server."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def handle(self) -> None:
        """A reader that goes away is no fault."""
        with contextlib.suppress(ConnectionError):
            super().handle()


@contextlib.contextmanager
def static(folder: Path) -> Iterator[str]:
    """Address of a folder of files."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def spread(times: list[float]) -> dict[str, float]:
    """Median, 95th percentile and how many."""
    ordered = sorted(times)
    return {
        "median_s": statistics.median(ordered),
        "p95_s": ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))],
        "steps": len(ordered),
    }


def starts(browser: Browser, address: str, times: int) -> dict[str, float]:
    """First result and ready engine after opening the address, least of several fresh visits."""
    found = []
    for _ in range(times):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.add_init_script(WATCH)
        page.goto(address)
        page.wait_for_function("() => window.seen.ready && window.seen.result > 0", timeout=120_000)
        found.append(page.evaluate("window.seen"))
        context.close()
    return {
        "first_result_s": min(each["result"] for each in found),
        "engine_ready_s": min(each["ready"] for each in found),
    }


def steps(page: Page, address: str, place: str, count: int) -> dict[str, object]:
    """Slider steps: of the workload's editor in Step, of its own in Limits."""
    page.goto("about:blank")
    page.goto(address + PLACES[place])
    page.wait_for_selector("[data-status=ready]", timeout=120_000)
    page.wait_for_selector("#finding b", timeout=60_000)
    sliders, number = LIMITS_SLIDERS, "#finding"
    if place != "limits":
        page.click("[data-segment=workload]")
        sliders, number = SLIDERS, "[data-kpi=tpot]"
    page.wait_for_timeout(1500)
    found: dict[str, object] = {}
    for name, label in sliders.items():
        page.evaluate(STEP, [label, 5, number])  # the browser's compilers are warm then
        found[name] = spread(page.evaluate(STEP, [label, count, number]))
        page.wait_for_timeout(800)
    found["empty"] = spread(page.evaluate(EMPTY, count))
    for name in sliders:
        found[name]["ratio"] = found[name]["median_s"] / found["empty"]["median_s"]  # type: ignore[index]
    return found


def sizes(folder: Path) -> dict[str, float]:
    """Bytes of a first visit to the site, compressed as a web server would, and those of our own script and style."""
    packed = {
        path.relative_to(folder).as_posix(): len(gzip.compress(path.read_bytes(), 9))
        for path in folder.rglob("*")
        if path.is_file()
    }
    own = {name: size for name, size in packed.items() if re.match(r"assets/.*\.(js|css)$", name)}
    named = re.findall(r'"\./(assets/[^"]+\.(?:js|css))"', (folder / "index.html").read_text(encoding="utf-8"))
    first = [name for name in own if name in named or name.startswith("assets/py.worker")]
    rest = [
        name
        for name in packed
        if name.startswith(("pyodide/", "py/"))
        or name in ("index.html", "theme.js", "icon.svg")
        or name.endswith(".woff2")
    ]
    return {
        "first_load_bytes": sum(packed[name] for name in [*first, *rest]),
        "own_bytes": sum(own.values()),
        "first_own_bytes": sum(own[name] for name in first),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--side", choices=["served", "site"], action="append")
    given = parser.parse_args()
    found: dict[str, object] = {"load": os.getloadavg()[0], "limits": LIMITS}
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = site(Path(scratch) / "site")
        found["sizes"] = sizes(folder)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        sides = {"served": served, "site": lambda: static(folder)}
        for side in given.side or sides:
            with sides[side]() as address:
                one: dict[str, object] = {"start": starts(browser, address, given.starts)}
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                for place in PLACES:
                    one[place] = steps(page, address, place, given.steps)
                page.close()
                found[side] = one
        browser.close()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
