"""A serving engine under closed-loop load, in closed form: C requests in flight, continuous batching, chunked prefill.

The mean of what the simulator steps through: decode steps carry the running batch, and each request's prompt is worked in
between. Memory limits the batch; requests beyond it wait. Engine constants are few, named, and kept with their source in
`catalog/engines.toml`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from rooflab import num
from rooflab.estimate import Figures, Scene, Workload
from rooflab.fits import memory
from rooflab.kernels.machine import TINY
from rooflab.price import rates_of
from rooflab.units import InputError, nearest, parse, shown
from rooflab.work import Step

Number = Any
PATH = Path(__file__).parent / "catalog" / "engines.toml"
BUNCHING = {"low": 0.9, "mid": 1.0, "high": 1.15}
"""How much further than its kernels' band a loop's first token may come: how requests bunch up is not predicted. With it eight in
ten measured first tokens, or more, lie inside on every engine; without it every other one of mixtures."""


class Engine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a serving engine adds to its kernels."""

    name: str
    title: str = ""
    launch_scale: Number
    """Share of a kernel's stand-alone fixed cost left when kernels are launched back to back."""
    step: Number
    """Seconds of host work per iteration."""
    sequence: Number = 0.0
    """Seconds of host work per running sequence and iteration: its place in the batch, its sampling, its text."""
    request: Number
    """Seconds of host work per prompt."""
    arrival: Number
    """Seconds before a request reaches the scheduler: tokenising, queues between processes."""
    synchrony: Number
    """Share of requests whose prompts are worked together, as when all start at once: 0 staggered, 1 in step."""
    varied_synchrony: Number = 0.1
    """The same where lengths vary at random, which soon staggers requests."""
    turns: Number = 0.0
    """Iterations with prompts of others that a new prompt lets pass where all answers have one length: requests that began one
    after the other then end and come back one after the other, each while the next one's prompt is worked. Varied lengths: 0."""
    max_batched_tokens: Number
    """Tokens of one iteration at most."""
    eager: Number = 0.0
    """Seconds of host work per operator where kernels are launched one by one: a step takes at least that. 0 with graphs."""
    prompt_eager: Number = 0.0
    """The same of an iteration with prompts, for whose lengths no graph was captured."""
    decode_exchange: Number = 1.0
    """Times the collectives of a decode step take longer than fitted."""
    prefill_exchange: Number = 1.0
    source: str = ""
    note: str = ""


@cache
def engines() -> dict[str, Engine]:
    """Every engine there are constants for."""
    data = tomllib.loads(PATH.read_text(encoding="utf-8"))
    found: dict[str, Engine] = {}
    for name, row in data.items():
        for field in ("step", "sequence", "request", "arrival", "eager", "prompt_eager"):
            if field in row:
                row[field] = parse(row[field], "s", f"engines.{name}.{field}")
        found[name] = msgspec.convert({"name": name, **row}, Engine)
    return found


def engine(name: str) -> Engine:
    """The engine of that name.

    Raises InputError naming the engines there are.
    """
    known = engines()
    if name not in known:
        raise InputError(f"engine: {shown(name)} is not one of {', '.join(known)}{nearest(name, known)}")
    return known[name]


def of_varied_lengths(made: Engine) -> Engine:
    """The engine where lengths vary at random: requests stagger, and nobody follows anyone."""
    return msgspec.structs.replace(made, synchrony=made.varied_synchrony, turns=0.0)


def eager_step(device: Number, operators: Number, eager: Number, step: Number) -> Number:
    """Seconds of a step whose kernels are launched one by one: the slower of device and host, blended, and fixed host work.

    Counts: `eager` seconds of host work per operator.
    Source: refs.toml `loaded_serving`; fitted on batches of an older engine.
    Holds: engines without captured graphs.
    """
    return (device**4.0 + (operators * eager) ** 4.0) ** 0.25 + step


def prompt_iterations(device: Number, iterations: Number, operators: Number, eager: Number) -> Number:
    """Seconds of the iterations a prompt is worked in: the slower of the device and of the host that launches its kernels.

    Counts: `eager` seconds of host work per operator. A host that works ahead hides them in decode steps before and after, so
    tokens of others come no later.
    Source: refs.toml `loaded_serving`; fitted on a dense model, and seen again on a mixture of twice the operators.
    Holds: engines whose graphs hold decode steps alone, prompts in fewer than all iterations.
    """
    return num.maximum(device, iterations * operators * eager)


