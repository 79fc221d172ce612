#!/usr/bin/env python3
"""One command on a bare machine; standard library only.

python3 run.py            install into .venv beside this file, show an example estimate and open the page
python3 run.py test …     install the development pins too, then run every check (or pytest alone, on what follows)
python3 run.py ARGS…      the same as `rooflab ARGS…`

Needs Python 3.11 or newer and, the first time, a package index.
"""

import os
import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - this file is what meets an old Python
    sys.exit("RoofLab needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Use a newer one.")

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
SCRIPTS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = SCRIPTS / ("python.exe" if os.name == "nt" else "python")
LOCKS = {"run": ROOT / "requirements.lock", "test": ROOT / "requirements-dev.lock"}
EXAMPLE = "rooflab estimate llama-3.1-8b --on h100-sxm --batch 32 --prompt 1024 --output 256"
PAGE_FAILED = ROOT / "src/rooflab/web/.page-failed"
CHECKS = {
    "ruff": ["-m", "ruff", "check", "--output-format=concise"],
    "pyright": ["-m", "pyright"],
    "import rules": ["-c", "from importlinter.cli import lint_imports_command as lint; lint(['--no-logo'])"],
    "requirements": ["tools/requirements.py", "--check"],
    "pytest": ["-m", "pytest", "-n", "2", "--dist", "worksteal"],
}


def main(args):
    if args[:1] == ["test"]:
        install("test")
        return test(args[1:])
    install("run")
    if args:
        return become("-m", "rooflab", *(args[1:] if args[0] == "rooflab" else args))
    code = call(PYTHON, "-m", "rooflab", *EXAMPLE.split()[1:])
    print("\nThat was: " + EXAMPLE + "\nMore: python3 run.py --help", flush=True)
    if code or PAGE_FAILED.exists():
        return code
    return become("-m", "rooflab", "serve")


def test(args):
    """Run every check, even after one fails; with arguments, pytest alone. 0 when all pass."""
    os.chdir(ROOT)
    if args:
        return become("-m", "pytest", *args)
    failed = []
    for name, check in CHECKS.items():
        print("== " + name, flush=True)
        if call(PYTHON, *check):
            failed.append(name)
    print("failed: " + ", ".join(failed) if failed else "every check passed", flush=True)
    return 1 if failed else 0


def install(kind):
    """Make .venv hold the pinned packages and this checkout. A stamp, written last, says that it does."""
    kinds = ["run", "test"] if kind == "test" else ["run"]  # the development pins hold all the others
    stamps = {VENV / (".rooflab-" + each): digest(LOCKS[each]) for each in kinds}
    if PYTHON.exists() and all(stamp.exists() and stamp.read_text() == want for stamp, want in stamps.items()):
        return
    if not works(PYTHON, "import sys; sys.exit(sys.version_info < (3, 11))"):
        make_venv()
    for stamp in VENV.glob(".rooflab-*"):
        stamp.unlink()
    pip = pip_for_venv()
    say("installing pinned packages into " + str(VENV) + ", once")
    pip_install(pip, "--require-hashes", "-r", LOCKS[kind])
    pip_install(pip, "--no-build-isolation", "--no-deps", "-e", ROOT)
    for link in (VENV / "lib").glob("**/*rooflab*.pth"):  # plain letters: Python reads it in the locale's encoding
        link.write_text(os.path.relpath(ROOT / "src", link.parent))
    for stamp, want in stamps.items():
        stamp.write_text(want)
    if PAGE_FAILED.exists():
        say(PAGE_FAILED.read_text(errors="replace").strip() + "; everything but `rooflab serve` and `site` works")


def digest(lock):
    """What an installation depends on: where the checkout lies (the venv records it), its metadata and the pins."""
    import hashlib

    parts = [os.fsencode(ROOT), (ROOT / "pyproject.toml").read_bytes(), lock.read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def make_venv():
    """A fresh .venv, without pip where this Python cannot give it one (Debian splits ensurepip off)."""
    command = [sys.executable, "-m", "venv", "--clear", VENV]
    if works(sys.executable, "import ensurepip"):
        must(call(*command) == 0, "could not make " + str(VENV))
    else:
        must(works(sys.executable, "import pip"), "this Python has no pip; on Debian: apt-get install python3-venv")
        must(call(*command, "--without-pip") == 0, "could not make " + str(VENV))


def pip_for_venv():
    """The venv's own pip; where it has none, this Python's pip working on the venv."""
    if not works(PYTHON, "import pip") and works(PYTHON, "import ensurepip"):
        call(PYTHON, "-m", "ensurepip")
    if works(PYTHON, "import pip"):
        return [PYTHON, "-m", "pip"]
    must(works(sys.executable, "import pip"), "this Python has no pip; on Debian: apt-get install python3-venv")
    return [sys.executable, "-m", "pip", "--python", PYTHON]


def pip_install(pip, *args):
    import subprocess

    log = VENV / "install.log"
    with log.open("w") as out:
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "2"]
        code = subprocess.call([*pip, "install", *options, *args], stdout=out, stderr=subprocess.STDOUT)
    errors = [line for line in log.read_text(errors="replace").splitlines() if line.upper().startswith("ERROR")]
    why = errors[-1] if errors else "exit status " + str(code)
    must(code == 0, "pip: " + why + " (all of it: " + str(log) + "). Is a package index reachable? Then try again")


def become(*args):
    """Turn into the venv's Python, so that signals, exit codes and the terminal are the program's own."""
    if os.name == "nt":
        return call(PYTHON, *args)
    os.execv(PYTHON, [str(PYTHON), *args])


def call(*command):
    import subprocess

    return subprocess.call(command)


def works(python, code):
    import subprocess

    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def must(true, complaint):
    if not true:
        sys.exit("run.py: " + complaint + ".")


def say(text):
    print("run.py: " + text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
