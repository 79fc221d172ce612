"""The catalog: devices, links, systems and models by name, read one file at a time when asked for.

A name is a file's stem (``h100-sxm``) or one of its aliases (``H100``); a path to a TOML file of your own works too.
``aliases.json`` is generated from the files by ``write_aliases`` and a test keeps the two in step.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from rooflab import load
from rooflab.load import Part
from rooflab.system import Device, System
from rooflab.units import InputError, nearest, shown

FOLDER = Path(__file__).parent
_MAKER = re.compile(r"^(?:(?:nvidia|amd|intel|google|apple|aws|cerebras|tesla|geforce|instinct)-)+")
_STEM = re.compile(r"[a-z0-9][a-z0-9.-]*")
_COUNTED = re.compile(r"(\d{1,18})\s*[x×*]\s*(.+)", re.DOTALL)


# ---------------------------------------------------------------------------------- names


def device_names() -> tuple[str, ...]:
    """Every device in the catalog, sorted."""
    return _stems("devices", ".toml")


def system_names() -> tuple[str, ...]:
    """Every system with a file of its own, sorted; any device name is a system too."""
    return _stems("systems", ".toml")


def link_names() -> tuple[str, ...]:
    """Every named link, sorted."""
    return _stems("links", ".toml")


def model_names() -> tuple[str, ...]:
    """Every model configuration in the catalog, sorted."""
    return _stems("models", ".json")


# ---------------------------------------------------------------------------------- lookup


def device(name: str) -> Device:
    """The device of this name, alias or path to a device file."""
    return part(name).device


def part(name: str) -> Part:
    """A device together with the scale-up link it brings."""
    if _is_path(name):
        path = Path(name)
        return load.device(load.read_toml(path), path.stem or "device", path.name, link_table)
    stem = _resolve("devices", name)
    if stem is None:
        if _resolve("systems", name):
            raise InputError(f"{shown(name)} is a system, not a device; its device is '{system(name).device.name}'")
        raise _unknown("device", name, _known("devices"))
    return _catalog_part(stem)


def link_table(name: str) -> dict[str, Any]:
    """A named link as plain data, to be completed with its size."""
    stem = _resolve("links", name)
    if stem is None:
        raise _unknown("link", name, _known("links"))
    return dict(_catalog_link(stem))


def system(name: str | Mapping[str, Any]) -> System:
    """A system by name: its own file, a device on its scale-up link, "8x" of either, a path, or plain data."""
    if isinstance(name, Mapping):
        label = str(name.get("name") or "system")[:200]
        return load.system(name, label, "system", part, link_table, bare_numbers=True)
    if not isinstance(name, str):
        raise InputError(f"system: {shown(name)} is not a name; write for example 'h100-sxm' or './machine.toml'")
    counted = _COUNTED.fullmatch(name.strip())
    if _is_path(name) and not (counted and not Path(name).exists()):
        return _system_file(Path(name))
    if counted and _COUNTED.fullmatch(counted[2]):
        raise InputError(f"system: {shown(name)} has two counts; write one, for example '8x h100-sxm'")
    if counted and _resolve("devices", name) is None and _resolve("systems", name) is None:
        return _with_devices(system(counted[2]), int(counted[1]))
    stem = _resolve("systems", name)
    if stem is not None:
        return _catalog_system(stem)
    stem = _resolve("devices", name)
    if stem is None:
        raise _unknown("system", name, {**_known("devices"), **_known("systems")})
    return _alone(_catalog_part(stem))


def model_path(name: str) -> Path:
    """The configuration file of a model in the catalog, by id, short name or alias."""
    stem = _resolve("models", name)
    if stem is None:
        raise _unknown("model", name, _known("models"))
    return FOLDER / "models" / f"{stem}.json"


def hub_id(name: str) -> str:
    """The Hugging Face id of a model in the catalog; another name is returned as it is."""
    stem = _resolve("models", name)
    if stem is None:
        return name
    shelf = tomllib.loads((FOLDER / "models" / "index.toml").read_text(encoding="utf-8"))
    return str(shelf[stem]["id"])


def _with_devices(machine: System, count: int) -> System:
    if count <= machine.capacity or (machine.links and machine.links[-1].extensible):
        return machine.with_devices(count)
    larger = [
        name for name in system_names() if system(name).device == machine.device and system(name).capacity >= count
    ]
    hint = f"; take {' or '.join(map(repr, larger))}" if larger else "; write a TOML file with the links between them"
    raise InputError(f"devices: {machine.name} joins at most {machine.capacity:,}, not {count:,}{hint}")


def _alone(found: Part) -> System:
    """A device as a system: on its own scale-up link up to that link's domain."""
    chip, scale_up = found
    return System(
        name=chip.name,
        title=chip.title,
        device=chip,
        links=(scale_up,) if scale_up else (),
        devices=scale_up.size if scale_up else 1,
        confidence=chip.confidence,
        sources=chip.sources,
    )


