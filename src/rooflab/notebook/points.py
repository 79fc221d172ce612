"""Many estimates at once: the same question with lists or arrays in it, evaluated by the engine in one go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rooflab import __version__, api
from rooflab.api.answers import units_of
from rooflab.api.asks import EstimateAsk, EstimateReport
from rooflab.api.resolve import layout_of, prices_of_many, setting_of
from rooflab.cli.reading import bounds, hints
from rooflab.estimate import Estimate, Workload, estimate
from rooflab.fitted import pricer_of
from rooflab.units import InputError, shown

if TYPE_CHECKING:
    from rooflab.api.resolve import Setting
    from rooflab.work import Layout

WORK = ("batch", "prompt", "output", "cached")
DEGREES = ("tp", "pp", "cp", "dp", "ep", "attention_dp", "microbatches")
AXES = (*WORK, *DEGREES)
"""What may be a list or an array."""
FIGURES = ("ttft", "tpot", "e2e", "output_throughput", "decode_throughput", "throughput_per_device")


PARTS = (*FIGURES, "memory", "tokens_per_second_per_user", "cost_per_million_tokens", "energy_per_token")


def several(question: Mapping[str, Any]) -> bool:
    """Whether any of the axes holds several values."""
    return any(_many(question.get(axis)) for axis in AXES)


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple | range) or (hasattr(value, "__array__") and getattr(value, "ndim", 1) > 0)


def points(question: Mapping[str, Any]) -> dict[str, Any]:
    """A report whose figures are arrays, of the shape that the question's lists and arrays broadcast to."""
    arrays = {axis: _array(axis, question[axis]) for axis in AXES if _many(question.get(axis))}
    shape = _shape(arrays)
    ask = api.ask_of({"kind": "estimate", **{k: v for k, v in question.items() if k not in arrays}})
    assert isinstance(ask, EstimateAsk)
    setting = setting_of(msgspec.structs.replace(ask, **dict.fromkeys(DEGREES, 1)))
    values = {axis: arrays.get(axis, getattr(ask, axis)) for axis in AXES}
    if _any(values["cached"] >= values["prompt"]):
        raise InputError("cached: must be below prompt at every point; at least one token is computed")
    layout, more = _layout(ask, setting, values, shape)
    work = Workload(**{axis: values[axis] for axis in WORK})
    found = estimate(
        setting.model, setting.precision, layout, setting.system, work, setting.profile, band=False,
        pricer=pricer_of(prices_of_many(ask, setting.profile, "lists"), setting.system, layout, setting.profile, ask.engine),
    )  # fmt: skip
    asked = {**msgspec.to_builtins(ask), **{axis: array.tolist() for axis, array in arrays.items()}}
    return {
        "kind": "points",
        "version": __version__,
        "ask": asked,
        "notes": [*setting.notes, *more],
        "units": {name: unit for name, unit in units_of(EstimateReport).items() if name.partition(".")[0] in PARTS},
        "name": setting.model.name,
        "system": setting.system.name,
        "profile": setting.profile.name,
        "shape": shape,
        "inputs": {axis: _spread(array, shape) for axis, array in arrays.items()},
        **_columns(found, layout, shape, ask.ignore_memory),
    }


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise InputError("lists and arrays need NumPy, which is not installed; ask one point at a time") from None
    return numpy


def _any(mask: Any) -> bool:
    return bool(mask.any()) if hasattr(mask, "any") else bool(mask)


def _array(axis: str, value: Any) -> Any:
    """A list as an array of whole numbers within the axis's bounds."""
    numpy = _numpy()
    try:
        array = numpy.asarray(value)
        numbers = array.astype(float)
    except (ValueError, TypeError):
        raise InputError(f"{axis}: {shown(value)} is not a list of whole numbers of one shape") from None
    _, least, most = bounds(hints(EstimateAsk)[axis])
    right = (numbers >= least) & (numbers <= most) & (numbers == numpy.floor(numbers))
    if array.dtype == bool or not array.size or not right.all():
        bad = shown(numbers[~right].flat[0].item()) if array.size and not right.all() else shown(value)
        raise InputError(f"{axis}: {bad} is not a whole number from {least:,} to {most:,}")
    return numbers


def _shape(arrays: Mapping[str, Any]) -> tuple[int, ...]:
    numpy = _numpy()
    try:
        return numpy.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        sizes = ", ".join(f"{axis} {array.shape}" for axis, array in arrays.items())
        raise InputError(f"{', '.join(arrays)}: shapes do not go together: {sizes}; give lists of one length") from None


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    return _numpy().array(_numpy().broadcast_to(value, shape))


def _layout(
    ask: EstimateAsk, setting: Setting, values: Mapping[str, Any], shape: tuple[int, ...]
) -> tuple[Layout, list[str]]:
    """The layout of every point, each with what its degrees imply; distinct layouts are worked out once.

    The columns have the shape of the degrees alone, with axes of length one where only the workload varies.
    """
    numpy = _numpy()
    own = numpy.broadcast_shapes(*(numpy.shape(values[axis]) for axis in DEGREES))
    own = (1,) * (len(shape) - len(own)) + own
    degrees = numpy.stack([_spread(values[axis], own).ravel() for axis in DEGREES], axis=1)
    distinct, which = numpy.unique(degrees, axis=0, return_inverse=True)
    layouts, notes = [], []
    for row in distinct.astype(int).tolist():
        one = msgspec.structs.replace(ask, **dict(zip(DEGREES, row, strict=True)))
        layout, more = layout_of(one, setting.model, setting.profile)
        layouts.append([getattr(layout, axis) for axis in DEGREES])
        notes += [note for note in more if note not in notes]
    each = numpy.array(layouts, dtype=float)[which.reshape(-1)]
    columns = {axis: each[:, index].reshape(own) for index, axis in enumerate(DEGREES)}
    return msgspec.structs.replace(setting.layout, **columns), notes


def _columns(found: Estimate, layout: Layout, shape: tuple[int, ...], ignore_memory: bool) -> dict[str, Any]:
    """Figures as arrays; where a point cannot be run they are NaN, as its own estimate would have none."""
    numpy = _numpy()
    feasible = _spread(found.feasible, shape)
    fits = _spread(found.fits, shape) & feasible
    shows = feasible if ignore_memory else fits

    def told(values: Any) -> Any:
        return numpy.where(shows, values, numpy.nan)

    tpot: Any = None if found.mid is None else found.mid.tpot
    cost = None if found.cost is None else {key: told(value) for key, value in found.cost.items()}
    return {
        "feasible": feasible,
        "fits": fits,
        "reasons": list(found.reasons),
        "devices": _spread(layout.devices(), shape),
        "memory": {n: _spread(getattr(found.memory, n), shape) for n in found.memory.__struct_fields__ if n != "fits"},
        **{name: told(getattr(found.mid, name)) for name in FIGURES},
        "tokens_per_second_per_user": told(1.0 / tpot),
        "cost_per_million_tokens": cost,
        "energy_per_token": None if found.energy is None else told(found.energy),
    }
