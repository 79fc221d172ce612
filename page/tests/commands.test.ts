import { describe, expect, it } from "vitest";
import { commands, nearest } from "../src/components/commands";
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
  it("takes a newcomer's questions", () => {
    expect(change("does qwen3 in fp8 fit on two H100s at batch 64 and 8k context?")).toEqual({ model: "qwen3-8b", weights: "fp8", on: "2x h100-sxm", changes: {}, batch: 64, prompt: 8192 });
    expect(change("fp8 weights 2 h100 batch 64 8k context")).toEqual({ weights: "fp8", on: "2x h100-sxm", changes: {}, batch: 64, prompt: 8192 });
    expect(change("how much would fp8 kv help?")).toEqual({ kv: "fp8" });
    expect(commands("does it fit?", app, [{ name: "fit", title: "Fit" }] as never)[0]?.id).toBe("v-fit");
    expect(commands("what limits decode?", app, [])[0]?.id).toBe("limits");
    expect(commands("why is TPOT that number?", app, [])[0]?.id).toBe("why-tpot");
  });
  it("falls back where a part means nothing", () => {
    expect(change("batch 64, purple")).toEqual({ batch: 64 });
    expect(commands("purple, green", app, [])).toEqual([]);
  });
  it("takes multiples of the machine's figures", () => {
    expect(change("2x bandwidth")).toEqual({ changes: { memory_bandwidth: "2x" } });
    expect(change("1.5x memory")).toEqual({ changes: { memory: "1.5x" } });
    expect(change("flops 4x")).toEqual({ changes: { flop_rate: "4x" } });
    expect(change("2x h100-sxm")).toEqual({ on: "2x h100-sxm", changes: {} });
  });
  it("takes traffic for Serve", () => {
    const traffic = (phrase: string) => commands(phrase, app, [{ name: "serve", title: "Serve" }] as never).find((each) => each.traffic)?.traffic;
    for (const phrase of ["5 req/s", "load 5", "5 requests per second", "rate 5 rps"]) expect(traffic(phrase), phrase).toEqual({ arrivals: "rate", load: "5" });
    expect(traffic("40 users")).toEqual({ arrivals: "users", load: "40" });
    expect(traffic("policy static")).toEqual({ policy: "static" });
    expect(traffic("prefill first")).toEqual({ policy: "prefill_first" });
    expect(traffic("ttft 500 ms")).toEqual({ ttft: "500 ms" });
    expect(traffic("tpot at most 0.05 s")).toEqual({ tpot: "0.05 s" });
    expect(traffic("slots 64")).toEqual({ slots: "64" });
    expect(traffic("token budget 2,048")).toEqual({ budget: "2048" });
    for (const phrase of ["load 0", "why ttft", "batch 64", "load", "ttft 500"]) expect(traffic(phrase), phrase).toBeUndefined();
  });
  it("compares as a change that is looked at first", () => {
    const [first] = commands("compare h200", app, []);
    expect(first).toMatchObject({ kind: "do", change: { on: "4x h200-sxm" } });
  });
  it("knows what is near a name that nothing has", () => {
    expect(nearest("qwen3 8", app)[0]).toBe("qwen3-8b");
    expect(nearest("zzzz", app)).toEqual([]);
  });
});
