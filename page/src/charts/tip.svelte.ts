// One tooltip for the page.
import type { Bound } from "../words";

export interface Tip {
  title: string;
  bound?: Bound;
  rows: [string, string][];
  x: number;
  y: number;
}

class Tips {
  now = $state.raw<Tip | null>(null);
  /** The place that is pointed at, for every chart over the same axis. */
  cross = $state.raw<{ axis: string; at: number } | null>(null);

  show(what: Omit<Tip, "x" | "y">, at: MouseEvent | FocusEvent): void {
    if (at instanceof MouseEvent) this.now = { ...what, x: at.clientX, y: at.clientY };
    else {
      const box = (at.currentTarget as Element).getBoundingClientRect();
      this.now = { ...what, x: box.right, y: box.top + box.height / 2 };
    }
  }

  /** Beside a place of a chart, in its own coordinates; for those who walk it by the keyboard. */
  beside(what: Omit<Tip, "x" | "y">, svg: SVGSVGElement, x: number, y: number): void {
    const box = svg.getBoundingClientRect();
    const size = box.width / svg.viewBox.baseVal.width;
    this.now = { ...what, x: box.left + x * size, y: box.top + y * size };
  }

  hide = (): void => {
    this.now = this.cross = null;
  };
}

export const tips = new Tips();
