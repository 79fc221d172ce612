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
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.floor(Math.log10(high) + 1e-9); power += 1) {
    found.push(10 ** power);
    if (threes && 3 * 10 ** power <= high) found.push(3 * 10 ** power);
  }
  return found;
}
