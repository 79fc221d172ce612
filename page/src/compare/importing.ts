// Files of saved scenarios, read by the engine: what it does not take is said in its words.
import { app } from "../app";
import { door } from "../ask/engine";
import { saved } from "./saved.svelte";

const LARGEST = 1_500_000;

/** Keep the scenarios of a file. Returns what is wrong with it, or nothing. */
export async function take(file: File): Promise<string> {
  if (file.size > LARGEST) return refuse(`${file.name} is ${(file.size / 1e6).toFixed(1)} MB; at most ${LARGEST / 1e6} MB are read here`);
  try {
    const { scenarios } = await door.ask({ kind: "unpack", text: await file.text() });
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
