"""A space of scenarios: any field of a scenario, and the values it takes.

Rows are ordered by the named choices (system, formats, placements, …), then the layouts, then workload and hardware numbers,
the last field varying fastest. Rows that cannot differ from an earlier one are left out (requirement D-903).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rooflab.estimate import Workload
from rooflab.fitted import PRICES, USUAL
from rooflab.model import Attention, Model
from rooflab.parameters import BACKENDS
from rooflab.profiles import Profile, profile
from rooflab.sweep.frame import Column
from rooflab.sweep.grid import numpy_or_none
from rooflab.system import Device, Link, System, measured_fields
from rooflab.units import InputError, nearest, shown
from rooflab.work import FORMATS, Layout, Precision

DEGREES = ("tp", "pp", "cp", "dp", "ep", "attention_dp", "microbatches")
LAYOUT_CHOICES: dict[str, tuple[str, ...]] = {
    "kv_shard": ("replicate", "split"),
    "ffn_scope": ("tp", "tp_cp", "tp_cp_dp"),
    "ring": ("kv", "qoml"),
    "tp_placement": ("inner", "outer"),
    "cp_placement": ("inner", "outer"),
    "ep_mode": ("overlay", "dedicated"),
}
WORK = tuple(Workload.__struct_fields__)
FORMAT_FIELDS = ("weights", *[name for name in Precision.__struct_fields__ if name != "metadata"])
_LISTED = 24
"""Fields named at most when one is not found."""
_LINEAR = ("attention", "ffn", "expert")
CHUNK = 65536
"""Points of one piece of work."""
INNER = 128
"""Inner points of a piece at least, so that array calls have a run to work on."""


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """What is fixed, and which fields take which values.

    vary: layout degrees and choices, batch, prompt, output, cached, number formats (weights, kv, attention, …), "system"
    (names of `systems`), "profile" (names of `profiles`), hardware figures (memory, memory_bandwidth, flop_rate,
    links.0.bandwidth, price, …; a value is SI, a quantity with its unit or a multiple such as "2x").
    layouts: an explicit list of degrees instead of a product.
    """

    model: Model
    systems: dict[str, System]
    """The systems by name; the first is used where "system" does not vary."""
    precision: Precision = Precision()
    profiles: dict[str, Profile] = {}
    layout: Layout = Layout()
    work: Workload = Workload()
    prices: str = USUAL
    """roofline, or fitted: prices fitted on measured kernels, where the profile counts kernels."""
    engine: str = "vllm"
    """Engine whose kernels fitted prices are of."""
    vary: dict[str, tuple[Any, ...]] = {}
    layouts: tuple[dict[str, int], ...] = ()

    def digest(self) -> str:
        """A key of everything the answer depends on (requirement D-901)."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic", enc_hook=str)).hexdigest()


def space(
    model: Model,
    *,
    on: System | Mapping[str, System],
    vary: Mapping[str, Sequence[Any]] | None = None,
    layouts: Sequence[Mapping[str, int]] = (),
    precision: Precision | None = None,
    used: Profile | Mapping[str, Profile] | None = None,
    layout: Layout | None = None,
    work: Workload | None = None,
    prices: str = USUAL,
    engine: str = "vllm",
) -> Space:
    """A checked space.

    Raises InputError that names the field, shows the value and says what would be right.
    """
    systems = {on.name: on} if isinstance(on, System) else dict(on)
    if not systems:
        raise InputError("system: give at least one")
    chosen = used if used is not None else profile("operator")
    profiles = {chosen.name: chosen} if isinstance(chosen, Profile) else dict(chosen)
    if prices not in PRICES:
        raise InputError(
            f"prices: {shown(prices)} is not one of {', '.join(PRICES)}; tables of your own price single points"
        )
    if engine not in BACKENDS:
        raise InputError(f"engine: {shown(engine)} is not one of {', '.join(BACKENDS)}")
    values = {name: tuple(each) for name, each in (vary or {}).items()}
    for name, each in values.items():
        _check(name, each, systems, profiles)
    if layouts and any(name in values for name in DEGREES):
        raise InputError("layouts: give either a list of layouts or degrees to vary, not both")
    listed = tuple(dict(each) for each in layouts)
    for each in listed:
        for name, value in each.items():
            _check(name, (value,), systems, profiles)
            if name not in DEGREES:
                raise InputError(f"layouts: {shown(name)} is not a degree; use {', '.join(DEGREES)}")
    return Space(
        model=model,
        systems=systems,
        precision=precision or Precision(),
        profiles=profiles,
        layout=layout or Layout(),
        work=work or Workload(prompt=2048, output=256),
        prices=prices,
        engine=engine,
        vary=values,
        layouts=listed,
    )


