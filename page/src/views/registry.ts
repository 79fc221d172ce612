// To add a view: one file in this folder and one line here. `load` keeps it out of the first script.
import type { Component } from "svelte";
import Step from "./Step.svelte";

export interface View {
  name: string;
  title: string;
  /** Shown at once, or fetched when first opened. */
  component?: Component;
  load?: () => Promise<{ default: Component }>;
  /** The number that the why panel opens on; the pass's own time where none is named. */
  main?: string;
  /** Views that use the whole width have no why panel beside them. */
  wide?: boolean;
  /** Has an address, but no place among the views of a scenario. */
  aside?: boolean;
}

export const VIEWS: View[] = [
  { name: "step", title: "Step", component: Step },
  { name: "fit", title: "Fit", load: () => import("./Fit.svelte"), main: "kpi:memory" },
  { name: "limits", title: "Limits", load: () => import("./Limits.svelte"), wide: true },
  { name: "design", title: "Design", load: () => import("./Design.svelte"), wide: true },
  { name: "serve", title: "Serve", load: () => import("./Serve.svelte"), wide: true },
  { name: "evidence", title: "Evidence", load: () => import("./Evidence.svelte") },
  { name: "compare", title: "Compare", load: () => import("../compare/Compare.svelte"), wide: true, aside: true },
];
