// The table of requests as columns that can be drawn at once, however many there are.
import type { SimulateReport } from "../../contract";

export const COLUMNS = ["arrival", "admitted", "first", "finish", "prompt", "output", "ttft", "tpot"] as const;

export interface Requests {
  /** Numbers of the requests in order of arrival; those that never came are left out. */
  order: Int32Array;
  arrival: Float64Array;
  /** NaN for what did not happen. */
  admitted: Float64Array;
  first: Float64Array;
  finish: Float64Array;
  ttft: Float64Array;
  /** Natural logarithm of ttft. */
  log: Float64Array;
  /** Greatest finish up to each place in `order`. */
  reach: Float64Array;
  begin: number;
  end: number;
}

function column(report: SimulateReport, name: string): Float64Array {
  const values = (report.requests_table?.[name] ?? []) as (number | null)[];
  return Float64Array.from(values, (value) => value ?? NaN);
}

export function requestsOf(report: SimulateReport | null): Requests | null {
  if (!report?.requests_table?.arrival?.length) return null;
  const arrival = column(report, "arrival");
  const finish = column(report, "finish");
  const order = Int32Array.from(arrival.keys()).filter((r) => !Number.isNaN(arrival[r]!));
  order.sort((a, b) => arrival[a]! - arrival[b]! || a - b);
  const reach = new Float64Array(order.length);
  let furthest = -Infinity;
  order.forEach((r, place) => {
    const until = finish[r]!;
    furthest = Math.max(furthest, Number.isNaN(until) ? Infinity : until);
    reach[place] = furthest;
  });
  let end = 0;
  for (const at of finish) if (at > end) end = at;
  const begin = order.length ? arrival[order[0]!]! : 0;
  const ttft = column(report, "ttft");
  return { order, arrival, admitted: column(report, "admitted"), first: column(report, "first"), finish, ttft, log: ttft.map(Math.log), reach, begin, end: Math.max(end, begin + 1e-9) };
}

/** First place whose value is above a limit, in values that never fall. */
function above(count: number, value: (place: number) => number, limit: number): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(middle) > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Requests that are somewhere on their way between two times, in order of arrival. */
export function between(found: Requests, from: number, to: number): Int32Array {
  const { order, arrival, finish, reach } = found;
  const last = above(order.length, (place) => arrival[order[place]!]!, to);
  const first = above(order.length, (place) => reach[place]!, from);
  return order.subarray(Math.min(first, last), last).filter((r) => !(finish[r]! < from));
}

/** Rows to draw: all while there is room for two pixels each, else every so many'th. */
export function rowsOf(visible: Int32Array, height: number): { rows: Int32Array; each: number; tall: number } {
  const most = Math.max(1, Math.floor(height / 2));
  const each = Math.max(1, Math.ceil(visible.length / most));
  const rows = each === 1 ? visible : visible.filter((_, place) => place % each === 0);
  return { rows, each, tall: Math.min(9, height / Math.max(1, rows.length)) };
}

/** A run of values, fewer of them: the mean of each stretch, between two places. */
export function thinned(values: number[], from: number, to: number, most: number): [number, number][] {
  const step = Math.max(1, Math.ceil((to - from) / most));
  const found: [number, number][] = [];
  for (let place = from; place < to; place += step) {
    let total = 0;
    const end = Math.min(place + step, to);
    for (let k = place; k < end; k += 1) total += values[k]!;
    found.push([place, total / (end - place)]);
  }
  return found;
}
