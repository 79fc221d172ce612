"""Machines as values: Device, Link and System. SI floats inside; nothing here reads a file or prices anything.

Every numeric field may also hold a NumPy array (a sweep over hardware); nothing below branches on a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec

from rooflab.units import (
    Bytes,
    InputError,
    Seconds,
    UsdPerSecond,
    Watts,
    nearest,
    parse,
    parse_count,
    quantity,
    shown,
    unit_of,
)

Kind = Literal["gpu", "tpu", "npu", "lpu", "wafer", "apple", "pe"]
Confidence = Literal["high", "medium", "low"]
Topology = Literal["ring", "switch", "mesh2d", "torus2d", "torus3d", "full_mesh"]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Capacity = Annotated[float, quantity("byte", positive=True)]
Bandwidth = Annotated[float, quantity("byte/s", positive=True)]
Rate = Annotated[float, quantity("FLOP/s", positive=True)]
Clock = Annotated[float, quantity("Hz", positive=True)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

Dtype = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

# What a multiply runs as when the device has no units for the format asked for: tried left to right.
# A step away from the format itself is reported by Device.rate_note.
_RUNS_AS: dict[str, tuple[Dtype, ...]] = {
    "fp64": ("fp64",),
    "fp32": ("fp32",),
    "tf32": ("tf32", "fp32"),
    "bf16": ("bf16", "fp16"),
    "fp16": ("fp16", "bf16"),
    "fp8": ("fp8", "bf16", "fp16"),
    "int8": ("int8", "bf16", "fp16"),
    "fp4": ("fp4", "bf16", "fp16"),
    "int4": ("bf16", "fp16"),
}
_SAME_AS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_block": "fp8", "mxfp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4",
}  # fmt: skip


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device: the unit a layout counts. Rates are dense peaks; bandwidth is to its own memory."""

    name: Name
    title: str = ""
    vendor: str = ""
    kind: Kind = "gpu"
    year: int | None = None
    released: str | None = None
    memory: Capacity
    memory_bandwidth: Bandwidth
    host_bandwidth: Bandwidth | None = None
    """To the host's memory, one direction; None where no figure is known."""
    flop_rate: dict[Dtype, Rate]
    vector_rate: Rate | None = None
    on_chip: Bytes | None = None
    launch_time: Seconds | None = None
    power: Watts | None = None
    price: UsdPerSecond | None = None
    price_basis: str = ""
    tile: tuple[Count, Count, Count] = (1, 1, 1)
    compute_units: Count | None = None
    clock: Clock | None = None
    confidence: Confidence = "low"
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def rate(self, dtype: str) -> Any:
        """Dense matrix FLOP/s for operands of this format, or of the one they run as (see ``runs_as``)."""
        key = self.runs_as(dtype)
        return self.vector_rate if key == "vector" else self.flop_rate[key]

    def runs_as(self, dtype: str) -> Dtype | Literal["vector"]:
        """The format a multiply really runs in: ``dtype`` itself, the next wider one there is, or ``vector``.

        bf16 and fp16 stand in for each other (tensor units run both at one rate); fp8 and int8 operands without
        units of their own are widened to bf16, and so are fp4 formats (engines then keep only the weights in them:
        W4A16); int4 is storage only and runs as bf16; fp32 runs on the vector units unless a matrix rate is given.
        """
        wanted = _SAME_AS.get(dtype, dtype)
        if wanted not in _RUNS_AS:
            raise InputError(f"dtype: {shown(dtype)} is not a format RoofLab prices; use {', '.join(_RUNS_AS)}")
        for key in _RUNS_AS[wanted]:
            if key in self.flop_rate:
                return key
        if wanted in ("fp32", "tf32") and self.vector_rate is not None:
            return "vector"
        known = ", ".join(sorted(self.flop_rate)) or "none"
        raise InputError(
            f"flop_rate: {self.name} has no rate for {shown(dtype)} (it has {known}); "
            f"give one, for example flop_rate.{wanted} = '100 TFLOP/s'"
        )

    def rate_note(self, dtype: str) -> str | None:
        """What ``rate`` assumed for this format, for people; None when the device has units for it."""
        key, wanted = self.runs_as(dtype), _SAME_AS.get(dtype, dtype)
        if key == wanted or (key == "vector" and wanted == "fp32"):
            return None
        if wanted == "int4":
            return f"{dtype} weights are widened to {key} before they are multiplied on {self.name}"
        how = "vector units' fp32" if key == "vector" else key
        return f"{self.name} has no {wanted} matrix rate: {dtype} runs at its {how} rate"


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One level of a system's network, as one device sees it: one direction, per device."""

    name: Name
    title: str = ""
    """As people write it; empty where the name says it."""
    bandwidth: Bandwidth
    latency: Seconds
    size: Count
    topology: Topology = "switch"
    in_network_reduce: bool = False
    extensible: bool = False
    """More units can join at this level (a network); ``size`` is then only how many there are now."""
    confidence: Confidence = "low"
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class System(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices joined by levels of links, innermost first: link i joins ``size`` units of level i-1."""

    name: Name
    title: str = ""
    device: Device
    links: tuple[Link, ...] = ()
    devices: Count = 1
    price: UsdPerSecond | None = None
    """Per device; overrides the device's own price."""
    price_basis: str = ""
    fits: str | None = None
    """Key of the fitted parameters to use; None takes those filed under the device's name, if any."""
    confidence: Confidence = "low"
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.devices > self.capacity and not (self.links and self.links[-1].extensible):
            raise InputError(
                f"devices: {self.name} joins at most {self.capacity:,}, not {self.devices:,}; "
                "add a link level for the network between them"
            )

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """Devices within one unit of each level, innermost first: (8, 256) for 32 nodes of 8."""
        sizes, product = [], 1
        for link in self.links:
            product *= link.size
            sizes.append(product)
        return tuple(sizes)

    @property
    def capacity(self) -> int:
        """Devices the levels can join at their present sizes."""
        return self.level_sizes[-1] if self.links else 1

    @property
    def device_price(self) -> Any:
        """USD/s for one device: the system's own figure, else the device's; None if neither is known."""
        return self.device.price if self.price is None else self.price

    @property
    def device_price_basis(self) -> str:
        return self.device.price_basis if self.price is None else self.price_basis

    def with_devices(self, devices: int) -> System:
        """The same machine with this many devices; an extensible outer level grows to hold them."""
        count = parse_count(devices, "devices", most=2**31)
        links = self.links
        if count > self.capacity and links and links[-1].extensible:
            inner = self.capacity // links[-1].size
            links = (*links[:-1], msgspec.structs.replace(links[-1], size=math.ceil(count / inner)))
        return msgspec.structs.replace(self, devices=count, links=links)

    def replace(self, changes: Mapping[str, Any]) -> System:
        """A copy with what-if changes, such as {"memory_bandwidth": "4 TB/s", "links.0.latency": "1 us"}.

        Keys are fields of the device, ``flop_rate.<dtype>``, ``links.<level or link name>.<field>``, ``devices``
        or ``price`` (per device). A value is a quantity with its unit, an SI number, an array, or a multiple ("2x").
        ``flop_rate`` alone scales every format: a rate there is the new 16-bit rate, and the others keep their ratio.
        """
        system = self
        for key, value in changes.items():
            system = system._replaced(key, value)
        return system

    def _replaced(self, key: str, value: Any) -> System:
        head, _, rest = key.partition(".")
        if key == "devices":
            return self.with_devices(value)
        if key == "price":
            price = _changed(UsdPerSecond, key, value, self.device_price)
            return msgspec.structs.replace(self, price=price, price_basis="given")
        if head == "links" and rest:
            return self._with_link(key, rest, value)
        if head == "flop_rate":
            return self._with_device(flop_rate=_changed_rates(self.device, key, rest, value))
        knobs = measured_fields(Device)
        if key not in knobs:
            names = (*knobs, "devices", "flop_rate", "flop_rate.bf16", "links.0.bandwidth")
            hint = nearest(key, names) or f"; fields: {', '.join(names)}"
            raise InputError(f"{shown(key)}: a system has no such field{hint}")
        return self._with_device(**{key: _changed(knobs[key], key, value, getattr(self.device, key))})

    def _with_device(self, **changes: Any) -> System:
        return msgspec.structs.replace(self, device=msgspec.structs.replace(self.device, **changes))

    def _with_link(self, key: str, rest: str, value: Any) -> System:
        which, _, field = rest.rpartition(".")
        names = [link.name for link in self.links]
        index = int(which) if which.isdecimal() and len(which) < 4 else names.index(which) if which in names else -1
        if not 0 <= index < len(names):
            levels = ", ".join(f"{i} or '{name}'" for i, name in enumerate(names)) or "none: it is one device"
            raise InputError(f"{shown(key)}: no such link level in {self.name}; levels are {levels}")
        link, knobs = self.links[index], measured_fields(Link)
        if field == "size":
            new: Any = parse_count(value, key, most=2**31)
        elif field in knobs:
            new = _changed(knobs[field], key, value, getattr(link, field))
        else:
            raise InputError(f"{shown(key)}: of a link, size, {' or '.join(knobs)} can be changed, not {shown(field)}")
        links = (*self.links[:index], msgspec.structs.replace(link, **{field: new}), *self.links[index + 1 :])
        whole = self.devices == self.capacity
        devices = math.prod(each.size for each in links) if whole else self.devices
        return msgspec.structs.replace(self, links=links, devices=devices)


def _changed_rates(device: Device, key: str, dtype: str, value: Any) -> dict[Dtype, Any]:
    """One format's rate replaced, or every rate scaled so that the 16-bit one becomes ``value``."""
    rates = device.flop_rate
    if dtype:
        named: Dtype | None = next((known for known in DTYPES if known == dtype), None)
        if named is None:
            raise InputError(f"{shown(key)}: no such rate; use flop_rate. and one of {', '.join(DTYPES)}")
        return {**rates, named: _changed(Rate, key, value, rates.get(named))}
    base = next(rates[each] for each in ("bf16", "fp16", *rates) if each in rates)
    factor = _changed(Rate, key, value, base) / base
    return {each: rate * factor for each, rate in rates.items()}


@cache
def measured_fields(struct: type) -> dict[str, Any]:
    """The fields of a record that carry a unit, with their annotations."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: hint for name, hint in hints.items() if unit_of(hint)}


def _changed(annotation: Any, key: str, value: Any, old: Any) -> Any:
    """A new value for a field: absolute, or a multiple of the old one written "2x"."""
    dimension, positive = unit_of(annotation) or ("1", False)
    text = value.strip() if isinstance(value, str) else ""
    if not text or text[-1] not in "x×":
        return parse(value, dimension, key, positive=positive)
    if old is None:
        raise InputError(
            f"{key}: {shown(value)} is a multiple, but there is no figure to multiply; give one with its unit"
        )
    return old * parse(text[:-1], "1", key, positive=positive)
