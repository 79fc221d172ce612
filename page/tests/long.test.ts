// Long answers: progress, and an early end, over both transports; workers and sockets are stood in for.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Stopped, type Transport } from "../src/ask/engine";
import { server } from "../src/ask/http";
import { browser } from "../src/ask/worker";

type Message = { id: number; start?: string; ask?: unknown; long?: boolean; cancel?: boolean; progress?: boolean };
const ASK = { kind: "simulate", model: "m", on: "h100" } as never;
const soon = (): Promise<void> => new Promise((done) => setTimeout(done, 2));

class FakeWorker {
  static all: FakeWorker[] = [];
  static hears = false;
  got: Message[] = [];
  gone = false;
  onmessage: ((event: { data: object }) => void) | null = null;
  onerror: unknown = null;
  constructor() {
    FakeWorker.all.push(this);
  }
  postMessage(message: Message): void {
    this.got.push(message);
    if (message.start !== undefined) setTimeout(() => this.say({ id: message.id, hears: FakeWorker.hears }));
  }
  terminate(): void {
    this.gone = true;
  }
  say(data: object): void {
    if (!this.gone) this.onmessage?.({ data });
  }
}

class FakeSocket {
  static last: FakeSocket;
  sent: Message[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  constructor() {
    FakeSocket.last = this;
    setTimeout(() => this.onopen?.());
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Message);
  }
  say(data: object): void {
    this.onmessage?.({ data: JSON.stringify(data) });
  }
}

beforeEach(() => {
  FakeWorker.all = [];
  vi.stubGlobal("Worker", FakeWorker);
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("document", { baseURI: "http://page.test/" });
  vi.stubGlobal("location", { href: "http://page.test/#/serve" });
});
afterEach(() => void vi.unstubAllGlobals());

async function begun(hears: boolean): Promise<Transport> {
  FakeWorker.hears = hears;
  return browser(() => undefined);
}

describe("in the worker", () => {
  it("tells progress and keeps what was done where it hears of a cancel", async () => {
    const transport = await begun(true);
    const stop = new AbortController();
    const told: number[][] = [];
    const found = transport.send(ASK, { onprogress: (...far) => told.push(far), signal: stop.signal });
    const worker = FakeWorker.all[0]!;
    const { id } = worker.got.find((each) => each.long)!;
    worker.say({ id, progress: [3, 10] });
    stop.abort();
    expect(worker.got.at(-1)).toEqual({ id, cancel: true });
    worker.say({ id, report: '{"done":3}' });
    expect(await found).toEqual({ done: 3 });
    expect(told).toEqual([[3, 10]]);
    expect(FakeWorker.all).toHaveLength(1);
  });

  it("is replaced where it does not, and the other questions are asked again", async () => {
    const transport = await begun(false);
    const stop = new AbortController();
    const long = transport.send(ASK, { signal: stop.signal });
    const short = transport.send({ kind: "inspect", model: "m" } as never);
    stop.abort();
    await expect(long).rejects.toBeInstanceOf(Stopped);
    expect(FakeWorker.all).toHaveLength(2);
    expect(FakeWorker.all[0]!.gone).toBe(true);
    const asked = FakeWorker.all[1]!.got.filter((each) => each.ask !== undefined);
    expect(asked).toHaveLength(1);
    FakeWorker.all[1]!.say({ id: asked[0]!.id, report: '{"layers":32}' });
    expect(await short).toEqual({ layers: 32 });
  });

  it("does nothing when the answer was there first", async () => {
    const transport = await begun(false);
    const stop = new AbortController();
    const found = transport.send(ASK, { signal: stop.signal });
    FakeWorker.all[0]!.say({ id: FakeWorker.all[0]!.got.at(-1)!.id, report: "1" });
    expect(await found).toBe(1);
    stop.abort();
    await soon();
    expect(FakeWorker.all).toHaveLength(1);
  });
});

describe("over the socket", () => {
  it("asks for progress, tells it, and sends the cancel", async () => {
    const transport = await server(() => undefined);
    const stop = new AbortController();
    const told: number[][] = [];
    const found = transport.send(ASK, { onprogress: (...far) => told.push(far), signal: stop.signal });
    const socket = FakeSocket.last;
    const [{ id, progress }] = socket.sent as [Message];
    expect(progress).toBe(true);
    socket.say({ id, progress: [1, 4] });
    stop.abort();
    expect(socket.sent.at(-1)).toEqual({ id, cancel: true });
    socket.say({ id, report: { partial: true } });
    expect(await found).toEqual({ partial: true });
    expect(told).toEqual([[1, 4]]);
  });

  it("leaves short questions as they are", async () => {
    const transport = await server(() => undefined);
    void transport.send(ASK);
    expect(FakeSocket.last.sent[0]).not.toHaveProperty("progress");
  });
});
