// Files and what is pasted: a name that stands twice, text in its own encoding, an id of Hugging Face (A-030, F-02).
import { describe, expect, it } from "vitest";
import { hubId } from "../src/components/commands";
import { textOf, twice } from "../src/components/drop";

describe("a name that stands twice in one object", () => {
  it.each([
    ['{"a": 1, "b": 2, "a": 3}', "a"],
    ['{"a": {"x": 1}, "b": {"x": 2}}', ""],
    ['{"a": [{"x": 1}, {"x": 2}], "x": 3}', ""],
    ['{"a": [{"x": 1, "y": {}, "x": 2}]}', "x"],
    ['{"a\\"b": 1, "a": 2}', ""],
    ['{"a": "\\"a\\": {", "b": "a"}', ""],
    ['{"k": "k", "l": "k"}', ""],
  ])("%s", (text, name) => expect(twice(text)).toBe(name));
});

describe("an address of Hugging Face", () => {
  it.each([
    ["https://huggingface.co/Qwen/Qwen3-8B/tree/main", "Qwen/Qwen3-8B"],
    ["huggingface.co/Qwen/Qwen3-8B?x=1", "Qwen/Qwen3-8B"],
    ["  https://hf.co/a/b#readme", "a/b"],
    ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B"],
    ["https://elsewhere.example/a/b", "https://elsewhere.example/a/b"],
    ["batch 64", "batch 64"],
  ])("%s", (typed, id) => expect(hubId(typed)).toBe(id));
});

describe("a file's text", () => {
  const wide = (text: string, mark: number[], low: boolean): Uint8Array<ArrayBuffer> => new Uint8Array([...mark, ...[...text].flatMap((each) => { const code = each.charCodeAt(0); return low ? [code & 255, code >> 8] : [code >> 8, code & 255]; })]);
  it.each([
    ["utf-8", new TextEncoder().encode("grö")],
    ["utf-8 with a mark", new Uint8Array([0xef, 0xbb, 0xbf, ...new TextEncoder().encode("grö")])],
    ["utf-16, low byte first", wide("grö", [0xff, 0xfe], true)],
    ["utf-16, high byte first", wide("grö", [0xfe, 0xff], false)],
  ])("is read in %s", async (_, bytes) => expect(await textOf(new File([bytes as Uint8Array<ArrayBuffer>], "x"))).toBe("grö"));
});
