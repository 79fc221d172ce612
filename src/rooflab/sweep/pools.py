"""Tasks spread over this process, several, or a cluster, through the one interface of concurrent.futures.

Results carry the number of their task, so that what is made of them is the same in any order; a task counts once, however often a
worker dies.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rooflab.units import InputError, shown

RETRIES = 3
"""Times a broken pool of processes is started anew."""
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
    elif cluster:
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
            for future in _finished(waiting):
                yield waiting.pop(future), future.result()
            if cancel is not None and cancel():
                yield None
                return
    finally:
        for future in waiting:
            future.cancel()


def _finished(waiting: dict[Any, int]) -> set[Any]:
    """Whatever has finished; every pool's futures report through the same callbacks."""
    return set(concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED).done)


def _in_processes(
    workers: int, work: Callable[[Any], Any], tasks: list[Numbered[Any]], cancel: Callable[[], bool] | None
) -> Iterator[tuple[int, Any] | None]:
    """A pool of processes, started anew when one of them dies; only what is missing is done again."""
    import multiprocessing

    left = dict(tasks)
    for attempt in range(RETRIES + 1):
        with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                for found in _spread(pool, work, list(left.items()), cancel, ahead=4 * workers):
                    if found is not None:
                        left.pop(found[0], None)
                    yield found
                return
            except concurrent.futures.BrokenExecutor:
                if attempt == RETRIES:
                    raise InputError(f"workers: processes died {RETRIES + 1} times; try fewer workers") from None


def _on_cluster(
    address: str, work: Callable[[Any], Any], tasks: list[Numbered[Any]], cancel: Callable[[], bool] | None
) -> Iterator[tuple[int, Any] | None]:
    """A Dask cluster; the scheduler repeats what a lost worker had."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("cluster: dask is not installed; pip install 'rooflab[cluster]'") from None
    try:
        client = Client(address, timeout=20)
    except (OSError, ValueError, TimeoutError) as problem:
        raise InputError(f"cluster: no scheduler answers at {shown(address)} ({type(problem).__name__})") from None
    with client, client.get_executor(pure=False, retries=RETRIES) as pool:
        yield from _spread(pool, work, tasks, cancel)
