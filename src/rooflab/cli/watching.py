"""Long work that a person watches: a live bar, and Ctrl-C that ends it with what has come."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import typer

from rooflab.units import InputError

STOPPING = "stopping; once more to leave at once"


class Watched:
    """How far work is, and whether it is to end."""

    def __init__(self) -> None:
        self.progress: Callable[[int, int], None] | None = None
        """To be called with things done and in all; None where nobody sees it."""
        self.stopped = False

    def cancel(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.stopped

    def end(self) -> None:
        """After the report of what had come: the status of a command that was stopped."""
        if self.stopped:
            raise typer.Exit(130)


@contextlib.contextmanager
def bar(what: str, total: int | None = None) -> Iterator[Any]:
    """Updates a live bar on standard error, as `rich.progress.Progress.update` does; None where no person watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda **how: shown.update(task, **how)


@contextlib.contextmanager
def watched(what: str) -> Iterator[Watched]:
    """A bar of so many things; the first Ctrl-C asks the work to end with what it has, the second ends it at once.

    Where the work has nothing to show for it, Ctrl-C ends the command as it ends any other.
    """
    seen = Watched()
    with bar(what) as update:
        if update is not None:
            seen.progress = lambda done, total: update(completed=done, total=total)

        def stop(*_: Any) -> None:
            seen.stopped = True
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if update is not None:
                update(description=STOPPING)

        hears = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if hears:
            signal.signal(signal.SIGINT, stop)
        try:
            yield seen
        except InputError:
            if seen.stopped:
                raise KeyboardInterrupt from None
            raise
        finally:
            if hears:
                signal.signal(signal.SIGINT, signal.default_int_handler)
