// The marks of a chart by the keyboard: arrows go along, Home and End to the ends; Enter is the mark's own.

/** Where the keys lead from a place among others; nothing where the key is none of the chart's. From nowhere to the first. */
export function along(key: string, at: number, count: number): number | undefined {
  const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? 0 : at - 1, Home: 0, End: count - 1 }[key];
  return to === undefined || count === 0 ? undefined : Math.max(0, Math.min(count - 1, to));
}

/** Move the focus among the chart's marks (`.pt`, in the order of their data-x); Enter and Space take the one in focus. For onkeydown of
    a mark. One mark of a chart has tabindex 0, the others -1: Tab comes to the chart, arrows go on. */
export function walk(event: KeyboardEvent, take?: () => void): void {
  if (take && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    return take();
  }
  const here = event.currentTarget as SVGElement;
  const all = [...here.closest("svg, [data-chart]")!.querySelectorAll<SVGElement>(".pt")].sort((a, b) => Number(a.dataset.x) - Number(b.dataset.x));
  const to = along(event.key, all.indexOf(here), all.length);
  if (to === undefined) return;
  event.preventDefault();
  all[to]!.focus();
}
