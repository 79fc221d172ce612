// Formulas as they are shown. The engine writes them and names what stands in them; here only signs and digits are made readable.
import type { Line } from "../contract";
import { shown, whole } from "../format";

function tidy(text: string): string {
  return text
    .replace(/(^|[^\w.])1(?:\.0)? \* /g, "$1")
    .replaceAll(" * ", " · ")
    .replace(/\b(\d+)\.0\b/g, "$1")
    .replace(/maximum\(/g, "max(")
    .replace(/minimum\(/g, "min(");
}

/** A number of a formula in its unit, in as many digits as working it out by hand takes. */
export function precise(x: number, unit: string): string {
  const found = shown(x, unit, 5);
  const value = unit !== "1" ? found.value : Number.isInteger(x) ? whole(x) : String(Number(x.toPrecision(5)));
  return (value.includes(".") ? value.replace(/\.?0+$/, "") : value) + (found.unit && `\u00a0${found.unit}`);
}

/** A piece of a formula: signs, or a term with its name and its number. */
export interface Piece {
  name: string;
  number: string;
  /** The engine's name of the term. */
  of?: string;
}

const MOST = 6;

/** A formula in pieces; of a long sum the largest terms and the rest together. */
export function pieces(line: Line): Piece[] {
  const plain = (text: string): Piece => ({ name: text, number: text });
  const term = (of: string): Piece => ({ of, name: line.names[of] ?? of, number: precise(line.inputs[of] as number, line.units[of] ?? "1") });
  const parts = Object.entries(line.parts ?? {});
  if (!parts.length) {
    const text = tidy(line.formula);
    let from = 0;
    const found: Piece[] = [];
    for (const { 0: of, index } of text.matchAll(/(?<![\w.])[a-z_][a-z_0-9]*\b(?!\()/g)) {
      if (typeof line.inputs[of] !== "number") continue;
      found.push(plain(text.slice(from, index)), term(of));
      from = index + of.length;
    }
    return [...found, plain(text.slice(from))].filter((each) => each.name);
  }
  const kept = parts.length > MOST ? [...parts].sort((a, b) => b[1] - a[1]).slice(0, MOST - 1) : parts;
  const found = kept.flatMap(([of, value], at): Piece[] => {
    const times = value / (line.inputs[of] as number);
    return [plain((at ? " + " : "") + (Math.abs(times - 1) > 1e-9 ? `${precise(times, "1")} · ` : "")), term(of)];
  });
  const rest = parts.length - kept.length;
  return rest ? [...found, { name: ` + ${rest} more`, number: ` + ${precise(parts.reduce((sum, [of, value]) => (kept.some((each) => each[0] === of) ? sum : sum + value), 0), line.unit)} of ${rest} more` }] : found.filter((each) => each.name);
}

/** The formula with its numbers, as text. */
export const withNumbers = (line: Line): string => pieces(line).map((piece) => piece.number).join("");
