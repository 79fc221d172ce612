import { expect, test } from "vitest";
import { levers } from "../src/state/levers";
import { scenario } from "../src/state/scenario";

const weights = (stored: string): string[] =>
  levers(scenario({ model: "llama-3.1-8b", on: "h100-sxm" }), { weights: stored, kv: "bf16" }).filter((each) => each.id.startsWith("weights")).map((each) => String(each.change.weights));

test("weights are offered in fewer bits than they have, whatever their blocks", () => {
  expect(weights("bf16")).toEqual(["fp8"]);
  expect(weights("fp8")).toEqual(["int4"]);
  expect(weights("fp8_block")).toEqual(["int4"]);
  expect(weights("nvfp4")).toEqual([]);
});
