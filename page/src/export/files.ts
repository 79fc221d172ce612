// Files for the reader to keep.
import type { Cell, Sheet } from "../components/sheets";

/** Rows as CSV; text that a spreadsheet would run as a formula is kept as text. */
export function csv(rows: Cell[][]): string {
  const cell = (value: Cell): string => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

export const csvOf = (sheet: Sheet): string => csv([sheet.header, ...sheet.rows]);

export function download(name: string, content: string | Blob, type: string): void {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
