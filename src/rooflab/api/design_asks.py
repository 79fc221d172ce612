"""The contract of design questions: many layouts and machines, suggestions, plans and rules."""
# ruff: noqa: RUF012  (msgspec copies a default list or table for every record)

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from rooflab.api.asks import Count, Degree, Source, _Ask, _Loaded, _Placed, _Report
from rooflab.units import Bytes, Ratio, RequestsPerSecond, Seconds, TokensPerSecond, Usd, UsdPerSecond

Values = list[Any] | str
"""Values of a field: a list, or text such as "1,2,4,8", "1..512" (doubling) or "8..64+8" (in steps)."""
Limit = str | float | None
"""A time with its unit, or seconds."""


class SweepAsk(_Placed, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sweep"):
    """Every combination of some fields' values, its frontier and the best under conditions."""

    also_on: list[Source] = []
    """Further systems, compared with the first."""
    vary: dict[str, Values] = {}
    """Field -> values; layout degrees, placements, batch, prompt, output, formats, hardware figures."""
    layouts: Degree | None = None
    """Instead of degrees to vary: every serving layout of at most this many devices, at batch 1 to 512 unless it varies."""
    batch: Count = 1
    prompt: Count = 2048  # count
    output: Count = 256
    where: list[str] = []
    """Conditions on the result: "ttft < 1 s", "devices <= 8"."""
    pareto: list[str] | None = None
    """Objectives, "max:" or "min:" in front; None takes tokens/s for a user and tokens/s per device."""
    rows: Literal["all", "feasible", "pareto"] = "all"
    """Which rows come back."""
    columns: list[str] | None = None
    """Columns of the table that come back; None brings all."""


class SuggestAsk(_Ask, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="suggest"):
    """Layouts to serve users with, best first, and the commands that start them."""

    on: Source
    changes: dict[str, Any] = {}
    users: Count = 1
    prompt: Count = 1024  # count
    output: Count = 256
    ttft: Limit = None
    tpot: Limit = None
    goal: Literal["cost", "latency", "devices"] = "cost"
    count: Degree = 5
    profile: str = "operator"
    prices: Literal["roofline", "fitted"] | None = None
    engine: Literal["vllm", "sglang", "trtllm"] = "vllm"
    """Engine whose kernels fitted prices are of."""
    switches: dict[str, Any] = {}
    reserve: str | float | None = None


class PlanAsk(_Ask, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="plan"):
    """How many devices a service needs."""

    on: Source
    changes: dict[str, Any] = {}
    users: Count = 100
    context: Count = 8192
    """Tokens each user's sequence holds: prompt and answer."""
    output: Count = 256
    """Of these, the answer's."""
    tpot: Limit = "30 ms"
    ttft: Limit = None
    rates: Literal["replica", "device"] = "replica"
    """Rates of a step: of a whole replica, or of one device as the reference assumes."""
    layers_only: bool = False
    """Leaves embedding and output head out, as the reference does."""
    largest: Degree = 64
    """Devices of one replica that are tried at most."""
    percentile: Literal["p50", "p90", "p95", "p99"] | None = None
    """Statistic that the limits are held to under simulated traffic; None keeps to the mean of the closed form."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=1e7)] | None = None
    """Requests per second of that traffic; None makes it of the users and the limits."""
    requests: Annotated[int, msgspec.Meta(ge=100, le=10**6)] = 1000  # count
    """Requests of each run."""
    seeds: Annotated[int, msgspec.Meta(ge=2, le=30)] = 3
    """Runs of each candidate, with other random numbers."""
    divide: bool = False
    """Whether replicas are divided into prefill and decode as well."""
    link: str | float | None = None
    """Bytes per second between those: "50 GB/s"; None takes the system's outermost link."""
    profile: str = "operator"
    prices: Literal["roofline", "fitted"] | None = None
    engine: Literal["vllm", "sglang", "trtllm"] = "vllm"
    """Engine whose kernels fitted prices are of."""
    switches: dict[str, Any] = {}
    reserve: str | float | None = None


class ShardedAsk(_Ask, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sharded"):
    """Every sharded layout of a model over a hierarchy of devices, one step each."""

    on: Source = "sip"
    changes: dict[str, Any] = {}
    context: Count = 1048576  # count
    batch: Count = 1
    mode: Literal["decode", "prefill"] = "decode"
    scope: Literal["full", "attention", "ffn"] = "full"
    ep: Degree = 1
    outside: bool = False
    """Also embedding, output head and sends between pipeline stages, which the reference leaves out."""
    reserve: str | float | None = None
    """Memory of a device that no layout may use: 10%, or 2 GB; None keeps nothing, as the reference does."""
    axes: dict[str, list[Any]] = {}
    around: dict[str, Any] | None = None
    """A layout whose knobs are varied one at a time; None takes the fastest."""
    rows: Literal["all", "feasible", "distinct", "pareto"] = "feasible"
    columns: list[str] | None = None
    """Columns of the table that come back; None brings all."""


class CodesignAsk(_Ask, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="codesign"):
    """Machines and layouts chosen together: latency against cost."""

    on: Source = "sip"
    changes: dict[str, Any] = {}
    context: Count = 131072
    batch: Count = 1
    mode: Literal["decode", "prefill"] = "decode"
    scope: Literal["full", "attention", "ffn"] = "full"
    depth: Literal["two_stage", "balanced", "coarse"] = "balanced"
    cost_weights: dict[str, float] = {}
    """Weight of each knob in the cost; 1 where it is not named."""
    refit: bool = True
    """Whether the layout is chosen anew when a knob is doubled."""
    outside: bool = False


class RulesAsk(_Loaded, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rules"):
    """Rules, hints, copies, shapes and symbols evaluated on a scenario, and the guidance behind them."""

    ttft: Limit = None
    tpot: Limit = None
    phase: Literal["decode", "prefill"] = "decode"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as columns; a missing number is null."""

    columns: dict[str, list[Any]]
    units: dict[str, str]
    feasible: list[bool]
    reason: list[str]


class SweepReport(_Report, frozen=True, kw_only=True, tag="sweep"):
    name: str
    systems: list[str]
    profile: str
    key: str
    """Of everything the answer depends on."""
    totals: dict[str, float]
    reasons: dict[str, int]
    """Why rows are refused, and how many."""
    table: Table
    pareto: list[int]
    """Positions in the table, along the frontier."""
    best: dict[str, int | None]
    """Position of the best row per objective, under the conditions."""


class SuggestedReport(msgspec.Struct, frozen=True, kw_only=True):
    """One layout to serve with."""

    layout: dict[str, int]
    devices: int
    batch: int
    ttft: Seconds
    ttft_together: Seconds
    tpot: Seconds | None
    tpot_loaded: Seconds | None
    e2e: Seconds
    tokens_per_second_per_user: TokensPerSecond | None
    output_throughput: TokensPerSecond
    throughput_per_device: TokensPerSecond
    cost_per_million_tokens: Usd | None
    memory_share: Ratio
    free: Bytes
    meets: bool
    why: list[str]
    commands: dict[str, str]
    refused: dict[str, str]


class SuggestReport(_Report, frozen=True, kw_only=True, tag="suggest"):
    name: str
    system: str
    profile: str
    limits_met: bool
    tightest: dict[str, Seconds]
    """The least TTFT and TPOT any layout reaches for these users."""
    tried: int
    fitting: int
    reasons: dict[str, int]
    layouts: list[SuggestedReport]


class AxisReport(msgspec.Struct, frozen=True, kw_only=True):
    """One of the plan's axes."""

    name: str
    symbols: str
    meaning: str
    value: int
    says: str
    first: str
    then: str


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet of one layout, by the engine."""

    layout: dict[str, int]
    devices_per_replica: int
    replicas: int
    total: int
    batch_at_limit: int
    users_per_replica: int
    ttft: Seconds
    tpot: Seconds
    throughput: TokensPerSecond
    price: UsdPerSecond | None
    cost_per_million_tokens: Usd | None
    memory_share: Ratio


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    """A number of replicas under traffic: the statistic over the seeds, with half its 95 % interval."""

    replicas: int
    split: tuple[int, int] | None
    """Prefill and decode."""
    within: bool
    """Whether the means over the seeds are within the limits."""
    holds: bool | None
    """True and False are sure at 95 %; None is open."""
    ttft: Seconds | None
    """None under overload."""
    ttft_interval: Seconds | None
    tpot: Seconds | None
    tpot_interval: Seconds | None
    attainment: Ratio | None
    """Share of the requests within every limit."""


class SimulatedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest fleet that holds a percentile under traffic."""

    layout: dict[str, int]
    percentile: str
    rate: RequestsPerSecond
    seeds: int
    devices_per_replica: int
    replicas: int
    total: int
    """Devices."""
    least: int
    """Fewer replicas than these surely miss."""
    sure: int | None
    """As many replicas surely hold; None where not even twice as many do."""
    holds: bool | None
    chosen: TrialReport
    divided: TrialReport | None
    """The fewest that hold when prompts and answers have replicas of their own; None where none does, or was not asked for."""
    tried: list[TrialReport]


class PlanReport(_Report, frozen=True, kw_only=True, tag="plan"):
    name: str
    system: str
    profile: str
    feasible: bool
    axes: list[AxisReport]
    binding: str | None
    devices_per_replica: int
    replicas: int | None
    total: int | None
    batch_at_limit: int
    batch_in_memory: int
    """Sequences whose caches fit beside the weights of a replica."""
    users_per_replica: int
    step: Seconds | None
    step_alone: Seconds
    tightest: Seconds
    """The least limit on the time per token that can be met."""
    weights: Bytes
    kv_per_user: Bytes
    kv_per_replica: Bytes
    price: UsdPerSecond | None
    """Of the whole fleet."""
    cost_per_million_tokens: Usd | None
    fleets: list[FleetReport]
    """The smallest fleets by the engine's layouts; empty where none meets the limits."""
    simulated: SimulatedReport | None
    """What holds the percentile; None where none was asked for, or nothing does."""
    targets: list[dict[str, Any]]
    templates: list[dict[str, Any]]


class ShardedReport(_Report, frozen=True, kw_only=True, tag="sharded"):
    name: str
    system: str
    totals: dict[str, float]
    reasons: dict[str, int]
    table: Table
    pareto: list[int]
    fastest: int | None
    smallest: int | None
    """The smallest that fits: fewest devices, then least memory, then latency."""
    top_by_memory: list[int]
    sensitivities: dict[str, Table]


class CodesignReport(_Report, frozen=True, kw_only=True, tag="codesign"):
    name: str
    system: str
    totals: dict[str, float]
    machines: Table
    pareto: list[int]
    baseline: int | None
    doublings: list[dict[str, Any]]


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """One check."""

    name: str
    title: str
    passed: bool | None
    value: float | None
    limit: float | None
    unit: str
    says: str
    fix: str


class HintReport(msgspec.Struct, frozen=True, kw_only=True):
    """One hint."""

    category: str
    severity: str
    message: str
    change: dict[str, Any]
    time: float | None  # s
    memory: float | None  # byte


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """A source behind the machine's figures."""

    key: str
    title: str
    gives: list[str]
    """What of this machine it gives."""
    date: str
    licence: str
    notes: str
    url: str
    used_by: list[str]
    """Other devices of the catalog that rest on it."""


class RulesReport(_Report, frozen=True, kw_only=True, tag="rules"):
    name: str
    system: str
    profile: str
    checks: list[CheckReport]
    hints: list[HintReport]
    copies: list[dict[str, Any]]
    waste: Bytes
    """Bytes of copies on each device."""
    ranks: list[dict[str, Any]]
    shapes: list[dict[str, Any]]
    glossary: list[dict[str, Any]]
    guidance: dict[str, Any]
    sources: list[SourceReport]
    measured: Literal["own", "carried", "none"]
    """Whether kernels of this device were measured: its own, another's that carry over, or none; whatever prices it now."""


Asks = SweepAsk | SuggestAsk | PlanAsk | ShardedAsk | CodesignAsk | RulesAsk
Reports = SweepReport | SuggestReport | PlanReport | ShardedReport | CodesignReport | RulesReport
