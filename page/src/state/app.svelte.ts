// The one store: scenario, baseline, selection, view; mirrored in the address; asked about live.
import { untrack } from "svelte";
import type { Kinds } from "../contract";
import { door, type Question, type Status } from "../ask/engine";
import { asked, type Asked } from "./asked.svelte";
import { keep, kept, forget } from "./keep";
import { known } from "./known.svelte";
import { pack, unpack } from "./pack";
import { revived } from "./revived.svelte";
import { askOf, counted, changed, changedFields, changedSegments, FIELDS, machineTitle, same, type Change, type Scenario, type Segment } from "./scenario";
import { hashOf, placeOf, START, START_BASELINE } from "./url";
import { whole } from "../format";
import { deviceName, formatName, modelName } from "../words";

export type Row = Record<string, any>;
type Shelf = Kinds["catalog"]["ask"]["what"] & string;
export type Theme = "light" | "dark";
export type Phase = "decode" | "prefill";

const DEPTH = 100;
/** Characters of an imported model that stay readable in the address. */
const PLAIN = 300;
const SETTLED_MS = 400;
const RESTED_MS = 150;

export class App {
  view = $state("");
  scenario = $state.raw<Scenario>(START);
  baseline = $state.raw<Scenario | null>(START_BASELINE);
  baselineName = $state("");
  /** "op:down", "kpi:ttft"; nothing selects the view's main number. */
  selection = $state("");
  more = $state.raw<Record<string, string>>({});
  problems = $state.raw<string[]>([]);
  /** What stands in a field but cannot be taken, by the field; what is shown is from before. */
  wrong = $state.raw<Record<string, string>>({});
  theme = $state<Theme>("light");
  status = $state<Status>("starting");
  why = $state("");
  /** What is open over the view: an editor's segment, "find", "why", "keys". */
  open = $state("");
  said = $state("");
  offer = $state.raw<{ name: string; run: () => void } | null>(null);
  /** Whether saved scenarios stand side by side over the view, and whether a name is asked for there. */
  drawer = $state(false);
  naming = $state(false);
  /** Whether single letters and digits are keys of the page. */
  singleKeys = $state(kept("keys", true));
  shelves = $state.raw<Partial<Record<Shelf, Row[]>>>({});
  touched = $state(false);
  /** A value is being dragged. */
  moving = $state(false);
  /** A view that takes files of its own; true when it took this one. */
  taker = $state.raw<((file: File) => Promise<boolean>) | null>(null);
  private past = $state.raw<Scenario[]>([]);
  private future = $state.raw<Scenario[]>([]);
  private timer: ReturnType<typeof setTimeout> | undefined;
  private written = "";

  /** The estimate with the steps behind it; of the baseline; of one prompt alone; and what the model is. */
  now!: Asked<"estimate">;
  base!: Asked<"estimate">;
  one!: Asked<"estimate">;
  baseOne!: Asked<"estimate">;
  model!: Asked<"inspect">;
  /** The model as it is stored, before any precision is chosen. */
  stored!: Asked<"inspect">;

  private views: string[] = [];

