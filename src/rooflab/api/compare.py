"""Scenarios side by side: every quantity of each, which is best, and which switch makes two profiles differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from rooflab import placement
from rooflab.api.answers import answer_estimate, header
from rooflab.api.asks import EstimateAsk, EstimateReport, StepDetail
from rooflab.api.compare_asks import (
    MOST_CASES,
    Case,
    ColumnReport,
    CompareAsk,
    CompareReport,
    RowReport,
    StageReport,
    SwitchReport,
)
from rooflab.api.findings import best, finding
from rooflab.api.resolve import Setting, setting_of
from rooflab.api.snapshots import digest_of, moved, plain, scenario_ask
from rooflab.model import MoE
from rooflab.price import rates_of
from rooflab.profiles import Profile, profile
from rooflab.units import InputError
from rooflab.work import FORMATS


class _Column(msgspec.Struct, frozen=True, kw_only=True):
    """A case that was evaluated, or why it could not be."""

    case: Case
    ask: EstimateAsk | None = None
    setting: Setting | None = None
    report: EstimateReport | None = None
    error: str = ""


def answer_compare(ask: CompareAsk) -> CompareReport:
    """Scenarios next to one another (D-132, D-133), or one under several profiles (E-26)."""
    columns = [_evaluated(case) for case in _cases(ask)]
    switches = _switches(columns)
    return CompareReport(
        **header(ask, CompareReport, []),
        finding=finding([(each.case.name, each.report, each.error) for each in columns], switches, bool(ask.profiles)),
        columns=[_head(column) for column in columns],
        rows=[row for each in _ROWS if (row := _row(columns, *each)) is not None] + _links(columns),
        stages=[stage for phase in ("prefill", "decode") for stage in _stages(columns, phase)],
        switches=switches,
    )


def _cases(ask: CompareAsk) -> list[Case]:
    """The columns that are asked for: each case, or each under each profile."""
    if not ask.profiles:
        return ask.cases
    for name in ask.profiles:
        profile(name)  # refuses one that there is not
    found = []
    for case in ask.cases:
        for name in ask.profiles:
            changed = {**case.scenario, "profile": name, "switches": {}}
            if name != "operator":
                changed.pop("prices", None)  # those of kernels, which coarser profiles do not know
            title = name if len(ask.cases) == 1 else f"{case.name}, {name}"
            found.append(Case(name=title, scenario=changed))
    if len(found) > MOST_CASES:
        raise InputError(f"profiles: {len(found)} columns are too many to read side by side; at most {MOST_CASES}")
    return found


def _evaluated(case: Case) -> _Column:
    """A case with its figures; a refusal stands in its column and leaves the others alone."""
    try:
        ask = scenario_ask(case.scenario, detail=True)
    except InputError as problem:
        return _Column(case=case, error=str(problem))
    try:
        return _Column(case=case, ask=ask, setting=setting_of(ask), report=answer_estimate(ask))
    except InputError as problem:
        return _Column(case=case, ask=ask, error=str(problem))
    except (OverflowError, ZeroDivisionError):
        return _Column(case=case, ask=ask, error="the numbers are too large or too small to compute with")


def _head(column: _Column) -> ColumnReport:
    report = column.report
    return ColumnReport(
        name=column.case.name,
        scenario=column.case.scenario if column.ask is None else plain(column.ask, whole=True),
        fits=None if report is None else report.fits,
        error=column.error,
        version=column.case.version,
        moved=[] if report is None else moved(column.case.digest, digest_of(report)),
        notes=[] if report is None else report.notes,
    )


# ------------------------------------------------------------------------------------------------ quantities


def _layout(field: str) -> Callable[[_Column], Any]:
    """A field of the layout as it is laid out; of a refused one as it was asked for."""
    return lambda column: getattr(column.setting.layout if column.setting else column.ask, field, None)


def _asked(field: str) -> Callable[[_Column], Any]:
    return lambda column: getattr(column.ask, field) if column.ask else None


def _reported(field: str) -> Callable[[_Column], Any]:
    return lambda column: getattr(column.report, field) if column.report else None


def _memory(field: str) -> Callable[[_Column], Any]:
    return lambda column: getattr(column.report.memory, field) if column.report else None


def _device(field: str) -> Callable[[_Column], Any]:
    return lambda column: getattr(column.setting.system.device, field) if column.setting else None


def _switch(field: str) -> Callable[[_Column], Any]:
    return lambda column: getattr(column.setting.profile, field) if column.setting else None


def _format(field: str) -> Callable[[_Column], Any]:
    return lambda column: getattr(column.setting.precision, field) if column.setting else None


def _experts(column: _Column) -> Any:
    """The format of the experts, in models that have some."""
    if column.setting is None or not any(isinstance(block.ffn, MoE) for block in column.setting.model.blocks):
        return None
    return column.setting.precision.expert


def _model(of: Callable[[Any], Any]) -> Callable[[_Column], Any]:
    return lambda column: of(column.setting.model) if column.setting else None


def _step(of: Callable[[StepDetail], Any], phase: str = "decode") -> Callable[[_Column], Any]:
    def read(column: _Column) -> Any:
        step = getattr(column.report, f"{phase}_step") if column.report else None
        return of(step) if step else None

    return read


def _cost(key: str) -> Callable[[_Column], Any]:
    def read(column: _Column) -> Any:
        return (column.report.cost_per_million_tokens or {}).get(key) if column.report else None

    return read


def _peak(column: _Column) -> Any:
    """The device's rate in the format that the feed-forward's weights run at."""
    if column.setting is None:
        return None
    try:
        return column.setting.system.device.rate(FORMATS[column.setting.precision.ffn].rate)
    except InputError:
        return None


def _prices(column: _Column) -> Any:
    if column.setting is None or column.ask is None:
        return None
    return "roofline" if column.setting.pricer is None else column.ask.prices or "fitted"


def _per_layer(*scopes: str) -> Callable[[_Column], Any]:
    """Time of the halves of a layer in a decode step, with their norms and exchanges (D-082)."""

    def of(step: StepDetail) -> float | None:
        times = [each.per_layer for each in step.scopes if each.scope in scopes and each.per_layer is not None]
        return math.fsum(times) if times else None

    return _step(of)


def _units(of: Callable[[Any, Any], Any], level: int) -> Callable[[_Column], Any]:
    """Units of a level that a layout occupies, in machines that have that level."""

    def read(column: _Column) -> Any:
        if column.setting is None or len(column.setting.system.links) <= level:
            return None
        return int(of(column.setting.system, column.setting.layout))

    return read


def _launch(column: _Column) -> Any:
    if column.setting is None:
        return None
    return rates_of(column.setting.profile, column.setting.system.device.launch_time)["mid"].launch_time


_W, _P, _L, _F, _H = "Workload", "Number formats", "Layout", "Machines taken", "Hardware"
_M, _T, _S, _X = "Memory of one device", "Latency", "Serving", "Method"
_ROWS: tuple[tuple[str, str, str, str, str, Callable[[_Column], Any]], ...] = (
    (_W, "model", "Model", "", "none", _model(lambda m: m.name)),
    (_W, "params", "Parameters", "1", "none", _model(lambda m: m.params())),
    (_W, "active_params", "Active parameters", "1", "none", _model(lambda m: m.active_params())),
    (_W, "layers", "Layers", "1", "none", _model(lambda m: m.layers)),
    (_W, "prompt", "Prompt", "token", "none", _asked("prompt")),
    (_W, "output", "Answer", "token", "none", _asked("output")),
    (_W, "batch", "Batch", "1", "none", _asked("batch")),
    (_W, "cached", "Cached prompt", "token", "none", _asked("cached")),
    (_W, "concurrency", "Requests in flight", "1", "none", _asked("concurrency")),
    (_P, "attention", "Attention weights", "", "none", _format("attention")),
    (_P, "ffn", "Feed-forward weights", "", "none", _format("ffn")),
    (_P, "expert", "Expert weights", "", "none", _experts),
    (_P, "kv_format", "KV cache", "", "none", _format("kv")),
    (_P, "activation", "Activations", "", "none", _format("activation")),
    *((_L, axis, f"{axis.upper()}", "1", "none", _layout(axis)) for axis in ("tp", "pp", "cp", "dp", "ep")),
    (_L, "attention_dp", "Attention DP", "1", "none", _layout("attention_dp")),
    (_L, "ep_mode", "Experts on", "", "none", _layout("ep_mode")),
    (_L, "kv_shard", "KV heads under TP", "", "none", _layout("kv_shard")),
    (_L, "ffn_scope", "Feed-forward over", "", "none", _layout("ffn_scope")),
    (_L, "ring", "Round the ring", "", "none", _layout("ring")),
    (_L, "tp_placement", "TP placed", "", "none", _layout("tp_placement")),
    (_L, "cp_placement", "CP placed", "", "none", _layout("cp_placement")),
    (_L, "microbatches", "Microbatches", "1", "none", _layout("microbatches")),
    (_F, "system", "System", "", "none", lambda c: c.setting.system.title or c.setting.system.name if c.setting else None),
    (_F, "devices", "Devices", "1", "down", _reported("devices")),
    (_F, "units", "Units of the first level", "1", "down", _units(placement.units_used, 0)),
    (_F, "groups", "Units of the second level", "1", "down", _units(placement.groups_used, 1)),
    (_H, "device", "Device", "", "none", _device("name")),
    (_H, "capacity", "Memory", "byte", "none", _device("memory")),
    (_H, "memory_bandwidth", "Memory bandwidth", "byte/s", "none", _device("memory_bandwidth")),
    (_H, "peak", "Peak rate in the weights' format", "FLOP/s", "none", _peak),
    (_H, "launch_time", "Launch of an operator", "s", "none", _launch),
    (_H, "power", "Power of a device", "W", "none", _device("power")),
    (_H, "price", "Price of a device", "USD/s", "none", lambda c: c.setting.system.device_price if c.setting else None),
    (_M, "weights", "Weights", "byte", "down", _memory("weights")),
    (_M, "kv", "KV cache", "byte", "down", _memory("kv")),
    (_M, "state", "Recurrent state", "byte", "down", _memory("state")),
    (_M, "workspace", "Workspace", "byte", "down", _memory("workspace")),
    (_M, "reserve", "Reserve", "byte", "none", _memory("reserve")),
    (_M, "used", "Used", "byte", "down", _memory("used")),
    (_M, "free", "Free", "byte", "up", _memory("free")),
    (_M, "over", "Over", "byte", "none", _memory("over")),
    (_T, "tpot", "TPOT", "s", "down", _reported("tpot")),
    (_T, "ttft", "TTFT, whole batch", "s", "down", _reported("ttft")),
    (_T, "e2e", "End to end", "s", "down", _reported("e2e")),
    (_T, "attention_layer", "Attention of a layer, decoding", "s", "down",
     _per_layer("attention")),
    (_T, "ffn_layer", "Feed-forward of a layer, decoding", "s", "down", _per_layer("ffn")),
    (_T, "layer", "One layer, decoding", "s", "down", _per_layer("attention", "ffn")),
    (_T, "decode_bound", "Decode waits for", "", "none", _step(lambda step: step.bound)),
    (_T, "prefill_bound", "Prefill waits for", "", "none", _step(lambda step: step.bound, "prefill")),
    (_T, "bandwidth_share", "Memory bandwidth in use", "share", "none", _step(lambda step: step.bandwidth_share)),
    (_S, "output_throughput", "Output throughput", "token/s", "up", _reported("output_throughput")),
    (_S, "decode_throughput", "While decoding", "token/s", "up", _reported("decode_throughput")),
    (_S, "throughput_per_device", "Throughput of a device", "token/s", "up", _reported("throughput_per_device")),
    (_S, "per_user", "Speed for each user", "token/s", "up", _reported("tokens_per_second_per_user")),
    (_S, "cost_input", "Cost of a million input tokens", "USD", "down", _cost("input")),
    (_S, "cost", "Cost of a million output tokens", "USD", "down", _cost("output")),
    (_S, "energy", "Energy of an output token", "J", "down", _reported("energy_per_token")),
    (_X, "profile", "Profile", "", "none", _reported("profile")),
    (_X, "prices", "Prices", "", "none", _prices),
    (_X, "basis", "Basis", "", "none", _reported("basis")),
    (_X, "compute_efficiency", "Share of the peak rate reached", "share", "none", _switch("compute_efficiency")),
    (_X, "memory_efficiency", "Share of the bandwidth reached", "share", "none", _switch("memory_efficiency")),
    (_X, "link_efficiency", "Share of the links reached", "share", "none", _switch("link_efficiency")),
)  # fmt: skip
"""Group, key, title, unit, better direction, and how it is read off a column. "share" is shown in percent."""


def _row(
    columns: list[_Column], group: str, key: str, title: str, unit: str, better: Any, read: Callable[[_Column], Any]
) -> RowReport | None:
    """One quantity of every column; nothing where no column has it."""
    values = [read(column) for column in columns]
    if not any(values):
        return None
    return RowReport(
        group=group,
        key=key,
        title=title,
        unit=unit,
        better=better,
        values=values,
        best=best(values, better),
        differs=_differs(columns, values),
    )


def _differs(columns: list[_Column], values: list[Any]) -> bool:
    """Whether two columns say different things; what a refused column cannot say is no difference."""
    said = [value for column, value in zip(columns, values, strict=True) if value is not None or not column.error]
    return any(value != said[0] for value in said)


def _links(columns: list[_Column]) -> list[RowReport]:
    """Bandwidth and latency of every level's links, innermost first."""
    most = max((len(column.setting.system.links) for column in columns if column.setting), default=0)
    found = []
    for level in range(most):
        for field, unit, title in (
            ("name", "", "Link"),
            ("bandwidth", "byte/s", "Bandwidth"),
            ("latency", "s", "Latency"),
        ):

            def read(column: _Column, field: str = field, level: int = level) -> Any:
                links = column.setting.system.links if column.setting else ()
                return getattr(links[level], field) if len(links) > level else None

            row = _row(columns, "Links", f"{field}_{level}", f"{title}, level {level + 1}", unit, "none", read)
            found += [row] if row else []
    return found


