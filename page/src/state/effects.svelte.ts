// What a set of changes would do: each evaluated by the engine, one estimate a change.
import type { Question } from "../ask/engine";
import { many, type Outcome } from "./many.svelte";
import { askOf, changed, type Change, type Scenario } from "./scenario";

export type Effect = Outcome<"estimate">;

/** Follow the effects of changes on a scenario; by the changes' ids. */
export function effects(make: () => { scenario: Scenario; changes: { id: string; change: Change }[] } | null): { readonly of: Record<string, Effect>; readonly scenario: Scenario | null; readonly busy: boolean } {
  const tried = many<"estimate", { scenario: Scenario; ids: string[]; asks: Question<"estimate">[] }>(() => {
    const asked = make();
    return asked && { scenario: asked.scenario, ids: asked.changes.map((each) => each.id), asks: asked.changes.map((each) => askOf("estimate", changed(asked.scenario, each.change)) as Question<"estimate">) };
  }, 160);
  const of = $derived(Object.fromEntries(tried.found?.ids.map((id, at) => [id, tried.found!.outcomes[at]!]) ?? []));
  return {
    get of() {
      return of;
    },
    /** The scenario that these are changes of. */
    get scenario() {
      return tried.found?.scenario ?? null;
    },
    get busy() {
      return tried.busy;
    },
  };
}

/** A refusal without the field's name in front. */
export function reason(refused: string): string {
  const text = refused.replace(/^([a-z_.]+: )(expected)?/, (_, field: string, expected = "") => expected && field.replace(/^..:/, (axis) => axis.toUpperCase()) + expected).replace(/\b(tp|pp|cp|dp|ep)=(\d+)/g, (_, axis: string, degree: string) => `${axis.toUpperCase()} ${degree}`).replace(/\b(tp|pp|cp|dp|ep) may be/g, (said) => said.slice(0, 2).toUpperCase() + said.slice(2));
  return /^[a-z]+(?![a-z]*[-\d])/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text; // names stay as they are
}
