"""How many devices a service needs: weights, caches and pace, on the rates of a whole replica (requirements D-300–D-313).

`capacity` sizes with the closed form of a decode step, which takes nothing but a model and a device; `fleet` does the same with
the engine's layouts, exchanges and achievable rates. A limit holds for the mean step; percentiles are for the simulator.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab import chip, graph
from rooflab.chip import Chip
from rooflab.estimate import MILLION, Workload, cost_per_million, estimate
from rooflab.fitted import USUAL, pricer_of
from rooflab.model import Model
from rooflab.profiles import Profile, profile
from rooflab.sweep.evaluate import run
from rooflab.sweep.serving import serving_layouts
from rooflab.sweep.spaces import space
from rooflab.system import System
from rooflab.units import InputError, format, shown
from rooflab.work import Layout, Precision

LARGEST = 4096
"""Devices of one replica that are tried at most."""


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One of the three reasons for devices."""

    name: str
    """capacity, kv or throughput."""
    symbols: str
    meaning: str
    value: int
    """Devices of a replica for the first two, replicas for the third."""
    says: str


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """A plan by the closed form; `replicas` is None where no replica meets the limit."""

    axes: tuple[Axis, ...]
    devices_per_replica: int
    replicas: int | None
    total: int | None
    binding: str | None
    batch_at_limit: int
    """Most sequences a replica's step serves within the limit, whatever its memory."""
    batch_in_memory: int
    """Most sequences whose caches fit beside the weights of a replica, whatever the limit."""
    users_per_replica: int
    """Users a replica really gets when they are spread evenly."""
    step: float | None
    """Seconds of a step with these users."""
    step_alone: float
    """Seconds of a step with one user: no limit below it can be met."""
    tightest: float
    """The least limit that can be met with one user on the largest replica tried."""
    weights: float
    kv_per_user: float
    kv_per_replica: float
    fleet_price: float | None
    """USD/s of all devices."""
    cost_per_million: float | None
    """USD per million tokens that are generated."""
    rates: str
    """replica: a step has the rates of all devices of a replica; device: of one, as the reference assumes."""
    notes: tuple[str, ...]


