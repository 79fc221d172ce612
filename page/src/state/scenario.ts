// The scenario: six segments that together say what is being asked. Its fields are the engine's own.
import { DEFAULTS, FIELDS_OF, type EstimateAsk, type Kinds } from "../contract";
import { whole } from "../format";
import { deviceName } from "../words";
import { known } from "./known.svelte";

/** The fields of an estimate without what only the page sets. */
export type Scenario = Omit<Required<EstimateAsk>, "kind" | "ignore_memory" | "detail">;
export type Change = Partial<Scenario>;

/** Tokens: one range for every field and slider of a length. */
export const LONGEST = 2 ** 21;

export const SEGMENTS = ["model", "system", "layout", "workload", "precision", "profile"] as const;
export type Segment = (typeof SEGMENTS)[number];

export const FIELDS: Record<Segment, (keyof Scenario)[]> = {
  model: ["model"],
  system: ["on", "changes"],
  layout: ["tp", "pp", "cp", "dp", "ep", "attention_dp", "ep_mode", "kv_shard", "ffn_scope", "ring", "tp_placement", "cp_placement", "microbatches"],
  workload: ["prompt", "output", "batch", "cached", "concurrency", "max_batched_tokens", "varied"],
  precision: ["weights", "kv"],
  profile: ["profile", "prices", "engine", "switches", "reserve"],
};
export const TITLES: Record<Segment, string> = { model: "Model", system: "System", layout: "Layout", workload: "Workload", precision: "Precision", profile: "Profile" };

const { ignore_memory: _ignored, detail: _detail, ...PLAIN } = DEFAULTS;

/** A whole scenario from the fields that are said. */
export function scenario(said: Change & Pick<Scenario, "model" | "on">): Scenario {
  return { ...structuredClone(PLAIN), ...said } as unknown as Scenario;
}

export function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function changedFields(a: Scenario, b: Scenario): (keyof Scenario)[] {
  return (Object.keys(a) as (keyof Scenario)[]).filter((field) => !same(a[field], b[field]));
}

export function changedSegments(a: Scenario, b: Scenario): Segment[] {
  const fields = new Set(changedFields(a, b));
  return SEGMENTS.filter((segment) => FIELDS[segment].some((field) => fields.has(field)));
}

/** "4x h100-sxm" as its count and its device; whole systems have no count. */
export function counted(on: Scenario["on"]): { count: number; device: string } | null {
  const found = typeof on === "string" ? /^\s*(\d+)\s*[x×*]\s*(.+?)\s*$/.exec(on) : null;
  return found ? { count: Number(found[1]), device: found[2]! } : null;
}

/** So many devices, or so many of a whole system's. */
export function machineTitle(count: number, device: string): string {
  return known.systems.has(device) ? `${whole(count)} devices of ${deviceName(device)}` : `${whole(count)} × ${deviceName(device)}`;
}

/** Devices a layout takes when every degree multiplies. */
export function devicesOf(s: Pick<Scenario, "tp" | "pp" | "cp" | "dp" | "attention_dp">): number {
  return s.tp * s.pp * s.cp * s.dp * s.attention_dp;
}

/** Degrees that so many devices hold: fewer replicas, then fewer ranks, each a divisor of what there was. */
function fewer(s: Scenario, most: number): Change {
  const cut: Change = {};
  for (const axis of ["dp", "tp", "cp", "attention_dp", "pp"] as const) {
    const rest = devicesOf({ ...s, ...cut, [axis]: 1 });
    if (rest * s[axis] <= most) break;
    cut[axis] = Math.max(1, ...Array.from({ length: s[axis] }, (_, at) => at + 1).filter((each) => s[axis] % each === 0 && rest * each <= most));
  }
  return cut;
}

/**
 * The scenario with a change. A counted system follows the layout where it held just the layout before, or would be too small;
 * the layout follows where the same devices become too few.
 */
export function changed(s: Scenario, change: Change): Scenario {
  const next = { ...s, ...change };
  const system = counted(next.on);
  const layout = FIELDS.layout.some((field) => field in change);
  if (system && layout && !("on" in change)) {
    const needed = devicesOf(next);
    if (needed > system.count || devicesOf(s) === system.count) next.on = needed === 1 ? system.device : `${needed}x ${system.device}`;
  } else if (layout && !("on" in change) && typeof next.on === "string" && devicesOf(s) === 1 && devicesOf(next) > 1 && !known.systems.has(next.on)) {
    next.on = `${devicesOf(next)}x ${next.on}`;
  } else if (!layout && typeof next.on === "string" && next.on !== s.on && (system?.device ?? next.on) === (counted(s.on)?.device ?? s.on)) {
    return { ...next, ...fewer(next, system?.count ?? 1) };
  }
  return next;
}

/** A question of a kind about a scenario: the fields that it knows. */
export function askOf<K extends keyof Kinds>(kind: K, s: Scenario, more: Record<string, unknown> = {}): { kind: K } & Record<string, unknown> & Pick<Scenario, "model" | "on"> {
  const known = new Set(FIELDS_OF[kind]);
  return { kind, ...(Object.fromEntries(Object.entries(s).filter(([field]) => known.has(field))) as Scenario), ...more };
}
