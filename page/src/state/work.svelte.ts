// A list of questions that together take a while: asked one after another, shown as they come, and ended when the reader says so.
import { untrack } from "svelte";
import type { Kinds } from "../contract";
import { AskError, door, Stopped, type Question } from "../ask/engine";
import { keyOf } from "../ask/key";
import { revived } from "./revived.svelte";

export interface Job<K extends keyof Kinds> {
  id: string;
  question: Question<K>;
  /** Its report is large: it is not remembered once another takes its place. */
  large?: boolean;
}

export interface Result<K extends keyof Kinds> {
  report: Kinds[K]["report"] | null;
  /** Why the engine refused. */
  error: string;
  /** Whether it answers an earlier question than the newest of this id. */
  stale: boolean;
  /** Whether it was cut short. */
  partial: boolean;
}

export interface Work<K extends keyof Kinds> {
  /** What there is by id; what answers an earlier question stays until it is renewed. */
  readonly of: Record<string, Result<K>>;
  readonly done: number;
  readonly total: number;
  /** Share of the present question that is done. */
  readonly share: number;
  readonly busy: boolean;
  /** Whether the reader has stopped it. */
  readonly stopped: boolean;
  /** Seconds that the last whole round took. */
  readonly took: number;
  stop(): void;
  again(): void;
}

/** A question that the reader has moved on from is given so long to end by itself. */
const PATIENCE_MS = 500;

/**
 * Follow a list; call while a component is set up. null: nothing can be asked just now, so what is there stays, as stale.
 * `after`: milliseconds of quiet before it is begun.
 */
export function worked<K extends keyof Kinds>(make: () => Job<K>[] | null, after = 120): Work<K> {
  let of = $state.raw<Record<string, Result<K>>>({});
  let jobs = $state.raw<Job<K>[]>([]);
  let share = $state(0);
  let busy = $state(false);
  let due = $state(false);
  let stopped = $state(false);
  let took = $state(0);
  const answered = new Map<string, Result<K>>();
  let running: { key: string; abort: AbortController } | null = null;
  let began = 0;

  const next = (): Job<K> | undefined => jobs.find((job) => !answered.has(keyOf(job.question)));
  /** What is known of the newest list, with what was known before where nothing newer is. */
  function show(): void {
    const found: Record<string, Result<K>> = {};
    for (const { id, question } of jobs) {
      const fresh = answered.get(keyOf(question));
      const old = of[id];
      if (fresh) found[id] = fresh;
      else if (old) found[id] = old.stale ? old : { ...old, stale: true };
    }
    of = found;
  }
  /** What is being answered ends, unless it is asked for again meanwhile. */
  function leave(): void {
    const left = running;
    if (left) setTimeout(() => running === left && !jobs.some((job) => keyOf(job.question) === left.key) && left.abort.abort(), PATIENCE_MS);
  }
  async function run(): Promise<void> {
    if (running) return;
    busy = true;
    for (let job = next(); job && !stopped; job = next()) {
      const key = keyOf(job.question);
      const abort = new AbortController();
      running = { key, abort };
      share = 0;
      const result: Result<K> = { report: null, error: "", stale: false, partial: false };
      try {
        result.report = await door.long(job.question, { signal: abort.signal, once: job.large, onprogress: (done, total) => (share = total ? done / total : 0) });
        result.partial = abort.signal.aborted;
      } catch (problem) {
        if (problem instanceof AskError) result.error = problem.message;
        else if (!(problem instanceof Stopped)) stopped = true; // the engine is gone, as the page says: no use in asking on
      }
      running = null;
      share = 0;
      if (abort.signal.aborted && !stopped) continue; // the reader has moved on
      if (result.report || result.error) answered.set(key, result);
      show();
    }
    busy = false;
    if (!stopped) took = (performance.now() - began) / 1000;
  }

  $effect(() => {
    void revived();
    const wanted = make();
    if (!wanted) {
      due = false;
      jobs = [];
      of = Object.fromEntries(Object.entries(untrack(() => of)).map(([id, each]) => [id, { ...each, stale: true }]));
      leave(); // where one question is answered at a time, those that would let this list be made again wait behind it
      return;
    }
    due = wanted.some((job) => !answered.has(keyOf(job.question)));
    const timer = setTimeout(() => {
      due = false;
      const keys = new Set(wanted.map((job) => keyOf(job.question)));
      for (const [key, result] of answered) if (!keys.has(key) || result.partial) answered.delete(key);
      jobs = wanted;
      stopped = false;
      show();
      if (!next()) return;
      began = performance.now();
      leave();
      void run();
    }, after);
    return () => clearTimeout(timer);
  });
  $effect(() => () => {
    stopped = true;
    running?.abort.abort();
  });

  return {
    get of() {
      return of;
    },
    get done() {
      return jobs.filter((job) => of[job.id] && !of[job.id]!.stale).length;
    },
    get total() {
      return jobs.length;
    },
    get share() {
      return share;
    },
    get busy() {
      return busy || due;
    },
    get stopped() {
      return stopped;
    },
    get took() {
      return took;
    },
    stop() {
      stopped = true;
      running?.abort.abort();
    },
    again() {
      stopped = false;
      for (const [key, result] of answered) if (result.partial || result.error) answered.delete(key);
      began = performance.now();
      void run();
    },
  };
}