def capacity(
    model: Model,
    system: System,
    *,
    users: int,
    context: int,
    tpot: float,
    precision: Precision | None = None,
    reserve: float = 0.0,
    layers_only: bool = False,
    rates: str = "replica",
    largest: int | None = None,
    even: bool = True,
) -> Capacity:
    """Devices for users who each hold a context, with a limit on the time of a step.

    A: devices for the weights alone; B: for weights and the caches of a replica's users; C: replicas so that nobody exceeds
    the limit. A replica is as large as makes the fleet smallest, smaller replicas first. `even` sizes B for the users a
    replica really gets; `layers_only` leaves embedding and head out; rates="device" gives every step the rates of one device.
    """
    _whole(users=users, context=context)
    if not (isinstance(tpot, (int, float)) and math.isfinite(tpot) and tpot > 0):
        raise InputError(f"tpot: {shown(tpot)} must be a time above 0")
    if rates not in ("replica", "device"):
        raise InputError(f"rates: {shown(rates)} is not replica or device")
    if not 0 <= reserve < 1:
        raise InputError(f"reserve: {shown(reserve)} must be a share of the memory, at least 0 and below 1")
    formats = precision or Precision()
    one = chip.of(model, formats, system.device, context)
    weights = one.model.params * one.weight_size if layers_only else graph.total_weight_bytes(model, formats)
    kv = graph.kv_bytes_per_device(model, formats, Layout(), float(context), 1.0)
    kv += graph.state_bytes_per_device(model, formats, Layout(), 1.0)
    question = _Question(
        one=one, weights=weights, kv=kv, memory=system.device.memory * (1.0 - reserve), users=users, context=context,
        tpot=float(tpot), rates=rates, even=even,
    )  # fmt: skip
    most = min(largest or LARGEST, max(system.devices, 1))
    best = _smallest(question, most)
    return _capacity(question, best, most, system, layers_only)


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    one: Chip
    weights: float
    kv: float
    memory: float
    users: int
    context: int
    tpot: float
    rates: str
    even: bool

    def chip_of(self, devices: int) -> Chip:
        """The roofline of a replica."""
        return self.one if self.rates == "device" else self.one.scaled(float(devices), float(devices))

    def at_limit(self, devices: int) -> int:
        return int(chip.max_batch_within_slo(self.chip_of(devices), self.tpot, float(self.context)))

    def step(self, devices: int, batch: int) -> float:
        return float(chip.step_latency(self.chip_of(devices), float(batch), float(self.context)).total)

    def axis_a(self) -> int:
        return max(1, math.ceil(self.weights / self.memory))

    def room(self, devices: int) -> int:
        """Sequences whose caches fit beside the weights."""
        return max(0, int((devices * self.memory - self.weights) // self.kv)) if self.kv else self.users

    def axis_b(self, users: int) -> int:
        return max(1, math.ceil((self.weights + users * self.kv) / self.memory))


class _Size(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet: devices a replica, replicas, the users each serves and the most it could within the limit."""

    devices: int
    replicas: int
    users: int
    at_limit: int

    @property
    def total(self) -> int:
        return self.devices * self.replicas


def _sized(question: _Question, devices: int) -> _Size | None:
    """The fleet of replicas of this size; None where one user misses the limit or does not fit."""
    at_limit = question.at_limit(devices)
    if question.rates == "device":
        return _reference(question, at_limit)
    batch = min(question.users, at_limit, question.room(devices))
    if batch < 1:
        return None
    replicas = math.ceil(question.users / batch)
    users = math.ceil(question.users / replicas) if question.even else batch
    return _Size(devices=devices, replicas=replicas, users=users, at_limit=at_limit)


def _reference(question: _Question, at_limit: int) -> _Size | None:
    """The formula of D-300 as it stands: the step of one device decides the batch, memory then the devices."""
    batch = min(question.users, at_limit)
    if batch < 1:
        return None
    replicas = math.ceil(question.users / batch)
    users = math.ceil(question.users / replicas) if question.even else batch
    devices = max(question.axis_a(), question.axis_b(users))
    return _Size(devices=devices, replicas=replicas, users=users, at_limit=at_limit)


def _smallest(question: _Question, most: int) -> _Size | None:
    """The smallest fleet over replica sizes; replicas larger than one that serves everybody only add devices."""
    best: _Size | None = None
    devices = question.axis_a()
    while devices <= most:
        found = _sized(question, devices)
        if found is not None and (best is None or found.total < best.total):
            best = found
        if question.rates == "device" or (found is not None and found.replicas == 1):
            break
        devices = devices + 1 if devices < 256 else math.ceil(devices * 1.02)
    return best


def _capacity(question: _Question, best: _Size | None, most: int, system: System, layers_only: bool) -> Capacity:
    a = question.axis_a()
    size = best.devices if best is not None else max(1, min(most, a) if question.rates == "device" else most)
    users = best.users if best is not None else 0
    b = question.axis_b(max(users, 1))
    replicas = best.replicas if best is not None else None
    alone = question.step(size, 1)
    step = question.step(size, users) if best is not None else None
    price = system.device_price
    total = best.total if best is not None else None
    fleet_price = price * total if price is not None and total is not None else None
    cost = None
    if price is not None and best is not None and step is not None:
        cost = cost_per_million(price, total, step, float(question.users), MILLION)
    return Capacity(
        axes=_axes(question, a, b, replicas, users),
        devices_per_replica=size,
        replicas=replicas,
        total=total,
        binding=_binding(
            a, b, replicas, question.rates == "replica" and best is not None and question.room(size) < best.at_limit
        ),
        batch_at_limit=best.at_limit if best is not None else 0,
        batch_in_memory=question.room(size),
        users_per_replica=users,
        step=step,
        step_alone=alone,
        tightest=question.step(most, 1) if question.rates == "replica" else alone,
        weights=question.weights,
        kv_per_user=question.kv,
        kv_per_replica=question.kv * users,
        fleet_price=fleet_price,
        cost_per_million=cost,
        rates=question.rates,
        notes=_notes(question, best, most, size, layers_only, system),
    )


def _binding(a: int, b: int, replicas: int | None, cramped: bool) -> str | None:
    """What decides the size: throughput where there are several replicas, else the larger of the other two (D-301).

    Several replicas whose memory holds fewer than their pace allows are there for the caches.
    """
    if replicas is None:
        return None
    if replicas > 1 and not cramped:
        return "throughput"
    return "kv" if b > a else "capacity"


def _axes(question: _Question, a: int, b: int, replicas: int | None, users: int) -> tuple[Axis, ...]:
    """The three axes with their values (requirement D-305)."""
    return (
        Axis(
            name="capacity",
            symbols="⌈N·b / HBM⌉",
            meaning="devices that hold the weights",
            value=a,
            says=f"{format(question.weights, 'byte')} of weights on devices of {format(question.memory, 'byte')}",
        ),
        Axis(
            name="kv",
            symbols="⌈(N·b + users per replica · S·kv) / HBM⌉",
            meaning="devices that hold the weights and the caches of a replica's users",
            value=b,
            says=f"caches of {max(users, 1):,} × {format(question.kv, 'byte')} beside the weights",
        ),
        Axis(
            name="throughput",
            symbols="⌈users / B at the limit⌉",
            meaning="replicas that keep every step within the limit",
            value=replicas or 0,
            says=f"{question.users:,} users at a limit of {format(question.tpot, 's')} a token",
        ),
    )


def _notes(
    question: _Question, best: _Size | None, most: int, size: int, layers_only: bool, system: System
) -> tuple[str, ...]:
    notes = ["the limit holds for the mean step; percentiles under real traffic are for the simulator"]
    if question.rates == "device":
        notes.append("every step has the rates of one device, however many a replica has: the reference's assumption")
    else:
        notes.append("a step has the rates of all devices of a replica at their peak, without exchanges between them")
    if layers_only:
        notes.append("embedding and output head are left out")
    if best is None:
        floor = question.step(most if question.rates == "replica" else 1, 1)
        if question.weights + question.kv > most * question.memory:
            notes.insert(0, f"one user does not fit {most:,} devices: {format(question.weights + question.kv, 'byte')}")
        else:
            notes.insert(0, f"infeasible: one user alone takes {format(floor, 's')} a token, the limit is "
                            f"{format(question.tpot, 's')}")  # fmt: skip
    elif best.total > system.devices:
        notes.append(f"{system.name} has {system.devices:,} devices; the fleet needs {best.total:,}")
    return tuple(notes)


def _whole(**values: Any) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name}: {shown(value)} must be a whole number of at least 1")


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet of one layout, by the engine."""

    layout: Layout
    devices_per_replica: int
    replicas: int
    total: int
    batch_at_limit: int
    users_per_replica: int
    ttft: float
    """Of a prompt that arrives alone."""
    tpot: float
    """Mean over the answer, with the users a replica really gets."""
    throughput: float
    """Tokens/s of the fleet when all users ask at once."""
    fleet_price: float | None
    cost_per_million: float | None
    memory_share: float


def fleet(
    model: Model,
    system: System,
    *,
    users: int,
    prompt: int,
    output: int,
    tpot: float,
    ttft: float | None = None,
    precision: Precision | None = None,
    used: Profile | None = None,
    most: int = 64,
    count: int = 5,
    prices: str = USUAL,
    engine: str = "vllm",
) -> tuple[Sized, ...]:
    """The smallest fleets by the engine: every serving layout up to `most` devices, as many users as its step allows.

    Empty where no layout meets the limits.
    """
    _whole(users=users, prompt=prompt, output=output, most=most)
    formats, chosen = precision or Precision(), used or profile("operator")
    layouts = serving_layouts(model, min(most, system.devices), used=chosen, axes={"cp": (1,)})
    if not layouts:
        raise InputError(f"model: no layout on {system.name} divides the heads and layers of {model.name}")
    batches = sorted({*[2**i for i in range(users.bit_length())], users})
    asked = space(
        model, on=system, layouts=layouts, vary={"batch": tuple(b for b in batches if b <= users)}, precision=formats,
        used=chosen, work=Workload(prompt=prompt, output=output), prices=prices, engine=engine,
    )  # fmt: skip
    frame = run(asked, figures=("devices", "ttft", "tpot"))
    limits = (f"tpot <= {tpot}",)
    reached: dict[int, int] = {}
    wide = len(asked.vary["batch"])
    slow = {i // wide for i in range(0, len(frame), wide) if ttft is not None and not frame.column("ttft")[i] <= ttft}
    for at in frame.positions(*limits):
        if at // wide not in slow:
            reached[at // wide] = max(reached.get(at // wide, 0), int(frame.column("batch")[at]))
    rough = sorted(
        ((math.ceil(users / batch) * frame.column("devices")[at * wide], at) for at, batch in reached.items())
    )
    found = [
        sized
        for _, at in rough[: 4 * count]
        if (
            sized := _by_layout(
                model, system, layouts[at], reached[at], users, prompt, output, tpot, formats, chosen, (prices, engine)
            )
        )
    ]
    return tuple(sorted(found, key=lambda one: (one.total, one.tpot))[:count])


def _by_layout(
    model: Model,
    system: System,
    degrees: dict[str, Any],
    known: int,
    users: int,
    prompt: int,
    output: int,
    tpot: float,
    formats: Precision,
    chosen: Profile,
    priced: tuple[str, str],
) -> Sized | None:
    """The exact largest batch of one layout within the limit, and its fleet."""
    layout = Layout(**degrees)

    def ask(batch: int) -> Any:
        work = Workload(batch=batch, prompt=prompt, output=output)
        pricer = pricer_of(priced[0], system, layout, chosen, priced[1])
        return estimate(model, formats, layout, system, work, chosen, band=False, pricer=pricer)

    def meets(batch: int) -> bool:
        found = ask(batch)
        return bool(found.fits) and found.mid is not None and (found.mid.tpot is None or found.mid.tpot <= tpot)

    low, high = known, min(2 * known, users + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    replicas = math.ceil(users / low)
    real = math.ceil(users / replicas)
    found, alone = ask(real), ask(1)
    if found.mid is None or alone.mid is None:
        return None
    devices = int(layout.devices())
    price, total = system.device_price, devices * replicas
    return Sized(
        layout=layout,
        devices_per_replica=devices,
        replicas=replicas,
        total=total,
        batch_at_limit=low,
        users_per_replica=real,
        ttft=float(alone.mid.ttft),
        tpot=float(found.mid.tpot or 0.0),
        throughput=float(found.mid.output_throughput) * replicas,
        fleet_price=None if price is None else price * total,
        cost_per_million=None if found.cost is None else found.cost["all"],
        memory_share=float(found.memory.used / found.memory.capacity),
    )
