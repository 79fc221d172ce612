// Generated from the engine's JSON Schema by tools/contract.py; do not edit. Numbers are SI base units.

/** What a model is: parameters, active parameters, cache, state, weight bytes, blocks. */
export interface InspectAsk {
  kind: "inspect";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  context?: number;
  batch?: number;
}

/** Memory, TTFT, TPOT, throughput, cost and energy of a workload. */
export interface EstimateAsk {
  kind: "estimate";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  batch?: number;
  prompt?: number;
  output?: number;
  cached?: number;
  ignore_memory?: boolean;
  concurrency?: number | null;
  max_batched_tokens?: number | null;
  varied?: boolean;
  detail?: boolean;
}

/** One forward pass, operator by operator. */
export interface StepAsk {
  kind: "step";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  phase?: "decode" | "mixed" | "prefill";
  batch?: number;
  context?: number;
  cached?: number;
  prefill_batch?: number;
  prefill_tokens?: number;
}

/** The formula behind one number, with the numbers in it. */
export interface ExplainAsk {
  kind: "explain";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  batch?: number;
  prompt?: number;
  output?: number;
  cached?: number;
  op: string;
  phase?: "decode" | "prefill";
  context?: number | null;
}

/** Whether it fits, what is over and by how much, and the smallest changes that would help. */
export interface FitAsk {
  kind: "fit";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  batch?: number;
  prompt?: number;
  output?: number;
  cached?: number;
}

/** The chip roofline: critical batch, balance context, knee, regimes, budgets.

Rates are the chip's peaks whatever the profile; the layout and the profile decide what one device holds. */
export interface ChipAsk {
  kind: "chip";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  batch?: number;
  context?: number;
  prompt?: number | null;
  flops_multiplier?: number;
  bandwidth_multiplier?: number;
}

/** What is in the catalog. */
export interface CatalogAsk {
  kind: "catalog";
  what?: "devices" | "formats" | "links" | "models" | "profiles" | "systems";
}

/** Every combination of some fields' values, its frontier and the best under conditions. */
export interface SweepAsk {
  kind: "sweep";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  also_on?: (string | Record<string, unknown>)[];
  vary?: Record<string, unknown[] | string>;
  layouts?: number | null;
  batch?: number;
  prompt?: number;
  output?: number;
  where?: string[];
  pareto?: string[] | null;
  rows?: "all" | "feasible" | "pareto";
  columns?: string[] | null;
}

/** Layouts to serve users with, best first, and the commands that start them. */
export interface SuggestAsk {
  kind: "suggest";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  users?: number;
  prompt?: number;
  output?: number;
  ttft?: string | number | null;
  tpot?: string | number | null;
  goal?: "cost" | "devices" | "latency";
  count?: number;
  profile?: string;
  prices?: "fitted" | "roofline" | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
}

/** How many devices a service needs. */
export interface PlanAsk {
  kind: "plan";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  users?: number;
  context?: number;
  output?: number;
  tpot?: string | number | null;
  ttft?: string | number | null;
  rates?: "device" | "replica";
  layers_only?: boolean;
  largest?: number;
  percentile?: "p50" | "p90" | "p95" | "p99" | null;
  rate?: number | null;
  requests?: number;
  seeds?: number;
  divide?: boolean;
  link?: string | number | null;
  profile?: string;
  prices?: "fitted" | "roofline" | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
}

/** Every sharded layout of a model over a hierarchy of devices, one step each. */
export interface ShardedAsk {
  kind: "sharded";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on?: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  context?: number;
  batch?: number;
  mode?: "decode" | "prefill";
  scope?: "attention" | "ffn" | "full";
  ep?: number;
  outside?: boolean;
  reserve?: string | number | null;
  axes?: Record<string, unknown[]>;
  around?: Record<string, unknown> | null;
  rows?: "all" | "distinct" | "feasible" | "pareto";
  columns?: string[] | null;
}

/** Machines and layouts chosen together: latency against cost. */
export interface CodesignAsk {
  kind: "codesign";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on?: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  context?: number;
  batch?: number;
  mode?: "decode" | "prefill";
  scope?: "attention" | "ffn" | "full";
  depth?: "balanced" | "coarse" | "two_stage";
  cost_weights?: Record<string, number>;
  refit?: boolean;
  outside?: boolean;
}

