"""How long one kernel takes: one module per family, formulas of at most eight fitted parameters over numbers or arrays.

`family` says which formula an operator is priced by, `parts` evaluates it, `PRIORS` says what is believed before a fit.
Nothing here knows a model, and of a device only what `Machine` holds.
"""

from __future__ import annotations

from typing import Any

from rooflab import num
from rooflab.kernels import attention, elementwise, exchange, experts, gemm, latent, recurrence
from rooflab.kernels.machine import Machine, Parts, total
from rooflab.work import FORMATS, Op

Number = Any
Priors = dict[str, tuple[float, float]]

PARAMETERS: dict[str, type] = {
    "gemm": gemm.Parameters,
    "batched_gemm": gemm.Parameters,
    "decode_attention": attention.DecodeParameters,
    "prefill_attention": attention.PrefillParameters,
    "latent_decode": latent.Parameters,
    "latent_prefill": attention.PrefillParameters,
    "experts": experts.Parameters,
    "convolution": recurrence.Parameters,
    "scan": recurrence.Parameters,
    "update": recurrence.Parameters,
    "elementwise": elementwise.Parameters,
    "all_reduce": exchange.Parameters,
    "all_gather": exchange.Parameters,
    "reduce_scatter": exchange.Parameters,
    "all_to_all": exchange.Parameters,
    "custom_all_reduce": exchange.Parameters,
    "custom_all_reduce_eager": exchange.Parameters,
}
"""The record of parameters of each family."""

PRIORS: dict[str, Priors] = {
    "gemm": gemm.PRIORS,
    "batched_gemm": gemm.PRIORS,
    "decode_attention": attention.DECODE_PRIORS,
    "prefill_attention": attention.PREFILL_PRIORS,
    "latent_decode": latent.PRIORS,
    "latent_prefill": attention.PREFILL_PRIORS,
    "experts": experts.PRIORS,
    "convolution": recurrence.CONVOLUTION_PRIORS,
    "scan": recurrence.SCAN_PRIORS,
    "update": recurrence.UPDATE_PRIORS,
    "elementwise": elementwise.PRIORS,
    "all_reduce": exchange.PRIORS,
    "all_gather": exchange.PRIORS,
    "reduce_scatter": exchange.PRIORS,
    "all_to_all": exchange.EXCHANGE_PRIORS,
    "custom_all_reduce": exchange.CUSTOM_PRIORS,
    "custom_all_reduce_eager": {**exchange.CUSTOM_PRIORS, "short": (40.0e-6, 0.5), "long": (45.0e-6, 0.6)},
}
CHOICES: dict[str, dict[str, tuple[float, ...]]] = {
    "prefill_attention": attention.PREFILL_CHOICES,
    "latent_prefill": attention.LATENT_CHOICES,
}
"""Ways a kernel may be built, of which a fit takes the one that explains its rows best."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CUSTOM = ("custom_all_reduce", "custom_all_reduce_eager")
"""An engine's own all-reduce, launched inside a graph or one by one."""
QUANTISED = ("fp8", "fp8_block", "nvfp4")
"""Formats whose activations a matrix product quantises first."""
SHARES = frozenset({"compute", "memory", "quantise", "permute", "short_link", "long_link"})
"""Parameters that are shares of a peak: never above one."""
SECONDS = frozenset({"launch", "fill", "split", "wave", "wide", "step", "short", "hop", "long"})
"""Parameters that are times."""


def priors(family_name: str, dtype: str) -> Priors:
    """What is believed of a family's parameters before a fit: (value, spread of its logarithm)."""
    if family_name in ("gemm", "batched_gemm") and dtype in QUANTISED:
        return gemm.QUANTISED_PRIORS
    return _EIGHT_BIT.get(family_name, PRIORS[family_name]) if dtype.endswith("fp8") else PRIORS[family_name]


_EIGHT_BIT: dict[str, Priors] = {
    "prefill_attention": attention.EIGHT_BIT_PREFILL_PRIORS,
    "latent_prefill": attention.EIGHT_BIT_PREFILL_PRIORS,
    "latent_decode": latent.EIGHT_BIT_PRIORS,
}


def family(op: Op) -> str:
    """The family whose formula prices an operator; "" where the roofline alone does (coarse operators, fused parts)."""
    shape = op.shape
    if op.collective:
        return op.collective if op.collective in PARAMETERS else ""
    if op.kind == "gemm":
        return "gemm" if op.format else ""
    if op.kind == "grouped_gemm":
        return "experts" if "pairs" in shape else "batched_gemm"
    if op.kind == "attention":
        if "new" in shape:
            return "latent_prefill" if "latent_dim" in shape else "prefill_attention"
        return "decode_attention" if "context" in shape else ""
    if op.kind == "latent_attention":
        return "latent_decode"
    if op.kind == "recurrence":
        return "scan" if "tokens" in shape else "update"
    if "taps" in shape:
        return "convolution"
    return "" if "fused" in shape or not op.why else "elementwise"


def parts(name: str, op: Op, machine: Machine, p: Any) -> Parts:
    """Seconds of arithmetic, traffic and fixed costs of a local operator under its family's parameters."""
    return _FORMULAS[name](op, machine, p)


def _size(op: Op) -> float:
    return FORMATS[op.format].size


def _gemm(op: Op, machine: Machine, p: gemm.Parameters) -> Parts:
    weight = _size(op)
    activation = weight if p.quantise else 2.0
    return gemm.seconds(op.m, op.n, op.k, activation, weight, 2.0, machine, p, op.groups)


