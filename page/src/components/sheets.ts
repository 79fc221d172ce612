// The rows behind a chart or a table, kept beside its element for the panel's menu.
import type { MemoryReport, OpReport, StepDetail } from "../contract";
import { boundOf, operatorName, partName } from "../words";

export type Cell = string | number | null;
export interface Sheet {
  /** What the file is called; nothing takes the panel's title. */
  file?: string;
  header: string[];
  rows: Cell[][];
  /** What the rows stand on where it is not what the scenario's times do; nothing for what is counted or chosen. */
  basis?: string;
}

const sheets = new WeakMap<Element, () => Sheet>();

/** {@attach sheet(() => …)}: what an element shows, in SI units, made when it is asked for. */
export const sheet = (make: () => Sheet) => (node: Element): void => void sheets.set(node, make);

/** The rows of the first element in a panel that has some. */
export function sheetIn(panel: Element): Sheet | null {
  for (const node of panel.querySelectorAll("*")) {
    const make = sheets.get(node);
    if (make) return make();
  }
  return null;
}

/** A table whose columns may be chosen, for the panel's menu. */
export interface Chooser {
  columns: { key: string; title: string; on: boolean }[];
  turn: (key: string) => void;
}
const choosers = new WeakMap<Element, () => Chooser>();
export const chooser = (make: () => Chooser) => (node: Element): void => void choosers.set(node, make);
export const chooserIn = (body: Element): Chooser | null => {
  const table = body.querySelector("table");
  return (table && choosers.get(table)?.()) ?? null;
};

/** A column's name with its unit behind it. */
export const named = (key: string, unit = ""): string => key + (unit && !["1", "count", "share"].includes(unit) ? `_${unit.replaceAll("/", "_per_")}` : "");

/** A panel's name in an address or of a file. */
export const slug = (title: string): string => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

export function opsSheet(ops: OpReport[]): Sheet {
  const header = ["operator", "part", "bound", "basis", "per_pass", "flop_FLOP", "bytes_byte", "message_bytes_byte", "intensity_FLOP_per_byte", "achieved_FLOP_per_s", "time_s", "share"];
  return { header, rows: ops.map((op) => [operatorName(op.name), op.part, boundOf(op.bound), op.basis, op.count, op.flop, op.bytes, op.message_bytes, op.intensity, op.achieved, op.time, op.share]) };
}

export function partsSheet(step: StepDetail): Sheet {
  return { header: ["class", "time_s", "share", "memory_s", "compute_s", "network_s", "latency_s"], rows: step.parts.map((part) => [partName(part.part), part.time, part.share, ...(["memory", "compute", "network", "latency"] as const).map((bound) => part.terms[bound] ?? 0)]) };
}

/** What is kept for workspace and engine is a planning assumption; the rest is counted. */
const ASSUMED = new Set(["workspace", "reserve", "used", "free", "over"]);
export function memorySheet(memory: MemoryReport): Sheet {
  return { header: ["kind", "bytes_byte", "basis"], rows: Object.entries(memory).map(([kind, bytes]) => [kind, bytes, kind === "capacity" ? "datasheet" : ASSUMED.has(kind) ? "assumed" : "exact"]) };
}
/** The basis of rows about memory. */
export const COUNTED = "exact, workspace and reserve assumed";