def time_per_token(
    step: Number,
    prefill: Number,
    batch: Number,
    together: Number,
    output: Number,
    synchrony: Number,
    most: Number,
    ahead: Number,
) -> Number:
    """Mean seconds between tokens: a decode step, and the prompts of the others worked in between.

    Counts: each of the other batch − 1 requests brings one prompt per answer, `most` of them an iteration (the others wait, see
    `backlog_wait`), less those `ahead` that were worked while one's own prompt waited; of a synchronous batch, half of those
    that do not share an iteration with one's own.
    Source: refs.toml `loaded_serving`.
    Holds: steady closed loop.
    """
    return (
        step
        + (
            (1.0 - synchrony) * num.minimum(num.maximum(batch - 1.0 - ahead, 0.0) / output, most)
            + synchrony * (batch - together) / 2.0 / output
        )
        * prefill
    )


def backlog_wait(batch: Number, prefill: Number, output: Number, most: Number) -> Number:
    """Seconds a new prompt waits where answers are so short that the others' prompts do not fit between their tokens.

    Counts: of the batch − 1 other prompts those beyond `most` in each of the answer's iterations.
    Source: conservation of work in a closed loop: every request's prompt is worked once a turn.
    Holds: prompts worked in the order of arrival.
    """
    return num.maximum(batch - 1.0 - output * most, 0.0) * prefill


def queue_wait(batch: Number, prefill: Number, step: Number, output: Number) -> Number:
    """Seconds a new prompt waits for other prompts: the mean residual work of a server busy with prompts a share of the time.

    Counts: prompts only; decode steps go on beside them. Never more than half of all other prompts, as when all come at once.
    Source: refs.toml `loaded_serving`.
    Holds: staggered arrivals.
    """
    return num.minimum(batch * prefill / (output * step), batch) * prefill * (batch - 1.0) / batch / 2.0


def convoy_wait(turns: Number, batch: Number, iteration: Number) -> Number:
    """Seconds a new prompt waits behind those that came back just before it, where all answers have one length.

    Counts: `turns` iterations with a prompt each, at most one for every other request.
    Source: refs.toml `loaded_serving`; closed loops stepped through by the simulator show it whatever the answers' length.
    Holds: staggered arrivals in a closed loop.
    """
    return num.minimum(turns * 1.0, num.maximum(batch - 1.0, 0.0)) * iteration


def staggered_first_token(arrival: Number, step: Number, prompt_work: Number, request: Number, wait: Number) -> Number:
    """Seconds to the first token of a request that joins a running batch.

    Counts: half a step until the next iteration, its own prompt beside the running batch, host work, the wait for other prompts.
    Source: refs.toml `loaded_serving`.
    Holds: staggered arrivals.
    """
    return arrival + step / 2.0 + prompt_work + request + wait


def synchronous_first_token(arrival: Number, batch: Number, together: Number, prefill: Number, step: Number) -> Number:
    """Seconds to the first token when a whole batch of prompts starts together, `together` of them in one iteration.

    Counts: iterations come one after another, so the mean request waits for (batch + together) / 2 prompts, and for a step in
    each of them.
    Source: refs.toml `loaded_serving`.
    Holds: synchronous arrivals.
    """
    return arrival + (batch + together) / 2.0 * (prefill + step / together)


def slot_wait(flight: Number, batch: Number, prefill: Number, step: Number, output: Number) -> Number:
    """Seconds a request waits for memory when more are in flight than fit: turns of the requests before it.

    Counts: (flight − batch) / batch turns of a whole request.
    Source: Little's law for a closed loop.
    Holds: first come, first served.
    """
    return (flight - batch) / batch * (batch * prefill + output * step)


class Pieces(msgspec.Struct, frozen=True, kw_only=True):
    """Kernel seconds a closed loop is made of, without the engine's host work."""

    batch: Number
    """Requests that run at once."""
    room: Number
    """Requests whose caches fit."""
    decode: Number
    """One decode step of the whole batch."""
    marginal: Number
    """What one prompt adds to the steps it is worked in."""
    own: Number
    """The steps in which a prompt is worked beside the rest of the batch."""
    parts: Number
    """Iterations a prompt is worked in."""
    operators: Number
    """Kernels of an iteration with prompts."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A closed loop's figures, and what they are made of."""

    figures: Figures
    pieces: Pieces
    step: Number
    """Seconds of one decode step, host work included."""
    prefill: Number
    """Seconds of marginal work per prompt, host work included."""


def room_for(scene: Scene, work: Workload, batched: Number) -> Number:
    """Requests whose caches fit at their mean length, as paged engines hold them."""
    groups = scene.layout.attention_dp
    held = memory(
        scene.model,
        scene.precision,
        scene.layout,
        scene.system,
        scene.profile,
        batch=1.0 * groups,
        context=work.prompt + work.output / 2.0,
        prompt=num.minimum(work.prompt * 1.0, batched * 1.0),
    )
    free = held.capacity - held.weights - held.workspace - held.reserve
    return num.floor(num.maximum(free / num.maximum(held.kv, 1.0), 0.0)) * groups