/** Rules, hints, copies, shapes and symbols evaluated on a scenario, and the guidance behind them. */
export interface RulesAsk {
  kind: "rules";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  batch?: number;
  prompt?: number;
  output?: number;
  cached?: number;
  ttft?: string | number | null;
  tpot?: string | number | null;
  phase?: "decode" | "prefill";
}

/** Requests served over time: what users wait, what the machines do, what it costs.

Of rate, concurrency, load, trace and arrivals at most one is given; without any, 0.7 of what the engine can serve. */
export interface SimulateAsk {
  kind: "simulate";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  tp?: number;
  pp?: number;
  cp?: number;
  dp?: number;
  ep?: number;
  attention_dp?: number;
  ep_mode?: "dedicated" | "overlay";
  kv_shard?: "replicate" | "split" | null;
  ffn_scope?: "tp" | "tp_cp" | "tp_cp_dp" | null;
  ring?: "kv" | "qoml";
  tp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  cp_placement?: "cube" | "inner" | "outer" | "pe" | null;
  microbatches?: number;
  profile?: string;
  prices?: string | null;
  engine?: "sglang" | "trtllm" | "vllm";
  switches?: Record<string, unknown>;
  reserve?: string | number | null;
  requests?: number;
  rate?: number | null;
  concurrency?: number | null;
  load?: number | null;
  trace?: string | null;
  arrivals?: unknown[][] | null;
  trace_text?: string | null;
  speed?: number;
  variation?: number;
  prompt?: string | number;
  output?: string | number;
  turns?: number;
  think?: string | number;
  spread?: number | null;
  policy?: "chunked" | "prefill_first" | "priority" | "shortest_first" | "static";
  paging?: "paged" | "reserve";
  slots?: number;
  budget?: number;
  block_tokens?: number;
  kv_tokens?: number | null;
  chunked?: boolean;
  ahead?: boolean;
  caching?: boolean;
  swap?: string | number | null;
  host_link?: string | number | null;
  replicas?: number;
  routing?: "least_loaded" | "length_tiers" | "prefix_aware" | "round_robin";
  disaggregate?: string | null;
  link?: string | number | null;
  draft_tokens?: number;
  acceptance?: number;
  slo?: string | Record<string, string | number> | null;
  at?: "mean" | "p50" | "p90" | "p95" | "p99";
  find?: "load" | "replicas" | "split" | null;
  loads?: number[] | string | null;
  replications?: number;
  policies?: ("chunked" | "prefill_first" | "priority" | "shortest_first" | "static")[] | string | null;
  warmup?: number;
  seed?: number;
  saturated?: boolean;
  timeline?: number;
  request?: number | null;
  loop?: "auto" | "numba" | "python";
  requests_table?: boolean;
  columns?: ("admitted" | "arrival" | "cached" | "e2e" | "finish" | "first" | "output" | "preempted" | "prompt" | "queue_time" | "replica" | "request" | "swapped" | "tpot" | "ttft" | "ttft_from_admission")[] | null;
  steps_table?: boolean;
}

/** A few requests in a few slots, one iteration at a time; hardware does not enter. */
export interface BoardAsk {
  kind: "board";
  answers?: number[];
  slots?: number;
  policies?: ("chunked" | "prefill_first" | "priority" | "shortest_first" | "static")[];
}

/** Scenarios side by side, number by number; with `profiles`, each of them under each profile. */
export interface CompareAsk {
  kind: "compare";
  cases: Case[];
  profiles?: string[];
}

/** A column of a comparison. */
export interface Case {
  name: string;
  scenario: Record<string, unknown>;
  version?: string;
  digest?: Record<string, unknown>;
}

/** A scenario as it is saved: whole, with its figures, and as a command line. */
export interface SnapshotAsk {
  kind: "snapshot";
  scenario: Record<string, unknown>;
}

