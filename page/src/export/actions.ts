// What the menus of a panel and of the page do: files, links and commands for the reader to keep.
import { app } from "../app";
import { door, type Question } from "../ask/engine";
import { isLog, namesOf, turn, type Axes } from "../charts/axes";
import { chooserIn, sheetIn, slug, type Cell, type Sheet } from "../components/sheets";
import type { ExplainReport } from "../contract";
import { describe } from "../state/app.svelte";
import { askOf, SEGMENTS, type Scenario } from "../state/scenario";
import { CARRIED, tooLong } from "../state/url";
import { NBSP, text, whole } from "../format";
import { csvOf, download } from "./files";
import { picture, png, type Caption } from "./svg";

export interface Item {
  id: string;
  name: string;
  run: () => Promise<void> | void;
  /** Of what is switched on and off. */
  on?: boolean;
}

/** What a panel says of itself to its menu. */
export interface Form {
  axes: Axes | null;
  flip: () => Promise<void>;
  listed: boolean;
  charted: boolean;
}

/** The scenario in one line. */
export const scenarioLine = (s: Scenario): string => SEGMENTS.map((segment) => describe(segment, s)).join(" · ");

const finding = (): string => document.getElementById("finding")?.textContent?.replace(/\s+/g, " ").trim() ?? "";
const today = (): string => new Date().toISOString().slice(0, 10);
const version = (): string => app.now.report?.version ?? "";
export const bare = (s: Scenario): Record<string, unknown> => {
  const { kind: _, ...fields } = askOf("estimate", s);
  return fields;
};

/** What the scenario's times stand on, by share of the step; hardware of the reader's own making is speculative. */
export function basisOf(s: Scenario): string {
  const shares = Object.entries(app.now.report?.basis_shares?.decode ?? app.now.report?.basis_shares?.prefill ?? {}).filter(([, share]) => share > 0.0005);
  const words = shares.sort((a, b) => b[1] - a[1]).map(([basis, share]) => `${basis} ${text(share, "share").replace(NBSP, " ")}`);
  if (words.length === 0) words.push(app.now.report?.basis ?? "roofline");
  if (app.now.report?.basis === "roofline") words.push("rates assumed");
  return [...(Object.keys(s.changes).length > 0 || typeof s.on !== "string" ? ["speculative hardware"] : []), ...words].join(", ");
}

/** Rows with what they stand on beside them, where they do not say it themselves. */
const based = (sheet: Sheet): Sheet => {
  const basis = sheet.basis === "simulated" ? `simulated, its steps ${basisOf(app.scenario)}` : (sheet.basis ?? basisOf(app.scenario));
  return sheet.header.includes("basis") || !basis ? sheet : { ...sheet, header: [...sheet.header, "basis"], rows: sheet.rows.map((row) => [...row, basis]) };
};

function caption(title: string, sub: string): Caption {
  const basis = app.now.report ? `basis ${basisOf(app.scenario)}` : "";
  const compared = app.comparing ? `baseline ${app.baselineTitle}` : "";
  return { title: sub ? `${title}: ${sub}` : title, lines: [finding(), scenarioLine(app.scenario)], foot: [`RoofLab ${version()}`, basis, compared, today(), "analytical model, not a benchmark"].filter(Boolean).join(" · ") };
}

/** Words alone stand on nothing. */
const given = (sheet: Sheet): Sheet => ({ ...sheet, basis: sheet.rows.some((row) => row.some((cell) => typeof cell === "number")) ? undefined : "" });

