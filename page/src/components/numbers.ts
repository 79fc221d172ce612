// What people type where a number is wanted: counts with commas, exponents or k; quantities with their unit.

/** A whole number as typed: 2048, 2,048, 1e3, 8k (8,192, as tokens are counted), 2048 tokens; nothing where it is none. */
export function count(typed: string): number | null {
  const found = /^(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*([km]?)i?\s*(?:tokens?|sequences?|requests?|users?|people|devices?|%)?$/i.exec(typed.trim().replace(/[,_\s](?=\d{3})/g, ""));
  if (!found) return null;
  const value = Number(found[1]) * { k: 1024, m: 1024 ** 2 }[found[2]!.toLowerCase()]! || Number(found[1]);
  return Number.isInteger(value) ? value : null;
}

/** Why a text is no count between two. */
export function countProblem(typed: string, least: number, most: number): string {
  const found = count(typed);
  const commas = (x: number): string => x.toLocaleString("en-US");
  if (found !== null) return found < least ? `at least ${commas(least)}` : found > most ? `at most ${commas(most)}` : "";
  if (/^\s*[-−]/.test(typed)) return `at least ${commas(least)}`;
  return `a whole number${/\d\s*[a-z]/i.test(typed) ? ", without a unit" : ""}`;
}

/** The next power of two, up or down; zero below one. */
export function doubled(value: number, up: boolean): number {
  const power = Math.log2(Math.max(value, 1));
  return up ? (value < 1 ? 1 : 2 ** Math.floor(power + 1)) : power <= 0 ? 0 : 2 ** Math.ceil(power - 1);
}

const SIZES: Record<string, number> = { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, m: 1e-3, u: 1e-6, "µ": 1e-6, n: 1e-9 };
const BINARY: Record<string, number> = { K: 1024, k: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 };

const NOUNS: Record<string, RegExp> = { byte: /^B$/, "byte/s": /^[Bb]\/s$/, "FLOP/s": /^(FL)?OP\/s$/, s: /^s$/ };

/** A quantity's size in its base unit ("3.35 TB/s" is 3.35e12), to compare it with another; nothing where it is none of that unit. */
export function sizeOf(typed: string, unit: string): number | null {
  const found = /^\s*([\d.,]+(?:e[+-]?\d+)?)\s*([kKMGTPEmunµ]?)(i?)((B|b|FLOP|OP|s)(?:\/s)?)\s*$/.exec(typed);
  if (!found || !NOUNS[unit]?.test(found[4]!)) return null;
  const size = (found[3] ? BINARY[found[2]!] : SIZES[found[2]!]) ?? NaN;
  const value = (Number(found[1]!.replace(/,/g, "")) * size) / (found[5] === "b" ? 8 : 1);
  return Number.isFinite(value) && value > 0 ? value : null;
}

const UNITS: Record<string, string> = { byte: "B", "byte/s": "B/s", "FLOP/s": "FLOP/s", s: "s" };

/** A quantity in full, as the engine reads it: 56.25 GB/s, 1.5 us. */
export function written(value: number, unit: string): string {
  const prefixes = unit === "s" ? ["", "m", "u", "n"] : ["E", "P", "T", "G", "M", "k", ""];
  const prefix = prefixes.find((each) => value >= SIZES[each]! * 0.9999999) ?? prefixes[prefixes.length - 1]!;
  return `${Number((value / SIZES[prefix]!).toPrecision(12))} ${prefix}${UNITS[unit]}`;
}
