"""What is thrown at the page: scripts in names, files that are too large or are none, links that are garbage."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = json.loads((ROOT / "src/rooflab/catalog/models/qwen3-8b.json").read_text())
SCRIPTS = [
    "<script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "\"><svg onload=document.title='run'>",
    "javascript:document.title='run'",
    "{{constructor.constructor('document.title=1')()}}",
]


def drop(page, name, script):
    """Drop a file on the page, made by a script there: large ones are not sent to the browser byte by byte."""
    page.evaluate(
        """([name, script]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Function("return " + script)()], name, { type: "application/json" }));
            window.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        [name, script],
    )


def calm(page):
    """The page still works, and nothing has run in it."""
    assert page.title().endswith("RoofLab")
    assert page.locator("script:not([src]):not([type='application/json'])").count() == 0
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find or change").fill("batch 16")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('-b16')")


@pytest.mark.parametrize("name", SCRIPTS, ids=range(len(SCRIPTS)))
def test_names_of_models_run_nothing(reader, served, name):
    """In the model's own name, its architecture, its type, and as the name of the file."""
    page = reader().open(served)
    config = {**CONFIG, "_name_or_path": name, "name": name, "architectures": [name]}
    drop(page, f"{name[:20]}.json", json.dumps(json.dumps(config)))
    page.wait_for_function(
        "(name) => document.querySelector('[data-segment=model] .v')?.textContent === name", arg=name
    )
    for view in ("fit", "limits", "evidence", "step"):
        page.evaluate("(view) => { location.hash = location.hash.replace(/^#.[a-z]+/, '#/' + view) }", view)
        page.wait_for_function("view => document.title.toLowerCase().startsWith(view)", arg=view)
        page.wait_for_selector("#finding b")
    drop(page, "type.json", json.dumps(json.dumps({**CONFIG, "model_type": name})))
    page.wait_for_function("() => document.querySelector('.toast')?.textContent.includes('type.json')")
    calm(page)


@pytest.mark.parametrize(
    "script, words",
    [
        ("'x'.repeat(100e6)", "a config.json is a few kB"),
        ("'[' .repeat(100000)", "not JSON"),
        ("'{\"a\":'.repeat(20000) + '1' + '}'.repeat(20000)", "deep.json"),
        ("new Uint8Array([0, 255, 254, 1, 2, 3])", "not JSON"),
        ("''", "is empty"),
        ("'<!doctype html><title>config.json</title>'", "is a web page"),
        ('\'{"hidden_size": 4096, "rope_theta": NaN}\'', "holds NaN or Infinity"),
        ('\'{"hidden_size": 4096, "a": {"hidden_size": 1}, "hidden_size": 5120}\'', "“hidden_size” twice"),
        (json.dumps(json.dumps({**CONFIG, "num_hidden_layers": 10_000})), "num_hidden_layers = 10000 is outside"),
        ("'null'", "not a config.json"),
        ('\'{"__proto__": {"x": 1}, "constructor": 5}\'', "deep.json"),
        (
            '\'{"model_type": "llama", "hidden_size": 1e308, "num_hidden_layers": -5, "vocab_size": "many"}\'',
            "deep.json",
        ),
    ],
    ids=[
        "100 MB",
        "brackets",
        "nested",
        "bytes",
        "empty",
        "page",
        "NaN",
        "twice",
        "layers",
        "null",
        "prototype",
        "nonsense",
    ],
)
def test_files_that_are_no_config_are_refused_in_words(reader, served, script, words):
    """F-02: at once, in a line that names the file, and the scenario stays."""
    page = reader().open(served)
    before = page.get_attribute("[data-kpi=tpot]", "title")
    drop(page, "deep.json", script)
    page.wait_for_selector("[role=alert]")
    assert words in page.inner_text("[role=alert]")
    assert page.get_attribute("[data-kpi=tpot]", "title") == before
    calm(page)


