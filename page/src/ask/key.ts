// Two questions that say the same have the same key: fields in order, defaults left out.
import { DEFAULTS } from "../contract";

/** Long texts, such as a trace, stand in keys as a number. */
const LONG = new Map<string, string>();
const LONGEST = 4000;

function plain(value: unknown): unknown {
  if (typeof value === "string" && value.length > LONGEST) {
    if (!LONG.has(value)) LONG.set(value, `#${LONG.size}`);
    return LONG.get(value);
  }
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") {
    const entries = Object.entries(value as Record<string, unknown>).filter(([, inner]) => inner !== undefined);
    return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, inner]) => [name, plain(inner)]));
  }
  return value;
}

export function keyOf(ask: object): string {
  const defaults = DEFAULTS as unknown as Record<string, unknown>;
  const said = Object.entries(ask).filter(([name, value]) => JSON.stringify(plain(value)) !== JSON.stringify(plain(defaults[name])));
  return JSON.stringify(plain(Object.fromEntries(said)));
}
