import { describe, expect, it } from "vitest";
import { commands } from "../src/components/commands";
import { START } from "../src/state/url";

const app = { scenario: START, shelves: { devices: [{ name: "h100-sxm", title: "NVIDIA H100 SXM" }, { name: "h200-sxm", title: "NVIDIA H200 SXM" }], models: [{ name: "qwen3-8b" }], systems: [], profiles: [] }, now: { report: null } } as never;
const change = (phrase: string) => commands(phrase, app, []).find((each) => each.change)?.change;

describe("find or change", () => {
  it("takes one thing", () => {
    expect(change("batch 64")).toEqual({ batch: 64 });
    expect(change("8k context")).toEqual({ prompt: 8192 });
    expect(change("context 8,192")).toEqual({ prompt: 8192 });
    expect(change("batch size 32")).toEqual({ batch: 32 });
    expect(change("tp 8")).toEqual({ tp: 8 });
  });
  it("takes several things said at once as one change", () => {
    expect(change("2x h100-sxm, tp 2, batch 64, 8k context")).toEqual({ on: "2x h100-sxm", changes: {}, tp: 2, batch: 64, prompt: 8192 });
    expect(change("fp8 weights and fp8 kv at batch 64")).toEqual({ weights: "fp8", kv: "fp8", batch: 64 });
  });
  it("falls back where a part means nothing", () => {
    expect(change("batch 64, purple")).toEqual({ batch: 64 });
    expect(commands("purple, green", app, [])).toEqual([]);
  });
});
