"""Fetch the WebAssembly build of msgspec that Pyodide loads, once, checked against the hash in page/wheels.txt.

python tests/pyodide/fetch.py    prints where it lies
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
PIN = HERE.parent.parent / "page/wheels.txt"
TARGET = ["--platform", "pyemscripten_2026_0_wasm32", "--python-version", "3.14", "--implementation", "cp"]


def wheel() -> Path:
    """The wheel's path. Raises RuntimeError with pip's own words where it cannot be had."""
    name, _, sha256 = re.split(r"==| --hash=sha256:", PIN.read_text(encoding="utf-8").strip())
    for path in CACHE.glob(f"{name}-*.whl"):
        if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
        path.unlink()
    options = ["--quiet", "--require-hashes", "--only-binary=:all:", "--no-deps", *TARGET, "--abi", "cp314"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(CACHE), "-r", str(PIN)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:]
        raise RuntimeError(f"could not fetch {name} for Pyodide (needs pip >= 26.3 and a package index): {reason}")
    return next(CACHE.glob(f"{name}-*.whl"))


if __name__ == "__main__":
    print(wheel())
