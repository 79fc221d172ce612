// Log axes: decades that cover the data, and their ticks.

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

/** Powers of ten in a range; with 3s between when there is room for few. */
export function decades(low: number, high: number, threes = false): number[] {
  return between(low, high, threes ? [1, 3] : [1]);
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
