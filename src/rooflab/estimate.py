"""From counted work, prices and memory to what a user asks: TTFT, TPOT, throughput, dollars and joules.

One call answers one point or a million: any degree, batch, prompt or output may be an array; arrays are evaluated in chunks.
A scalar answer also carries the operators, the band and what binds; infeasible points of an array are masked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from rooflab import fits, graph, num
from rooflab.model import Attention, LatentAttention, Model
from rooflab.price import Pricer, Rates, Roofline, StepTime, rates_of, step_time
from rooflab.profiles import Profile
from rooflab.system import System
from rooflab.units import parse
from rooflab.work import Layout, Op, Precision, Step

Number = Any
MILLION = parse("1M", "token")
CHUNK = 16384
"""Points evaluated at once: small enough that temporaries stay in cache."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Equal requests that arrive together: `batch` sequences a replica, `prompt` tokens in, `output` tokens out."""

    batch: Number = 1
    prompt: Number = 1024  # count
    output: Number = 256
    cached: Number = 0
    """Prompt tokens already in the cache (shared prefix)."""

    @property
    def context(self) -> Number:
        """Tokens of one sequence at its end; the cache reserves them all."""
        return self.prompt + self.output


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The headline numbers of one end of the band, or of the middle; None where there is no such number."""

    ttft: Number
    tpot: Number | None
    e2e: Number
    output_throughput: Number
    decode_throughput: Number | None
    throughput_per_device: Number


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for a workload on a layout of a system; figures are None when it does not fit."""

    fits: Any
    feasible: Any
    reasons: tuple[str, ...]
    memory: fits.Memory
    mid: Figures | None
    low: Figures | None = None
    """Every time at the fast end (peak roofline), every throughput at its slow end: element by element the smaller value."""
    high: Figures | None = None
    cost: dict[str, Number] | None = None
    """USD per million tokens: input, output, all."""
    energy: Number | None = None
    """J per output token at the devices' full power."""
    prefill: StepTime | None = None
    decode: StepTime | None = None
    prefill_operators: tuple[Op, ...] = ()
    decode_operators: tuple[Op, ...] = ()


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What is priced: model, formats, layout, system and profile together."""

    model: Model
    precision: Precision
    layout: Layout
    system: System
    profile: Profile
    pricer: Pricer | None = None

    def operators(self, step: Step) -> list[Op]:
        """The step's operators at the profile's grain."""
        profile = self.profile
        return graph.operators(
            self.model,
            self.precision,
            self.layout,
            step,
            counting=profile.counting,
            causal=profile.causal,
            outside=profile.outside,
        )

    def time(self, operators: Sequence[Op], rates: Rates, detail: bool = False) -> StepTime:
        """Seconds of a step at the given rates; a pricer of one's own replaces the roofline."""
        pricer = self.pricer or Roofline(self.system, self.layout, self.profile, rates)
        return step_time(operators, pricer, self.profile, pass_time=rates.pass_time, detail=detail)

    def end(self, operators: Sequence[Op], mid: StepTime, rates: dict[str, Rates], end: str) -> Number:
        """Seconds at one end of the band: the pricer's own where it brings one, else the profile's rates at that end."""
        own = mid.low if end == "low" else mid.high
        return self.time(operators, rates[end]).time if own is None else own


def throughput(sequences: Number, tokens: Number, seconds: Number) -> Number:
    """Tokens per second of sequences that each produce so many in that time.

    Counts: all sequences of all replicas.
    Source: requirements B-052, A-044.
    Holds: equal requests that arrive together.
    """
    return sequences * tokens / seconds


def end_to_end(ttft: Number, tpot: Number, output: Number) -> Number:
    """Seconds from arrival to the last token: the first token, then output − 1 more.

    Counts: prefill and every decode step; queueing and network are left out.
    Source: requirement B-054.
    Holds: equal requests that arrive together.
    """
    return ttft + (output - 1.0) * tpot


