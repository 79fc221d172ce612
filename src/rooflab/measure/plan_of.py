"""What `rooflab measure` would run: every case with its columns, work and memory, and about how long it takes. Pure.

A case is one row of a table in the schemas `measure.tables` and `measure.endtoend` read. Cases too large for the device's
memory, or that would take longer than `LONGEST` once, are left out and counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rooflab import catalog
from rooflab.measure.depths import Stack
from rooflab.system import Device
from rooflab.units import InputError, nearest, shown

FAMILIES: dict[str, str] = {
    "gemm": "matrix products, from one row to thousands",
    "decode_attention": "one new token a sequence over a cache",
    "prefill_attention": "prompts, causal",
    "elementwise": "memory copies, additions, norms, activations",
    "collectives": "NCCL among the GPUs of this machine",
    "steps": "whole prefill and decode steps of a randomly initialised model",
}
"""Families of cases, in the order they are run -> what they are."""
EXAMPLE = "t4"
"""What a dry run plans for unless told otherwise."""
LONGEST = 1.0
"""Seconds one run of a case may take by its roofline."""
ROOM = 0.7
"""Share of the memory a case may take."""
SETUP = {"steps": 6.0, "collectives": 0.3}
"""Seconds of preparation a case; `OTHER_SETUP` for the rest."""
OTHER_SETUP = 0.15
SLACK = 1.6
"""How much longer than its roofline a case takes, for the guess."""
LAUNCH = 10.0e-6
REPEATS = (10, 100)
BUDGET = {False: 0.2, True: 0.08}
"""Seconds of timed runs a case, by whether it is quick."""

_TOKENS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192)  # count
_TOKENS_QUICK = (1, 16, 64, 256, 1024, 4096)  # count
_PRODUCTS = (
    (4096, 4096), (28672, 4096), (2048, 2048), (9728, 896), (4096, 14336), (896, 4864), (6144, 4096), (5120, 5120),
    (1152, 896), (11008, 2048), (2048, 11008), (8192, 8192), (10240, 8192), (57344, 8192), (8192, 28672), (13824, 5120),
    (5120, 13824), (1024, 7168), (7168, 2048), (128256, 4096),  # count
)  # fmt: skip  # count
_PRODUCTS_QUICK = 8
_HEADS = (
    (32, 8, 128), (32, 32, 128), (64, 8, 128), (28, 4, 128), (12, 12, 64), (16, 2, 128),
    (14, 2, 64), (32, 4, 128), (20, 20, 64), (48, 8, 128),
)  # fmt: skip
"""Query heads, cache heads and width; the first ones already hold some that a fit does not see."""
_HEADS_QUICK = 6
_WIDTHS = ((4096, 14336), (2048, 5632), (896, 4864), (8192, 28672), (5120, 13824), (1024, 3072), (7168, 18432))  # count
_WIDTHS_QUICK = 4
_PASSES = ("copy", "add", "input_layernorm", "mlp_act")
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The machine cases are planned for."""

    system: str
    memory: float
    memory_bandwidth: float
    rate: float
    """FLOP/s of 16-bit matrix products."""
    half: str = "bfloat16"
    """The 16-bit format that is measured."""
    fp8: bool = False
    gpus: int = 1
    longest: float = LONGEST


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: the columns of its row, its work, and what it needs."""

    family: str
    columns: dict[str, Any]
    flop: float
    traffic: float
    """Bytes moved at least."""
    footprint: float
    """Bytes of memory that one set of operands takes."""

    @property
    def key(self) -> str:
        """Names the case, whatever measured it."""
        return f"{self.family} {json.dumps(self.columns, sort_keys=True)}"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of a run, in order, and those left out by reason."""

    target: Target
    quick: bool
    cases: tuple[Case, ...]
    left_out: dict[str, int]

    def seconds(self, cases: Iterable[Case] | None = None) -> float:
        """About how long these cases take, all unless given."""
        return math.fsum(guess(case, self.target, self.quick) for case in (self.cases if cases is None else cases))


def target_of(device: Device, gpus: int = 1) -> Target:
    """What a device of the catalog is to be planned for."""
    return Target(
        system=device.name,
        memory=device.memory,
        memory_bandwidth=device.memory_bandwidth,
        rate=device.rate("bf16"),
        half="bfloat16" if "bf16" in device.flop_rate else "float16",
        fp8="fp8" in device.flop_rate,
        gpus=gpus,
    )


def target_from(facts: dict[str, Any], gpus: int | None = None) -> Target:
    """What a machine that was found is planned for; one the catalog does not have gets the example's speed and its own memory."""
    found = int(facts.get("gpus", 1))
    if gpus is not None and gpus > found:
        raise InputError(f"gpus: {gpus} are asked for, this machine has {found}")
    try:
        target = target_of(catalog.device(facts["system"]), gpus or found)
    except InputError:
        target = target_of(catalog.device(EXAMPLE), gpus or found)
    return msgspec.structs.replace(
        target,
        system=facts["system"],
        memory=facts.get("memory", target.memory),
        half=facts["half"],
        fp8=bool(facts.get("fp8", False)),
        rate=facts.get("rate", target.rate),
        memory_bandwidth=facts.get("memory_bandwidth", target.memory_bandwidth),
        longest=facts.get("longest", target.longest),
    )


