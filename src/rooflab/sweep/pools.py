"""Tasks spread over this process, several, or a cluster, through the one interface of concurrent.futures.

Results carry the number of their task, so that what is made of them is the same in any order; a task counts once, however often a
worker dies.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from rooflab.units import InputError, shown

RETRIES = 3
"""Times a broken pool of processes is started anew."""
ANSWERS_WITHIN = 4.0
"""Seconds a host has to take a connection."""
PATIENCE = 5.0
"""Seconds that what took the connection has to speak as a Dask scheduler."""
PORTS = 65535
SOCKETS = ("tcp", "tls")
"""Kinds of addresses that are a host and a port of its own."""
ADVICE = "start one with `dask scheduler` and give its address, for example tcp://10.0.0.5:8786, or use --workers"
LOOKS = 0.25
"""Seconds between two looks at whether a run is cancelled."""
Work = TypeVar("Work")
Result = TypeVar("Result")
Numbered = tuple[int, Work]


def results(
    work: Callable[[Work], Result],
    tasks: Sequence[Work],
    *,
    workers: int = 0,
    cluster: str | None = None,
    executor: concurrent.futures.Executor | None = None,
    cancel: Callable[[], bool] | None = None,
) -> Iterator[tuple[int, Result] | None]:
    """(number, result) of every task in any order; None once cancelled.

    workers: processes on this machine; cluster: address of a Dask scheduler; executor: any other. Without any, tasks are done
    here, in order.
    """
    numbered = list(enumerate(tasks))
    if executor is not None:
        yield from _spread(executor, work, numbered, cancel)
    elif cluster is not None:
        yield from _on_cluster(cluster, work, numbered, cancel)
    elif workers > 1:
        yield from _in_processes(workers, work, numbered, cancel)
    else:
        for number, task in numbered:
            if cancel is not None and cancel():
                yield None
                return
            yield number, work(task)


def _spread(
    pool: concurrent.futures.Executor,
    work: Callable[[Any], Any],
    tasks: Iterable[Numbered[Any]],
    cancel: Callable[[], bool] | None,
    ahead: int = 64,
) -> Iterator[tuple[int, Any] | None]:
    """Tasks handed to a pool, a few ahead of what has come back, so that a long study never queues as a whole."""
    waiting: dict[concurrent.futures.Future[Any], int] = {}
    queue = iter(tasks)
    try:
        while True:
            while len(waiting) < ahead and (task := next(queue, None)) is not None:
                waiting[pool.submit(work, task[1])] = task[0]
            if not waiting:
                return
            for future in _finished(waiting, None if cancel is None else LOOKS):
                yield waiting.pop(future), future.result()
            if cancel is not None and cancel():
                yield None
                return
    finally:
        for future in waiting:
            future.cancel()


def _finished(waiting: dict[Any, int], within: float | None) -> set[Any]:
    """Whatever has finished; every pool's futures report through the same callbacks."""
    return set(concurrent.futures.wait(waiting, within, return_when=concurrent.futures.FIRST_COMPLETED).done)


def _in_processes(
    workers: int, work: Callable[[Any], Any], tasks: list[Numbered[Any]], cancel: Callable[[], bool] | None
) -> Iterator[tuple[int, Any] | None]:
    """A pool of processes, started anew when one of them dies; only what is missing is done again."""
    import multiprocessing

    left = dict(tasks)
    spawned = multiprocessing.get_context("spawn")
    for attempt in range(RETRIES + 1):
        end = spawned.Event()
        with concurrent.futures.ProcessPoolExecutor(workers, spawned, initializer=_begin, initargs=(end,)) as pool:
            try:
                for found in _spread(
                    pool, partial(_unless_stopped, work), list(left.items()), cancel, ahead=4 * workers
                ):
                    if found is not None:
                        left.pop(found[0], None)
                    yield found
                return
            except concurrent.futures.BrokenExecutor:
                if attempt == RETRIES:
                    raise InputError(f"workers: processes died {RETRIES + 1} times; try fewer workers") from None
            finally:
                end.set()


_end: Any = None
"""In a worker: the event that says that nobody waits for results any more."""


def _begin(end: Any) -> None:
    """A worker leaves Ctrl-C, which every process of a terminal gets, to the one that hands out the work."""
    global _end
    _end = end
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def stopped() -> bool:
    """Whether this is a worker of which nobody expects results any more; for long tasks to ask now and then."""
    return _end is not None and _end.is_set()


def _unless_stopped(work: Callable[[Any], Any], task: Any) -> Any:
    return None if stopped() else work(task)


def _on_cluster(
    address: str, work: Callable[[Any], Any], tasks: list[Numbered[Any]], cancel: Callable[[], bool] | None
) -> Iterator[tuple[int, Any] | None]:
    """A Dask cluster; the scheduler repeats what a lost worker had."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("cluster: dask is not installed; pip install 'rooflab[cluster]'") from None
    _knock(address)
    try:
        client = _within(PATIENCE, lambda: Client(address, timeout=PATIENCE))
    except Exception as problem:  # whatever else listens there may answer anything
        why = str(problem) if isinstance(problem, ValueError) else "something else listens there"
        raise _nobody(
            address, f"nothing came back in {PATIENCE:g} s" if isinstance(problem, OSError) else why
        ) from None
    with _silent("distributed"), client, client.get_executor(pure=False, retries=RETRIES) as pool:
        if not client.scheduler_info()["workers"]:
            raise InputError(f"cluster: {shown(address)} has no workers; start some with `dask worker {address}`")
        try:
            yield from _spread(pool, work, tasks, cancel)
        except concurrent.futures.CancelledError:
            raise InputError(
                f"cluster: the scheduler at {shown(address)} went away; start it, then ask again"
            ) from None


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """What those logs would print stays unsaid: what goes wrong is said once, in a line."""
    handlers = list(logging.getLogger(name).handlers)
    for handler in handlers:
        handler.addFilter(_nothing)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


def _nobody(address: str, why: str) -> InputError:
    return InputError(f"cluster: no Dask scheduler answers at {shown(address)}: {why}; {ADVICE}")


def _knock(address: str) -> None:
    """Refuses an address that takes no connection; Dask would try the same again and again before it says so."""
    scheme, found, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if found and scheme not in SOCKETS:
        return
    if not port.isdecimal() or not 0 < int(port) <= PORTS:
        raise _nobody(address, "the address names no port")
    try:
        at = (host.strip("[]"), int(port))
        _within(ANSWERS_WITHIN, lambda: socket.create_connection(at, timeout=ANSWERS_WITHIN).close())
    except TimeoutError:
        raise _nobody(address, f"nothing came back in {ANSWERS_WITHIN:g} s") from None
    except OSError as problem:
        raise _nobody(address, problem.strerror or str(problem)) from None
    except UnicodeError:
        raise _nobody(address, "the host's name cannot be written as one") from None


def _within(limit: float, call: Callable[[], Result]) -> Result:
    """What a call returns or raises; TimeoutError when it does neither in so many seconds.

    Resolvers and handshakes can keep a caller beyond their own limits, so the call has a thread that nobody waits for.
    """
    future: concurrent.futures.Future[Result] = concurrent.futures.Future()

    def body() -> None:
        try:
            future.set_result(call())
        except Exception as problem:
            future.set_exception(problem)

    threading.Thread(target=body, daemon=True).start()
    return future.result(timeout=limit)
