// One door to the engine: ask(question) → report, whichever transport answers.
import type { Ask, Kinds } from "../contract";
import { stored } from "./baked";
import { keyOf } from "./key";
import { server } from "./http";
import { browser } from "./worker";

/** What the engine refused, in its own words. */
export class AskError extends Error {}

/** A question of one kind. */
export type Question<K extends keyof Kinds> = Kinds[K]["ask"] & { kind: K };

export interface Transport {
  send(ask: Ask): Promise<unknown>;
}

export type Engine = "server" | "browser";
export type Status = "starting" | "ready" | "failed";

const MOST_KEPT = 400;

class Door {
  readonly engine: Engine;
  private transport: Promise<Transport> | null = null;
  private kept = new Map<string, Promise<unknown>>();
  private listeners = new Set<(status: Status, why: string) => void>();
  status: Status = "starting";
  why = "";

  constructor() {
    const said = typeof document === "undefined" ? null : document.querySelector('meta[name="rooflab-engine"]')?.getAttribute("content");
    this.engine = said === "server" ? "server" : "browser";
  }

  onStatus(listener: (status: Status, why: string) => void): void {
    this.listeners.add(listener);
    listener(this.status, this.why);
  }

  private say(status: Status, why = ""): void {
    this.status = status;
    this.why = why;
    for (const listener of this.listeners) listener(status, why);
  }

  /** Start the engine; asks that have no stored report wait for it. */
  start(): Promise<Transport> {
    this.transport ??= (this.engine === "server" ? server(this.lost) : browser(this.lost)).then(
      (transport) => (this.say("ready"), transport),
      (problem: unknown) => {
        this.say("failed", String(problem instanceof Error ? problem.message : problem));
        this.transport = null;
        throw problem;
      },
    );
    return this.transport;
  }

  private lost = (why: string): void => {
    this.transport = null;
    this.say("failed", why);
  };

  /** The report, at once where it was stored at build time or asked before. */
  ask<K extends keyof Kinds>(ask: Question<K>): Promise<Kinds[K]["report"]> {
    const key = keyOf(ask);
    const kept = this.kept.get(key);
    if (kept) {
      this.kept.delete(key);
      this.kept.set(key, kept);
      return kept as Promise<Kinds[K]["report"]>;
    }
    const ready = stored(key);
    const found = ready ? Promise.resolve(ready) : this.start().then((transport) => transport.send(ask as Ask));
    this.kept.set(key, found);
    found.catch((problem: unknown) => {
      if (!(problem instanceof AskError)) this.kept.delete(key); // what the engine refuses it refuses again; a lost line may come back
    });
    const oldest = this.kept.size > MOST_KEPT ? this.kept.keys().next().value : undefined;
    if (oldest !== undefined) this.kept.delete(oldest);
    return found as Promise<Kinds[K]["report"]>;
  }

  /** A report that needs no engine, or nothing. */
  now<K extends keyof Kinds>(ask: Question<K>): Kinds[K]["report"] | null {
    return stored(keyOf(ask)) as Kinds[K]["report"] | null;
  }
}

export const door = new Door();
