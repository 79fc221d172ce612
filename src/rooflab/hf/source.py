"""`load`: a model from where people keep one: a config.json, a folder, the catalog, or the Hugging Face hub."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from rooflab.hf.text import read
from rooflab.model import Model
from rooflab.units import InputError, nearest, shown

CATALOG = Path(__file__).parent.parent / "catalog" / "models"
LARGEST_FILE = 20_000_000
"""Bytes above which a file is no config.json."""
_STEM = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[\w./-]{1,100})?")


def load(source: str) -> Model:
    """A model by path to a config.json or its folder, by catalog name or alias, or by hub id (`org/name`)."""
    if not isinstance(source, (str, Path)) or not str(source).strip():
        raise InputError(f"model: {shown(source)} is not a name; write for example 'llama-3.1-8b' or './config.json'")
    text = str(source).strip()
    stem = text.lower()
    if _STEM.fullmatch(stem) and (CATALOG / f"{stem}.json").is_file() and not Path(text).exists():
        return catalog_model(stem)
    path = _path(text)
    if path is not None:
        return read(read_json(path), path.parent.name if path.name in INSIDE else path.stem, str(path))
    found = aliases().get(plain_name(text))
    if found is not None:
        return catalog_model(found)
    if _HUB_ID.fullmatch(text):
        return _from_hub(text)
    hint = nearest(plain_name(text), aliases()) or "; give a path to a config.json, or a hub id such as 'Qwen/Qwen3-8B'"
    raise InputError(f"model: {shown(text)} is neither a file nor in the catalog{hint}")


def names() -> tuple[str, ...]:
    """Every model of the catalog, sorted."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.json")))


@cache
def aliases() -> dict[str, str]:
    """Every name a catalog model answers to → its file's stem (the catalog writes this table from `index.toml`)."""
    table = msgspec.json.decode((CATALOG.parent / "aliases.json").read_bytes(), type=dict[str, dict[str, str]])[
        "models"
    ]
    return {**{stem: stem for stem in names()}, **table}


def other_names(stem: str) -> list[str]:
    """What else a catalog model answers to, its hub ids among them."""
    return [alias for alias, found in aliases().items() if found == stem and alias != stem]


def plain_name(name: str) -> str:
    """A name as the table of aliases has it."""
    return "-".join(name[:300].lower().replace("_", " ").replace("-", " ").split())


INSIDE = ("config.json", "params.json", "adapter_config.json")
"""Files of a model's folder that are read, the first there is."""


def _path(text: str) -> Path | None:
    """The config file a path means, None when it is no path to anything."""
    try:
        path = Path(text).expanduser()
        folder, there = path.is_dir(), path.exists()
        inside = next((path / name for name in INSIDE if folder and (path / name).is_file()), None)
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)[:120]
        raise InputError(f"model: {shown(text)} cannot be read: {why}; check the path") from error
    if folder and inside is None:
        raise InputError(f"the folder {shown(text)} has no config.json; give the folder of a model or the file itself")
    if there:
        return inside or path
    if text.endswith(".json") or text.startswith((".", "/", "~")) or "\\" in text:
        raise InputError(f"model: there is no file {shown(text)}; check the path")
    return None


@cache
def catalog_model(stem: str) -> Model:
    """The model of a file of the catalog."""
    return read(read_json(CATALOG / f"{stem}.json"), stem, f"catalog: {stem}")


DIMENSIONS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)
"""Figures of a config.json that make up most of a decoder's shape."""
_IMPLIED = ("num_key_value_heads", "head_dim")
"""Of these, what a config may leave out because others imply it."""


def dimensions(source: str | dict[str, Any]) -> dict[str, int]:
    """The figures of DIMENSIONS above 0 that a catalog model's or a given config states; {} for a config elsewhere."""
    config = source if isinstance(source, dict) else catalog_config(source)
    if "like" in config:
        config = {**catalog_config(str(config["like"])), **config}
    found = {**config, **_text_section(config)}
    return {name: found[name] for name in DIMENSIONS if type(found.get(name)) is int and found[name] > 0}