/** A table of the page as it reads; exact values where a cell's title has them. */
function tableOf(panel: Element): Sheet | null {
  const exactly = (node: Element) => /^(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?: (\S+?))?(?:\. .*)?$/.exec(node.querySelector("[title]")?.getAttribute("title") ?? node.getAttribute("title") ?? "");
  const cell = (node: Element): Cell => {
    const exact = exactly(node);
    return exact ? Number(exact[1]) : ((node as HTMLElement).innerText ?? node.textContent ?? "").replace(/\s+/g, " ").trim();
  };
  const table = panel.querySelector("table");
  if (table) {
    const rows = [...table.querySelectorAll("tbody tr, tfoot tr")].map((row) => [...row.children].map(cell));
    return given({ header: [...table.querySelectorAll("thead th")].map((node) => String(cell(node))), rows });
  }
  const terms = [...panel.querySelectorAll("dl > div, dl")].flatMap((group) => [...group.querySelectorAll(":scope > dt")].map((dt) => [dt, dt.nextElementSibling] as const));
  return terms.length ? given({ header: ["quantity", "value", "unit"], rows: terms.map(([dt, dd]) => [cell(dt), dd ? cell(dd) : null, (dd && exactly(dd)?.[2]) ?? ""]) }) : null;
}

async function copy(what: string, said: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(what);
    app.say(said);
  } catch {
    app.say(`Copying was not allowed: ${what}`);
  }
}

