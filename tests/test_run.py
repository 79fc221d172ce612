"""run.py on machines it has not met: a stand-in for the venv's Python says what it was asked to do."""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")

STAND_IN = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/../../asked"
case "$*" in *"pip install"*) {pip} ;; *rooflab*) exit 7 ;; esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A copy of what run.py needs, in a path with a space, with a stand-in venv whose pip succeeds."""
    root = tmp_path / "my checkout"
    (root / ".venv/bin").mkdir(parents=True)
    for name in ("run.py", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, root / name)
    stand_in(root, "exit 0")
    return root


def stand_in(root: Path, pip: str) -> None:
    python = root / ".venv/bin/python"
    python.write_text(STAND_IN.format(pip=pip))
    python.chmod(0o755)


def run(root: Path, *args: str) -> subprocess.CompletedProcess:
    (root / "asked").write_text("")
    command = [sys.executable, root / "run.py", *args]
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background job starts deaf to Ctrl-C
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, preexec_fn=listen)


def asked(root: Path) -> list[str]:
    return (root / "asked").read_text().splitlines()


def test_installs_once_then_becomes_the_program(checkout):
    first = run(checkout, "sweep", "--help")
    assert first.returncode == 7  # the program's own exit code
    installs = [line for line in asked(checkout) if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert installs[0].endswith("requirements.lock")
    assert installs[1].endswith(f"-e {checkout}")

    assert run(checkout, "sweep", "--help").returncode == 7
    assert asked(checkout) == ["-m rooflab sweep --help"]
    assert run(checkout, "rooflab", "sweep").returncode == 7
    assert asked(checkout) == ["-m rooflab sweep"]


def test_installs_again_when_the_pins_or_the_place_change(checkout):
    run(checkout, "x")
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    run(checkout, "x")
    assert any("pip install" in line for line in asked(checkout))
    moved = checkout.rename(checkout.with_name("elsewhere"))
    run(moved, "x")
    assert any("pip install" in line for line in asked(moved))


def test_a_failed_installation_is_one_clear_line_and_is_tried_again(checkout):
    run(checkout, "x")
    (checkout / "requirements.lock").write_text("changed")
    stand_in(checkout, "echo 'ERROR: No matching distribution found for numpy' >&2; exit 1")
    failed = run(checkout, "x")
    assert failed.returncode == 1
    complaint = failed.stderr.splitlines()[-1]
    assert "No matching distribution found for numpy" in complaint
    assert "index" in complaint
    assert "Traceback" not in failed.stderr
    assert not list((checkout / ".venv").glob(".rooflab-*"))  # not even the old stamp

    stand_in(checkout, "exit 0")
    assert run(checkout, "x").returncode == 7


def test_an_interrupted_installation_is_tried_again(checkout):
    stand_in(checkout, "kill -INT $PPID; sleep 1")
    interrupted = run(checkout, "x")
    assert interrupted.returncode == 130
    assert "Traceback" not in interrupted.stderr
    assert not list((checkout / ".venv").glob(".rooflab-*"))


def test_check_runs_everything_and_says_what_failed(checkout):
    stand_in(checkout, "exit 0")
    python = checkout / ".venv/bin/python"
    python.write_text(python.read_text() + 'case "$*" in *pyright*) exit 1 ;; esac\n')
    done = run(checkout, "test")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "failed: pyright"
    ran = "\n".join(asked(checkout))
    assert all(tool in ran for tool in ("requirements-dev.lock", "ruff", "pyright", "importlinter", "pytest -n 2"))
    assert run(checkout, "test", "tests/test_units.py", "-x").returncode == 0
    assert asked(checkout) == ["-m pytest tests/test_units.py -x"]
    assert run(checkout, "x").returncode == 7  # the development pins hold all the others: nothing to install
    assert asked(checkout) == ["-m rooflab x"]


def test_the_checkout_may_lie_in_a_folder_of_any_letters(checkout, tmp_path):
    """F-10: a venv's Python reads where the checkout is in the locale's encoding, which under LC_ALL=C is ASCII."""
    moved = tmp_path / "büro 日本"
    checkout.rename(moved)
    packages = moved / ".venv/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    link = packages / "_rooflab.pth"
    link.write_text(str(moved / "src"), encoding="utf-8")
    assert run(moved, "estimate").returncode == 7
    assert link.read_text(encoding="ascii") == "../../../../src"
