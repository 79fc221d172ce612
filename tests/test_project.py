"""The rules of the project that a reader can rely on: what may be imported, how long things are, what is never written.

Each test lists every offence as path:line, so that a failure says what to change. Import order between modules is
checked by import-linter (see pyproject.toml).
"""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "rooflab"
MODULES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SRC.rglob("*.py"))}
OUTER = {"cli", "web", "measure", "__main__"}  # may use third-party packages
BORDER = {"hf", "catalog", "api", "__init__", "load", "store"}  # may know a checkpoint by its name
CORE = {path: tree for path, tree in MODULES.items() if path.relative_to(SRC).parts[0].removesuffix(".py") not in OUTER}
INNER = {path: tree for path, tree in CORE.items() if path.relative_to(SRC).parts[0].removesuffix(".py") not in BORDER}

SCALES = {10**9, 10**12, 10**15, 1024, 1024**2, 1024**3, 1024**4}
UNIT_SUFFIX = re.compile(r"_(ms|us|ns|kb|mb|gb|tb|kib|mib|gib|tib|gbps|tbps|gflops?|tflops?|pflops?)$", re.IGNORECASE)
FAMILIES = re.compile(r"llama|qwen|mistral|mixtral|deepseek|gemma|falcon|mamba|jamba|kimi|glm|phi[0-9_]", re.IGNORECASE)

Finder = Callable[[ast.Module], Iterator[tuple[int, str]]]


def offences(trees: dict[Path, ast.Module], find: Finder, mark: str | None = None) -> list[str]:
    """`path:line what` for everything `find` yields, except on lines that carry the mark."""
    found = []
    for path, tree in trees.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for line, what in find(tree):
            if mark is None or mark not in lines[line - 1]:
                found.append(f"{path.relative_to(ROOT)}:{line} {what}")
    return found


# ----------------------------------------------------------------------------------------------------- the finders


def imports_when_loaded(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Top-level names imported while the module loads: not inside functions, not for type checkers only."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").partition(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def third_party_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    allowed = sys.stdlib_module_names | {"msgspec", "rooflab"}
    return ((line, name) for line, name in imports_when_loaded(tree) if name not in allowed)


def scale_literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=int() | float() as value) if value in SCALES:
                yield node.lineno, str(value)
            case ast.BinOp(left=ast.Constant(value=int(a)), op=ast.Pow(), right=ast.Constant(value=int(n))):
                if n < 64 and a**n in SCALES:
                    yield node.lineno, f"{a}**{n}"


def bare_sums(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum":
            yield node.lineno, ast.unparse(node)


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def unit_suffixes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    return ((line, name) for line, name in identifiers(tree) if UNIT_SUFFIX.search(name))


def families_by_name(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Identifiers, and strings that are compared with something, that name a family of models."""
    compared = [node for test in ast.walk(tree) if isinstance(test, ast.Compare) for node in ast.walk(test)]
    strings = ((n.lineno, n.value) for n in compared if isinstance(n, ast.Constant) and isinstance(n.value, str))
    for line, text in [*identifiers(tree), *strings]:
        if FAMILIES.search(text):
            yield line, text


def long_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > 60:
                yield node.lineno, f"{node.name} has {length} lines"


# ------------------------------------------------------------------------------------------------------- the rules


def test_core_loads_with_the_standard_library_and_msgspec_alone():
    """The core runs in a browser, where NumPy and the rest are not to be had."""
    assert offences(CORE, third_party_imports) == []


def test_nothing_is_imported_anew():
    """D-909: the engine is pure, so a page or a notebook never has to load a module again to see a change."""
    found = [path.name for path, tree in MODULES.items() if "reload(" in ast.unparse(tree)]
    assert found == []


def test_powers_of_ten_and_two_live_in_units():
    """Scales of units are written in units.py only; a plain number of things is marked `# count`."""
    rest = {path: tree for path, tree in MODULES.items() if path.name != "units.py"}
    assert offences(rest, scale_literals, mark="# count") == []


def test_names_carry_no_unit_suffix():
    rest = {path: tree for path, tree in MODULES.items() if path.name != "units.py"}
    assert offences(rest, unit_suffixes) == []


def test_floats_are_not_added_with_sum():
    """sum() rounds differently from Python 3.12 on; a sum of integers is marked `# int`."""
    assert offences(CORE, bare_sums, mark="# int") == []


def test_no_architecture_by_name_behind_the_border():
    """hf.py turns a config into blocks once; nothing after it asks which family that was."""
    assert offences(INNER, families_by_name) == []


def test_functions_are_short():
    tools = {path: ast.parse(path.read_text(encoding="utf-8")) for path in [ROOT / "run.py", *ROOT.glob("tools/*.py")]}
    assert offences(MODULES | tools, long_functions) == []


def test_files_are_short():
    generated = ROOT / "page" / "src" / "contract.ts"
    page = [p for p in (ROOT / "page" / "src").rglob("*") if p.suffix in {".ts", ".svelte"} and p != generated]
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in [*MODULES, *page, ROOT / "run.py"]}
    assert {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > 500} == {}


def test_modules_are_named_after_what_they_hold():
    vague = {"utils", "util", "common", "base", "types", "constants", "helpers", "misc"}
    assert [str(path.relative_to(ROOT)) for path in MODULES if {path.stem, path.parent.name} & vague] == []


def test_locks_name_no_host():
    locks = [ROOT / name for name in ("requirements.lock", "requirements-dev.lock", "page/wheels.txt")]
    assert [lock.name for lock in locks if "://" in lock.read_text(encoding="utf-8")] == []
    node = [ROOT / "tests/pyodide/package-lock.json", *ROOT.glob("page/package-lock.json")]
    assert [str(lock) for lock in node if '"resolved": "http' in lock.read_text(encoding="utf-8")] == []


def test_version_is_said_once():
    import rooflab

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rooflab.__version__ == project["version"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_old_pythons_can_read_run_py_and_be_told():
    """run.py must parse where it refuses to run, or its one clear line becomes a SyntaxError."""
    ast.parse((ROOT / "run.py").read_text(encoding="utf-8"), feature_version=(3, 6))


# ------------------------------------------------------------------------------------ the finders find what they should


def found(find: Finder, code: str) -> list[str]:
    return sorted(what for _, what in find(ast.parse(code)))


def test_finders_see_offences_and_nothing_else():
    assert found(third_party_imports, "import numpy as np\nimport math\nfrom msgspec import Struct") == ["numpy"]
    assert found(third_party_imports, "try:\n    import scipy.linalg\nexcept ImportError: pass") == ["scipy"]
    assert found(third_party_imports, "def f():\n    import numpy") == []
    assert found(third_party_imports, "if TYPE_CHECKING:\n    import numpy") == []
    assert found(scale_literals, "a = 1e9 + 2**30 + 1_024 + 1000 + 2**n") == ["1000000000.0", "1024", "2**30"]
    assert found(bare_sums, "a = sum(x) + fsum(y) + z.sum()") == ["sum(x)"]
    assert found(unit_suffixes, "time_ms = 1\ndef f(size_gb): return size.forms") == ["size_gb", "time_ms"]
    assert found(families_by_name, "if kind == 'llama': is_qwen = 1\nrefs = 'llama paper'") == ["is_qwen", "llama"]
    assert found(long_functions, "def f():\n" + "    x = 1\n" * 60) == ["f has 61 lines"]
    assert found(long_functions, "def f():\n" + "    x = 1\n" * 59) == []
