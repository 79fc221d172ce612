"""Plain data (TOML, JSON) -> frozen records, with messages for people.

Quantities are text with a unit ("3.35 TB/s"); in JSON they may also be bare SI numbers, in a file they may not.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from rooflab.system import Device, Link, System
from rooflab.units import EXAMPLES, InputError, format, nearest, parse, parse_count, shown, unit_of

T = TypeVar("T")
F = TypeVar("F")
LARGEST_FILE = 64_000  # bytes; a datasheet is a few kB
_MOST_DOTS = 200  # a line; the TOML parser takes quadratic time over a dotted key
_DEEPEST = 32


class Part(NamedTuple):
    """A device and the link it brings along, if it has one."""

    device: Device
    scale_up: Link | None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as plain data; anything unreadable is a one-line InputError."""
    where = shown(str(path))
    try:
        if path.is_dir():
            raise InputError(f"{where} is a folder; give a .toml file")
        if path.exists() and not path.is_file():  # a pipe or a device could block for ever
            raise InputError(f"{where} is not a regular file; give a .toml file")
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise InputError(
                f"{where} is larger than {format(LARGEST_FILE, 'byte')}; a machine file is a few kB of TOML"
            )
        text = raw.decode("utf-8")
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise InputError(f"{where} has a line with more than {_MOST_DOTS} dots; a machine file is plain TOML")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"{where} does not exist; give the path of a .toml file") from None
    except (OSError, ValueError, RecursionError) as problem:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{where} cannot be read as TOML: {_one_line(problem)}") from None


def convert(data: Any, kind: type[T], where: str, *, bare_numbers: bool = True) -> T:
    """Plain data as a ``kind``: text with units read, fields and ranges checked; ``where`` opens every message."""
    try:
        return msgspec.convert(_in_si(data, kind, "", bare_numbers, 0), kind)
    except msgspec.ValidationError as problem:
        raise InputError(f"{where}: {_explain(str(problem), kind, data)}") from None
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None


def device(data: Mapping[str, Any], name: str, where: str, find_link: Callable[[str], dict[str, Any]]) -> Part:
    """A device file: the fields of Device and, under ``scale_up``, the link it brings."""
    plain = {"name": name, **data}
    scale_up = plain.pop("scale_up", None)
    built = convert(plain, Device, where, bare_numbers=False)
    if not built.flop_rate:
        raise InputError(f"{where}: flop_rate is empty; give at least one, for example bf16 = '989 TFLOP/s'")
    return Part(built, None if scale_up is None else link(scale_up, f"{where}: scale_up", find_link))


def link(data: Any, where: str, find_link: Callable[[str], dict[str, Any]], *, bare_numbers: bool = False) -> Link:
    """A link table; ``link = "nvlink4"`` takes the rest from the catalog, and fields beside it override."""
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: {shown(data)} is not a table; write for example {{ link = 'nvlink4', size = 8 }}")
    plain = dict(data)
    base = plain.pop("link", None)
    if base is not None:
        if not isinstance(base, str):
            raise InputError(f"{where}: link: {shown(base)} is not a name; write for example link = 'nvlink4'")
        plain = {"name": base, **_found(find_link, base, where), **plain}
    return convert(plain, Link, where, bare_numbers=bare_numbers)


def system(
    data: Mapping[str, Any],
    name: str,
    where: str,
    find_part: Callable[[str], Part],
    find_link: Callable[[str], dict[str, Any]],
    *,
    bare_numbers: bool = False,
) -> System:
    """A system: ``device`` (a catalog name or a table), its ``links`` from the inside out, and how many devices."""
    plain = {"name": name, **data}
    part = _part(plain.pop("device", None), name, where, find_part, find_link, bare_numbers)
    tables = plain.pop("links", None)
    if tables is None:
        links = (part.scale_up,) if part.scale_up else ()
    elif isinstance(tables, (list, tuple)):
        links = tuple(
            link(each, f"{where}: links[{i}]", find_link, bare_numbers=bare_numbers) for i, each in enumerate(tables)
        )
    else:
        raise InputError(f"{where}: links must be a list of tables; write [[links]] for each level, innermost first")
    capacity = 1
    for each in links:
        capacity *= each.size
    plain.setdefault("devices", capacity)
    plain.setdefault("confidence", part.device.confidence)
    # Values already built pass through convert as they are; only what the file says is read.
    return convert({**plain, "device": part.device, "links": links}, System, where, bare_numbers=bare_numbers)


def _part(
    data: Any,
    name: str,
    where: str,
    find_part: Callable[[str], Part],
    find_link: Callable[[str], dict[str, Any]],
    bare_numbers: bool,
) -> Part:
    if isinstance(data, str):
        return _found(find_part, data, where)
    if isinstance(data, Mapping) and bare_numbers and "scale_up" not in data:
        return Part(convert({"name": name, **data}, Device, f"{where}: device"), None)
    if isinstance(data, Mapping):
        return device(data, name, f"{where}: device", find_link)
    what = "device is missing" if data is None else f"device: {shown(data)} is not a device"
    raise InputError(f"{where}: {what}; write device = 'h100-sxm' or a [device] table")