  start(views: string[]): void {
    this.views = views;
    this.theme = document.documentElement.dataset.theme === "dark" ? "dark" : "light";
    this.go(location.hash || kept("last", ""));
    if (!location.hash && this.written) addEventListener("load", () => setTimeout(() => this.put("replaceState", this.written)), { once: true });
    this.baselineName = same(this.baseline, START_BASELINE) && same(this.scenario, START) ? "" : kept("baselineName", "");
    door.onStatus((status, why) => {
      this.status = status;
      this.why = why;
    });
    $effect.root(() => {
      const detail = (s: Scenario | null, more: Change = {}) => (s ? (askOf("estimate", { ...s, ...more }, { detail: true }) as Question<"estimate">) : null);
      this.now = asked<"estimate">(() => detail(this.scenario));
      this.base = asked<"estimate">(() => detail(this.baseline));
      this.one = asked<"estimate">(() => detail(this.scenario, { batch: 1, microbatches: 1 }));
      this.baseOne = asked<"estimate">(() => detail(this.baseline, { batch: 1, microbatches: 1 }));
      this.model = asked<"inspect">(() => askOf("inspect", this.scenario, { context: this.scenario.prompt + this.scenario.output, batch: 1 }) as Question<"inspect">);
      this.stored = asked<"inspect">(() => ({ kind: "inspect", model: this.scenario.model }));
      $effect(() => {
        void revived();
        untrack(() => { for (const what of ["models", "systems", "devices", "links", "profiles", "formats"] as Shelf[]) void this.shelf(what); });
      });
      $effect(() => void this.shorten(this.scenario.model));
      $effect(() => this.mirror(this.hash));
    });
    addEventListener("hashchange", () => {
      this.address = location.hash;
      if (location.hash === this.written) return;
      // What comes next is a step from here, and does not settle with what was left.
      clearTimeout(this.timer);
      this.timer = undefined;
      this.go(location.hash);
    });
    let presses = 0;
    addEventListener("pointerdown", () => (this.press = ++presses), { capture: true });
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (this.press = 0));
    addEventListener("pagehide", () => {
      if (this.timer !== undefined) this.settle();
    });
    requestIdleCallback?.(() => void door.start().catch(() => undefined)) ?? setTimeout(() => void door.start().catch(() => undefined), 50);
  }

  private short = $state.raw<{ of: unknown; text: string } | null>(null);
  private unpacking = false;

  /** The address of what is shown. */
  get hash(): string {
    return hashOf(this, this.short?.of === this.scenario.model ? this.short!.text : undefined);
  }

  /** Whether a model waits for its place in the address. */
  private packing = false;
  /** A large imported model is packed for the address, a moment later; without what makes no difference once the engine has said what that is. */
  private async shorten(model: Scenario["model"]): Promise<void> {
    const text = typeof model === "string" ? "" : JSON.stringify(model);
    this.packing = text.length > PLAIN;
    if (!this.packing) return;
    const put = async (what: string): Promise<void> => {
      const packed = await pack(what);
      if (this.scenario.model !== model) return;
      this.packing = false;
      this.short = { of: model, text: packed };
    };
    await put(text);
    const shorter = (await door.ask({ kind: "shorten", model: model as Row }).catch(() => null))?.model;
    if (shorter && typeof shorter !== "string" && !same(shorter, model)) await put(JSON.stringify(shorter));
  }

  /** Show what an address names; a packed model comes a moment later. */
  go(hash: string, written = hash): void {
    this.address = location.hash;
    const packed = /[?&]mx=(~[^&]*)/.exec(hash)?.[1];
    if (packed !== undefined) {
      this.unpacking = true;
      this.written = written;
      void unpack(packed).then((text) => {
        this.unpacking = false;
        if (this.written === written) this.go(hash.replace(packed, () => encodeURIComponent(text ?? "not packed")), written);
      });
      return;
    }
    const place = placeOf(hash, this.views);
    this.view = place.view;
    this.scenario = place.scenario;
    this.baseline = place.baseline;
    this.selection = place.selection;
    this.more = place.more;
    this.problems = place.problems;
    this.written = written;
  }

  /** The address follows at once, but not a drag: writing it costs as much as drawing a step. One step back is made once all has settled. */
  private mirror(hash: string): void {
    if (hash === this.written || this.unpacking || this.packing) return;
    const before = this.written;
    if (this.timer !== undefined && before.split("?")[0] !== hash.split("?")[0]) this.settle(); // a view is a step of its own
    this.written = hash;
    if (!before) {
      this.put("replaceState", hash);
      this.settle(); // the first address is the opening's: no change settles together with it
      return;
    }
    if (this.timer === undefined) {
      if (!location.hash) this.put("replaceState", before); // the opening scenario stays a step of its own
      this.put("pushState", hash);
    } else if (!this.moving) this.put("replaceState", hash);
    clearTimeout(this.timer);
    this.timer = setTimeout(this.settle, SETTLED_MS);
  }

  /** What stands in the address by our own hand, or was followed. */
  private address = "";
  /** Write the address; but where the reader has gone to another, of which we are told next, that one stays. */
  private put(how: "pushState" | "replaceState", hash: string): void {
    if (location.hash !== this.address) return;
    history[how](null, "", hash);
    this.address = location.hash;
  }

  private settle = (): void => {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (location.hash !== this.written) this.put("replaceState", this.written);
    keep("last", this.written);
    keep("baselineName", this.baselineName);
  };

  async shelf(what: Shelf): Promise<Row[]> {
    const found = this.shelves[what] ?? ((await door.ask({ kind: "catalog", what }).catch(() => null))?.rows as Row[] | undefined);
    if (!found) return [];
    if (what === "systems") known.systems = new Set(found.map((row) => String(row.name)));
    if (!this.shelves[what]) this.shelves = { ...this.shelves, [what]: found };
    return found;
  }

  // ------------------------------------------------------------------ changes

  /** Change the scenario. */
  set(change: Change): void {
    this.use(changed(this.scenario, change));
  }

  /** Say why what stands in a field is not taken, or that nothing is wrong with it; call what comes back once the field is gone. */
  mark(id: string, label: string, why: string): () => void {
    const { [id]: _, ...rest } = untrack(() => this.wrong);
    if (why || _ !== undefined) this.wrong = why ? { ...rest, [id]: `${label}: ${why}` } : rest;
    return () => {
      if (why) this.mark(id, label, "");
    };
  }

  /** Put another scenario in its place. */
  use(next: Scenario): void {
    if (same(next, this.scenario)) return;
    // A drag is one step back, however many values it passes and however slowly.
    const fields = changedFields(this.scenario, next).join();
    const dragged = fields === this.moved.fields && ((this.press > 0 && this.press === this.moved.press) || performance.now() - this.moved.at < SETTLED_MS);
    this.moved = { fields, press: this.press, at: performance.now() };
    if (dragged) this.still();
    else this.past = [...this.past, this.scenario].slice(-DEPTH);
    this.future = [];
    this.scenario = next;
    this.touched = true;
  }

  private moved = { fields: "", press: 0, at: 0 };
  /** Which press of the pointer is held; none is 0. */
  private press = 0;
  private resting: ReturnType<typeof setTimeout> | undefined;
  /** While a value is dragged marks jump (a glide would be drawn again and again on the way), and tables wait; see calm.svelte.ts. */
  private still(): void {
    this.moving = true;
    document.documentElement.dataset.moving = "";
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.moving = false;
      delete document.documentElement.dataset.moving;
    }, RESTED_MS);
  }

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  undo(): void {
    this.moved = { fields: "", press: 0, at: 0 };
    const before = this.past[this.past.length - 1];
    if (!before) return;
    this.future = [this.scenario, ...this.future];
    this.past = this.past.slice(0, -1);
    this.scenario = before;
  }

  redo(): void {
    const [after, ...rest] = this.future;
    if (!after) return;
    this.past = [...this.past, this.scenario];
    this.future = rest;
    this.scenario = after;
  }

  pin(): void {
    this.baseline = this.scenario;
    this.baselineName = "pinned here";
    this.say("Pinned: changes are now compared with this scenario");
  }

  unpin(): void {
    this.baseline = null;
    this.baselineName = "";
  }

  swap(): void {
    if (!this.baseline) return;
    const before = this.scenario;
    const name = this.baselineTitle;
    this.use(this.baseline);
    this.baseline = before;
    this.baselineName = "";
    this.say(`Swapped with ${name}`);
  }

  /** Forget what the browser keeps and start again. */
  reset(): void {
    forget("last", "baselineName", "saved", "saved.unreadable");
    this.drawer = false;
    this.past = [...this.past, this.scenario].slice(-DEPTH);
    this.scenario = START;
    this.baseline = START_BASELINE;
    this.baselineName = "";
    this.selection = "";
    this.more = {};
    this.problems = [];
  }

  /** Open what a number is made of; again, close it. Where the panel is not beside the view, it comes up. */
  explain(subject: string): void {
    this.selection = this.selection === subject ? "" : subject;
    this.touched = true;
    if (matchMedia("(max-width: 1279px)").matches) this.open = this.selection ? "why" : "";
  }

  /** Whether the step has an operator of that name; so it is taken until the step is known. */
  has(operator: string): boolean {
    const step = this.phase === "prefill" ? this.one.report?.prefill_step : this.now.report?.decode_step;
    return !step || step.ops.some((each) => each.name === operator);
  }

  /** Design, with this field alone on the axis. */
  vary(knob: string): void {
    this.open = "";
    this.selection = "";
    this.view = "design";
    const { way: _way, ...rest } = this.more;
    this.more = { ...rest, knob };
  }

  /** Ask for a name to save the scenario under, where saved ones stand side by side. */
  save(): void {
    this.naming = true;
    this.drawer = this.view !== "compare";
  }

  /** Saved scenarios side by side: on a page of their own, or over the view, where there is room; again, away. */
  compare(page: boolean): void {
    this.drawer = !page && !this.drawer && this.view !== "compare";
    if (page) this.view = "compare";
  }

  /** Open the menu of what can be exported, under the button that is there. */
  exporting(): void {
    [...document.querySelectorAll<HTMLElement>(".top [data-menu]")].find((each) => each.offsetParent)?.click();
  }

  option(key: string, value: string): void {
    const { [key]: _, ...rest } = this.more;
    this.more = value ? { ...rest, [key]: value } : rest;
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("rooflab.theme", theme);
    } catch {
      /* for this visit only */
    }
  }

  private quiet: ReturnType<typeof setTimeout> | undefined;
  /** A short word of what just happened, read out politely; a way back may stand beside it a little longer. */
  say(what: string, offer: { name: string; run: () => void } | null = null): void {
    this.said = what;
    this.offer = offer;
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => (this.said = ""), offer ? 10_000 : 4000);
  }

  // ------------------------------------------------------------------ readings

  get phase(): Phase {
    return this.more.phase === "prefill" || this.scenario.output <= 1 ? "prefill" : "decode"; // one token has a prefill only
  }

  /** Where the baseline differs, or the empty list. */
  get differs(): Segment[] {
    return this.baseline ? changedSegments(this.scenario, this.baseline) : [];
  }

  get comparing(): boolean {
    return this.baseline !== null && this.differs.length > 0;
  }

  /** What the prices rest on, as the engine says. */
  get trust(): string {
    return this.now.report?.notes.find((note) => /^(prices|profile) /.test(note)) ?? "";
  }

  /** Whether the baseline is evaluated in another way. */
  get otherMethod(): boolean {
    return this.baseline !== null && (["profile", "prices", "engine", "switches"] as const).some((field) => !same(this.baseline![field], this.scenario[field]));
  }

  /** What to know of the baseline beside its name. */
  get baselineChips(): string[] {
    const before = this.baseline;
    if (!before || !this.comparing) return [];
    return [
      this.base.error && !this.base.broken ? "cannot be evaluated" : this.base.report?.fits === false ? "does not fit" : "",
      same(before.model, this.scenario.model) ? "" : "different model",
      this.otherMethod ? "different method" : "",
      this.differs.length > 1 ? `${this.differs.length} changes` : "",
    ].filter(Boolean);
  }

  get baselineTitle(): string {
    if (!this.baseline) return "none";
    if (this.baselineName) return this.baselineName;
    const parts = this.differs.map((segment) => this.was(segment));
    return parts.length === 0 ? "where you started" : parts.length <= 2 ? parts.join(", ") : `${parts.slice(0, 2).join(", ")} …`;
  }

  /** What a segment was in the baseline: only what differs. */
  was(segment: Segment): string {
    const before = this.baseline!;
    if (segment === "precision") return precisionTitle(before, same(before.model, this.scenario.model) ? this.stored.report?.precision : undefined);
    if (segment === "workload") {
      const said = { prompt: "in", output: "out", batch: "batch", cached: "cached", concurrency: "in flight", max_batched_tokens: "tokens an iteration", varied: "varied" } as const;
      const fields = (Object.keys(said) as (keyof typeof said)[]).filter((field) => before[field] !== this.scenario[field]);
      return fields.map((field) => (field === "batch" ? `batch ${whole(before.batch)}` : `${(before[field] ?? "no").toLocaleString("en-US")} ${said[field]}`)).join(", ");
    }
    const found = describe(segment, before);
    if (found !== describe(segment, this.scenario)) return found;
    // The same in a few words: then what differs, by its name.
    const plain = (name: string): string => name.replace("links.", "link ").replace(/[_.]/g, " ");
    const inner = (field: keyof Scenario): string => {
      const [was, now] = [before[field], this.scenario[field]] as Record<string, unknown>[];
      if (field !== "changes" && field !== "switches") return `${plain(field)} ${String(was ?? "the profile’s")}`;
      return Object.keys({ ...was, ...now }).filter((key) => was![key] !== now![key]).map((key) => `${plain(key)} ${String(was![key] ?? (field === "changes" ? "its own" : "the profile’s"))}`).join(", ");
    };
    return FIELDS[segment].filter((field) => !same(before[field], this.scenario[field])).map(inner).join(", ");
  }

  isChanged(segment: Segment): boolean {
    return this.differs.includes(segment);
  }

  /** Whether a field differs from the baseline's. */
  fieldChanged(field: keyof Scenario): boolean {
    return this.baseline !== null && changedFields(this.scenario, this.baseline).includes(field);
  }
}

