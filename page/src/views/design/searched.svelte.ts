// A search that brings its rows as they are found. The rows of the one before stay until the first of the new ones arrive.
import { untrack } from "svelte";
import { AskError, door, Stopped, type Part, type Question } from "../../ask/engine";
import { keyOf } from "../../ask/key";
import type { Kinds } from "../../contract";
import { revived } from "../../state/revived.svelte";
import type { Columns } from "./points";

type Kind = "sweep" | "sharded" | "codesign";

export interface Rows {
  columns: Columns;
  feasible: boolean[];
  reason: string[];
  /** Whether a row meets the question's conditions. */
  meets: boolean[];
}

interface Answer<K extends Kind> {
  rows: Rows;
  report: Kinds[K]["report"];
}

export interface Searched<K extends Kind> {
  readonly rows: Rows;
  /** Changes whenever rows arrive. */
  readonly version: number;
  readonly report: Kinds[K]["report"] | null;
  readonly error: string;
  readonly broken: boolean;
  readonly busy: boolean;
  /** Rows are for an earlier question. */
  readonly stale: boolean;
  /** Stopped before the end: what came is kept. */
  readonly partial: boolean;
  readonly done: number;
  readonly total: number;
  /** Seconds since it began, until the first rows, and in all. */
  readonly first: number;
  readonly took: number;
  cancel(): void;
  again(): void;
}

const MOST_KEPT = 8;
const kept = new Map<string, Answer<Kind>>();
const empty = (): Rows => ({ columns: {}, feasible: [], reason: [], meets: [] });

function add(rows: Rows, table: NonNullable<Part["table"]>, meets: boolean[] | null | undefined): void {
  for (const [name, values] of Object.entries(table.columns)) {
    const column = (rows.columns[name] ??= []);
    for (const value of values as Columns[string]) column.push(value);
  }
  for (const value of table.feasible) rows.feasible.push(value);
  for (const value of table.reason) rows.reason.push(value);
  table.feasible.forEach((fits, i) => rows.meets.push(fits && (meets?.[i] ?? true)));
}

/** Follow a question; call while a component is set up. `after`: milliseconds of quiet before it is asked. */
export function searched<K extends Kind>(make: () => Question<K> | null, after = 150): Searched<K> {
  let rows = $state.raw<Rows>(empty());
  let version = $state(0);
  let report = $state.raw<Kinds[K]["report"] | null>(null);
  let error = $state("");
  let broken = $state(false);
  let busy = $state(false);
  let stale = $state(false);
  let partial = $state(false);
  let done = $state(0);
  let total = $state(0);
  let first = $state(0);
  let took = $state(0);
  let round = $state(0);
  let now: AbortController | null = null;
  const key = $derived.by(() => {
    const question = make();
    return question ? keyOf(question) : "";
  });

  function show(answer: Answer<Kind>): void {
    rows = answer.rows;
    report = answer.report as Kinds[K]["report"];
    done = total = answer.rows.feasible.length;
    version += 1;
    [error, broken, busy, stale, partial] = ["", false, false, false, false];
  }

  async function run(question: Question<K>, named: string, stop: AbortController): Promise<void> {
    const found = empty();
    let fresh = true;
    let frame = 0;
    let began = performance.now();
    const publish = (): void => {
      frame = 0;
      if (stop !== now) return;
      if (fresh) {
        fresh = false;
        first = (performance.now() - began) / 1000;
        report = null;
      }
      rows = found;
      stale = false;
      version += 1;
    };
    [error, broken, busy, partial] = ["", false, true, false];
    [done, total] = [0, 0];
    try {
      await door.start(); // what is told is how long the search takes, not the engine's start
      began = performance.now();
      const onpart = (part: Part): void => {
        if (stop !== now) return;
        [done, total] = [part.done, part.total];
        if (!part.table) return;
        add(found, part.table, part.meets);
        frame ||= requestAnimationFrame(publish);
      };
      const answer = await door.parts<K>(question, { onpart, signal: stop.signal });
      cancelAnimationFrame(frame);
      if (stop !== now) return;
      // A transport without parts brings every row in the report.
      const table = "table" in answer ? answer.table : null;
      if (table && !found.feasible.length && total === 0) add(found, table, null);
      publish();
      report = answer;
      took = (performance.now() - began) / 1000;
      partial = stop.signal.aborted;
      busy = false;
      if (partial) return;
      kept.set(named, { rows: found, report: answer });
      if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value!);
    } catch (problem) {
      cancelAnimationFrame(frame);
      if (stop !== now) return;
      busy = false;
      if (problem instanceof Stopped || stop.signal.aborted) {
        partial = true;
        return;
      }
      error = problem instanceof Error ? problem.message : String(problem);
      broken = !(problem instanceof AskError);
    }
  }

  $effect(() => {
    void round;
    void revived();
    const named = key;
    now?.abort();
    const question = named ? make() : null;
    const stop = new AbortController();
    now = stop;
    if (!question) {
      rows = empty();
      report = null;
      [error, busy, stale, partial] = ["", false, false, false];
      return;
    }
    const ready = kept.get(named);
    if (ready) {
      untrack(() => show(ready));
      return;
    }
    stale = untrack(() => rows.feasible.length > 0 || report !== null);
    busy = true;
    const timer = setTimeout(() => void run(question, named, stop), after);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  });
  return {
    get rows() {
      return rows;
    },
    get version() {
      return version;
    },
    get report() {
      return report;
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
      return stale;
    },
    get partial() {
      return partial;
    },
    get done() {
      return done;
    },
    get total() {
      return total;
    },
    get first() {
      return first;
    },
    get took() {
      return took;
    },
    cancel() {
      now?.abort();
    },
    again() {
      round += 1;
    },
  };
}
