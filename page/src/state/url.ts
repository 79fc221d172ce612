// The address: everything that says what is shown, in a hash that people can read and edit.
//   #/step?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b128&p=wfp8kvbf16&f=operator&vs=p:w16&sel=op:down
import start from "../../../src/rooflab/web/start.json";
import { bare } from "../words";
import { counted, FIELDS, scenario, SEGMENTS, same, type Change, type Scenario, type Segment } from "./scenario";

export interface Place {
  view: string;
  scenario: Scenario;
  baseline: Scenario | null;
  selection: string;
  /** Settings of a view, and keys that nobody here knows: kept, never dropped. */
  more: Record<string, string>;
  /** What could not be read, in words. */
  problems: string[];
}

export const START = scenario(start.scenario);
export const START_BASELINE: Scenario = { ...START, ...(start.baseline as Change) };

const KEYS: Record<Segment, string> = { model: "m", system: "s", layout: "l", workload: "w", precision: "p", profile: "f" };
const DEGREES: Record<string, keyof Scenario> = bare({ tp: "tp", pp: "pp", cp: "cp", dp: "dp", ep: "ep", adp: "attention_dp", mb: "microbatches" });
const CHOICES: Record<string, [keyof Scenario, string[]]> = bare({
  kv: ["kv_shard", ["split", "replicate"]],
  ffn: ["ffn_scope", ["tp", "tp_cp", "tp_cp_dp"]],
  ring: ["ring", ["kv", "qoml"]],
  tpon: ["tp_placement", ["inner", "outer", "pe", "cube"]],
  cpon: ["cp_placement", ["inner", "outer", "pe", "cube"]],
  epmode: ["ep_mode", ["overlay", "dedicated"]],
});
const WORKLOAD: [string, keyof Scenario][] = [["c", "cached"], ["n", "concurrency"], ["t", "max_batched_tokens"], ["v", "varied"]];
const OTHERS = ["prices", "engine", "reserve"] as const; // fields of the profile's segment beside its switches
const SHORT: Record<string, string> = bare({ "16": "bf16", "8": "fp8", "4": "int4", "32": "fp32" });
const LONGEST = 6000;
/** Characters of a link that mail and chat programs carry without cutting it, as far as is known. */
export const CARRIED = 2000;

function encoded(text: string): string {
  return encodeURIComponent(text).replace(/%2F/g, "/").replace(/%3A/g, ":").replace(/%2C/g, ",").replace(/%20/g, "+");
}

const plain = scenario({ model: "", on: "" });

/** One segment as text; nothing where it is as when nothing is said. */
export function write(segment: Segment, s: Scenario): string {
  switch (segment) {
    case "model":
      return typeof s.model === "string" ? s.model : "";
    case "system": {
      const found = counted(s.on);
      const name = found ? `${found.device}*${found.count}` : typeof s.on === "string" ? s.on : "";
      const changes = Object.entries(s.changes).map(([field, value]) => `${field}=${String(value).replaceAll(" ", "")}`);
      return [name, ...changes].join(";");
    }
    case "layout": {
      const degrees = Object.entries(DEGREES).filter(([, field]) => s[field] !== 1);
      const choices = Object.entries(CHOICES).filter(([, [field]]) => s[field] !== plain[field]);
      return [...degrees.map(([name, field]) => name + String(s[field])), ...choices.map(([name, [field]]) => `${name}_${String(s[field])}`)].join("-");
    }
    case "workload": {
      const more = WORKLOAD.filter(([, field]) => s[field] !== plain[field]).map(([letter, field]) => `-${letter}${Number(s[field])}`);
      const text = `${s.prompt}-${s.output}-b${s.batch}${more.join("")}`;
      return text === `${plain.prompt}-${plain.output}-b${plain.batch}` ? "" : text;
    }
    case "precision": {
      const weights = s.weights === null ? "" : typeof s.weights === "string" ? `w${s.weights}` : `w${Object.entries(s.weights).map(([name, value]) => `${name}=${value}`).join(",")}`;
      return weights + (s.kv === null ? "" : `kv${s.kv}`);
    }
    case "profile": {
      const switches = Object.entries(s.switches).map(([name, value]) => `${name}=${String(value)}`);
      const others = OTHERS.filter((field) => s[field] !== plain[field]).map((field) => `${field}=${String(s[field]).replaceAll(" ", "")}`);
      const text = [s.profile, ...switches, ...others].join(";");
      return text === plain.profile ? "" : text;
    }
  }
}

