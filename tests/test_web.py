"""The page's server, its site, its contract and its own tests (A-002, B-015, F-05)."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import zipfile
from importlib import util
from pathlib import Path

import pytest
from litestar.exceptions import WebSocketDisconnect

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = json.loads((ROOT / "src/rooflab/web/start.json").read_text())["scenario"]


def unavailable(reason):
    """Skip on a developer's machine; fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"the page must be built in CI: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def hook():
    spec = util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = util.module_from_spec(spec)
    sys.modules["hatch_build"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def built(hook, tmp_path_factory):
    """The built page of this checkout; one process builds, the others wait for it."""
    lock = tmp_path_factory.getbasetemp().parent / "page.lock"
    with lock.open("w") as held:
        if os.name == "posix":
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX)
        why = hook.Page(ROOT).ensure()
    if why:
        unavailable(why)
    return hook.Page(ROOT)


@pytest.fixture
def client(built):
    from litestar.testing import TestClient

    from rooflab.web.app import create

    with TestClient(create(), base_url="http://127.0.0.1") as found:
        yield found


def test_the_contract_in_typescript_is_that_of_the_engine():
    command = [sys.executable, ROOT / "tools/contract.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_question_is_answered_as_by_the_engine(client):
    from rooflab.api import answer

    ask = {"kind": "estimate", **SCENARIO}
    reply = client.post("/api/ask", json={"id": 7, "ask": ask}).json()
    assert reply == {"id": 7, "report": answer(ask)}


def test_the_socket_answers_question_by_question(client):
    with client.websocket_connect("/api/ws") as line:
        line.send_text(json.dumps({"id": 1, "ask": {"kind": "inspect", "model": "llama-3.1-8b"}}))
        line.send_text(json.dumps({"id": 2, "ask": {"kind": "inspect", "model": "no-such-model"}}))
        first, second = json.loads(line.receive_text()), json.loads(line.receive_text())
        assert first["id"] == 1
        assert first["report"]["layers"] == 32
        assert second["id"] == 2
        assert "no-such-model" in second["error"]
        line.send_text("not json")
        assert "error" in json.loads(line.receive_text())
        line.send_text(json.dumps({"id": 3, "ask": {"kind": "catalog", "what": "profiles"}}))
        assert json.loads(line.receive_text())["id"] == 3  # the line outlives nonsense


LONG = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "rate": 5.0}


def test_a_long_answer_tells_how_far_it_is_and_lets_others_through(client):
    """Progress comes before the report, only grows, and a short question asked meanwhile is answered meanwhile."""
    with client.websocket_connect("/api/ws") as line:
        line.send_text(json.dumps({"id": 1, "ask": {**LONG, "requests": 40_000}, "progress": True}))
        line.send_text(json.dumps({"id": 2, "ask": {"kind": "inspect", "model": "llama-3.1-8b"}}))
        told = [json.loads(line.receive_text())]
        while "report" not in told[-1] or told[-1]["id"] == 2:
            told.append(json.loads(line.receive_text()))
        far = [each["progress"][0] for each in told if "progress" in each]
        assert far == sorted(far)
        assert far
        assert all(0 < each["progress"][0] <= each["progress"][1] == 40_000 for each in told if "progress" in each)
        assert next(i for i, each in enumerate(told) if each["id"] == 2) < len(told) - 1
        assert told[-1]["report"]["run"]["served"] == 40_000


def test_a_long_answer_is_cut_short_and_holds_what_was_done(client):
    with client.websocket_connect("/api/ws") as line:
        line.send_text(json.dumps({"id": 1, "ask": {**LONG, "requests": 200_000}, "progress": True}))
        told = json.loads(line.receive_text())
        assert told["progress"][1] == 200_000
        line.send_text(json.dumps({"id": 9, "cancel": True}))  # of no question: nothing happens
        line.send_text(json.dumps({"id": 1, "cancel": True}))
        while "report" not in told:
            told = json.loads(line.receive_text())
        run = told["report"]["run"]
        assert 0 < run["unfinished"] < 200_000
        assert run["served"] + run["unfinished"] == 200_000


def test_a_long_question_may_be_refused_and_others_have_no_progress(client):
    with client.websocket_connect("/api/ws") as line:
        line.send_text(json.dumps({"id": 1, "ask": {**LONG, "rate": -1}, "progress": True}))
        assert "rate" in json.loads(line.receive_text())["error"]
        line.send_text(json.dumps({"id": 2, "ask": {"kind": "inspect", "model": "llama-3.1-8b"}, "progress": True}))
        assert json.loads(line.receive_text())["report"]["layers"] == 32


