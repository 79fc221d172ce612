// The scenarios that the local server keeps, in the same file as the command line's.
import type { Saved } from "../contract";

export interface Shelf {
  saved?: Saved[];
  /** The file; nothing where this server keeps none. */
  where?: string;
  error?: string;
  names?: string[];
}

async function reply(path: string, body?: object): Promise<Shelf> {
  const request = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`./api/saved${path}`, request).catch(() => null);
  if (!response) return { error: "the local server does not answer; start it again with rooflab serve" };
  if (!response.headers.get("Content-Type")?.includes("json") || !response.ok) return { error: response.status === 413 ? "this is too large to be kept" : `the server answered ${response.status}` };
  return (await response.json()) as Shelf;
}

export const shelf = {
  all: () => reply(""),
  add: (records: Saved[], replace: boolean) => reply("", { records, replace }),
  rename: (name: string, to: string) => reply("/rename", { name, to }),
  remove: (names: string[]) => reply("/delete", { names }),
};
