// Formulas as they are shown. The engine writes them; here only multiplication signs and digits are made readable.
import type { Line } from "../contract";
import { digits, text } from "../format";
import { symbolUnit } from "../words";

const SUPER: Record<string, string> = { "-": "⁻", "0": "⁰", "1": "¹", "2": "²", "3": "³", "4": "⁴", "5": "⁵", "6": "⁶", "7": "⁷", "8": "⁸", "9": "⁹" };

/** A number of a substituted formula in few characters; the exact text is in the title. */
export function figure(text: string): string {
  const x = Number(text);
  if (!Number.isFinite(x)) return text;
  if (x === 0) return "0";
  if (Number.isInteger(x) && Math.abs(x) < 1e7) return x.toLocaleString("en-US");
  const power = Math.floor(Math.log10(Math.abs(x)));
  if (power >= -3 && power < 5) return String(Number(x.toPrecision(4)));
  const lead = x / 10 ** power;
  return `${digits(lead, 3)}·10${[...String(power)].map((each) => SUPER[each] ?? each).join("")}`;
}

function tidy(text: string): string {
  return text
    .replace(/(^|[^\w.])1(?:\.0)? \* /g, "$1")
    .replaceAll(" * ", " · ")
    .replace(/\b(\d+)\.0\b/g, "$1")
    .replace(/maximum\(/g, "max(")
    .replace(/minimum\(/g, "min(");
}

/** The formula with its symbols, in one line; long sums are shortened. */
export function symbolic(formula: string): string {
  return shorten(tidy(formula).replace(/\b[a-z][a-z_0-9]*\b/g, (name) => name.replaceAll("_", " ").replace(/ /g, "_")));
}

export function substituted(formula: string): string {
  return shorten(tidy(formula).replace(/(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?/g, figure));
}

/** The formula with its inputs in their units; where an input is no plain number, the engine's own text. */
export function withNumbers(line: Line): string {
  let whole = true;
  const filled = tidy(line.formula).replace(/(?<![\w.])[a-z_][a-z_0-9]*\b(?!\()/g, (name) => {
    const value = line.inputs[name];
    if (typeof value !== "number") {
      whole = false;
      return name;
    }
    const unit = symbolUnit(name, line);
    return unit === "1" && !Number.isInteger(value) ? figure(String(value)) : text(value, unit);
  });
  return whole ? filled : substituted(line.substituted);
}

function shorten(text: string): string {
  const parts = text.split(" + ");
  return parts.length > 4 && !text.includes("(") ? `${parts.slice(0, 3).join(" + ")} + … ${parts.length - 3} more` : text;
}