def cost_per_million(price: Number, devices: Number, seconds: Number, tokens: Number, million: Number) -> Number:
    """USD per million tokens of a phase: what the devices cost while it runs, over the tokens it handles.

    Counts: device rent only.
    Source: definition.
    Holds: devices fully booked.
    """
    return price * devices * seconds / tokens * million


def energy_per_token(power: Number, devices: Number, seconds: Number, tokens: Number) -> Number:
    """Joules per output token with every device at its full power.

    Counts: prefill and decode; cooling and hosts are left out.
    Source: definition; an upper bound for the devices.
    Holds: power drawn does not exceed the rated power.
    """
    return power * devices * seconds / tokens


def pipeline_prefill(traverse: Number, stages: Number, microbatches: Number) -> Number:
    """Seconds until the last microbatch leaves the pipeline: one traverse, and one stage more per further microbatch.

    Counts: the fill bubble (stages − 1) of (microbatches + stages − 1) slots.
    Source: requirement D-405.
    Holds: balanced stages.
    """
    return traverse * (microbatches + stages - 1.0) / stages


def pipeline_decode(traverse: Number, stages: Number, microbatches: Number) -> Number:
    """Seconds between two tokens of a sequence when microbatches take turns in the pipeline.

    Counts: a traverse, or more when there are more microbatches than stages.
    Source: requirement D-085 for one microbatch.
    Holds: balanced stages, no bubble in steady state.
    """
    return traverse * (microbatches / stages if microbatches > stages else 1.0)


def _pipeline_decode(traverse: Number, layout: Layout) -> Number:
    ratio = layout.microbatches / layout.pp
    if num.is_array(ratio):
        return traverse * num.maximum(ratio, 1.0)
    return pipeline_decode(traverse, layout.pp, layout.microbatches)


def breakpoints(model: Model) -> list[float]:
    """Contexts at which a decode step changes slope: windows and sparse selections."""
    points: set[float] = set()
    for block in model.blocks:
        mixer = block.mixer
        if isinstance(mixer, (Attention, LatentAttention)):
            chosen = mixer.indexer.topk * (getattr(mixer, "compression", 0) or 1) if mixer.indexer else 0
            points |= {float(x) for x in (mixer.window, chosen) if x}
    return sorted(points)


def decode_contexts(model: Model, work: Workload, profile: Profile) -> list[tuple[Number, Number]]:
    """(context, weight) pairs whose weighted step times give the mean decode step.

    A step is affine in the context between break points, so a stretch's mean is its value at the stretch's mean context:
    exact for the roofline except inside a stretch where an operator's bound changes. `fixed` profiles take one step at
    the prompt's length.
    """
    if profile.tpot == "fixed":
        return [(num.maximum(work.prompt, 1), 1.0)]
    first, last = work.prompt + 1.0, work.prompt + num.maximum(work.output, 2.0) - 1.0
    steps = last - first + 1.0
    varies = num.is_array(first + last)
    pairs: list[tuple[Number, Number]] = []
    low = first
    for point in [*(b for b in breakpoints(model) if varies or first <= b < last), None]:
        end = last if point is None else num.clip(point, low - 1.0, last)
        pairs.append(((low + num.maximum(end, low)) / 2.0, (end - low + 1.0) / steps))
        low = end + 1.0
    return pairs


def _mean_decode(scene: Scene, work: Workload, rates: Rates, sequences: Number) -> Number:
    """Mean seconds of one decode step over the answer."""
    total: Number = 0.0
    for context, weight in decode_contexts(scene.model, work, scene.profile):
        step = Step(decode_sequences=sequences, decode_context=context)
        total = total + weight * scene.time(scene.operators(step), rates).time
    return total


def _figures(work: Workload, layout: Layout, ttft: Number, tpot: Number | None) -> Figures:
    """Headline numbers from the two times."""
    e2e = ttft if tpot is None else end_to_end(ttft, tpot, work.output)
    sequences = work.batch * layout.dp
    rate = throughput(sequences, work.output, e2e)
    return Figures(
        ttft=ttft,
        tpot=tpot,
        e2e=e2e,
        output_throughput=rate,
        decode_throughput=None if tpot is None else throughput(sequences, 1.0, tpot),
        throughput_per_device=rate / layout.devices(),
    )