def pieces_of(scene: Scene, work: Workload, flight: Number, batched: Number, *, end: str = "mid") -> Pieces:
    """Kernel seconds with `flight` requests in flight and at most `batched` tokens an iteration.

    Prompts longer than an iteration are worked in chunks at their mean cached context; short ones share an iteration when
    they arrive faster than steps.
    """
    prompt = work.prompt - work.cached
    room = room_for(scene, work, batched)
    batch = num.maximum(num.minimum(flight * 1.0, room), 1.0)
    chunk = num.minimum(prompt * 1.0, batched * 1.0)
    together = num.maximum(num.floor(num.minimum(batch / work.output, batched / prompt)), 1.0)
    context = work.prompt + work.output / 2.0
    chunked = {"prefill_tokens": chunk, "prefill_context": work.cached + (prompt - chunk) / 2.0}
    rates = rates_of(scene.profile, scene.system.device.launch_time)

    def seconds(step: Step) -> Number:
        operators = scene.operators(step)
        mid = scene.time(operators, rates["mid"])
        return mid.time if end == "mid" else scene.end(operators, mid, rates, end)

    decode = seconds(Step(decode_sequences=batch, decode_context=context))
    joined = seconds(Step(decode_sequences=batch, decode_context=context, prefill_sequences=together, **chunked))
    if not num.is_array(batch) and batch <= 1:
        own = seconds(Step(prefill_sequences=1.0, **chunked))
    else:
        others = num.maximum(batch - 1.0, 1.0)
        own = seconds(Step(decode_sequences=others, decode_context=context, prefill_sequences=1.0, **chunked))
    parts = prompt / chunk
    marginal = num.maximum(joined - decode, 0.0) * parts / together
    return Pieces(
        batch=batch,
        room=room,
        decode=decode,
        marginal=marginal,
        own=own * parts,
        parts=parts,
        operators=launches(scene),
    )


def launches(scene: Scene) -> Number:
    """Kernels of an iteration that decodes and works a prompt."""
    count: Number = 0.0
    step = Step(decode_sequences=1.0, decode_context=1.0, prefill_sequences=1.0, prefill_tokens=1.0)
    for op in scene.operators(step):
        count = count + op.count
    return count


def combine(pieces: Pieces, work: Workload, flight: Number, made: Engine, replicas: Number, devices: Number) -> Loaded:
    """Figures of a closed loop from its kernel seconds and an engine's constants."""
    batch, output, sync = pieces.batch, work.output, made.synchrony
    host = made.step + made.sequence * batch
    step, prefill = pieces.decode + host, pieces.marginal + made.request
    own = prompt_iterations(pieces.own, pieces.parts, pieces.operators, made.prompt_eager) + host
    most = made.max_batched_tokens / (work.prompt - work.cached)
    passed = num.maximum(queue_wait(batch, prefill, step, output), backlog_wait(batch, prefill, output, most))
    wait = num.maximum(passed, convoy_wait(made.turns, batch, own))
    first = (1.0 - sync) * staggered_first_token(made.arrival, step, own, made.request, wait)
    together = num.maximum(num.minimum(batch, most), 1.0)
    first = first + sync * synchronous_first_token(made.arrival, batch, together, prefill, step)
    first = first + slot_wait(num.maximum(flight * 1.0, batch), batch, prefill, step, output)
    tpot = time_per_token(step, prefill, batch, together, output, sync, most, passed / num.maximum(prefill, TINY))
    whole = first + (output - 1.0) * tpot
    rate = flight * output / whole * replicas
    figures = Figures(
        ttft=first,
        tpot=tpot,
        e2e=whole,
        output_throughput=rate,
        decode_throughput=batch / tpot * replicas,
        throughput_per_device=rate / devices,
    )
    return Loaded(figures=figures, pieces=pieces, step=step, prefill=prefill)


def closed_loop(scene: Scene, work: Workload, flight: Number, made: Engine, *, end: str = "mid") -> Loaded:
    """TTFT, TPOT and throughput with `flight` requests of one replica always in flight; `work.batch` is not used."""
    pieces = pieces_of(scene, work, flight, made.max_batched_tokens, end=end)
    found = combine(pieces, work, flight, made, scene.layout.dp, scene.layout.devices())
    if end == "mid":
        return found
    mid = found.figures
    first = mid.ttft * BUNCHING[end]
    figures = msgspec.structs.replace(mid, ttft=first, e2e=mid.e2e + (first - mid.ttft))
    return msgspec.structs.replace(found, figures=figures)