/** A segment in a few words. */
export function describe(segment: Segment, s: Scenario): string {
  const names: Record<Segment, () => string> = {
    model: () => (typeof s.model === "string" ? modelName(s.model) : typeof s.model.like === "string" ? `${modelName(s.model.like)}, changed` : String(s.model.name ?? s.model._name_or_path ?? s.model.model_type ?? "imported model")),
    system: () => systemTitle(s),
    layout: () => layoutTitle(s),
    workload: () => `${whole(s.prompt)} in, ${whole(s.output)} out, batch ${whole(s.batch)}`,
    precision: () => precisionTitle(s),
    profile: () => [s.profile, s.prices === "fitted" ? "fitted prices" : (s.prices ?? ""), Object.keys(s.switches).length ? "changed" : ""].filter(Boolean).join(", "),
  };
  return names[segment]();
}

export function systemTitle(s: Scenario): string {
  if (typeof s.on !== "string") return "Own system";
  const found = counted(s.on);
  return found ? machineTitle(found.count, found.device) : known.systems.has(s.on) ? deviceName(s.on) : `1 × ${deviceName(s.on)}`;
}

export function layoutTitle(s: Scenario): string {
  const named = (["tp", "pp", "cp", "ep", "dp"] as const).filter((axis) => s[axis] > 1).map((axis) => `${axis.toUpperCase()} ${s[axis]}`);
  if (s.attention_dp > 1) named.push(`attention DP ${s.attention_dp}`);
  return named.length ? named.join(", ") : "One device";
}

type Formats = Record<string, string> | undefined;

export function weightsTitle(s: Scenario, stored: Formats = undefined): string {
  if (s.weights !== null) return typeof s.weights === "string" ? formatName(s.weights) : "Mixed";
  if (!stored) return "As stored";
  return stored.ffn === stored.attention ? formatName(stored.ffn!) : "Mixed";
}

export function precisionTitle(s: Scenario, stored: Formats = undefined): string {
  return `${weightsTitle(s, stored)} weights${s.kv ? `, KV ${formatName(s.kv)}` : ""}`;
}
