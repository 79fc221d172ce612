// What the command box understands: plain phrases, each a change, a question or a place to go.
import type { App, Row } from "../state/app.svelte";
import { counted, devicesOf, SEGMENTS, TITLES, type Change } from "../state/scenario";
import { deviceName, formatName, modelName, SUBJECTS } from "../words";
import type { View } from "../views/registry";

export interface Command {
  id: string;
  name: string;
  kind: "change" | "go" | "do" | "why";
  change?: Change;
  run: () => void;
}

const FORMATS = ["bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "fp32"];
const AXES: Record<string, keyof Change> = { tp: "tp", pp: "pp", cp: "cp", dp: "dp", ep: "ep" };

/** Commands that a phrase could mean, best first; several things said at once ("2x h100, batch 64, 8k context") are one change. */
export function commands(phrase: string, app: App, views: View[]): Command[] {
  const parts = phrase.split(/,(?!\d{3}\b)|;|\b(?:and|at|on|with|in)\b/i).map((part) => part.trim()).filter(Boolean);
  if (parts.length < 2) return single(phrase, app, views);
  const found = parts.map((part) => single(part, app, views).find((each) => each.change));
  if (found.some((each) => !each)) return single(phrase, app, views);
  const change = Object.assign({}, ...found.map((each) => each!.change)) as Change;
  const name = found.map((each) => each!.name).join(", ");
  return [{ id: "all", name, kind: "change" as const, change, run: () => app.set(change) }, ...found.map((each) => each!)].filter((each, at, list) => list.findIndex((other) => other.id === each.id) === at);
}

function single(phrase: string, app: App, views: View[]): Command[] {
  const text = phrase.trim().toLowerCase();
  const found: Command[] = [];
  const change = (id: string, name: string, what: Change) => found.push({ id, name, kind: "change", change: what, run: () => app.set(what) });
  const act = (id: string, name: string, kind: Command["kind"], run: () => void) => found.push({ id, name, kind, run });
  const s = app.scenario;
  const NAMED = "batch|prompt|output|answer|context|cached";
  const numbers = new RegExp(`(?:^|\\s)(?<name>${NAMED})(?:\\s+size|\\s+of)?\\s+(?<count>[\\d,]+)(?<kilo>k?)(?:\\s|$)`).exec(text) ?? new RegExp(`(?:^|\\s)(?<count>[\\d,]+)(?<kilo>k?)\\s+(?:tokens\\s+(?:of\\s+)?)?(?<name>${NAMED})(?:\\s|$)`).exec(text);
  if (numbers) {
    const { name, count, kilo } = numbers.groups as Record<string, string>;
    const value = Number(count!.replaceAll(",", "")) * (kilo ? 1024 : 1);
    const field = ({ answer: "output", context: "prompt" } as Record<string, string>)[name!] ?? name!;
    if (value > 0) change(`n-${field}`, `${field === "output" ? "Answer" : field.charAt(0).toUpperCase() + field.slice(1)} ${value.toLocaleString("en-US")}`, { [field]: value } as Change);
  }
  const axis = /^(tp|pp|cp|dp|ep)\s*=?\s*(\d{1,4})$/.exec(text);
  if (axis && Number(axis[2]) > 0) change(`axis-${axis[1]}`, `${axis[1]!.toUpperCase()} ${Number(axis[2])}`, { [AXES[axis[1]!]!]: Number(axis[2]) } as Change);
  for (const format of FORMATS) {
    if (!text.includes(format)) continue;
    if (!/\bkv|cache/.test(text)) change(`w-${format}`, `${formatName(format)} weights`, { weights: format });
    if (!/\bweight/.test(text)) change(`kv-${format}`, `KV cache in ${formatName(format)}`, { kv: format });
  }
  const compare = /^(?:compare|vs)\s+(.+)$/.exec(text);
  const name = (compare?.[1] ?? text).replace(/^(\d+)\s*[x×*]\s*/, "");
  const count = Number(/^(\d+)\s*[x×*]\s*/.exec(compare?.[1] ?? text)?.[1] ?? counted(s.on)?.count ?? devicesOf(s));
  const words = name.split(/\s+/).filter(Boolean);
  const has = (row: { name: string; title?: string }) => words.length > 0 && words.every((word) => `${row.name} ${row.title ?? ""}`.toLowerCase().includes(word));
  // What begins with the phrase comes before what only contains it.
  const first = (rows: Row[] = []): Row[] => rows.filter((row) => has(row as never)).sort((a, b) => Number(!String(a.name).startsWith(words[0]!)) - Number(!String(b.name).startsWith(words[0]!)));
  if (name.length > 1) {
    for (const row of first(app.shelves.devices).slice(0, 5)) {
      const what: Change = { on: count > 1 ? `${count}x ${row.name}` : row.name, changes: {} };
      if (compare) act(`cmp-${row.name}`, `Compare with ${count} × ${deviceName(row.name)}`, "do", () => { app.pin(); app.set(what); });
      else change(`d-${row.name}`, `${count > 1 ? `${count} × ` : ""}${deviceName(row.name)}`, what);
    }
    for (const row of first(app.shelves.models).slice(0, 6)) change(`m-${row.name}`, modelName(row.name), { model: row.name });
    for (const row of first(app.shelves.systems).slice(0, 4)) change(`s-${row.name}`, row.title, { on: row.name, changes: {} });
    for (const row of (app.shelves.profiles ?? []).filter((each) => String(each.name).includes(name))) change(`p-${row.name}`, `Profile ${row.name}`, { profile: row.name, switches: {} });
  }
  const times = /^([\d.]+)\s*[x×]?\s*(?:times\s+)?(?:memory\s+)?bandwidth$/.exec(text);
  if (times) {
    const now = (app.now.report?.decode_step ?? app.now.report?.prefill_step)?.roofs.memory_bandwidth;
    if (now && Number(times[1]) > 0) change("bw", `Memory bandwidth × ${times[1]}`, { changes: { ...(s.changes as object), memory_bandwidth: now * Number(times[1]) } });
  }
  const why = /^why\s*(.*)$/.exec(text);
  for (const [id, subject] of Object.entries(SUBJECTS)) {
    if (why ? subject.name.toLowerCase().includes(why[1]!) || subject.short.toLowerCase().includes(why[1]!) : text.length > 2 && subject.name.toLowerCase().includes(text)) act(`why-${id}`, `Why: ${subject.name.toLowerCase()}`, "why", () => { app.selection = ""; app.explain(`kpi:${id}`); });
  }
  for (const view of views) if (!view.aside && (!text || view.title.toLowerCase().startsWith(text))) act(`v-${view.name}`, `Go to ${view.title}`, "go", () => { app.view = view.name; });
  for (const segment of SEGMENTS) if (!text || TITLES[segment].toLowerCase().startsWith(text) || text === `change ${segment}`) act(`e-${segment}`, `Change the ${TITLES[segment].toLowerCase()}`, "do", () => { app.open = segment; });
  const doings: [string, string, () => void][] = [
    ["pin", "Pin the current scenario as baseline", () => app.pin()],
    ["swap", "Swap with the baseline", () => app.swap()],
    ["unpin", "Unpin the baseline", () => app.unpin()],
    ["save", "Save this scenario under a name", () => app.save()],
    ["compare", "Compare saved scenarios and profiles", () => app.compare(true)],
    ["export", "Export a report or the scenario", () => document.getElementById("export")?.click()],
    ["undo", "Undo the last change", () => app.undo()],
    ["redo", "Redo", () => app.redo()],
    ["dark", "Dark theme", () => app.setTheme("dark")],
    ["light", "Light theme", () => app.setTheme("light")],
    ["reset", "Reset: forget the scenario, the baseline and what is saved in this browser", () => { if (confirm("Reset forgets the scenario, the baseline and everything saved in this browser. Go on?")) app.reset(); }],
    ["keys", "Keyboard shortcuts", () => { app.open = "keys"; }],
  ];
  for (const [id, label, run] of doings) if (text && (label.toLowerCase().includes(text) || id.startsWith(text))) act(id, label, "do", run);
  return found.slice(0, 12);
}