function number(text: string): number | null {
  return /^\d{1,10}$/.test(text) ? Number(text) : null;
}

function value(text: string): string | number | boolean {
  if (text === "true" || text === "false") return text === "true";
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

function pairs(parts: string[], problems: string[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const part of parts.filter(Boolean)) {
    const at = part.indexOf("=");
    if (at < 1) problems.push(`“${part}” is not name=value`);
    else found[part.slice(0, at)] = part.slice(at + 1);
  }
  return found;
}

/** The fields that a segment's text sets; the rest of the segment as when nothing is said. */
export function read(segment: Segment, text: string, problems: string[]): Change {
  const base = Object.fromEntries(FIELDS[segment].map((field) => [field, plain[field]])) as Record<string, unknown>;
  if (segment === "model") base.model = text;
  if (segment === "system") {
    const [name = "", ...rest] = text.split(";");
    const found = /^(.*)\*(\d+)$/.exec(name);
    base.on = found ? `${found[2]}x ${found[1]}` : name;
    base.changes = pairs(rest, problems);
  }
  if (segment === "layout") {
    for (const part of text.split("-").filter(Boolean)) {
      const degree = /^([a-z]+)(\d{1,7})$/.exec(part);
      const at = part.indexOf("_");
      const choice = at > 0 ? CHOICES[part.slice(0, at)] : undefined;
      if (degree && DEGREES[degree[1]!] && Number(degree[2]) > 0) base[DEGREES[degree[1]!]!] = Number(degree[2]);
      else if (choice && choice[1].includes(part.slice(at + 1))) base[choice[0]] = part.slice(at + 1);
      else problems.push(`layout “${part}” is not known`);
    }
  }
  if (segment === "workload" && text) {
    const numbers = text.split("-").filter((part) => /^\d/.test(part));
    const prompt = number(numbers[0] ?? "");
    const output = number(numbers[1] ?? "");
    const batch = /-b(\d{1,10})(?:-|$)/.exec(text);
    if (!prompt || !output) problems.push(`workload “${text}” should read like 2048-256-b128`);
    Object.assign(base, prompt ? { prompt } : {}, output ? { output } : {}, batch ? { batch: Number(batch[1]) } : {});
    for (const [letter, field] of WORKLOAD) {
      const found = new RegExp(`-${letter}(\\d{1,10})(?:-|$)`).exec(text);
      if (found) base[field] = typeof plain[field] === "boolean" ? found[1] !== "0" : Number(found[1]);
    }
  }
  if (segment === "precision") {
    const found = /^(?:w(.+?))?(?:kv([a-z0-9_]+))?$/i.exec(text);
    const weights = found?.[1];
    if (weights) base.weights = weights.includes("=") ? pairs(weights.split(","), problems) : (SHORT[weights] ?? weights);
    if (found?.[2]) base.kv = SHORT[found[2]] ?? found[2];
  }
  if (segment === "profile" && text) {
    const [name = "", ...rest] = text.split(";");
    const switches = pairs(rest, problems);
    base.profile = name;
    for (const field of OTHERS) {
      if (switches[field] !== undefined) base[field] = value(switches[field]);
      delete switches[field];
    }
    base.switches = Object.fromEntries(Object.entries(switches).map(([key, each]) => [key, value(each)]));
  }
  return base as Change;
}

/** The hash of a place. An imported model travels as `mx`, packed where that is given; see `tooLong`. */
export function hashOf(place: Omit<Place, "problems">, packed?: string): string {
  const params: [string, string][] = [];
  const s = place.scenario;
  const untouched = same(s, START);
  if (!untouched) {
    for (const segment of SEGMENTS) {
      const text = write(segment, s);
      if (text) params.push([KEYS[segment], text]);
    }
    if (typeof s.model !== "string") params.push(["mx", packed ?? JSON.stringify(s.model)]);
    if (typeof s.on !== "string") params.push(["sx", JSON.stringify(s.on)]);
  }
  const usual = untouched ? START_BASELINE : s;
  if (place.baseline === null) params.push(["vs", "none"]);
  else if (!same(place.baseline, usual)) {
    const different = SEGMENTS.filter((segment) => FIELDS[segment].some((field) => !same(place.baseline![field], s[field])));
    if (different.length) params.push(["vs", different.map((segment) => `${KEYS[segment]}:${write(segment, place.baseline!)}`).join("|")]);
    else params.push(["vs", "same"]);
  }
  if (place.selection) params.push(["sel", place.selection]);
  params.push(...Object.entries(place.more));
  const query = params.map(([key, text]) => `${key}=${encoded(text)}`).join("&");
  return `#/${place.view}${query ? `?${query}` : ""}`;
}

export function tooLong(hash: string): boolean {
  return hash.length > LONGEST;
}

function json(text: string | undefined, what: string, problems: string[]): Record<string, unknown> | null {
  if (text === undefined) return null;
  try {
    const found = JSON.parse(text) as unknown;
    if (found && typeof found === "object" && !Array.isArray(found)) return found as Record<string, unknown>;
  } catch {
    /* said below */
  }
  problems.push(`the ${what} in the link could not be read`);
  return null;
}

/** The place that a hash names. Whatever is wrong is left out and said. */
export function placeOf(hash: string, views: string[]): Place {
  const problems: string[] = [];
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const params = new Map<string, string>();
  for (const part of query.split("&").filter(Boolean)) {
    const at = part.indexOf("=");
    try {
      params.set(decodeURIComponent(at < 0 ? part : part.slice(0, at)), at < 0 ? "" : decodeURIComponent(part.slice(at + 1).replaceAll("+", " ")));
    } catch {
      problems.push(`“${part.slice(0, 40)}” could not be read`);
    }
  }
  const take = (key: string): string | undefined => {
    const found = params.get(key);
    params.delete(key);
    return found;
  };
  const view = views.includes(path) ? path : views[0]!;
  if (path && path !== view) problems.push(`there is no view “${path.slice(0, 40)}”`);
  const said = SEGMENTS.some((segment) => params.has(KEYS[segment])) || params.has("mx");
  let s = said ? scenario({ model: START.model, on: START.on }) : START;
  for (const segment of SEGMENTS) {
    const text = take(KEYS[segment]);
    if (text !== undefined) s = { ...s, ...read(segment, text, problems) };
  }
  const model = json(take("mx"), "model", problems);
  const system = json(take("sx"), "system", problems);
  if (model) s = { ...s, model };
  if (system) s = { ...s, on: system };
  if (s.model === "") s = { ...s, model: START.model };
  if (s.on === "") s = { ...s, on: START.on };
  const vs = take("vs");
  let baseline: Scenario | null = said ? s : START_BASELINE;
  if (vs === "none") baseline = null;
  else if (vs === "same") baseline = s;
  else if (vs !== undefined) {
    baseline = s;
    for (const part of vs.split("|").filter(Boolean)) {
      const segment = SEGMENTS.find((each) => KEYS[each] === part[0] && part[1] === ":");
      if (segment) baseline = { ...baseline, ...read(segment, part.slice(2), problems) };
      else problems.push(`baseline “${part.slice(0, 40)}” could not be read`);
    }
  }
  const selection = take("sel") ?? "";
  return { view, scenario: s, baseline, selection, more: Object.fromEntries(params), problems };
}