def fields(systems: Mapping[str, System]) -> tuple[str, ...]:
    """Everything that can vary."""
    links = max((len(system.links) for system in systems.values()), default=0)
    linked = [f"links.{i}.{name}" for i in range(links) for name in measured_fields(Link)]
    rates = sorted({f"flop_rate.{dtype}" for system in systems.values() for dtype in system.device.flop_rate})
    device = [name for name in measured_fields(Device) if name != "flop_rate"]
    return (
        *DEGREES, *LAYOUT_CHOICES, *WORK, *FORMAT_FIELDS, "system", "profile", *device, "price", "flop_rate", *rates, *linked,
    )  # fmt: skip


def _check(name: str, values: tuple[Any, ...], systems: Mapping[str, System], profiles: Mapping[str, Profile]) -> None:
    """Every value of a field is one it can take."""
    if not values:
        raise InputError(f"vary.{name}: give at least one value")
    if name in DEGREES or name in WORK:
        least = 0 if name == "cached" else 1
        for value in values:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 2**31:
                raise InputError(f"vary.{name}: {shown(value)} must be a whole number of at least {least}")
            if value != int(value):
                raise InputError(f"vary.{name}: {shown(value)} must be a whole number")
        return
    choices: Sequence[str]
    if name in LAYOUT_CHOICES:
        choices = LAYOUT_CHOICES[name]
    elif name in FORMAT_FIELDS:
        choices = tuple(FORMATS)
    elif name in ("system", "profile"):
        choices = tuple(systems if name == "system" else profiles)
    else:
        if name not in fields(systems):
            known = tuple(dict.fromkeys(fields(systems)))
            likely = nearest(name, known) or f"; use {', '.join(known[:_LISTED])}, …"
            raise InputError(f"vary: {shown(name)} is not a field of a scenario{likely}")
        for value in values:
            for system in systems.values():
                system.replace({name: value})
        return
    for value in values:
        if value not in choices:
            advice = {"system": "; name the others among the systems, too", "profile": "; ask once for each profile"}
            more = advice.get(name, "")
            raise InputError(f"vary.{name}: {shown(value)} is not one of {', '.join(choices)}{more}")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One combination of the named choices: everything resolved, and the layouts kept in it."""

    choices: dict[str, Any]
    system: System
    precision: Precision
    profile: Profile
    layout: Layout
    kept: list[int]
    """Positions of the layouts that are not duplicates of an earlier group's."""
    start: int
    """Row of the first point."""


class Task(msgspec.Struct, frozen=True):
    """A rectangle of a group: layouts from `first` to `last`, inner points from `low` to `high`."""

    index: int
    group: int
    first: int
    last: int
    low: int
    high: int