/** A scenario as one self-contained page of HTML, with its baseline if there is one. */
export interface DocumentAsk {
  kind: "document";
  scenario: Record<string, unknown>;
  baseline?: Record<string, unknown> | null;
  title?: string;
  baseline_name?: string;
  link?: string;
  date?: string;
}

/** The scenarios of an exported file, checked. */
export interface UnpackAsk {
  kind: "unpack";
  text: string;
}

/** The shortest way to say a model that is given as the content of a config.json, for a link. */
export interface ShortenAsk {
  kind: "shorten";
  model: Record<string, unknown>;
}

export interface InspectReport {
  kind: "inspect";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  params: number;
  active_params: number;
  active_params_without_embedding: number;
  other_params: Record<string, number | null>;
  layers: number;
  context: number; // token
  max_context: number; // token
  kv_bytes_per_token: number; // byte
  kv_bytes: number; // byte
  kv_bytes_one_page_size: number; // byte
  state_bytes_per_sequence: number; // byte
  weight_bytes: number; // byte
  training_bytes: number; // byte
  precision: Record<string, string>;
  blocks: BlockReport[];
  checkpoint: Record<string, unknown> | null;
  dimensions: Record<string, number>;
  source: string;
}

/** A run of equal layers. */
export interface BlockReport {
  count: number;
  mixer: string;
  ffn: string;
  params: number;
  kv_bytes_per_token: number; // byte
  state_bytes: number; // byte
}

export interface EstimateReport {
  kind: "estimate";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  profile: string;
  devices: number;
  fits: boolean;
  memory: MemoryReport;
  ttft?: number | null; // s
  tpot?: number | null; // s
  e2e?: number | null; // s
  output_throughput?: number | null; // token/s
  decode_throughput?: number | null; // token/s
  throughput_per_device?: number | null; // token/s
  tokens_per_second_per_user?: number | null; // token/s
  bound?: Record<string, string> | null;
  would_bound?: Record<string, string> | null;
  shares?: Record<string, Record<string, number>> | null;
  cost_per_million_tokens?: Record<string, number> | null;
  energy_per_token?: number | null; // J
  low?: FiguresReport | null;
  high?: FiguresReport | null;
  basis?: string;
  basis_shares?: Record<string, Record<string, number>> | null;
  loop?: LoopReport | null;
  prefill_step?: StepDetail | null;
  decode_step?: StepDetail | null;
}

/** Bytes on the busiest device. */
export interface MemoryReport {
  capacity: number; // byte
  weights: number; // byte
  kv: number; // byte
  state: number; // byte
  workspace: number; // byte
  reserve: number; // byte
  used: number; // byte
  free: number; // byte
  over: number; // byte
}

/** One end of the band, element by element. */
export interface FiguresReport {
  ttft: number; // s
  tpot: number | null; // s
  e2e: number; // s
  output_throughput: number; // token/s
  decode_throughput: number | null; // token/s
  throughput_per_device: number; // token/s
}

/** What a closed loop's figures are made of. */
export interface LoopReport {
  concurrency: number;
  engine: string;
  running: number;
  room: number;
  waits: boolean;
  decode_step: number; // s
  prefill_per_request: number; // s
  max_batched_tokens: number;
}

/** The step behind a time: the prefill pass of TTFT, or the decode step of TPOT. */
export interface StepDetail {
  time: number; // s
  sequences: number;
  tokens: number; // token
  context: number; // token
  bound: string;
  terms: Record<string, number>; // s
  parts: PartReport[];
  scopes: ScopeReport[];
  work: WorkReport[];
  bandwidth_share: number; // 1
  roofs: RoofsReport;
  ops: OpReport[];
}

/** The operators of one part of a step together. */
export interface PartReport {
  part: string;
  time: number; // s
  share: number; // 1
  terms: Record<string, number>; // s
}

/** One half of the layers, attention or feed-forward, or what belongs to neither. */
export interface ScopeReport {
  scope: string;
  time: number; // s
  share: number; // 1
  per_layer: number | null; // s
}

/** Arithmetic and traffic of some of a step's operators together, on one device. */
export interface WorkReport {
  name: string;
  flop: number; // FLOP
  bytes: number; // byte
  intensity: number | null; // FLOP/byte
  time: number; // s
  achieved: number; // FLOP/s
}

