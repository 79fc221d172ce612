/// <reference lib="webworker" />
// Runs in the worker: start Pyodide, unpack msgspec and the engine, then answer questions as JSON text.
interface Python {
  unpackArchive(bytes: Uint8Array, format: string, options?: object): void;
  runPython(code: string): unknown;
  globals: { get(name: "respond"): Respond & { callPromising: (...given: Parameters<Respond>) => Promise<string> }; get(name: "parts"): Parts };
}
type Next = (() => string) & { destroy(): void };
type Parts = (text: string, stopped: () => boolean) => Next;
type Respond = (text: string, tell?: (done: number, total: number) => void, pause?: () => Promise<boolean>) => string;

const CODE = `
import json, time
from pyodide.ffi import can_run_sync, run_sync
from rooflab.api import answer
from rooflab.units import InputError

class Along:
    """Tells how far an answer is, and hears of a cancel where the browser lets Python wait for its messages."""

    def __init__(self, tell, pause):
        self.tell, self.pause, self.told, self.stopped = tell, pause, time.monotonic(), False

    def progress(self, done, total):
        if time.monotonic() - self.told < 0.03:
            return
        self.tell(done, total)
        if can_run_sync():
            self.stopped = bool(run_sync(self.pause()))
        self.told = time.monotonic()

def respond(text, tell=None, pause=None):
    try:
        along = Along(tell, pause)
        told = {"progress": along.progress, "cancel": lambda: along.stopped} if tell else {}
        return json.dumps({"report": answer(json.loads(text), **told)})
    except InputError as problem:
        return json.dumps({"error": str(problem)})

def parts(text, stopped):
    from rooflab.api.stream import stream
    found = stream(json.loads(text), stopped)
    return lambda: next(found, "")
`;

interface Asked {
  id: number;
  start?: string;
  ask?: string;
  /** Tell how far it is, and let other questions through meanwhile. */
  long?: boolean;
  /** Send rows as they are found; between two parts other questions are let through, and a cancel is heard. */
  parts?: boolean;
  cancel?: boolean;
}

const hears = "Suspending" in WebAssembly;
let respond: (Respond & { callPromising: (...given: Parameters<Respond>) => Promise<string> }) | null = null;
let partsOf: Parts | null = null;
const cancelled = new Set<number>();
let busy: Promise<unknown> = Promise.resolve();

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
  partsOf = python.globals.get("parts");
}

/** Resolves after the messages that have come meanwhile. */
function turn(): Promise<void> {
  return new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => (port1.close(), done());
    port2.postMessage(null);
  });
}

function say(id: number, text: string): void {
  const problem = text.startsWith('{"error"') ? (JSON.parse(text) as { error: string }) : null;
  self.postMessage(problem ? { id, error: problem.error } : { id, report: text.slice('{"report": '.length, -1) });
}

function failed(id: number, problem: unknown): void {
  const lines = String(problem instanceof Error ? problem.message : problem).trim().split("\n");
  self.postMessage({ id, error: `the engine failed: ${lines[lines.length - 1]}` });
}

async function long(id: number, ask: string): Promise<void> {
  const tell = (done: number, total: number): void => self.postMessage({ id, progress: [done, total] });
  const pause = async (): Promise<boolean> => (await turn(), cancelled.has(id));
  try {
    say(id, hears ? await respond!.callPromising(ask, tell, pause) : respond!(ask, tell, pause));
  } catch (problem) {
    failed(id, problem);
  }
  cancelled.delete(id);
}

async function parts(id: number, ask: string): Promise<void> {
  const next = partsOf!(ask, () => cancelled.has(id));
  try {
    for (let text = next(); text; text = next()) {
      if (text.startsWith('{"part":')) self.postMessage({ id, part: text.slice('{"part":'.length, -1) });
      else if (text.startsWith('{"error":')) self.postMessage({ id, error: (JSON.parse(text) as { error: string }).error });
      else self.postMessage({ id, report: text.slice('{"report":'.length, -1) });
      await turn();
    }
  } catch (problem) {
    failed(id, problem);
  }
  next.destroy();
  cancelled.delete(id);
}

self.onmessage = async (event: MessageEvent<Asked>) => {
  const { id, start: base, ask, long: slow, parts: some, cancel } = event.data;
  if (cancel) return void cancelled.add(id);
  try {
    if (base !== undefined) {
      busy = start(base);
      await busy;
      self.postMessage({ id, hears });
    } else {
      if (!respond) await busy; // asked anew of a worker that has only begun
      if (slow) busy = busy.then(() => long(id, ask!)); // one at a time
      else if (some) busy = busy.then(() => parts(id, ask!));
      else say(id, respond!(ask!));
    }
  } catch (problem) {
    failed(id, problem);
  }
};
