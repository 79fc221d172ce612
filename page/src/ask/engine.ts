// One door to the engine: ask(question) → report, whichever transport answers.
import type { Ask, Kinds, Table } from "../contract";
import { stored } from "./baked";
import { keyOf } from "./key";
import { server } from "./http";
import { Line } from "./line";
import { browser } from "./worker";

/** What the engine refused, in its own words. */
export class AskError extends Error {}

/** A question of one kind. */
export type Question<K extends keyof Kinds> = Kinds[K]["ask"] & { kind: K };

/** The reader has stopped a question before there was anything to show. */
export class Stopped extends Error {}

/** Rows of a long answer that are ready, and how far it is. */
export interface Part {
  done: number;
  total: number;
  table?: Table | null;
  /** Whether each row meets the question's conditions, where it has any. */
  meets?: boolean[] | null;
}

/** For questions that may take long: how far the answer is, and a way to end it early. */
export interface Along {
  onprogress?: (done: number, total: number) => void;
  /** Rows as they are found; then the report holds only the rows that it names. */
  onpart?: (part: Part) => void;
  /** Aborted, the report comes at once with what was done; or Stopped is thrown where nothing can be kept. */
  signal?: AbortSignal;
  /** The report is large: it is not remembered. */
  once?: boolean;
}

export interface Transport {
  send(ask: Ask, along?: Along): Promise<unknown>;
}

export type Engine = "server" | "browser";
export type Status = "starting" | "ready" | "failed";

const MOST_KEPT = 400;

class Door {
  readonly engine: Engine;
  private transport: Promise<Transport> | null = null;
  private kept = new Map<string, Promise<unknown>>();
  private line = new Line();
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

  /**
   * The report, at once where it was stored at build time or asked before. With a signal the question may wait until
   * those without one are answered; once aborted, it is not asked at all.
   */
  ask<K extends keyof Kinds>(ask: Question<K>, signal?: AbortSignal): Promise<Kinds[K]["report"]> {
    const key = keyOf(ask);
    const kept = this.kept.get(key);
    if (kept) {
      this.kept.delete(key);
      this.kept.set(key, kept);
      this.line.join(key, signal);
      return kept as Promise<Kinds[K]["report"]>;
    }
    const ready = stored(key);
    const found = ready ? Promise.resolve(ready) : this.line.add(key, () => this.start().then((transport) => transport.send(ask as Ask)), signal);
    this.keep(key, found);
    found.catch((problem: unknown) => {
      if (!(problem instanceof AskError)) this.kept.delete(key); // what the engine refuses it refuses again; a lost line may come back
    });
    return found as Promise<Kinds[K]["report"]>;
  }

  /**
   * The same for a question that may take long (kinds simulate and sweep tell progress and end early; others just answer).
   * Short questions asked meanwhile are answered meanwhile. What was cut short is not remembered.
   */
  async long<K extends keyof Kinds>(ask: Question<K>, along: Along): Promise<Kinds[K]["report"]> {
    const key = keyOf(ask);
    if (this.kept.has(key) || stored(key)) return this.ask(ask);
    const transport = await this.start();
    if (along.signal?.aborted) throw new Stopped("stopped before it began");
    const report = (await transport.send(ask as Ask, along)) as Kinds[K]["report"];
    if (!along.signal?.aborted && !along.once) this.keep(key, Promise.resolve(report));
    return report;
  }

  /** A search in parts: their tables hold the rows that are asked for. Nothing is remembered here. */
  async parts<K extends "sweep" | "sharded" | "codesign">(ask: Question<K>, along: Along & { onpart: (part: Part) => void }): Promise<Kinds[K]["report"]> {
    const transport = await this.start();
    if (along.signal?.aborted) throw new Stopped("stopped before it began");
    return (await transport.send(ask as Ask, along)) as Kinds[K]["report"];
  }

  private keep(key: string, found: Promise<unknown>): void {
    this.kept.set(key, found);
    const oldest = this.kept.size > MOST_KEPT ? this.kept.keys().next().value : undefined;
    if (oldest !== undefined) this.kept.delete(oldest);
  }

  /** A report that needs no engine, or nothing. */
  now<K extends keyof Kinds>(ask: Question<K>): Kinds[K]["report"] | null {
    return stored(keyOf(ask)) as Kinds[K]["report"] | null;
  }
}

export const door = new Door();
