"""Serving questions made into traffic and an engine: what comes, what it runs on, and what is assumed on the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from rooflab import loaded
from rooflab.api.answers import scene_of
from rooflab.api.resolve import Setting
from rooflab.api.simulate_asks import SimulateAsk
from rooflab.estimate import Scene
from rooflab.fitted import Fitted
from rooflab.sim import fast, place, study, traces
from rooflab.sim.clock import bits_for
from rooflab.sim.cluster import Transfer
from rooflab.sim.schedule import Limits, policy, router
from rooflab.sim.surface import HostWork, SceneSurface, Speculation
from rooflab.sim.traffic import MANY, Lengths, Traffic, burst, closed_loop, conversations, lengths, open_loop, spread
from rooflab.units import InputError, format, parse, shown

PAGE_MOST = 200_000
"""Requests that a page, in the browser or of the local server, is shown at most."""
PYTHON, COMPILED = 1600.0, 700.0
"""Bytes of memory that a request takes in a run with its figures, by loop."""
WORK_MOST = 5.0e6
"""Iterations that prompts may need: beyond this an answer would take too long."""
SPREAD = 0.05
"""Share by which users' equal answers differ unless told: measured engines that mix prompts and decoding do not stay in step,
those that put prompts first do; anything from 0.02 to 0.1 says nearly the same."""
PROBED = 2000
"""Requests that the saturated rate is taken from."""


# ---------------------------------------------------------------------------------------------- traffic


def _sources(ask: SimulateAsk) -> list[str]:
    return [
        name
        for name in ("rate", "concurrency", "load", "trace", "trace_text", "arrivals")
        if getattr(ask, name) is not None
    ]


def check(ask: SimulateAsk) -> None:
    """What no single field shows."""
    given = _sources(ask)
    if len(given) > 1:
        raise InputError(f"{given[1]}: given beside {given[0]}; choose one of them")
    if ask.turns > 1 and given and given[0] not in ("rate", "load"):
        raise InputError(f"turns: conversations start at a rate, not with {given[0]}; give rate or load")
    if sys.platform == "emscripten":
        for_a_page(ask.requests)
    if ask.find == "replicas" and ask.disaggregate is not None:
        raise InputError("find: replicas are counted undivided; leave disaggregate out, or find the split")
    if ask.find in ("replicas", "split") and not ask.slo:
        raise InputError("slo: give the limits to hold, for example 'ttft=500ms,tpot=50ms'")


def for_a_page(requests: int) -> None:
    """Raises InputError where so many requests are for the command line rather than for a page."""
    if requests > PAGE_MOST:
        raise InputError(
            f"requests: {requests:,} are too many for a page; take at most {PAGE_MOST:,} here; "
            "the command rooflab simulate takes more"
        )


class Source:
    """Makes the traffic of a load and a seed: rates, users, or times the speed of a trace."""

    def __init__(self, ask: SimulateAsk):
        self.ask = ask
        self.prompt, self.output = lengths(ask.prompt, "prompt"), lengths(ask.output, "output")
        self.think = parse(ask.think, "s", "think")
        self.fixed = _recorded(ask)
        self.spread = _spread(ask, self.output)

    @property
    def whole(self) -> bool:
        return self.ask.concurrency is not None

    def __call__(self, load: float, seed: int) -> Traffic:
        ask = self.ask
        if self.fixed is not None:
            return self.fixed.faster(load) if load != 1.0 else self.fixed
        if self.whole:
            if load != int(load) or load < 1:
                raise InputError(f"loads: {load:g} users; with concurrency, loads are whole numbers")
            return closed_loop(
                ask.requests, int(load), self.prompt, spread(self.output, self.spread), seed=seed, think=self.think
            )
        if ask.turns > 1:
            sessions = -(-ask.requests // ask.turns)
            return conversations(
                sessions, ask.turns, load / ask.turns, self.prompt, self.output, seed=seed, think=self.think
            )
        return open_loop(ask.requests, load, self.prompt, self.output, seed=seed, variation=ask.variation)

    def together(self) -> Traffic:
        """Up to two thousand of the same requests, to be sent all at once."""
        count = min(self.ask.requests, PROBED)
        if self.fixed is not None:
            return self.fixed.part(0, min(count, len(self.fixed)))
        return burst(count, self.prompt, self.output, seed=self.ask.seed)

    def typical(self) -> float:
        """Mean tokens of a request at its end."""
        if self.fixed is not None:
            total = sum(self.fixed.prompt) + sum(self.fixed.output)  # int
            return total / len(self.fixed)
        return self.prompt.mean() + self.output.mean()


def _spread(ask: SimulateAsk, output: Lengths) -> float:
    """Share by which users' answers of one length differ."""
    if ask.concurrency is None or output.form != "fixed":
        if ask.spread is not None:
            raise InputError(
                "spread: counts only with concurrency and answers of one length; leave it out, or write output as a distribution"
            )
        return 0.0
    if ask.spread is None:
        return SPREAD if policy(ask.policy).mixes else 0.0
    return ask.spread


