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

  show(what: Omit<Tip, "x" | "y">, at: MouseEvent | FocusEvent): void {
    if (at instanceof MouseEvent) this.now = { ...what, x: at.clientX, y: at.clientY };
    else {
      const box = (at.currentTarget as Element).getBoundingClientRect();
      this.now = { ...what, x: box.right, y: box.top + box.height / 2 };
    }
  }

  hide = (): void => {
    this.now = null;
  };
}

export const tips = new Tips();
