// Whether a handful of values of one field fit: each asked of the engine.
import { door } from "../../ask/engine";
import type { FitReport } from "../../contract";
import { askOf, type Scenario } from "../../state/scenario";

export interface Point {
  value: number;
  report: FitReport;
}

/** Follow the field's values; those the engine refuses are left out. */
export function several(make: () => { scenario: Scenario; field: "batch" | "prompt"; values: { at: number; said: number }[] } | null): { readonly points: Point[]; readonly busy: boolean } {
  let points = $state.raw<Point[]>([]);
  let busy = $state(false);
  let round = 0;
  $effect(() => {
    const asked = make();
    const mine = ++round;
    if (!asked) {
      points = [];
      busy = false;
      return;
    }
    busy = true;
    const timer = setTimeout(async () => {
      const found = await Promise.all(
        asked.values.map(async ({ at, said }) => {
          const report = await door.ask<"fit">(askOf("fit", { ...asked.scenario, [asked.field]: said }) as never).catch(() => null);
          return report ? { value: at, report } : null;
        }),
      );
      if (mine !== round) return;
      points = found.filter((point): point is Point => point !== null);
      busy = false;
    }, 120);
    return () => clearTimeout(timer);
  });
  return {
    get points() {
      return points;
    },
    get busy() {
      return busy;
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
