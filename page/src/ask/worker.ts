// The engine in this page: the same Python, in a module worker.
import { AskError, Stopped, type Along, type Part, type Transport } from "./engine";

interface Reply {
  id: number;
  report?: string;
  error?: string;
  progress?: [number, number];
  part?: string;
  /** Said once it has started: whether it hears of a cancel while it computes. */
  hears?: boolean;
}

interface Waiting {
  message: object;
  done: (value: unknown) => void;
  fail: (why: unknown) => void;
  along?: Along;
}

export async function browser(lost: (why: string) => void): Promise<Transport> {
  const base = new URL("./", document.baseURI.replace(/[#?].*/, "")).href;
  const waiting = new Map<number, Waiting>();
  let worker: Worker;
  let hears = false;
  let next = 1;

  function begin(): Promise<unknown> {
    worker = new Worker(new URL("./py.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (event: MessageEvent<Reply>) => {
      const { id, report, error, progress, part, hears: able } = event.data;
      const one = waiting.get(id);
      if (part !== undefined) return one?.along?.onpart?.(JSON.parse(part) as Part);
      if (progress) return one?.along?.onprogress?.(...progress);
      if (able !== undefined) hears = able;
      waiting.delete(id);
      if (error !== undefined) one?.fail(new AskError(error));
      else one?.done(report === undefined ? null : JSON.parse(report));
    };
    worker.onerror = (event) => {
      const why = `the engine stopped: ${event.message || "its files could not be loaded"}`;
      for (const one of waiting.values()) one.fail(new Error(why));
      waiting.clear();
      lost(why);
    };
    return send({ start: base });
  }
  function send(message: object, along?: Along): Promise<unknown> {
    return new Promise<unknown>((done, fail) => {
      const id = next++;
      waiting.set(id, { message, done, fail, along });
      worker.postMessage({ id, ...message });
      along?.signal?.addEventListener("abort", () => cancel(id), { once: true });
    });
  }
  /** Where the worker cannot hear while it computes, a new one takes its place and its other questions. */
  function cancel(id: number): void {
    const one = waiting.get(id);
    if (!one) return;
    if (hears || one.along?.onpart) return worker.postMessage({ id, cancel: true });
    waiting.delete(id);
    worker.terminate();
    one.fail(new Stopped("stopped"));
    const others = [...waiting];
    begin().catch((problem: unknown) => lost(String(problem instanceof Error ? problem.message : problem)));
    for (const [id, { message }] of others) worker.postMessage({ id, ...message });
  }

  await begin();
  return { send: (ask, along) => send({ ask: JSON.stringify(ask), ...(along?.onpart ? { parts: true } : along ? { long: true } : {}) }, along) };
}
