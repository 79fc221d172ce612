"""Questions about many layouts and machines: sweeps, suggestions, plans, sharded layouts, co-design, rules on a scenario."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from rooflab import __version__, catalog, plan, sweep
from rooflab.api import sizing
from rooflab.api.asks import Source, _Placed
from rooflab.api.codesign import answer_codesign
from rooflab.api.design_asks import (
    AxisReport,
    CheckReport,
    CodesignAsk,
    FleetReport,
    HintReport,
    Limit,
    PlanAsk,
    PlanReport,
    RulesAsk,
    RulesReport,
    ShardedAsk,
    ShardedReport,
    SuggestAsk,
    SuggestedReport,
    SuggestReport,
    SweepAsk,
    SweepReport,
    Table,
)
from rooflab.api.quantities import units_of
from rooflab.api.resolve import (
    cut_of,
    layout_of,
    model_of,
    precision_of,
    pricer_of,
    prices_of_many,
    profile_of,
    reserve_of,
    system_of,
    workload_of,
)
from rooflab.api.sources import measured, sources_of
from rooflab.api.spans import MOST_ROWS, values_of
from rooflab.api.tables import kept_rows, reasons_of, table_of
from rooflab.catalog import rules
from rooflab.estimate import Workload
from rooflab.model import Model
from rooflab.plan.checks import Scenario
from rooflab.profiles import Profile
from rooflab.sweep import layouts as grid
from rooflab.sweep.evaluate import run
from rooflab.sweep.frame import Frame
from rooflab.sweep.gather import FIGURES, USUAL
from rooflab.sweep.serving import BATCHES, OBJECTIVES, serving_space
from rooflab.sweep.spaces import DEGREES, Space, space
from rooflab.sweep.suggest import suggest
from rooflab.system import System
from rooflab.units import InputError, parse, shown
from rooflab.work import Layout


def _header(ask: Any, report: type, notes: Sequence[str]) -> dict[str, Any]:
    plain = msgspec.to_builtins(ask)
    return {"version": __version__, "ask": plain, "notes": list(dict.fromkeys(notes)), "units": units_of(report)}


def _systems(ask: SweepAsk) -> dict[str, System]:
    systems: dict[str, System] = {}
    for source in (ask.on, *ask.also_on):
        found = system_of(source, ask.changes)
        label = source if isinstance(source, str) else found.name
        systems[str(label)] = found
    return systems


def space_of(ask: SweepAsk) -> tuple[Space, list[str]]:
    """The space of a sweep question, with notes."""
    model = model_of(ask.model)
    used = profile_of(ask)
    precision, notes = precision_of(model, ask, used)
    systems = _systems(ask)
    vary = {name: values_of(name, given) for name, given in ask.vary.items()}
    if "system" not in vary and len(systems) > 1:
        vary["system"] = tuple(systems)
    work = Workload(batch=ask.batch, prompt=ask.prompt, output=ask.output)
    if ask.layouts is not None:
        first = serving_space(model, systems, most=ask.layouts, used=used, precision=precision)
        listed = first.layouts
        vary.setdefault("batch", BATCHES)
        given = [name for name in DEGREES if name in vary]
        if given:
            raise InputError(
                f"vary.{given[0]}: layouts={ask.layouts} already tries every degree; leave one of them out"
            )
    else:
        listed = ()
    layout, more = layout_of(ask, model, used)
    points = math.prod(len(values) for values in vary.values()) * max(len(listed), 1)
    if points > MOST_ROWS:
        raise InputError(
            f"vary: {points:,} points are more than {MOST_ROWS:,} at once; vary less, or use rooflab.sweep.run"
        )
    priced = _priced(ask, used)
    asked = space(
        model, on=systems, vary=vary, layouts=listed, precision=precision, used=used, layout=layout, work=work, **priced
    )
    return asked, [*model.notes, *notes, *more, _price_note(priced, used)]


def answer_sweep(
    ask: SweepAsk,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    **how: Any,
) -> SweepReport:
    """A sweep; `how` are workers, cluster, journal and chunk of `sweep.run`."""
    asked, notes = space_of(ask)
    return sweep_report(ask, asked, run(asked, figures=figures_of(ask), progress=progress, cancel=cancel, **how), notes)


def figures_of(ask: SweepAsk) -> tuple[str, ...]:
    """The figures a sweep computes: the usual ones, and whatever else its columns name."""
    return (*USUAL, *(name for name in FIGURES if name not in USUAL and name in (ask.columns or ())))


def sweep_report(
    ask: SweepAsk, asked: Space, frame: Frame, notes: Sequence[str], *, named: bool = False
) -> SweepReport:
    """The report of an evaluated space; `named` brings only the rows that the report names."""
    if not len(frame):
        raise InputError("sweep: was stopped before a point was evaluated")
    goals = ask.pareto or [f"{goal}:{name}" for name, goal in OBJECTIVES.items()]
    front = frame.pareto(goals, *ask.where)
    positions = list(front) if named else kept_rows(frame, ask.rows, front)
    best = {item: frame.best(item, where=ask.where) for item in goals}
    kept = set(positions)
    extra = [row for row in best.values() if row is not None and row not in kept]
    positions += list(dict.fromkeys(extra))
    place = {row: i for i, row in enumerate(positions)}
    return SweepReport(
        **_header(ask, SweepReport, [*notes, *frame.notes]),
        name=asked.model.name,
        systems=list(asked.systems),
        profile=next(iter(asked.profiles)),
        key=asked.digest(),
        totals=frame.totals,
        reasons=reasons_of(frame),
        table=table_of(frame, positions, ask.columns),
        pareto=[place[row] for row in front],
        best={item: None if row is None else place[row] for item, row in best.items()},
    )


def _limit(value: Limit, name: str) -> float | None:
    """A time in seconds from text or a number."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
        if not (math.isfinite(number) and number > 0):
            raise InputError(f"{name}: {shown(value)} must be a time above 0")
        return number
    return parse(value, "s", name, positive=True)


