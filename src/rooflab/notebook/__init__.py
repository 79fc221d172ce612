"""The Python API: one function for each question, and results that read well in a notebook.

Thin over `api.answer`. Where `estimate` is given lists or arrays, all points are evaluated at once by the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rooflab import api
from rooflab.cli.reading import KINDS, reader
from rooflab.notebook.result import Result
from rooflab.units import InputError

if TYPE_CHECKING:
    from rooflab.system import System


def answer(ask: Mapping[str, Any]) -> Result:
    """The answer to a question as plain data, such as a saved one: `{"kind": "inspect", "model": "llama-3.1-8b"}`."""
    if not isinstance(ask, Mapping):
        raise InputError("ask: give a mapping, for example {'kind': 'inspect', 'model': 'llama-3.1-8b'}")
    return Result(api.answer(ask))


def _ask(kind: str, **question: Any) -> Result:
    return Result(api.answer({"kind": kind, **_readable(kind, question)}))


def _readable(kind: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """A question as the engine reads it: "128k" tokens as a number, paths as text, systems as plain data."""
    found: dict[str, Any] = {}
    known = KINDS[kind]
    for name, value in question.items():
        if isinstance(value, Path):
            value = str(value)
        elif isinstance(value, msgspec.Struct):
            value = _data(value)
        elif hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            value = value.item()
        if isinstance(value, str) and name in known.__struct_fields__:
            read = reader(known, name, name)
            value = read(value) if read else value
        found[name] = value
    return found


def _data(value: msgspec.Struct) -> Any:
    """A record as plain data, without what is not set."""
    return {key: item for key, item in msgspec.to_builtins(value).items() if item is not None}


def inspect(model: Any, *, context: Any = 4096, batch: Any = 1, **options: Any) -> Result:  # count
    """What a model is: parameters, cache, bytes and layers, at a context.

    `model` is a catalog name, a path to a config.json or its folder, a Hugging Face id, or the config as a dict.
    Options: weights, kv.
    """
    return _ask("inspect", model=model, context=context, batch=batch, **options)


def estimate(
    model: Any,
    on: str | Mapping[str, Any] | System | Path,
    *,
    batch: Any = 1,
    prompt: Any = 1024,  # count
    output: Any = 256,
    **options: Any,
) -> Result:
    """Whether it fits, TTFT, TPOT, throughput, cost and energy.

    `on` is a system's or device's name ("h100-sxm", "8x h100-sxm"), a path to a TOML file, a dict or a System. Options:
    cached, tp, pp, cp, dp, ep, attention_dp, weights, kv, changes (a what-if machine), profile, switches, reserve, and the
    other fields of `EstimateAsk`.

    Where batch, prompt, output, cached or a degree is a list or an array, every point is evaluated (shapes broadcast), the
    figures are arrays, and `fits` and `feasible` say which to trust; the others are NaN.
    """
    question = {"model": model, "on": on, "batch": batch, "prompt": prompt, "output": output, **options}
    from rooflab.notebook.points import points, several

    if several(question):
        return Result(points(_readable("estimate", question)))
    return _ask("estimate", **question)


def step(model: Any, on: Any, *, phase: str = "decode", batch: Any = 1, context: Any = 4096, **options: Any) -> Result:
    """One forward pass, operator by operator; `result.ops` are all of them.

    phase: prefill, decode or mixed (prefill_batch prompts of prefill_tokens beside). Options as of `estimate`.
    """
    return _ask("step", model=model, on=on, phase=phase, batch=batch, context=context, **options)


def explain(model: Any, on: Any, op: str, **options: Any) -> Result:
    """Why a number is what it is: formulas with your numbers in them.

    op: ttft, tpot, e2e, output_throughput, cost, energy, weights, kv, workspace, or an operator's name. Options as of
    `estimate`, and phase and context.
    """
    return _ask("explain", model=model, on=on, op=op, **options)


def fit(
    model: Any,
    on: Any,
    *,
    batch: Any = 1,
    prompt: Any = 1024,  # count
    output: Any = 256,
    **options: Any,
) -> Result:
    """Whether it fits, what is too large, and the smallest changes that would help. Options as of `estimate`."""
    return _ask("fit", model=model, on=on, batch=batch, prompt=prompt, output=output, **options)


def chip(model: Any, on: Any, *, batch: Any = 1, context: Any = 4096, **options: Any) -> Result:
    """The chip's own roofline: critical batch, balance context, knee, regimes, memory.

    Options: flops_multiplier, bandwidth_multiplier, tp, pp, cp, weights, kv, changes.
    """
    return _ask("chip", model=model, on=on, batch=batch, context=context, **options)


def catalog(what: str = "models") -> Result:
    """Entries of a shelf of the catalog: models, systems, devices, links, formats or profiles."""
    return _ask("catalog", what=what)


def models() -> list[str]:
    """Names of the catalog's models."""
    from rooflab.catalog import model_names

    return list(model_names())


def systems() -> list[str]:
    """Names of the catalog's systems; every device is one, too."""
    from rooflab.catalog import system_names

    return list(system_names())


def devices() -> list[str]:
    """Names of the catalog's devices."""
    from rooflab.catalog import device_names

    return list(device_names())


def schema() -> dict[str, Any]:
    """JSON Schema of questions and reports, with each quantity's unit."""
    return api.schema()
