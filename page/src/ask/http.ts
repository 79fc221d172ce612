// The local server: one WebSocket, {id, ask} → {id, report | error}; plain POST where a socket cannot be opened.
// A long question says progress: true, is told {id, progress} meanwhile, and ended early by {id, cancel: true}.
import type { Ask } from "../contract";
import { AskError, Stopped, type Along, type Part, type Transport } from "./engine";

interface Reply {
  id: number;
  report?: unknown;
  error?: string;
  progress?: [number, number];
  part?: Part;
}

function settle(reply: Reply): unknown {
  if (reply.error !== undefined) throw new AskError(reply.error);
  return reply.report;
}

async function post(ask: Ask, along?: Along): Promise<unknown> {
  const response = await fetch("./api/ask", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ id: 0, ask }), signal: along?.signal ?? null }).catch((problem: unknown) => {
    throw along?.signal?.aborted ? new Stopped("stopped") : problem;
  });
  if (!response.headers.get("Content-Type")?.includes("json")) throw new Error(`the server answered ${response.status}`);
  return settle((await response.json()) as Reply);
}

export async function server(lost: (why: string) => void): Promise<Transport> {
  const url = new URL("./api/ws", location.href.replace(/[#?].*/, ""));
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  const waiting = new Map<number, { done: (value: unknown) => void; fail: (why: unknown) => void; along?: Along }>();
  let next = 1;
  const opened = await new Promise<boolean>((done) => {
    socket.onopen = () => done(true);
    socket.onerror = () => done(false);
  });
  if (!opened) {
    const reached = await fetch("./api/health").catch(() => null);
    if (!reached?.ok) throw new Error("the local server does not answer; start it again with rooflab serve");
    return { send: post };
  }
  socket.onmessage = (event) => {
    const reply = JSON.parse(String(event.data)) as Reply;
    const one = waiting.get(reply.id);
    if (reply.part) return one?.along?.onpart?.(reply.part);
    if (reply.progress) return one?.along?.onprogress?.(...reply.progress);
    waiting.delete(reply.id);
    try {
      one?.done(settle(reply));
    } catch (problem) {
      one?.fail(problem);
    }
  };
  socket.onclose = () => {
    const why = "the local server has stopped; start it again with rooflab serve";
    for (const one of waiting.values()) one.fail(new Error(why));
    waiting.clear();
    lost(why);
  };
  return {
    send: (ask, along) =>
      new Promise((done, fail) => {
        const id = next++;
        waiting.set(id, { done, fail, along });
        socket.send(JSON.stringify({ id, ask, ...(along?.onpart ? { parts: true } : along ? { progress: true } : {}) }));
        along?.signal?.addEventListener("abort", () => waiting.has(id) && socket.send(JSON.stringify({ id, cancel: true })), { once: true });
      }),
  };
}
