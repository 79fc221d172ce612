import { describe, expect, it } from "vitest";
import { Dropped, Line } from "../src/ask/line";

/** Questions that are answered when told to; and in which order they went. */
function engine() {
  const went: string[] = [];
  const answers = new Map<string, () => void>();
  const go = (name: string) => () => {
    went.push(name);
    return new Promise<string>((done) => answers.set(name, () => done(name)));
  };
  const answer = async (name: string) => {
    answers.get(name)!();
    await new Promise((done) => setTimeout(done));
  };
  return { went, go, answer };
}

const waits = (): AbortSignal => new AbortController().signal;

describe("the order of questions", () => {
  it("sends what is on screen at once, and what may wait two at a time afterwards", async () => {
    const { went, go, answer } = engine();
    const line = new Line();
    void line.add("now", go("now"));
    for (const name of ["a", "b", "c"]) void line.add(name, go(name), waits());
    expect(went).toEqual(["now"]);
    await answer("now");
    expect(went).toEqual(["now", "a", "b"]);
    void line.add("next", go("next"));
    await answer("a");
    expect(went).toEqual(["now", "a", "b", "next"]);
    await answer("next");
    expect(went).toEqual(["now", "a", "b", "next", "c"]);
  });

  it("never asks what nobody waits for any more", async () => {
    const { went, go, answer } = engine();
    const line = new Line();
    const [one, two] = [new AbortController(), new AbortController()];
    void line.add("now", go("now"));
    const alone = line.add("a", go("a"), one.signal);
    const shared = line.add("b", go("b"), one.signal);
    line.join("b", two.signal);
    one.abort();
    await expect(alone).rejects.toBeInstanceOf(Dropped);
    await answer("now");
    expect(went).toEqual(["now", "b"]); // b has another asker
    await answer("b");
    await expect(shared).resolves.toBe("b");
  });

  it("sends what waited at once when it is wanted on screen", () => {
    const { went, go } = engine();
    const line = new Line();
    void line.add("now", go("now"));
    void line.add("a", go("a"), waits());
    line.join("a");
    expect(went).toEqual(["now", "a"]);
  });

  it("shows answers of one change together, and a slow one holds back no other for longer than a picture", async () => {
    const { go, answer } = engine();
    const line = new Line();
    const shown: unknown[] = [];
    for (const name of ["a", "b", "slow"]) void line.add(name, go(name)).then((found) => shown.push(found));
    await answer("a");
    await answer("b");
    await new Promise((done) => setTimeout(done, 20));
    expect(shown).toEqual(["a", "b"]);
    await answer("slow");
    expect(shown).toEqual(["a", "b", "slow"]);
  });
});