def _smaller(a: Figures, b: Figures) -> tuple[Figures, Figures]:
    """Element by element smaller and larger figures of two ends of a band."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name in a.__struct_fields__:
        x, y = getattr(a, name), getattr(b, name)
        low[name] = None if x is None else num.minimum(x, y)
        high[name] = None if x is None else num.maximum(x, y)
    return Figures(**low), Figures(**high)


def estimate(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    work: Workload,
    profile: Profile,
    *,
    ignore_memory: bool = False,
    band: bool = True,
    pricer: Pricer | None = None,
) -> Estimate:
    """Memory, TTFT, TPOT, throughput, cost and energy of a workload on a layout of a system.

    Scalars: a refused layout or one that does not fit has no figures (requirement B-040; `ignore_memory` lifts the second),
    and one-token answers have no TPOT (B-051). Arrays: everything is computed, `feasible` and `fits` say what to trust,
    and neither band nor operator detail is kept. Raises InputError for degrees and sizes that are no counts.
    """
    fits.check_numbers(layout, work.batch, work.prompt, work.output, work.cached)
    if not graph.is_one(layout.microbatches):  # no piece of a batch is empty
        layout = msgspec.structs.replace(layout, microbatches=num.minimum(layout.microbatches, work.batch))
    scene = Scene(model=model, precision=precision, layout=layout, system=system, profile=profile, pricer=pricer)
    shape = _shape(layout, work, system)
    if shape is not None:
        return _arrays(scene, work, shape)
    feasible, reasons = fits.feasible(fits.layout_rules(model, layout, system, profile))
    return _scalar(scene, work, bool(feasible), tuple(reasons), ignore_memory, band)


def _memory(scene: Scene, work: Workload, operators: Sequence[Op] | None) -> fits.Memory:
    return fits.memory(
        scene.model,
        scene.precision,
        scene.layout,
        scene.system,
        scene.profile,
        batch=work.batch,
        context=work.context,
        prompt=work.prompt,
        operators=operators,
    )


def prefill_step(work: Workload, layout: Layout) -> Step:
    """The pass over the prompts of one microbatch."""
    new = work.prompt - work.cached
    return Step(prefill_sequences=_decode_sequences(work, layout), prefill_tokens=new, prefill_context=work.cached)


def _decode_sequences(work: Workload, layout: Layout) -> Number:
    """Sequences of one microbatch."""
    return work.batch if graph.is_one(layout.microbatches) else num.ceil_div(work.batch, layout.microbatches)


def decode_step(work: Workload, layout: Layout, context: Number) -> Step:
    """One decode step of a microbatch at a context."""
    return Step(decode_sequences=_decode_sequences(work, layout), decode_context=context)


def _scalar(
    scene: Scene, work: Workload, feasible: bool, reasons: tuple[str, ...], ignore_memory: bool, band: bool
) -> Estimate:
    """One point, with operators, band and reasons."""
    layout = scene.layout
    if not feasible:
        return Estimate(fits=False, feasible=False, reasons=reasons, memory=_memory(scene, work, None), mid=None)
    prefill_operators = scene.operators(prefill_step(work, layout))
    memory = _memory(scene, work, prefill_operators)
    if not memory.fits and not ignore_memory:
        return Estimate(fits=False, feasible=True, reasons=reasons, memory=memory, mid=None)
    rates = rates_of(scene.profile, scene.system.device.launch_time)
    prefill = scene.time(prefill_operators, rates["mid"], detail=True)
    answers = work.output > 1
    contexts = decode_contexts(scene.model, work, scene.profile) if answers else []
    lists = [(scene.operators(decode_step(work, layout, context)), weight) for context, weight in contexts]
    mids = [scene.time(operators, rates["mid"]) for operators, _ in lists]
    steps = [step.time * weight for step, (_, weight) in zip(mids, lists, strict=True)]
    last = scene.time(lists[-1][0], rates["mid"], detail=True) if answers else None
    ttft = pipeline_prefill(prefill.time, layout.pp, layout.microbatches)
    tpot = _pipeline_decode(_added(steps), layout) if answers else None
    mid = _figures(work, layout, ttft, tpot)
    low = high = None
    if band:
        ends = []
        for end in ("low", "high"):
            first = scene.end(prefill_operators, prefill, rates, end)
            first = pipeline_prefill(first, layout.pp, layout.microbatches)
            then = [scene.end(o, step, rates, end) * weight for (o, weight), step in zip(lists, mids, strict=True)]
            ends.append(_figures(work, layout, first, _pipeline_decode(_added(then), layout) if answers else None))
        low, high = _smaller(ends[0], ends[1])
    return Estimate(
        fits=bool(memory.fits),
        feasible=True,
        reasons=reasons,
        memory=memory,
        mid=mid,
        low=low,
        high=high,
        cost=_cost(scene, work, mid),
        energy=_energy(scene, work, mid),
        prefill=prefill,
        decode=last,
        prefill_operators=tuple(prefill_operators),
        decode_operators=tuple(lists[-1][0]) if answers else (),
    )


def _added(values: Sequence[Number]) -> Number:
    total: Number = 0.0
    for value in values:
        total = total + value
    return total


def _cost(scene: Scene, work: Workload, mid: Figures) -> dict[str, Number] | None:
    """USD per million tokens by phase and altogether, where a price is known."""
    price, devices = scene.system.device_price, scene.layout.devices()
    if price is None:
        return None
    sequences = work.batch * scene.layout.dp
    cost = {
        "input": cost_per_million(price, devices, mid.ttft, sequences * work.prompt, MILLION),
        "all": cost_per_million(price, devices, mid.e2e, sequences * work.context, MILLION),
    }
    if mid.tpot is not None:
        cost["output"] = cost_per_million(price, devices, mid.tpot, sequences, MILLION)
    return cost


def _energy(scene: Scene, work: Workload, mid: Figures) -> Number | None:
    """J per output token, where the rated power is known."""
    power = scene.system.device.power
    if power is None:
        return None
    tokens = work.batch * scene.layout.dp * work.output
    return energy_per_token(power, scene.layout.devices(), mid.e2e, tokens)


def _shape(layout: Layout, work: Workload, system: System) -> tuple[int, ...] | None:
    """Broadcast shape of a question's arrays, None for a single point."""
    values = [getattr(layout, n) for n in layout.__struct_fields__] + [getattr(work, n) for n in work.__struct_fields__]
    arrays = [v for v in (*values, *_hardware(system)) if num.is_array(v)]
    if not arrays:
        return None
    import numpy

    return numpy.broadcast_shapes(*[a.shape for a in arrays]) or None


