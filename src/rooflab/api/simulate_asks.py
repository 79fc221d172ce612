"""The contract of serving questions: traffic, engine and study in, figures, curves and tables out."""
# ruff: noqa: RUF012  (msgspec copies a default list or table for every record)

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from rooflab.api.asks import Count, Degree, Factor, Length, Name, _Placed, _Report
from rooflab.units import Bytes, Joules, Ratio, RequestsPerSecond, Seconds, TokensPerSecond, Usd

Text = str | int
"""A length or its distribution: 1024, "128k", "uniform:100:2000", "lognormal:1024:0.8", "choice:128@0.7,2048@0.3"."""
Time = str | float
"""A time with its unit, or seconds."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
At = Literal["mean", "p50", "p90", "p95", "p99"]
PolicyName = Literal["chunked", "prefill_first", "static", "shortest_first", "priority"]
Column = Literal["request", "arrival", "admitted", "first", "finish", "prompt", "output", "ttft", "ttft_from_admission", "tpot",
                 "e2e", "queue_time", "preempted", "swapped", "cached", "replica"]  # fmt: skip


class SimulateAsk(_Placed, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="simulate"):
    """Requests served over time: what users wait, what the machines do, what it costs.

    Of rate, concurrency, load, trace and arrivals at most one is given; without any, 0.7 of what the engine can serve.
    """

    requests: Annotated[int, msgspec.Meta(ge=1, le=10**7)] = 1000
    """Requests to simulate; of a trace, the first so many."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=1e7)] | None = None
    """Mean arrivals per second, whatever the engine does."""
    concurrency: Degree | None = None
    """Users that each wait for their answer before they ask again."""
    load: Annotated[float, msgspec.Meta(gt=0, le=100)] | None = None
    """Arrivals as a share of the requests per second of an engine whose queue never empties."""
    trace: Name | None = None
    """A file of arrivals and lengths: .csv or .jsonl."""
    arrivals: list[tuple[float, int, int]] | None = None
    """The same inline: [seconds, prompt, output]."""
    trace_text: str | None = None
    """What such a file holds, where no file can be read."""
    speed: Factor = 1.0
    """Times as fast as the trace."""
    variation: Annotated[float, msgspec.Meta(ge=0, le=100)] = 1.0
    """Coefficient of variation of the gaps between arrivals: 1 is Poisson, 0 even."""
    prompt: Text = 1024  # count
    output: Text = 256
    turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """Turns of each conversation; every prompt then begins with all that was said before."""
    think: Time = 0.0
    """Mean pause before a user's next request."""
    spread: Share | None = None
    """Share by which users' answers of one length differ to either side, so that users do not stay in step; None is 0.05 where
    decoding goes on beside prompts, else 0."""
    policy: PolicyName = "chunked"
    paging: Literal["paged", "reserve"] = "paged"
    """Cache as tokens come, with preemption when it runs out; or prompt and answer reserved at admission."""
    slots: Degree = 256
    """Sequences at once, per replica (max_num_seqs)."""
    budget: Annotated[int, msgspec.Meta(ge=1, le=2**24)] = 8192
    """Tokens an iteration may compute (max_num_batched_tokens)."""
    block_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**16)] = 16
    kv_tokens: Count | None = None
    """Tokens of cache of a replica; None is what the memory holds."""
    chunked: bool = True
    """Whether prompts may be computed over several iterations."""
    ahead: bool = True
    """Whether an iteration is decided when the one before it starts (async_scheduling)."""
    caching: bool = False
    """Whether prefixes are found in the cache."""
    swap: str | float | None = None
    """Host memory per device that takes the cache of preempted requests: "64 GB"; None computes them again."""
    host_link: str | float | None = None
    """Bytes per second between a device and its host: "25 GB/s"; None takes the device's own figure."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 1
    routing: Literal["round_robin", "least_loaded", "prefix_aware", "length_tiers"] = "round_robin"
    disaggregate: str | None = None
    """Prefill and decode replicas: "1:3"."""
    link: str | float | None = None
    """Bytes per second between them, per replica: "50 GB/s"; None takes the system's outermost link."""
    draft_tokens: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    """Tokens drafted per step (speculative decoding, multi-token prediction)."""
    acceptance: Share = 0.7
    """Chance that a drafted token is accepted."""
    slo: str | dict[str, Time] | None = None
    """Limits: "ttft=500ms,tpot=50ms"; of ttft, tpot, e2e, queue_time."""
    at: At = "p95"
    """Statistic that limits are held to when a load or a number of replicas is looked for."""
    find: Literal["load", "replicas", "split"] | None = None
    """What to look for: the highest load, the fewest replicas, or the best prefill:decode division, within the limits."""
    loads: list[float] | str | None = None
    """A load curve: rates (users when concurrency is given), as a list or "2,4,8"."""
    replications: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    """Runs with other random numbers at each load of a curve."""
    policies: list[PolicyName] | str | None = None
    """Policies to compare on the same traffic: a list, "chunked,static" or "all"."""
    warmup: Length = 0
    """First requests that are left out of the times."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    saturated: bool = False
    """Whether the report says how many requests a second are served when all of them wait from the start."""
    timeline: Annotated[int, msgspec.Meta(ge=0, le=20_000)] = 0
    """Spans of time that the report's timeline has."""
    request: Length | None = None
    """Number of a request, from 0, whose way the report tells."""
    loop: Literal["auto", "python", "numba"] = "auto"
    """Loop of the engine: auto compiles long runs where Numba is installed; every loop gives the same run."""
    requests_table: bool = False
    """Whether the report has a row for every request."""
    columns: list[Column] | None = None
    """Columns of that table; None is all."""
    steps_table: bool = False
    """Whether the report has a row for every event of the engine."""


