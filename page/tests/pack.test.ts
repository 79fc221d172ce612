import { describe, expect, it } from "vitest";
import { pack, unpack } from "../src/state/pack";
import { hashOf, placeOf, START, tooLong } from "../src/state/url";

describe("long parts of the address", () => {
  it("come back as they were, and shorter", async () => {
    for (const text of ["{}", JSON.stringify({ name: "<b>Größe ✓</b>", layers: Array.from({ length: 80 }, () => "full_attention") })]) expect(await unpack(await pack(text))).toBe(text);
    const long = JSON.stringify({ layers: Array.from({ length: 400 }, () => "full_attention") });
    expect((await pack(long)).length).toBeLessThan(long.length / 20);
    expect(await pack(long)).toMatch(/^~[\w-]+$/); // nothing that an address would have to escape
  });

  it("are refused when they are none", async () => {
    for (const text of ["", "~", "~!!!!", "~AAAA", "{}", "~_____w", `~${"A".repeat(5000)}`, "~<script>"]) expect(await unpack(text)).toBeNull();
    const cut = (await pack(JSON.stringify({ layers: Array.from({ length: 80 }, (_, i) => i) }))).slice(0, -9);
    expect(await unpack(cut)).toBeNull();
  });

  it("never unfold without end", async () => {
    expect(await unpack(await pack("0".repeat(3_000_000)))).toBeNull();
  });

  it("make a link of a large config", async () => {
    const model = { model_type: "llama", layers: Array.from({ length: 400 }, (_, at) => `full_attention_${at % 3}`) };
    const place = { view: "step", scenario: { ...START, model }, baseline: null, selection: "", more: {} };
    expect(tooLong(hashOf(place))).toBe(true);
    const hash = hashOf(place, await pack(JSON.stringify(model)));
    expect(tooLong(hash)).toBe(false);
    const packed = /mx=(~[^&]*)/.exec(hash)![1]!;
    const back = placeOf(hash.replace(packed, encodeURIComponent((await unpack(packed))!)), ["step"]);
    expect(back.scenario.model).toEqual(model);
    expect(back.problems).toEqual([]);
  });
});