/** Peak and achievable rates of the device. */
export interface RoofsReport {
  memory_bandwidth: number; // byte/s
  achievable_bandwidth: number; // byte/s
  flop_rate: Record<string, number>; // FLOP/s
  achievable_flop_rate: Record<string, number>; // FLOP/s
  ridge: Record<string, number>; // FLOP/byte
}

/** One operator; flop, bytes and time are of all `count` executions on one device. */
export interface OpReport {
  name: string;
  kind: string;
  part: string;
  scope: string;
  stage: string;
  count: number;
  shape: Record<string, number>;
  dtype: string;
  flop: number; // FLOP
  bytes: number; // byte
  weight_bytes: number; // byte
  activation_bytes: number; // byte
  kv_bytes: number; // byte
  message_bytes: number; // byte
  intensity: number | null; // FLOP/byte
  compute_time: number; // s
  memory_time: number; // s
  comm_time: number; // s
  launch_time: number; // s
  time: number; // s
  terms: Record<string, number>; // s
  achieved: number; // FLOP/s
  share: number; // 1
  bound: string;
  basis: string;
  formula: string;
}

export interface StepReport {
  kind: "step";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  profile: string;
  phase: string;
  time: number; // s
  low: number; // s
  high: number; // s
  bound: string;
  shares: Record<string, number>; // 1
  roofs: RoofsReport;
  ops: OpReport[];
}

export interface ExplainReport {
  kind: "explain";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  subject: string;
  value: number | null;
  unit: string;
  lines: Line[];
  leaves_out: string[];
  basis: string;
  refs: Record<string, string>;
}

/** One quantity of an explanation: the formula, the same with numbers, its value and where it comes from. */
export interface Line {
  quantity: string;
  title: string;
  unit: string;
  formula: string;
  substituted: string;
  value: number;
  inputs: Record<string, unknown>;
  names: Record<string, string>;
  units: Record<string, string>;
  bases: Record<string, string>;
  parts?: Record<string, number>;
  means: string;
  counts: string;
  source: string;
  holds: string;
}

export interface FitReport {
  kind: "fit";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  devices: number;
  fits: boolean;
  memory: MemoryReport;
  largest: string;
  max_batch: number;
  max_context: number; // token
  whole: Record<string, number>; // byte
  held: number; // byte
  kv_tokens: number; // token
  changes: Change[];
}

/** A single change that would make it fit, and what it would leave free. */
export interface Change {
  change: string;
  ask: Record<string, unknown>;
  used: number; // byte
  free: number; // byte
}

export interface ChipReport {
  kind: "chip";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  chip: Record<string, unknown>;
}

export interface CatalogReport {
  kind: "catalog";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  what: string;
  rows: Record<string, unknown>[];
}

export interface SweepReport {
  kind: "sweep";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  systems: string[];
  profile: string;
  key: string;
  totals: Record<string, number>;
  reasons: Record<string, number>;
  table: Table;
  pareto: number[];
  best: Record<string, number | null>;
}

/** Rows as columns; a missing number is null. */
export interface Table {
  columns: Record<string, unknown[]>;
  units: Record<string, string>;
  feasible: boolean[];
  reason: string[];
}

export interface SuggestReport {
  kind: "suggest";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  profile: string;
  limits_met: boolean;
  tightest: Record<string, number>; // s
  tried: number;
  fitting: number;
  reasons: Record<string, number>;
  layouts: SuggestedReport[];
}

/** One layout to serve with. */
export interface SuggestedReport {
  layout: Record<string, number>;
  devices: number;
  batch: number;
  ttft: number; // s
  ttft_together: number; // s
  tpot: number | null; // s
  tpot_loaded: number | null; // s
  e2e: number; // s
  tokens_per_second_per_user: number | null; // token/s
  output_throughput: number; // token/s
  throughput_per_device: number; // token/s
  cost_per_million_tokens: number | null; // USD
  memory_share: number; // 1
  free: number; // byte
  meets: boolean;
  why: string[];
  commands: Record<string, string>;
  refused: Record<string, string>;
}