def _hardware(system: System) -> list[Number]:
    device = system.device
    numbers = [
        device.memory,
        device.memory_bandwidth,
        device.vector_rate,
        device.launch_time,
        *device.flop_rate.values(),
    ]
    for link in system.links:
        numbers += [link.bandwidth, link.latency]
    return numbers


def _arrays(scene: Scene, work: Workload, shape: tuple[int, ...]) -> Estimate:
    """Many points, cut along the first axis into chunks that stay in cache; axes of length one are kept so.

    The columns are read-only views: what does not vary along an axis is stored once.
    """
    import numpy

    rows = max(1, CHUNK // max(1, math.prod(shape[1:])))
    columns: dict[str, Any] = {}
    reasons: list[str] = []
    for start in range(0, shape[0], rows):
        piece = slice(start, min(start + rows, shape[0]))
        values, why = _chunk(_sliced(scene, piece, len(shape)), _slice_struct(work, piece, len(shape)))
        reasons += [r for r in why if r not in reasons]
        for name, value in values.items():
            if value is None:
                continue
            if not num.is_array(value):
                columns[name] = numpy.asarray(value)
                continue
            own = numpy.shape(value)
            if name not in columns:
                columns[name] = numpy.empty((shape[0], *own[1:]), dtype=bool if name in ("fits", "feasible") else float)
            columns[name][piece] = value
    columns = {name: numpy.broadcast_to(column, shape) for name, column in columns.items()}
    memory = fits.Memory(
        **{name: columns[f"memory_{name}"] for name in fits.Memory.__struct_fields__ if name != "fits"},
        fits=columns["fits"],
    )
    cost = {key: columns[f"cost_{key}"] for key in ("input", "output", "all") if f"cost_{key}" in columns}
    return Estimate(
        fits=columns["fits"],
        feasible=columns["feasible"],
        reasons=tuple(reasons),
        memory=memory,
        mid=Figures(**{name: columns[name] for name in Figures.__struct_fields__}),
        cost=cost or None,
        energy=columns.get("energy"),
    )


def _slice_struct(struct: Any, piece: slice, axes: int) -> Any:
    """The same struct with its arrays cut to one chunk."""
    changes = {}
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if num.is_array(value):
            changes[name] = _cut_array(value, piece, axes)
    return msgspec.structs.replace(struct, **changes) if changes else struct


def _cut_array(value: Any, piece: slice, axes: int) -> Any:
    """Rows of an array under broadcasting over `axes` axes; an axis of length one serves every chunk."""
    whole = value.reshape((1,) * (axes - value.ndim) + value.shape).astype(float, copy=False)
    return whole if whole.shape[0] == 1 else whole[piece]


def _sliced(scene: Scene, piece: slice, axes: int) -> Scene:
    """The scene with layout and hardware arrays cut to one chunk."""
    device = scene.system.device
    rates = {k: _cut_array(v, piece, axes) if num.is_array(v) else v for k, v in device.flop_rate.items()}
    device = _slice_struct(msgspec.structs.replace(device, flop_rate=rates), piece, axes)
    links = tuple(_slice_struct(link, piece, axes) for link in scene.system.links)
    system = msgspec.structs.replace(scene.system, device=device, links=links)
    return msgspec.structs.replace(scene, system=system, layout=_slice_struct(scene.layout, piece, axes))


def _chunk(scene: Scene, work: Workload) -> tuple[dict[str, Number], list[str]]:
    """All columns of one chunk."""
    layout = scene.layout
    feasible, reasons = fits.feasible(fits.layout_rules(scene.model, layout, scene.system, scene.profile))
    rates = rates_of(scene.profile, scene.system.device.launch_time)["mid"]
    prefill_operators = scene.operators(prefill_step(work, layout))
    memory = _memory(scene, work, prefill_operators)
    ttft = pipeline_prefill(scene.time(prefill_operators, rates).time, layout.pp, layout.microbatches)
    step = _mean_decode(scene, work, rates, _decode_sequences(work, layout))
    tpot = _pipeline_decode(step, layout)
    single = num.where(work.output > 1, 1.0, float("nan"))
    mid = _figures(work, layout, ttft, tpot)
    e2e = num.where(work.output > 1, mid.e2e, ttft)
    mid = msgspec.structs.replace(mid, tpot=tpot * single, e2e=e2e)
    rate = throughput(work.batch * layout.dp, work.output, e2e)
    mid = msgspec.structs.replace(
        mid,
        output_throughput=rate,
        decode_throughput=throughput(work.batch * layout.dp, 1.0, tpot) * single,
        throughput_per_device=rate / layout.devices(),
    )
    values: dict[str, Number] = {name: getattr(mid, name) for name in Figures.__struct_fields__}
    values.update({f"memory_{n}": getattr(memory, n) for n in fits.Memory.__struct_fields__ if n != "fits"})
    values.update(fits=memory.fits, feasible=feasible, energy=_energy(scene, work, mid))
    for key, value in (_cost(scene, work, mid) or {}).items():
        values[f"cost_{key}"] = value
    return values, reasons