def _recorded(ask: SimulateAsk) -> Traffic | None:
    """The traffic of a trace or of inline rows, cut to the requests asked for."""
    if ask.trace is not None:
        found = traces.read(ask.trace)
    elif ask.trace_text is not None:
        found = traces.parse(ask.trace_text, "the file")
    elif ask.arrivals is not None:
        found = _rows(ask.arrivals)
    else:
        return None
    if len(found) > ask.requests:
        found = msgspec.structs.replace(found.part(0, ask.requests), title=f"{found.title}, the first {ask.requests:,}")
    return found.faster(ask.speed) if ask.speed != 1.0 else found


def _rows(rows: list[tuple[float, int, int]]) -> Traffic:
    text = "arrival,prompt,output\n" + "".join(f"{at!r},{prompt},{output}\n" for at, prompt, output in rows)
    found = traces.parse(text, "arrivals")
    return msgspec.structs.replace(found, title=f"{len(found):,} requests as given")


def _free_memory() -> float | None:
    """Bytes that the machine has free; None where it does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else float(parse(f"{found[1]} KiB", "byte", "MemAvailable"))


def _roomy(source: Source, setup: study.Setup) -> None:
    """Refuses runs whose columns would not fit the machine's memory."""
    ask, free = source.ask, _free_memory()
    if ask.requests < MANY or free is None:
        return
    why: str | None = None
    if ask.loop == "python":
        why = "the Python loop was asked for"
    elif source.whole or ask.turns > 1 or setup.split is not None:
        why = "requests follow one another, or are divided"
    else:
        one = burst(1, source.prompt, source.output)
        why = fast.why_not(one, setup.surface, setup.limits, policy(ask.policy), setup.replicas, router(ask.routing))
    requests = ask.requests if source.fixed is None else len(source.fixed)
    need = requests * (COMPILED if why is None else PYTHON)
    if need > free:
        hint = "take fewer" if why is None else f"take fewer; the compiled loop would need less, but {why}"
        raise InputError(
            f"requests: {requests:,} take about {format(need, 'byte')} of memory, and {format(free, 'byte')} are free; {hint}"
        )


def bounded(source: Source, setup: study.Setup) -> None:
    """Refuses prompts that alone would take too many iterations to simulate, and runs too large for the memory."""
    _roomy(source, setup)
    ask, fixed, limits = source.ask, source.fixed, setup.limits
    tokens = ask.requests * ask.turns * source.prompt.mean() if fixed is None else float(sum(fixed.prompt))  # int
    iterations = tokens / limits.budget
    if iterations > WORK_MOST:
        raise InputError(
            f"budget: {limits.budget:,} tokens an iteration make {iterations:,.0f} iterations of these prompts; "
            "raise it, or take fewer or shorter requests"
        )


# ---------------------------------------------------------------------------------------------- engine


def _split(ask: SimulateAsk) -> tuple[int, int] | None:
    if ask.disaggregate is None:
        return None
    before, colon, after = ask.disaggregate.partition(":")
    if not (colon and before.strip().isdecimal() and after.strip().isdecimal()) or len(ask.disaggregate) > 11:
        raise InputError(
            f"disaggregate: {shown(ask.disaggregate)} is not prefill:decode replicas; write for example '1:3'"
        )
    return int(before), int(after)


