// Which figures of a run the view shows, and where the report holds them.
import type { MeasuresReport } from "../../contract";
import { text } from "../../format";

export interface Figure {
  id: string;
  name: string;
  unit: string;
  better: "up" | "down" | "none";
  of: (run: MeasuresReport) => number | null | undefined;
  /** Half of its 95 % interval, from batch means. */
  half?: (run: MeasuresReport) => number | null | undefined;
  /** Words of the protocol that say what it is. */
  said: string[];
}

export function how(part: Part): string {
  return part === "p50" ? "median" : part === "mean" ? "mean" : `${part.slice(1)}th percentile`;
}

type Times = "ttft" | "tpot" | "queue_time" | "e2e" | "itl";
export type Part = "mean" | "p50" | "p90" | "p95" | "p99";
function timed(name: Times, part: Part, title: string): Figure {
  return { id: `${name}_${part}`, name: `${title} ${how(part).replace(" percentile", "")}`, unit: "s", better: "down", of: (run) => run[name]?.[part], half: (run) => run[name]?.interval[part], said: [name, "percentiles"] };
}

const FIGURES: Figure[] = [
  timed("ttft", "p50", "TTFT"),
  timed("ttft", "p95", "TTFT"),
  timed("tpot", "p50", "TPOT"),
  timed("tpot", "p95", "TPOT"),
  timed("itl", "p99", "Token gap"),
  timed("queue_time", "p95", "Queue wait"),
  timed("e2e", "p95", "End to end"),
  { id: "attainment", name: "Requests in limits", unit: "share", better: "up", of: (run) => run.attainment, said: ["throughput"] },
  { id: "output_throughput", name: "Output tok/s", unit: "token/s", better: "up", of: (run) => run.output_throughput, said: ["throughput"] },
  { id: "goodput", name: "Goodput, req/s", unit: "request/s", better: "up", of: (run) => run.goodput, said: ["throughput"] },
  { id: "makespan", name: "Makespan", unit: "s", better: "down", of: (run) => run.makespan, said: ["throughput"] },
  { id: "slot_occupancy", name: "Slots in use", unit: "share", better: "none", of: (run) => run.slot_occupancy, said: [] },
  { id: "kv_occupancy", name: "KV cache in use", unit: "share", better: "none", of: (run) => run.kv_occupancy, said: [] },
  { id: "preemptions", name: "Preemptions", unit: "count", better: "down", of: (run) => run.preemptions, said: ["decisions"] },
  { id: "cost_per_million_output_tokens", name: "USD per 1M output tokens", unit: "USD", better: "down", of: (run) => run.cost_per_million_output_tokens, said: [] },
];

const NAMES: [Times, string][] = [["ttft", "TTFT"], ["tpot", "TPOT"]];

/** The rows of the comparison; the statistic that limits are held to is among them. */
export function figures(at: Part): Figure[] {
  if (at === "p50" || at === "p95") return FIGURES;
  return FIGURES.flatMap((each) => {
    const name = NAMES.find(([key]) => each.id === `${key}_p95`);
    return name ? [timed(name[0], at, name[1]), each] : [each];
  });
}

export function figureOf(id: string): Figure | undefined {
  const [, key, part] = /^(ttft|tpot)_(mean|p90|p99)$/.exec(id) ?? [];
  return key ? timed(key as Times, part as Part, key.toUpperCase()) : FIGURES.find((each) => each.id === id);
}

/** A figure in words: its value, or that the queue grows. */
export function cellText(figure: Figure, run: MeasuresReport | null | undefined): string {
  if (!run) return "";
  const value = figure.of(run);
  if ((value === null || value === undefined) && run.overload && /^(ttft|queue_time|e2e)/.test(figure.id)) return "grows";
  const found = text(value, figure.unit === "request/s" ? "1" : figure.unit);
  return ["token/s", "USD"].includes(figure.unit) ? found.replace(/\u00a0.*$/, "") : found; // the unit is in the name
}

/** A selection of this view: a request, or a figure of a policy. */
export function selectionOf(selection: string): { request: number } | { figure: string; variant: string } | null {
  const request = /^request:(\d{1,8})$/.exec(selection);
  if (request) return { request: Number(request[1]) - 1 };
  const figure = /^serve:([a-z0-9_]+)(?:@([a-z_]+))?$/.exec(selection);
  return figure && figureOf(figure[1]!) ? { figure: figure[1]!, variant: figure[2] ?? "" } : null;
}

/** The protocol's words with the names as people write them. */
export function spoken(line: string): string {
  const plain = line.replace(/\b(ttft|tpot|itl|e2e)(_from_admission)?\b/g, (_, name: string, from: string | undefined) => name.toUpperCase() + (from ? " from admission" : "")).replaceAll("queue_time", "queue wait");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}
