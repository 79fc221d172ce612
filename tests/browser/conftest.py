"""The built page in Debian's Chromium, by both transports: the local server, and a site on a plain web server."""

import contextlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from importlib import util
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-3d-apis",
]  # fmt: skip
"""No view here may need WebGL, so there is none."""


AGAIN = "failed once with"
"""Under this name tests/conftest.py tells what passed only when it was tried again."""


def pytest_runtest_protocol(item, nextitem):
    """A browser on busy cores may miss a wait: what fails is tried once more, and told; what fails twice fails, with both."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    if failed:
        first = "\n".join(
            [each.longreprtext for each in failed] + [text for name, text in failed[0].sections if name == PAGE]
        )
        item.user_properties.append((AGAIN, first))
        if reports[0].failed or "browser has been closed" in first:
            with contextlib.suppress(Exception):  # what failed of the session's own fixtures is made anew, too
                item.session._setupstate.teardown_exact(None)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        for report in reports:
            if report.failed:
                report.sections.append(("the first try", first))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


PAGE = "the page"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that fails says what stood in the page."""
    report = yield
    if report.failed and call.when == "call":
        report.sections.extend((PAGE, one.told()) for one in getattr(item, "readers", ()))
    return report


def unavailable(reason):
    """Skip on a developer's machine; fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"the page is tested in a browser in CI: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The built page; one process builds it, the others wait."""
    spec = util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    with (tmp_path_factory.getbasetemp().parent / "page.lock").open("w") as held:
        if os.name == "posix":
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX)
        why = hook.Page(ROOT).ensure()
    if why:
        unavailable(why)


@pytest.fixture(scope="session")
def browser():
    """One Chromium for the session, with a profile of its own."""
    if not Path(CHROMIUM).exists():
        unavailable("there is no chromium; on Debian: apt-get install chromium")
    if util.find_spec("playwright") is None:
        unavailable("playwright is not installed; python3 run.py test installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as found:
        chromium = found.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS, timeout=120_000)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The file in which the server keeps scenarios: none of the user's own."""
    return tmp_path_factory.mktemp("store") / "scenarios.sqlite3"


@pytest.fixture(scope="session")
def served(built, store):
    """Address of `rooflab serve`."""
    command = [sys.executable, "-m", "rooflab", "serve", "--no-browser", "--store", str(store)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    found = re.search(r"http://\S+/", server.stdout.readline())
    assert found, "rooflab serve did not say where it is"
    yield found.group(0)
    server.terminate()
    server.wait(60)
    server.stdout.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Any plain web server."""

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):
            super().handle()


@pytest.fixture(scope="session")
def site_folder(built, tmp_path_factory):
    """The written site."""
    from rooflab.web import site

    return site(tmp_path_factory.mktemp("site") / "out")


@pytest.fixture(scope="session")
def static(site_folder):
    """Address of the written site."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site_folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


ANSWERED = """() => {
  const said = document.querySelector('#finding')?.textContent.trim();
  return said && said !== 'Reading the scenario' && document.fonts.status === 'loaded';
}"""
STILL = """() => {
  const busy = document.querySelector('[aria-busy=true]')
    || [...document.querySelectorAll('.why .muted, .made .muted')].some(each => each.innerText.startsWith('Evaluat'))
    || document.fonts.status !== 'loaded' || document.getAnimations().some(each => each.playState === 'running');
  if (!window.seen_) {
    window.seen_ = { at: performance.now() };
    const all = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(() => (seen_.at = performance.now())).observe(document, all);
  }
  if (busy) seen_.at = performance.now();
  return performance.now() - seen_.at > 250;
}"""


class Reader:
    """Someone at the page: opens addresses, and everything that went wrong is remembered."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(
            **{"viewport": {"width": 1440, "height": 900}, "color_scheme": "light", **options}
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.wrong = []
        self.hosts = set()
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.wrong.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "request", lambda request: self.hosts.add(request.url.split("/")[2]) if "://" in request.url else None
        )

    def open(self, address, ready=True):
        self.page.goto(address)
        self.page.wait_for_selector("#finding")
        if ready:
            self.ready()
        return self.page

    def ready(self):
        """Wait until the engine has answered what the address asks, and until the letters have their shapes."""
        self.page.wait_for_selector("[data-status=ready]", timeout=90_000)
        self.page.wait_for_function(ANSWERED)

    def reload(self):
        self.page.reload()
        self.ready()

    def settled(self):
        """Wait until what was changed is a step of its own for Back: it is kept then."""
        self.page.wait_for_function("() => localStorage.getItem('rooflab.last') === JSON.stringify(location.hash)")

    def still(self):
        """Wait until nothing is asked, nothing moves, and what comes a moment later has come."""
        self.page.wait_for_function(STILL)

    def told(self):
        """What a failure is to be understood by."""
        try:
            words = self.page.locator("body").inner_text(timeout=3000)[:3000]
        except Exception as problem:
            words = f"cannot be read: {problem}"
        return "\n".join([self.page.url, *self.wrong, words])

    def kpi(self, name):
        """A headline number's exact value, from its title."""
        return float(self.page.get_attribute(f"[data-kpi={name}]", "title").split()[0])

    def settle(self, name, before):
        """Wait until a headline number is another."""
        self.page.wait_for_function(
            """([name, before]) => {
              const shown = document.querySelector(`[data-kpi=${name}]`)?.title.split(' ')[0];
              return shown && shown !== before;
            }""",
            arg=[name, before],
        )


@pytest.fixture(scope="session")
def serious():
    """What axe finds on a page that is serious or critical: its rule, what it asks, and where."""
    axe = (ROOT / "page/node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")

    def found(page):
        page.wait_for_function(STILL)
        page.evaluate(axe)
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    return found


@pytest.fixture
def reader(browser, request):
    """A fresh reader; the test fails if anything went wrong in the page."""
    made = request.node.readers = []

    def make(**options):
        made.append(Reader(browser, **options))
        return made[-1]

    yield make
    wrong = [each for one in made for each in one.wrong]
    for one in made:
        one.context.close()
    assert not wrong, wrong