def _transfer(ask: SimulateAsk, setting: Setting, per_token: float) -> tuple[Transfer, str]:
    """The link that carries the cache, and what was assumed about it."""
    links, devices = setting.system.links, setting.layout.replica_devices()
    if ask.link is not None:
        bandwidth, latency = parse(ask.link, "byte/s", "link", positive=True), 0.0
        said = f"the cache travels at {format(bandwidth, 'byte/s')} per replica, as given"
    elif links:
        outer = links[-1]
        bandwidth = float(outer.bandwidth) * setting.profile.link_efficiency * devices
        latency = float(outer.latency)
        said = f"the cache travels over {outer.name} at {format(bandwidth, 'byte/s')} per replica"
    else:
        raise InputError("link: the system has no link between devices; give one, for example '50 GB/s'")
    return Transfer(bytes_per_token=per_token * devices, bandwidth=bandwidth, latency=latency), said


def _swapped(ask: SimulateAsk, setting: Setting, limits: Limits, per_token: float) -> tuple[Limits, str]:
    """Limits with room in host memory, priced over the host link, and what was assumed."""
    if ask.swap is None:
        if ask.host_link is not None:
            raise InputError("host_link: counts only with swap; give the host memory, for example swap '64 GB'")
        return limits, ""
    if ask.paging == "reserve":
        raise InputError(
            "swap: nobody is preempted when whole requests are reserved; leave paging at paged, or swap out"
        )
    memory = float(parse(ask.swap, "byte", "swap", positive=True))
    bandwidth = setting.system.device.host_bandwidth if ask.host_link is None else ask.host_link
    if bandwidth is None:
        raise InputError(
            f"host_link: no figure is known for {setting.system.device.name}; give one, for example '25 GB/s'"
        )
    rate, block = float(parse(bandwidth, "byte/s", "host_link", positive=True)), per_token * limits.block_tokens
    blocks = min(int(memory / block), 2**39)
    if not blocks:
        raise InputError(f"swap: {format(memory, 'byte')} holds no block of {format(block, 'byte')}; give more")
    said = (
        f"swap: preempted requests' cache moves at {format(rate, 'byte/s')} per device, and the engine waits for it; "
        f"{blocks:,} blocks fit the host, what does not is computed again"
    )
    return msgspec.structs.replace(limits, host_blocks=blocks, swap_time=block / rate), said


def _host(ask: SimulateAsk, setting: Setting, source: Source) -> tuple[HostWork, float, list[str]]:
    """The engine's host work and a request's way to its scheduler, fitted beside the prices of its kernels, and what is
    counted; sets the launches of its kernels."""
    users = [] if ask.concurrency is None else _users(source)
    if not isinstance(setting.pricer, Fitted):
        return (
            HostWork(),
            0.0,
            [
                "iterations take what their operators take: no engine's host work is counted beside these prices; estimate with "
                "concurrency counts it, so its times are longer",
                *users,
            ],
        )
    made = loaded.engine("vllm-sync" if ask.engine == "vllm" and not ask.ahead else ask.engine)
    setting.pricer.launch_scale = made.launch_scale
    host = HostWork.of(made)
    said = [
        f"host work of {made.title}: {format(host.step, 's')} an iteration, {format(host.sequence, 's')} a sequence in it and "
        f"{format(host.request, 's')} a prompt, and {format(made.arrival, 's')} until a request reaches the scheduler, as "
        "estimate with concurrency counts it; fitted on runs of one model on one device",
        *users,
    ]
    return host, float(made.arrival), said


def _users(source: Source) -> list[str]:
    """What a closed loop takes for granted."""
    said = [
        "users all start at once and send one list of requests between them, as benchmarks of a fixed concurrency do; "
        "estimate with the same concurrency is the mean of a loop that goes on: throughput here counts the end of the run, as "
        "the last answers run out, and is a few % lower in short runs"
    ]
    if source.spread:
        said.append(
            f"answers of {source.output.a:g} tokens differ by up to {source.spread:.0%} to either side, so that users fall out "
            "of step, as they do on measured engines that mix prompts and decoding, for a reason not known; spread 0 keeps them "
            "in step"
        )
    elif source.output.form == "fixed" and source.ask.output != 1:
        said.append(
            "answers of one length keep users in step: they end together and their prompts wait for one another, as measured on "
            "engines that put prompts first"
        )
    return said


