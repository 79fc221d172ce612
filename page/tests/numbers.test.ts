import { describe, expect, it } from "vitest";
import { count, countProblem, doubled, sizeOf, written } from "../src/components/numbers";

describe("counts as they are typed or pasted", () => {
  it.each([["2048", 2048], ["2,048", 2048], ["2 048", 2048], ["1e3", 1000], ["8k", 8192], ["8Ki", 8192], ["1M", 1048576], [" 64 tokens ", 64], ["65 %", 65], ["1.5k", 1536], ["0", 0]])("%s", (typed, want) => expect(count(typed)).toBe(want));
  it.each(["", "-1", "NaN", "Infinity", "1.5", "80 GB", "0x10", "1,2", "1e-3", "8kk", "１２"])("refuses %s", (typed) => expect(count(typed)).toBeNull());
  it("says why", () => {
    expect(countProblem("0", 1, 10)).toBe("at least 1");
    expect(countProblem("-3", 1, 10)).toBe("at least 1");
    expect(countProblem("1e99", 1, 2097152)).toBe("at most 2,097,152");
    expect(countProblem("80 GB", 1, 10)).toBe("a whole number, without a unit");
    expect(countProblem("NaN", 1, 10)).toBe("a whole number");
    expect(countProblem("7", 1, 10)).toBe("");
  });
  it("steps through powers of two", () => {
    expect([doubled(100, true), doubled(100, false), doubled(128, true), doubled(1, false), doubled(0, true)]).toEqual([128, 64, 256, 0, 1]);
  });
});

describe("quantities with their unit", () => {
  it.each([["3.35 TB/s", 3.35e12], ["80 GiB", 80 * 1024 ** 3], ["80GB", 80e9], ["400 Gb/s", 50e9], ["1.5 us", 1.5e-6], ["989 TFLOP/s", 989e12], ["1,979 TOP/s", 1979e12], ["4e3 GB/s", 4e12]])("%s", (typed, want) => expect(sizeOf(typed, typed.endsWith("OP/s") ? "FLOP/s" : typed.endsWith("/s") ? "byte/s" : typed.endsWith("B") ? "byte" : "s")! / want).toBeCloseTo(1, 12));
  it.each(["", "80", "x", "-3 GB", "0 GB", "NaN GB", "3.35 TBs", "2x", "GB", "3 TB/s", "1 us"])("none in %s", (typed) => expect(sizeOf(typed, "byte")).toBeNull());
  it("writes them in full", () => {
    expect([written(56.25e9, "byte/s"), written(1.5e-6, "s"), written(450e9, "byte/s"), written(80 * 1024 ** 3, "byte")]).toEqual(["56.25 GB/s", "1.5 us", "450 GB/s", "85.89934592 GB"]);
  });
});
