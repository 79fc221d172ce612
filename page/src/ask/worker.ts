// The engine in this page: the same Python, in a module worker.
import { AskError, type Transport } from "./engine";

interface Reply {
  id: number;
  report?: string;
  error?: string;
}

export async function browser(lost: (why: string) => void): Promise<Transport> {
  const worker = new Worker(new URL("./py.worker.ts", import.meta.url), { type: "module" });
  const waiting = new Map<number, { done: (value: unknown) => void; fail: (why: unknown) => void }>();
  let next = 1;
  const send = (message: object) =>
    new Promise<unknown>((done, fail) => {
      const id = next++;
      waiting.set(id, { done, fail });
      worker.postMessage({ id, ...message });
    });
  worker.onmessage = (event: MessageEvent<Reply>) => {
    const { id, report, error } = event.data;
    const one = waiting.get(id);
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
  await send({ start: new URL("./", document.baseURI.replace(/[#?].*/, "")).href });
  return { send: (ask) => send({ ask: JSON.stringify(ask) }) };
}
