// Several questions of one kind that follow the scenario, a moment behind it: all answers are there before any is shown.
import { AskError, door, type Question } from "../ask/engine";
import type { Kinds } from "../contract";
import { revived } from "./revived.svelte";

export interface Outcome<K extends keyof Kinds> {
  report: Kinds[K]["report"] | null;
  /** Why the engine refuses it. */
  refused: string;
}

/**
 * Follow what `make` asks; call while a component is set up. null asks nothing. `found` is what `make` gave, with the
 * outcomes in the order of its questions; the one before stays until the next is whole. `after`: milliseconds of quiet.
 */
export function many<K extends keyof Kinds, T extends { asks: Question<K>[] } = { asks: Question<K>[] }>(make: () => T | null, after = 120): { readonly found: (T & { outcomes: Outcome<K>[] }) | null; readonly busy: boolean } {
  let found = $state.raw<(T & { outcomes: Outcome<K>[] }) | null>(null);
  let busy = $state(false);
  $effect(() => {
    void revived();
    const asked = make();
    if (!asked) {
      found = null;
      busy = false;
      return;
    }
    busy = true;
    const leave = new AbortController();
    const one = async (ask: Question<K>): Promise<Outcome<K>> => {
      try {
        return { report: await door.ask<K>(ask, leave.signal), refused: "" };
      } catch (problem) {
        return { report: null, refused: problem instanceof AskError ? problem.message : "" };
      }
    };
    const timer = setTimeout(async () => {
      const outcomes = await Promise.all(asked.asks.map(one));
      if (leave.signal.aborted) return;
      found = { ...asked, outcomes };
      busy = false;
    }, after);
    return () => {
      clearTimeout(timer);
      leave.abort();
    };
  });
  return {
    get found() {
      return found;
    },
    get busy() {
      return busy;
    },
  };
}
