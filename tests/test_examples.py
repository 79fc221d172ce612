"""The examples: each runs by itself and prints what its .out file shows."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def test_there_are_some():
    assert len(EXAMPLES) >= 3
    assert {path.stem for path in EXAMPLES} == {path.stem for path in FOLDER.glob("*.out")}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_prints_what_it_says(path):
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == path.with_suffix(".out").read_text(encoding="utf-8")
