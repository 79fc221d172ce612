"""A config in fewer words: the catalog's name for it, or what is left without what makes no difference."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.hf.source import aliases, catalog_config, catalog_model, names, plain_name
from rooflab.hf.text import read
from rooflab.model import Model
from rooflab.units import InputError

MOST = 300
"""Entries of a config that are tried: the longest, where there are more."""


def shorter(config: dict[str, Any]) -> str | dict[str, Any]:
    """A catalog name where one has every figure of a config that says no other name; else the config as far as it counts.

    What is left out changes nothing of the model, its notes included. Raises InputError where the config is no model.
    """
    if "like" in config:
        return config
    model = read(config)
    return _published(config, model) or _trimmed(config, model)


def _figures(model: Model) -> Model:
    """A model without what it is called and where it is from."""
    return msgspec.structs.replace(model, name="", source="", notes=())


def _published(config: dict[str, Any], model: Model) -> str:
    """The catalog's name for a config: the one it says itself, that of the very same file, or the shortest."""
    wanted = _figures(model)
    found = [name for name in names() if _figures(catalog_model(name)) == wanted]
    said = next((config[key] for key in ("name", "_name_or_path") if isinstance(config.get(key), str)), "")
    if said:
        own = aliases().get(plain_name(said), "")
        return own if own in found else ""
    return next((name for name in found if catalog_config(name) == config), min(found, key=len, default=""))


def _trimmed(config: dict[str, Any], model: Model) -> dict[str, Any]:
    """A config without the entries, its own or a section's, whose absence leaves the model as it is."""
    places: list[tuple[str, ...]] = [(key,) for key in config if key != "name"]  # which the page shows
    places += [(key, inner) for key, section in config.items() if isinstance(section, dict) for inner in section]
    places.sort(key=lambda place: -len(repr(_at(config, place))))
    left = config
    for place in places[:MOST]:
        tried = _without(left, place)
        try:
            if tried != left and read(tried) == model:
                left = tried
        except InputError:
            continue
    return left


def _at(config: dict[str, Any], place: tuple[str, ...]) -> Any:
    for key in place:
        config = config[key]
    return config


def _without(config: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    """The same without one entry, which may have gone already."""
    key, *rest = place
    if rest and isinstance(config.get(key), dict):
        return {**config, key: {name: value for name, value in config[key].items() if name != rest[0]}}
    return config if rest else {name: value for name, value in config.items() if name != key}
