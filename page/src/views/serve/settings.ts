// What is sent to the engine beside the scenario: traffic, limits, scheduler, replicas. Its fields are the engine's own; in the
// address they are one text, name=value, defaults left out.
import { askOf, type Scenario } from "../../state/scenario";
import type { Question } from "../../ask/engine";

export type Value = string | number | boolean;
export type Settings = Record<string, Value>;

export interface Field {
  name: string;
  title: string;
  group: "traffic" | "limits" | "scheduler" | "replicas";
  kind: "count" | "number" | "text" | "choice" | "flag";
  usual: Value;
  least?: number;
  most?: number;
  choices?: [string, string][];
  help?: string;
  /** Shown at once rather than among all. */
  first?: boolean;
}

export const POLICIES: [string, string][] = [["chunked", "Chunked prefill"], ["prefill_first", "Prefill first"], ["static", "Static batch"], ["shortest_first", "Shortest first"]];

export const FIELDS: Field[] = [
  { name: "arrivals", title: "Arrivals", group: "traffic", kind: "choice", usual: "rate", choices: [["rate", "at a rate"], ["users", "of users"], ["trace", "of a trace"]], first: true, help: "at a rate whatever the engine does; of users that each wait for their answer; or as a file says" },
  { name: "variation", title: "Burstiness", group: "traffic", kind: "number", usual: 1, least: 0, most: 100, first: true, help: "coefficient of variation of the gaps: 1 is Poisson, 0 even, 3 bursty" },
  { name: "requests", title: "Requests", group: "traffic", kind: "count", usual: 2000, least: 1, most: 200_000, first: true, help: "of every run; a page takes up to 200,000, the command rooflab simulate ten million" },
  { name: "seed", title: "Seed", group: "traffic", kind: "count", usual: 0, least: 0, most: 2 ** 31, first: true, help: "the same seed gives the same requests, bit by bit" },
  { name: "prompt", title: "Prompt lengths", group: "traffic", kind: "text", usual: "", first: true, help: "empty: all as long as the scenario's prompt. Or lognormal:1024:0.8 (mean, spread), uniform:100:2000, geometric:256, choice:128@0.7,2048@0.3" },
  { name: "output", title: "Answer lengths", group: "traffic", kind: "text", usual: "", first: true, help: "the same for answers" },
  { name: "turns", title: "Turns", group: "traffic", kind: "count", usual: 1, least: 1, most: 1000, help: "of a conversation; each prompt begins with all that was said before" },
  { name: "think", title: "Pause", group: "traffic", kind: "text", usual: "0 s", help: "mean pause before a user's next request" },
  { name: "warmup", title: "Warm-up", group: "traffic", kind: "count", usual: 0, least: 0, most: 200_000, help: "first requests that are left out of the times" },
  { name: "ttft", title: "TTFT at most", group: "limits", kind: "text", usual: "1 s", first: true, help: "empty for no limit" },
  { name: "tpot", title: "TPOT at most", group: "limits", kind: "text", usual: "50 ms", first: true, help: "empty for no limit" },
  { name: "at", title: "Held by", group: "limits", kind: "choice", usual: "p95", choices: [["mean", "the mean"], ["p50", "50 %"], ["p90", "90 %"], ["p95", "95 %"], ["p99", "99 %"]], first: true },
  { name: "slots", title: "Slots", group: "scheduler", kind: "count", usual: 256, least: 1, most: 65_536, first: true, help: "sequences at once, per replica (max_num_seqs)" },
  { name: "budget", title: "Token budget", group: "scheduler", kind: "count", usual: 8192, least: 1, most: 2 ** 24, first: true, help: "tokens an iteration computes at most (max_num_batched_tokens)" },
  { name: "paging", title: "KV cache", group: "scheduler", kind: "choice", usual: "paged", choices: [["paged", "grows in pages"], ["reserve", "reserved whole"]], help: "reserved: prompt and answer at admission" },
  { name: "kv_tokens", title: "KV tokens", group: "scheduler", kind: "count", usual: 0, least: 0, most: 2 ** 31, help: "of a replica; 0 takes what the memory holds" },
  { name: "block_tokens", title: "Block", group: "scheduler", kind: "count", usual: 16, least: 1, most: 65_536, help: "tokens of a page" },
  { name: "chunked", title: "Prompts in chunks", group: "scheduler", kind: "flag", usual: true },
  { name: "ahead", title: "Decide ahead", group: "scheduler", kind: "flag", usual: true, help: "an iteration is decided when the one before it starts (async_scheduling)" },
  { name: "caching", title: "Prefix caching", group: "scheduler", kind: "flag", usual: false },
  { name: "draft_tokens", title: "Drafted tokens", group: "scheduler", kind: "count", usual: 0, least: 0, most: 64, help: "per step: speculative decoding" },
  { name: "acceptance", title: "Acceptance", group: "scheduler", kind: "number", usual: 0.7, least: 0, most: 1, help: "chance that a drafted token is accepted" },
  { name: "replicas", title: "Replicas", group: "replicas", kind: "count", usual: 0, least: 0, most: 4096, first: true, help: "engines that share the requests; the layout's DP unless said otherwise" },
  { name: "routing", title: "Routing", group: "replicas", kind: "choice", usual: "round_robin", choices: [["round_robin", "in turn"], ["least_loaded", "least loaded"], ["prefix_aware", "by prefix"], ["length_tiers", "by length"]] },
  { name: "disaggregate", title: "Prefill : decode", group: "replicas", kind: "text", usual: "", help: "replicas for each, such as 1:3; empty keeps them together" },
  { name: "link", title: "Link between", group: "replicas", kind: "text", usual: "", help: "per replica, such as 50 GB/s; empty takes the system's outermost" },
];
const BY_NAME = new Map(FIELDS.map((field) => [field.name, field]));
export const USUAL: Settings = { policy: "chunked", ...Object.fromEntries(FIELDS.map((field) => [field.name, field.usual])) };

