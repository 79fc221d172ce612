"""Output that never fails for want of a character, and ends quietly when its reader has gone."""

from __future__ import annotations

import codecs
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

from rooflab.units import InputError, shown

PLAIN = {
    "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "-", "▎": "-", "▏": "-", "▓": "=", "▒": "+", "░": ":", "·": ".",
    "─": "-", "│": "|", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "✔": "+", "✘": "x", "●": "*", "▲": "^",
    "×": "x", "→": ">", "–": "-", "−": "-", "…": "~", "µ": "u", "€": "E", "⁹": "^9", "³": "^3", "⁰": "0", "ⁿ": "^n",
    "\u00a0": " ", "’": "'", "“": '"', "”": '"', "≤": "<=", "≥": ">=", "²": "^2",
}  # fmt: skip
"""What stands in for a character that the stream cannot carry."""


class ReaderGone(Exception):
    """Whoever read standard output has stopped reading. Not an OSError: Typer would turn that into a failure."""


def write(text: str) -> None:
    """Text to standard output; raises ReaderGone when nobody takes it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def write_whole(file: str, text: str, option: str = "") -> None:
    """Text to a file, whole or not at all, or to standard output (-)."""
    if file == "-":
        return write(text)
    path, name = Path(file), ""
    try:
        if path.is_symlink():  # the link stays, and what it leads to is written
            path = path.resolve()
        if path.exists() and not path.is_file():  # a device or a pipe is written as it is
            with path.open("w", encoding="utf-8") as opened:
                opened.write(text)
            return
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with open(handle, "w", encoding="utf-8", newline="\n") as opened:  # noqa: PTH123
            opened.write(text)
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except OSError as problem:
        if name:
            Path(name).unlink(missing_ok=True)
        raise _unwritable(file, option, problem.strerror or str(problem)) from None


def _umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


def _unwritable(file: str, option: str, problem: str) -> InputError:
    lead = f"{option}: " if option else ""
    return InputError(f"{lead}{shown(file)} cannot be written: {problem}; name another file")


def writable(path: str, option: str) -> None:
    """Refuses a file that could not be written, before the work that would fill it."""
    place = Path(path)
    if place.is_dir():
        problem = "Is a directory"
    elif not place.parent.is_dir():
        problem = "No such file or directory"
    elif not os.access(place if place.exists() else place.parent, os.W_OK):
        problem = "Permission denied"
    else:
        return
    raise _unwritable(path, option, problem)


def _plainer(problem: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    bad = problem.object[problem.start : problem.end]
    return "".join(PLAIN.get(character, "?") for character in bad), problem.end


def forgive() -> None:
    """Let standard output and error replace what their encoding lacks; missing streams go nowhere."""
    codecs.register_error("rooflab", _plainer)
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif hasattr(stream, "reconfigure") and not _is_utf8(stream):
            stream.reconfigure(errors="rooflab")


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").replace("_", "") == "utf8"


def abandon() -> None:
    """After the reader has gone: let the interpreter's last flush go nowhere, too."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