class Plan:
    """A space laid out: its groups, its layouts, its inner points and the tasks that cover them."""

    def __init__(self, asked: Space, chunk: int = CHUNK):
        self.space = asked
        self.degrees = _degrees(asked)
        """Varied degrees: name -> value of every layout."""
        self.shape = tuple(len(asked.vary[name]) for name in self.degrees) if not asked.layouts else ()
        """Lengths of the degrees' axes where they form a product."""
        self.layouts = len(next(iter(self.degrees.values()))) if self.degrees else 1
        numbers = {n: v for n, v in asked.vary.items() if n not in DEGREES and not _is_choice(n)}
        self.numbers = numbers
        self.inner = math.prod(len(v) for v in numbers.values())
        self.groups = _groups(asked, self.degrees, self.layouts, self.inner)
        self.rows = self.groups[-1].start + len(self.groups[-1].kept) * self.inner
        self.enumerated = len(self.groups) * self.layouts * self.inner
        self.tasks = self._tasks(chunk)
        self._figures: dict[int, dict[str, list[Any]]] = {}

    def _tasks(self, chunk: int) -> list[Task]:
        """Blocks of layouts that are whole in the last degrees, so that a block is a product, times a run of inner points."""
        wide = min(self.inner, INNER)
        sizes = [self.layouts] if self.space.layouts or not self.shape else list(self.shape)
        block = 1
        while sizes and block * sizes[-1] * wide <= chunk:
            block *= sizes.pop()
        if sizes and self.space.layouts:
            block = max(1, chunk // wide)
        wide = min(self.inner, max(wide, chunk // block))
        tasks: list[Task] = []
        for at, group in enumerate(self.groups):
            for first in range(0, self.layouts, block):
                last = min(first + block, self.layouts)
                if _within(group.kept, first, last) == (0, 0):
                    continue
                for low in range(0, self.inner, wide):
                    tasks.append(Task(len(tasks), at, first, last, low, min(low + wide, self.inner)))
        return tasks

    def kept(self, task: Task) -> list[int]:
        """Layouts of a task that are not duplicates."""
        low, high = _within(self.groups[task.group].kept, task.first, task.last)
        return self.groups[task.group].kept[low:high]

    def count(self, task: Task) -> int:
        """Points of a task."""
        return len(self.kept(task)) * (task.high - task.low)

    def rows_of(self, task: Task) -> Column:
        """Row numbers of a task's points, in their order."""
        group, inner = self.groups[task.group], self.inner
        low, high = _within(group.kept, task.first, task.last)
        numpy = numpy_or_none()
        if numpy is None:
            return [group.start + i * inner + j for i in range(low, high) for j in range(task.low, task.high)]
        rows = group.start + numpy.arange(low, high)[:, None] * inner
        return (rows + numpy.arange(task.low, task.high)).ravel()

    def inner_values(self, task: Task, group: Group) -> dict[str, Column]:
        """Workload and hardware numbers of a task's inner points, as SI figures of the group's system."""
        numpy = numpy_or_none()
        at: Any = numpy.arange(task.low, task.high) if numpy is not None else range(task.low, task.high)
        found: dict[str, Column] = {}
        stride = self.inner
        for name, values in self._resolved(task.group, group.system).items():
            stride //= len(values)
            if numpy is not None:
                found[name] = numpy.array(values)[at // stride % len(values)]
            else:
                found[name] = [values[i // stride % len(values)] for i in at]
        return found

    def _resolved(self, index: int, system: System) -> dict[str, list[Any]]:
        """The inner axes' values in SI, resolved once per group."""
        if index not in self._figures:
            axes = {name: [_figure(system, name, value) for value in values] for name, values in self.numbers.items()}
            self._figures[index] = axes
        return self._figures[index]

    def scenario(self, task: Task) -> dict[str, list[Any]]:
        """The varied fields of a task's points, as columns."""
        group = self.groups[task.group]
        kept = self.kept(task)
        wide = task.high - task.low
        columns: dict[str, Any] = {name: _repeated(value, len(kept) * wide) for name, value in group.choices.items()}
        for name, values in self.degrees.items():
            columns[name] = _spread([values[i] for i in kept], wide)
        for name, values in self.inner_values(task, group).items():
            columns[name] = _tiled(values, len(kept))
        return columns


def _within(kept: list[int], first: int, last: int) -> tuple[int, int]:
    """The stretch of a sorted list whose values lie in [first, last)."""
    low, high = bisect_left(kept, first), bisect_left(kept, last)
    return (low, high) if high > low else (0, 0)


def _repeated(value: Any, count: int) -> Column:
    numpy = numpy_or_none()
    return [value] * count if numpy is None else numpy.full(count, value, dtype=object)


def _spread(values: list[Any], wide: int) -> Column:
    numpy = numpy_or_none()
    return [v for v in values for _ in range(wide)] if numpy is None else numpy.repeat(numpy.asarray(values), wide)


def _tiled(values: list[Any], tall: int) -> Column:
    numpy = numpy_or_none()
    return values * tall if numpy is None else numpy.tile(numpy.asarray(values), tall)


def _is_choice(name: str) -> bool:
    return name in LAYOUT_CHOICES or name in FORMAT_FIELDS or name in ("system", "profile")


def _figure(system: System, name: str, value: Any) -> Any:
    """A number of the inner axis: workload figures as given, hardware figures in SI on this system."""
    if name in WORK:
        return value
    changed = system.replace({name: value})
    head, _, rest = name.partition(".")
    if head == "links":
        level, _, field = rest.partition(".")
        return getattr(changed.links[int(level)], field)
    if name == "price":
        return changed.price
    if head == "flop_rate":
        return changed.device.rate(rest or "bf16")
    return getattr(changed.device, name)


def _degrees(asked: Space) -> dict[str, list[int]]:
    if asked.layouts:
        names = [name for name in DEGREES if any(name in each for each in asked.layouts)]
        return {
            name: [int(each[name] if name in each else getattr(asked.layout, name)) for each in asked.layouts]
            for name in names
        }
    varied = {name: values for name, values in asked.vary.items() if name in DEGREES}
    columns = zip(*itertools.product(*varied.values()), strict=True) if varied else ()
    return {name: [int(v) for v in column] for name, column in zip(varied, columns, strict=True)}


def _groups(asked: Space, degrees: Mapping[str, list[int]], layouts: int, inner: int) -> list[Group]:
    choices = {name: values for name, values in asked.vary.items() if _is_choice(name)}
    fixed = {name: getattr(asked.layout, name) for name in ("tp", "cp", "dp", "ep")}
    column = {name: degrees.get(name, [value] * layouts) for name, value in fixed.items()}
    groups: list[Group] = []
    start = 0
    for combo in itertools.product(*choices.values()):
        picked = dict(zip(choices, combo, strict=True))
        kept = [
            i
            for i in range(layouts)
            if not _repeats(asked.model, choices, picked, {n: c[i] for n, c in column.items()})
        ]
        groups.append(_group(asked, picked, kept, start))
        start += len(kept) * inner
    return groups


def _group(asked: Space, picked: dict[str, Any], kept: list[int], start: int) -> Group:
    formats: dict[str, str] = {}
    for name in FORMAT_FIELDS:
        if name in picked:
            formats |= dict.fromkeys(_LINEAR, picked[name]) if name == "weights" else {name: picked[name]}
    system = asked.systems[picked["system"]] if "system" in picked else next(iter(asked.systems.values()))
    used = asked.profiles[picked["profile"]] if "profile" in picked else next(iter(asked.profiles.values()))
    layout = msgspec.structs.replace(asked.layout, **{n: v for n, v in picked.items() if n in LAYOUT_CHOICES})
    precision = msgspec.structs.replace(asked.precision, **formats)
    return Group(
        choices=picked, system=system, precision=precision, profile=used, layout=layout, kept=kept, start=start
    )


def _repeats(
    model: Model, choices: Mapping[str, tuple[Any, ...]], picked: Mapping[str, Any], at: Mapping[str, int]
) -> bool:
    """Whether an earlier value of some choice gives the same point at these degrees (requirement D-903)."""
    for name, values in choices.items():
        index = values.index(picked[name])
        if index and any(_alike(model, choices, name, picked[name], other, at) for other in values[:index]):
            return True
    return False


def _alike(
    model: Model, choices: Mapping[str, tuple[Any, ...]], name: str, a: Any, b: Any, at: Mapping[str, int]
) -> bool:
    """Whether two values of a choice cannot differ at these degrees."""
    if a == b:
        return True
    apart = at["tp"] > 1 and "outer" in choices.get("tp_placement", ())
    if name == "ring":
        return at["cp"] == 1
    if name == "kv_shard":
        heads = [block.mixer.kv_heads for block in model.blocks if isinstance(block.mixer, Attention)]
        return at["tp"] <= min(heads, default=at["tp"])
    if name == "tp_placement":
        return at["tp"] == 1
    if name == "cp_placement":
        return at["cp"] == 1 and not apart
    if name == "ep_mode":
        return at["ep"] == 1 and not any(getattr(block.ffn, "experts", 0) for block in model.blocks)
    if name == "ffn_scope":
        added = {"tp": 1, "tp_cp": at["cp"], "tp_cp_dp": at["cp"] * at["dp"]}
        return added[a] == added[b] and not apart
    return False
