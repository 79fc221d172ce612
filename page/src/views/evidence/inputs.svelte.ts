// The inputs behind a step's times: each with its basis and the operators that it prices, from the engine's explanations.
import type { Question } from "../../ask/engine";
import type { ExplainReport } from "../../contract";
import { many } from "../../state/many.svelte";
import { askOf, type Scenario } from "../../state/scenario";
import { symbolName, symbolUnit } from "../../words";

export interface Input {
  id: string;
  name: string;
  value: number;
  unit: string;
  basis: string;
  /** The time that it enters. */
  quantity: string;
  source: string;
  ops: string[];
}

/** What people settle by choice, by a sheet or by measuring; what is counted or worked out stays out. */
const GIVEN = new Set(["datasheet", "assumed", "fitted", "measured", "speculative"]);
const ORDER = ["speculative", "assumed", "fitted", "measured", "datasheet"];

/** The inputs of explanations that are given, each once, with the operators that it prices. */
function givenIn(ops: string[], reports: (ExplainReport | null)[]): Input[] {
  const found = new Map<string, Input>();
  reports.forEach((report, at) => {
    for (const line of report?.lines ?? []) {
      for (const [symbol, basis] of Object.entries(line.bases)) {
        const value = line.inputs[symbol];
        if (!GIVEN.has(basis) || typeof value !== "number") continue;
        const quantity = line.quantity.replaceAll("_", " ");
        const id = `${symbol}/${value}/${basis}/${quantity}`;
        const one = found.get(id) ?? { id, name: symbolName(symbol), value, unit: symbolUnit(symbol, line), basis, quantity, source: line.source, ops: [] };
        if (!one.ops.includes(ops[at]!)) one.ops.push(ops[at]!);
        found.set(id, one);
      }
    }
  });
  return [...found.values()].sort((a, b) => ORDER.indexOf(a.basis) - ORDER.indexOf(b.basis) || b.ops.length - a.ops.length);
}

/** Follow the inputs of the operators named. */
export function inputs(make: () => { scenario: Scenario; ops: string[] } | null): { readonly rows: Input[]; readonly busy: boolean } {
  const explained = many<"explain", { ops: string[]; asks: Question<"explain">[] }>(() => {
    const asked = make();
    return asked && { ops: asked.ops, asks: asked.ops.map((op): Question<"explain"> => askOf("explain", asked.scenario, { op, phase: "decode" }) as never) };
  });
  const rows = $derived(explained.found ? givenIn(explained.found.ops, explained.found.outcomes.map((each) => each.report)) : []);
  return {
    get rows() {
      return rows;
    },
    get busy() {
      return explained.busy;
    },
  };
}
