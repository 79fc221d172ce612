// Axes: where a value stands, straight or logarithmic, and the ticks.

/** The nearest half decades (1, 3, 10, 30, …) around a range. */
export function halfDecades(low: number, high: number): [number, number] {
  const steps = (x: number, up: boolean): number => {
    const power = Math.floor(Math.log10(x));
    const lead = x / 10 ** power;
    if (up) return lead <= 1 ? 10 ** power : lead <= 3 ? 3 * 10 ** power : 10 ** (power + 1);
    return lead >= 3 ? 3 * 10 ** power : 10 ** power;
  };
  const plain = (x: number): number => Number(x.toPrecision(1));
  return [plain(steps(low, false)), plain(steps(high, true))];
}

function between(low: number, high: number, leads: number[]): number[] {
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low) + 1e-9); power <= Math.floor(Math.log10(high) + 1e-9); power += 1)
    for (const lead of leads) {
      const at = Number((lead * 10 ** power).toPrecision(12));
      if (at >= low * (1 - 1e-9) && at <= high * (1 + 1e-9)) found.push(at);
    }
  return found;
}

/** At least three ticks of a log axis: decades, with 3s, or with 2s and 5s where the range is short. */
export function logTicks(low: number, high: number): number[] {
  for (const leads of [[1], [1, 3], [1, 2, 5]]) {
    const found = between(low, high, leads);
    if (found.length >= 3) return found;
  }
  return between(low, high, [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/** About so many ticks of a straight axis, at ones, twos and fives. */
export function evenTicks(low: number, high: number, few = 5): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / few;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((lead) => lead * power >= rough * 0.75) ?? 10);
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

export interface Scale {
  (value: number): number;
  invert(place: number): number;
  domain: [number, number];
  ticks: number[];
}

/** From values to places of a chart; what lies outside stands at the edge unless it may leave. */
export function scale(log: boolean, domain: [number, number], to: [number, number], few = 5, outside = false): Scale {
  const of = log ? (value: number): number => Math.log(value > 0 ? value : Number.MIN_VALUE) : Number;
  const [low, high] = [of(domain[0]), of(domain[1])];
  const [from, until] = to;
  const over = (until - from) / (high - low || 1);
  const [least, most] = [Math.min(from, until), Math.max(from, until)];
  const at = (value: number): number => {
    const place = from + (of(value) - low) * over;
    return outside ? place : place < least ? least : place > most ? most : place;
  };
  return Object.assign(at, {
    invert: (place: number): number => (log ? Math.exp : Number)(low + (place - from) / over),
    domain,
    ticks: log ? logTicks(...domain) : evenTicks(...domain, few),
  });
}

/** Ticks with what is written at them, without those that would run into the next; the last has the unit. */
export function written(at: Scale, right: number, name: (tick: number) => string, unit: string, size = 6.2): { v: number; said: string; end: boolean }[] {
  let free = Infinity;
  return [...at.ticks].reverse().map((v, i) => {
    const said = name(v) + (i ? "" : unit);
    const end = at(v) > right - 30;
    const [from, until] = end ? [at(v) - said.length * size, at(v)] : [at(v) - (said.length * size) / 2, at(v) + (said.length * size) / 2];
    if (until > free) return { v, said: "", end };
    free = from - 4;
    return { v, said, end };
  });
}

/** A scale that holds a range: to the next half decade, or from nothing. */
export const around = (log: boolean, [low, high]: [number, number], to: [number, number], few = 5): Scale => scale(log, log ? halfDecades(low, high) : [0, high * 1.06], to, few);