def _system_file(path: Path) -> System:
    """A user's TOML file: a system (it has ``device``) or a single device."""
    data = load.read_toml(path)
    name = path.stem or "system"
    if "device" in data or "links" in data:
        return load.system(data, name, path.name, part, link_table)
    return _alone(load.device(data, name, path.name, link_table))


def refs() -> dict[str, dict[str, str]]:
    """Every source that catalog files, formulas and fits cite: key -> title, licence, notes."""
    return _refs()


# ---------------------------------------------------------------------------------- the files


@lru_cache(maxsize=1)
def _refs() -> dict[str, dict[str, str]]:
    return tomllib.loads((FOLDER / "refs.toml").read_text(encoding="utf-8"))


@cache
def _stems(folder: str, ending: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (FOLDER / folder).glob(f"*{ending}") if path.name != "index.toml"))


@lru_cache(maxsize=256)
def _catalog_part(stem: str) -> Part:
    return load.device(load.read_toml(FOLDER / "devices" / f"{stem}.toml"), stem, f"{stem}.toml", link_table)


@lru_cache(maxsize=256)
def _catalog_link(stem: str) -> dict[str, Any]:
    return {"name": stem, **load.read_toml(FOLDER / "links" / f"{stem}.toml")}


@lru_cache(maxsize=256)
def _catalog_system(stem: str) -> System:
    return load.system(load.read_toml(FOLDER / "systems" / f"{stem}.toml"), stem, f"{stem}.toml", part, link_table)


@lru_cache(maxsize=1)
def _aliases() -> dict[str, dict[str, str]]:
    return msgspec.json.decode((FOLDER / "aliases.json").read_bytes(), type=dict[str, dict[str, str]])


def alias_table() -> dict[str, dict[str, str]]:
    """alias -> stem, per folder, read from the files themselves (slow: this is what aliases.json keeps)."""
    table: dict[str, dict[str, str]] = {}
    for folder in ("devices", "systems", "models"):
        names: dict[str, str] = {}
        for alias, stem in _claims(folder):
            if names.setdefault(alias, stem) != stem:
                raise InputError(f"alias '{alias}' is claimed by both {names[alias]} and {stem}")
        table[folder] = dict(sorted(names.items()))
    return table


def _claims(folder: str) -> Iterator[tuple[str, str]]:
    """Each alias a file claims, with its stem. A model is also known by its id, with and without the owner."""
    if folder == "models":
        shelf = tomllib.loads((FOLDER / folder / "index.toml").read_text(encoding="utf-8"))
        entries = [(stem, {entry["id"], *entry.get("aliases", ())}) for stem, entry in shelf.items()]
        full = {_plain(alias): stem for stem, aliases in entries for alias in aliases}
        yield from full.items()
        tails = [(_plain(shelf[stem]["id"].rpartition("/")[2]), stem) for stem in shelf]
        yield from ((tail, stem) for tail, stem in tails if tail not in full and tail not in shelf)
    else:
        for stem in _stems(folder, ".toml"):
            yield from ((alias, stem) for alias in load.read_toml(FOLDER / folder / f"{stem}.toml").get("aliases", ()))


def write_aliases() -> None:
    """Rewrite ``aliases.json`` after a file or an alias was added: ``python -m rooflab.catalog``."""
    text = msgspec.json.format(msgspec.json.encode(alias_table()), indent=1)
    (FOLDER / "aliases.json").write_bytes(text + b"\n")


def _resolve(folder: str, name: str) -> str | None:
    """The stem a name or alias means in a folder, or None."""
    plain = _plain(name)
    ending = ".json" if folder == "models" else ".toml"
    for each in (plain, _MAKER.sub("", plain)):
        if len(each) <= 100 and _STEM.fullmatch(each) and (FOLDER / folder / f"{each}{ending}").is_file():
            return each
        found = _aliases().get(folder, {}).get(each)
        if found:
            return found
    return None


def _plain(name: str) -> str:
    """A name as people type it -> as files are called: "NVIDIA H100 SXM" -> "nvidia-h100-sxm"."""
    return "-".join(str(name)[:300].lower().replace("_", " ").replace("-", " ").split())


def _is_path(name: str) -> bool:
    return name.endswith(".toml") or "/" in name or "\\" in name


def _known(folder: str) -> dict[str, str]:
    """Every name and alias -> stem, for suggestions."""
    ending = ".json" if folder == "models" else ".toml"
    return {**_aliases().get(folder, {}), **{stem: stem for stem in _stems(folder, ending)}}


def _there(name: str) -> bool:
    try:
        return Path(name[:300]).exists()
    except (OSError, ValueError):  # longer than a file's name may be, or with a zero in it
        return False


def _unknown(what: str, name: str, known: Mapping[str, str]) -> InputError:
    if what == "system" and _there(name):
        return InputError(f"system: {shown(name)} is not in the catalog; a machine of your own is a file that ends in .toml")
    hint = nearest(_plain(name), known) or f"; known {what}s: {', '.join(sorted(set(known.values()))[:12])}, …"
    return InputError(f"{what}: {shown(name)} is not in the catalog{hint}")
