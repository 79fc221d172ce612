import { describe, expect, it } from "vitest";
import { about, multiplier, regimeOf, short } from "../src/views/limits/report";

describe("limits", () => {
  it("C-022: multipliers of the address stay in their range", () => {
    expect(multiplier("2.5")).toBe(2.5);
    for (const bad of [undefined, "", "0", "9", "x"]) expect(multiplier(bad)).toBe(1);
  });
  it("names regimes in the colours of the other views", () => {
    expect(regimeOf("kv-bound")).toEqual({ bound: "memory", name: "KV cache" });
    expect(regimeOf("memory-bound").bound).toBe("memory");
    expect(regimeOf("compute-bound").bound).toBe("compute");
  });
  it("shortens contexts without changing them", () => expect([128, 2048, 2304, 131072, 524288, 1048576, 10240, 102400].map(short)).toEqual(["128", "2 Ki", "2.25 Ki", "128 Ki", "512 Ki", "1 Mi", "10 Ki", "100 Ki"]));
  it("says no knee rather than a number", () => expect([about(null, "no knee"), about(295.37), about(1.5)]).toEqual(["no knee", "295", "1.50"]));
});
