// The knobs of a scenario: what each field is now, and what it may be tried at. Those of `USUAL` are always drawn, others when asked for.
import { app } from "../../app";
import { DIMENSIONS, withFigure } from "../../components/dimensions";
import { whole } from "../../format";
import { devicesOf, type Change, type Scenario } from "../../state/scenario";
import { bare, formatName, linksOf } from "../../words";
import { room } from "./machines";
import { times } from "./points";

export interface Knob {
  name: string;
  now: number;
  values: { at: number; label: string; change: Change }[];
  /** Whether a value may be taken with a click; multiples of a machine are only looked at. */
  taken: boolean;
}

export const HARDWARE: [string, string][] = [["memory_bandwidth", "Memory bandwidth"], ["flop_rate", "Peak FLOP/s"], ["links.0.bandwidth", "Link bandwidth"]];
export const USUAL = ["TP", "PP", "Batch", "Prompt", ...HARDWARE.map(([, name]) => name)];
const FORMATS = ["bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4"];
/** Fields with a few values to choose from. */
const CHOSEN: Record<string, [keyof Scenario, (string | null)[]]> = {
  "KV heads under TP": ["kv_shard", [null, "split", "replicate"]],
  "FFN scope": ["ffn_scope", [null, "tp", "tp_cp", "tp_cp_dp"]],
  "TP placed": ["tp_placement", [null, "inner", "outer"]],
  "CP placed": ["cp_placement", [null, "inner", "outer"]],
  "CP ring": ["ring", ["kv", "qoml"]],
  "Prices": ["prices", [null, "roofline", "fitted"]],
};

/** A figure of the machine, times what it is now. */
export const figure = (s: Scenario, field: string, factor: number): Change => ({ changes: { ...s.changes, [field]: times(s.changes[field], factor) } });

const sorted = (values: number[]): number[] => [...new Set(values)].sort((a, b) => a - b);
const around = (now: number, least: number, most: number): number[] => sorted([...[0.125, 0.25, 0.5, 1, 2, 4, 8].map((factor) => Math.max(least, Math.round(now * factor))), now]).filter((each) => each <= most);
const short = (n: number): string => (n >= 1024 && n % 512 === 0 ? `${Number((n / 1024).toFixed(1))}k` : whole(n));

function counts(name: string, now: number, values: number[], change: (at: number) => Change, label = whole): Knob {
  return { name, now, values: values.map((at) => ({ at, label: label(at), change: change(at) })), taken: true };
}

/** Values in a row, evenly apart on the axis. */
function choices(name: string, now: unknown, list: (string | null)[], change: (value: string | null) => Change, label: (value: string | null) => string): Knob {
  const all = list.includes(now as string | null) ? list : [...list, now as string];
  return { name, now: 2 ** all.indexOf(now as string | null), values: all.map((value, at) => ({ at: 2 ** at, label: label(value), change: change(value) })), taken: true };
}

function multiples(s: Scenario, field: string, name: string): Knob {
  return { name, now: 1, values: [0.25, 0.5, 1, 2, 4].map((at) => ({ at, label: `${at}×`, change: at === 1 ? {} : figure(s, field, at) })), taken: false };
}

/** The usual knobs, and the one asked for where it is another. */
export function knobsOf(s: Scenario, asked: string): Knob[] {
  /** The layout at another degree, on as many devices as it takes. */
  const degrees = (name: string, axis: "tp" | "pp" | "dp" | "cp" | "ep" | "attention_dp", values: number[]): Knob =>
    counts(name, s[axis], sorted([...values, s[axis]]), (at) => ({ [axis]: at, on: room(s, Math.max(devicesOf({ ...s, [axis]: at }), axis === "ep" ? at : s.ep)) }));
  const all: Knob[] = [
    degrees("TP", "tp", [1, 2, 4, 8]),
    degrees("PP", "pp", [1, 2, 4]),
    counts("Batch", s.batch, around(s.batch, 1, 1 << 20), (batch) => ({ batch })),
    counts("Prompt", s.prompt, around(s.prompt, 1, 1 << 24), (prompt) => ({ prompt, cached: Math.min(s.cached, prompt - 1) }), short),
    ...HARDWARE.map(([field, name]) => multiples(s, field, name)),
  ];
  if (!asked || USUAL.includes(asked)) return all;
  const links = linksOf(app.shelves, s.on);
  const rates = (app.shelves.profiles?.find((row) => row.name === s.profile)?.rates ?? {}) as Record<string, number>;
  const used: Record<string, string> = { "Compute used": "compute_efficiency", "Bandwidth used": "memory_efficiency", "Link used": "link_efficiency" };
  const dimensions = app.model.report?.dimensions ?? {};
  const others: Record<string, () => Knob> = {
    DP: () => degrees("DP", "dp", [1, 2, 4, 8]),
    CP: () => degrees("CP", "cp", [1, 2, 4, 8]),
    EP: () => degrees("EP", "ep", [1, 2, 4, 8, 16]),
    "Attention DP": () => degrees("Attention DP", "attention_dp", [1, 2, 4, 8]),
    Microbatches: () => counts("Microbatches", s.microbatches, sorted([1, 2, 4, 8, s.microbatches]), (microbatches) => ({ microbatches })),
    Answer: () => counts("Answer", s.output, around(s.output, 2, 1 << 21), (output) => ({ output }), short),
    Cached: () => counts("Cached", Math.max(1, s.cached), sorted([1, ...[0.125, 0.25, 0.5, 0.75].map((part) => Math.max(1, Math.round(s.prompt * part))), Math.max(1, s.cached)]).filter((at) => at < s.prompt || at === 1), (cached) => ({ cached: Math.min(cached, s.prompt - 1) }), short),
    Weights: () => choices("Weights", typeof s.weights === "string" ? s.weights : null, [null, ...FORMATS], (weights) => ({ weights }), (value) => (value ? formatName(value) : "as stored")),
    "KV cache": () => choices("KV cache", s.kv, [null, ...FORMATS], (kv) => ({ kv }), (value) => (value ? formatName(value) : "as stored")),
    "Memory capacity": () => multiples(s, "memory", "Memory capacity"),
    ...Object.fromEntries(links.flatMap((link, at) => [[`Bandwidth of ${link.name}`, () => multiples(s, `links.${at}.bandwidth`, `Bandwidth of ${link.name}`)], [`Latency of ${link.name}`, () => multiples(s, `links.${at}.latency`, `Latency of ${link.name}`)]])),
    ...Object.fromEntries(Object.entries(used).map(([name, field]) => [name, () => {
      const now = Math.round(Number(s.switches[field] ?? rates[field] ?? 1) * 100);
      return counts(name, now, sorted([20, 40, 60, 80, 100, now]), (at) => ({ switches: { ...(s.switches as object), [field]: at / 100 } }), (at) => `${at} %`);
    }])),
    ...Object.fromEntries(Object.entries(DIMENSIONS).filter(([key]) => key in dimensions).map(([key, name]) => [name, () => counts(name, dimensions[key]!, around(dimensions[key]!, 1, 1 << 18), (at) => ({ model: withFigure(s.model, key, at) }))])),
    ...Object.fromEntries(Object.entries(CHOSEN).map(([name, [field, list]]) => [name, () => choices(name, s[field], list, (value) => ({ [field]: value }), (value) => value?.replaceAll("_", "+") ?? "profile's")])),
  };
  const found = bare(others)[asked]?.();
  return found ? [found, ...all] : all;
}
