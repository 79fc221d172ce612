// The answer of a comparison in a sentence or two.
import type { CompareReport, RowReport } from "../contract";
import { text } from "../format";

/** Of a name in a sentence. */
const LONGEST = 40;
const listed = (names: string[]): string => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`);

/** Which column is best at what matters; the first `live` columns are the present scenario and its baseline. */
export function finding(report: CompareReport, live: number): string {
  const { columns, switches } = report;
  const row = (key: string): RowReport | undefined => report.rows.find((each) => each.key === key);
  const called = columns.map(({ name }, at) => (live > columns.length ? name : at >= live ? `“${name.length > LONGEST ? `${name.slice(0, LONGEST - 1).trimEnd()}…` : name}”` : at ? "the baseline" : "the present scenario"));
  const said = (one: RowReport, at: number): string => text(one.values[at] as number, one.unit);
  const sentence = (words: string): string => `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
  const tpot = row("tpot");
  const rate = row("throughput_per_device");
  const found: string[] = [];
  const timed = columns.flatMap((_, at) => (typeof tpot?.values[at] === "number" ? [at] : []));
  if (columns.length < 2) return "The present scenario stands alone: save it, change something, and both stand side by side.";
  if (tpot && timed.length > 1) {
    const slowest = timed.reduce((most, at) => ((tpot.values[at] as number) > (tpot.values[most] as number) ? at : most));
    const same = tpot.best.join() === rate?.best.join();
    if (live > columns.length && tpot.best.length) found.push(`a token takes ${listed(timed.map((at) => `${said(tpot, at)} under ${called[at]}`))}`);
    else if (!tpot.best.length) found.push(`all take ${said(tpot, timed[0]!)} a token`);
    else found.push(`${listed(tpot.best.map((at) => called[at]!))} ${tpot.best.length > 1 ? "take" : "takes"} the least time a token, ${said(tpot, tpot.best[0]!)} against ${said(tpot, slowest)} of ${called[slowest]}${same ? ", and gives the most from each device" : ""}`);
    if (!same && live <= columns.length && rate?.best.length) found.push(`the most from each device comes from ${listed(rate.best.map((at) => called[at]!))}, ${said(rate, rate.best[0]!)}`);
  }
  const moves = switches.filter((each) => each.tpot !== null && each.tpot_before !== null).sort((a, b) => Math.abs(b.tpot! - b.tpot_before!) - Math.abs(a.tpot! - a.tpot_before!))[0];
  if (moves && moves.tpot !== moves.tpot_before) found.push(`the switch that moves it most is ${moves.means}: ${text(moves.tpot_before, "s")} to ${text(moves.tpot, "s")} by itself`);
  const over = columns.flatMap((each, at) => (each.fits === false ? [called[at]!] : []));
  const refused = columns.flatMap((each, at) => (each.error ? [called[at]!] : []));
  if (over.length) found.push(`${listed(over)} ${over.length > 1 ? "do" : "does"} not fit`);
  if (refused.length) found.push(`${listed(refused)} cannot be evaluated`);
  return found.map(sentence).join(" ") || "None of these has figures to compare.";
}
