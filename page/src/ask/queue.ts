// Latest wins: one question in flight, positions of a slider that were passed meanwhile are dropped.
export interface Latest<A> {
  push(question: A): void;
  cancel(): void;
}

export function latest<A, R>(run: (question: A) => Promise<R>, done: (report: R, question: A) => void, failed: (problem: unknown, question: A) => void): Latest<A> {
  let busy = false;
  let waiting: { question: A } | null = null;
  let round = 0;
  async function start(question: A): Promise<void> {
    busy = true;
    const mine = round;
    try {
      const report = await run(question);
      if (mine === round) done(report, question);
    } catch (problem) {
      if (mine === round) failed(problem, question);
    }
    busy = false;
    const next = waiting;
    waiting = null;
    if (next) void start(next.question);
  }
  return {
    push(question) {
      if (busy) waiting = { question };
      else void start(question);
    },
    cancel() {
      round += 1;
      waiting = null;
    },
  };
}