def _found(find: Callable[[str], F], name: str, where: str) -> F:
    try:
        return find(name)
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None


# ---------------------------------------------------------------------------------- reading units


@cache
def _hints(struct: type) -> dict[str, Any]:
    return get_type_hints(struct, include_extras=True)


def _in_si(data: Any, kind: Any, path: str, bare: bool, depth: int) -> Any:
    """``data`` with every quantity of ``kind`` as an SI number; shapes that do not match are left to msgspec."""
    if depth > _DEEPEST:
        raise InputError(f"{path or 'the data'}: is nested too deeply")
    unit = unit_of(kind)
    if unit is not None:
        return _quantity(data, kind, unit, path, bare)
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if isinstance(data, Mapping):
        for member in members:
            if _matches(member, data):
                hints = _hints(member)
                return {
                    k: _in_si(v, hints.get(k, Any), f"{path}.{k}" if path else str(k), bare, depth + 1)
                    for k, v in data.items()
                }
            if get_origin(member) is dict:
                inner = get_args(member)[1]
                return {
                    k: _in_si(v, inner, f"{path}.{k}" if path else str(k), bare, depth + 1) for k, v in data.items()
                }
    if isinstance(data, (list, tuple)):
        for member in members:
            if get_origin(member) in (tuple, list) and get_args(member):
                inner = get_args(member)[0]
                return [_in_si(v, inner, f"{path}[{i}]", bare, depth + 1) for i, v in enumerate(data)]
    return data


def _quantity(data: Any, kind: Any, unit: tuple[str, bool], path: str, bare: bool) -> Any:
    dimension, positive = unit
    if data is None:
        return None
    if not bare and not isinstance(data, str) and dimension not in ("1", "token", "request"):
        raise InputError(f"{path}: {shown(data)} has no unit; write for example '{EXAMPLES[dimension]}'")
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if any(getattr(member, "__origin__", None) is int for member in members):
        return parse_count(data, path, dimension=dimension, least=int(positive))
    return parse(data, dimension, path, positive=positive)


def _matches(kind: Any, data: Mapping[str, Any]) -> bool:
    """Whether this is the struct the data means; a tag decides between the members of a union."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return False
    config = kind.__struct_config__
    return config.tag_field is None or data.get(config.tag_field) == config.tag


# ---------------------------------------------------------------------------------- messages


_WORDS = {"object": "a table", "array": "a list", "str": "text", "int": "a whole number", "float": "a number"}


def _explain(message: str, kind: type, data: Any) -> str:
    """msgspec's message in our words: which field, which value, what would be right."""
    text, _, path = message.partition(" - at `")
    of_key = path.startswith("key` in `")
    path = path.removeprefix("key` in `").rstrip("`").removeprefix("$").removeprefix(".")
    prefix = f"{path}: " if path else ""
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL)
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if unknown:
        names = getattr(_struct_at(kind, path), "__struct_fields__", ())
        known = nearest(unknown[1], names) or (f"; known fields: {', '.join(names)}" if names else "")
        return f"{prefix}unknown field {shown(unknown[1])}{known}"
    if missing:
        struct = _struct_at(kind, path)
        unit = unit_of(_hints(struct).get(missing[1])) if struct else None
        example = f"; write for example {missing[1]} = '{EXAMPLES[unit[0]]}'" if unit and unit[0] in EXAMPLES else ""
        return f"{prefix}{missing[1]} is missing{example}"
    if text.startswith("Invalid enum value"):
        owner, field = _owner(kind, path)
        choices = _choices(_hints(owner).get(field)) if owner else ()
        allowed = f"; use {', '.join(map(str, choices))}" if choices else ""
        return f"{prefix}{shown(text.removeprefix('Invalid enum value ').strip())[1:-1]} is not known{allowed}"
    if of_key or not path:
        return prefix + _one_line(text)
    plain = re.sub(r"\b(object|array|str|int|float)\b", lambda word: _WORDS[word[0]], text.replace("`", ""))
    return f"{prefix}{shown(_value_at(data, path))} is not right; {_one_line(plain[:1].lower() + plain[1:])}"


def _value_at(data: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        data = data[int(step)] if isinstance(data, (list, tuple)) else data.get(step) if hasattr(data, "get") else None
    return data


def _owner(kind: Any, path: str) -> tuple[Any, str]:
    parent, _, field = path.rpartition(".")
    return _struct_at(kind, parent), re.sub(r"\[.*", "", field)


def _struct_at(kind: Any, path: str) -> Any:
    """The struct type a path such as ``links[0]`` leads to, or None."""
    for step in [re.sub(r"\[.*", "", each) for each in path.split(".") if each]:
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return None
        kind = _first_struct(_hints(kind).get(step))
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


def _first_struct(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next((found for each in get_args(annotation) if (found := _first_struct(each))), None)


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for each in get_args(annotation) if (found := _choices(each))), ())


def _one_line(problem: object) -> str:
    text = " ".join(str(problem).split())
    return text if len(text) <= 200 else text[:200] + "…"