def setup_of(ask: SimulateAsk, setting: Setting, source: Source) -> tuple[study.Setup, list[str], float]:
    """The engine to simulate, notes about it, and the cache bytes of a token on one device."""
    alone = msgspec.structs.replace(setting, layout=msgspec.structs.replace(setting.layout, dp=1))
    host, reach, hosting = _host(ask, setting, source)
    scene = scene_of(alone)
    typical = source.typical()
    blocks = None if ask.kv_tokens is None else max(1, ask.kv_tokens // ask.block_tokens)
    limits = place.limits_for(
        scene,
        typical,
        blocks=blocks,
        block_tokens=ask.block_tokens,
        slots=ask.slots,
        budget=ask.budget,
        kv=ask.paging,
        reach=reach,
        context=setting.model.max_context or None,
        chunked=ask.chunked,
        asynchronous=ask.ahead,
        caching=ask.caching,
    )
    limits, swapping = _swapped(ask, alone, limits, place.bytes_per_token(scene, typical))
    draft = Speculation(draft_tokens=ask.draft_tokens, acceptance=ask.acceptance) if ask.draft_tokens else None
    per_token = place.bytes_per_token(scene, typical)
    split = _split(ask)
    divides = split is not None or ask.find == "split"
    transfer, said = _transfer(ask, alone, per_token) if divides else (None, "")
    horizon = _horizon(ask, source)
    setup = study.Setup(
        surface=_surface(scene, bits_for(horizon), draft, host),
        limits=limits,
        policy=ask.policy,
        replicas=ask.replicas,
        routing=ask.routing,
        split=split,
        transfer=transfer,
        devices_per_replica=int(alone.layout.replica_devices()),
        price=_number(setting.system.device_price),
        power=_number(setting.system.device.power),
        loop=ask.loop,
    )
    return setup, _notes(ask, setting, setup, [*(text for text in (said, swapping) if text), *hosting]), per_token


_SURFACES: list[SceneSurface] = []
"""The latest few: the loads and policies of a study, and requests opened one by one, price the same iterations."""


def _same(a: Scene, b: Scene) -> bool:
    """Whether two scenes price alike; fitted prices are compared by what they were made from."""
    if msgspec.structs.replace(a, pricer=None) != msgspec.structs.replace(b, pricer=None):
        return False
    if isinstance(a.pricer, Fitted) and isinstance(b.pricer, Fitted):
        settings = ("system", "layout", "profile", "backend", "kernel", "dtype", "version", "launch_scale")
        return a.pricer.fits is b.pricer.fits and all(getattr(a.pricer, n) == getattr(b.pricer, n) for n in settings)
    return a.pricer is b.pricer


def _surface(scene: Scene, bits: int, draft: Speculation | None, host: HostWork) -> SceneSurface:
    for found in list(_SURFACES):
        if (found.bits, found.speculation, found.host) == (bits, draft, host) and _same(found.scene, scene):
            return found
    made = SceneSurface(scene, bits, draft, host)
    _SURFACES[:] = [made, *_SURFACES][:8]
    return made


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _horizon(ask: SimulateAsk, source: Source) -> float:
    """Seconds a run takes, very roughly: what the tick of the clock is chosen by."""
    if source.fixed is not None:
        return 2.0 * (source.fixed.arrival[-1] or 1.0)
    return 2.0 * ask.requests / ask.rate if ask.rate else 3600.0


def _notes(ask: SimulateAsk, setting: Setting, setup: study.Setup, notes: list[str]) -> list[str]:
    """What the engine leaves out or assumes."""
    layout, devices = setting.layout, setup.devices()
    if devices > setting.system.devices:
        notes.append(
            f"{devices} devices for all replicas: more than one {setting.system.name} of {setting.system.devices}"
        )
    if layout.pp > 1:
        notes.append("pp: one batch is in the pipeline at a time; several in turn would raise throughput")
    if layout.cp > 1 or layout.attention_dp > 1:
        notes.append("one scheduler serves the whole replica: its groups are assumed to be evenly filled")
    if ask.draft_tokens:
        mean = Speculation(draft_tokens=ask.draft_tokens, acceptance=ask.acceptance).tokens_per_step()
        notes.append(
            f"drafting yields {mean:.2f} tokens a step on average, spread evenly over time; itl is then a mean; drafting a token "
            "is assumed to take 5 % of a step"
        )
    if ask.paging == "reserve":
        notes.append("the length of an answer is reserved at admission, as if max_tokens were exact")
    return notes
