// A question that follows the scenario: views say what to ask, and read the report, the refusal and whether it is being renewed.
import type { Kinds } from "../contract";
import { AskError, door, type Question } from "../ask/engine";
import { latest } from "../ask/queue";
import { revived } from "./revived.svelte";

export interface Asked<K extends keyof Kinds> {
  /** The newest report; the one before stays while a new one is on its way, and after a refusal. */
  readonly report: Kinds[K]["report"] | null;
  /** The question that the report answers. */
  readonly of: Question<K> | null;
  /** Why the newest question was refused, or why the engine failed. */
  readonly error: string;
  /** Whether the error is the engine's failure rather than its refusal. */
  readonly broken: boolean;
  readonly busy: boolean;
  /** Whether the report is for an earlier question than the newest. */
  readonly stale: boolean;
  /** Seconds the last answer took. */
  readonly took: number;
}

/**
 * Follow a question; call while a component is set up, or inside $effect.root. null asks nothing.
 * `after`: milliseconds of quiet before it is asked, for what may come a moment later than the numbers themselves.
 */
export function asked<K extends keyof Kinds>(make: () => Question<K> | null, after = 0): Asked<K> {
  let report = $state.raw<Kinds[K]["report"] | null>(null);
  let of = $state.raw<Question<K> | null>(null);
  let newest = $state.raw<Question<K> | null>(null);
  let error = $state("");
  let broken = $state(false);
  let busy = $state(false);
  let took = $state(0);
  const first = make();
  if (first) {
    const ready = door.now<K>(first);
    report = ready;
    of = ready ? first : null;
    newest = first;
  }
  let began = 0;
  const queue = latest<Question<K>, Kinds[K]["report"]>(
    (question) => {
      began = performance.now();
      return door.ask<K>(question);
    },
    (found, question) => {
      took = (performance.now() - began) / 1000;
      report = found;
      of = question;
      if (question === newest) [error, broken, busy] = ["", false, false];
    },
    (problem, question) => {
      if (question !== newest) return;
      error = problem instanceof Error ? problem.message : String(problem);
      broken = !(problem instanceof AskError);
      busy = false;
    },
  );
  $effect(() => {
    void revived();
    const question = make();
    newest = question;
    if (!question) {
      report = null;
      of = null;
      [error, broken, busy] = ["", false, false];
      return;
    }
    const now = door.now<K>(question);
    if (now) {
      report = now;
      of = question;
      [error, broken, busy] = ["", false, false];
      queue.cancel();
      return;
    }
    busy = true;
    if (!after) {
      queue.push(question);
      return;
    }
    const timer = setTimeout(() => queue.push(question), after);
    return () => clearTimeout(timer);
  });
  return {
    get report() {
      return report;
    },
    get of() {
      return of;
    },
    get error() {
      return error;
    },
    get broken() {
      return broken;
    },
    get busy() {
      return busy;
    },
    get stale() {
      return of !== newest;
    },
    get took() {
      return took;
    },
  };
}
