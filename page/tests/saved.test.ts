// Saved scenarios: what a browser kept may be anyone's; names; a list that survives a closed or full storage (E-23, B-014, D-130, D-134).
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FORMAT, free, nameOf, read, scenarioOf, written } from "../src/compare/records";
import { csvOf } from "../src/export/files";
import type { Saved } from "../src/contract";

const record = (name: string, more: object = {}): Saved => ({ name, ask: { model: "llama-3.1-8b", on: "h100-sxm", batch: 4 }, digest: {}, version: "0.1.0", time: "2026-01-31T12:00:00Z", ...more });

describe("what a browser kept", () => {
  it("goes there and back", () => expect(read(written([record("a"), record("b")]))).toEqual({ records: [record("a"), record("b")], problem: "", newer: false }));
  it("may be nothing", () => expect(read(null).problem).toBe(""));
  it.each(["", "{", "null", "[]", "7", '"x"', "{}", '{"rooflab":"other","format":1,"scenarios":[]}', '{"rooflab":"scenarios","format":1,"scenarios":{}}'])("may be anyone's: %s", (text) => {
    const found = read(text);
    expect(found.records).toEqual([]);
    expect(found.problem).toMatch(/cannot be read/);
  });
  it("may be a newer version's, and is left as it is", () => {
    const found = read(JSON.stringify({ rooflab: "scenarios", format: FORMAT + 1, scenarios: [record("a")] }));
    expect(found).toMatchObject({ records: [], newer: true });
    expect(found.problem).toContain(`format ${FORMAT + 1}`);
  });
  it("keeps what is whole and counts what is not", () => {
    const found = read(JSON.stringify({ rooflab: "scenarios", format: 1, scenarios: [record("a"), null, 3, { name: "x" }, { ...record("b"), ask: [] }, { ...record("c"), name: "" }] }));
    expect(found.records).toEqual([record("a")]);
    expect(found.problem).toContain("5 of 6");
  });
});

describe("names", () => {
  it.each([["  FP8   weights ", "FP8 weights", ""], ["", "", "Give it a name"], ["a\u202eb", "ab", "cannot be seen"], [" a \u200b b\u2066", "a b", "cannot be seen"], ["\u200b", "", "Give it a name"], ["\u05e9\u05dc\u05d5\u05dd 2", "\u05e9\u05dc\u05d5\u05dd 2", ""], ["x".repeat(101), "x".repeat(101), "At most"]])("%j", (text, name, problem) => {
    expect(nameOf(text).name).toBe(name);
    expect(nameOf(text).problem).toContain(problem);
  });
  it("get the next free number", () => {
    expect(free("a", [])).toBe("a");
    expect(free("a", ["a", "a 2"])).toBe("a 3");
    expect(free("x".repeat(100), ["x".repeat(100)]).length).toBeLessThanOrEqual(100);
  });
});

describe("a record as a scenario", () => {
  it("has every control, those that were not said as usual", () => {
    const { scenario, problem } = scenarioOf(record("a", { ask: { kind: "estimate", model: "m", on: "o", tp: 4, switches: { tiles: false }, weights: { ffn: "fp8" }, reserve: 0.2 } }));
    expect(problem).toBe("");
    expect(scenario).toMatchObject({ model: "m", on: "o", tp: 4, pp: 1, prompt: 1024, switches: { tiles: false }, weights: { ffn: "fp8" }, reserve: 0.2 });
  });
  it.each([
    [{ model: "m", on: "o", warp: 9 }, "“warp”"],
    [{ on: "o" }, "no model"],
    [{ model: "m", on: "o", tp: "4" }, "“tp”"],
    [{ model: "m", on: "o", changes: null }, "“changes”"],
    [{ model: "m", on: "o", switches: [] }, "“switches”"],
    [{ model: 3, on: "o" }, "“model”"],
    [{ model: "m", on: "o", kv: {} }, "“kv”"],
  ])("is refused where the page could not show it: %j", (ask, says) => {
    const found = scenarioOf(record("a", { ask }));
    expect(found.scenario).toBeNull();
    expect(found.problem).toContain(says);
  });
});

describe("the list in a browser", () => {
  let held: Map<string, string>;
  let full = false;
  beforeEach(() => {
    held = new Map();
    full = false;
    vi.resetModules();
    vi.stubGlobal("localStorage", {
      getItem: (key: string) => held.get(key) ?? null,
      setItem: (key: string, value: string) => {
        if (full) throw new DOMException("full", "QuotaExceededError");
        held.set(key, value);
      },
    });
  });
  afterEach(() => vi.unstubAllGlobals());
  const list = async () => {
    const { saved } = await import("../src/compare/saved.svelte");
    await saved.load();
    return saved;
  };

  it("saves, renames, deletes, and is there again", async () => {
    const saved = await list();
    expect(await saved.add([record("a"), record("a")])).toEqual(["a", "a 2"]);
    expect(await saved.rename("a 2", "a")).toBe(false);
    expect(saved.problem).toContain("taken");
    expect(await saved.rename("a 2", "b")).toBe(true);
    await saved.remove(["a"]);
    vi.resetModules();
    expect((await list()).all.map((each) => each.name)).toEqual(["b"]);
  });
  it("adds to what another tab has saved meanwhile", async () => {
    const saved = await list();
    held.set("rooflab.saved", written([record("other tab")]));
    await saved.add([record("mine")]);
    expect(saved.all.map((each) => each.name)).toEqual(["other tab", "mine"]);
  });
  it("says when the storage is full, and keeps it for the visit", async () => {
    const saved = await list();
    full = true;
    await saved.add([record("a")]);
    expect(saved.all).toHaveLength(1);
    expect(saved.problem).toContain("full");
    expect(saved.where).toContain("visit");
  });
  it("works where the browser keeps nothing", async () => {
    vi.stubGlobal("localStorage", { getItem: () => { throw new DOMException("no", "SecurityError"); }, setItem: () => { throw new DOMException("no", "SecurityError"); } });
    const saved = await list();
    expect(await saved.add([record("a")])).toEqual(["a"]);
    expect(saved.where).toContain("visit");
  });
  it("does not throw away what it cannot read", async () => {
    held.set("rooflab.saved", "{ damaged");
    const saved = await list();
    expect(saved.problem).toContain("damaged");
    await saved.add([record("a")]);
    expect(held.get("rooflab.saved.unreadable")).toBe("{ damaged");
    expect(read(held.get("rooflab.saved")!).records).toHaveLength(1);
  });
  it("does not write over a newer version's", async () => {
    const newer = JSON.stringify({ rooflab: "scenarios", format: FORMAT + 1, scenarios: [] });
    held.set("rooflab.saved", newer);
    const saved = await list();
    await saved.add([record("a")]);
    expect(saved.all).toHaveLength(1);
    expect(held.get("rooflab.saved")).toBe(newer);
  });
});

it("a file of figures runs nothing in a spreadsheet", () => {
  expect(csvOf({ header: ["a", "b"], rows: [["=cmd()", -1], ['x,"y', null], ["@z", 0.1]] })).toBe("a,b\n'=cmd(),-1\n\"x,\"\"y\",\n'@z,0.1\n");
});
