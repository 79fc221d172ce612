"""The documents: what they show is what is printed, generated ones are current, links lead somewhere, words are explained."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rooflab
from rooflab.cli import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WRITTEN = [ROOT / "README.md", ROOT / "docs/guide.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind):
    """(document, content) of every fenced block of a kind in the documents that people write."""
    return [
        (path, text)
        for path in WRITTEN
        for label, text in FENCE.findall(path.read_text(encoding="utf-8"))
        if label == kind
    ]


@pytest.mark.parametrize("tool", ["formulas", "commands", "pictures", "outputs"])
def test_generated_documents_are_current(tool):
    """`just docs` writes them: formulas.md, cli.md, the pictures, and the output that README, guide and examples show."""
    line = [sys.executable, str(ROOT / "tools" / f"{tool}.py"), "--check"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


COMMANDS = [
    line for _, text in blocks("sh") for line in text.splitlines() if line.startswith("rooflab ") and "|" not in line
]


CLAIMS = {
    r"medians of (\d+)–(\d+) % for products, 3": r"(batched_)?gemm ",
    r"(\d+)–(\d+) % for attention \(": r"(decode|prefill)_attention(_wide)? .*(?<!bf16\+fp8)$|latent_",
    r"\((\d+)–(\d+) % where bf16 queries": r"prefill_attention .*bf16\+fp8$",
    r"(\d+)–(\d+) % for experts": r"experts ",
    r"(\d+)–(\d+) % for collectives; a naive": r"(all_|reduce_scatter|custom_all_reduce )",
    r"TPOT (\d+) % off in the median for the dense": r"Qwen/Qwen3-32B .* trtllm tpot$",
    r"dense model, (\d+) % for mixtures": r"(Qwen/Qwen3-235B.*trtllm|openai.*vllm) tpot$",
}
"""Figures of the README, and the partitions of the accuracy page that each is about."""


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_readme_claims_what_was_measured(claim):
    """A-065: every median of those partitions lies within what the README says, rounded to a percent."""
    found = re.search(claim, (ROOT / "README.md").read_text(encoding="utf-8"))
    assert found
    low, high = int(found[1]), int(found[found.lastindex])
    medians = json.loads((ROOT / "data/accuracy.json").read_text(encoding="utf-8"))
    those = {name: value for name, value in medians.items() if re.match(CLAIMS[claim], name)}
    assert those
    slack = 1.0 if low == high else 0.5  # one figure stands for all of several partitions
    assert {name: value for name, value in those.items() if not low - slack <= 100 * value <= high + slack} == {}


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_documents_answer(line, capsys):
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().err == ""


def test_the_commands_that_need_a_shell_are_few():
    """What the tests above do not run: run.py (tests/test_run.py does), and one pipe (tests/test_cli.py asks a report again)."""
    lines = [line for _, text in blocks("sh") for line in text.splitlines()]
    assert all(line.startswith(("rooflab ", "python3 run.py")) for line in lines)
    assert sum("|" in line for line in lines) == 1
    assert len(COMMANDS) > 8


@pytest.mark.parametrize("text", [text for _, text in blocks("toml")])
def test_machine_files_of_the_documents_load(text, tmp_path):
    file = tmp_path / "machine.toml"
    file.write_text(text, encoding="utf-8")
    assert rooflab.estimate("llama-3.1-8b", on=file, tp=4).devices == tomllib.loads(text)["links"][0]["size"]


def anchors(path):
    """Headings of a document as links spell them."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:src|srcset)=\"([^\"]+)\"", text)
    for target in targets:
        if target.startswith("https://"):
            continue
        place, _, anchor = target.partition("#")
        file = path.parent / place if place else path
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


TERMS = """
    TTFT, TPOT, ITL, E2E, Prefill, Decode, KV cache, TP, PP, CP, DP, EP, Roofline, Arithmetic intensity, Ridge, Batch, Replica,
    MoE, Active parameters, Band, Basis, Profile, Workspace, Reserve, Critical batch, Balance context, Knee, Interactivity,
    Goodput, Collective, Number format, GiB, FLOP
"""


@pytest.mark.parametrize("term", [" ".join(term.split()) for term in TERMS.split(",")])
def test_the_glossary_explains(term):
    """D-105: the words and symbols that pages and options use."""
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    assert re.search(rf"(\*\*|\*){re.escape(term)}\b", text)


def test_every_formula_is_printed_as_it_is_evaluated():
    """formulas.md has the expression of every formula that an explanation may show."""
    from rooflab import explain
    from rooflab.estimate import end_to_end
    from rooflab.graph.formulas import matmul_flop

    text = (ROOT / "docs/formulas.md").read_text(encoding="utf-8")
    for function in (matmul_flop, end_to_end):
        assert f"{function.__name__} = {explain.expression(function)}" in text


@pytest.mark.parametrize("path", sorted((ROOT / "docs/pictures").glob("*.svg")), ids=lambda path: path.name)
def test_pictures_load_nothing(path):
    """No fonts and no files from elsewhere; the only address is the namespace."""
    import xml.etree.ElementTree as ElementTree

    text = path.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert "@font-face" not in text
