"""Collectives among the GPUs of this machine: one process a GPU, kept for every case of that many ranks."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from rooflab.measure.bench import package
from rooflab.measure.plan_of import repeats
from rooflab.measure.taking import Unsupported

PATIENCE = 180.0
"""Seconds a group may take for one case, the first one's start included."""
RUNS = 20
"""Exchanges between two looks at the clock."""


class Group:
    """Ranks that wait for cases."""

    def __init__(self, ranks: int, cpu: bool = False):
        import socket

        self.ranks, self.broken = ranks, ""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = package("torch.multiprocessing").get_context("spawn")
        self.asked = [context.Queue() for _ in range(ranks)]
        self.answers = context.Queue()
        self.processes = [
            context.Process(target=serve, args=(rank, ranks, port, cpu, self.asked[rank], self.answers), daemon=True)
            for rank in range(ranks)
        ]
        for process in self.processes:
            process.start()

    def measure(self, columns: dict[str, Any], budget: float) -> list[float]:
        """Seconds of one exchange, many times, as the slowest rank sees it."""
        import queue

        if self.broken:
            raise Unsupported(self.broken)
        for asked in self.asked:
            asked.put((columns["op_name"], int(columns["message_bytes"]), budget))
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                answer = self.answers.get(timeout=1.0)
                if isinstance(answer, str):
                    raise Unsupported(answer)
                return answer
            if not all(process.is_alive() for process in self.processes):
                self.broken = "a rank of the group ended"
                raise Unsupported(self.broken)
        self.broken = f"the group did not answer within {PATIENCE:.0f} s"
        raise Unsupported(self.broken)

    def close(self) -> None:
        """End the ranks."""
        for asked in self.asked:
            asked.put(None)
        for process in self.processes:
            process.join(timeout=10.0)
            if process.is_alive():
                process.terminate()


def serve(rank: int, ranks: int, port: int, cpu: bool, asked: Any, answers: Any) -> None:
    """One rank: run every case that comes, rank 0 answers."""
    import signal
    import warnings

    warnings.simplefilter("ignore", FutureWarning)  # of names that newer versions replace
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end
    torch, distributed = package("torch"), package("torch.distributed")
    place = "cpu" if cpu else f"cuda:{rank}"
    if not cpu:
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        "gloo" if cpu else "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    while (case := asked.get()) is not None:
        try:
            found: Any = _timed(torch, distributed, place, ranks, *case)
        except (RuntimeError, ValueError) as problem:
            found = " ".join(str(problem).split())[:160]
        if rank == 0:
            answers.put(found)
    distributed.destroy_process_group()


def _timed(torch: Any, distributed: Any, place: str, ranks: int, name: str, message: int, budget: float) -> list[float]:
    """Seconds an exchange; the message is the larger buffer of a rank, in 16-bit numbers."""
    count = max(message // 2 // ranks, 1) * ranks
    whole = torch.ones(count, dtype=torch.float16, device=place)
    other = torch.empty_like(whole)
    part = torch.ones(count // ranks, dtype=torch.float16, device=place)
    calls = {
        "all_reduce": lambda: distributed.all_reduce(whole),
        "all_gather": lambda: distributed.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: distributed.reduce_scatter_tensor(part, whole),
        "alltoall": lambda: distributed.all_to_all_single(other, whole),
    }
    call = calls[name]

    def finish() -> None:
        if place != "cpu":
            torch.cuda.synchronize()

    def taken() -> float:
        distributed.barrier()
        finish()
        start = time.perf_counter()
        for _ in range(RUNS):
            call()
        finish()
        return (time.perf_counter() - start) / RUNS

    slowest = torch.tensor([max(taken(), taken())], dtype=torch.float32, device=place)
    distributed.all_reduce(slowest, op=distributed.ReduceOp.MAX)
    runs = repeats(float(slowest[0]) * RUNS, budget)
    times = torch.tensor([taken() for _ in range(runs)], dtype=torch.float32, device=place)
    distributed.all_reduce(times, op=distributed.ReduceOp.MAX)
    return [float(each) for each in times.cpu()]
