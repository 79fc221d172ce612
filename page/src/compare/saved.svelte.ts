// The saved scenarios: in the server's file where there is one, else in this browser, else for this visit.
import { app } from "../app";
import { door } from "../ask/engine";
import { shelf, type Shelf } from "../ask/shelf";
import type { Saved } from "../contract";
import { free, MOST, read, written } from "./records";

const KEY = "rooflab.saved";
/** Columns that stand there before any is chosen. */
const FIRST = 4;
/** In the address: that none is. */
const NONE = "-";

class SavedList {
  all = $state.raw<Saved[]>([]);
  /** Where they are kept, in words. */
  where = $state("");
  problem = $state("");
  loaded = $state(false);
  private served = door.engine === "server";
  /** What the browser keeps must not be written over: it is a newer version's. */
  private closed = false;

  constructor() {
    if (typeof window === "undefined") return;
    window.addEventListener("storage", (event) => { if ((event.key === KEY || event.key === null) && !this.served) void this.load(); });
    window.addEventListener("focus", () => { if (this.loaded && this.served) void this.load(); }); // the command line may have saved one
  }

  async load(): Promise<void> {
    if (this.served) {
      const found = await shelf.all();
      if (found.where || found.error) this.take(found);
      else this.served = false; // a server for several people keeps nothing
    }
    if (!this.served) this.fromBrowser();
    this.loaded = true;
  }

  private take(found: Shelf): string[] {
    this.problem = found.error ?? "";
    if (found.saved || !found.error) this.all = found.saved ?? [];
    this.where = found.where ?? this.where;
    return found.names ?? [];
  }

  private fromBrowser(): void {
    this.where = "in this browser";
    try {
      const found = read(localStorage.getItem(KEY));
      this.all = found.records;
      this.problem = found.problem;
      this.closed = found.newer;
    } catch {
      this.where = "for this visit only: the browser keeps nothing here";
    }
  }

  /** Write to the browser what `change` makes of the newest list, which another tab may have changed. */
  private keep(change: (now: Saved[]) => Saved[]): void {
    let now = this.all;
    try {
      const text = localStorage.getItem(KEY);
      const found = read(text);
      if (found.newer) {
        this.problem = found.problem;
        this.all = change(now);
        this.where = "for this visit only";
        return;
      }
      if (found.problem && text !== null) localStorage.setItem(`${KEY}.unreadable`, text); // not thrown away
      if (text !== null) now = found.records;
    } catch {
      /* closed to us: for this visit only */
    }
    this.all = change(now);
    this.problem = "";
    try {
      localStorage.setItem(KEY, written(this.all));
      this.where = "in this browser";
    } catch (problem) {
      const full = problem instanceof DOMException && problem.name === "QuotaExceededError";
      this.where = "for this visit only";
      this.problem = full ? "This browser’s storage is full: export the scenarios to a file to keep them." : "This browser keeps nothing here: export the scenarios to a file to keep them.";
    }
  }

  /** Names of those that stand in columns: the address's, else the newest. */
  wanted(cols: string | undefined): string[] {
    return cols === undefined ? this.all.slice(-FIRST).map((each) => each.name) : cols === NONE ? [] : cols.split("\n");
  }

  choose(names: string[]): void {
    app.option("cols", names.join("\n") || NONE);
  }

  /** Let these stand in columns, too. The newest do by themselves until others are chosen. */
  show(...names: string[]): void {
    if (app.more.cols !== undefined) this.choose([...this.wanted(app.more.cols), ...names]);
  }

  /** Keep scenarios; a name that is taken gets the next free number. Returns their names. */
  async add(records: Saved[]): Promise<string[]> {
    if (this.served) return this.take(await shelf.add(records, false));
    const names: string[] = [];
    this.keep((now) => {
      if (now.length + records.length > MOST) return now;
      const taken = new Set(now.map((each) => each.name));
      const named = records.map((record) => {
        const name = free(record.name, taken);
        taken.add(name);
        names.push(name);
        return { ...record, name };
      });
      return [...now, ...named];
    });
    if (!names.length && records.length) this.problem = `A browser keeps at most ${MOST} scenarios and has ${this.all.length} already: delete some, or export them to a file first.`;
    return names;
  }

  async rename(name: string, to: string): Promise<boolean> {
    if (name === to) return true;
    if (this.all.some((each) => each.name === to)) {
      this.problem = `“${to}” is taken; choose another name`;
      return false;
    }
    if (this.served) this.take(await shelf.rename(name, to));
    else this.keep((now) => now.map((each) => (each.name === name ? { ...each, name: to } : each)));
    return !this.problem;
  }

  async remove(names: string[]): Promise<void> {
    if (this.served) this.take(await shelf.remove(names));
    else this.keep((now) => now.filter((each) => !names.includes(each.name)));
  }
}

export const saved = new SavedList();
