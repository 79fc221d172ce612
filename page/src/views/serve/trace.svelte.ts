// A trace of the reader's own: kept for this visit only, never part of the address.
import { textOf } from "../../components/drop";
import type { Trace } from "./settings";

class Traced {
  file = $state.raw<Trace | null>(null);
}

export const traced = new Traced();
const LARGEST = 1_900_000;

/** Read a file as the traffic. Returns what is wrong with it, or nothing; the engine says what it thinks of its rows. */
export async function takeTrace(file: File): Promise<string> {
  if (file.size > LARGEST) return `${file.name} is ${(file.size / 1e6).toFixed(1)} MB; a page takes traces up to ${(LARGEST / 1e6).toFixed(1)} MB, rooflab simulate --trace takes any`;
  if (!file.size) return `${file.name} is empty`;
  traced.file = { name: file.name, text: await textOf(file) };
  return "";
}