# ------------------------------------------------------------------------------------------------ operators


def _stages(columns: list[_Column], phase: Any) -> list[StageReport]:
    """Every operator of a step over the columns, slowest first (D-133)."""
    steps = [getattr(column.report, f"{phase}_step") if column.report else None for column in columns]
    found: dict[str, list[Any]] = {}
    for index, step in enumerate(steps):
        ops = [op for op in step.ops if op.time] if step else []
        for op in ops:
            found.setdefault(_stage_name(op.name, ops), [None] * len(columns))[index] = op
    rows = []
    for name, ops in sorted(found.items(), key=lambda item: -max(op.time for op in item[1] if op)):
        times = [op.time if op else None for op in ops]
        rows.append(
            StageReport(
                phase=phase,
                part=next(op.part for op in ops if op),
                name=name,
                times=times,
                bounds=[op.bound if op else None for op in ops],
                best=best(times, "down"),
                differs=_differs(columns, times),
            )
        )
    return rows


def _stage_name(name: str, ops: list[Any]) -> str:
    """An operator's name beside other models': that of experts says no layers, unless several kinds of layers have some."""
    base = name.partition("@")[0]
    alone = sum(op.name.partition("@")[0] == base for op in ops) == 1  # int
    return base if alone and base.startswith(_OF_EXPERTS) else name