def test_ten_million_requests_are_for_the_command_line(client):
    """Whatever the page is asked for, the answer comes at once: here a refusal that says what to do."""
    ask = {**LONG, "requests": 10**7}
    said = client.post("/api/ask", json={"ask": ask}).json()["error"]
    assert "10,000,000" in said
    assert "rooflab simulate" in said


def test_bad_questions_are_errors_in_words(client):
    reply = client.post(
        "/api/ask", json={"ask": {"kind": "estimate", "model": "llama-3.1-8b", "on": "h100", "bacth": 3}}
    )
    assert reply.status_code == 200
    assert "bacth" in reply.json()["error"]


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../../secrets.json", "~/config.json", "./pyproject.toml", "C:\\config.json", "pyproject.toml"],
)
def test_no_file_of_this_machine_is_read_over_the_network(client, name):
    for field, other in (("model", {"on": "h100"}), ("on", {"model": "llama-3.1-8b"})):
        reply = client.post("/api/ask", json={"ask": {"kind": "estimate", field: name, **other}}).json()
        assert "files are not read here" in reply["error"]
    simulate = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100", "trace": name}
    assert "files are not read here" in client.post("/api/ask", json={"ask": simulate}).json()["error"]


def test_other_sites_may_not_ask(client):
    """Another origin, or a name that only resolves to this machine, is refused; both transports."""
    ask = {"ask": {"kind": "catalog", "what": "profiles"}}
    assert client.post("/api/ask", json=ask, headers={"Origin": "http://elsewhere.example"}).status_code == 403
    assert client.post("/api/ask", json=ask, headers={"Host": "rebound.example"}).status_code == 403
    assert client.post("/api/ask", json=ask, headers={"Origin": "http://127.0.0.1"}).status_code == 200
    for broken in ("[::1", "127.0.0.1.elsewhere.example", "", "127.1", "2130706433"):
        assert client.post("/api/ask", json=ask, headers={"Host": broken}).status_code == 403
    for broken in ("http://[::1", "null", "http://127.0.0.1:1", "127.0.0.1"):
        assert client.post("/api/ask", json=ask, headers={"Origin": broken}).status_code == 403
    preflight = {"Origin": "http://elsewhere.example", "Access-Control-Request-Method": "POST"}
    reply = client.options("/api/ask", headers=preflight)
    assert reply.status_code == 403
    assert not [name for name in reply.headers if name.startswith("access-control-allow")]
    refused = client.websocket_connect("/api/ws", headers={"Origin": "http://elsewhere.example"})
    with pytest.raises(WebSocketDisconnect), refused as line:
        line.receive_text()


def test_a_large_body_is_refused(client):
    body = {"ask": {"kind": "inspect", "model": {"x": "y" * 2_100_000}}}
    assert client.post("/api/ask", json=body).status_code == 413
    pieces = (b"y" * 100_000 for _ in range(30))  # chunked: no length is said beforehand
    assert client.post("/api/ask", content=pieces, headers={"Content-Type": "application/json"}).status_code == 413


@pytest.mark.parametrize(
    "path", ["/../../pyproject.toml", "/%2e%2e/%2e%2e/pyproject.toml", "/assets/../../__init__.py", "/.stamp/../app.py"]
)
def test_paths_stay_inside_the_page(client, path):
    assert client.get(path).status_code == 404


def test_a_page_that_is_built_again_is_served_without_a_restart(built, tmp_path, monkeypatch, capsys):
    """What the page names is there, whichever is the newest; while a new one is being written the one before stands."""
    import shutil

    from litestar.testing import TestClient

    from rooflab.web import built as module
    from rooflab.web.app import create

    shutil.copytree(built.out, tmp_path / "page", ignore=shutil.ignore_patterns("pyodide", "py"))
    monkeypatch.setattr(module, "PAGE", tmp_path / "page")
    index, stored = tmp_path / "page/index.html", module.stored()
    with TestClient(create(), base_url="http://127.0.0.1") as client:
        before = client.get("/").text
        script = re.search(r"assets/core-[^\"]+\.js|assets/index-[^\"]+\.js", before).group(0)
        again = index.read_text().replace(script, "assets/again.js")
        (tmp_path / "page" / script).rename(tmp_path / "page/assets/again.js")
        index.unlink()
        assert client.get("/").text == before
        index.write_text("half a page")
        assert client.get("/").text == before
        index.write_text(again)
        after = client.get("/").text
        assert 'src="./assets/again.js"' in after or 'href="./assets/again.js"' in after
        assert stored in after
        assert 'content="server"' in after
        assert client.get("/assets/again.js").status_code == 200
        assert client.get("/assets/../../pyproject.toml").status_code == 404
        assert capsys.readouterr().err.count("is another now") == 1


