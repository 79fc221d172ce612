// Names of a CSV's columns as people read them.

const UNITS: [string, string][] = ["s", "byte", "FLOP", "token", "request", "USD", "J", "W", "byte/s", "FLOP/s", "token/s", "request/s", "FLOP/byte", "byte/token"]
  .map((unit): [string, string] => [`_${unit.replaceAll("/", "_per_")}`, unit])
  .sort((a, b) => b[0].length - a[0].length);

/** "memory_byte_per_s" as "Memory" in byte/s; a share is one by its name. */
export function asWords(header: string): { title: string; unit: string } {
  const [end, unit] = UNITS.find(([each]) => header.endsWith(each) && header.length > each.length) ?? ["", ""];
  const name = header.slice(0, header.length - end.length).replaceAll("_", " ").trim();
  const spoken = name.replace(/\b(flop|kv|ttft|tpot|tp|pp|cp|dp|ep)\b/g, (short) => short.toUpperCase());
  const title = spoken.charAt(0).toUpperCase() + spoken.slice(1);
  return { title, unit: unit || (/(^| )share$/.test(name) ? "share" : "") };
}
