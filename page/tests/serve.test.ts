import { describe, expect, it } from "vitest";
import type { MeasuresReport, SimulateReport } from "../src/contract";
import { keyOf } from "../src/ask/key";
import { scenario } from "../src/state/scenario";
import { cellText, figureOf, selectionOf, spoken } from "../src/views/serve/figures";
import { planOf, POINT_MOST, scaleOf } from "../src/views/serve/plan";
import { at, axisOf, chosenOf, loadText, questionOf, read, step, USUAL, variantsOf, write, type Settings } from "../src/views/serve/settings";
import { between, requestsOf, rowsOf, thinned } from "../src/views/serve/table";

const LLAMA = scenario({ model: "llama-3.1-8b", on: "h100-sxm", dp: 2 });

describe("settings in the address", () => {
  it("leave out what is usual and come back as they were", () => {
    expect(write(USUAL)).toBe("");
    const some: Settings = { ...USUAL, policy: "static", slots: 64, chunked: false, prompt: "lognormal:1024:0.8", ttft: "", variation: 0.5 };
    expect(read(write(some))).toEqual({ settings: some, problems: [] });
  });
  it("say what cannot be read, and keep the rest", () => {
    const { settings, problems } = read("slots=0;budget=many;policy=lucky;nonsense;kv=1;at=p42;seed=7");
    expect(settings).toEqual({ ...USUAL, seed: 7 });
    expect(problems).toHaveLength(6);
    expect(problems[0]).toContain("Slots");
  });
  it("refuse ten million requests and say where they belong", () => expect(read("requests=10000000").problems[0]).toContain("rooflab simulate"));
});

describe("questions", () => {
  it("carry the scenario's lengths and replicas unless others are set", () => {
    expect(questionOf(LLAMA, USUAL, null)).toMatchObject({ kind: "simulate", prompt: 1024, output: 256, replicas: 2, slo: { ttft: "1 s", tpot: "50 ms" } });
    expect(questionOf(LLAMA, { ...USUAL, prompt: "geometric:300", replicas: 5, ttft: "", tpot: "" }, null)).toMatchObject({ prompt: "geometric:300", replicas: 5, slo: null });
  });
  it("put the load where the mode has it", () => {
    const plain = questionOf({ ...LLAMA, concurrency: 9 }, USUAL, null);
    expect(plain.concurrency).toBeNull();
    expect(at(plain, "rate", 3)).toMatchObject({ rate: 3, concurrency: null });
    expect(at(plain, "users", 8)).toMatchObject({ concurrency: 8 });
    expect(at(questionOf(LLAMA, { ...USUAL, arrivals: "trace" }, { name: "t", text: "rows" }), "trace", 2)).toMatchObject({ speed: 2, trace_text: "rows" });
  });
  it("keep a trace's text out of their keys", () => {
    const [a, b] = ["x".repeat(10_000), "y".repeat(10_000)].map((text) => keyOf({ kind: "simulate", trace_text: text }));
    expect(a).not.toBe(b);
    expect(a!.length).toBeLessThan(100);
  });
});

describe("the axis of loads", () => {
  it("goes in round steps to a fifth beyond what is served", () => {
    expect(step(12, 12)).toBe(1);
    expect(step(18.8, 12)).toBe(2);
    const axis = axisOf("rate", 15.7);
    expect(axis.loads[0]).toBe(2);
    expect(axis.loads.at(-1)).toBeGreaterThanOrEqual(15.7 * 1.2);
    expect(axis.usual).toBe(10); // nearest to 0.7 of it, 10.99, in steps of 2
    expect(axisOf("rate", 0.0042).loads.every((each, i, all) => i === 0 || each > all[i - 1]!)).toBe(true);
  });
  it("doubles users", () => expect(axisOf("users", 100).loads).toEqual([1, 2, 4, 8, 16, 32, 64]));
  it("is read out in its unit", () => {
    expect(loadText("rate", 11.5)).toBe("11.5\u00a0req/s");
    expect(loadText("users", 1)).toBe("1\u00a0user");
    expect(loadText("trace", 2)).toBe("×2");
  });
});

