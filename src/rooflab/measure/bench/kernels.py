"""Single kernels on one device: operands, warm-up, captured graphs, events.

Operands are cold unless asked otherwise: a case has as many copies of them as overflow the last cache twice, used in turn
inside one graph. Times are of the device alone: between two events around a replay, divided by the runs in it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from rooflab.measure.bench import package, torch_with_gpu
from rooflab.measure.depths import Stack
from rooflab.measure.plan_of import Case, repeats, system_name
from rooflab.measure.taking import Taken, Unsupported

Call = Callable[[], Any]

MOST_COPIES = 32
RUNS_OF_SHORT = 10
"""Runs inside one graph at least, so that what starts the graph does not count."""
WARM_UP = 3
WAKE = 0.05
"""Seconds of work before timing, so that clocks have risen."""
HALF = {"float16": "float16", "bfloat16": "bfloat16"}
PROCESSOR = {
    "device_name": "cpu", "gpus": 2, "half": "bfloat16", "memory": 2.0e9, "rate": 2.0e10, "memory_bandwidth": 1.0e10,
    "longest": 5.0e-2,
}  # fmt: skip
"""What a processor is planned for: cases so small that a test is over soon."""
_QUERY = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,power.limit"
_NUMBERS = {
    "clocks.sm": ("clock", 1.0e6),
    "clocks.mem": ("memory_clock", 1.0e6),
    "clocks.max.sm": ("clock_limit", 1.0e6),
    "temperature.gpu": ("temperature", 1.0),
    "power.draw": ("power", 1.0),
    "power.limit": ("power_limit", 1.0),
}
"""What the driver's tool reports -> what it is kept as, in SI units (°C for temperature)."""


