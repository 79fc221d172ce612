// A config.json dropped on the page or chosen in the model's editor; files of saved scenarios are known by what is in them.
import { app } from "../app";
import { door } from "../ask/engine";
import { modelName } from "../words";
import { later } from "./later.svelte";

const LARGEST = 1_900_000; // what the engine takes at once
/** Characters of a config that is kept word for word; of a longer one what makes no difference is left out. */
const WHOLE = 20_000;

/** The file that was dropped: one alone, or the config.json of a model's folder or files. Null with what is wrong said. */
export async function dropped(data: DataTransfer | null): Promise<File | null> {
  const folder = [...(data?.items ?? [])].map((each) => each.webkitGetAsEntry?.()).find((entry) => entry?.isDirectory) as FileSystemDirectoryEntry | undefined;
  if (folder) {
    const found = await new Promise<File | null>((done) => folder.getFile("config.json", {}, (entry) => (entry as FileSystemFileEntry).file(done, () => done(null)), () => done(null)));
    if (!found) refuse(`${folder.name} is a folder without a config.json; drop the file itself`);
    return found;
  }
  const files = [...(data?.files ?? [])];
  const file = files.length > 1 ? files.find((each) => each.name === "config.json") : files[0];
  if (!file && files.length) refuse(`${files.length} files at once, and none is a config.json; drop one`);
  if (!file && !files.length) refuse("What was dropped is no file; drop a config.json, or a file of saved scenarios");
  return file ?? null;
}

/** A file's text, in UTF-8 or, by its mark, UTF-16. */
export async function textOf(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const wide = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  return new TextDecoder(wide ? (bytes[0] === 0xff ? "utf-16le" : "utf-16be") : "utf-8").decode(bytes);
}

/** A name that stands twice in one object, of which JSON.parse takes the last without a word. */
export function twice(text: string): string {
  const open: Set<string>[] = [];
  for (const [mark, name] of text.matchAll(/("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[{}]/g)) {
    if (mark === "{") open.push(new Set());
    else if (mark === "}") open.pop();
    else if (name && open[open.length - 1]?.has(name)) return JSON.parse(name) as string;
    else if (name) open[open.length - 1]?.add(name);
  }
  return "";
}

/** Why a text is no JSON, in words that help. */
function unread(name: string, text: string, problem: unknown): string {
  if (!text.trim()) return `${name} is empty; it should be the model's config.json`;
  if (/^\s*</.test(text)) return `${name} is a web page, not the file that it shows; download the file itself`;
  if (/\.(csv|tsv|jsonl|ndjson)$/i.test(name)) return `${name} is not JSON; if it is a trace of requests, open Serve and drop it there`;
  if (/[:[,]\s*-?(NaN|Infinity)\b/.test(text)) return `${name} is not JSON: it holds NaN or Infinity, which JSON has no numbers for; correct them`;
  return `${name} is not JSON: ${(problem instanceof Error ? problem.message : String(problem)).slice(0, 120)}`;
}

/** Read a file into the scenario's model. Returns what is wrong with it, or nothing. */
export async function takeConfig(file: File): Promise<string> {
  if (file.size > LARGEST) return refuse(`${file.name} is ${(file.size / 1e6).toFixed(1)} MB; a config.json is a few kB`);
  let content: unknown;
  let text = "";
  try {
    text = await textOf(file);
    content = JSON.parse(text);
  } catch (problem) {
    return refuse(unread(file.name, text, problem));
  }
  if (!content || typeof content !== "object" || Array.isArray(content)) return refuse(`${file.name} is not a config.json: it should be one object with fields such as hidden_size`);
  const model = content as Record<string, unknown>;
  if (model.rooflab === "scenarios") return (await import("../compare/importing")).take(file);
  const again = twice(text);
  if (again) return refuse(`${file.name} says “${again.slice(0, 60)}” twice; keep the one that holds`);
  try {
    await door.ask({ kind: "inspect", model });
    const { model: shorter } = await door.ask({ kind: "shorten", model });
    const known = typeof shorter === "string";
    const said = `${file.name} is ${known ? `${modelName(shorter)}, which the catalog has` : "now the model"}`;
    app.problems = [];
    app.say(said);
    void (await later.load()).takeModel(known || text.length > WHOLE ? shorter : model, said);
  } catch (problem) {
    return refuse(`${file.name}: ${problem instanceof Error ? problem.message : String(problem)}`);
  }
  return "";
}

function refuse(why: string): string {
  app.problems = [why];
  return why;
}
