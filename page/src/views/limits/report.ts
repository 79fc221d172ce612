// What the engine says about a chip, and its plots as series. Everything is the engine's; only null and order are handled here.
import type { ChipReport } from "../../contract";
import { digits, text, whole } from "../../format";
import type { Bound } from "../../words";

export interface Latency { batch: number; weight: number; compute: number; kv: number; memory: number; total: number }
export interface Budget { batch: number; context: number; weights: number; kv: number; transient: number; reserve: number; used: number; budget: number; free: number; over_budget: boolean }
export interface Sensitivity { multiplier: number; intensity: number; critical_batch: number }
export interface FormulaRow { symbol: string; formula: string; with_numbers: string; meaning: string; value: number | null; unit: string; text: string }
export interface RegimeRow { name: string; short_context: string; long_context: string; value: number | null; text: string }
interface Chip { flop_rate: number; memory_bandwidth: number }
export interface Limits {
  device: string;
  batch: number;
  context: number;
  flops_multiplier: number;
  bandwidth_multiplier: number;
  chip: Chip;
  base: Chip;
  intensity: number;
  critical_batch: number;
  balance_context: number | null;
  knee_batch: number | null;
  max_context: number | null;
  regime: string;
  good_batch: number;
  good_batch_reason: string;
  good_context_reason: string;
  utilization: number;
  step: Latency;
  token: Latency;
  memory: Budget;
  memory_batch: number | null;
  regimes: RegimeRow[];
  formulas: FormulaRow[];
  curves: {
    step_latency: Latency[];
    token_latency: Latency[];
    cost_at_context: { ratio: number; context: number; points: Latency[] }[];
    knee: { context: number; batch: number | null }[];
    memory_vs_context: Budget[];
    memory_vs_batch: Budget[];
    flops_sensitivity: Sensitivity[];
    bandwidth_sensitivity: Sensitivity[];
  };
  step_formula: string;
  caption: string;
  sparsity_hint: string | null;
  guidance: string;
}

export function limitsOf(report: ChipReport | null): Limits | null {
  return report ? (report.chip as unknown as Limits) : null;
}

/** The regime's name in the words and colours of the other views. */
export function regimeOf(regime: string): { bound: Bound; name: string } {
  if (regime === "compute-bound") return { bound: "compute", name: "compute" };
  return { bound: "memory", name: regime === "kv-bound" ? "KV cache" : "weights" };
}

/** A multiplier of the address, or 1 where it is none in range. */
export function multiplier(raw: string | undefined): number {
  const found = Number(raw ?? "1");
  return Number.isFinite(found) && found >= 0.25 && found <= 8 ? found : 1;
}

/** A count that need not be whole: in full from 100 on. */
export function about(x: number | null | undefined, absent = "–"): string {
  return x === null || x === undefined ? absent : x >= 100 ? whole(Math.round(x)) : digits(x);
}

/** A context in few characters: 512, 8 Ki, 1 Mi. */
export function short(x: number): string {
  const plain = (size: number): string => digits(x / size).replace(/\.?0+$/, (zeros) => (zeros.startsWith(".") || digits(x / size).includes(".") ? "" : zeros));
  if (x >= 2 ** 20) return `${plain(2 ** 20)} Mi`;
  if (x >= 1024) return `${plain(1024)} Ki`;
  return whole(x);
}

export const seconds = (x: number | null): string => text(x, "s");
