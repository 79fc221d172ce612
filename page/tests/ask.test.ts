import { describe, expect, it } from "vitest";
import { keyOf } from "../src/ask/key";
import { latest } from "../src/ask/queue";

describe("one question at a time, the latest wins", () => {
  it("drops what was passed meanwhile and answers the last", async () => {
    const started: number[] = [];
    const shown: number[] = [];
    const gates: (() => void)[] = [];
    const queue = latest<number, number>((n) => new Promise((done) => (started.push(n), gates.push(() => done(n * 10)))), (report) => shown.push(report), () => undefined);
    for (const n of [1, 2, 3, 4]) queue.push(n);
    expect(started).toEqual([1]);
    gates[0]!();
    await new Promise((done) => setTimeout(done));
    expect(started).toEqual([1, 4]);
    gates[1]!();
    await new Promise((done) => setTimeout(done));
    expect(shown).toEqual([10, 40]);
  });

  it("goes on after a refusal", async () => {
    const seen: string[] = [];
    const queue = latest<string, string>(async (q) => (q === "bad" ? Promise.reject(new Error("no")) : q), (r) => seen.push(r), (e) => seen.push(String(e)));
    queue.push("bad");
    queue.push("good");
    await new Promise((done) => setTimeout(done, 5));
    expect(seen).toEqual(["Error: no", "good"]);
  });
});

describe("the key of a question", () => {
  it("leaves out defaults and order", () => expect(keyOf({ kind: "estimate", on: "h100", tp: 1, model: "m", changes: {} })).toBe(keyOf({ model: "m", kind: "estimate", on: "h100" })));
  it("tells questions apart", () => expect(keyOf({ kind: "fit", model: "m" })).not.toBe(keyOf({ kind: "estimate", model: "m" })));
});
