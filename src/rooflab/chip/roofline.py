"""The chip as three numbers, the model as four, and everything that follows from them (requirements C-002–C-016).

Batch, context and every field may be a number or a NumPy array. All functions are pure and know only the chip they
are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from rooflab import num
from rooflab.chip import formulas as f
from rooflab.graph import linear_params
from rooflab.graph.mixers import visible_keys
from rooflab.model import Attention, Dense, LatentAttention, Model, MoE
from rooflab.system import Device
from rooflab.units import InputError, nearest, parse, shown
from rooflab.work import FORMATS, Precision, Reason, size_of

Number = Any

BATCHES: tuple[float, ...] = tuple(float(2**power) for power in range(9))
"""1, 2, 4 … 256: the standard points of curves over the batch."""
CONTEXTS: tuple[float, ...] = (128.0, 512.0, 2048.0, 8192.0, 32768.0, 131072.0, 524288.0, 1048576.0)  # count
"""The standard points of curves over the context."""
MULTIPLIERS: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CONTEXT_RATIOS: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 5.0)
"""Contexts as multiples of the balance context L*, for the curves that show where the knee goes."""
AXES = ("flops", "bw")


# ------------------------------------------------------------------------------------------ what the formulas read


class ModelNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What the roofline knows of a model."""

    name: str = ""
    params: Number
    """Attention and feed-forward weights of all layers, without embeddings, head and norms (N_total)."""
    active_params: Number
    """The same, routed experts counted as often as one token uses them (N_active)."""
    kv_per_token: Number
    """Bytes a decode step reads per cached token, averaged over the context."""
    kv_growth: Number = 0.0
    """Bytes the cache grows by with the next token; smaller than `kv_per_token` where a window is full."""
    layers: Number = 1

    def __post_init__(self) -> None:
        _settle(self, "params", "1", positive=True)
        _settle(self, "active_params", "1", positive=True)
        _settle(self, "kv_per_token", "byte/token")
        _settle(self, "kv_growth", "byte/token")

    @property
    def sparsity(self) -> Number:
        """N_total / N_active: 1 for dense models."""
        return f.sparsity(self.params, self.active_params)


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """A device as the roofline sees it, with the model it runs."""

    name: str = ""
    flop_rate: Number
    """Dense peak (C), FLOP/s."""
    memory_bandwidth: Number
    """Peak (W), byte/s."""
    weight_size: Number
    """Bytes per weight (b), averaged over the weights of all layers."""
    model: ModelNumbers

    def __post_init__(self) -> None:
        _settle(self, "flop_rate", "FLOP/s", positive=True)
        _settle(self, "memory_bandwidth", "byte/s", positive=True)
        _settle(self, "weight_size", "byte", positive=True)

    def scaled(self, flops: Number = 1.0, bandwidth: Number = 1.0) -> Chip:
        """The same chip with its rate and its bandwidth multiplied."""
        return msgspec.structs.replace(
            self,
            flop_rate=self.flop_rate * parse(flops, "1", "flops_multiplier", positive=True),
            memory_bandwidth=self.memory_bandwidth * parse(bandwidth, "1", "bandwidth_multiplier", positive=True),
        )


def _settle(record: msgspec.Struct, field: str, dimension: str, *, positive: bool = False) -> None:
    """Check a field and keep it as a plain float (or the array it is)."""
    msgspec.structs.force_setattr(record, field, parse(getattr(record, field), dimension, field, positive=positive))


def of(model: Model, precision: Precision, device: Device, context: Number) -> Chip:
    """The roofline's numbers for this model on this device; the cache's bytes per token are those at `context`."""
    classes = _weights_by_class(model)
    params = float(linear_params(model))
    formats = {
        "attention": precision.attention,
        "ffn": precision.ffn,
        "expert": precision.expert,
        "router": precision.activation,
    }
    size = math.fsum(total * precision.weight_size(formats[each]) for each, (total, _) in classes.items()) / params
    active = {each: used for each, (_, used) in classes.items() if used and each != "router"}
    return Chip(
        name=device.name,
        flop_rate=_flop_rate(device, {each: (used, FORMATS[formats[each]].rate) for each, used in active.items()}),
        memory_bandwidth=device.memory_bandwidth,
        weight_size=size,
        model=ModelNumbers(
            name=model.name,
            params=params,
            active_params=float(linear_params(model, active=True)),
            kv_per_token=kv_per_token(model, precision, context),
            kv_growth=kv_growth(model, precision, context),
            layers=model.layers,
        ),
    )


