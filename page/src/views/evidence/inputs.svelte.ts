// The inputs behind a step's times: each with its basis and the operators that it prices, from the engine's explanations.
import { door } from "../../ask/engine";
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

/** Follow the inputs of the operators named. */
export function inputs(make: () => { scenario: Scenario; ops: string[] } | null): { readonly rows: Input[]; readonly busy: boolean } {
  let rows = $state.raw<Input[]>([]);
  let busy = $state(false);
  let round = 0;
  $effect(() => {
    const asked = make();
    const mine = ++round;
    if (!asked) {
      rows = [];
      busy = false;
      return;
    }
    busy = true;
    const timer = setTimeout(async () => {
      const found = new Map<string, Input>();
      const reports = await Promise.all(asked.ops.map((op) => door.ask<"explain">(askOf("explain", asked.scenario, { op, phase: "decode" }) as never).catch(() => null)));
      if (mine !== round) return;
      reports.forEach((report, at) => {
        for (const line of report?.lines ?? []) {
          for (const [symbol, basis] of Object.entries(line.bases)) {
            const value = line.inputs[symbol];
            if (!GIVEN.has(basis) || typeof value !== "number") continue;
            const quantity = line.quantity.replaceAll("_", " ");
            const id = `${symbol}/${value}/${basis}/${quantity}`;
            const one = found.get(id) ?? { id, name: symbolName(symbol), value, unit: symbolUnit(symbol, line), basis, quantity, source: line.source, ops: [] };
            if (!one.ops.includes(asked.ops[at]!)) one.ops.push(asked.ops[at]!);
            found.set(id, one);
          }
        }
      });
      rows = [...found.values()].sort((a, b) => ORDER.indexOf(a.basis) - ORDER.indexOf(b.basis) || b.ops.length - a.ops.length);
      busy = false;
    }, 120);
    return () => clearTimeout(timer);
  });
  return {
    get rows() {
      return rows;
    },
    get busy() {
      return busy;
    },
  };
}