LINKS = [
    "#/step?mx=~AAAA",
    "#/step?mx=~" + "A" * 5000,
    "#/step?mx=%7B%22model_type%22%3A",
    "#/step?sx=%7B%22device%22%3A%7B%7D%7D",
    "#/step?m=" + "a" * 5000,
    "#/step?m=../../../etc/passwd&s=/etc/passwd",
    "#/fit?l=tp99999999&w=99999999999-1-b0&tab=<script>&rank=-1e99&tensor=%00",
    "#/limits?flops=NaN&bandwidth=-1&w=1-1-b1&m=llama-3.1-8b&s=h100-sxm",
    "#/evidence?family=__proto__&machine=constructor&box=1,2,x&limit=" + "9" * 300,
    "#/step?vs=m:%3Cimg%20src=x%20onerror=alert(1)%3E|zz|w:|l:tp0&sel=op:%3Cscript%3E",
    "#/step?f=operator;compute_efficiency=9e99;prices=../../x",
    "#/%2e%2e/%00?%=%&&&===",
    "#/step?m=__proto__&l=constructor_x-toString9&p=wconstructorkvtoString&sel=op:constructor",
    "#/design?knob=constructor&where=-1",
]


@pytest.mark.parametrize("link", LINKS, ids=range(len(LINKS)))
def test_garbage_links_are_answered_in_words(reader, served, link):
    """A finding stands, no dialog opens, and the next change works."""
    one = reader()
    opened = []
    one.page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    page = one.open(served + link)
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.trim().length > 10")
    page.wait_for_function("() => document.querySelector('#finding')?.textContent.includes('Reading') === false")
    assert not opened
    for word in ("Traceback", "[object", "native code"):
        assert word not in page.inner_text("body")
    page.evaluate("location.hash = '#/step?m=qwen3-8b&s=h100-sxm&w=1024-128-b8'")
    page.wait_for_function("() => /^\\d/.test(document.querySelector('[data-kpi=tpot]')?.title ?? '')")


def test_a_large_config_comes_back_from_its_link(reader, served):
    """A-030: an imported config travels packed in the address, and the link shows the same numbers."""
    one = reader()
    page = one.open(served)
    names = [f"model.layers.{n}.mlp.experts.{m}.down_proj" for n in range(60) for m in range(500)]
    big = {**CONFIG, "num_hidden_layers": 35, "_name_or_path": "größer", "ignored": names}
    assert 1_300_000 < len(json.dumps(big)) < 1_900_000
    drop(page, "config.json", json.dumps(json.dumps(big)))
    page.wait_for_function(
        "() => document.querySelector('.toast')?.textContent.includes('Layout set to')"
    )  # with the model
    page.wait_for_function("() => location.hash.includes('mx=')")
    one.still()
    assert len(page.evaluate("location.href")) < 600  # what makes no difference does not travel
    again = reader()
    again.open(page.evaluate("location.href"))
    again.page.wait_for_function(
        "(want) => document.querySelector('[data-kpi=memory]')?.title === want",
        arg=page.get_attribute("[data-kpi=memory]", "title"),
    )


@pytest.fixture
def mortal(built, tmp_path):
    """A server that can be killed and started again at the same address: (address, kill, start)."""
    running = []

    def start(port="0"):
        command = [
            sys.executable,
            "-m",
            "rooflab",
            "serve",
            "--no-browser",
            "--store",
            str(tmp_path / "s"),
            "--port",
            port,
        ]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
        return re.search(r"http://\S+/", next(line for line in running[-1].stdout if "http" in line)).group(0)

    def kill():
        last = running.pop()
        last.kill()
        last.wait(20)
        last.stdout.close()

    address = start()
    yield address, kill, lambda: start(address.rstrip("/").rpartition(":")[2])
    while running:
        kill()


