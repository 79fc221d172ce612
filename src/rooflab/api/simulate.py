"""Serving questions: from an ask to traffic and engine, one run or a study of many, and its report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rooflab.api import played
from rooflab.api.answers import _money_notes, header, scene_of
from rooflab.api.resolve import Setting, setting_of
from rooflab.api.simulate_asks import (
    BoardAsk,
    BoardReport,
    BoardRun,
    FoundReport,
    MeasuresReport,
    PointReport,
    SimulateAsk,
    SimulateReport,
    SpreadReport,
)
from rooflab.estimate import MILLION, Scene
from rooflab.sim import place, study, traces
from rooflab.sim.board import board
from rooflab.sim.clock import bits_for
from rooflab.sim.cluster import Transfer, Watch
from rooflab.sim.measure import Measures, Spread, limits_of
from rooflab.sim.run import Run
from rooflab.sim.schedule import POLICIES, Limits
from rooflab.sim.surface import SceneSurface, Speculation
from rooflab.sim.traffic import Lengths, Traffic, burst, closed_loop, conversations, lengths, of_columns, open_loop
from rooflab.units import InputError, format, parse, shown

PAGE_MOST = 200_000
"""Requests that a page, in the browser or of the local server, is shown at most."""
WORK_MOST = 5.0e6
"""Iterations that prompts may need: beyond this an answer would take too long."""
LIST_MOST = 100
PROBED = 2000
"""Requests that the saturated rate is taken from."""
SHARE = 0.7
"""Share of the saturated rate when no load is given."""
PROTOCOL = (
    "ttft runs from arrival to the end of the iteration that makes the first token; ttft_from_admission from the iteration in "
    "which the request first took a slot; queue_time lies between arrival and that iteration",
    "tpot is (last − first token) / (tokens − 1) of one request; itl is the gap between two tokens, over all gaps",
    "percentiles are over all served requests after the warm-up, straight between neighbours; intervals are 95 %, from 20 "
    "batches of consecutive arrivals",
    "throughput is tokens over the makespan, first arrival to last completion; goodput counts requests that meet every limit",
    "decisions are taken as vLLM's V1 engine takes them: at the boundaries of iterations, within slots, token budget and "
    "blocks; when a paged cache runs out the latest request is preempted (under priority, the one of the largest number) and "
    "computed again, or fetched from the host where swap gives it room",
    "tokenisation, network and detokenisation are left out; iteration times are this estimate's own prices",
)


# ---------------------------------------------------------------------------------------------- traffic


def _sources(ask: SimulateAsk) -> list[str]:
    return [
        name
        for name in ("rate", "concurrency", "load", "trace", "trace_text", "arrivals")
        if getattr(ask, name) is not None
    ]


def _check(ask: SimulateAsk) -> None:
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
            f"requests: {requests:,} are too many for a page; take at most {PAGE_MOST:,} here, or run `rooflab simulate`"
        )


class _Source:
    """Makes the traffic of a load and a seed: rates, users, or times the speed of a trace."""

    def __init__(self, ask: SimulateAsk):
        self.ask = ask
        self.prompt, self.output = lengths(ask.prompt, "prompt"), lengths(ask.output, "output")
        self.think = parse(ask.think, "s", "think")
        self.fixed = _recorded(ask)

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
            return closed_loop(ask.requests, int(load), self.prompt, self.output, seed=seed, think=self.think)
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


def _bounded(source: _Source, limits: Limits) -> None:
    """Refuses prompts that alone would take too many iterations to simulate."""
    ask, fixed = source.ask, source.fixed
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


def _setup(ask: SimulateAsk, setting: Setting, source: _Source) -> tuple[study.Setup, list[str], float]:
    """The engine to simulate, notes about it, and the cache bytes of a token on one device."""
    alone = msgspec.structs.replace(setting, layout=msgspec.structs.replace(setting.layout, dp=1))
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
        surface=_surface(scene, bits_for(horizon), draft),
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
    return setup, _notes(ask, setting, setup, [text for text in (said, swapping) if text]), per_token


_SURFACES: list[SceneSurface] = []
"""The latest few: the loads and policies of a study, and requests opened one by one, price the same iterations."""


def _surface(scene: Scene, bits: int, draft: Speculation | None) -> SceneSurface:
    for found in list(_SURFACES):
        if found.bits == bits and found.speculation == draft and found.scene == scene:
            return found
    made = SceneSurface(scene, bits, draft)
    _SURFACES[:] = [made, *_SURFACES][:8]
    return made


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _horizon(ask: SimulateAsk, source: _Source) -> float:
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


# ---------------------------------------------------------------------------------------------- reports


def spread_report(found: Spread | None) -> SpreadReport | None:
    return None if found is None else SpreadReport(**msgspec.structs.asdict(found))


def measures_report(found: Measures) -> MeasuresReport:
    """Figures as plain data."""
    values: dict[str, Any] = {}
    for name in MeasuresReport.__struct_fields__:
        if name == "energy_per_token":
            energy = found.energy_per_million_tokens
            values[name] = None if energy is None else energy / MILLION
            continue
        value = getattr(found, name)
        values[name] = spread_report(value) if isinstance(value, Spread) else value
    return MeasuresReport(**values)


def _point(found: study.Point) -> PointReport:
    return PointReport(**msgspec.structs.asdict(found))


def _loads(ask: SimulateAsk) -> list[float]:
    """The loads of a curve, from a list or from text."""
    given = (
        ask.loads if isinstance(ask.loads, list) else [item for item in str(ask.loads or "").split(",") if item.strip()]
    )
    found = [float(parse(value, "1", "loads", positive=True)) for value in given]
    if len(found) > LIST_MOST:
        raise InputError(f"loads: {len(found)} are more than {LIST_MOST} at once")
    return sorted(set(found))


def _policies(ask: SimulateAsk) -> list[str]:
    given = ask.policies
    if given is None:
        return []
    names = list(given) if isinstance(given, list) else [name.strip() for name in given.split(",") if name.strip()]
    names = list(POLICIES) if names == ["all"] else names
    for name in names:
        if name not in POLICIES:
            raise InputError(f"policies: {shown(name)} is not one of {', '.join(POLICIES)}")
    return list(dict.fromkeys(names))


def _load(ask: SimulateAsk, setup: study.Setup, source: _Source) -> tuple[float, list[str]]:
    """The load of the plain run, and what was chosen for want of one."""
    if source.fixed is not None:
        return 1.0, []
    if source.whole:
        return float(ask.concurrency or 1), []
    if ask.rate is not None:
        return ask.rate, []
    full = study.saturation(setup, source.together())
    share = SHARE if ask.load is None else ask.load
    chosen = "" if ask.load is not None else ", chosen because none was given"
    return share * full, [f"load: {share:.0%} of the {full:.3g} requests/s that a full queue is served at{chosen}"]


def _found(
    ask: SimulateAsk, setup: study.Setup, source: _Source, load: float, slo: dict[str, float]
) -> FoundReport | None:
    """What was looked for."""
    more = {"warmup": ask.warmup}
    if ask.find == "load":
        best = study.highest_load(setup, source, slo, at=ask.at, seed=ask.seed, whole=source.whole, **more)
        unit = "users" if source.whole else "times the trace's speed" if source.fixed is not None else "requests/s"
        return FoundReport(
            what="load",
            value=f"{best.load:.4g} {unit}",
            load=best.load,
            replicas=None,
            split=None,
            holds=True,
            measures=measures_report(best.measures),
            tried=[(f"{tried:.4g}", held) for tried, held in best.tried],
        )
    if ask.find is None:
        return None
    traffic = source(load, ask.seed)
    if ask.find == "replicas":
        most = study.fewest_replicas(setup, traffic, slo, at=ask.at, **more)
        value = f"{most.replicas} replicas"
    else:
        count = sum(setup.split) if setup.split is not None else ask.replicas  # int
        most = study.best_split(setup, traffic, slo, count, at=ask.at, **more)
        value = f"{most.split[0]}:{most.split[1]}" if most.split else ""
    return FoundReport(
        what=ask.find,
        value=value,
        load=None,
        replicas=most.replicas,
        split=most.split,
        holds=most.holds,
        measures=measures_report(most.measures),
        tried=most.tried,
    )


def answer_simulate(
    ask: SimulateAsk,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    mapper: Callable[..., Any] = map,
) -> SimulateReport:
    """A run, and what else was asked for: a load curve, policies side by side, the highest load, the fewest replicas.

    `progress` is told (requests finished, requests) of the plain run; `cancel` returning True ends it early, and the report
    then has unfinished requests; `mapper` (an executor's map) plays the loads of a curve at once.
    """
    _check(ask)
    setting = setting_of(ask)
    source = _Source(ask)
    slo = limits_of(ask.slo)
    setup, notes, per_token = _setup(ask, setting, source)
    _bounded(source, setup.limits)
    load, said = _load(ask, setup, source)
    run = measures = None
    traffic = source(load, ask.seed)
    loads = _loads(ask)
    if not loads:
        run = setup.play(traffic, _watch(progress, cancel))
        measures = setup.measured(run, slo=slo, warmup=min(ask.warmup, len(traffic) - 1))
        notes += _said(run, measures)
    curve = (
        study.load_sweep(setup, source, loads, replications=ask.replications, seed=ask.seed, mapper=mapper, slo=slo)
        if loads
        else None
    )
    side = study.side_by_side(setup, traffic, _policies(ask), slo=slo)
    found = _found(ask, setup, source, load, slo)
    return SimulateReport(
        **header(ask, SimulateReport, [*setting.notes, *notes, *said, *_money_notes(setting)]),
        name=setting.model.name,
        system=setting.system.name,
        profile=setting.profile.name,
        devices=setup.devices(),
        replicas=setup.replicas if setup.split is None else sum(setup.split),  # int
        policy=ask.policy,
        traffic=traffic.title,
        protocol=[*PROTOCOL, f"policy {ask.policy}: {POLICIES[ask.policy].title}"],
        limits=msgspec.to_builtins(setup.limits),
        kv_tokens=float(setup.limits.blocks * setup.limits.block_tokens),
        kv_bytes_per_token=per_token,
        slo=slo,
        loop=None if run is None else run.loop,
        run=None if measures is None else measures_report(measures),
        curve=None if curve is None else [_point(point) for point in curve],
        policies={name: measures_report(one) for name, one in side.items()} or None,
        found=found,
        refused={} if run is None else {str(n): run.refused[n] for n in sorted(run.refused)[:LIST_MOST]},
        saturated_rate=study.saturation(setup, source.together()) if ask.saturated else None,
        iterations=None if run is None else played.iterations(run),
        timeline=played.timeline(run, ask.timeline) if run is not None and ask.timeline else None,
        request=None if run is None or ask.request is None else played.path(run, ask.request),
        requests_table=_listed(_table(run, ask.columns)) if run is not None and ask.requests_table else None,
        steps_table=_listed(run.steps()) if run is not None and ask.steps_table else None,
    )


def _table(run: Run, columns: Sequence[str] | None) -> dict[str, Any]:
    found = run.columns()
    return found if columns is None else {name: found[name] for name in columns}


def _listed(table: dict[str, Any]) -> dict[str, list[Any]]:
    """A table as plain data; what an array holds as NaN did not happen."""
    return {
        name: column if isinstance(column, list) else [None if value != value else value for value in column.tolist()]
        for name, column in table.items()
    }


def _watch(progress: Callable[[int, int], None] | None, cancel: Callable[[], bool] | None) -> Watch | None:
    if progress is None and cancel is None:
        return None

    def watch(done: int, count: int) -> bool:
        if progress is not None:
            progress(done, count)
        return cancel is not None and cancel()

    return watch


def _said(run: Run, measures: Measures) -> list[str]:
    """What a reader of the figures must know."""
    notes = []
    if measures.overload:
        notes.append(
            "overload: the queue grows for as long as requests come, so waiting times say only how long the traffic lasted; "
            "lower the load or add replicas"
        )
    if run.refused:
        first = min(run.refused)
        notes.append(f"{len(run.refused):,} requests can never run and were refused: {first}: {run.refused[first]}")
    if run.why_python is not None:
        notes.append(f"played by the Python loop, slower and to the same result: {run.why_python}")
    if measures.unfinished:
        notes.append(f"stopped early: {measures.unfinished:,} requests are unfinished")
    return notes


def answer_board(ask: BoardAsk) -> BoardReport:
    """The scheduler's board under each policy (requirements B-075 to B-078)."""
    boards = {name: board(ask.answers, ask.slots, name) for name in ask.policies}
    notes = [
        "equal iterations and free admission; real prefill, memory limits and scheduling overhead can shrink or reverse "
        "the benefit",
        "hardware does not enter here",
    ]
    return BoardReport(
        **header(ask, BoardReport, notes),
        policies={name: BoardRun(**msgspec.structs.asdict(shown)) for name, shown in boards.items()},
    )


ANSWERS: dict[type, Callable[[Any], Any]] = {SimulateAsk: answer_simulate, BoardAsk: answer_board}

__all__ = ["ANSWERS", "Lengths", "answer_simulate", "of_columns"]
