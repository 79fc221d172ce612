// Whether a handful of values of one field fit: each asked of the engine.
import type { Question } from "../../ask/engine";
import type { FitReport } from "../../contract";
import { many } from "../../state/many.svelte";
import { askOf, type Scenario } from "../../state/scenario";

export interface Point {
  value: number;
  report: FitReport;
}

/** Follow the field's values; those the engine refuses are left out. */
export function several(make: () => { scenario: Scenario; field: "batch" | "prompt"; values: { at: number; said: number }[] } | null): { readonly points: Point[]; readonly busy: boolean } {
  const tried = many<"fit", { at: number[]; asks: Question<"fit">[] }>(() => {
    const asked = make();
    return asked && { at: asked.values.map((each) => each.at), asks: asked.values.map((each) => askOf("fit", { ...asked.scenario, [asked.field]: each.said }) as Question<"fit">) };
  });
  const points = $derived(tried.found?.outcomes.flatMap(({ report }, i) => (report ? [{ value: tried.found!.at[i]!, report }] : [])) ?? []);
  return {
    get points() {
      return points;
    },
    get busy() {
      return tried.busy;
    },
  };
}

/** Round values around the present one and the largest that fits, and the first that does not. */
export function around(now: number, most: number, least: number): number[] {
  const top = Math.max(now, most + 1) * 1.25;
  const found = new Set<number>([least, now, most, most + 1, Math.ceil(top)]);
  for (const part of [0.25, 0.5, 0.75]) found.add(Math.round(top * part));
  return [...found].filter((value) => value >= least).sort((a, b) => a - b);
}