def _used(ask: Any) -> Any:
    """The profile of a question that has no layout."""
    placed = _Placed(
        model=ask.model, on=ask.on, weights=ask.weights, kv=ask.kv, profile=ask.profile, switches=ask.switches,
        reserve=ask.reserve,
    )  # fmt: skip
    return profile_of(placed)


def _priced(ask: Any, used: Profile) -> dict[str, Any]:
    """Prices and engine of a question about many points."""
    return {"prices": prices_of_many(ask, used, "sweeps"), "engine": ask.engine}


def _price_note(prices: Mapping[str, str], used: Profile) -> str:
    if prices["prices"] == "fitted":
        return f"prices fitted on kernels of {prices['engine']}"
    share = (
        f"{float(used.compute_efficiency):.0%} of peak compute, {float(used.memory_efficiency):.0%} of peak bandwidth"
    )
    return f"profile {used.name}: {share}"


def _degrees(layout: Layout) -> dict[str, int]:
    return {name: int(getattr(layout, name)) for name in ("tp", "pp", "cp", "dp", "ep", "attention_dp")}


def answer_suggest(ask: SuggestAsk) -> SuggestReport:
    """Ranked layouts with reasons and commands."""
    model, used = model_of(ask.model), _used(ask)
    precision, notes = precision_of(model, ask, used)
    system = system_of(ask.on, ask.changes)
    found = suggest(
        model, system=system, users=ask.users, prompt=ask.prompt, output=ask.output, ttft=_limit(ask.ttft, "ttft"),
        tpot=_limit(ask.tpot, "tpot"), engines=rules.engines(), name=_served(ask.model, model), goal=ask.goal,
        weights=ask.weights if isinstance(ask.weights, str) else None, kv=ask.kv, precision=precision, used=used,
        count=ask.count, **_priced(ask, used),
    )  # fmt: skip
    notes = [
        *model.notes,
        *notes,
        _price_note(_priced(ask, used), used),
        "TTFT is of a prompt that arrives alone; queueing and percentiles are for the simulator",
    ]
    if not found.layouts:
        notes.append(f"nothing fits {system.name}: fit says what is over; take more devices or narrower formats")
    elif not found.limits_met:
        notes.append("no layout meets the limits; the first misses them least")
    layouts = [_suggested(one) for one in found.layouts]
    return SuggestReport(
        **_header(ask, SuggestReport, notes),
        name=model.name,
        system=system.name,
        profile=used.name,
        limits_met=found.limits_met,
        tightest=found.tightest,
        tried=len(found.frame),
        fitting=int(found.frame.totals["feasible"]),
        reasons=reasons_of(found.frame),
        layouts=layouts,
    )


def _suggested(one: Any) -> SuggestedReport:
    """A suggestion as plain data."""
    tpot = one.tpot if one.tpot == one.tpot else None
    return SuggestedReport(
        layout=_degrees(one.layout),
        tokens_per_second_per_user=None if tpot is None else 1.0 / tpot,
        tpot=tpot,
        tpot_loaded=None if tpot is None else one.tpot_loaded,
        cost_per_million_tokens=one.cost,
        why=list(one.why),
        **{
            name: getattr(one, name)
            for name in (
                "devices", "batch", "ttft", "ttft_together", "e2e", "output_throughput", "throughput_per_device",
                "memory_share", "free", "meets", "commands", "refused",
            )
        },
    )  # fmt: skip