_OF_EXPERTS = ("expert", "shared", "router", "permute", "dispatch", "combine")


# ------------------------------------------------------------------------------------------------ profiles

_MEANS = {
    "counting": "the grain of the counted operators",
    "group": "what the longer of compute and memory is taken over",
    "combine": "whether compute and memory overlap (max) or add up (sum)",
    "causal": "pairs of a prefill that are counted",
    "compute_efficiency": "share of the peak rate reached",
    "memory_efficiency": "share of the memory bandwidth reached",
    "link_efficiency": "share of the links' bandwidth reached",
    "launch_time": "what each operator costs beside its work",
    "pass_time": "what each forward pass costs beside its operators",
    "link_latency": "whether a message pays its link's latency",
    "collective": "how exchanges between devices are priced",
    "overlap": "whether communication hides under computation",
    "tiles": "whether matrices are rounded up to the device's tile",
    "vector_units": "whether elementwise work runs at the vector rate",
    "rate_by_dtype": "whether narrower formats raise the rate",
    "outside": "whether embedding and output head are counted",
    "metadata": "extra share of quantised weights",
    "tpot": "over which contexts a token's time is taken",
    "workspace": "what is kept for activations",
    "reserve": "memory kept for the runtime",
    "kv_shard": "KV heads under a larger TP",
    "ffn_scope": "axes that share the feed-forward",
    "cp_placement": "level that CP is laid on",
}
"""Every switch that can be changed, in words."""


