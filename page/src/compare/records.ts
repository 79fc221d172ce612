// Saved scenarios as plain data: reading what may be anyone's, naming, and turning a record into a scenario.
import { DEFAULTS, FIELDS_OF, type Saved } from "../contract";
import { scenario, type Change, type Scenario } from "../state/scenario";

export const FORMAT = 1;
export const MOST = 200;

const object = (x: unknown): x is Record<string, unknown> => typeof x === "object" && x !== null && !Array.isArray(x);

function recordOf(x: unknown): Saved | null {
  if (!object(x) || !object(x.ask)) return null;
  const { name, version, time } = x;
  if (typeof name !== "string" || typeof version !== "string" || typeof time !== "string" || !name.trim() || name.length > 100) return null;
  return { name, ask: x.ask, digest: object(x.digest) ? x.digest : {}, version, time };
}

/** What a browser kept. Whatever cannot be read is said, and counted, never shown. */
export function read(text: string | null): { records: Saved[]; problem: string; newer: boolean } {
  const none = { records: [], problem: "", newer: false };
  if (text === null) return none;
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return { ...none, problem: "What this browser had saved is damaged and cannot be read." };
  }
  if (!object(data) || data.rooflab !== "scenarios" || !Array.isArray(data.scenarios)) return { ...none, problem: "What this browser had saved is not RoofLab’s and cannot be read." };
  if (typeof data.format !== "number" || data.format > FORMAT) return { ...none, newer: true, problem: `What this browser had saved is from a newer RoofLab (format ${String(data.format).slice(0, 20)}, this one reads ${FORMAT}). It is left as it is.` };
  const found = data.scenarios.map(recordOf);
  const records = found.filter((each) => each !== null);
  const lost = found.length - records.length;
  return { records, newer: false, problem: lost ? `${lost} of ${found.length} saved scenarios are damaged and are left out.` : "" };
}

export const written = (records: Saved[], version = ""): string => JSON.stringify({ rooflab: "scenarios", format: FORMAT, version, scenarios: records }, null, 1);

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]+/gu;
/** One line of plain text; or what is wrong with it, and what it could be. */
export function nameOf(text: string): { name: string; problem: string } {
  const typed = text.replace(/\s+/g, " ").trim();
  const name = typed.replace(UNSEEN, "").replace(/ +/g, " ").trim();
  if (!name) return { name, problem: "Give it a name" };
  if (name.length > 100) return { name, problem: "At most 100 characters" };
  if (name !== typed) return { name, problem: "It held characters that cannot be seen; this is the name without them" };
  return { name, problem: "" };
}

/** The name, or with the next free number behind it. */
export function free(wanted: string, taken: Iterable<string>): string {
  const names = new Set(taken);
  for (let n = 1; ; n += 1) {
    const name = n === 1 ? wanted : `${wanted.slice(0, 95).trimEnd()} ${n}`;
    if (!names.has(name)) return name;
  }
}

/** The scenario of a record, or why it cannot be one here. Values of the wrong kind would break a page that trusts its fields. */
export function scenarioOf(record: Saved): { scenario: Scenario | null; problem: string } {
  const no = (why: string) => ({ scenario: null, problem: `“${record.name}” ${why}` });
  const known = new Set<string>(FIELDS_OF.estimate);
  const said: Record<string, unknown> = {};
  for (const [field, value] of Object.entries(record.ask)) {
    if (["kind", "detail", "ignore_memory"].includes(field)) continue;
    if (!known.has(field)) return no(`sets “${field.slice(0, 40)}”, which this RoofLab does not know; it was saved by version ${record.version}`);
    const usual = (DEFAULTS as Record<string, unknown>)[field];
    const kind = value === null ? "null" : Array.isArray(value) ? "list" : typeof value;
    const right = field === "model" || field === "on" || field === "weights" ? kind === "string" || kind === "object" || (field === "weights" && value === null) : usual === null || usual === undefined ? value === null || ["string", "number", "boolean"].includes(kind) : object(usual) ? kind === "object" : kind === typeof usual;
    if (!right) return no(`has a value for “${field}” that is no ${object(usual) ? "table" : typeof usual}`);
    said[field] = value;
  }
  if (said.model === undefined || said.on === undefined) return no("names no model or no system");
  return { scenario: scenario(said as Change & Pick<Scenario, "model" | "on">), problem: "" };
}