def _served(source: Source, model: Model) -> str:
    """What an engine is told to serve: a catalog name as its hub id, another name as given, else the model's own."""
    name = catalog.hub_id(source) if isinstance(source, str) else model.name
    return name if re.fullmatch(r"[\w./:@+-]+", name) else "'" + name.replace("'", "'\\''") + "'"


def answer_plan(
    ask: PlanAsk, *, progress: Callable[[int, int], None] | None = None, cancel: Callable[[], bool] | None = None
) -> PlanReport:
    """Devices for users, context and limits, by the closed form, by the engine's layouts, and under simulated traffic.

    `progress` is told (runs played, runs expected); `cancel` returning True ends the playing.
    """
    model, used = model_of(ask.model), _used(ask)
    precision, notes = precision_of(model, ask, used)
    system = system_of(ask.on, ask.changes)
    tpot = _limit(ask.tpot, "tpot")
    if tpot is None:
        raise InputError("tpot: give a limit on the time per token, for example '30 ms'")
    if ask.output >= ask.context:
        raise InputError(f"output: {ask.output} must be below context ({ask.context}), which holds the prompt as well")
    reserve = float(used.reserve) if ask.reserve is not None or not ask.layers_only else 0.0
    share = reserve if reserve < 1 else reserve / float(system.device.memory)
    found = plan.capacity(
        model, system, users=ask.users, context=ask.context, tpot=tpot, precision=precision, reserve=share,
        layers_only=ask.layers_only, rates=ask.rates,
        largest=min(ask.largest, system.devices) if ask.rates == "replica" else None,
    )  # fmt: skip
    fleets = plan.fleet(
        model, system, users=ask.users, prompt=ask.context - ask.output, output=ask.output, tpot=tpot,
        ttft=_limit(ask.ttft, "ttft"), precision=precision, used=used, most=min(ask.largest, system.devices),
        **_priced(ask, used),
    )  # fmt: skip
    played, said = sizing.simulated(ask, fleets, tpot, _limit(ask.ttft, "ttft"), progress, cancel)
    book = {row["axis"]: row for row in rules.rules("playbook")["axes"]}
    axes = [
        AxisReport(
            name=axis.name, symbols=axis.symbols, meaning=axis.meaning, value=axis.value, says=axis.says,
            first=book[axis.name]["first"], then=book[axis.name]["then"],
        )
        for axis in found.axes
    ]  # fmt: skip
    same = (
        "binding", "devices_per_replica", "replicas", "total", "batch_at_limit", "batch_in_memory", "users_per_replica", "step",
        "step_alone",
        "tightest", "weights", "kv_per_user", "kv_per_replica",
    )  # fmt: skip
    return PlanReport(
        **_header(ask, PlanReport, [*model.notes, *notes, *found.notes, *said, _price_note(_priced(ask, used), used)]),
        name=model.name,
        system=system.name,
        profile=used.name,
        feasible=found.replicas is not None,
        axes=axes,
        **{name: getattr(found, name) for name in same},
        price=found.fleet_price,
        cost_per_million_tokens=found.cost_per_million,
        fleets=[_fleet(one) for one in fleets],
        simulated=played,
        targets=list(rules.rules("targets")["targets"]),
        templates=list(rules.rules("deployment")["templates"]),
    )


def _fleet(one: plan.Sized) -> FleetReport:
    names = (
        "devices_per_replica",
        "replicas",
        "total",
        "batch_at_limit",
        "users_per_replica",
        "ttft",
        "tpot",
        "throughput",
    )
    return FleetReport(
        layout=_degrees(one.layout),
        price=one.fleet_price,
        cost_per_million_tokens=one.cost_per_million,
        memory_share=one.memory_share,
        **{name: getattr(one, name) for name in names},
    )


def study_of(ask: ShardedAsk) -> tuple[grid.Study, list[str]]:
    """What a sharded question is about, with notes."""
    model = model_of(ask.model)
    precision, notes = precision_of(model, ask)
    asked = sweep.study(
        model, system=system_of(ask.on, ask.changes), context=ask.context, batch=ask.batch, mode=ask.mode,
        scope=ask.scope, precision=precision, outside=ask.outside, ep=ask.ep, reserve=reserve_of(ask.reserve or 0.0),
    )  # fmt: skip
    return asked, [*model.notes, *notes]


def answer_sharded(ask: ShardedAsk) -> ShardedReport:
    """The sharded sweep with its frontier, its smallest fit and five sensitivities."""
    asked, notes = study_of(ask)
    return sharded_report(ask, asked, grid.sweep_layouts(asked, ask.axes), notes)