def test_a_name_no_file_can_have_is_not_there(client):
    assert client.get("/%00").status_code == 404
    assert client.get("/" + "a" * 60_000).status_code == 404
    assert client.get("/.stamp").status_code == 404


def test_json_deeper_than_can_be_read_is_refused(client):
    response = client.post("/api/ask", content="[" * 100_000, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert "Traceback" not in response.text


def test_files_have_their_types(client, built):
    for name, kind in (("pyodide/pyodide.asm.wasm", "application/wasm"), ("pyodide/pyodide.mjs", "text/javascript")):
        assert client.get(f"/{name}").headers["content-type"].startswith(kind)
    home = client.get("/")
    assert home.headers["content-type"].startswith("text/html")
    assert 'content="server"' in home.text


def test_the_api_is_described(client):
    """The OpenAPI page fetches nothing from elsewhere."""
    page = client.get("/api/schema").text
    assert "/api/ask" in page
    assert not re.search(r"""(src|href)=['"]https?://""", page)
    assert "/api/ask" in client.get("/api/schema/openapi.json").json()["paths"]


def test_stored_reports_cannot_end_their_script():
    from rooflab.web.built import stored

    assert "<" not in stored()
    assert [pair[0]["kind"] for pair in json.loads(stored())][:2] == ["estimate", "estimate"]


def test_a_site_holds_all_it_needs(built, tmp_path):
    """Nothing in it names another host; what Pyodide loads is there; the engine's zip has no part a browser lacks."""
    from rooflab.units import InputError
    from rooflab.web import site

    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        site(tmp_path / "file" / "out")
    out = site(tmp_path / "out")
    for name in (
        "index.html",
        "pyodide/pyodide.asm.wasm",
        "pyodide/python_stdlib.zip",
        "py/msgspec.whl",
        "py/rooflab.zip",
    ):
        assert (out / name).stat().st_size > 0
    assert 'content="browser"' in (out / "index.html").read_text()
    own = [path for path in (out / "assets").iterdir() if path.suffix in (".js", ".css")]
    for path in own:
        assert not re.search(r"(fetch|import|url)\(\s*[\"']?https?://", path.read_text()), path.name
    names = zipfile.ZipFile(out / "py/rooflab.zip").namelist()
    assert "rooflab/api/__init__.py" in names
    assert not [name for name in names if name.split("/")[1] in ("cli", "web", "measure")]
    (out / "assets/Step-0ld.js").write_text("an earlier page's")
    (out / "assets/notes.txt").write_text("the reader's own")
    site(out)  # again, into the same folder
    assert not (out / "assets/Step-0ld.js").exists()
    assert (out / "assets/notes.txt").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("x")
    with pytest.raises(InputError, match="new folder"):
        site(tmp_path / "mine")


def test_the_first_script_and_style_stay_small(built):
    """Under 250 kB of our own; views that come later load when they are opened."""
    index = (built.out / "index.html").read_text()
    first = [built.out / name for name in re.findall(r"""(?:src|href)="\./(assets/[^"]+\.(?:js|css))""", index)]
    assert first
    assert sum(path.stat().st_size for path in first) < 250_000


def test_pyodide_is_the_same_everywhere():
    """The page and the check of the engine in Pyodide pin one version."""
    pins = [
        json.loads((ROOT / folder / "package.json").read_text())["dependencies"]["pyodide"]
        for folder in ("page", "tests/pyodide")
    ]
    assert len(set(pins)) == 1


def test_the_page_is_built_only_when_its_sources_change(hook, tmp_path, monkeypatch):
    page = hook.Page(tmp_path)
    (tmp_path / "page").mkdir()
    (tmp_path / "page/main.ts").write_text("1")
    page.out.mkdir(parents=True)
    page.stamp.write_text(page.digest())
    assert page.fresh()
    (tmp_path / "page/node_modules").mkdir()
    (tmp_path / "page/node_modules/x.js").write_text("1")
    assert page.fresh()
    (tmp_path / "page/main.ts").write_text("2")
    assert not page.fresh()
    monkeypatch.setenv("ROOFLAB_SKIP_UI", "1")
    assert page.ensure() == ""
    monkeypatch.delenv("ROOFLAB_SKIP_UI")
    why = page.ensure()  # there is no package-lock.json, so it cannot be built
    assert why.startswith("the page could not be built")
    assert "\n" not in why
    assert page.failure.read_text().strip() == why


@pytest.mark.parametrize(
    "script",
    [
        ["svelte-check/bin/svelte-check", "--tsconfig", "./tsconfig.json", "--threshold", "warning"],
        ["vitest/vitest.mjs", "run"],
    ],
    ids=["types", "vitest"],
)
def test_the_page_passes_its_own_checks(built, script):
    node, _ = built.node()
    command = [node, f"node_modules/{script[0]}", *script[1:]]
    done = subprocess.run(
        command, cwd=built.source, capture_output=True, text=True, timeout=300, env={**os.environ, "NO_COLOR": "1"}
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_serve_listens_on_this_machine_and_stops_on_ctrl_c(built):
    """Nothing but this machine may ask; Ctrl-C ends it without a word, even in the middle of an answer."""
    import signal

    from websockets.sync.client import connect

    command = [sys.executable, "-m", "rooflab", "serve", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        line = server.stdout.readline()
        host, port = re.search(r"http://([\d.]+):(\d+)/", line).groups()
        assert host == "127.0.0.1"
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        line = http.client.HTTPConnection(host, int(port), timeout=60)
        line.request("GET", "/api/health")
        assert json.loads(line.getresponse().read())["engine"] == "server"
        line.close()
        long = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "requests": 200_000, "rate": 5.0}
        with connect(f"ws://{host}:{port}/api/ws") as reader:  # stopped while it answers, too
            reader.send(json.dumps({"id": 1, "ask": long, "progress": True}))
            assert "progress" in json.loads(reader.recv(timeout=60))
            server.send_signal(signal.SIGINT)
            _, complaints = server.communicate(timeout=60)
        assert "Traceback" not in complaints
        assert "Disconnected" not in complaints
        assert server.returncode in (0, 130)
    finally:
        server.kill()


def test_serve_says_when_the_host_is_another_machine():
    """A documentation address (RFC 5737) is nobody's: the host is named, not the port."""
    from rooflab.units import InputError
    from rooflab.web.app import free_port

    with pytest.raises(InputError, match=r"host: '192\.0\.2\.1' is no address of this machine"):
        free_port("192.0.2.1", 0)


def test_serve_says_when_a_port_is_taken(built):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "rooflab", "serve", "--no-browser", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 2
    assert "leave it out for a free one" in done.stderr


# ------------------------------------------------------------------------------------------------ saved scenarios


RECORD = {"name": "FP8", "ask": SCENARIO, "digest": {"tpot": 0.02}, "version": "0.1.0", "time": "2026-01-31T12:00:00Z"}


@pytest.fixture
def keeping(built, tmp_path):
    """A client of a server with a store, and the store."""
    from litestar.testing import TestClient

    from rooflab.store import Store
    from rooflab.web.app import create

    store = Store(tmp_path / "scenarios.sqlite3")
    with TestClient(create(store=store), base_url="http://127.0.0.1") as found:
        yield found, store


def test_what_the_page_saves_the_command_line_compares(keeping, capsys):
    """E-23: one store; saved over the network, compared and renamed on the command line, deleted over the network."""
    from rooflab.api import answer
    from rooflab.cli import main

    client, store = keeping
    assert client.get("/api/saved").json() == {"where": str(store.path)}
    assert client.post("/api/saved", json={"records": [RECORD]}).json()["names"] == ["FP8"]
    assert client.post("/api/saved", json={"records": [RECORD]}).json()["names"] == ["FP8 2"]
    assert main(["compare", "FP8", "FP8 2", "--json", "--store", str(store.path)]) == 0
    report = json.loads(capsys.readouterr().out)
    tpot = next(row["values"] for row in report["rows"] if row["key"] == "tpot")
    assert tpot == [answer({"kind": "estimate", **SCENARIO})["tpot"]] * 2
    assert main(["saved", "rename", "FP8 2", "mine", "--store", str(store.path)]) == 0
    assert [each["name"] for each in client.get("/api/saved").json()["saved"]] == ["FP8", "mine"]
    assert client.post("/api/saved/rename", json={"name": "mine", "to": "yours"}).json()["names"] == ["yours"]
    left = client.post("/api/saved/delete", json={"names": ["FP8"]}).json()["saved"]
    assert left == [{**RECORD, "name": "yours"}]
    again = {**RECORD, "name": "yours", "version": "0.2.0"}
    assert client.post("/api/saved", json={"records": [again], "replace": True}).json()["saved"] == [again]


@pytest.mark.parametrize(
    "path, body, says",
    [
        ("", {"records": [{**RECORD, "name": "a\nb\u202e"}]}, "cannot be seen"),
        ("", {"records": [{**RECORD, "ask": {**SCENARIO, "model": "/etc/passwd"}}]}, "files are not read here"),
        ("", {"records": [{**RECORD, "ask": {**SCENARIO, "colour": 1}}]}, "colour"),
        ("", {"records": [{**RECORD, "version": "<b>"}]}, "version"),
        ("/rename", {"name": "nothing", "to": "x"}, "is not saved"),
        ("/delete", {"names": ["nothing"]}, "is not saved"),
    ],
)
def test_what_cannot_be_kept_is_an_error_in_words(keeping, path, body, says):
    client, store = keeping
    reply = client.post(f"/api/saved{path}", json=body)
    assert reply.status_code == 200
    assert says in reply.json()["error"]
    assert store.all() == []


def test_what_another_program_changed_is_shown_with_the_refusal(keeping):
    """Renamed or deleted on the command line meanwhile: said, and the list is the newest."""
    client, store = keeping
    client.post("/api/saved", json={"records": [RECORD]})
    store.rename("FP8", "elsewhere")
    for path, body in (("/rename", {"name": "FP8", "to": "x"}), ("/delete", {"names": ["FP8"]})):
        reply = client.post(f"/api/saved{path}", json=body).json()
        assert "is not saved" in reply["error"]
        assert [each["name"] for each in reply["saved"]] == ["elsewhere"]


@pytest.mark.parametrize("path", ["", "/rename", "/delete"])
def test_other_sites_may_not_keep_or_forget(keeping, path):
    client, store = keeping
    client.post("/api/saved", json={"records": [RECORD]})
    body = {"": {"records": [RECORD]}, "/rename": {"name": "FP8", "to": "x"}, "/delete": {"names": ["FP8"]}}[path]
    for headers in ({"Origin": "http://elsewhere.example"}, {"Host": "rebound.example"}, {"Origin": "null"}):
        assert client.post(f"/api/saved{path}", json=body, headers=headers).status_code == 403
    assert client.get("/api/saved", headers={"Host": "rebound.example"}).status_code == 403
    assert len(store.all()) == 1
    assert client.post("/api/saved", json={"records": [RECORD], "colour": 1}).status_code == 400
    assert client.post("/api/saved", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    big = {**RECORD, "ask": {**SCENARIO, "model": {"x": "y" * 4_100_000}}}
    assert client.post("/api/saved", json={"records": [big]}).status_code == 413


def test_a_damaged_store_is_said_and_nothing_else_stops(keeping):
    client, store = keeping
    store.path.write_bytes(b"not a database at all" * 100)
    assert "holds no saved scenarios" in client.get("/api/saved").json()["error"]
    assert client.get("/api/health").status_code == 200


def test_a_server_for_others_keeps_nothing(client):
    """Without a store readers keep their own."""
    assert client.get("/api/saved").json() == {}
    assert "stay in your browser" in client.post("/api/saved", json={"records": [RECORD]}).json()["error"]


@pytest.mark.parametrize("kind", ["snapshot", "document", "compare"])
def test_no_file_is_read_inside_a_question_of_questions(client, kind):
    scenario = {**SCENARIO, "model": "/etc/passwd"}
    ask = (
        {"kind": kind, "cases": [{"name": "a", "scenario": scenario}]}
        if kind == "compare"
        else {"kind": kind, "scenario": scenario}
    )
    assert "files are not read here" in client.post("/api/ask", json={"ask": ask}).json()["error"]
    if kind == "document":
        both = {"kind": kind, "scenario": SCENARIO, "baseline": {**SCENARIO, "on": "/etc/machine.toml"}}
        assert "files are not read here" in client.post("/api/ask", json={"ask": both}).json()["error"]
