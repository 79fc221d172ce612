// A config.json dropped on the page or chosen in the model's editor.
import { app } from "../app";
import { later } from "./later.svelte";
import { door } from "../ask/engine";

const LARGEST = 2_000_000;

/** Read a file into the scenario's model. Returns what is wrong with it, or nothing. */
export async function takeConfig(file: File): Promise<string> {
  if (file.size > LARGEST) return refuse(`${file.name} is ${(file.size / 1e6).toFixed(1)} MB; a config.json is a few kB`);
  let content: unknown;
  try {
    content = JSON.parse(await file.text());
  } catch {
    return refuse(`${file.name} is not JSON`);
  }
  if (!content || typeof content !== "object" || Array.isArray(content)) return refuse(`${file.name} is not a config.json: it should be one object with fields such as hidden_size`);
  const model = content as Record<string, unknown>;
  if (model.rooflab === "scenarios") return (await import("../compare/importing")).take(file);
  try {
    await door.ask({ kind: "inspect", model });
  } catch (problem) {
    return refuse(`${file.name}: ${problem instanceof Error ? problem.message : String(problem)}`);
  }
  app.say(`${file.name} is now the model`);
  void (await later.load()).takeModel(model);
  return "";
}

function refuse(why: string): string {
  app.problems = [why];
  return why;
}
