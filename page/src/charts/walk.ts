// The marks of a chart by the keyboard: arrows go along, Home and End to the ends; Enter is the mark's own.

/** Where the keys lead from a place among others; nothing where the key is none of the chart's. From nowhere to the first. */
export function along(key: string, at: number, count: number): number | undefined {
  const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? 0 : at - 1, Home: 0, End: count - 1 }[key];
  return to === undefined || count === 0 ? undefined : Math.max(0, Math.min(count - 1, to));
}

/** Move the focus among the chart's marks (`.pt`, in the order of their data-x); for onkeydown of a mark. */
export function walk(event: KeyboardEvent): void {
  const here = event.currentTarget as SVGElement;
  const all = [...here.closest("svg")!.querySelectorAll<SVGElement>(".pt")].sort((a, b) => Number(a.dataset.x) - Number(b.dataset.x));
  const to = along(event.key, all.indexOf(here), all.length);
  if (to === undefined) return;
  event.preventDefault();
  all[to]!.focus();
}
