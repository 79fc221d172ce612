"""The contract: what can be asked and what comes back, as plain records with units in their JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from rooflab.units import (
    Bytes,
    BytesPerSecond,
    Flop,
    FlopPerSecond,
    Intensity,
    Joules,
    Ratio,
    Seconds,
    Tokens,
    TokensPerSecond,
    Usd,
    quantity,
)

Degree = Annotated[int, msgspec.Meta(ge=1, le=2**20)]  # count
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]  # count
Length = Annotated[int, msgspec.Meta(ge=0, le=2**31)]  # count
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Context = Annotated[int, quantity("token")]
Source = Name | dict[str, Any]
Factor = Annotated[float, msgspec.Meta(gt=0, le=1e6)]  # count


class _Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Every question names a model."""

    model: Source
    """A config.json (path, folder, catalog name, Hugging Face id) or its content; {"like": name, figure: value} changes some."""
    weights: str | dict[str, str] | None = None
    """Number format of the linear weights, or one per tensor class; None keeps the checkpoint's."""
    kv: str | None = None
    """Number format of the cache; None keeps the checkpoint's, else 16-bit."""


class _Placed(_Ask, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question about a model on a system, cut by a layout and priced by a profile."""

    on: Source
    """A system or device (catalog name, "8x h100-sxm", path to TOML) or its content."""
    changes: dict[str, Any] = {}
    """What-if changes of the hardware: {"memory_bandwidth": "4 TB/s"}."""
    tp: Degree = 1
    pp: Degree = 1
    cp: Degree = 1
    dp: Degree = 1
    ep: Degree = 1
    attention_dp: Degree = 1
    ep_mode: Literal["overlay", "dedicated"] = "overlay"
    kv_shard: Literal["split", "replicate"] | None = None
    """None takes the profile's."""
    ffn_scope: Literal["tp", "tp_cp", "tp_cp_dp"] | None = None
    ring: Literal["kv", "qoml"] = "kv"
    tp_placement: Literal["inner", "outer", "pe", "cube"] | None = None
    cp_placement: Literal["inner", "outer", "pe", "cube"] | None = None
    microbatches: Degree = 1
    profile: str = "operator"
    prices: str | None = None
    """roofline, fitted (on measured kernels), or the path of your own table of measured kernels; None takes the default."""
    engine: Literal["vllm", "sglang", "trtllm"] = "vllm"
    """Engine whose kernels fitted prices are of."""
    switches: dict[str, Any] = {}
    """Changes of the profile's switches: {"compute_efficiency": 0.7}."""
    reserve: str | float | None = None
    """Memory kept for the runtime per device: "2 GB", or a share of it; None takes the profile's."""


class _Loaded(_Placed, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A placed question with a workload."""

    batch: Count = 1
    """Sequences at once, per replica."""
    prompt: Count = 1024  # count
    output: Count = 256
    cached: Length = 0
    """Prompt tokens already in the cache."""


class InspectAsk(_Ask, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="inspect"):
    """What a model is: parameters, active parameters, cache, state, weight bytes, blocks."""

    context: Count = 4096
    batch: Count = 1


class EstimateAsk(_Loaded, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="estimate"):
    """Memory, TTFT, TPOT, throughput, cost and energy of a workload."""

    ignore_memory: bool = False
    concurrency: Count | None = None
    """Requests always in flight, all replicas together: continuous batching in a closed loop; `batch` is then not used."""
    max_batched_tokens: Count | None = None
    """With concurrency: tokens of one iteration at most; None takes the engine's."""
    varied: bool = False
    """With concurrency: whether lengths vary at random, prompt and output being their means."""
    detail: bool = False
    """Whether the report holds the steps behind TTFT and TPOT, operator by operator."""


class StepAsk(_Placed, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="step"):
    """One forward pass, operator by operator."""

    phase: Literal["prefill", "decode", "mixed"] = "decode"
    batch: Count = 1
    """Sequences of the phase (decoding sequences of a mixed step)."""
    context: Count = 4096
    """Prefill: prompt tokens of each sequence. Decode: tokens each sequence attends to. Mixed: the latter."""
    cached: Length = 0
    """Prefill: tokens of each sequence already cached."""
    prefill_batch: Count = 1
    """Mixed: sequences in prefill."""
    prefill_tokens: Count = 512
    """Mixed: new prompt tokens of each."""


class ExplainAsk(_Loaded, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="explain"):
    """The formula behind one number, with the numbers in it."""

    op: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """An operator's name, or ttft, tpot, e2e, kv, weights, workspace, output_throughput, cost, energy."""
    phase: Literal["prefill", "decode"] = "decode"
    context: Count | None = None
    """Context of the decode step (or prompt of the prefill); None takes the workload's."""


class FitAsk(_Loaded, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fit"):
    """Whether it fits, what is over and by how much, and the smallest changes that would help."""


class ChipAsk(_Placed, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="chip"):
    """The chip roofline: critical batch, balance context, knee, regimes, budgets.

    Rates are the chip's peaks whatever the profile; the layout and the profile decide what one device holds.
    """

    batch: Count = 1
    context: Count = 4096
    prompt: Count | None = None
    """Tokens of the context that a prefill has at once; None takes all of them."""
    flops_multiplier: Factor = 1.0
    bandwidth_multiplier: Factor = 1.0


class CatalogAsk(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="catalog"
):
    """What is in the catalog."""

    what: Literal["models", "systems", "devices", "links", "formats", "profiles"] = "models"


Ask = InspectAsk | EstimateAsk | StepAsk | ExplainAsk | FitAsk | ChipAsk | CatalogAsk


class _Report(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Every report says what was asked, by which version, in which units, and what was assumed."""

    version: str
    ask: dict[str, Any]
    notes: list[str]
    units: dict[str, str]


class BlockReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run of equal layers."""

    count: int
    mixer: str
    ffn: str
    params: int
    kv_bytes_per_token: Bytes
    state_bytes: Bytes


class InspectReport(_Report, frozen=True, kw_only=True, tag="inspect"):
    name: str
    params: int
    active_params: int
    active_params_without_embedding: int
    other_params: dict[str, int | None]
    """mtp and vision: not part of params."""
    layers: int
    context: Context
    max_context: Context
    kv_bytes_per_token: Bytes
    """What one more token adds at this context: the architecture's minimum."""
    kv_bytes: Bytes
    """Cache of one sequence at this context, times batch."""
    kv_bytes_one_page_size: Bytes
    """What a server allocates that gives every attention layer pages for the whole context."""
    state_bytes_per_sequence: Bytes
    weight_bytes: Bytes
    training_bytes: Bytes
    """18 bytes a parameter: copy, master, gradients, Adam; before activations."""
    precision: dict[str, str]
    blocks: list[BlockReport]
    checkpoint: dict[str, Any] | None
    """Of the safetensors files beside a config on disk: path, basis, files, bytes and elements, altogether and by format."""
    dimensions: dict[str, int]
    """Figures of the config that {"like": name} can change."""
    source: str


class MemoryReport(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the busiest device."""

    capacity: Bytes
    weights: Bytes
    kv: Bytes
    state: Bytes
    workspace: Bytes
    reserve: Bytes
    used: Bytes
    free: Bytes
    over: Bytes


class FiguresReport(msgspec.Struct, frozen=True, kw_only=True):
    """One end of the band, element by element."""

    ttft: Seconds
    tpot: Seconds | None
    e2e: Seconds
    output_throughput: TokensPerSecond
    decode_throughput: TokensPerSecond | None
    throughput_per_device: TokensPerSecond


class OpReport(msgspec.Struct, frozen=True, kw_only=True):
    """One operator; flop, bytes and time are of all `count` executions on one device."""

    name: str
    kind: str
    part: str
    scope: str
    """attention or ffn, the half of a layer it belongs to; rest where it belongs to neither."""
    stage: str
    count: float
    shape: dict[str, float]
    dtype: str
    flop: Flop
    bytes: Bytes
    weight_bytes: Bytes
    activation_bytes: Bytes
    kv_bytes: Bytes
    message_bytes: Bytes
    intensity: Intensity | None
    compute_time: Seconds
    memory_time: Seconds
    comm_time: Seconds
    launch_time: Seconds
    time: Seconds
    terms: dict[str, Seconds]
    """The time by what it waits for: memory, compute, network, latency."""
    achieved: FlopPerSecond
    share: Ratio
    bound: str
    basis: str
    formula: str


class RoofsReport(msgspec.Struct, frozen=True, kw_only=True):
    """Peak and achievable rates of the device."""

    memory_bandwidth: BytesPerSecond
    achievable_bandwidth: BytesPerSecond
    flop_rate: dict[str, FlopPerSecond]
    achievable_flop_rate: dict[str, FlopPerSecond]
    ridge: dict[str, Intensity]
    """Where the achievable roofs meet, by number format."""


class PartReport(msgspec.Struct, frozen=True, kw_only=True):
    """The operators of one part of a step together."""

    part: str
    time: Seconds
    share: Ratio
    terms: dict[str, Seconds]


class ScopeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One half of the layers, attention or feed-forward, or what belongs to neither."""

    scope: str
    time: Seconds
    share: Ratio
    per_layer: Seconds | None
    """Mean over the model's layers, which a pass goes through whatever the pipeline; none for the rest."""


class WorkReport(msgspec.Struct, frozen=True, kw_only=True):
    """Arithmetic and traffic of some of a step's operators together, on one device."""

    name: str
    """matmul or attention, which take most of a step; all: every operator."""
    flop: Flop
    bytes: Bytes
    intensity: Intensity | None
    """FLOP for each byte moved."""
    time: Seconds
    achieved: FlopPerSecond


class StepDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The step behind a time: the prefill pass of TTFT, or the decode step of TPOT."""

    time: Seconds
    sequences: float
    tokens: Tokens
    """New tokens of each sequence."""
    context: Tokens
    """Decode: tokens each sequence attends to. Prefill: tokens already cached."""
    bound: str
    """What takes most of it: memory, compute, network or latency."""
    terms: dict[str, Seconds]
    parts: list[PartReport]
    scopes: list[ScopeReport]
    work: list[WorkReport]
    bandwidth_share: Ratio
    """Bytes moved over time, as a share of the peak memory bandwidth."""
    roofs: RoofsReport
    ops: list[OpReport]


class LoopReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a closed loop's figures are made of."""

    concurrency: int
    engine: str
    running: float
    """Requests of a replica that run at once."""
    room: float
    """Requests of a replica whose caches fit."""
    waits: bool
    """Whether requests wait for memory."""
    decode_step: Seconds
    prefill_per_request: Seconds
    max_batched_tokens: int


class EstimateReport(_Report, frozen=True, kw_only=True, tag="estimate"):
    name: str
    system: str
    profile: str
    devices: int
    fits: bool
    memory: MemoryReport
    ttft: Seconds | None = None
    tpot: Seconds | None = None
    """None for one-token answers."""
    e2e: Seconds | None = None
    output_throughput: TokensPerSecond | None = None
    decode_throughput: TokensPerSecond | None = None
    throughput_per_device: TokensPerSecond | None = None
    tokens_per_second_per_user: TokensPerSecond | None = None
    bound: dict[str, str] | None = None
    """What takes most of the time: prefill and decode."""
    would_bound: dict[str, str] | None = None
    """What would take most of it, if it fitted; where it does not, nothing else is said of times."""
    shares: dict[str, dict[str, Ratio]] | None = None
    """Share of the step by part: prefill and decode."""
    cost_per_million_tokens: dict[str, Usd] | None = None
    energy_per_token: Joules | None = None
    low: FiguresReport | None = None
    high: FiguresReport | None = None
    basis: str = "roofline"
    """roofline, fitted, measured or assumed: that of the largest share of the decode step's time."""
    basis_shares: dict[str, dict[str, Ratio]] | None = None
    """Share of the time by basis: prefill and decode."""
    loop: LoopReport | None = None
    """With `concurrency`."""
    prefill_step: StepDetail | None = None
    decode_step: StepDetail | None = None
    """With `detail`: at the mean context of the answer, or of its longest-context stretch."""


class StepReport(_Report, frozen=True, kw_only=True, tag="step"):
    name: str
    system: str
    profile: str
    phase: str
    time: Seconds
    low: Seconds
    high: Seconds
    bound: str
    shares: dict[str, Ratio]
    roofs: RoofsReport
    ops: list[OpReport]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of an explanation: the formula, the same with numbers, its value and where it comes from."""

    quantity: str
    title: str
    """The quantity in words."""
    unit: str
    formula: str
    substituted: str
    value: float
    inputs: dict[str, Any]
    names: dict[str, str]
    """The inputs in words."""
    units: dict[str, str]
    """Units of the inputs."""
    bases: dict[str, str]
    """Where each input comes from: exact (counted from the model and the ask), datasheet, assumed, or derived by another line."""
    parts: dict[str, float] = {}
    """Of a sum, what each input adds to it."""
    means: str
    counts: str
    source: str
    holds: str


class ExplainReport(_Report, frozen=True, kw_only=True, tag="explain"):
    name: str
    subject: str
    value: float | None
    unit: str
    lines: list[Line]
    leaves_out: list[str]
    basis: str
    refs: dict[str, str]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A single change that would make it fit, and what it would leave free."""

    change: str
    ask: dict[str, Any]
    used: Bytes
    free: Bytes


class FitReport(_Report, frozen=True, kw_only=True, tag="fit"):
    name: str
    system: str
    devices: int
    fits: bool
    memory: MemoryReport
    largest: str
    """The kind that takes most."""
    max_batch: int
    """Sequences of this length that fit per replica."""
    max_context: Context
    """Tokens per sequence that fit at this batch."""
    whole: dict[str, Bytes]
    """The model uncut and the cache of all sequences, each byte counted once: weights, kv, state, total (requirement D-121)."""
    held: Bytes
    """What all devices hold of them together, copies included."""
    kv_tokens: Tokens
    """Tokens of cache the free memory of a replica holds beside weights and workspace."""
    changes: list[Change]


class ChipReport(_Report, frozen=True, kw_only=True, tag="chip"):
    name: str
    system: str
    chip: dict[str, Any]
    """See `rooflab.chip`: figures, tables, curves and guidance, SI units."""


class CatalogReport(_Report, frozen=True, kw_only=True, tag="catalog"):
    what: str
    rows: list[dict[str, Any]]


Report = InspectReport | EstimateReport | StepReport | ExplainReport | FitReport | ChipReport | CatalogReport

__all__ = ["Ask", "BytesPerSecond", "Report"]
