"""Speed of the view Serve in a browser: the engine in the page, long work beside short questions, and drawing 100,000 requests.

python bench/page_serve.py          figures of this machine; needs Chromium and Playwright (run.py test brings it)
"""

from __future__ import annotations

import http.server
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from timing import yardstick

from rooflab.web import site

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
SWEEP = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "prompt": 1024, "output": 256, "requests": 2000,
         "replications": 1}  # fmt: skip
LOADS = 10
MS = 1000.0
WORKER = """async ([base, name, asks]) => {
  const worker = new Worker(base + 'assets/' + name, { type: 'module' });
  const answered = (id) => new Promise((done) => {
    const hear = ({ data }) => data.id === id && !data.progress && (worker.removeEventListener('message', hear), done(data));
    worker.addEventListener('message', hear);
  });
  let next = 0;
  const ask = async (message) => { const id = ++next, found = answered(id), began = performance.now();
    worker.postMessage({ id, ...message }); const said = await found; return [(performance.now() - began) / 1000, said]; };
  const [start] = await ask({ start: base });
  const [one, said] = await ask({ ask: JSON.stringify({ ...asks.sweep, saturated: true }) });
  const full = JSON.parse(said.report).saturated_rate;
  const loads = Array.from({ length: asks.loads }, (_, i) => (full * (i + 1)) / asks.loads);
  const sweeps = [];
  for (let i = 0; i < 3; i += 1) sweeps.push((await ask({ ask: JSON.stringify({ ...asks.sweep, loads, seed: i }) }))[0]);
  const long = ask({ ask: JSON.stringify({ ...asks.sweep, requests: 200000, rate: 0.7 * full }), long: true });
  const waits = [];
  for (let i = 0; i < 20; i += 1) {
    const short = { kind: 'estimate', model: 'llama-3.1-8b', on: 'h100-sxm', batch: i + 1 };
    waits.push((await ask({ ask: JSON.stringify(short) }))[0]);
    await new Promise((done) => setTimeout(done, 20));
  }
  return { start, one, sweeps, waits, long: (await long)[0] };
}"""


def drawing(page: Page, address: str) -> dict[str, Any]:
    """Milliseconds of each repaint while the stretch of time is narrowed and moved."""
    page.goto(
        address + "#/serve?m=llama-3.1-8b&s=h100-sxm&w=1024-256-b32&vs=none&run=requests%3D100000&span=all&load=15"
    )
    page.wait_for_function("() => Number(document.querySelector('canvas')?.dataset.drawn) > 90000", timeout=300_000)
    took: dict[str, list[float]] = {}
    for show in ("Rows", "TTFT"):
        page.get_by_role("button", name=show, exact=True).click()
        page.get_by_role("slider", name="Stretch of time").focus()
        for key in ["+", "ArrowRight", "+", "ArrowRight", "+", "+", "ArrowRight", "-", "-", "-", "-", "Home"]:
            page.keyboard.press(key)
            page.wait_for_timeout(60)
            took.setdefault(show, []).append(float(page.get_attribute("canvas", "data-ms") or 0))
    return took


def main() -> None:
    """Print the figures, and how fast the machine is just now."""
    print(f"plain loop of 100,000: {yardstick() * MS:.1f} ms (about 3.5 on a quiet core)")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        out = site(Path(folder) / "site")

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(out)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.goto(address + "py/")
        name = next((out / "assets").glob("py.worker*.js")).name
        found = page.evaluate(WORKER, [address, name, {"sweep": SWEEP, "loads": LOADS}])
        print(f"engine in the page ready after {found['start']:.1f} s; first question {found['one']:.2f} s")
        print(f"{LOADS} loads × 2,000 requests: {', '.join(f'{each:.2f}' for each in found['sweeps'])} s")
        waits = sorted(found["waits"])
        middle, most = waits[10] * MS, waits[-1] * MS
        print(
            f"200,000 requests: {found['long']:.1f} s; estimates meanwhile: median {middle:.0f} ms, most {most:.0f} ms"
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for show, took in drawing(page, address).items():
            print(
                f"100,000 requests, {show}: repaint median {sorted(took)[len(took) // 2]:.1f} ms, most {max(took):.1f} ms"
            )
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
