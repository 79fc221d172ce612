// One tooltip for the page: of a chart's mark, or what an element's title says to those who do not point (see TipBox).
import type { Bound } from "../words";

export interface Tip {
  title: string;
  bound?: Bound;
  rows: [string, string][];
  x: number;
  y: number;
  /** Shown over what is pointed at, where the pointer may go to it; else beside what has the focus. */
  over?: boolean;
  /** Words alone, under what they are about. */
  plain?: boolean;
}

/** How long a tip stays once the pointer has left its mark, or goes from it towards the tip. */
const GRACE_MS = 250;

class Tips {
  now = $state.raw<Tip | null>(null);
  /** The place that is pointed at, for every chart over the same axis. */
  cross = $state.raw<{ axis: string; at: number } | null>(null);
  /** Where it stands on the page. */
  node: HTMLElement | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private last = { x: 0, y: 0 };

  show(what: Omit<Tip, "x" | "y">, at: MouseEvent | FocusEvent): void {
    this.stay();
    if (at instanceof MouseEvent) {
      const nearing = this.nears(at);
      const next = { ...what, over: true, x: at.clientX, y: at.clientY };
      // Of the same mark it stays where it is, and on the way to it no other takes its place: so it can be reached.
      if (this.now?.over && this.now.title === what.title) this.now = { ...next, x: this.now.x, y: this.now.y };
      else if (nearing) this.timer = setTimeout(() => (this.now = next), GRACE_MS);
      else this.now = next;
    } else {
      const box = (at.currentTarget as Element).getBoundingClientRect();
      this.now = { ...what, x: box.right, y: box.top + box.height / 2 };
    }
  }

  /** Beside a place of a chart, in its own coordinates; for those who walk it by the keyboard. */
  beside(what: Omit<Tip, "x" | "y">, svg: SVGSVGElement, x: number, y: number): void {
    this.stay();
    const box = svg.getBoundingClientRect();
    const size = box.width / svg.viewBox.baseVal.width;
    this.now = { ...what, x: box.left + x * size, y: box.top + y * size };
  }

  /** Whether the pointer is on its way to the tip. */
  private nears(at: MouseEvent): boolean {
    const before = this.last;
    this.last = { x: at.clientX, y: at.clientY };
    const box = this.now?.over ? this.node?.getBoundingClientRect() : undefined;
    if (!box || at.clientX < box.left || at.clientX > box.right) return false;
    const gap = (y: number): number => Math.max(box.top - y, y - box.bottom);
    return gap(at.clientY) < gap(before.y) && Math.abs(at.clientX - before.x) <= Math.abs(at.clientY - before.y);
  }

  /** It stays: the pointer is on it. */
  stay = (): void => clearTimeout(this.timer);

  dismiss = (): void => {
    this.stay();
    this.now = this.cross = null;
  };

  /** What it is about is left: where it was pointed at, the pointer may be on its way to the tip. */
  hide = (): void => {
    if (!this.now?.over) return this.dismiss();
    this.stay();
    this.timer = setTimeout(this.dismiss, GRACE_MS);
  };
}

export const tips = new Tips();
