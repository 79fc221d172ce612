import { describe, expect, it } from "vitest";
import { change, delta as moved, digits, shown, text as written, whole, type Better } from "../src/format";

const plain = (found: string): string => found.replaceAll("\u00a0", " "); // value and unit stay on one line
const text = (x: number | null, unit: string): string => plain(written(x, unit));
const delta = (now: number, was: number | null, better: Better, points = false) => {
  const found = moved(now, was, better, points);
  return { ...found, text: plain(found.text) };
};

// Expected texts are written out from the rules for numbers: three digits, SI prefixes, thousands commas (D-104).
describe("numbers", () => {
  it.each([
    [8.7, "8.70"],
    [0.00123456, "0.00123"],
    [999.4, "999"],
    [999.6, "1,000"],
    [1234.5, "1,230"],
    [-4.26, "−4.26"],
    [0, "0"],
    [Number.NaN, "–"],
  ])("three digits of %d", (x, want) => expect(digits(x)).toBe(want));

  it.each([
    [0.0208, "s", "20.8 ms"],
    [1e-6, "s", "1.00 µs"],
    [0.9996e-6, "s", "1.00 µs"],
    [2.5e-7, "s", "250 ns"],
    [12.5, "s", "12.5 s"],
    [85899345920, "byte", "85.9 GB"],
    [3.35e12, "byte/s", "3.35 TB/s"],
    [1.28635e15, "FLOP/s", "1.29 PFLOP/s"],
    [70553706496, "count", "70.6 B"],
    [128, "count", "128"],
    [2048, "1", "2,048"],
    [0.065, "share", "6.5 %"],
    [0.814, "share", "81 %"],
    [521.2, "token/s", "521 tok/s"],
    [null, "s", "–"],
    [7.97, "FLOP/byte", "7.97 FLOP/B"],
  ])("D-104: %d %s", (x, unit, want) => expect(text(x, unit)).toBe(want));

  it("keeps value and unit apart for the headline", () => expect(shown(0.0208, "s")).toEqual({ value: "20.8", unit: "ms" }));
  it("shows whole counts in full", () => expect(whole(1048576)).toBe("1,048,576"));
});

describe("changes", () => {
  it("says direction and judgement", () => {
    expect(delta(76, 100, "down")).toEqual({ text: "▼ 24 %", verdict: "good" });
    expect(delta(76, 100, "up").verdict).toBe("bad");
    expect(delta(150, 100, "none").verdict).toBe("plain");
  });
  it("calls less than a twentieth of a per cent the same", () => expect(delta(100.04, 100, "down").verdict).toBe("same"));
  it("gives changes of a share in points", () => expect(delta(0.62, 0.663, "none", true).text).toBe("−4.3 pts"));
  it("has nothing to say without a baseline", () => expect(delta(1, null, "down").text).toBe("–"));
  it("signs differences", () => {
    expect(plain(change(-0.00426, "s"))).toBe("−4.26 ms");
    expect(change(0, "s")).toBe("no change");
  });
});