def _weights_by_class(model: Model) -> dict[str, tuple[int, int]]:
    """(all, used by one token) of each class of weights in the layers' matrix products."""
    counts = {"attention": [0, 0], "ffn": [0, 0], "expert": [0, 0], "router": [0, 0]}

    def add(name: str, total: int, used: int) -> None:
        counts[name][0] += total
        counts[name][1] += used

    for block in model.blocks:
        hidden, count, ffn = model.hidden, block.count, block.ffn
        if block.mixer is not None:
            weights = count * block.mixer.matmul_params(hidden)
            add("attention", weights, weights)
        if isinstance(ffn, Dense):
            add("ffn", count * ffn.matmul_params(hidden), count * ffn.matmul_params(hidden))
        elif isinstance(ffn, MoE):
            always = count * (ffn.shared_params(hidden) + ffn.latent_params(hidden))
            one = count * (ffn.expert_params(hidden) - ffn.expert_other_params)
            add("ffn", always, always)
            add("expert", ffn.experts * one, ffn.topk * one)
            add("router", count * hidden * ffn.experts, count * hidden * ffn.experts)
    return {name: (total, used) for name, (total, used) in counts.items() if total}


def _flop_rate(device: Device, classes: dict[str, tuple[int, str]]) -> Number:
    """Peak rate over the weights a token multiplies; a mixture of formats takes the time of its parts.

    Routers, below one per cent of the products, are taken at the rate of the rest.
    """
    keys = {device.runs_as(rate) for _, rate in classes.values()}
    if len(keys) == 1:
        return device.rate(next(iter(classes.values()))[1])
    time: Number = 0.0
    for used, rate in classes.values():
        time = time + float(used) / device.rate(rate)
    return math.fsum(float(used) for used, _ in classes.values()) / time


def kv_read(model: Model, precision: Precision, context: Number) -> Number:
    """Bytes of cache one decode step reads for one sequence: windows and sparse selections read only what they see."""
    size, total = size_of(precision.kv), 0.0 * context
    for block in model.blocks:
        mixer = block.mixer
        if isinstance(mixer, LatentAttention) or (isinstance(mixer, Attention) and not mixer.cross):
            entry = mixer.kv_elements()
            if isinstance(mixer, Attention):
                entry = mixer.kv_heads * (mixer.head_dim + mixer.value_dim)  # a shared cache is read here as well
            total = total + float(block.count * entry) * size * visible_keys(context, mixer)
    return total + model.index_elements(context) * index_size(precision)


def index_size(precision: Precision) -> float:
    """Bytes per element of a sparse selector's keys: in fp8 one fp32 scale for every 128."""
    return size_of(precision.kv) + (4.0 / 128.0 if precision.kv.startswith("fp8") else 0.0)


def kv_per_token(model: Model, precision: Precision, context: Number) -> Number:
    """Bytes read per cached token at this context: `kv_read` over the context, so S × this is what a step reads."""
    tokens = num.maximum(parse(context, "token", "context"), 1.0)
    return kv_read(model, precision, tokens) / tokens


def kv_growth(model: Model, precision: Precision, context: Number) -> Number:
    """Bytes the cache of one sequence grows by with the token after `context`."""
    tokens = parse(context, "token", "context")
    entries = model.kv_elements(tokens + 1.0) - model.kv_elements(tokens)
    keys = model.index_elements(tokens + 1.0) - model.index_elements(tokens)
    return entries * size_of(precision.kv) + keys * index_size(precision)


# --------------------------------------------------------------------------------------------- intensity and knees


def arithmetic_intensity(chip: Chip) -> Number:
    """AI = C / W, FLOP per byte."""
    return f.arithmetic_intensity(chip.flop_rate, chip.memory_bandwidth)


def critical_batch(chip: Chip) -> Number:
    """B*: the batch at which weights take as long to read as to multiply by, N_total / N_active included."""
    return f.critical_batch(chip.flop_rate, chip.weight_size, chip.memory_bandwidth, chip.model.sparsity)


def dense_critical_batch(chip: Chip) -> Number:
    """B* as it would be if every weight were active."""
    return f.critical_batch(chip.flop_rate, chip.weight_size, chip.memory_bandwidth, 1.0)