export interface PlanReport {
  kind: "plan";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  profile: string;
  feasible: boolean;
  axes: AxisReport[];
  binding: string | null;
  devices_per_replica: number;
  replicas: number | null;
  total: number | null;
  batch_at_limit: number;
  batch_in_memory: number;
  users_per_replica: number;
  step: number | null; // s
  step_alone: number; // s
  tightest: number; // s
  weights: number; // byte
  kv_per_user: number; // byte
  kv_per_replica: number; // byte
  price: number | null; // USD/s
  cost_per_million_tokens: number | null; // USD
  fleets: FleetReport[];
  simulated: SimulatedReport | null;
  targets: Record<string, unknown>[];
  templates: Record<string, unknown>[];
}

/** One of the plan's axes. */
export interface AxisReport {
  name: string;
  symbols: string;
  meaning: string;
  value: number;
  says: string;
  first: string;
  then: string;
}

/** A fleet of one layout, by the engine. */
export interface FleetReport {
  layout: Record<string, number>;
  devices_per_replica: number;
  replicas: number;
  total: number;
  batch_at_limit: number;
  users_per_replica: number;
  ttft: number; // s
  tpot: number; // s
  throughput: number; // token/s
  price: number | null; // USD/s
  cost_per_million_tokens: number | null; // USD
  memory_share: number; // 1
}

/** The smallest fleet that holds a percentile under traffic. */
export interface SimulatedReport {
  layout: Record<string, number>;
  percentile: string;
  rate: number; // request/s
  seeds: number;
  devices_per_replica: number;
  replicas: number;
  total: number;
  least: number;
  sure: number | null;
  holds: boolean | null;
  chosen: TrialReport;
  divided: TrialReport | null;
  tried: TrialReport[];
}

/** A number of replicas under traffic: the statistic over the seeds, with half its 95 % interval. */
export interface TrialReport {
  replicas: number;
  split: unknown[] | null;
  within: boolean;
  holds: boolean | null;
  ttft: number | null; // s
  ttft_interval: number | null; // s
  tpot: number | null; // s
  tpot_interval: number | null; // s
  attainment: number | null; // 1
}

export interface ShardedReport {
  kind: "sharded";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  totals: Record<string, number>;
  reasons: Record<string, number>;
  table: Table;
  pareto: number[];
  fastest: number | null;
  smallest: number | null;
  top_by_memory: number[];
  sensitivities: Record<string, Table>;
}

export interface CodesignReport {
  kind: "codesign";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  totals: Record<string, number>;
  machines: Table;
  pareto: number[];
  baseline: number | null;
  doublings: Record<string, unknown>[];
}

export interface RulesReport {
  kind: "rules";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  profile: string;
  checks: CheckReport[];
  hints: HintReport[];
  copies: Record<string, unknown>[];
  waste: number; // byte
  ranks: Record<string, unknown>[];
  shapes: Record<string, unknown>[];
  glossary: Record<string, unknown>[];
  guidance: Record<string, unknown>;
  sources: SourceReport[];
  measured: "carried" | "none" | "own";
}

/** One check. */
export interface CheckReport {
  name: string;
  title: string;
  passed: boolean | null;
  value: number | null;
  limit: number | null;
  unit: string;
  says: string;
  fix: string;
}

/** One hint. */
export interface HintReport {
  category: string;
  severity: string;
  message: string;
  change: Record<string, unknown>;
  time: number | null;
  memory: number | null;
}

/** A source behind the machine's figures. */
export interface SourceReport {
  key: string;
  title: string;
  gives: string[];
  date: string;
  licence: string;
  notes: string;
  url: string;
  used_by: string[];
}

export interface SimulateReport {
  kind: "simulate";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  system: string;
  profile: string;
  devices: number;
  replicas: number;
  policy: string;
  traffic: string;
  protocol: string[];
  limits: Record<string, unknown>;
  kv_tokens: number;
  kv_bytes_per_token: number; // byte
  slo: Record<string, number>; // s
  loop?: string | null;
  run?: MeasuresReport | null;
  curve?: PointReport[] | null;
  policies?: Record<string, MeasuresReport> | null;
  found?: FoundReport | null;
  refused?: Record<string, string>;
  saturated_rate?: number | null; // request/s
  iterations?: IterationsReport | null;
  timeline?: TimelineReport | null;
  request?: PathReport | null;
  requests_table?: Record<string, unknown[]> | null;
  steps_table?: Record<string, unknown[]> | null;
}

