import { describe, expect, it } from "vitest";
import { evenTicks, halfDecades, logTicks, scale } from "../src/charts/axis";
import { place } from "../src/charts/labels";
import { markPath, radius } from "../src/charts/marks";
import { csv } from "../src/export/files";
import { asWords } from "../src/export/units";
import { EDGES, grown, middle } from "../src/views/design/points";
import { named } from "../src/components/sheets";
import { figure, symbolic } from "../src/components/formula";

describe("axes", () => {
  it("ends on half decades", () => {
    expect(halfDecades(0.5, 1600)).toEqual([0.3, 3000]);
    expect(halfDecades(1, 1000)).toEqual([1, 1000]);
  });
  it("ticks at decades, at 1 and 3 or finer where there are few", () => {
    expect(logTicks(0.3, 3000)).toEqual([1, 10, 100, 1000]);
    expect(logTicks(3, 100)).toEqual([3, 10, 30, 100]);
  });
  it("ticks a straight axis at ones, twos and fives", () => {
    expect(evenTicks(0, 100)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(evenTicks(0, 0.7, 3)).toEqual([0, 0.2, 0.4, 0.6]);
    expect(evenTicks(0, 7300, 4)).toEqual([0, 2000, 4000, 6000]);
  });
  it("places values by their ratio or their difference, and back", () => {
    const [log, straight] = [scale(true, [1, 100], [0, 200]), scale(false, [0, 100], [200, 0])];
    expect([log(1), log(10), log(100), log.invert(100)]).toEqual([0, 100, 200, 10].map((each) => expect.closeTo(each, 9)));
    expect([straight(0), straight(25), straight.invert(150)]).toEqual([200, 150, 25]);
  });
  it("keeps what lies outside at the edge, also nothing on a log axis, unless it may leave", () => {
    const log = scale(true, [1, 100], [0, 200]);
    expect([log(1000), log(0.1), log(0)]).toEqual([200, 0, 0]);
    expect(scale(false, [0, 10], [0, 100], 5, true)(20)).toBe(200);
  });
});

describe("marks", () => {
  it("A-005: area goes with share", () => expect((radius(0.4) / radius(0.1)) ** 2).toBeCloseTo(4));
  it("shape repeats the colour", () => expect(new Set((["compute", "memory", "network", "latency"] as const).map((bound) => markPath(bound, 0, 0, 5))).size).toBe(4));
});

describe("labels", () => {
  it("never overlap each other, and stay inside", () => {
    const marks = Array.from({ length: 8 }, (_, i) => ({ id: String(i), x: 300 + (i % 3), y: 100 + i, r: 5, text: `operator ${i}` }));
    const placed = place(marks, marks, { left: 0, right: 600, top: 0, bottom: 300 });
    expect(placed.length).toBeGreaterThan(4);
    for (const a of placed) for (const b of placed) if (a !== b && a.anchor === b.anchor) expect(Math.abs(a.y - b.y) >= 14 || Math.abs(a.x - b.x) > 60).toBe(true);
    for (const one of placed) expect(one.y).toBeGreaterThan(0);
  });
});

describe("formulas", () => {
  it("reads as people write", () => expect(symbolic("2.0 * n * k * m")).toBe("2 · n · k · m"));
  it("drops a leading one", () => expect(symbolic("1.0 * n * k")).toBe("n · k"));
  it("shortens numbers", () => {
    expect(figure("1979000000000000")).toBe("1.98·10¹⁵");
    expect(figure("0.65")).toBe("0.65");
    expect(figure("2048")).toBe("2,048");
  });
});

describe("csv", () => {
  it("quotes, and lets no text run as a formula", () => expect(csv([["a,b", '=HYPERLINK("x")', 1.5, null]])).toBe('"a,b","\'=HYPERLINK(""x"")",1.5,\n'));
});

describe("columns of a file", () => {
  it("say their unit, and read as words again", () => {
    for (const [key, unit, title] of [["tpot", "s", "TPOT"], ["memory_bandwidth", "byte/s", "Memory bandwidth"], ["interactivity", "token/s", "Interactivity"], ["kv", "byte", "KV"], ["intensity", "FLOP/byte", "Intensity"]] as const)
      expect(asWords(named(key, unit))).toEqual({ title, unit });
    expect(named("devices", "count")).toBe("devices");
    expect(asWords("memory_share")).toEqual({ title: "Memory share", unit: "share" });
    expect(asWords("passes")).toEqual({ title: "Passes", unit: "" });
  });
});

describe("a region by the keys", () => {
  const [x, y] = [scale(false, [0, 100], [0, 1200]), scale(false, [0, 10], [600, 0])];
  it("begins in the middle", () => expect(middle(x, y)).toEqual({ x: [30, 70].map((each) => expect.closeTo(each, 9)), y: [3, 7].map((each) => expect.closeTo(each, 9)) }));
  it("moves one edge by twelve pixels, up and to the right", () => {
    const from = { x: [30, 70] as [number, number], y: [3, 7] as [number, number] };
    const to = EDGES.map((edge) => grown(from, edge, 1, x, y));
    expect(to.map((each) => [...each.x, ...each.y])).toEqual([[31, 70, 3, 7], [30, 71, 3, 7], [30, 70, 3.2, 7], [30, 70, 3, 7.2]].map((each) => each.map((value) => expect.closeTo(value, 9))));
  });
});