def listed(planned: Plan, whole: bool = False) -> dict[str, Any]:
    """What a plan would run, by family, with counts and a guess of the time; every case with `whole`."""
    families: dict[str, list[Case]] = {}
    for case in planned.cases:
        families.setdefault(case.family, []).append(case)
    report: dict[str, Any] = {
        "system": planned.target.system,
        "cases": len(planned.cases),
        "seconds": planned.seconds(),
        "families": [
            {"family": name, "what": FAMILIES[name], "cases": len(cases), "seconds": planned.seconds(cases)}
            for name, cases in families.items()
        ],
        "left_out": [{"reason": reason, "n": count} for reason, count in planned.left_out.items()],
    }
    if whole:
        report["rows"] = [{"family": case.family, **case.columns} for case in planned.cases]
    return report


def floor(case: Case, target: Target) -> float:
    """Seconds one run takes at least."""
    return max(case.flop / target.rate, case.traffic / target.memory_bandwidth)


def repeats(seconds: float, budget: float) -> int:
    """Timed runs of a case whose one run takes that long."""
    return max(REPEATS[0], min(REPEATS[1], int(budget / max(seconds, LAUNCH))))


def guess(case: Case, target: Target, quick: bool = False) -> float:
    """About how many seconds a case takes, preparation included."""
    once = floor(case, target) * SLACK + LAUNCH
    runs = repeats(once, BUDGET[quick]) + 5  # warm-up
    each = 2 if case.family == "steps" else 1
    return SETUP.get(case.family, OTHER_SETUP) + once * runs * each


def plan(
    target: Target, families: Sequence[str] | None = None, quick: bool = False, stacks: Sequence[Stack] = ()
) -> Plan:
    """Every case of the families asked for that the target can run.

    Raises InputError for an unknown family, steps without a model, or collectives without a second GPU.
    """
    for name in families or ():
        if name not in FAMILIES:
            raise InputError(f"family: {shown(name)} is not one of {', '.join(FAMILIES)}{nearest(name, FAMILIES)}")
    if "steps" in (families or ()) and not stacks:
        raise InputError("family: steps needs a model; give --model CONFIG")
    if "collectives" in (families or ()) and target.gpus < 2:
        raise InputError(f"family: collectives needs two GPUs or more, this machine has {target.gpus}")
    makers = {
        "gemm": lambda: _gemm(target, quick),
        "decode_attention": lambda: _decode(target, quick),
        "prefill_attention": lambda: _prefill(target, quick),
        "elementwise": lambda: _elementwise(quick),
        "collectives": lambda: _collectives(target, quick),
        "steps": lambda: _steps(target, quick, stacks),
    }
    kept: list[Case] = []
    left: dict[str, int] = {}
    for name in FAMILIES:
        if families and name not in families:
            continue
        for case in makers[name]():
            reason = _too_much(case, target)
            if reason:
                left[reason] = left.get(reason, 0) + 1
            else:
                kept.append(case)
    return Plan(target=target, quick=quick, cases=tuple(kept), left_out=left)


def _too_much(case: Case, target: Target) -> str:
    if case.footprint > ROOM * target.memory:
        return f"{case.family}: more than {ROOM:.0%} of the memory"
    if floor(case, target) > target.longest:
        return f"{case.family}: one run takes more than {target.longest:g} s"
    return ""


def _gemm(target: Target, quick: bool) -> list[Case]:
    products = _PRODUCTS[: _PRODUCTS_QUICK if quick else None]
    formats = [(target.half, 2.0), *([("fp8", 1.0)] if target.fp8 else [])]
    found = []
    for name, size in formats:
        for n, k in products:
            for m in _TOKENS_QUICK if quick else _TOKENS:
                moved = n * k * size + m * k * 2.0 + m * n * 2.0
                columns = {"gemm_dtype": name, "m": m, "n": n, "k": k}
                found.append(
                    Case(family="gemm", columns=columns, flop=2.0 * m * n * k, traffic=moved, footprint=2.0 * moved)
                )
    return found


def _attention(target: Target, batch: int, new: int, step: int, heads: tuple[int, int, int]) -> dict[str, Any]:
    return {
        "attn_dtype": target.half,
        "kv_cache_dtype": target.half,
        "batch_size": batch,
        "isl": new,
        "num_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": heads[2],
        "step": step,
    }


