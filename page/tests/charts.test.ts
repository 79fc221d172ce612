import { describe, expect, it } from "vitest";
import { evenTicks, halfDecades, logTicks, scale } from "../src/charts/axis";
import { crosses, place } from "../src/charts/labels";
import { markPath, radius } from "../src/charts/marks";
import { csv } from "../src/export/files";
import { asWords } from "../src/export/units";
import { EDGES, grown, middle } from "../src/views/design/points";
import { named } from "../src/components/sheets";
import { pieces, precise } from "../src/components/formula";
import type { Line } from "../src/contract";

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

describe("labels and lines", () => {
  it("knows a line that comes into a box", () => {
    const box = { x0: 10, x1: 20, y0: 10, y1: 20 };
    expect(crosses([0, 0], [30, 30], box)).toBe(true);
    expect(crosses([0, 15], [30, 15], box)).toBe(true);
    expect(crosses([0, 0], [30, 5], box)).toBe(false);
    expect(crosses([0, 0], [9, 9], box)).toBe(false);
    expect(crosses([5, 0], [5, 30], box)).toBe(false);
  });
  it("keeps labels off a roof", () => {
    const roof: [number, number][] = [[0, 200], [200, 60], [400, 60]];
    const marks = Array.from({ length: 9 }, (_, i) => ({ id: String(i), x: 20 + i * 40, y: Math.max(60, 186 - i * 28), r: 5, text: "a label" }));
    const placed = place(marks, marks, { left: 0, right: 400, top: 0, bottom: 300 }, [], 6, 9, [roof]);
    expect(placed.length).toBeGreaterThan(5);
    for (const { x, y, anchor, text } of placed) {
      const wide = text.length * 6;
      const box = { x0: anchor === "end" ? x - wide : x, x1: anchor === "end" ? x : x + wide, y0: y - 10, y1: y + 3 };
      expect(roof.some((point, i) => i > 0 && crosses(roof[i - 1]!, point, box))).toBe(false);
    }
  });
});

describe("formulas", () => {
  const line = (formula: string, inputs: Record<string, number>, more: object = {}): Line => ({ quantity: "flop", title: "work", unit: "FLOP", formula, substituted: "", value: 1, inputs, names: { n: "columns", k: "depth", m: "rows" }, units: { size: "byte" }, bases: {}, parts: {}, means: "", counts: "", source: "", holds: "", ...more });
  const said = (one: Line, what: "name" | "number"): string => pieces(one).map((piece) => piece[what]).join("");
  it("reads as people write", () => expect(said(line("2.0 * n * k * m", { n: 8192, k: 7168, m: 8 }), "name")).toBe("2 · columns · depth · rows"));
  it("drops a leading one", () => expect(said(line("1.0 * n * k", { n: 8192, k: 7168 }), "number")).toBe("8,192 · 7,168"));
  it("gives five digits, in the unit", () => {
    expect(precise(117686272, "byte")).toBe("117.69\u00a0MB");
    expect(precise(3.35e12, "byte/s")).toBe("3.35\u00a0TB/s");
    expect(precise(0.871234, "1")).toBe("0.87123");
    expect(precise(2048, "1")).toBe("2,048");
  });
  it("keeps the largest terms of a long sum, and the rest as one number", () => {
    // 1 + … + 8 = 36; without 8, 7, 6, 5 and 4 there are 6 left.
    const parts = Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8].map((value) => [`p${value}`, value]));
    const sum = line("", parts, { parts, unit: "s", units: Object.fromEntries(Object.keys(parts).map((name) => [name, "s"])) });
    expect(said(sum, "name")).toBe("p8 + p7 + p6 + p5 + p4 + 3 more");
    expect(said(sum, "number")).toBe("8\u00a0s + 7\u00a0s + 6\u00a0s + 5\u00a0s + 4\u00a0s + 6\u00a0s of 3 more");
  });
  it("says how often a term counts", () => expect(said(line("61 * n", { n: 2 }, { parts: { n: 122 } }), "name")).toBe("61 · columns"));
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
