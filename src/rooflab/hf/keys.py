"""Reading a `config.json`: typed, bounded access to its keys, and refusals that name the keys tried.

Absent is an error or a stated assumption, never a silent guess: a missing size raises `InputError` with every name it
was looked for under. `null` counts as absent, except that it also switches off a class default.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rooflab.units import InputError, shown

Data = dict[str, Any]

LIMITS = {
    "layers": 4096,
    "heads": 65_536,
    "head": 65_536,
    "hidden": 1 << 20,
    "vocabulary": 1 << 26,
    "width": 1 << 24,
    "experts": 1 << 17,
    "small": 4096,
    "tokens": 1 << 40,
}
"""Largest value believed, by what the key counts; above it the config is refused as damaged."""


class _Missing:
    """Marks "no default: the key must be there"."""


MISSING = _Missing()


@cache
def class_defaults() -> dict[str, Data]:
    """What the reference configuration classes assume for keys a file leaves out, by model type."""
    return msgspec.json.decode((Path(__file__).parent / "class_defaults.json").read_bytes())


class Read(dict[str, Any]):
    """A section that remembers which of its keys were asked for."""

    def __init__(self, data: Data, seen: set[str]) -> None:
        super().__init__(data)
        self.seen = seen

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)


class Keys:
    """One section of a config with its model type, the class defaults that go with it, and shared notes."""

    def __init__(
        self,
        data: Data,
        path: str = "",
        notes: list[str] | None = None,
        nested: bool = False,
        seen: set[str] | None = None,
    ) -> None:
        self.seen: set[str] = set() if seen is None else seen
        """Keys that were asked for."""
        self.data = data
        self.path = path
        self.notes: list[str] = [] if notes is None else notes
        self.nested = nested
        self.model_type = ""
        self.extra_defaults: Data = {}
        self.taken: Data = {}
        """Sizes that came from the class defaults, for one note."""

    @property
    def data(self) -> Data:
        """The section itself; what is asked of it is remembered."""
        return self._data

    @data.setter
    def data(self, data: Data) -> None:
        self._data = Read(data, self.seen)

    def name(self, key: str) -> str:
        """The key with its path, for messages."""
        return f"{self.path}.{key}" if self.path else key

    def note(self, text: str) -> None:
        """Add a note for people, once."""
        if text not in self.notes:
            self.notes.append(text)

    # ------------------------------------------------------------------------------------------- presence

    def has(self, *names: str) -> bool:
        """True when one of the names is in the file and not null."""
        self.seen.update(names)
        return any(self.data.get(name) is not None for name in names)

    def find(self, *names: str, essential: bool = False) -> tuple[str, Any]:
        """The first name with a value and the value; class defaults count unless the key is essential and top-level."""
        self.seen.update(names)
        for name in names:
            if self.data.get(name) is not None:
                return name, self.data[name]
        if any(name in self.data for name in names) or (essential and not self.nested):
            return names[0], None
        defaults = {**class_defaults().get(self.model_type, {}), **self.extra_defaults}
        for name in names:
            if defaults.get(name) is not None:
                value = defaults[name]
                if isinstance(value, int) and not isinstance(value, bool):
                    self.taken[name] = value
                return name, value
        return names[0], None

    def refuse(self, names: tuple[str, ...], want: str) -> InputError:
        """The error for a missing key."""
        tried = " or ".join((self.name(names[0]), *names[1:]))
        kind = f" (model_type {self.model_type[:60]})" if self.model_type else ""
        return InputError(
            f"the config does not say {want}: no key {tried}{kind}; add the key or use the original config.json"
        )

    # --------------------------------------------------------------------------------------------- values

    def count(self, *names: str, limit: str = "width", default: int | _Missing | None = MISSING, low: int = 1) -> int:
        """A whole number within its range; without a default a missing key is refused."""
        name, value = self.find(*names, essential=default is MISSING)
        if value is None:
            if isinstance(default, _Missing) or default is None:
                raise self.refuse(names, "a size it needs")
            return default
        return self.whole(name, value, limit, low)

    def whole(self, name: str, value: object, limit: str = "width", low: int = 1) -> int:
        """Check one value: a whole number from `low` up to the limit."""
        if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{self.name(name)} must be a whole number, not {shown(value)}; correct the config")
        if not low <= value <= LIMITS[limit]:
            raise InputError(
                f"{self.name(name)} = {shown(value)} is outside {low} to {LIMITS[limit]}; correct the config"
            )
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A finite number within a range."""
        _, value = self.find(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise InputError(
                f"{self.name(name)} must be a number from {low} to {high}, not {shown(value)}; correct the config"
            )
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """A switch: true or false (0 and 1 count)."""
        name, value = self.find(*names)
        if value is None:
            return default
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise InputError(f"{self.name(name)} must be true or false, not {shown(value)}; correct the config")

    def text(self, *names: str, default: str = "") -> str:
        """A short string."""
        name, value = self.find(*names)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > 4096:
            raise InputError(f"{self.name(name)} must be a short text, not {shown(value)}; correct the config")
        return value

    def list(self, *names: str) -> list[Any]:
        """A list, empty when absent."""
        name, value = self.find(*names)
        if value is None:
            return []
        if not isinstance(value, list):
            raise InputError(f"{self.name(name)} must be a list, not {shown(value)}; correct the config")
        return value

    def per_layer(self, layers: int, *names: str) -> list[Any]:
        """A list with one entry a layer (longer lists are cut, shorter ones refused); empty when absent."""
        values = self.list(*names)
        if values and len(values) < layers:
            name, _ = self.find(*names)
            raise InputError(f"{self.name(name)} has {len(values)} entries for {layers} layers; correct the config")
        return values[:layers]

    def section(self, name: str) -> Keys | None:
        """A nested object as keys of its own, or None when absent."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise InputError(f"{self.name(name)} must be an object, not {shown(value)}; correct the config")
        inner = Keys(value, self.name(name), self.notes, nested=True)
        return inner
