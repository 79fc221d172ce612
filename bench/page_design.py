"""How soon the Design view's searches show their first points, and how long they take, in a browser without NumPy.

    python bench/page_design.py [--json]

Builds a site, opens it in Chromium and times, in the page: the sharded sweep of 27,648 layouts, the serving layouts of four
machines, and the joint search of 64 machines; drawing 27,648 points; and the longest frame while the pointer crosses them.
"""

from __future__ import annotations

import http.server
import json
import shutil
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

LIMITS = {"cuts_first_s": 0.3, "cuts_s": 4.0, "layouts_first_s": 0.3, "move_s": 0.05}
"""What the project promises on a quiet laptop."""
SCENARIO = "#/design?m=qwen3-8b&s=sip&l=tp8-cp2&w=131072-256&way=sharded&copies=1"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Any plain web server."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def times(page: Any, *addresses: str) -> tuple[float, float, int]:
    """(seconds to the first points, seconds in all, rows) of the last of several addresses: the first ones warm the engine."""
    page.goto("about:blank")
    before = ""
    for address in addresses:
        page.goto(address)
        page.wait_for_selector("[data-status=ready]", timeout=120_000)
        page.wait_for_function(
            "before => { const each = document.querySelector('[data-took]'); return each && each.dataset.took !== before }",
            arg=before, timeout=120_000,
        )  # fmt: skip
        told = page.eval_on_selector(
            "[data-took]", "each => [each.dataset.first, each.dataset.took, each.dataset.rows]"
        )
        before = told[1]
    return float(told[0]), float(told[1]), int(told[2])


def crossing(page: Any) -> float:
    """Seconds of the longest frame while the pointer crosses the chart."""
    box = page.locator("[aria-roledescription='scatter chart']").first.bounding_box()
    page.evaluate("""() => {
      window.longest = 0;
      let last = performance.now();
      const tick = (now) => {
        window.longest = Math.max(window.longest, now - last);
        last = now;
        window.ticking = requestAnimationFrame(tick);
      };
      requestAnimationFrame((now) => { last = now; tick(now); });
    }""")
    for step in range(40):
        page.mouse.move(box["x"] + 60 + step * (box["width"] - 80) / 40, box["y"] + box["height"] / 2)
    return page.evaluate("() => (cancelAnimationFrame(window.ticking), window.longest / 1000)")


def measured(address: str) -> dict[str, float]:
    """Every figure, from one browser."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as found:
        browser = found.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        other = SCENARIO.replace("131072-256", "65536-256")
        cuts = times(page, address + other, address + SCENARIO)
        move = crossing(page)
        layouts = times(page, address + "#/design?m=llama-3.1-8b&s=h100-sxm*4&l=tp4", address + "#/design")
        way = SCENARIO.replace("way=sharded&copies=1", "way=hardware")
        hardware = times(page, address + way.replace("131072", "65536"), address + way)
        browser.close()
    return {
        "cuts_first_s": cuts[0], "cuts_s": cuts[1], "cuts_rows": cuts[2], "move_s": move, "layouts_first_s": layouts[0],
        "layouts_s": layouts[1], "layouts_rows": layouts[2], "hardware_s": hardware[1],
    }  # fmt: skip


def main() -> None:
    from rooflab.web import site

    with tempfile.TemporaryDirectory() as folder:
        out = site(Path(folder) / "site")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(out)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = measured(f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
    if "--json" in sys.argv:
        print(json.dumps({"found": found, "limits": LIMITS}, indent=2))
        return
    for name, value in found.items():
        limit = LIMITS.get(name)
        verdict = "" if limit is None else f" (limit {limit:g}, {'within' if value <= limit else 'OVER'})"
        print(f"{name:20s} {value:.4g}{verdict}")


if __name__ == "__main__":
    main()