def balance_context(chip: Chip) -> Number:
    """L*: the context whose cache takes as long to read as its token to compute; infinite where nothing is cached."""
    kv = chip.model.kv_per_token
    some = num.where(kv > 0, kv, 1.0)
    context = f.balance_context(chip.model.active_params, chip.memory_bandwidth, chip.flop_rate, some)
    return num.where(kv > 0, context, math.inf)


def knee_batch(chip: Chip, context: Number) -> Number:
    """B_knee: the batch at which compute catches up with weights and cache; None (NaN in arrays) at or past L*."""
    context = _context(context)
    critical, balance = critical_batch(chip), balance_context(chip)
    below = context < balance
    if below is False:
        return None
    knee = f.knee_batch(critical, num.where(below, context, 0.0), balance)
    return num.where(below, knee, math.nan)


# --------------------------------------------------------------------------------------------------------- latency


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time goes at one batch, in seconds: of a step, or of one token of it."""

    batch: Number
    weight: Number
    compute: Number
    kv: Number
    memory: Number
    """Weights and cache together."""
    total: Number


def step_latency(chip: Chip, batch: Number, context: Number) -> Latency:
    """t_step = N·b/W + 2·N_active·B/C + B·S·kv/W."""
    batch, context = _batch(batch), _context(context)
    weight = f.weight_time(chip.model.params, chip.weight_size, chip.memory_bandwidth)
    compute = f.compute_time(chip.model.active_params, batch, chip.flop_rate)
    kv = f.kv_time(batch, context, chip.model.kv_per_token, chip.memory_bandwidth)
    total = f.step_time(weight, compute, kv)
    return Latency(batch=batch, weight=weight, compute=compute, kv=kv, memory=weight + kv, total=total)


def per_token_latency(chip: Chip, batch: Number, context: Number) -> Latency:
    """The step shared by its sequences: weights N·b/(W·B), compute 2·N_active/C, cache S·kv/W."""
    batch = _batch(batch)
    weight, compute, kv = t_mem_short(chip, batch), t_com(chip), t_mem_long(chip, context)
    total = f.step_time(weight, compute, kv)
    return Latency(batch=batch, weight=weight, compute=compute, kv=kv, memory=weight + kv, total=total)


def step_latency_curve(chip: Chip, context: Number, batches: Iterable[float] = BATCHES) -> tuple[Latency, ...]:
    """A step at each batch."""
    return tuple(step_latency(chip, batch, context) for batch in batches)


def per_token_latency_curve(chip: Chip, context: Number, batches: Iterable[float] = BATCHES) -> tuple[Latency, ...]:
    """Time per token at each batch."""
    return tuple(per_token_latency(chip, batch, context) for batch in batches)


def t_com(chip: Chip) -> Number:
    """Compute time per token."""
    return f.t_com(chip.model.active_params, chip.flop_rate)


def t_mem_short(chip: Chip, batch: Number) -> Number:
    """Weight-reading time per token."""
    return f.t_mem_short(chip.model.params, chip.weight_size, chip.memory_bandwidth, _batch(batch))


def t_mem_long(chip: Chip, context: Number) -> Number:
    """Cache-reading time per token."""
    return f.t_mem_long(_context(context), chip.model.kv_per_token, chip.memory_bandwidth)


def bound_regime(chip: Chip, batch: Number, context: Number) -> Number:
    """memory-bound, compute-bound or kv-bound: the largest term of the step (the first of these when equal)."""
    step = step_latency(chip, batch, context)
    rest = num.where(step.compute >= step.kv, "compute-bound", "kv-bound")
    return num.where(step.weight >= num.maximum(step.compute, step.kv), "memory-bound", rest)


def max_batch_within_slo(chip: Chip, slo: Number, context: Number) -> Number:
    """Largest batch whose step takes no longer than `slo` seconds; 0 where one sequence already does."""
    slo = parse(slo, "s", "slo", positive=True)
    one = step_latency(chip, 1.0, context)
    batch = f.max_batch(slo, one.weight, one.compute, one.kv)
    # The division may round across a whole number; the step itself decides.
    more = step_latency(chip, batch + 1.0, context).total <= slo
    fewer = num.logical_and(batch > 0, step_latency(chip, num.maximum(batch, 1.0), context).total > slo)
    return batch + num.where(more, 1.0, 0.0) - num.where(fewer, 1.0, 0.0)


# ---------------------------------------------------------------------------------------------------------- advice


class GoodBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The batch to aim for."""

    dense: Number
    """2 × B* as if every weight were active."""
    sparsity: Number
    effective: Number
    """The same times N_total / N_active."""
    reason: str


