// Numbers as people read them. Values arrive in SI base units; only prefixes are chosen here.

export interface Shown {
  value: string;
  unit: string;
}

export const NBSP = "\u00a0";
export const MISSING = "–";
const MINUS = "−";

/** Thousands commas; by hand, since Intl costs more than all the rest of a repaint. */
function commas(plain: string): string {
  const [left = "", right] = plain.split(".");
  return left.replace(/\B(?=(\d{3})+$)/g, ",") + (right === undefined ? "" : `.${right}`);
}

/** Three significant digits, trailing zeros kept, thousands with commas. */
export function digits(x: number, n = 3): string {
  if (!Number.isFinite(x)) return MISSING;
  if (x === 0) return "0";
  const rounded = Number(x.toPrecision(n));
  const places = Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(rounded))));
  const text = commas(Math.abs(rounded).toFixed(Math.min(places, 12)));
  return rounded < 0 ? MINUS + text : text;
}

/** A whole count in full; a count that is not whole to three digits. */
export function whole(x: number): string {
  return Number.isInteger(x) && Math.abs(x) < 1e21 ? (x < 0 ? MINUS : "") + commas(String(Math.abs(x))) : digits(x);
}

const PREFIXES: [number, string][] = [
  [1e18, "E"],
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

function rounds(x: number, size: number): boolean {
  return Number(Math.abs(x).toPrecision(3)) >= size;
}

function prefixed(x: number, unit: string, n: number): Shown {
  if (x === 0) return { value: "0", unit };
  const [size, prefix] = PREFIXES.find(([each]) => rounds(x, each)) ?? [1, ""];
  return { value: digits(x / size, n), unit: prefix + unit };
}

function time(x: number, n: number): Shown {
  if (x === 0) return { value: "0", unit: "s" };
  if (rounds(x, 1)) return { value: digits(x, n), unit: "s" };
  if (rounds(x, 1e-3)) return { value: digits(x * 1e3, n), unit: "ms" };
  if (rounds(x, 1e-6)) return { value: digits(x * 1e6, n), unit: "µs" };
  return { value: digits(x * 1e9, n), unit: "ns" };
}

/** A share as a percentage. */
function share(x: number): Shown {
  const percent = x * 100;
  const value = Math.abs(percent) >= 9.95 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1);
  return { value: value.replace("-", MINUS), unit: "%" };
}

function count(x: number): Shown {
  if (Math.abs(x) < 1e6) return { value: whole(x), unit: "" };
  const [size, name] = ([[1e12, "T"], [1e9, "B"], [1e6, "M"]] as [number, string][]).find(([each]) => rounds(x, each))!;
  return { value: digits(x / size), unit: name };
}

/** Value and unit of a quantity in the unit that the engine names, in three digits unless told otherwise. */
export function shown(x: number | null | undefined, unit: string, n = 3): Shown {
  if (x === null || x === undefined || !Number.isFinite(x)) return { value: MISSING, unit: "" };
  switch (unit) {
    case "s":
      return time(x, n);
    case "byte":
      return prefixed(x, "B", n);
    case "byte/s":
      return prefixed(x, "B/s", n);
    case "byte/token":
      return prefixed(x, "B/token", n);
    case "FLOP":
      return prefixed(x, "FLOP", n);
    case "FLOP/s":
      return prefixed(x, "FLOP/s", n);
    case "FLOP/byte":
      return { value: digits(x, n), unit: "FLOP/B" };
    case "token/s":
      return { value: digits(x, n), unit: "tok/s" };
    case "token":
      return { value: whole(Math.round(x)), unit: "tokens" };
    case "USD":
      return { value: digits(x, n), unit: "USD" };
    case "J":
    case "W":
      return prefixed(x, unit, n);
    case "share":
      return share(x);
    case "count":
      return count(x);
    case "1":
    case "":
      return { value: whole(x), unit: "" };
    default:
      return { value: digits(x, n), unit };
  }
}

/** The tick of an axis: no zeros after the point, and the prefix alone where the unit itself stands elsewhere. */
export function tickText(x: number, unit: string, named = ""): string {
  const found = shown(x, unit);
  const value = found.value.includes(".") ? found.value.replace(/\.?0+$/, "") : found.value;
  const rest = x === 0 ? "" : found.unit.replace(named, "");
  return rest ? `${value}\u2009${rest}` : value;
}

/** The same as one text, value and unit kept on one line. */
export function text(x: number | null | undefined, unit: string): string {
  const found = shown(x, unit);
  return found.unit ? found.value + NBSP + found.unit : found.value;
}

/** The number as it is, for a title or an export. */
export function exact(x: number | null | undefined, unit: string): string {
  return x === null || x === undefined ? "no value" : `${x}${unit && unit !== "count" && unit !== "share" ? " " + unit : ""}`;
}

export type Better = "down" | "up" | "none";

export interface Delta {
  text: string;
  verdict: "good" | "bad" | "same" | "plain";
}

/** How a number moved from the baseline's; the arrow is the direction, the verdict the judgement. */
export function delta(now: number | null | undefined, was: number | null | undefined, better: Better, points = false): Delta {
  if (now === null || now === undefined || was === null || was === undefined) return { text: MISSING, verdict: "plain" };
  if (points) {
    const moved = (now - was) * 100;
    return Math.abs(moved) < 0.05 ? { text: "same", verdict: "same" } : { text: `${moved < 0 ? MINUS : "+"}${Math.abs(moved).toFixed(1)}${NBSP}pts`, verdict: "plain" };
  }
  if (was === 0) return now === 0 ? { text: "same", verdict: "same" } : { text: "new", verdict: "plain" };
  const moved = now / was - 1;
  if (Math.abs(moved) < 0.0005) return { text: "same", verdict: "same" };
  const percent = Math.abs(moved) * 100;
  const size = percent >= 999.5 ? `${digits(now / was)}×` : `${percent >= 9.95 ? percent.toFixed(0) : percent.toFixed(1)}${NBSP}%`;
  const good = moved < 0 === (better === "down");
  return { text: `${moved < 0 ? "▼" : "▲"}${NBSP}${size}`, verdict: better === "none" ? "plain" : good ? "good" : "bad" };
}

/** A difference with its sign, in its unit. */
export function change(moved: number, unit: string): string {
  if (moved === 0) return "no change";
  return (moved < 0 ? MINUS : "+") + text(Math.abs(moved), unit);
}