function understood(field: Field, text: string): Value | null {
  if (field.kind === "flag") return text === "1" ? true : text === "0" ? false : null;
  if (field.kind === "choice") return field.choices!.some(([value]) => value === text) ? text : null;
  if (field.kind === "text") return text;
  const found = Number(text);
  const good = text.trim() !== "" && Number.isFinite(found) && found >= (field.least ?? 0) && found <= (field.most ?? Infinity) && (field.kind === "number" || Number.isInteger(found));
  return good ? found : null;
}

/** The settings of an address, and what in it could not be read. */
export function read(text: string | undefined): { settings: Settings; problems: string[] } {
  const settings = { ...USUAL };
  const problems: string[] = [];
  for (const part of (text ?? "").split(";").filter(Boolean)) {
    const at = part.indexOf("=");
    const [name, raw] = [part.slice(0, at), part.slice(at + 1)];
    const field = BY_NAME.get(name);
    if (at > 0 && name === "policy" && POLICIES.some(([value]) => value === raw)) settings.policy = raw;
    else if (at > 0 && field) {
      const value = understood(field, raw);
      if (value === null) problems.push(`${field.title} “${raw.slice(0, 40)}” is ${field.kind === "count" || field.kind === "number" ? `not from ${(field.least ?? 0).toLocaleString("en-US")} to ${(field.most ?? 0).toLocaleString("en-US")}` : "not known"}${field.name === "requests" ? "; a page takes no more, run rooflab simulate" : ""}`);
      else settings[name] = value;
    } else problems.push(`“${part.slice(0, 40)}” is no setting of the traffic`);
  }
  return { settings, problems };
}

export function write(settings: Settings): string {
  return Object.entries(settings)
    .filter(([name, value]) => value !== USUAL[name])
    .map(([name, value]) => `${name}=${value === true ? "1" : value === false ? "0" : String(value).replaceAll(";", "")}`)
    .join(";");
}

/** What the load counts. */
export type Mode = "rate" | "users" | "trace";
export interface Trace {
  name: string;
  text: string;
}

/** A question about a scenario under this traffic; the load is added by `at`. */
export function questionOf(s: Scenario, settings: Settings, trace: Trace | null): Question<"simulate"> {
  const { arrivals, variation, prompt, output, ttft, tpot, at, kv_tokens, replicas, disaggregate, link, policy, ...plain } = settings;
  const slo = Object.fromEntries(Object.entries({ ttft, tpot }).filter(([, value]) => value !== ""));
  const mode = arrivals as Mode;
  return {
    ...askOf("simulate", s, plain),
    concurrency: null,
    prompt: prompt || s.prompt,
    output: output || s.output,
    policy,
    at,
    slo: Object.keys(slo).length ? slo : null,
    kv_tokens: kv_tokens || null,
    replicas: replicas || s.dp,
    disaggregate: disaggregate || null,
    link: link || null,
    ...(mode === "rate" ? { variation } : {}),
    ...(mode === "trace" && trace ? { trace_text: trace.text, turns: 1 } : {}),
    ...(mode === "users" ? { turns: 1 } : {}),
  } as unknown as Question<"simulate">;
}

