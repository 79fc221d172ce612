// The questions of the view, in the order in which their answers are wanted.
import type { Job } from "../../state/work.svelte";
import type { Question } from "../../ask/engine";
import { changed, type Scenario } from "../../state/scenario";
import { COLUMNS } from "./table";
import { at, questionOf, type Axis, type Mode, type Settings, type Trace, type Variant } from "./settings";

/** Requests of each point of a curve at most; the run at the load has all that are asked for. */
export const POINT_MOST = 2000;
const SPANS = 2000;

export interface Lever {
  id: string;
  name: string;
  cost: string;
  scenario: Scenario;
  settings: Settings;
}

/** Changes worth trying under load. */
export function leversOf(s: Scenario, settings: Settings, kv: string): Lever[] {
  const found: Lever[] = [];
  const budget = Number(settings.budget);
  const slots = Number(settings.slots);
  const replicas = Number(settings.replicas) || s.dp;
  const count = (n: number): string => n.toLocaleString("en-US");
  if (budget >= 512) found.push({ id: "budget", name: `Token budget ${count(Math.floor(budget / 4))}`, cost: "smaller chunks, slower first token", scenario: s, settings: { ...settings, budget: Math.floor(budget / 4) } });
  if (slots >= 8) found.push({ id: "slots", name: `Limit slots to ${count(Math.floor(slots / 4))}`, cost: "more waiting, fewer in each step", scenario: s, settings: { ...settings, slots: Math.floor(slots / 4) } });
  if (!kv.includes("8") && !kv.includes("4")) found.push({ id: "kv", name: "KV cache in FP8", cost: "fewer bytes to read; check accuracy", scenario: changed(s, { kv: "fp8" }), settings });
  if (!settings.disaggregate) found.push({ id: "replica", name: replicas === 1 ? "Second replica" : `${count(replicas + 1)} replicas`, cost: "more devices, a smaller share of the load each", scenario: s, settings: { ...settings, replicas: replicas + 1 } });
  return found;
}

function few(question: Question<"simulate">): Question<"simulate"> {
  return { ...question, requests: Math.min(question.requests ?? POINT_MOST, POINT_MOST) };
}

interface Wanted {
  scenario: Scenario;
  baseline: Scenario | null;
  settings: Settings;
  trace: Trace | null;
  mode: Mode;
  axis: Axis;
  load: number;
  variants: Variant[];
  chosen: string;
  levers: Lever[];
  request: number | null;
}

/** The rate that a full queue is served at, from which the axis of loads follows. */
export function scaleOf(scenario: Scenario, settings: Settings, trace: Trace | null, mode: Mode): Job<"simulate">[] {
  if (mode === "trace" && !trace) return [];
  const question = few(questionOf(scenario, settings, trace));
  return [{ id: "scale", question: mode === "users" ? { ...question, concurrency: 1, requests: 1 } : mode === "trace" ? { ...question, saturated: true } : { ...question, load: 0.7, saturated: true, ...(settings.turns === 1 ? {} : { turns: 1 }) } }];
}

export function planOf(want: Wanted): Job<"simulate">[] {
  const { scenario, baseline, settings, trace, mode, axis, load, variants, chosen } = want;
  const limited = settings.ttft !== "" || settings.tpot !== "";
  const of = (each: Variant | undefined, s: Scenario): Question<"simulate"> => questionOf(s, { ...settings, ...each?.changes }, trace);
  const job = (id: string, question: Question<"simulate">): Job<"simulate"> => ({ id, question });
  const curve = (id: string, question: Question<"simulate">): Job<"simulate">[] => axis.loads.map((each) => job(`curve:${id}:${each}`, at(few(question), mode, each)));
  const find = (id: string, question: Question<"simulate">): Job<"simulate">[] => (limited ? [job(`find:${id}`, { ...at(few(question), mode, mode === "trace" ? 1 : axis.usual), find: "load" })] : []);
  const first = variants.find(({ id }) => id === chosen)!;
  const others = variants.filter(({ id }) => id !== chosen);
  const main = at(of(first, scenario), mode, load);
  return [
    { ...job("main", { ...main, requests_table: true, columns: [...COLUMNS], timeline: SPANS }), large: true },
    ...(want.request === null ? [] : [job("path", { ...main, request: want.request })]),
    ...curve(chosen, of(first, scenario)),
    ...find(chosen, of(first, scenario)),
    ...others.map((each) => job(`run:${each.id}`, at(of(each, scenario), mode, load))),
    ...others.flatMap((each) => [...curve(each.id, of(each, scenario)), ...find(each.id, of(each, scenario))]),
    ...(baseline ? [job("run:baseline", at(of(first, baseline), mode, load)), ...curve("baseline", of(first, baseline)), ...find("baseline", of(first, baseline))] : []),
    ...want.levers.map((each) => job(`lever:${each.id}`, at(questionOf(each.scenario, { ...each.settings, ...first.changes }, trace), mode, load))),
  ];
}
