/// <reference lib="webworker" />
// Runs in the worker: start Pyodide, unpack msgspec and the engine, then answer questions as JSON text.
interface Python {
  unpackArchive(bytes: Uint8Array, format: string, options?: object): void;
  runPython(code: string): unknown;
  globals: { get(name: string): (text: string) => string };
}

const CODE = `
import json
from rooflab.api import answer
from rooflab.units import InputError

def respond(text):
    try:
        return json.dumps({"report": answer(json.loads(text))})
    except InputError as problem:
        return json.dumps({"error": str(problem)})
`;

let respond: ((text: string) => string) | null = null;

async function start(base: string): Promise<void> {
  const bytes = async (path: string) => {
    const response = await fetch(base + path);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  const { loadPyodide } = (await import(/* @vite-ignore */ `${base}pyodide/pyodide.mjs`)) as {
    loadPyodide(options: object): Promise<Python>;
  };
  const [python, msgspec, engine] = await Promise.all([loadPyodide({ indexURL: `${base}pyodide/` }), bytes("py/msgspec.whl"), bytes("py/rooflab.zip")]);
  python.unpackArchive(msgspec, "wheel");
  python.unpackArchive(engine, "zip", { extractDir: "/lib/engine" });
  python.runPython("import sys; sys.path.insert(0, '/lib/engine')");
  python.runPython(CODE);
  respond = python.globals.get("respond");
}

self.onmessage = async (event: MessageEvent<{ id: number; start?: string; ask?: string }>) => {
  const { id, start: base, ask } = event.data;
  try {
    if (base !== undefined) {
      await start(base);
      self.postMessage({ id });
    } else {
      const text = respond!(ask!);
      const problem = text.startsWith('{"error"') ? (JSON.parse(text) as { error: string }) : null;
      self.postMessage(problem ? { id, error: problem.error } : { id, report: text.slice('{"report": '.length, -1) });
    }
  } catch (problem) {
    const lines = String(problem instanceof Error ? problem.message : problem).trim().split("\n");
    self.postMessage({ id, error: `the engine failed: ${lines[lines.length - 1]}` });
  }
};