/** A link to what is shown, with `at` to one panel of it; what is the reader's own goes along only where that is chosen. */
export async function share(more: (items: Item[]) => void, at = ""): Promise<void> {
  const hash = app.hash + (at && (app.hash.includes("?") ? "&" : "?") + `at=${at}`);
  const link = location.href.replace(/#.*/, "") + hash;
  const { model, on } = app.scenario;
  const own = [typeof model === "string" || "like" in model ? "" : "the imported model", typeof on === "string" ? "" : "the system"].filter(Boolean).join(" and ");
  const size = `${whole(link.length)} characters`;
  const parts = ["view", "scenario", ...(app.baseline ? ["baseline"] : []), ...(own ? [own] : [])];
  const put = (): Promise<void> => copy(link, `Link copied: ${parts.join(", ")}${link.length > CARRIED ? `. Its ${size} are more than some mail and chat programs carry` : ""}`);
  if (!own && !tooLong(hash)) return put();
  more([
    ...(tooLong(hash) ? [] : [{ id: "own", name: `Copy link with ${own}, ${size}`, run: put }]),
    { id: "file", name: `Download scenario${tooLong(hash) ? `: a link would have ${size}` : ""}`, run: jsonExport },
  ]);
}

async function copyCommand(): Promise<void> {
  const report = await door.ask({ kind: "snapshot", scenario: bare(app.scenario) });
  const fromFile = report.command.startsWith("rooflab ask");
  if (fromFile) download("scenario.json", JSON.stringify(report.question, null, 1), "application/json");
  await copy(report.command, fromFile ? "Command copied; the question it asks was saved as scenario.json" : `Copied: ${report.command}`);
}

export const tried = (run: () => Promise<void> | void) => async (): Promise<void> => {
  try {
    await run();
  } catch (problem) {
    app.say(problem instanceof Error ? problem.message : String(problem));
  }
};

const AXES: Record<string, string> = { x: "horizontal axis", y: "vertical axis", xy: "axes" };

/** What a panel offers, by what is in it; `more` opens a list in the menu's place. */
export function panelItems(panel: Element, { axes, flip, listed, charted }: Form, more: (items: Item[]) => void): Item[] {
  const body = panel.querySelector(":scope > div:not([hidden])")!;
  const title = panel.querySelector("h2")?.textContent ?? "";
  const sub = panel.querySelector(".sub")?.textContent?.replace(/\s+/g, " ").trim() ?? "";
  const sheet = sheetIn(panel) ?? tableOf(body);
  const chooser = chooserIn(body);
  const draw = () => picture(body, caption(title, sub));
  const columns = (): void =>
    more(chooser!.columns.map(({ key, title, on }) => ({ id: key, name: title, on, run: () => { chooser!.turn(key); } })));
  return [
    ...(charted ? [{ id: "table", name: listed ? "Chart" : "Table", run: flip }] : []),
    ...(chooser ? [{ id: "columns", name: "Columns", run: columns }] : []),
    ...(sheet ? [{ id: "csv", name: "CSV", run: () => download(`${sheet.file || slug(title)}.csv`, csvOf(based(sheet)), "text/csv") }] : []),
    { id: "png", name: "PNG", run: async () => download(`${slug(title)}.png`, await png(await draw()), "image/png") },
    { id: "svg", name: "SVG", run: async () => download(`${slug(title)}.svg`, await draw(), "image/svg+xml") },
    ...(axes ? namesOf(axes) : []).map((name) => ({ id: `scale-${name}`, name: `${isLog(axes!, name) ? "Straight" : "Logarithmic"} ${AXES[name]}`, run: () => turn(axes!, name) })),
    { id: "link", name: "Copy link to this panel", run: () => share(more, slug(title)) },
    { id: "command", name: "Copy command", run: copyCommand },
  ];
}

/** The report that the command line writes, too. */
export async function htmlReport(): Promise<void> {
  const compared = app.comparing ? { baseline: bare(app.baseline!), baseline_name: app.baselineTitle } : {};
  const link = door.engine === "browser" && /^https?:/.test(location.protocol) ? location.href.slice(0, 10_000) : "";
  const report = await door.ask({ kind: "document", scenario: bare(app.scenario), link, date: today(), ...compared } as Question<"document">);
  download(`${report.name}.html`, report.html, "text/html");
}

/** The scenario, its baseline and what the engine says of them, in a file that is imported again. */
export async function jsonExport(): Promise<void> {
  const names = { now: "scenario", baseline: "baseline" };
  const records = [await snapshot(app.scenario, names.now), ...(app.comparing ? [await snapshot(app.baseline!, names.baseline)] : [])];
  const ask = (s: Scenario) => askOf("estimate", s, { detail: true }) as Question<"estimate">;
  const formulas: Record<string, ExplainReport> = {};
  for (const op of ["tpot", "ttft", "memory", "output_throughput", "cost", "energy"]) {
    const found = await door.ask(askOf("explain", app.scenario, { op }) as never).catch(() => null);
    if (found) formulas[op] = found as ExplainReport;
  }
  const results = { scenario: await door.ask(ask(app.scenario)), ...(app.comparing ? { baseline: await door.ask(ask(app.baseline!)) } : {}), formulas };
  download("scenario.json", JSON.stringify({ rooflab: "scenarios", format: 1, version: version(), scenarios: records, results }, null, 1), "application/json");
}

/** A scenario as it is saved. */
export async function snapshot(s: Scenario, name: string): Promise<{ name: string; ask: Record<string, unknown>; digest: Record<string, unknown>; version: string; time: string }> {
  const report = await door.ask({ kind: "snapshot", scenario: bare(s) });
  return { name, ask: report.scenario, digest: report.digest, version: report.version, time: `${new Date().toISOString().slice(0, 19)}Z` };
}

export function pageItems(more: (items: Item[]) => void, importFile: () => Promise<void>): Item[] {
  return [
    { id: "html", name: "HTML report", run: htmlReport },
    { id: "json", name: "Scenario and results as JSON", run: jsonExport },
    { id: "import", name: "Import scenarios", run: importFile },
    { id: "link", name: "Share link", run: () => share(more) },
    { id: "command", name: "Copy command", run: copyCommand },
  ];
}

export function moreItems(more: (items: Item[]) => void, importFile: () => Promise<void>): Item[] {
  const other = app.theme === "dark" ? "light" : "dark";
  return [
    ...(app.canRedo ? [{ id: "redo", name: "Redo", run: () => app.redo() }] : []),
    { id: "compare", name: "Compare", run: () => app.compare(innerWidth < 760) },
    ...pageItems(more, importFile),
    ...(app.comparing ? [{ id: "swap", name: "Swap with the baseline", run: () => app.swap() }] : []),
    ...(app.comparing || !app.baseline ? [{ id: "pin", name: "Pin as baseline", run: () => app.pin() }] : []),
    ...(app.baseline ? [{ id: "unpin", name: "Unpin the baseline", run: () => app.unpin() }] : []),
    { id: "theme", name: `Switch to the ${other} theme`, run: () => app.setTheme(other) },
    { id: "keys", name: "Keys", run: () => { app.open = "keys"; } },
  ];
}
