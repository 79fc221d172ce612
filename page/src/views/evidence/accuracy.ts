// The tables of docs/accuracy.md, which tools/accuracy.py generates; the page repeats them as they stand.

export interface Table {
  title: string;
  /** The words under the heading that stand before the table. */
  words: string;
  head: string[];
  rows: string[][];
}

const cells = (line: string): string[] => line.replace(/^\||\|\s*$/g, "").split("|").map((cell) => cell.trim());

/** Headed tables of a page of text. */
export function tables(page: string): Table[] {
  return page
    .split(/^## /m)
    .slice(1)
    .flatMap((part) => {
      const [title = "", ...lines] = part.split("\n");
      const at = lines.findIndex((line) => line.startsWith("|"));
      if (at < 0) return [];
      const grid = lines.slice(at).filter((line) => line.startsWith("|")).map(cells);
      return [{ title: title.trim(), words: lines.slice(0, at).join(" ").trim(), head: grid[0] ?? [], rows: grid.slice(2) }];
    });
}
