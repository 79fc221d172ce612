// Files of saved scenarios, read by the engine: what it does not take is said in its words.
import { app } from "../app";
import { door } from "../ask/engine";
import type { Saved } from "../contract";
import { textOf } from "../components/drop";
import { saved } from "./saved.svelte";

const LARGEST = 50_000_000;
/** Characters that the engine takes at once, and scenarios of a piece of what is longer. */
const AT_ONCE = 1_500_000;
const PIECE = 100;

/** A file in pieces that the engine takes; what is no list of scenarios goes cut, to be refused in words. */
function pieces(text: string): string[] {
  if (text.length <= AT_ONCE) return [text];
  try {
    const { results: _, scenarios, ...head } = JSON.parse(text);
    return Array.from({ length: Math.ceil(scenarios.length / PIECE) || 1 }, (_, at) => JSON.stringify({ ...head, scenarios: scenarios.slice(at * PIECE, (at + 1) * PIECE) }));
  } catch {
    return [text.slice(0, AT_ONCE)];
  }
}

/** Keep the scenarios of a file. Returns what is wrong with it, or nothing. */
export async function take(file: File): Promise<string> {
  if (file.size > LARGEST) return refuse(`${file.name} is ${(file.size / 1e6).toFixed(1)} MB; at most ${LARGEST / 1e6} MB are read here`);
  try {
    const scenarios: Saved[] = [];
    for (const text of pieces(await textOf(file))) scenarios.push(...(await door.ask({ kind: "unpack", text })).scenarios);
    if (!scenarios.length) return refuse(`${file.name} holds no scenario`);
    if (!saved.loaded) await saved.load();
    const names = await saved.add(scenarios);
    if (!names.length) return refuse(saved.problem);
    saved.show(...names);
    app.drawer = app.view !== "compare";
    app.say(`Imported ${names.length === 1 ? `“${names[0]}”` : `${names.length} scenarios`}`);
    return "";
  } catch (problem) {
    return refuse(`${file.name}: ${problem instanceof Error ? problem.message : String(problem)}`);
  }
}

function refuse(why: string): string {
  app.problems = [why];
  return why;
}

/** Let the reader choose a file. */
export function choose(): void {
  const field = document.createElement("input");
  field.type = "file";
  field.accept = ".json,application/json";
  field.onchange = () => {
    const file = field.files?.[0];
    if (file) void take(file);
  };
  field.click();
}