def _switches(columns: list[_Column]) -> list[SwitchReport]:
    """Where two columns differ in their profile alone: each differing switch, and what it does by itself (E-26)."""
    settings = [column.setting for column in columns if column.setting and column.ask]
    if len(columns) != 2 or len(settings) != 2:
        return []
    asks = [column.ask for column in columns if column.ask]
    same = {"profile": "operator", "switches": {}, "reserve": None, "prices": None, "engine": "vllm"}
    if msgspec.structs.replace(asks[0], **same) != msgspec.structs.replace(asks[1], **same):
        return []
    one, two = (setting.profile for setting in settings)
    differing = [key for key in _MEANS if getattr(one, key) != getattr(two, key)]
    ask, rows = asks[0], []
    if settings[0].pricer is not None and settings[1].pricer is None:
        # A switch that gives a rate puts measured kernels aside, so that step is taken first and by itself.
        ask = msgspec.structs.replace(ask, prices="roofline")
        rows = [_effect("prices", asks[0], ask, _prices(columns[0]), "roofline", "")]
    before = answer_estimate(msgspec.structs.replace(ask, detail=False))
    memory = settings[0].system.device.memory
    return rows + [_switched(key, ask, one, two, memory, before) for key in differing]


def _switched(
    key: str, ask: EstimateAsk, one: Profile, two: Profile, memory: float, before: EstimateReport
) -> SwitchReport:
    """One switch as in the second profile, everything else as in the first."""
    first, second = getattr(one, key), getattr(two, key)
    changed: dict[str, Any] = {"switches": {**ask.switches, key: second}}
    unit = "s" if key.endswith("_time") else "share" if key in _SHARES else ""
    if key == "reserve":  # a share of the memory below one, bytes otherwise
        changed["reserve"], unit = None, "byte"
        first, second = (each * memory if each < 1.0 else each for each in (first, second))
    return _effect(key, ask, msgspec.structs.replace(ask, **changed), first, second, unit, before)


def _effect(
    key: str,
    ask: EstimateAsk,
    changed: EstimateAsk,
    first: Any,
    second: Any,
    unit: str,
    before: EstimateReport | None = None,
) -> SwitchReport:
    """What one change does to the first column's figures."""
    before = before or answer_estimate(msgspec.structs.replace(ask, detail=False))
    tried, error = None, ""
    try:
        tried = answer_estimate(msgspec.structs.replace(changed, detail=False))
    except InputError as problem:
        error = str(problem)
    return SwitchReport(
        key=key,
        means=_MEANS.get(key, _PRICES_MEAN),
        unit=unit,
        first=first,
        second=second,
        tpot=tried.tpot if tried else None,
        ttft=tried.ttft if tried else None,
        used=tried.memory.used if tried else None,
        tpot_before=before.tpot,
        ttft_before=before.ttft,
        used_before=before.memory.used,
        error=error,
    )


_PRICES_MEAN = "prices of measured kernels or shares of the peak; the rows below are without measured kernels"
_SHARES = ("compute_efficiency", "memory_efficiency", "link_efficiency", "metadata")
ANSWERS: dict[type, Callable[[Any], Any]] = {CompareAsk: answer_compare}