class SpreadReport(msgspec.Struct, frozen=True, kw_only=True):
    """A time over the requests; `interval` is half of each figure's 95 % interval, from batch means."""

    count: int
    mean: Seconds
    p50: Seconds
    p90: Seconds
    p95: Seconds
    p99: Seconds
    least: Seconds
    most: Seconds
    interval: dict[str, Seconds]


class MeasuresReport(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one run; see `rooflab.sim.measure`."""

    requests: int
    served: int
    refused: int
    unfinished: int
    makespan: Seconds
    overload: bool
    """The queue grows as long as requests come, so there is no TTFT, E2E or wait to tell."""
    ttft: SpreadReport | None
    """From arrival."""
    ttft_from_admission: SpreadReport | None
    tpot: SpreadReport | None
    itl: SpreadReport | None
    e2e: SpreadReport | None
    queue_time: SpreadReport | None
    request_rate: RequestsPerSecond
    output_throughput: TokensPerSecond
    total_throughput: TokensPerSecond
    goodput: RequestsPerSecond | None
    """Requests per second that met every limit."""
    attainment: Ratio | None
    running: float
    slot_occupancy: Ratio
    kv_occupancy: Ratio
    kv_peak: Ratio
    busy: Ratio
    preemptions: int
    swaps: int
    """Preemptions that kept the cache in host memory."""
    cache_hit_rate: Ratio | None
    cost_per_million_tokens: Usd | None
    cost_per_million_output_tokens: Usd | None
    energy_per_token: Joules | None
    iterations: int
    events: int


class TimelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """Means over equal spans of time, all replicas together."""

    start: list[Seconds]
    """When each span begins."""
    span: Seconds
    running: list[float]
    waiting: list[float]
    """Requests that have come and never had a slot."""
    kv: list[Ratio]
    """Share of the cache in use."""


class IterationsReport(msgspec.Struct, frozen=True, kw_only=True):
    """Iterations that only decode, and those that compute prompts: how many, and the means of one."""

    decode: int
    decode_time: Seconds | None
    decode_sequences: float | None
    prompt: int
    prompt_time: Seconds | None
    prompt_sequences: float | None
    """Sequences that decode beside the prompts."""
    prompt_tokens: float | None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """An iteration that computed a prompt or a part of it, its own tokens and other requests' together."""

    start: Seconds
    time: Seconds
    prompt_tokens: int
    decoding: int
    """Sequences that decode beside."""


class PathReport(msgspec.Struct, frozen=True, kw_only=True):
    """One request's way: times since the start of the run, what it waited for, and what was computed for it."""

    request: int
    arrival: Seconds | None
    admitted: Seconds | None
    first: Seconds | None
    finish: Seconds | None
    prompt: int
    output: int
    ttft: Seconds | None
    ttft_from_admission: Seconds | None
    tpot: Seconds | None
    e2e: Seconds | None
    queue_time: Seconds | None
    preempted: int
    """Times it was pushed out."""
    swapped: int
    """How often of those its cache was kept by the host instead of computed again."""
    cached: int
    replica: int
    refused: str | None
    chunks: list[Chunk]
    """From its slot to its first token; none where prefill and decode are apart."""
    decoded: IterationsReport | None
    """From its first token to its last, on its replica."""


class PointReport(msgspec.Struct, frozen=True, kw_only=True):
    """One load of a curve: means over replications, and half their 95 % intervals; times in s, rates per s."""

    load: float
    replications: int
    overload: bool
    figures: dict[str, float | None]
    interval: dict[str, float | None]


class FoundReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked for, and what was tried on the way: [what, held]."""

    what: Literal["load", "replicas", "split"]
    value: str
    load: float | None
    """Requests per second, or users."""
    replicas: int | None
    split: tuple[int, int] | None
    holds: bool
    measures: MeasuresReport
    tried: list[tuple[str, bool]]


class SimulateReport(_Report, frozen=True, kw_only=True, tag="simulate"):
    name: str
    system: str
    profile: str
    devices: int
    replicas: int
    policy: str
    traffic: str
    """How the requests came about."""
    protocol: list[str]
    """What every figure means and how it was taken."""
    limits: dict[str, Any]
    """The engine's limits."""
    kv_tokens: float
    """Tokens of cache per replica."""
    kv_bytes_per_token: Bytes
    slo: dict[str, Seconds]
    loop: str | None = None
    """Loop that played the run: python, or numba; None when only a curve was asked for."""
    run: MeasuresReport | None = None
    """None when only a curve was asked for."""
    curve: list[PointReport] | None = None
    policies: dict[str, MeasuresReport] | None = None
    found: FoundReport | None = None
    refused: dict[str, str] = {}
    """Number of a request that could never run -> why; the first hundred."""
    saturated_rate: RequestsPerSecond | None = None
    iterations: IterationsReport | None = None
    """Of the plain run."""
    timeline: TimelineReport | None = None
    request: PathReport | None = None
    requests_table: dict[str, list[Any]] | None = None
    steps_table: dict[str, list[Any]] | None = None


class BoardAsk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="board"):
    """A few requests in a few slots, one iteration at a time; hardware does not enter."""

    answers: tuple[int, ...] = (8, 2, 3, 6, 4, 2, 7, 3)
    """Iterations each request needs."""
    slots: int = 4
    policies: tuple[PolicyName, ...] = ("static", "chunked")


class BoardRun(msgspec.Struct, frozen=True, kw_only=True):
    """One policy: per iteration the request in each slot, or None."""

    iterations: int
    used: Ratio
    slots: list[list[int | None]]
    start: list[int]
    finish: list[int]


class BoardReport(_Report, frozen=True, kw_only=True, tag="board"):
    policies: dict[str, BoardRun]


Asks = SimulateAsk | BoardAsk
Reports = SimulateReport | BoardReport
