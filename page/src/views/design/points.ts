// Points of a search: their axes, what is better, the frontier that is drawn. The figures are the engine's.
import type { Scale } from "../../charts/axis";
import { text } from "../../format";
import { BOUNDS, type Bound } from "../../words";

export type Cell = number | string | null;
export type Columns = Record<string, Cell[]>;

export interface Axis {
  key: string;
  title: string;
  /** At the axis' end. */
  name: string;
  unit: string;
  better: "up" | "down";
}

const axis = (key: string, title: string, name: string, unit: string, better: Axis["better"]): Axis => ({ key, title, name, unit, better });
export const AXES: Record<string, Axis> = Object.fromEntries(
  [
    axis("interactivity", "Speed per user", "tokens/s per user", "token/s", "up"),
    axis("throughput_per_device", "Throughput per device", "tokens/s per device", "token/s", "up"),
    axis("output_throughput", "Throughput of the replica", "tokens/s", "token/s", "up"),
    axis("tpot", "TPOT", "TPOT", "s", "down"),
    axis("ttft", "TTFT of the whole batch", "TTFT", "s", "down"),
    axis("e2e", "Time to the last token", "time to the last token", "s", "down"),
    axis("cost_output", "Cost of a million output tokens", "USD per million output tokens", "USD", "down"),
    axis("energy", "Energy per output token", "J per output token", "J", "down"),
    axis("devices", "Devices", "devices", "count", "down"),
    axis("memory_share", "Memory in use", "memory in use", "share", "down"),
    axis("latency", "Time of a step", "time of a step", "s", "down"),
    axis("efficiency", "Share of the peak", "share of the peak", "share", "up"),
    axis("cost", "Cost score", "cost score", "count", "down"),
  ].map((each) => [each.key, each]),
);

/** Positions that nothing beats in both axes, in the order of x; of equal points the first. */
export function frontier(x: Cell[], y: Cell[], xs: Axis, ys: Axis, counts: (at: number) => boolean): number[] {
  const signed = (value: Cell, of: Axis): number => (of.better === "up" ? -(value as number) : (value as number));
  const rows: number[] = [];
  for (let at = 0; at < x.length; at += 1) if (typeof x[at] === "number" && typeof y[at] === "number" && counts(at)) rows.push(at);
  rows.sort((a, b) => signed(x[a]!, xs) - signed(x[b]!, xs) || signed(y[a]!, ys) - signed(y[b]!, ys) || a - b);
  let best = Infinity;
  return rows.filter((at) => {
    const value = signed(y[at]!, ys);
    if (value >= best) return false;
    best = value;
    return true;
  });
}

/** A region of the chart, in the axes' own units. */
export interface Region {
  x: [number, number];
  y: [number, number];
}

export function inside(region: Region | null, x: Cell | undefined, y: Cell | undefined): boolean {
  if (!region) return true;
  return typeof x === "number" && typeof y === "number" && x >= region.x[0] && x <= region.x[1] && y >= region.y[0] && y <= region.y[1];
}

/** "12.5,80,300,2500" of the address. */
export function regionOf(said: string | undefined): Region | null {
  const found = (said ?? "").split(",").map(Number);
  if (found.length !== 4 || found.some((each) => !Number.isFinite(each))) return null;
  const [a, b, c, d] = found as [number, number, number, number];
  return { x: [Math.min(a, b), Math.max(a, b)], y: [Math.min(c, d), Math.max(c, d)] };
}

// ---- a region by the keys: its edges in the order of Tab
export const EDGES = ["left", "right", "bottom", "top"] as const;
export type Edge = (typeof EDGES)[number];
const SIDES = { left: ["x", 0], right: ["x", 1], bottom: ["y", 0], top: ["y", 1] } as const;
const ordered = (a: number, b: number): [number, number] => [Math.min(a, b), Math.max(a, b)];

/** The region with one edge moved by a step, to the right or upwards. */
export function grown(region: Region, edge: Edge, step: number, x: Scale, y: Scale): Region {
  const [of, side] = SIDES[edge];
  const to = of === "x" ? x : y;
  const ends: [number, number] = [...region[of]];
  ends[side] = to.invert(to(ends[side]) + step * (of === "x" ? 12 : -12));
  return { ...region, [of]: ordered(...ends) };
}

/** The middle of a chart, to begin with. */
export function middle(x: Scale, y: Scale): Region {
  const part = (of: Scale): [number, number] => {
    const [a, b] = [of(of.domain[0]), of(of.domain[1])];
    return ordered(of.invert(a + (b - a) * 0.3), of.invert(a + (b - a) * 0.7));
  };
  return { x: part(x), y: part(y) };
}
export const edgeText = (region: Region, edge: Edge, xUnit: string, yUnit: string): string => {
  const [of, side] = SIDES[edge];
  return `${edge} edge at ${text(region[of][side], of === "x" ? xUnit : yUnit)}`;
};
export const HOW = "Region: arrows move the left edge, Tab takes the next edge, Enter keeps it, Escape clears it";

/** A region as it is drawn, and a line along one of its edges. */
export const boxOf = (region: Region, x: Scale, y: Scale) => ({ x: x(region.x[0]), y: y(region.y[1]), width: x(region.x[1]) - x(region.x[0]), height: y(region.y[0]) - y(region.y[1]) });
export function edgeLine(it: ReturnType<typeof boxOf>, edge: Edge): string {
  return edge === "left" ? `M${it.x},${it.y}v${it.height}` : edge === "right" ? `M${it.x + it.width},${it.y}v${it.height}` : edge === "top" ? `M${it.x},${it.y}h${it.width}` : `M${it.x},${it.y + it.height}h${it.width}`;
}

export function regionText(region: Region | null): string {
  return region ? [...region.x, ...region.y].map((each) => Number(each.toPrecision(4))).join(",") : "";
}

export function boundAt(columns: Columns, at: number): Bound | null {
  const found = columns.bound?.[at];
  return BOUNDS.includes(found as Bound) ? (found as Bound) : null;
}

const DEGREES = ["tp", "pp", "cp", "dp", "ep", "attention_dp"] as const;
const NAMES: Record<string, string> = { attention_dp: "attention DP" };

/** The engine's notes as sentences. */
export const sentences = (notes: string[]): string => notes.map((note) => note.charAt(0).toUpperCase() + note.slice(1)).join(". ");

/** "TP 4, PP 2", or one device. */
export function layoutName(columns: Columns, at: number): string {
  const named = DEGREES.filter((name) => typeof columns[name]?.[at] === "number" && (columns[name]![at] as number) > 1);
  return named.length ? named.map((name) => `${NAMES[name] ?? name.toUpperCase()} ${columns[name]![at]}`).join(", ") : "One device";
}

/** The next size of a figure as people write it: twice "4 TB/s" is "8 TB/s", twice the machine's own is "2x". */
export function times(value: unknown, factor: number): string {
  const found = /^\s*([\d.]+(?:e[+-]?\d+)?)\s*(.*?)\s*$/i.exec(value === undefined || value === null ? "1x" : String(value));
  if (!found) return `${factor}x`;
  const unit = found[2]!;
  return `${Number((Number(found[1]) * factor).toPrecision(12))}${unit === "x" || unit === "" ? unit : ` ${unit}`}`;
}
