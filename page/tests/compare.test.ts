// The sentence over a comparison; numbers are put in by hand.
import { describe, expect, it } from "vitest";
import type { CompareReport } from "../src/contract";
import { finding } from "../src/compare/finding";

const column = (name: string, more: object = {}) => ({ name, scenario: {}, fits: true, error: "", version: "", moved: [], notes: [], ...more });
const row = (key: string, unit: string, values: (number | null)[], best: number[]) => ({ group: "", key, title: key, unit, better: "down", values, best, differs: best.length > 0 });
const report = (columns: object[], rows: object[], switches: object[] = []) => ({ columns, rows, stages: [], switches }) as unknown as CompareReport;

describe("the finding of a comparison", () => {
  it("names the best and what has no figures", () => {
    const columns = [column("Now"), column("Baseline: x"), column("mine"), column("over", { fits: false }), column("odd", { fits: null, error: "no" })];
    const rows = [row("tpot", "s", [0.02, 0.03, 0.01, null, null], [2]), row("throughput_per_device", "token/s", [400, 300, 200, null, null], [0])];
    expect(finding(report(columns, rows), 2)).toBe("“mine” takes the least time a token, 10.0 ms against 30.0 ms of the baseline. The most from each device comes from the present scenario, 400 tok/s. “over” does not fit. “odd” cannot be evaluated.".replace(/(\d) (ms|tok)/g, "$1\u00a0$2"));
  });
  it("says it once where one is best at both, and when nothing differs", () => {
    const columns = [column("Now"), column("mine")];
    expect(finding(report(columns, [row("tpot", "s", [0.02, 0.01], [1]), row("throughput_per_device", "token/s", [1, 2], [1])]), 1)).toContain("and gives the most from each device.");
    expect(finding(report(columns, [row("tpot", "s", [0.02, 0.02], [])]), 1)).toMatch(/^All take 20\.0.ms a token\.$/);
    expect(finding(report([column("Now")], []), 1)).toContain("stands alone");
    expect(finding(report(columns, []), 1)).toBe("None of these has figures to compare.");
  });
  it("says which switch makes two profiles differ most", () => {
    const switches = [{ means: "small", tpot: 0.019, tpot_before: 0.02 }, { means: "large", tpot: 0.01, tpot_before: 0.02 }, { means: "refused", tpot: null, tpot_before: 0.02 }];
    const said = finding(report([column("operator"), column("envelope")], [row("tpot", "s", [0.02, 0.01], [1])], switches), Infinity);
    expect(said.replaceAll("\u00a0", " ")).toBe("A token takes 20.0 ms under operator and 10.0 ms under envelope. The switch that moves it most is large: 20.0 ms to 10.0 ms by itself.");
  });
  it("shortens a long name", () => expect(finding(report([column("Now"), column("x".repeat(100), { fits: false })], []), 1)).toBe(`“${"x".repeat(39)}…” does not fit.`));
});