describe("what is played", () => {
  const axis = { loads: [2, 4], fine: 1, usual: 2 };
  const plan = (settings: Settings, more: object = {}) => planOf({ scenario: LLAMA, baseline: null, settings, trace: null, mode: "rate", axis, load: 4, variants: variantsOf(settings), chosen: chosenOf(settings), levers: [], request: null, ...more });
  it("begins with the run that is looked at, then the chosen policy's curve", () => {
    const jobs = plan({ ...USUAL, policy: "static" });
    expect(jobs[0]).toMatchObject({ id: "main", large: true, question: { policy: "static", rate: 4, requests_table: true } });
    expect(jobs.slice(1, 4).map((job) => job.id)).toEqual(["curve:static:2", "curve:static:4", "find:static"]);
    expect(new Set(jobs.map((job) => job.id)).size).toBe(jobs.length);
  });
  it("plays points of curves with few requests, the run with all", () => {
    const jobs = plan({ ...USUAL, requests: 100_000 });
    expect(jobs[0]!.question.requests).toBe(100_000);
    expect(jobs.find((job) => job.id.startsWith("curve"))!.question.requests).toBe(POINT_MOST);
  });
  it("looks for no highest load without limits, and opens a request in the same run", () => {
    const jobs = plan({ ...USUAL, ttft: "", tpot: "" }, { request: 30 });
    expect(jobs.some((job) => job.id.startsWith("find"))).toBe(false);
    expect(jobs[1]).toMatchObject({ id: "path", question: { request: 30, rate: 4, seed: 0 } });
  });
  it("compares a divided engine with as many undivided replicas", () => {
    const settings = { ...USUAL, disaggregate: "1:3", link: "50 GB/s" };
    expect(chosenOf(settings)).toBe("apart");
    const jobs = plan(settings);
    expect(jobs[0]!.question).toMatchObject({ disaggregate: "1:3", link: "50 GB/s" });
    expect(jobs.find((job) => job.id === "run:chunked")!.question).toMatchObject({ disaggregate: null, link: null, replicas: 4 });
  });
  it("waits for a trace", () => expect(scaleOf(LLAMA, USUAL, null, "trace")).toEqual([]));
});

describe("requests", () => {
  // three requests: one unfinished, one that never came; in order of arrival they are 2, 0
  const report = { requests_table: { arrival: [3, null, 1], admitted: [4, null, 1], first: [5, null, 2], finish: [null, null, 2.5], prompt: [1, 1, 1], output: [1, 1, 1], ttft: [2, null, 1], tpot: [null, null, null] } } as unknown as SimulateReport;
  it("are in order of arrival; what never came is left out", () => {
    const found = requestsOf(report)!;
    expect([...found.order]).toEqual([2, 0]);
    expect([found.begin, found.end]).toEqual([1, 2.5]);
    expect(requestsOf(null)).toBeNull();
  });
  it("are on their way between two times", () => {
    const found = requestsOf(report)!;
    expect([...between(found, 0, 2)]).toEqual([2]);
    expect([...between(found, 2.6, 2.9)]).toEqual([]);
    expect([...between(found, 2.4, 9)]).toEqual([2, 0]);
  });
  it("are drawn all while there is room, else every so many'th", () => {
    const many = Int32Array.from({ length: 1000 }, (_, i) => i);
    expect(rowsOf(many.subarray(0, 10), 100)).toMatchObject({ each: 1, tall: 9 });
    const { rows, each } = rowsOf(many, 100);
    expect([each, rows.length, rows[1]]).toEqual([20, 50, 20]);
  });
  it("thins values to the means of stretches", () => expect(thinned([1, 3, 5, 7, 9], 0, 5, 3)).toEqual([[0, 2], [2, 6], [4, 9]]));
});

describe("figures in words", () => {
  const run = { overload: true, ttft: null, tpot: { p95: 0.02, interval: {} }, output_throughput: 1234.5, goodput: 3.456 } as unknown as MeasuresReport;
  it("say that the queue grows where there is no waiting time", () => {
    expect(cellText(figureOf("ttft_p95")!, run)).toBe("grows");
    expect(cellText(figureOf("tpot_p95")!, run)).toBe("20.0\u00a0ms");
    expect(cellText(figureOf("output_throughput")!, run)).toBe("1,230");
    expect(cellText(figureOf("goodput")!, run)).toBe("3.46");
    expect(cellText(figureOf("ttft_p95")!, null)).toBe("");
  });
  it("are selected by name and policy, requests by number", () => {
    expect(selectionOf("serve:ttft_p95@static")).toEqual({ figure: "ttft_p95", variant: "static" });
    expect(selectionOf("request:31")).toEqual({ request: 30 });
    for (const each of ["", "op:down", "serve:luck", "request:x"]) expect(selectionOf(each)).toBeNull();
  });
  it("are spoken with their usual names", () => expect(spoken("ttft_from_admission is not queue_time")).toBe("TTFT from admission is not queue wait"));
});