class GoodContext(msgspec.Struct, frozen=True, kw_only=True):
    """How the context stands to its ceiling."""

    ceiling: Number
    """L*."""
    context: Number
    utilization: Number
    reason: str


def good_batch(chip: Chip) -> GoodBatch:
    """2 × B*, with N_total / N_active in it: the weights then take half as long to read as to multiply by."""
    reason = (
        "At 2 × B* the weights take half as long to read as to multiply by; "
        "a larger batch buys little and every sequence needs memory for its cache."
    )
    return GoodBatch(
        dense=f.good_batch(dense_critical_batch(chip)),
        sparsity=chip.model.sparsity,
        effective=f.good_batch(critical_batch(chip)),
        reason=reason,
    )


def good_context(chip: Chip, context: Number) -> GoodContext:
    """The ceiling L* and what share of the peak is left at `context`."""
    reason = (
        "At L* reading the cache takes as long as computing the token; beyond it no batch reaches half the peak rate."
    )
    context = _context(context)
    return GoodContext(
        ceiling=balance_context(chip), context=context, utilization=utilization_at(chip, context), reason=reason
    )


def utilization_at(chip: Chip, context: Number) -> Number:
    """Share of the peak that large batches approach: 1 / (1 + S/L*)."""
    return f.utilization(_context(context), balance_context(chip))


# ----------------------------------------------------------------------------------------------------- sensitivity


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """The chip with one of its rates multiplied."""

    multiplier: Number
    intensity: Number
    critical_batch: Number


def ai_sensitivity(chip: Chip, axis: str, multipliers: Iterable[float] = MULTIPLIERS) -> tuple[Sensitivity, ...]:
    """AI and B* as the FLOP rate (``flops``) or the memory bandwidth (``bw``) is multiplied."""
    if axis not in AXES:
        raise InputError(f"axis: {shown(axis)} is not one of {', '.join(AXES)}{nearest(axis, AXES)}")
    points = []
    for multiplier in multipliers:
        changed = chip.scaled(flops=multiplier) if axis == "flops" else chip.scaled(bandwidth=multiplier)
        points.append(
            Sensitivity(
                multiplier=multiplier, intensity=arithmetic_intensity(changed), critical_batch=critical_batch(changed)
            )
        )
    return tuple(points)


# ------------------------------------------------------------------------------------------- where numbers come from


def reasons(chip: Chip, batch: Number, context: Number) -> tuple[Reason, ...]:
    """The formula behind every number of the view, with the arguments it was called with.

    Left out are L*, B_knee and the utilisation where nothing is cached per token, and B_knee at or past L*.
    """
    rate, bandwidth, size, model = chip.flop_rate, chip.memory_bandwidth, chip.weight_size, chip.model
    critical, balance, step = critical_batch(chip), balance_context(chip), step_latency(chip, batch, context)
    found = [
        Reason("arithmetic_intensity", f.arithmetic_intensity, (rate, bandwidth)),
        Reason("sparsity", f.sparsity, (model.params, model.active_params)),
        Reason("dense_critical_batch", f.critical_batch, (rate, size, bandwidth, 1.0)),
        Reason("critical_batch", f.critical_batch, (rate, size, bandwidth, model.sparsity)),
        Reason("good_batch", f.good_batch, (critical,)),
        Reason("weight_time", f.weight_time, (model.params, size, bandwidth)),
        Reason("compute_time", f.compute_time, (model.active_params, batch, rate)),
        Reason("kv_time", f.kv_time, (batch, context, model.kv_per_token, bandwidth)),
        Reason("step_time", f.step_time, (step.weight, step.compute, step.kv)),
        Reason("t_com", f.t_com, (model.active_params, rate)),
        Reason("t_mem_short", f.t_mem_short, (model.params, size, bandwidth, batch)),
        Reason("t_mem_long", f.t_mem_long, (context, model.kv_per_token, bandwidth)),
    ]
    if num.all_true(model.kv_per_token > 0):
        arguments = (model.active_params, bandwidth, rate, model.kv_per_token)
        found.append(Reason("balance_context", f.balance_context, arguments))
        found.append(Reason("utilization", f.utilization, (context, balance)))
        if num.all_true(context < balance):
            found.append(Reason("knee_batch", f.knee_batch, (critical, context, balance)))
    return tuple(found)


def _batch(batch: Number) -> Number:
    return parse(batch, "1", "batch", positive=True)


def _context(context: Number) -> Number:
    return parse(context, "token", "context")