/** Figures of one run; see `rooflab.sim.measure`. */
export interface MeasuresReport {
  requests: number;
  served: number;
  refused: number;
  unfinished: number;
  makespan: number; // s
  overload: boolean;
  ttft: SpreadReport | null;
  ttft_from_admission: SpreadReport | null;
  tpot: SpreadReport | null;
  itl: SpreadReport | null;
  e2e: SpreadReport | null;
  queue_time: SpreadReport | null;
  request_rate: number; // request/s
  output_throughput: number; // token/s
  total_throughput: number; // token/s
  goodput: number | null; // request/s
  attainment: number | null; // 1
  running: number;
  slot_occupancy: number; // 1
  kv_occupancy: number; // 1
  kv_peak: number; // 1
  busy: number; // 1
  preemptions: number;
  swaps: number;
  cache_hit_rate: number | null; // 1
  cost_per_million_tokens: number | null; // USD
  cost_per_million_output_tokens: number | null; // USD
  energy_per_token: number | null; // J
  iterations: number;
  events: number;
}

/** A time over the requests; `interval` is half of each figure's 95 % interval, from batch means. */
export interface SpreadReport {
  count: number;
  mean: number; // s
  p50: number; // s
  p90: number; // s
  p95: number; // s
  p99: number; // s
  least: number; // s
  most: number; // s
  interval: Record<string, number>; // s
}

/** One load of a curve: means over replications, and half their 95 % intervals; times in s, rates per s. */
export interface PointReport {
  load: number;
  replications: number;
  overload: boolean;
  figures: Record<string, number | null>;
  interval: Record<string, number | null>;
}

/** What was looked for, and what was tried on the way: [what, held]. */
export interface FoundReport {
  what: "load" | "replicas" | "split";
  value: string;
  load: number | null;
  replicas: number | null;
  split: unknown[] | null;
  holds: boolean;
  measures: MeasuresReport;
  tried: unknown[][];
}

/** Iterations that only decode, and those that compute prompts: how many, and the means of one. */
export interface IterationsReport {
  decode: number;
  decode_time: number | null; // s
  decode_sequences: number | null;
  prompt: number;
  prompt_time: number | null; // s
  prompt_sequences: number | null;
  prompt_tokens: number | null;
}

/** Means over equal spans of time, all replicas together. */
export interface TimelineReport {
  start: number[]; // s
  span: number; // s
  running: number[];
  waiting: number[];
  kv: number[]; // 1
}

/** One request's way: times since the start of the run, what it waited for, and what was computed for it. */
export interface PathReport {
  request: number;
  arrival: number | null; // s
  admitted: number | null; // s
  first: number | null; // s
  finish: number | null; // s
  prompt: number;
  output: number;
  ttft: number | null; // s
  ttft_from_admission: number | null; // s
  tpot: number | null; // s
  e2e: number | null; // s
  queue_time: number | null; // s
  preempted: number;
  swapped: number;
  cached: number;
  replica: number;
  refused: string | null;
  chunks: Chunk[];
  decoded: IterationsReport | null;
}

/** An iteration that computed a prompt or a part of it, its own tokens and other requests' together. */
export interface Chunk {
  start: number; // s
  time: number; // s
  prompt_tokens: number;
  decoding: number;
}

export interface BoardReport {
  kind: "board";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  policies: Record<string, BoardRun>;
}

/** One policy: per iteration the request in each slot, or None. */
export interface BoardRun {
  iterations: number;
  used: number; // 1
  slots: ((number | null)[])[];
  start: number[];
  finish: number[];
}

export interface CompareReport {
  kind: "compare";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  finding: string;
  columns: ColumnReport[];
  rows: RowReport[];
  stages: StageReport[];
  switches: SwitchReport[];
}

