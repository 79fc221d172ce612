// What single changes would do, drawn even where they do not fit: one estimate a change, as the engine sees it.
import { AskError, door } from "../../ask/engine";
import type { EstimateReport } from "../../contract";
import { askOf, type Change, type Scenario } from "../../state/scenario";

export interface Tried {
  report: EstimateReport | null;
  refused: string;
}

/** Follow changes by their ids; the system is left as the changes say. */
export function evaluated(make: () => { scenario: Scenario; changes: { id: string; change: Change }[] } | null): { readonly of: Record<string, Tried>; readonly busy: boolean } {
  let found = $state.raw<Record<string, Tried>>({});
  let busy = $state(false);
  let round = 0;
  $effect(() => {
    const asked = make();
    const mine = ++round;
    if (!asked) return;
    busy = true;
    const timer = setTimeout(async () => {
      const pairs = await Promise.all(
        asked.changes.map(async ({ id, change }): Promise<[string, Tried]> => {
          try {
            return [id, { report: (await door.ask(askOf("estimate", { ...asked.scenario, ...change }, { ignore_memory: true }) as never)) as EstimateReport, refused: "" }];
          } catch (problem) {
            return [id, { report: null, refused: problem instanceof AskError ? problem.message : "" }];
          }
        }),
      );
      if (mine !== round) return;
      found = Object.fromEntries(pairs);
      busy = false;
    }, 300);
    return () => clearTimeout(timer);
  });
  return {
    get of() {
      return found;
    },
    get busy() {
      return busy;
    },
  };
}
