import { describe, expect, it } from "vitest";
import { changed, devicesOf, FIELDS, scenario } from "../src/state/scenario";
import { hashOf, placeOf, START, START_BASELINE, tooLong } from "../src/state/url";

const VIEWS = ["step", "fit"];
const place = (over: object = {}) => ({ view: "step", scenario: START, baseline: START_BASELINE, selection: "", more: {}, ...over });

// A-003, D-900: the address holds everything that is asked.
describe("the address", () => {
  it("is bare at the start", () => expect(hashOf(place())).toBe("#/step"));

  it("reads the form that the design gives", () => {
    const found = placeOf("#/step?m=llama-3.1-70b&s=h100-sxm*4&l=tp4&w=2048-256-b128&p=w8kv16&f=operator&vs=p:w16&sel=op:down", VIEWS);
    expect(found.scenario).toMatchObject({ model: "llama-3.1-70b", on: "4x h100-sxm", tp: 4, prompt: 2048, output: 256, batch: 128, weights: "fp8", kv: "bf16", profile: "operator" });
    expect(found.baseline).toEqual({ ...found.scenario, weights: "bf16", kv: null });
    expect(found.selection).toBe("op:down");
    expect(found.problems).toEqual([]);
  });

  const CASES = [
    scenario({ model: "qwen3-8b", on: "h100-sxm" }),
    scenario({ model: "Qwen/Qwen3-8B", on: "dgx-h100", tp: 8, pp: 2, ep: 4, attention_dp: 2, microbatches: 4, kv_shard: "split", ffn_scope: "tp_cp", ring: "qoml", tp_placement: "outer", batch: 7, prompt: 33, output: 1, cached: 12, concurrency: 64, kv: "fp8", weights: "int4", profile: "sharded" }),
    scenario({ model: "a b&c=d#é", on: "2x h100-sxm", changes: { memory_bandwidth: "4TB/s" }, switches: { compute_efficiency: 0.7, tiles: false }, reserve: "2GB", profile: "classroom", prices: "fitted", engine: "sglang" }),
    scenario({ model: { model_type: "llama", hidden_size: 64 }, on: "h100-sxm", weights: { expert: "int4", attention: "fp8" } }),
  ];
  it.each(CASES)("gives back what it was given (%#)", (s) => {
    for (const baseline of [s, null, { ...s, batch: 9, weights: "fp8", kv: null }, START]) {
      const back = placeOf(hashOf(place({ scenario: s, baseline, selection: "kpi:ttft", more: { phase: "prefill", zz: "kept" } })), VIEWS);
      expect(back.scenario).toEqual(s);
      if (typeof s.model === "string" && (baseline === null || typeof baseline.model === "string")) expect(back.baseline).toEqual(baseline);
      expect(back).toMatchObject({ selection: "kpi:ttft", more: { phase: "prefill", zz: "kept" }, problems: [] });
    }
  });

  it.each(["#/nowhere?m=%E0%A4%A", "#/step?w=abc", "#/step?l=tp-1-xx9", "#/step?mx={bad", "#/step?vs=q:zz", "#<script>alert(1)</script>", "#/step?s==;=;x", "#/step?l=constructor_x-toString9&p=wconstructorkvtoString", `#/step?m=${"x".repeat(9000)}`])("never fails on garbage: %s", (hash) => {
    const found = placeOf(hash, VIEWS);
    expect(VIEWS).toContain(found.view);
    expect(found.scenario.tp).toBeGreaterThan(0);
    expect(JSON.parse(JSON.stringify(found.scenario))).toEqual(found.scenario); // plain data, nothing inherited
  });

  it("says what it could not read", () => expect(placeOf("#/step?l=tp2-zap", VIEWS).problems.join()).toContain("zap"));
  it("knows when a link is too long", () => expect(tooLong(hashOf(place({ scenario: { ...START, model: { name: "x".repeat(7000) } } })))).toBe(true));
});

describe("the segments", () => {
  it("hold every field that can be asked", () => expect(Object.values(FIELDS).flat().sort()).toEqual(Object.keys(START).sort()));
});

describe("a change", () => {
  it("takes the devices along that the layout needs", () => {
    const s = scenario({ model: "m", on: "4x h100-sxm", tp: 4 });
    expect(changed(s, { tp: 8 }).on).toBe("8x h100-sxm");
    expect(changed(s, { tp: 1 }).on).toBe("h100-sxm");
    expect(changed({ ...s, on: "8x h100-sxm" }, { tp: 2 }).on).toBe("8x h100-sxm"); // it had room to spare
    expect(devicesOf({ ...s, dp: 2 })).toBe(8);
  });
  it("takes the layout along where devices go away", () => {
    const s = scenario({ model: "m", on: "4x h100-sxm", tp: 4 });
    expect(changed(s, { on: "2x h100-sxm" })).toMatchObject({ on: "2x h100-sxm", tp: 2, dp: 1 });
    expect(changed(s, { on: "3x h100-sxm" }).tp).toBe(2); // a divisor of the four that shared the heads
    expect(changed(s, { on: "h100-sxm" }).tp).toBe(1);
    expect(changed({ ...s, on: "8x h100-sxm", dp: 2 }, { on: "4x h100-sxm" })).toMatchObject({ tp: 4, dp: 1 });
    expect(changed(s, { on: "8x h100-sxm" }).tp).toBe(4);
    expect(changed(s, { on: "2x h200-sxm" }).tp).toBe(4); // another device: nothing is guessed
  });
});
