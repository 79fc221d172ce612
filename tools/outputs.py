"""Run what the documents and examples show, and write down what came out.

python tools/outputs.py            bring README.md, docs/*.md and examples/*.out up to date
python tools/outputs.py --check    exit 1 when one is not

In a document, a ```console block holds `$ rooflab …` lines and what they print (at 80 columns, no colours; a `| head -N`
is understood), a ```pycon block a Python session. ```sh and ```python blocks are run by the tests for their exit alone.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rooflab
from rooflab.cli import main as rooflab_main

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "docs/guide.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```(console|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"\s*\|\s*head -(\d+)\s*$")
COLUMNS = "80"


def command_output(line: str) -> str:
    """What a `rooflab …` command line prints, on a terminal of 80 columns without colours."""
    cut = HEAD.search(line)
    words = shlex.split(HEAD.sub("", line))
    if words[0] != "rooflab":
        raise ValueError(f"only rooflab commands are run, not {line!r}")
    printed = io.StringIO()
    with (
        _environment(COLUMNS=COLUMNS, NO_COLOR="1"),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        rooflab_main(words[1:])
    lines = printed.getvalue().splitlines()
    return "\n".join(lines[: int(cut[1])] if cut else lines) + "\n"


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def console(block: str) -> str:
    """A console block with its output as it is now."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"{line}\n{command_output(line[2:])}" for line in commands)


def session(block: str, names: dict[str, Any]) -> str:
    """A Python session with its output as it is now; names carry over from block to block."""
    parts = []
    for example in doctest.DocTestParser().get_examples(block):
        source = example.source.rstrip("\n").splitlines()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, "<document>", "single"), names)
        parts.append("\n".join([f">>> {source[0]}", *(f"... {line}".rstrip() for line in source[1:])]) + "\n")
        parts.append(printed.getvalue())
    return "".join(parts)


def document(text: str) -> str:
    """A document with every output as it is now."""
    names: dict[str, Any] = {"rooflab": rooflab}

    def renew(block: re.Match[str]) -> str:
        inside = console(block[2]) if block[1] == "console" else session(block[2], names)
        return f"```{block[1]}\n{inside}```"

    return BLOCK.sub(renew, text)


def example(path: Path) -> str:
    """What an example prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def outputs() -> Iterator[tuple[Path, str]]:
    """(file, what it should hold)."""
    for path in DOCUMENTS:
        if path.exists():
            yield path, document(path.read_text(encoding="utf-8"))
    for path in EXAMPLES:
        yield path.with_suffix(".out"), example(path)


def main(args: list[str]) -> int:
    stale = []
    for path, text in outputs():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if "--check" not in args:
                path.write_text(text, encoding="utf-8")
    if "--check" in args and stale:
        print(f"{', '.join(stale)}: not what is printed now: run python tools/outputs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
