// The smallest layout that holds a scenario, as the engine finds it.
import { door, type Question } from "../ask/engine";
import { app } from "../app";
import { describe, layoutTitle, systemTitle } from "./app.svelte";
import { askOf, changed, counted, same, type Change, type Scenario } from "./scenario";

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
  const reserve = app.now.report?.memory.reserve ?? null; // the same for every layout and model
  return { kind: "sharded", model, weights, kv, on, changes, batch, reserve, context: s.prompt + s.output, scope, rows: "pareto", columns: COLUMNS } as Question<"sharded">;
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

/** The layout that a model just taken calls for: the smallest that holds it, or what the engine suggests; null where nothing fits. */
async function suggested(s: Scenario): Promise<Change | null> {
  const holds = async (change: Change): Promise<boolean> => (await door.ask<"fit">(askOf("fit", changed(s, change)) as never).catch(() => null))?.fits ?? false;
  const found = (await smallest(s, "full").catch(() => null))?.change;
  if (found) {
    const { tp, pp, cp, cp_placement, on } = found;
    const degrees: Change = { tp, pp, cp, cp_placement: cp === 1 ? null : cp_placement, dp: 1, ep: 1, attention_dp: 1, ...(on ? { on } : {}) };
    for (const change of [degrees, found]) if (await holds(change)) return change;
  }
  const { model, weights, kv, changes, batch, prompt, output, profile, switches, reserve } = s;
  const ask = { kind: "suggest", model, weights, kv, on: counted(s.on)?.device ?? s.on, changes, users: batch, prompt, output, goal: "devices", count: 1, profile, switches, reserve };
  const layout = (await door.ask<"suggest">(ask as never).catch(() => null))?.layouts[0]?.layout;
  const change = layout ? ({ ...REST, tp_placement: null, cp_placement: null, ...layout } as Change) : null;
  return change && (await holds(change)) ? change : null;
}

/** Take a model, of which something may be `said` already; its layout becomes the one that is suggested for it, which is said and undone in one step. */
export async function takeModel(model: Scenario["model"], said = ""): Promise<void> {
  if (same(model, app.scenario.model)) return;
  const before = layoutTitle(app.scenario);
  app.set({ model });
  const asked = app.scenario;
  const change = await suggested(asked);
  if (!change || app.scenario !== asked || same(changed(asked, change), asked)) return;
  app.set(change);
  app.say(`${said && `${said}. `}Layout set to ${layoutTitle(app.scenario)}${change.on ? ` on ${systemTitle(app.scenario)}` : ""}, the smallest that holds ${describe("model", app.scenario)}`, { name: `Keep ${before}`, run: () => app.undo() });
}
