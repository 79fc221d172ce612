"""The command line: `rooflab estimate llama-3.1-8b --on h100-sxm`. A shell around `api.answer`; it computes nothing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]

DEBUG = "--debug"


def main(args: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 answered, 1 RoofLab failed, 2 not answerable as asked."""
    try:
        return _guarded(list(sys.argv[1:] if args is None else args))
    except KeyboardInterrupt:  # at any moment, while modules are read as well
        return _say("stopped", 130)


def _guarded(given: list[str]) -> int:
    """The status of a command; what is wrong with it is said in one line."""
    from rooflab.cli import streams
    from rooflab.units import shown

    debug = DEBUG in given
    streams.forgive()
    try:
        code = _run([each for each in given if each != DEBUG])
        sys.stdout.flush()
        return code
    except (streams.ReaderGone, BrokenPipeError):
        streams.abandon()
        return 0
    except SystemExit as left:  # shell completion, or help that nobody reads on
        return left.code if isinstance(left.code, int) else 0
    except OSError as problem:
        if debug:
            raise
        if isinstance(problem.filename, str):  # a file that the question names
            return _say(
                f"{shown(problem.filename)} cannot be read or written: {problem.strerror}; name another file", 2
            )
        return _say(f"cannot read or write: {problem.strerror or problem}", 1)
    except Exception as problem:
        if debug:
            raise
        what = " ".join(f"{type(problem).__name__}: {problem}".split())[:200]
        return _say(f"internal error: {what}; please report it, with what {DEBUG} shows", 1)


def _run(args: list[str]) -> int:
    """One command, with what is wrong about the question said in one line."""
    if args == ["--version"]:
        from rooflab import __version__

        print(f"rooflab {__version__}")
        return 0
    import typer

    from rooflab.cli.commands import COMMANDS, group
    from rooflab.units import InputError

    usage: Any = typer.BadParameter.__mro__[2]  # what every complaint about options is one of
    only = args[0] if args and args[0] in COMMANDS else None
    try:
        code = group(only).main(args, prog_name="rooflab", standalone_mode=False)
    except InputError as problem:
        return _say(str(problem), 2)
    except typer.Abort:
        return _say("stopped", 130)
    except usage as problem:
        return _say(_complaint(problem), 2)
    if code == 130:  # a newer Typer turns Ctrl-C into this
        return _say("stopped", 130)
    return code if isinstance(code, int) else 0


def _complaint(problem: BaseException) -> str:
    """What is wrong with the options, in one line that says where to look."""
    text = getattr(problem, "format_message", lambda: str(problem))()
    context = getattr(problem, "ctx", None)
    where = getattr(context, "command_path", "rooflab")
    line = " ".join(text.split()).rstrip(".")
    return f"{line[:1].lower()}{line[1:]}; see {where} --help"


def _say(text: str, code: int) -> int:
    """One line on standard error."""
    with contextlib.suppress(OSError):
        print("rooflab: " + " ".join(text.split()), file=sys.stderr)
    return code