def test_what_was_asked_while_the_server_was_away_is_asked_again(reader, mortal):
    """Nothing of the scenario before stays once the engine is back; a view whose files did not come can be fetched again."""
    address, kill, start = mortal
    one = reader()
    page = one.open(address + "#/step?m=qwen3-8b&s=h100-sxm&w=1000-100-b3")
    before = page.get_attribute("[data-kpi=tpot]", "title")
    kill()
    page.wait_for_selector("[data-status=failed]")
    page.evaluate("location.hash = '#/step?m=llama-3.1-8b&s=h100-sxm&w=4000-100-b7'")
    page.wait_for_function("() => document.querySelector('[data-segment=model] .v')?.textContent.includes('Llama')")
    page.wait_for_selector("[data-status=failed]")
    page.evaluate("location.hash = location.hash.replace('step', 'limits')")
    page.wait_for_selector("text=Limits could not be loaded")
    start()
    page.locator(".notice", has_text="does not answer").get_by_role("button", name="Try again").click()
    page.wait_for_selector("[data-status=ready]")
    page.locator(".notice", has_text="could not be loaded").get_by_role("button", name="Try again").click()
    page.wait_for_selector("#finding")
    page.evaluate("location.hash = location.hash.replace('limits', 'step')")
    page.wait_for_function(
        "before => document.querySelector('[data-kpi=tpot]') && document.querySelector('[data-kpi=tpot]').title !== before",
        arg=before,
    )
    page.wait_for_selector("[role=alert]", state="detached")
    one.wrong.clear()  # the browser's own words on a server that is away


def test_what_the_browser_kept_may_be_damaged(reader, served):
    """Of another kind than what was written there, it is as if nothing had been kept."""
    one = reader()
    one.context.add_init_script("""for (const name of ["last", "baselineName", "columns", "keys", "saved", "theme"])
        localStorage.setItem("rooflab." + name, JSON.stringify(name === "columns" ? { Tensors: 5 } : [{ name: 5 }, null]));""")
    page = one.open(served)
    assert page.locator("[data-segment=model] .v").inner_text() == "Llama-3.1-70B"
    page.evaluate("location.hash = '#/fit'")
    page.wait_for_selector("text=Layout map")
    calm(page)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_config_is_read_in_its_own_encoding(reader, served, encoding):
    """A-030: editors and Windows' shells put a mark before the text, or write UTF-16."""
    page = reader().open(served)
    text = json.dumps({**CONFIG, "_name_or_path": "größer"}, ensure_ascii=False)
    raw = text.encode(encoding) if encoding != "utf-16-be" else b"\xfe\xff" + text.encode(encoding)
    drop(page, "config.json", f"new Uint8Array({json.dumps(list(raw))})")
    page.wait_for_function("() => document.querySelector('[data-segment=model] .v')?.textContent === 'größer'")


DROPS = """(files) => {
    const data = new DataTransfer();
    for (const [name, text] of files) data.items.add(new File([text], name));
    dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
}"""


def test_what_else_may_be_dropped_or_pasted_says_what_to_do(reader, served):
    """Several files, a folder's, text, a trace outside Serve, an address of Hugging Face, of which nothing is fetched (B-015)."""
    page = reader().open(served)
    said = "document.querySelector('[role=alert]')?.textContent.includes(words)"
    for files, words in (
        ([["a.txt", ""], ["b.txt", ""]], "2 files at once"),
        ([], "is no file"),
        ([["trace.csv", "time,prompt\n0,5\n"]], "open Serve and drop it there"),
    ):
        page.evaluate(DROPS, files)
        page.wait_for_function(f"(words) => {said}", arg=words)
    page.evaluate(DROPS, [["tokenizer.json", "{}"], ["config.json", json.dumps({**CONFIG, "_name_or_path": "mine"})]])
    page.wait_for_function("() => document.querySelector('[data-segment=model] .v')?.textContent === 'mine'")
    assert page.locator("[role=alert]").count() == 0  # what was wrong before is mended
    page.click("[data-segment=model]")
    box = page.get_by_role("combobox", name="Models")
    box.fill("https://huggingface.co/meta-llama/Llama-3.1-70B-Instruct/tree/main")
    assert page.locator(".editor [role=option]").count() == 1
    box.fill("someone/new-model-7b")
    assert "download its config.json there" in page.inner_text(".editor [role=listbox]")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find or change").fill("huggingface.co/someone/new-model-7b")
    page.wait_for_function("() => document.querySelector('#commands')?.textContent.includes('Nothing is fetched')")
