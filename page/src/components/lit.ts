// What is pointed at, or has the focus, lights up everywhere: a term of a formula, its row of inputs, its mark, bar and row.
// Things say what they are: data-op an operator, data-row the same in a table, data-kpi a number, data-of anything else, several by spaces.

const quoted = (name: string): string => `="${CSS.escape(name)}"]`;

function selectorsOf(from: HTMLElement): string[] {
  const { op, row, kpi, of } = from.dataset;
  const operator = op ?? row;
  return [
    ...(operator ? [`[data-op${quoted(operator)}`, `tr[data-row${quoted(operator)}`] : []),
    ...(kpi ? [`kpi:${kpi}`] : []).concat(of?.split(" ") ?? []).flatMap((each) => [`[data-of~${quoted(each)}`, ...(each.startsWith("kpi:") ? [`[data-kpi${quoted(each.slice(4))}`] : [])]),
  ];
}

let sheet: HTMLStyleElement | undefined;
let last = "";

/** Light up what stands for the same as the element under the pointer or in focus; for `document`. */
export function light(event: Event): void {
  const from = event.type === "focusout" || event.type === "pointerleave" ? null : (event.target as Element).closest?.<HTMLElement>("[data-op], [data-row], [data-kpi], [data-of]");
  const all = from ? selectorsOf(from).join(",") : "";
  if (all === last) return;
  last = all;
  sheet ??= document.head.appendChild(document.createElement("style"));
  sheet.textContent = all && `:is(${all}):not(svg *, button.pt:not(.term)){background:var(--lit)}svg :is(${all}) .focus,svg :is(rect,path):is(${all}){stroke:var(--ink);stroke-width:2}button.pt:is(${all}):not(.term){outline:2px solid var(--ink)}`;
}
