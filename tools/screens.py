"""Take the pictures of the page that the documents show: the real page, served here, in Chromium.

python tools/screens.py     write docs/pictures/page-light.png and page-dark.png

They are renewed by hand when the page's look has changed: a browser draws no two alike to the byte, so no test compares them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parent.parent / "docs/pictures"
PLACE = "#/step?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b128&p=wfp8&vs=p:wbf16"
SIZE = {"width": 1440, "height": 850}


def main() -> int:
    serve = [sys.executable, "-m", "rooflab", "serve", "--no-browser"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+/", server.stdout.readline())
            if found is None:
                raise SystemExit("rooflab serve did not say where it is")
            browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
            for theme in ("light", "dark"):
                page = browser.new_page(viewport=SIZE, color_scheme=theme, reduced_motion="reduce")
                page.goto(found.group(0) + PLACE)
                page.wait_for_selector("[data-status=ready]", timeout=60_000)
                page.get_by_text("Hide", exact=True).click()
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(1500)
                page.screenshot(path=FOLDER / f"page-{theme}.png")
            browser.close()
        finally:
            server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
