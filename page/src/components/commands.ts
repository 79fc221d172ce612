// What the command box understands: plain phrases, each a change, a question or a place to go.
import type { App, Row } from "../state/app.svelte";
import { counted, devicesOf, SEGMENTS, TITLES, type Change } from "../state/scenario";
import { text as shownAs } from "../format";
import { later } from "./later.svelte";
import { count } from "./numbers";
import { boundOf, deviceName, formatName, modelName, SUBJECTS } from "../words";
import type { View } from "../views/registry";

export interface Command {
  id: string;
  name: string;
  kind: "change" | "go" | "do" | "why";
  change?: Change;
  /** A setting of the traffic in Serve, or its load. */
  traffic?: Record<string, string>;
  /** What stands at its right where no effect is evaluated. */
  note?: string;
  run: () => void;
}

const FORMATS = ["bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "fp32"];
const UNITS: Record<string, string> = { tpot: "s", ttft: "s", e2e: "s", output_throughput: "token/s", throughput_per_device: "token/s", tokens_per_second_per_user: "token/s" };
const ROLES: Record<string, string> = { step: "performance engineer: where the time goes", fit: "where every byte sits", limits: "student: which batch and context suit a chip", design: "architect: layouts and hardware", serve: "planner: load and capacity", evidence: "how far to trust it" };
const KNOBS: [RegExp, string, string][] = [[/^(?:memory )?bandwidth|hbm/, "memory_bandwidth", "Memory bandwidth"], [/^(?:memory|capacity)/, "memory", "Memory"], [/^(?:flops?|flop\/s|compute)/, "flop_rate", "Peak FLOP/s"], [/^(?:link|nvlink|network)/, "links.0.bandwidth", "Link bandwidth"]];
const POLICIES = { chunked: "chunked prefill", prefill_first: "prefill first", static: "static batch", shortest_first: "shortest first" };

/** What Serve can take, of a phrase: "5 req/s", "40 users", "policy static", "ttft 500 ms", "slots 64". */
function trafficOf(text: string): { name: string; set: Record<string, string> } | null {
  const plain = text.replace(/,(?=\d{3})/g, "");
  const load = /^(?:load|rate)\s+(\d*\.?\d+)(?:\s*(?:req(?:uests?)?\s*(?:\/|per )\s*s(?:ec(?:ond)?)?|rps))?$/.exec(plain) ?? /^(\d*\.?\d+)\s*(?:req(?:uests?)?\s*(?:\/|per )\s*s(?:ec(?:ond)?)?|rps)$/.exec(plain);
  if (load && Number(load[1]) > 0) return { name: `Load ${Number(load[1])} requests/s`, set: { arrivals: "rate", load: load[1]! } };
  const users = /^(\d+)\s+(?:users|people)$/.exec(plain) ?? /^(?:users|people|concurrency)\s+(\d+)$/.exec(plain);
  if (users && Number(users[1]) > 0) return { name: `Traffic of ${Number(users[1])} users`, set: { arrivals: "users", load: users[1]! } };
  const policy = /^policy\s+(.+)$/.exec(plain)?.[1];
  for (const [id, name] of Object.entries(POLICIES)) if (policy ? name.startsWith(policy) || id === policy : plain.length > 3 && name === plain) return { name: `Policy: ${name}`, set: { policy: id } };
  const limit = /^(ttft|tpot)\s*(?:<|<=|≤|at most|limit|under|within)?\s*(\d*\.?\d+)\s*(s|ms|us)$/.exec(plain);
  if (limit) return { name: `${limit[1]!.toUpperCase()} at most ${limit[2]} ${limit[3]}`, set: { [limit[1]!]: `${limit[2]} ${limit[3]}` } };
  const held = /^(?:held by\s+)?(p50|p90|p95|p99|mean)$/.exec(plain);
  if (held) return { name: `Limits held by ${held[1]}`, set: { at: held[1]! } };
  const counts: Record<string, string> = { slots: "Slots", seed: "Seed", requests: "Requests", replicas: "Replicas", turns: "Turns", "token budget": "Token budget", budget: "Token budget", burstiness: "Burstiness" };
  const counted = /^([a-z ]+?)\s+(\d*\.?\d+)$/.exec(plain);
  if (counted && counts[counted[1]!]) return { name: `${counts[counted[1]!]} ${counted[2]}`, set: { [{ "token budget": "budget", burstiness: "variation" }[counted[1]!] ?? counted[1]!]: counted[2]! } };
  if (/^prefix cach/.test(plain)) return { name: "Prefix caching", set: { caching: "1" } };
  return null;
}

/** Serve under a setting: those before stay. */
async function serve(app: App, set: Record<string, string>): Promise<void> {
  const { read, write } = await import("../views/Serve.svelte");
  const { load, ...rest } = set;
  const before = read(app.more.run).settings;
  const asked = read([write(before), ...Object.entries(rest).map(([name, value]) => `${name}=${value}`)].filter(Boolean).join(";"));
  if (asked.problems.length) {
    app.problems = asked.problems;
    return;
  }
  app.view = "serve";
  app.option("run", write(asked.settings));
  if (load || asked.settings.arrivals !== before.arrivals) app.option("load", load ?? "");
}

/** Names that share most pairs of letters with a phrase that nothing matches. */
export function nearest(phrase: string, app: App): string[] {
  const pairs = (text: string): Set<string> => new Set(Array.from({ length: Math.max(0, text.length - 1) }, (_, at) => text.slice(at, at + 2)));
  const asked = pairs(phrase.trim().toLowerCase());
  const near = (name: string): number => {
    const own = pairs(name);
    return (2 * [...own].filter((pair) => asked.has(pair)).length) / (own.size + asked.size || 1);
  };
  return [...(app.shelves.models ?? []), ...(app.shelves.devices ?? []), ...(app.shelves.systems ?? [])].map((row) => String(row.name)).map((name) => ({ name, by: near(name) })).filter((each) => each.by > 0.4).sort((a, b) => b.by - a.by).slice(0, 3).map((each) => each.name);
}

/** A model's id on Hugging Face, of an address there; other text as it is. */
export const hubId = (text: string): string => /^(?:https?:\/\/)?(?:www\.)?(?:huggingface\.co|hf\.co)\/([^/\s?#]+\/[^/\s?#]+)/i.exec(text.trim())?.[1] ?? text;
/** What to do for a model that is not here. */
export const HUB = "Nothing is fetched from the network: download its config.json there and drop it on the page.";

/** What begins with a word comes before what only contains it; of a device's forms, the usual one. */
const rank = (name: string, word: string): number => Number(!name.startsWith(word)) * 2 + Number(!name.includes("-sxm"));
const AXES: Record<string, keyof Change> = { tp: "tp", pp: "pp", cp: "cp", dp: "dp", ep: "ep" };

const COUNTED: Record<string, number> = { one: 1, two: 2, three: 3, four: 4, eight: 8, sixteen: 16 };

/** A question as the phrases that it asks with: "does llama 70b in fp8 fit on two H100s" names three; what starts a phrase of its own is cut off. */
export function plainly(typed: string): string {
  return typed
    .replace(/\?+\s*$/, "")
    .replace(/^\s*(?:does|do|will|would|can)\s+(?:it\s+)?(?=\S)/i, "")
    .replace(/\b(?:how much )?would\s+(.*?)\s+help$/i, "$1")
    .replace(/(?<=\S)\s+fit(?=\s|$)/i, "")
    .replace(/\b(one|two|three|four|eight|sixteen)\s+(?=[a-z]+\d)/gi, (_, word: string) => `${COUNTED[word.toLowerCase()]}x `)
    .replace(/\b(\d+)\s+(?=(?:[abh]\d{2,3}|mi\d{3}x|gb\d{3}|l40|l4|t4)s?\b)/gi, "$1x ")
    .replace(/\b((?:[abh]\d{2,3}|mi\d{3}x|gb\d{3}))s\b/gi, "$1")
    .replace(/(?<=\S)\s+(?=(?:batch|prompt|output|answer|context|tp|pp|cp|dp|ep)\s+\d|\d+\s*[x×]\s*[a-z]|\d[\d.,]*[km]?i?\s+(?:context|prompt|output|answer)\b|(?:bf16|fp16|fp8|int8|int4|nvfp4|mxfp4)\b)/gi, ", ");
}

/** Commands that a phrase could mean, best first; several things said at once ("2x h100, batch 64, 8k context") are one change. */
export function commands(typed: string, app: App, views: View[]): Command[] {
  const phrase = plainly(typed);
  const parts = phrase.split(/,(?!\d{3}\b)|;|\b(?:and|at|on|with|in)\b/i).map((part) => part.trim()).filter(Boolean);
  if (parts.length < 2) return single(phrase, app, views);
  const found = parts.map((part) => single(part, app, views).find((each) => each.kind === "change"));
  if (found.some((each) => !each)) return single(phrase, app, views);
  const change = Object.assign({}, ...found.map((each) => each!.change)) as Change;
  const name = found.map((each) => each!.name).join(", ");
  return [{ id: "all", name, kind: "change" as const, change, run: () => app.set(change) }, ...found.map((each) => each!)].filter((each, at, list) => list.findIndex((other) => other.id === each.id) === at);
}

function single(phrase: string, app: App, views: View[]): Command[] {
  const text = phrase.trim().toLowerCase();
  const found: Command[] = [];
  const change = (id: string, name: string, what: Change) => found.push({ id, name, kind: "change", change: what, run: () => app.set(what) });
  const act = (id: string, name: string, kind: Command["kind"], run: () => void, note = "") => found.push({ id, name, kind, run, note });
  const traffic = views.some((view) => view.name === "serve") ? trafficOf(text) : null;
  if (traffic) found.push({ id: "traffic", name: traffic.name, kind: "do", traffic: traffic.set, run: () => void serve(app, traffic.set) });
  const s = app.scenario;
  const now = app.now.report;
  const valueOf = (id: string): string => {
    const value = id === "ttft_one" ? app.one?.report?.ttft : now && ((now as never)[id] ?? (now.memory as never)[id === "memory" ? "used" : id]);
    return typeof value === "number" ? shownAs(value, UNITS[id] ?? "byte") : "";
  };
  const NAMED = "batch|prompt|output|answer|context|cached";
  const NUMBER = "\\d(?:[\\d,.]*\\d)?(?:e\\d+)?[km]?i?";
  const numbers = new RegExp(`(?:^|\\s)(?<name>${NAMED})(?:\\s+size|\\s+of)?\\s+(?<count>${NUMBER})(?:,?\\s|,?$)`).exec(text) ?? new RegExp(`(?:^|\\s)(?<count>${NUMBER})\\s+(?:tokens\\s+(?:of\\s+)?)?(?<name>${NAMED})(?:\\s|$)`).exec(text);
  if (numbers) {
    const { name, count: typed } = numbers.groups as Record<string, string>;
    const value = count(typed!);
    const field = ({ answer: "output", context: "prompt" } as Record<string, string>)[name!] ?? name!;
    if (value !== null) change(`n-${field}`, `${field === "output" ? "Answer" : field.charAt(0).toUpperCase() + field.slice(1)} ${value.toLocaleString("en-US")}`, { [field]: value } as Change);
  }
  const axis = /^(tp|pp|cp|dp|ep)\s*=?\s*(\d{1,4})$/.exec(text);
  if (axis) change(`axis-${axis[1]}`, `${axis[1]!.toUpperCase()} ${Number(axis[2])}`, { [AXES[axis[1]!]!]: Number(axis[2]) } as Change);
  for (const format of FORMATS) {
    if (!text.includes(format)) continue;
    if (!/\bkv|cache/.test(text)) change(`w-${format}`, `${formatName(format)} weights`, { weights: format });
    if (!/\bweight/.test(text)) change(`kv-${format}`, `KV cache in ${formatName(format)}`, { kv: format });
  }
  const compare = /^(?:compare|vs)\s+(.+)$/.exec(text);
  const name = hubId(compare?.[1] ?? text).replace(/^(?:model|system|device|profile|on)\s+/, "").replace(/^(\d+)\s*[x×*]\s*/, "");
  const devices = Number(/^(\d+)\s*[x×*]\s*/.exec(compare?.[1] ?? text)?.[1] ?? counted(s.on)?.count ?? devicesOf(s));
  const words = name.split(/\s+/).filter(Boolean);
  const has = (row: { name: string; title?: string; also?: string[] }) => words.length > 0 && words.every((word) => `${row.name} ${row.title ?? ""} ${row.also ?? ""}`.toLowerCase().includes(word));
  const first = (rows: Row[] = []): Row[] => rows.filter((row) => has(row as never)).sort((a, b) => rank(String(a.name), words[0]!) - rank(String(b.name), words[0]!));
  if (name.length > 1) {
    for (const row of first(app.shelves.devices).slice(0, 5)) {
      const what: Change = { on: devices > 1 ? `${devices}x ${row.name}` : row.name, changes: {} };
      if (compare) found.push({ id: `cmp-${row.name}`, name: `Compare with ${devices} × ${deviceName(row.name)}`, kind: "do", change: what, run: () => { app.pin(); app.set(what); } });
      else change(`d-${row.name}`, `${devices > 1 ? `${devices} × ` : ""}${deviceName(row.name)}`, what);
    }
    for (const row of first(app.shelves.models).slice(0, 6)) found.push({ id: `m-${row.name}`, name: compare ? `Compare with ${modelName(row.name)}` : modelName(row.name), kind: compare ? "do" : "change", change: { model: row.name }, run: () => { if (compare) app.pin(); void later.load().then(({ takeModel }) => takeModel(row.name)); } });
    for (const row of first(app.shelves.systems).slice(0, 4)) change(`s-${row.name}`, row.title, { on: row.name, changes: {} });
    for (const row of (app.shelves.profiles ?? []).filter((each) => String(each.name).includes(name))) change(`p-${row.name}`, `Profile ${row.name}`, { profile: row.name, switches: {} });
  }
  const spelled = text.replace(/^(?:double|twice)\s+(?:the\s+)?/, "2x ").replace(/^(?:half|halve)\s+(?:the\s+)?/, "0.5x ");
  const times = /^(\d*\.?\d+)\s*(?:[x×]|times)\s*([a-z /]+)$/.exec(spelled) ?? /^([a-z /]+?)\s*[x×]\s*(\d*\.?\d+)$/.exec(spelled) ?? /^([a-z /]+?)\s+(\d*\.?\d+)\s*[x×]$/.exec(spelled);
  const [factor, thing] = times ? (/^\d|^\./.test(times[1]!) ? [times[1]!, times[2]!] : [times[2]!, times[1]!]) : ["", ""];
  for (const [words, field, name] of KNOBS) if (thing && words.test(thing.trim()) && Number(factor) > 0) {
    change(`x-${field}`, `${name} × ${Number(factor)}, of the machine’s own`, { changes: { ...(s.changes as object), [field]: `${Number(factor)}x` } });
    break;
  }
  const limits = /^what\s+(?:limits|binds|bounds)\s*(decode|prefill)?/.exec(text);
  if (limits) {
    const phase = limits[1] ?? "decode";
    const bound = (now?.bound ?? now?.would_bound)?.[phase];
    act("limits", `What limits ${phase}`, "why", () => { app.view = "step"; app.option("phase", phase === "prefill" ? phase : ""); app.selection = ""; }, bound && `${boundOf(bound)}${now?.bound ? "" : ", if it fitted"}`);
  }
  const why = /^why\s*(.*)$/.exec(text.replace(/\b(?:is|was|so|that|this|the|number)\b/g, "").replace(/\s+/g, " ").trim());
  for (const [id, subject] of Object.entries(SUBJECTS)) {
    if (why ? subject.name.toLowerCase().includes(why[1]!) || subject.short.toLowerCase().includes(why[1]!) : text.length > 2 && subject.name.toLowerCase().includes(text)) act(`why-${id}`, `Why: ${subject.name.toLowerCase()}`, "why", () => { app.selection = ""; app.explain(`kpi:${id}`); }, valueOf(id));
  }
  for (const view of views) if (!view.aside && (!text || view.title.toLowerCase().startsWith(text))) act(`v-${view.name}`, `Go to ${view.title}`, "go", () => { app.view = view.name; }, text ? "" : (ROLES[view.name] ?? ""));
  for (const segment of SEGMENTS) if (!text || TITLES[segment].toLowerCase().startsWith(text) || text === `change ${segment}`) act(`e-${segment}`, `Change the ${TITLES[segment].toLowerCase()}`, "do", () => { app.open = segment; });
  const doings: [string, string, () => void][] = [
    ["pin", "Pin the current scenario as baseline", () => app.pin()],
    ["swap", "Swap with the baseline", () => app.swap()],
    ["unpin", "Unpin the baseline", () => app.unpin()],
    ["save", "Save this scenario under a name", () => app.save()],
    ["compare", "Compare saved scenarios and profiles", () => app.compare(true)],
    ["export", "Export a report or the scenario", () => app.exporting()],
    ["undo", "Undo the last change", () => app.undo()],
    ["redo", "Redo", () => app.redo()],
    ["dark", "Dark theme", () => app.setTheme("dark")],
    ["light", "Light theme", () => app.setTheme("light")],
    ["reset", "Reset: forget the scenario, the baseline and what is saved in this browser", () => { app.open = "reset"; }],
    ["keys", "Keyboard shortcuts", () => { app.open = "keys"; }],
  ];
  for (const [id, label, run] of doings) if (text && (label.toLowerCase().includes(text) || id.startsWith(text))) act(id, label, "do", run);
  return found.slice(0, 12);
}
