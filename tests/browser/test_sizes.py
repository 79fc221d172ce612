"""What a first visit to the written site fetches, counted from its requests and compressed as web servers do."""

import gzip
import re
from urllib.parse import urlsplit

MOST_FIRST = 9_000_000
MOST_OWN = 250_000


def packed(path):
    return len(gzip.compress(path.read_bytes(), 9))


def test_a_first_visit_is_small(reader, static, site_folder):
    """Under 9 MB with Python and the engine, under 250 kB of own script and style; views are fetched when they are opened."""
    one = reader()
    paths = []
    one.page.on("request", lambda request: paths.append(urlsplit(request.url).path.lstrip("/") or "index.html"))
    one.open(static)
    one.still()
    fetched = {path for path in paths if (site_folder / path).is_file()}
    assert {"index.html", "pyodide/pyodide.asm.wasm", "pyodide/python_stdlib.zip", "py/rooflab.zip"} <= fetched
    assert sum(packed(site_folder / path) for path in fetched) < MOST_FIRST
    own = {path for path in fetched if re.fullmatch(r"assets/.*\.(js|css)", path)}
    assert len(own) >= 2
    assert sum(packed(site_folder / path) for path in own) < MOST_OWN
    assert not any(re.search(r"assets/(Fit|Limits|Evidence|Design|Serve)", path) for path in own)
    later = [path for path in (site_folder / "assets").iterdir() if path.suffix in (".js", ".css")]
    assert sum(packed(path) for path in later) < 2 * MOST_OWN  # with every view opened