def _decode(target: Target, quick: bool) -> list[Case]:
    batches = (1, 8, 32) if quick else (1, 2, 4, 8, 16, 32, 64, 128)
    contexts = (512, 4096) if quick else (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)  # count
    found = []
    for heads in _HEADS[: _HEADS_QUICK if quick else None]:
        count, kv, width = heads
        for batch in batches:
            for context in contexts:
                cache = 4.0 * batch * kv * context * width
                columns = _attention(target, batch, 1, context - 1, heads)
                flop = 4.0 * batch * count * context * width
                found.append(
                    Case(family="decode_attention", columns=columns, flop=flop, traffic=cache, footprint=1.1 * cache)
                )
    return found


def _prefill(target: Target, quick: bool) -> list[Case]:
    batches = (1, 8) if quick else (1, 4, 16)
    lengths = (256, 1024, 4096) if quick else (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)  # count
    found = []
    for heads in _HEADS[: _HEADS_QUICK if quick else None]:
        count, kv, width = heads
        for batch in batches:
            for new in lengths:
                flop = 2.0 * batch * count * new * (new + 1.0) * width
                moved = 4.0 * batch * new * width * (count + kv)
                columns = _attention(target, batch, new, 0, heads)
                found.append(
                    Case(
                        family="prefill_attention",
                        columns=columns,
                        flop=flop,
                        traffic=moved,
                        footprint=8.0 * batch * new * width * count,
                    )
                )
    return found


def _elementwise(quick: bool) -> list[Case]:
    found = []
    for width, inner in _WIDTHS[: _WIDTHS_QUICK if quick else None]:
        for op in _PASSES:
            for tokens in (1, 256, 8192) if quick else (1, 4, 16, 64, 256, 1024, 4096, 16384):  # count
                moved = 2.0 * tokens * {"copy": 2 * width, "add": 3 * width, "mlp_act": 3 * inner}.get(op, 2 * width)
                columns = {
                    "op": op,
                    "num_tokens": tokens,
                    "tp": 1,
                    "n_head": width // 64,
                    "n_kv_head": width // 64,
                    "n_embd": width,
                    "n_expanded_embd": inner,
                    "vocab_size": 32000,
                }
                found.append(
                    Case(family="elementwise", columns=columns, flop=0.0, traffic=moved, footprint=2.0 * moved)
                )
    return found


def _collectives(target: Target, quick: bool) -> list[Case]:
    found, ranks = [], 2
    while ranks <= target.gpus:
        for op in _COLLECTIVES:
            for power in range(12, 29, 4 if quick else 1):
                size = 2**power
                columns = {"op_name": op, "nccl_dtype": "half", "num_gpus": ranks, "message_bytes": size}
                found.append(
                    Case(family="collectives", columns=columns, flop=0.0, traffic=2.0 * size, footprint=3.0 * size)
                )
        ranks *= 2
    return found


def _steps(target: Target, quick: bool, stacks: Sequence[Stack]) -> list[Case]:
    found = []
    for stack in stacks:
        for depth in stack.depths:
            params = stack.params[depth]
            for batch in (1, 8) if quick else (1, 4, 16, 64):
                for prompt in (512,) if quick else (128, 1024, 4096):  # count
                    if stack.max_context and prompt + 1 > stack.max_context:
                        continue
                    tokens = float(batch * prompt)
                    columns = {
                        "model": stack.named(depth),
                        "hardware": target.system,
                        "tensor_parallel": 1,
                        "isl": prompt,
                        "osl": 2,
                        "batch_size": batch,
                    }
                    need = 2.0 * params + tokens * stack.token_bytes
                    found.append(
                        Case(
                            family="steps",
                            columns=columns,
                            flop=2.0 * stack.active[depth] * tokens,
                            traffic=2.0 * params,
                            footprint=need,
                        )
                    )
    return found


_NOISE = ("nvidia", "amd", "tesla", "geforce", "instinct", "quadro", "graphics", "gpu")


def system_name(device_name: str, memory: float | None = None) -> str:
    """The catalog's device for a name as drivers report it ("NVIDIA A100-SXM4-80GB"), else that name in lower case.

    Vendor words are dropped; what follows the first word is dropped too, from the end, while the memory agrees.
    """
    words = [word for word in device_name.lower().replace("_", "-").replace(" ", "-").split("-") if word]
    plain = [word for word in words if word not in _NOISE] or words or ["unknown"]
    known = set(catalog.device_names()) | set(catalog.alias_table()["devices"])
    for end in range(len(plain), 0, -1):
        dropped = plain[end:]
        if dropped and not all(_droppable(word) for word in dropped):
            break
        name = "-".join(plain[:end])
        if name in known:
            found = catalog.device(name)
            if memory is None or abs(found.memory / memory - 1.0) < 0.15:
                return found.name
    return "-".join(words)


def _droppable(word: str) -> bool:
    """Memory sizes and kinds, not what makes it another chip ("laptop", "max-q", "super")."""
    return word.startswith(("hbm", "gddr", "sxm")) or (word.endswith("gb") and word[:-2].isdigit())