def like(changes: dict[str, Any]) -> Model:
    """A catalog model with figures of its config changed: {"like": "llama-3.1-8b", "num_hidden_layers": 16}.

    Raises InputError for figures its config does not have.
    """
    name = changes["like"]
    config = catalog_config(name) if isinstance(name, str) else {}
    if not config:
        raise InputError(f"model.like: {shown(name)} is not in the catalog; give a catalog name such as 'llama-3.1-8b'")
    text, said = dict(_text_section(config)), {key: value for key, value in changes.items() if key != "like"}
    for key, value in said.items():
        if key not in DIMENSIONS:
            raise InputError(f"model.{shown(key)}: cannot be changed here; use {', '.join(DIMENSIONS)}")
        if (
            key not in config
            and key not in text
            and not (key in _IMPLIED and "num_attention_heads" in (text or config))
        ):
            raise InputError(
                f"model.{key}: the config of {shown(name)} has no such figure; drop a changed config.json instead"
            )
        if type(value) is not int or not 0 < value <= 2**24:
            raise InputError(f"model.{key}: {shown(value)} must be a whole number from 1 to {2**24}")
    if text:
        config = {**config, "text_config": {**text, **said}}
    else:
        config = {**config, **said}
    return read(config, f"{name}, changed", f"catalog: {name}, with {', '.join(said) or 'nothing'} changed")


def catalog_config(name: str) -> dict[str, Any]:
    """A catalog model's config.json; {} where the catalog has no such model."""
    stem = name.strip().lower()
    stem = (
        stem if _STEM.fullmatch(stem) and (CATALOG / f"{stem}.json").is_file() else aliases().get(plain_name(name), "")
    )
    return read_json(CATALOG / f"{stem}.json") if stem else {}


def _text_section(config: dict[str, Any]) -> dict[str, Any]:
    section = config.get("text_config")
    return section if isinstance(section, dict) else {}


def read_json(path: Path) -> dict[str, Any]:
    """A file as a JSON object; refuses what is too large, unreadable or not an object."""
    try:
        if not path.is_file():
            raise InputError(f"{path} is not a regular file; give a config.json")
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise InputError(
                f"{path} has {size} bytes; a config.json has at most {LARGEST_FILE}: give the config, not the weights"
            )
        return parse_json(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}; check the path and its permissions"
        ) from error


def parse_json(raw: bytes, label: str) -> dict[str, Any]:
    """Bytes as a JSON object."""
    try:
        data = json.loads(raw, object_pairs_hook=_once)  # in UTF-8, 16 or 32, whichever it is
    except RecursionError:
        raise InputError(f"{label} is nested too deeply to be a config.json") from None
    except _Twice as twice:
        raise InputError(f"{label} says {shown(str(twice))} twice; keep the one that holds") from None
    except ValueError as error:
        raise InputError(f"{label} is not JSON: {str(error)[:120]}; give the model's config.json") from error
    if not isinstance(data, dict):
        raise InputError(f"{label} holds {shown(data)}, not a JSON object; give the model's config.json")
    return data


class _Twice(ValueError):
    """A name that stands twice in one object, of which a reader of JSON would take the last without a word."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return found


# ------------------------------------------------------------------------------------------------ the hub


def _from_hub(text: str) -> Model:
    """config.json alone from the hub, through its own client: cache, token and offline mode are honoured."""
    repo, _, revision = text.partition("@")
    if find_spec("huggingface_hub") is None:
        raise InputError(
            f"model: {shown(text)} is not in the catalog; to fetch its config.json install rooflab[hub], or give a path to it"
        )
    import logging

    client = import_module("huggingface_hub")
    how = {"local_files_only": True} if _unreachable() else {}
    log = logging.getLogger("huggingface_hub")  # it would tell of every try; the error below says it once
    level = log.level
    try:
        log.setLevel(logging.ERROR)
        path = client.hf_hub_download(repo, "config.json", revision=revision or None, **how)
    except Exception as error:  # its client raises many kinds, also of the HTTP libraries below it
        raise InputError(_hub_message(text, error)) from error
    finally:
        log.setLevel(level)
    return read(read_json(Path(path)), repo, f"hub: {text}")


def _unreachable() -> bool:
    """Whether the hub has no address from here: its client would try for half a minute. Behind a proxy only a try can tell."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    host = urlsplit(getattr(import_module("huggingface_hub.constants"), "ENDPOINT", "")).hostname
    if not host or getproxies():
        return False
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return True
    return False


def _hub_message(text: str, error: Exception) -> str:
    kind = type(error).__name__
    if kind == "GatedRepoError":
        why = "is gated; accept its terms on its page and log in (hf auth login), or give a path to its config.json"
    elif kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
        why = "is not on the hub, or private; check the id, or log in (hf auth login)"
    elif kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
        why = "has no config.json on the hub; give a path to one"
    elif kind in ("LocalEntryNotFoundError", "OfflineModeIsEnabled"):
        why = "is not in the local cache and the hub cannot be reached; connect, or give a path to its config.json"
    else:
        first = (str(error).splitlines() or [""])[0][:160]
        why = f"could not be fetched from the hub ({kind}: {first}); give a path to its config.json"
    return f"model: {shown(text)} {why}"