def _decode(op: Op, machine: Machine, p: attention.DecodeParameters) -> Parts:
    s = op.shape
    return attention.decode_seconds(
        s["sequences"], s["heads"], s["kv_heads"], s["head_dim"], s["value_dim"], s["context"], _size(op), machine, p
    )


def _prefill(op: Op, machine: Machine, p: attention.PrefillParameters) -> Parts:
    s = op.shape
    return attention.prefill_seconds(
        s["sequences"],
        s["heads"],
        s["kv_heads"],
        s["head_dim"],
        s["value_dim"],
        s["new"],
        s["cached"],
        s["window"],
        _size(op),
        machine,
        p,
    )


def _latent_prefill(op: Op, machine: Machine, p: attention.PrefillParameters) -> Parts:
    """Keys and values expanded for every head, or, where heads share a tile, all of them over the latents themselves."""
    if p.tiles != attention.SHARED:
        return _prefill(op, machine, p)
    s = op.shape
    value = s["latent_dim"]
    row = value + s["head_dim"] - s["value_dim"]
    return attention.prefill_seconds(
        s["sequences"],
        s["heads"],
        1.0,
        row,
        value,
        s["new"],
        s["cached"],
        s["window"],
        _size(op),
        machine,
        p,
        latent.ROWS,
    )


def _latent(op: Op, machine: Machine, p: latent.Parameters) -> Parts:
    s = op.shape
    return latent.seconds(
        s["sequences"], s["heads"], s["head_dim"], s["value_dim"], s["context"], _size(op), machine, p
    )


def load_of(op: Op) -> experts.Load:
    """What the experts of an operator receive: the row tiles it carries, what real text sends them, or an even spread."""
    s = op.shape
    if "topk" in s:
        return experts.uneven_load(s["tokens"], s["experts"], s["topk"], s["ranks"])
    if "tiles_16" in s:
        tiles = tuple(s[f"tiles_{int(rows)}"] for rows in experts.TILE_ROWS)
        return experts.Load(s["pairs"], s["distinct"], tiles)
    return experts.even_load(s["pairs"], s["distinct"])


def _experts(op: Op, machine: Machine, p: experts.Parameters) -> Parts:
    """The layer's time, less what its activation and permutation are priced at on their own, by this product's share."""
    s, weight = op.shape, _size(op)
    activation = 2.0 if FORMATS[op.format].rate == "bf16" else weight
    load = load_of(op)
    whole = experts.seconds(load, s["hidden"], s["up"], s["inter"], activation, weight, machine, p, s.get("routed"))
    beside = s.get("beside", 0.0) / machine.bandwidth
    time = total(whole)
    share = s["share"] * num.maximum(1.0 - beside / time, 0.0)
    return whole[0] * share, whole[1] * share, whole[2] * share


def _convolution(op: Op, machine: Machine, p: recurrence.Parameters) -> Parts:
    s = op.shape
    return recurrence.convolution_seconds(s["tokens"], s["channels"], machine, p)


def _scan(op: Op, machine: Machine, p: recurrence.Parameters) -> Parts:
    s = op.shape
    return recurrence.scan_seconds(s["tokens"], s["sequences"], s["heads"], s["key_dim"], s["value_dim"], machine, p)


def _update(op: Op, machine: Machine, p: recurrence.Parameters) -> Parts:
    s = op.shape
    return recurrence.update_seconds(s["sequences"], s["heads"], s["key_dim"], s["value_dim"], _size(op), machine, p)


def _elementwise(op: Op, machine: Machine, p: elementwise.Parameters) -> Parts:
    return elementwise.seconds(op.bytes(), machine, p)


_FORMULAS: dict[str, Any] = {
    "gemm": _gemm,
    "batched_gemm": _gemm,
    "decode_attention": _decode,
    "prefill_attention": _prefill,
    "latent_decode": _latent,
    "latent_prefill": _latent_prefill,
    "experts": _experts,
    "convolution": _convolution,
    "scan": _scan,
    "update": _update,
    "elementwise": _elementwise,
}


_EXPLAINED: dict[str, Any] = {
    "gemm": gemm.seconds,
    "batched_gemm": gemm.seconds,
    "decode_attention": attention.decode_seconds,
    "prefill_attention": attention.prefill_seconds,
    "latent_decode": latent.seconds,
    "latent_prefill": attention.prefill_seconds,
    "experts": experts.seconds,
    "convolution": recurrence.convolution_seconds,
    "scan": recurrence.scan_seconds,
    "update": recurrence.update_seconds,
    "elementwise": elementwise.seconds,
    **dict.fromkeys(CUSTOM, exchange.custom_seconds),
}


def formula(name: str) -> Any:
    """The function that holds a family's formula, and says in its docstring what it counts."""
    return _EXPLAINED.get(name, exchange.library_seconds)


def exchange_seconds(name: str, message: Number, peers: Number, link: Number, p: exchange.Parameters) -> Number:
    """Seconds of a collective of `message` bytes among ranks of one link domain."""
    if name in CUSTOM:
        return exchange.custom_seconds(message, peers, link, p)
    sent = 2.0 * (peers - 1.0) if name == "all_reduce" else peers - 1.0
    return exchange.library_seconds((sent + exchange.OWN_SHARE) / peers * message, peers, link, p)
