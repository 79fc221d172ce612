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

/** The chip roofline: critical batch, balance context, knee, regimes, budgets. */
export interface ChipAsk {
  kind: "chip";
  model: string | Record<string, unknown>;
  weights?: string | Record<string, string> | null;
  kv?: string | null;
  on: string | Record<string, unknown>;
  changes?: Record<string, unknown>;
  batch?: number;
  context?: number;
  flops_multiplier?: number;
  bandwidth_multiplier?: number;
  tp?: number;
  pp?: number;
  cp?: number;
}

/** What is in the catalog. */
export interface CatalogAsk {
  kind: "catalog";
  what?: "devices" | "formats" | "models" | "profiles" | "systems";
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
  shares?: Record<string, Record<string, number>> | null;
  cost_per_million_tokens?: Record<string, number> | null;
  energy_per_token?: number | null; // J
  low?: FiguresReport | null;
  high?: FiguresReport | null;
  basis?: string;
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

/** The step behind a time: the prefill pass of TTFT, or the decode step of TPOT. */
export interface StepDetail {
  time: number; // s
  sequences: number;
  tokens: number;
  context: number;
  bound: string;
  terms: Record<string, number>; // s
  parts: PartReport[];
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
  unit: string;
  formula: string;
  substituted: string;
  value: number;
  inputs: Record<string, unknown>;
  bases: Record<string, string>;
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

export type Ask = InspectAsk | EstimateAsk | StepAsk | ExplainAsk | FitAsk | ChipAsk | CatalogAsk;

export type Report = InspectReport | EstimateReport | StepReport | ExplainReport | FitReport | ChipReport | CatalogReport;

/** Which report answers which question. */
export interface Kinds {
  inspect: { ask: InspectAsk; report: InspectReport };
  estimate: { ask: EstimateAsk; report: EstimateReport };
  step: { ask: StepAsk; report: StepReport };
  explain: { ask: ExplainAsk; report: ExplainReport };
  fit: { ask: FitAsk; report: FitReport };
  chip: { ask: ChipAsk; report: ChipReport };
  catalog: { ask: CatalogAsk; report: CatalogReport };
}

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
  "detail": false
} as const;