def sharded_report(
    ask: ShardedAsk, asked: grid.Study, frame: Frame, notes: Sequence[str], *, named: bool = False
) -> ShardedReport:
    """The report of a sharded sweep; `named` brings only the rows that the report names."""
    front, fastest, smallest = sweep.pareto(frame), sweep.fastest(frame), sweep.smallest_fit(frame)
    top = sweep.top_by_memory(frame)
    shown = [at for at in (*front, *top, fastest, smallest) if at is not None]
    asked_for = [] if named else kept_rows(frame, ask.rows, front)
    positions = list(dict.fromkeys([*asked_for, *shown]))
    place = {row: i for i, row in enumerate(positions)}
    return ShardedReport(
        **_header(ask, ShardedReport, [*notes, *frame.notes]),
        name=asked.model.name,
        system=asked.system.name,
        totals=frame.totals,
        reasons=reasons_of(frame),
        table=table_of(frame, positions, ask.columns),
        pareto=[place[row] for row in front],
        fastest=None if fastest is None else place[fastest],
        smallest=None if smallest is None else place[smallest],
        top_by_memory=[place[row] for row in top],
        sensitivities=_sensitivities(asked, frame, ask.around, fastest),
    )


def _sensitivities(
    asked: grid.Study, frame: Frame, around: Mapping[str, Any] | None, fastest: int | None
) -> dict[str, Table]:
    if around is None and fastest is None:
        return {}
    for name in around or {}:
        if name not in grid.AXES:
            raise InputError(f"around.{shown(name)[1:-1]}: is no knob of a layout; use {', '.join(grid.AXES)}")
    row = dict(around) if around is not None else frame.row(fastest or 0)
    for name, values in grid.AXES.items():
        row.setdefault(name, values[0])
        whole = isinstance(row[name], int) and not isinstance(row[name], bool) and row[name] >= 1
        if (row[name] not in values) if isinstance(values[0], str) else not whole:
            raise InputError(f"around.{name}: {shown(row[name])} is not one of {', '.join(map(str, values))}")
    return {name: table_of(each) for name, each in sweep.sensitivities(asked, row).items()}


def scenario_of(ask: RulesAsk) -> tuple[Scenario, list[str]]:
    """The scenario of a rules question; a layout that the model refuses is an InputError with its reasons."""
    model, used = model_of(ask.model), profile_of(ask)
    precision, notes = precision_of(model, ask, used)
    system = system_of(ask.on, ask.changes)
    layout, more = cut_of(ask, model, system, used)
    work, about = workload_of(ask, model)
    asked = Scenario(
        model=model, precision=precision, layout=layout, system=system, profile=used, work=work,
        ttft=_limit(ask.ttft, "ttft"), tpot=_limit(ask.tpot, "tpot"),
        pricer=lambda cut: pricer_of(ask, system, cut, used)[0],
    )  # fmt: skip
    return asked, [*model.notes, *notes, *more, *about]


def answer_rules(ask: RulesAsk) -> RulesReport:
    """Checks with numbers, hints with effects, what is held twice, shapes, symbols and the guidance behind them."""
    asked, notes = scenario_of(ask)
    model, precision, layout = asked.model, asked.precision, asked.layout
    context, batch = float(asked.work.context), float(asked.work.batch)
    held = plan.copies(model, precision, layout, context=context, batch=batch)
    priced = asked.pricer(layout) if asked.pricer else None
    guidance = {name: rules.rules(name) for name in rules.names() if name not in ("checks", "engines")}
    return RulesReport(
        **_header(ask, RulesReport, [*notes, guidance["guidance"]["notice"]]),
        name=model.name,
        system=asked.system.name,
        profile=asked.profile.name,
        checks=[CheckReport(**msgspec.structs.asdict(one)) for one in plan.check(asked, rules.rules("checks")["checks"])],
        hints=[HintReport(**msgspec.structs.asdict(one)) for one in plan.hints(asked)],
        copies=[msgspec.to_builtins(one) for one in held],
        waste=math.fsum(one.waste for one in held),
        ranks=[msgspec.to_builtins(one) for one in plan.ranks(
            model, precision, layout, context=context, batch=batch, workspace=float(asked.estimate().memory.workspace)
        )],
        shapes=[msgspec.to_builtins(one) for one in plan.shapes(
            model, precision, layout, context=context, batch=batch, phase=ask.phase
        )],
        glossary=[msgspec.to_builtins(one) for one in plan.glossary(asked)],
        guidance=guidance,
        sources=sources_of(asked.system, priced),
        measured=measured(asked.system),
    )  # fmt: skip


ANSWERS: dict[type, Callable[[Any], Any]] = {
    SweepAsk: answer_sweep,
    SuggestAsk: answer_suggest,
    PlanAsk: answer_plan,
    ShardedAsk: answer_sharded,
    CodesignAsk: answer_codesign,
    RulesAsk: answer_rules,
}
