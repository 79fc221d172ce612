import { describe, expect, it } from "vitest";
import { halfDecades, logTicks } from "../src/charts/axis";
import { AXES, frontier, inside, layoutName, regionOf, regionText, times } from "../src/views/design/points";

/** Numbers from 0 to 1 that are the same in every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 16807) % 2147483647) / 2147483647;
}

describe("the frontier that is drawn", () => {
  const up = AXES.interactivity!;
  const down = AXES.tpot!;
  it("is what nothing beats in both axes, of equals the first, whatever the directions", () => {
    for (const [xs, ys] of [[up, AXES.throughput_per_device!], [down, AXES.cost_output!], [up, down]] as const) {
      const next = numbers(7);
      const x = Array.from({ length: 300 }, () => Math.ceil(next() * 20));
      const y = Array.from({ length: 300 }, () => Math.ceil(next() * 20));
      const counts = (at: number): boolean => at % 7 !== 0;
      const better = (a: number, b: number, axis: { better: string }): boolean => (axis.better === "up" ? a > b : a < b);
      const beaten = (at: number): boolean =>
        x.some((_, other) => counts(other) && other !== at && !better(x[at]!, x[other]!, xs) && !better(y[at]!, y[other]!, ys) && (x[at] !== x[other] || y[at] !== y[other] || other < at));
      const want = x.map((_, at) => at).filter((at) => counts(at) && !beaten(at));
      expect([...frontier(x, y, xs, ys, counts)].sort((a, b) => a - b)).toEqual(want);
    }
  });
  it("leaves out what has no place", () => {
    expect(frontier([1, null, 3], [1, 9, null], up, up, () => true)).toEqual([0]);
    expect(frontier([], [], up, up, () => true)).toEqual([]);
  });
});

describe("regions of the address", () => {
  it("are read in any order and written back", () => {
    const region = regionOf("80,12.5,300,2500")!;
    expect(region).toEqual({ x: [12.5, 80], y: [300, 2500] });
    expect(regionOf(regionText(region))).toEqual(region);
    expect(regionOf("1,2,3")).toBeNull();
    expect(regionOf("1,2,3,x")).toBeNull();
    expect(inside(region, 50, 300)).toBe(true);
    expect(inside(region, 50, null)).toBe(false);
    expect(inside(null, null, null)).toBe(true);
  });
});

describe("names and figures", () => {
  it("name only the degrees that cut something", () => {
    expect(layoutName({ tp: [4], pp: [1], attention_dp: [2] }, 0)).toBe("TP 4, attention DP 2");
    expect(layoutName({ tp: [1] }, 0)).toBe("One device");
  });
  it("multiply a figure as it is written", () => {
    expect(times(undefined, 2)).toBe("2x");
    expect(times("2x", 2)).toBe("4x");
    expect(times("3.35 TB/s", 2)).toBe("6.7 TB/s");
    expect(times("80GB", 0.5)).toBe("40 GB");
  });
  it("put at least three ticks on an axis, in order and inside it", () => {
    for (const [low, high] of [[46, 90], [1, 1000], [2.1, 24], [0.009, 0.011]] as const) {
      const range = halfDecades(low, high);
      const found = logTicks(...range);
      expect(found.length).toBeGreaterThanOrEqual(3);
      expect([...found].sort((a, b) => a - b)).toEqual(found);
      expect(found[0]!).toBeGreaterThanOrEqual(range[0] * 0.999);
      expect(found.at(-1)!).toBeLessThanOrEqual(range[1] * 1.001);
    }
  });
});
