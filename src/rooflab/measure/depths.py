"""Measuring a deep model by a few of its layers: which depths, their configs, and the whole from two of them. Pure.

Layers come in a leading part and a repeated pattern. Two depths one pattern apart give the time of a pattern, and what is
outside it (embedding, head, leading layers); the whole follows. That the same arithmetic gives the full model's
parameters and cache exactly is checked first; where it does not, only the full depth is measured.
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import msgspec

from rooflab import catalog, hf
from rooflab.model import Model
from rooflab.units import InputError, shown

_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
_PERIODS = ("_pattern", "_interval", "_period", "_freq", "_step")
LEAST_APART = 2
"""Layers two depths differ by at least, so that their difference is well above the noise."""
LONG = 100_000.0
"""Tokens of cache at which windows show."""
ACTIVATIONS = 24.0
"""Bytes per token and unit of hidden width that a pass keeps besides its cache."""


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A model to be measured at some depths."""

    name: str
    layers: int
    pattern: int
    depths: tuple[int, ...]
    configs: dict[int, dict[str, Any]]
    params: dict[int, float]
    active: dict[int, float]
    token_bytes: float
    """Bytes of memory a token takes at the largest depth, about."""
    max_context: int = 0

    def named(self, depth: int) -> str:
        """The name of the shallow model, and of its config file."""
        return f"{self.name}-{depth}-layers"

    def whole(self, times: dict[int, float]) -> dict[str, float]:
        """{"per_layer", "outside", "whole"} seconds from those at the depths measured; {} where the deeper was no slower."""
        shallow = self.depths[0]
        if len(self.depths) == 1:
            return {"whole": times[shallow]}
        each = (times[self.depths[1]] - times[shallow]) / self.pattern
        if each <= 0.0:
            return {}
        return {
            "per_layer": each,
            "outside": times[shallow] - shallow * each,
            "whole": times[shallow] + (self.layers - shallow) * each,
        }


def stack(config: dict[str, Any], name: str, half: str) -> Stack:
    """A model's depths to measure and their configs, in 16 bits and not quantised.

    Raises InputError where its layers cannot be counted.
    """
    plain = _text_of(config)
    key = next((key for key in _COUNTS if isinstance(plain.get(key), int)), None)
    if key is None:
        raise InputError(f"model: {shown(name)} does not say how many layers it has ({', '.join(_COUNTS)})")
    layers = plain[key]
    depths, period = _depths(plain, key, layers)
    configs = {depth: cut(plain, key, depth, half) for depth in depths}
    models = {depth: hf.read(each, name) for depth, each in configs.items()}
    deepest = models[depths[-1]]
    wide = ACTIVATIONS * deepest.hidden + 8.0 * deepest.hidden * depths[-1]
    return Stack(
        name=_slug(name),
        layers=layers,
        pattern=period,
        depths=depths,
        configs=configs,
        params={depth: float(model.params()) for depth, model in models.items()},
        active={depth: float(model.active_params()) for depth, model in models.items()},
        token_bytes=wide,
        max_context=deepest.max_context,
    )


def named(text: str, half: str) -> Stack:
    """A model by path to its config, or by its name in the catalog.

    Raises InputError where there is none.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        name = path.parent.name if path.name == "config.json" else path.stem
    else:
        path = catalog.model_path(text)
        name = path.stem
    return stack(hf.read_json(path), name, half)


def _depths(config: dict[str, Any], key: str, layers: int) -> tuple[tuple[int, ...], int]:
    """(depths, layers between them): two that give the whole, layers of an unfinished pattern before them; else all."""
    lead, period = _lead(config), _period(config, layers)
    period *= math.ceil(LEAST_APART / period)
    for before in dict.fromkeys((lead, lead + (layers - lead) % period)):
        depths = (before + period, before + 2 * period)
        if depths[1] < layers and _adds_up(config, key, layers, depths, period):
            return depths, period
    return (layers,), layers


def cut(config: dict[str, Any], key: str, depth: int, half: str) -> dict[str, Any]:
    """The config of the first `depth` layers, not quantised, in the 16-bit format given."""
    layers = config[key]
    made = {
        name: value[:depth] if isinstance(value, list) and len(value) == layers else value
        for name, value in copy.deepcopy(config).items()
        if name not in ("quantization_config", "compression_config", "auto_map", "dtype")
    }
    made[key] = depth
    if "num_nextn_predict_layers" in made:
        made["num_nextn_predict_layers"] = 0
    made["torch_dtype"] = half
    return made


def _text_of(config: dict[str, Any]) -> dict[str, Any]:
    """The language model's own part of a config."""
    inner = config.get("text_config")
    if not isinstance(inner, dict) or not any(key in inner for key in _COUNTS):
        return config
    made = dict(inner)
    if "tie_word_embeddings" in config:
        made.setdefault("tie_word_embeddings", config["tie_word_embeddings"])
    return made


def _lead(config: dict[str, Any]) -> int:
    """Leading layers of another kind."""
    return max((config[key] for key in _HEADS if isinstance(config.get(key), int)), default=0)


def _period(config: dict[str, Any], layers: int) -> int:
    """Layers after which their kinds repeat."""
    found = 1
    for name, value in config.items():
        if isinstance(value, int) and not isinstance(value, bool) and name.endswith(_PERIODS) and 1 < value <= layers:
            found = math.lcm(found, value)
        elif isinstance(value, list) and len(value) == layers:
            kinds = [str(each) for each in value[_lead(config) :]]
            found = math.lcm(found, next(p for p in range(1, len(kinds) + 1) if kinds[p:] == kinds[: len(kinds) - p]))
    return found


def _adds_up(config: dict[str, Any], key: str, layers: int, depths: tuple[int, int], period: int) -> bool:
    """Whether two depths give the full model's parameters exactly, and so its time."""

    def model(depth: int) -> Model:
        return hf.read(cut(config, key, depth, "bfloat16"), "model")

    try:
        whole, low, high = model(layers), model(depths[0]), model(depths[1])
    except InputError:
        return False
    return all(
        (count(whole) - count(low)) * period == (count(high) - count(low)) * (layers - depths[0])
        for count in (Model.params, Model.active_params, lambda model: model.kv_elements(LONG))
    )


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in name.lower()).strip("-") or "model"