def driver_state(which: str = "0") -> dict[str, Any]:
    """Driver, clocks, temperature and power as the driver's own tool reports them; empty where it cannot be asked."""
    command = ["nvidia-smi", f"--id={which}", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return read_state(done.stdout)


def read_state(text: str) -> dict[str, Any]:
    """The driver's line of figures; what it does not know is left out."""
    values: dict[str, str] = dict(zip(_QUERY.split(","), (each.strip() for each in text.split(",")), strict=False))
    found: dict[str, Any] = {}
    if values.get("driver_version"):
        found["driver"] = values["driver_version"]
    for name, (kept, scale) in _NUMBERS.items():
        try:
            found[kept] = float(values.get(name, "")) * scale
        except ValueError:
            continue
    return found


class Clock:
    """Times calls on a GPU, inside a captured graph where the calls allow it."""

    def __init__(self, torch: Any):
        self.torch = torch

    def samples(self, calls: Sequence[Call], budget: float, graph: bool = True) -> tuple[list[float], bool]:
        """Seconds of one call, many times, the calls used in turn; and whether a graph launched them."""
        cuda = self.torch.cuda
        for call in (*calls, *calls)[: max(2 * len(calls), WARM_UP)]:
            call()
        cuda.synchronize()
        once = self._between(lambda: [call() for call in calls]) / len(calls)
        inside = len(calls) * max(1, -(-RUNS_OF_SHORT // len(calls)) if once < WAKE / RUNS_OF_SHORT else 1)
        turns = [calls[number % len(calls)] for number in range(inside)]
        replay = self._captured(turns) if graph else None
        captured = replay is not None
        play: Call = replay or (lambda: [call() for call in turns])
        taken = self._between(play)
        woken = time.perf_counter()
        while time.perf_counter() - woken < WAKE:
            play()
            cuda.synchronize()
        count = repeats(taken, budget)
        return [self._between(play) / inside for _ in range(count)], captured

    def _between(self, call: Call) -> float:
        """Seconds on the device of one call."""
        cuda = self.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000.0  # count

    def _captured(self, calls: Sequence[Call]) -> Call | None:
        """The calls as one graph; None where one of them waits for the host."""
        cuda = self.torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        try:
            with cuda.stream(side):
                for call in calls[:WARM_UP]:
                    call()
            cuda.current_stream().wait_stream(side)
            graph = cuda.CUDAGraph()
            with cuda.graph(graph):
                for call in calls:
                    call()
            graph.replay()
            cuda.synchronize()
        except RuntimeError as problem:
            if isinstance(problem, cuda.OutOfMemoryError):
                raise
            cuda.synchronize()
            return None
        return graph.replay


class HostClock:
    """Times calls on the processor: for testing this program without a GPU."""

    def samples(self, calls: Sequence[Call], budget: float, graph: bool = True) -> tuple[list[float], bool]:
        """Seconds of one call, a few times."""
        taken = []
        for call in (calls[0], *calls, *calls):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
        return taken[1:], False


class TorchDevice:
    """One GPU through PyTorch, or with `cpu` this machine's processor, for testing only."""

    def __init__(self, system: str | None = None, warm: bool = False, cpu: bool = False):
        self.torch = package("torch") if cpu else torch_with_gpu()
        self.cpu, self.warm = cpu, warm
        self.place = "cpu" if cpu else "cuda"
        self.clock: Any = HostClock() if cpu else Clock(self.torch)
        self.which = "0"
        self.models: Any = None
        self.group: Any = None
        self.facts_known = self._facts(system)

    def facts(self) -> dict[str, Any]:
        """The machine, as the journal keeps it."""
        return self.facts_known

    def _facts(self, system: str | None) -> dict[str, Any]:
        import platform

        torch = self.torch
        found: dict[str, Any] = {"backend": "torch", "version": torch.__version__, "python": platform.python_version()}
        found["cache"] = "warm" if self.warm else "cold"
        if self.cpu:
            return {**found, "system": system or "cpu-test", **PROCESSOR}
        about = torch.cuda.get_device_properties(0)
        found |= {"device_name": about.name, "memory": float(about.total_memory), "gpus": torch.cuda.device_count()}
        found |= {"system": system or system_name(about.name, float(about.total_memory))}
        found |= {"compute_units": about.multi_processor_count, "last_cache": float(getattr(about, "L2_cache_size", 0))}
        major, minor = torch.cuda.get_device_capability(0)
        found |= {"capability": f"{major}.{minor}", "half": "bfloat16" if major >= 8 else "float16"}
        found |= {"fp8": (major, minor) >= (8, 9), "cuda": torch.version.cuda or "", "nccl": self._nccl()}
        self.which = f"GPU-{about.uuid}" if hasattr(about, "uuid") else "0"
        return {**found, **driver_state(self.which)}

    def _nccl(self) -> str:
        try:
            return ".".join(str(each) for each in self.torch.cuda.nccl.version())
        except (AttributeError, RuntimeError):
            return ""

    def state(self) -> dict[str, Any]:
        """Clocks and power now."""
        found = {} if self.cpu else driver_state(self.which)
        return {name: found[name] for name in ("clock", "memory_clock", "temperature", "power") if name in found}

    def measure(self, case: Case, budget: float) -> Taken:
        """Time a case. Raises Unsupported, or MemoryError where the device has too little."""
        try:
            return self._measure(case, budget)
        except self.torch.cuda.OutOfMemoryError:
            raise MemoryError from None
        finally:
            if not self.cpu:
                self.torch.cuda.empty_cache()

    def _measure(self, case: Case, budget: float) -> Taken:
        if case.family == "steps":
            if self.models is None:
                raise Unsupported("no model was given")
            return self.models.measure(case, budget, self)
        if case.family == "collectives":
            return self._collective(case, budget)
        maker = {
            "gemm": self._gemm,
            "decode_attention": self._decode,
            "prefill_attention": self._prefill,
            "elementwise": self._elementwise,
        }[case.family]
        with self.torch.inference_mode():
            calls = [maker(case.columns) for _ in range(self.copies(case))]
            samples, graph = self.clock.samples(calls, budget)
        names = {"gemm": "torch_mm", "elementwise": "torch"}
        return Taken(samples={"kernel": samples}, graph=graph, kernel=names.get(case.family, "torch_sdpa"))

    def copies(self, case: Case) -> int:
        """Sets of operands that overflow the last cache twice, within a quarter of the memory."""
        cache, memory = self.facts_known.get("last_cache", 0.0), self.facts_known.get("memory", 0.0)
        if self.warm or not cache:
            return 1
        return int(max(1.0, min(MOST_COPIES, 2.0 * cache // case.traffic + 1.0, 0.25 * memory // case.footprint)))

    def _collective(self, case: Case, budget: float) -> Taken:
        from rooflab.measure.bench.group import Group

        ranks = case.columns["num_gpus"]
        if self.group is not None and self.group.ranks != ranks:
            self.close()
        if self.group is None:
            self.group = Group(ranks, self.cpu)
        return Taken(samples={"kernel": self.group.measure(case.columns, budget)}, graph=False, kernel="NCCL")

    def bring(self, stacks: Sequence[Stack]) -> None:
        """Prepare to time steps of models."""
        from rooflab.measure.bench.models import Models

        self.models = Models(stacks)
        self.facts_known["transformers"] = self.models.version

    def close(self) -> None:
        """End the processes of a group."""
        if self.group is not None:
            self.group.close()
            self.group = None

    # ------------------------------------------------------------------------------------------------ the kernels

    def random(self, *shape: int, dtype: str) -> Any:
        """Operands as they are in a model: no zeros, which cost less power."""
        return self.torch.randn(*shape, device=self.place, dtype=getattr(self.torch, HALF[dtype]))

    def _gemm(self, columns: dict[str, Any]) -> Call:
        torch = self.torch
        m, n, k, name = (columns[each] for each in ("m", "n", "k", "gemm_dtype"))
        if name != "fp8":
            x, w, out = self.random(m, k, dtype=name), self.random(n, k, dtype=name), self.random(m, n, dtype=name)
            return lambda: torch.mm(x, w.t(), out=out)
        if not hasattr(torch, "_scaled_mm"):
            raise Unsupported("this PyTorch has no fp8 product")
        eight = torch.float8_e4m3fn
        x, w = self.random(m, k, dtype="bfloat16"), self.random(n, k, dtype="bfloat16").to(eight)
        one = torch.ones((), device=self.place)

        def product() -> Any:
            eighths = x.to(eight)
            return torch._scaled_mm(
                eighths, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
            )

        return product

    def _decode(self, columns: dict[str, Any]) -> Call:
        """Query heads that share a cache head are rows of one query: the cache is read once, as good kernels do."""
        attend = self.torch.nn.functional.scaled_dot_product_attention
        b, h, kv, d, step = self._heads(columns)
        name = columns["attn_dtype"]
        q = self.random(b, kv, h // kv, d, dtype=name)
        k, v = self.random(b, kv, step + 1, d, dtype=name), self.random(b, kv, step + 1, d, dtype=name)
        return lambda: attend(q, k, v)

    def _prefill(self, columns: dict[str, Any]) -> Call:
        """Where fused kernels do not know shared cache heads, these are repeated beforehand, untimed."""
        attend = self.torch.nn.functional.scaled_dot_product_attention
        b, h, kv, d, _step = self._heads(columns)
        new, name = columns["isl"], columns["attn_dtype"]
        shared = kv != h and self.facts_known["half"] == "bfloat16"
        heads = kv if shared or kv == h else h
        q = self.random(b, h, new, d, dtype=name)
        k, v = self.random(b, heads, new, d, dtype=name), self.random(b, heads, new, d, dtype=name)
        more = {"enable_gqa": True} if shared else {}
        return lambda: attend(q, k, v, is_causal=True, **more)

    def _heads(self, columns: dict[str, Any]) -> tuple[int, int, int, int, int]:
        names = ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "step")
        b, h, kv, d, step = (int(columns[name]) for name in names)
        return b, h, kv, d, step

    def _elementwise(self, columns: dict[str, Any]) -> Call:
        torch, half = self.torch, self.facts_known["half"]
        op, tokens, width, inner = (columns[each] for each in ("op", "num_tokens", "n_embd", "n_expanded_embd"))
        if op == "mlp_act":
            gated = self.random(tokens, 2 * inner, dtype=half)
            return lambda: torch.nn.functional.glu(gated)  # one kernel: reads two widths, writes one
        a, out = self.random(tokens, width, dtype=half), self.random(tokens, width, dtype=half)
        if op == "copy":
            return lambda: out.copy_(a)
        if op == "add":
            b = self.random(tokens, width, dtype=half)
            return lambda: torch.add(a, b, out=out)
        weight = self.random(width, dtype=half)
        return lambda: torch.nn.functional.layer_norm(a, (width,), weight)