/** One scenario of a comparison. */
export interface ColumnReport {
  name: string;
  scenario: Record<string, unknown>;
  fits: boolean | null;
  error: string;
  version: string;
  moved: string[];
  notes: string[];
}

/** One quantity over the columns. */
export interface RowReport {
  group: string;
  key: string;
  title: string;
  unit: string;
  better: "down" | "none" | "up";
  values: (number | boolean | string | null)[];
  best: number[];
  differs: boolean;
}

/** One operator over the columns: its time in a step, nothing where it has no such operator. */
export interface StageReport {
  phase: "decode" | "prefill";
  part: string;
  name: string;
  times: (number | null)[];
  bounds: (string | null)[];
  best: number[];
  differs: boolean;
}

/** One switch on which two profiles differ, and the first column's figures with this one switch as in the second. */
export interface SwitchReport {
  key: string;
  means: string;
  unit: string;
  first: number | boolean | string;
  second: number | boolean | string;
  tpot: number | null; // s
  ttft: number | null; // s
  used: number | null; // byte
  tpot_before: number | null; // s
  ttft_before: number | null; // s
  used_before: number; // byte
  error: string;
}

export interface SnapshotReport {
  kind: "snapshot";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  scenario: Record<string, unknown>;
  digest: Record<string, unknown>;
  command: string;
  question: Record<string, unknown>;
}

export interface DocumentReport {
  kind: "document";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  name: string;
  html: string;
}

export interface UnpackReport {
  kind: "unpack";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  scenarios: Saved[];
}

/** A scenario under a name. */
export interface Saved {
  name: string;
  ask: Record<string, unknown>;
  digest?: Record<string, unknown>;
  version: string;
  time: string;
}

export interface ShortenReport {
  kind: "shorten";
  version: string;
  ask: Record<string, unknown>;
  notes: string[];
  units: Record<string, string>;
  model: string | Record<string, unknown>;
}

export type Ask = InspectAsk | EstimateAsk | StepAsk | ExplainAsk | FitAsk | ChipAsk | CatalogAsk | SweepAsk | SuggestAsk | PlanAsk | ShardedAsk | CodesignAsk | RulesAsk | SimulateAsk | BoardAsk | CompareAsk | SnapshotAsk | DocumentAsk | UnpackAsk | ShortenAsk;

export type Report = InspectReport | EstimateReport | StepReport | ExplainReport | FitReport | ChipReport | CatalogReport | SweepReport | SuggestReport | PlanReport | ShardedReport | CodesignReport | RulesReport | SimulateReport | BoardReport | CompareReport | SnapshotReport | DocumentReport | UnpackReport | ShortenReport;

/** Which report answers which question. */
export interface Kinds {
  inspect: { ask: InspectAsk; report: InspectReport };
  estimate: { ask: EstimateAsk; report: EstimateReport };
  step: { ask: StepAsk; report: StepReport };
  explain: { ask: ExplainAsk; report: ExplainReport };
  fit: { ask: FitAsk; report: FitReport };
  chip: { ask: ChipAsk; report: ChipReport };
  catalog: { ask: CatalogAsk; report: CatalogReport };
  sweep: { ask: SweepAsk; report: SweepReport };
  suggest: { ask: SuggestAsk; report: SuggestReport };
  plan: { ask: PlanAsk; report: PlanReport };
  sharded: { ask: ShardedAsk; report: ShardedReport };
  codesign: { ask: CodesignAsk; report: CodesignReport };
  rules: { ask: RulesAsk; report: RulesReport };
  simulate: { ask: SimulateAsk; report: SimulateReport };
  board: { ask: BoardAsk; report: BoardReport };
  compare: { ask: CompareAsk; report: CompareReport };
  snapshot: { ask: SnapshotAsk; report: SnapshotReport };
  document: { ask: DocumentAsk; report: DocumentReport };
  unpack: { ask: UnpackAsk; report: UnpackReport };
  shorten: { ask: ShortenAsk; report: ShortenReport };
}

