// The order of questions: those on screen go at once and are shown together; those that may come a moment later wait until
// the line is free, few at a time; those that nobody waits for any more never go.
const BEHIND = 2;

/** Nobody waited for the answer any more, so it was not asked for. */
export class Dropped extends Error {}

interface Waiting {
  go: () => Promise<unknown>;
  done: (report: unknown) => void;
  fail: (problem: unknown) => void;
  askers: number;
}

/** Before the next picture where there is one. */
function frame(action: () => void): void {
  if (typeof document === "undefined" || document.hidden) setTimeout(action);
  else requestAnimationFrame(action);
}

export class Line {
  private waiting = new Map<string, Waiting>();
  private live = 0;
  private behind = 0;
  private ready: (() => void)[] = [];

  /** Ask; with a signal it may wait, and is dropped once every asker has aborted. */
  add(key: string, go: () => Promise<unknown>, signal?: AbortSignal): Promise<unknown> {
    return new Promise((done, fail) => {
      const one = { go, done, fail, askers: 0 };
      this.waiting.set(key, one);
      this.join(key, signal);
      this.next();
    });
  }

  /** Someone else wants the same answer; without a signal it goes at once. */
  join(key: string, signal?: AbortSignal): void {
    const one = this.waiting.get(key);
    if (!one) return;
    if (!signal) {
      this.waiting.delete(key);
      this.send(one);
      return;
    }
    one.askers += 1;
    const leave = (): void => {
      one.askers -= 1;
      if (one.askers === 0 && this.waiting.get(key) === one) {
        this.waiting.delete(key);
        one.fail(new Dropped("no longer wanted"));
      }
    };
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  }

  private send(one: Waiting): void {
    this.live += 1;
    const arrived = (deliver: () => void): void => {
      this.live -= 1;
      this.ready.push(deliver);
      if (this.live === 0) this.deliver();
      else if (this.ready.length === 1) frame(this.deliver);
      this.next();
    };
    one.go().then(
      (report) => arrived(() => one.done(report)),
      (problem: unknown) => arrived(() => one.fail(problem)),
    );
  }

  private deliver = (): void => {
    for (const one of this.ready.splice(0)) one();
  };

  private next(): void {
    while (this.live === 0 && this.behind < BEHIND && this.waiting.size) {
      const [key, one] = this.waiting.entries().next().value!;
      this.waiting.delete(key);
      this.behind += 1;
      void one
        .go()
        .then(one.done, one.fail)
        .finally(() => {
          this.behind -= 1;
          this.next();
        });
    }
  }
}
