// The smallest layout that holds a scenario, as the engine finds it.
import { door, type Question } from "../ask/engine";
import { askOf, changed, counted, type Change, type Scenario } from "./scenario";

export type Scope = "full" | "attention" | "ffn";

const COLUMNS = ["tp", "pp", "cp", "tp_placement", "cp_placement", "devices", "units", "groups"];
/** What the smallest layout leaves as it is when nothing is said. */
const REST: Change = { dp: 1, ep: 1, attention_dp: 1, kv_shard: null, ffn_scope: null, ring: "kv", microbatches: 1 };

export interface Smallest {
  change: Change;
  devices: number;
  /** Groups of the innermost level that it spans, and groups of those. */
  units: number;
  groups: number;
}

export function question(s: Scenario, scope: Scope): Question<"sharded"> {
  const on = counted(s.on)?.device ?? s.on; // as many devices as the machine joins
  const { model, weights, kv, changes, batch } = s;
  return { kind: "sharded", model, weights, kv, on, changes, batch, context: s.prompt + s.output, scope, rows: "pareto", columns: COLUMNS } as Question<"sharded">;
}

/** The smallest that holds one scope's bytes; null where none does. Throws what the engine refuses. */
export async function smallest(s: Scenario, scope: Scope): Promise<Smallest | null> {
  const report = await door.ask<"sharded">(question(s, scope));
  if (report.smallest === null || report.smallest === undefined) return null;
  const row = Object.fromEntries(Object.entries(report.table.columns).map(([name, values]) => [name, values[report.smallest!]]));
  const { tp, pp, cp, tp_placement, cp_placement } = row as Change;
  const devices = Number(row.devices);
  const found = counted(s.on);
  const on = found ? { on: devices === 1 ? found.device : `${devices}x ${found.device}` } : {};
  return { change: { ...REST, tp, pp, cp, tp_placement, cp_placement, ...on }, devices, units: Number(row.units), groups: Number(row.groups) };
}

/** A layout for a model that the present one does not hold or cannot cut; null where it may stay, or where nothing fits. */
export async function instead(s: Scenario): Promise<Change | null> {
  const holds = async (one: Scenario): Promise<boolean> => (await door.ask<"fit">(askOf("fit", one) as never).catch(() => null))?.fits ?? false;
  if (await holds(s)) return null;
  const found = await smallest(s, "full").catch(() => null);
  if (found && (await holds(changed(s, found.change)))) return found.change;
  const { model, weights, kv, changes, batch, prompt, output, profile, switches, reserve } = s;
  const ask = { kind: "suggest", model, weights, kv, on: counted(s.on)?.device ?? s.on, changes, users: batch, prompt, output, goal: "devices", count: 1, profile, switches, reserve };
  const layout = (await door.ask<"suggest">(ask as never).catch(() => null))?.layouts[0]?.layout;
  if (!layout) return null;
  const change = { ...REST, tp_placement: null, cp_placement: null, ...layout } as Change;
  return (await holds(changed(s, change))) ? change : null;
}