/** The fields of each question. */
export const FIELDS_OF: Record<keyof Kinds, readonly string[]> = {
  "inspect": [
    "model",
    "weights",
    "kv",
    "context",
    "batch"
  ],
  "estimate": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "batch",
    "prompt",
    "output",
    "cached",
    "ignore_memory",
    "concurrency",
    "max_batched_tokens",
    "varied",
    "detail"
  ],
  "step": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "phase",
    "batch",
    "context",
    "cached",
    "prefill_batch",
    "prefill_tokens"
  ],
  "explain": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "batch",
    "prompt",
    "output",
    "cached",
    "op",
    "phase",
    "context"
  ],
  "fit": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "batch",
    "prompt",
    "output",
    "cached"
  ],
  "chip": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "batch",
    "context",
    "prompt",
    "flops_multiplier",
    "bandwidth_multiplier"
  ],
  "catalog": [
    "what"
  ],
  "sweep": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "also_on",
    "vary",
    "layouts",
    "batch",
    "prompt",
    "output",
    "where",
    "pareto",
    "rows",
    "columns"
  ],
  "suggest": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "users",
    "prompt",
    "output",
    "ttft",
    "tpot",
    "goal",
    "count",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve"
  ],
  "plan": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "users",
    "context",
    "output",
    "tpot",
    "ttft",
    "rates",
    "layers_only",
    "largest",
    "percentile",
    "rate",
    "requests",
    "seeds",
    "divide",
    "link",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve"
  ],
  "sharded": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "context",
    "batch",
    "mode",
    "scope",
    "ep",
    "outside",
    "reserve",
    "axes",
    "around",
    "rows",
    "columns"
  ],
  "codesign": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "context",
    "batch",
    "mode",
    "scope",
    "depth",
    "cost_weights",
    "refit",
    "outside"
  ],
  "rules": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "batch",
    "prompt",
    "output",
    "cached",
    "ttft",
    "tpot",
    "phase"
  ],
  "simulate": [
    "model",
    "weights",
    "kv",
    "on",
    "changes",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "attention_dp",
    "ep_mode",
    "kv_shard",
    "ffn_scope",
    "ring",
    "tp_placement",
    "cp_placement",
    "microbatches",
    "profile",
    "prices",
    "engine",
    "switches",
    "reserve",
    "requests",
    "rate",
    "concurrency",
    "load",
    "trace",
    "arrivals",
    "trace_text",
    "speed",
    "variation",
    "prompt",
    "output",
    "turns",
    "think",
    "spread",
    "policy",
    "paging",
    "slots",
    "budget",
    "block_tokens",
    "kv_tokens",
    "chunked",
    "ahead",
    "caching",
    "swap",
    "host_link",
    "replicas",
    "routing",
    "disaggregate",
    "link",
    "draft_tokens",
    "acceptance",
    "slo",
    "at",
    "find",
    "loads",
    "replications",
    "policies",
    "warmup",
    "seed",
    "saturated",
    "timeline",
    "request",
    "loop",
    "requests_table",
    "columns",
    "steps_table"
  ],
  "board": [
    "answers",
    "slots",
    "policies"
  ],
  "compare": [
    "cases",
    "profiles"
  ],
  "snapshot": [
    "scenario"
  ],
  "document": [
    "scenario",
    "baseline",
    "title",
    "baseline_name",
    "link",
    "date"
  ],
  "unpack": [
    "text"
  ],
  "shorten": [
    "model"
  ]
};

/** What an estimate's fields are when nothing is said. */
export const DEFAULTS = {
  "weights": null,
  "kv": null,
  "changes": {},
  "tp": 1,
  "pp": 1,
  "cp": 1,
  "dp": 1,
  "ep": 1,
  "attention_dp": 1,
  "ep_mode": "overlay",
  "kv_shard": null,
  "ffn_scope": null,
  "ring": "kv",
  "tp_placement": null,
  "cp_placement": null,
  "microbatches": 1,
  "profile": "operator",
  "prices": null,
  "engine": "vllm",
  "switches": {},
  "reserve": null,
  "batch": 1,
  "prompt": 1024,
  "output": 256,
  "cached": 0,
  "ignore_memory": false,
  "concurrency": null,
  "max_batched_tokens": null,
  "varied": false,
  "detail": false
} as const;