export function at(question: Question<"simulate">, mode: Mode, load: number): Question<"simulate"> {
  const field = { rate: "rate", users: "concurrency", trace: "speed" }[mode];
  return { ...question, [field]: load };
}

// ---------------------------------------------------------------------------- the axis of loads

/** A step of 1, 2, 2.5 or 5 times a power of ten that cuts a range into about so many parts. */
export function step(range: number, parts: number): number {
  const raw = range / parts;
  const size = 10 ** Math.floor(Math.log10(raw));
  const lead = [1, 2, 2.5, 5, 10].find((each) => each * size >= raw * 0.999) ?? 10;
  return Number((lead * size).toPrecision(6));
}

export interface Axis {
  loads: number[];
  /** How fine the slider goes. */
  fine: number;
  usual: number;
}

/** Loads up to a fifth beyond what a full queue is served at; users in doublings. */
export function axisOf(mode: Mode, most: number): Axis {
  if (mode === "users") {
    const loads: number[] = [];
    for (let users = 1; users <= Math.max(16, most); users *= 2) loads.push(users);
    return { loads, fine: 1, usual: loads[Math.floor(loads.length * 0.6)]! };
  }
  const by = step(1.2 * most, 12);
  const loads = Array.from({ length: Math.max(2, Math.ceil((1.2 * most) / by - 1e-9)) }, (_, i) => Number((by * (i + 1)).toPrecision(6)));
  const fine = by / 5;
  return { loads, fine, usual: Number((Math.max(1, Math.round((0.7 * most) / by)) * by).toPrecision(6)) };
}

export const UNIT: Record<Mode, string> = { rate: "requests/s", users: "users", trace: "× the trace" };

export function loadText(mode: Mode, load: number): string {
  const plain = Number(load.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 4 });
  return mode === "rate" ? `${plain}\u00a0req/s` : mode === "users" ? `${plain}\u00a0user${load === 1 ? "" : "s"}` : `×${plain}`;
}

// ---------------------------------------------------------------------------- the lines of the charts

export interface Variant {
  id: string;
  name: string;
  short: string;
  changes: Settings;
  /** How its line is drawn beside others. */
  width: number;
  dash: string;
}

/** The policies side by side; where prefill and decode are apart, that comes first and the others run undivided. */
export function variantsOf(settings: Settings): Variant[] {
  const styles: Record<string, [number, string]> = { chunked: [1.7, ""], prefill_first: [1.7, "7 3"], static: [1.5, "3 3"], shortest_first: [1.5, "9 3 2 3"] };
  const shorts: Record<string, string> = { chunked: "Chunked", prefill_first: "Prefill first", static: "Static", shortest_first: "Shortest first" };
  const listed = POLICIES.filter(([id]) => id !== "shortest_first" || settings.policy === id);
  const together = listed.map(([id, name]): Variant => ({ id, name, short: shorts[id]!, changes: { policy: id }, width: styles[id]![0], dash: styles[id]![1] }));
  const parts = /^\s*(\d+)\s*:\s*(\d+)\s*$/.exec(String(settings.disaggregate));
  if (!settings.disaggregate) return together;
  const all = parts ? Number(parts[1]) + Number(parts[2]) : Number(settings.replicas);
  const apart: Variant = { id: "apart", name: `Apart, ${String(settings.disaggregate)}`, short: "Apart", changes: { policy: "chunked" }, width: 1.7, dash: "" };
  return [apart, ...together.filter(({ id }) => id !== "shortest_first").map((each) => ({ ...each, dash: each.id === "chunked" ? "9 3 2 3" : each.dash, changes: { ...each.changes, disaggregate: "", link: "", replicas: all } }))];
}

export function chosenOf(settings: Settings): string {
  return settings.disaggregate ? "apart" : String(settings.policy);
}
