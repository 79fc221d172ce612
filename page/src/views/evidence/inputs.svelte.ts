// What is given rather than counted behind a step's times: the rates of the machine, and what each operator reaches of them,
// from the engine's explanations.
import type { Question } from "../../ask/engine";
import type { ExplainReport, OpReport } from "../../contract";
import { many } from "../../state/many.svelte";
import { askOf, type Scenario } from "../../state/scenario";

export interface Rate {
  id: string;
  name: string;
  value: number;
  unit: string;
  basis: string;
}

/** One operator: the shares it reaches, what is added, and how it is known. */
export interface Reached {
  op: OpReport;
  compute: number | null;
  memory: number | null;
  launch: number | null;
  source: string;
}

interface Found {
  rates: Rate[];
  rows: Reached[];
}

/** Rates that a sheet gives, each once, and the operators with what was fitted or assumed, the longest first. */
export function givenIn(ops: OpReport[], reports: (ExplainReport | null)[]): Found {
  const rates = new Map<string, Rate>();
  const rows = ops.map((op, at): Reached => {
    const row: Reached = { op, compute: null, memory: null, launch: null, source: "" };
    for (const line of reports[at]?.lines ?? []) {
      if (/_time$/.test(line.quantity)) row.source = line.source.startsWith("requirement") ? "roofline of counted work" : line.source;
      for (const [symbol, basis] of Object.entries(line.bases)) {
        const value = line.inputs[symbol];
        if (typeof value !== "number") continue;
        if (symbol === "efficiency") row[line.quantity === "compute_time" ? "compute" : "memory"] = value;
        else if (symbol === "launch") row.launch = value;
        else if (basis === "datasheet") rates.set(`${symbol}${value}`, { id: `${symbol}${value}`, name: line.names[symbol] ?? symbol, value, unit: line.units[symbol] ?? "1", basis });
      }
    }
    return row;
  });
  return { rates: [...rates.values()], rows: rows.sort((a, b) => b.op.time - a.op.time) };
}

/** Follow the inputs of the operators given. */
export function inputs(make: () => { scenario: Scenario; ops: OpReport[] } | null): { readonly found: Found; readonly busy: boolean } {
  const explained = many<"explain", { ops: OpReport[]; asks: Question<"explain">[] }>(() => {
    const asked = make();
    return asked && { ops: asked.ops, asks: asked.ops.map((op): Question<"explain"> => askOf("explain", asked.scenario, { op: op.name, phase: "decode" }) as never) };
  });
  const found = $derived(explained.found ? givenIn(explained.found.ops, explained.found.outcomes.map((each) => each.report)) : { rates: [], rows: [] });
  return {
    get found() {
      return found;
    },
    get busy() {
      return explained.busy;
    },
  };
}
