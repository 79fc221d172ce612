// What a set of changes would do: each evaluated by the engine, one estimate a change.
import type { EstimateReport } from "../contract";
import { AskError, door } from "../ask/engine";
import { askOf, changed, type Change, type Scenario } from "./scenario";

export interface Effect {
  report: EstimateReport | null;
  /** Why the engine refuses it. */
  refused: string;
}

/** Follow the effects of changes on a scenario; by the changes' ids. */
export function effects(make: () => { scenario: Scenario; changes: { id: string; change: Change }[] } | null): { readonly of: Record<string, Effect>; readonly busy: boolean } {
  let found = $state.raw<Record<string, Effect>>({});
  let busy = $state(false);
  let round = 0;
  $effect(() => {
    const asked = make();
    const mine = ++round;
    if (!asked) {
      found = {};
      return;
    }
    busy = true;
    const timer = setTimeout(async () => {
      const pairs = await Promise.all(
        asked.changes.map(async ({ id, change }): Promise<[string, Effect]> => {
          try {
            const report = (await door.ask(askOf("estimate", changed(asked.scenario, change)) as never)) as EstimateReport;
            return [id, { report, refused: "" }];
          } catch (problem) {
            return [id, { report: null, refused: problem instanceof AskError ? problem.message : "" }];
          }
        }),
      );
      if (mine === round) {
        found = Object.fromEntries(pairs);
        busy = false;
      }
    }, 160);
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

/** A refusal without the field's name in front. */
export function reason(refused: string): string {
  const text = refused.replace(/^[a-z_.]+: /, "").replace(/\b(tp|pp|cp|dp|ep)=(\d+)/g, (_, axis: string, degree: string) => `${axis.toUpperCase()} ${degree}`);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
