// Machines with levels inside levels (PE in cube in SIP, GPU in node in cluster): what the searches of every cut run on.
import { app } from "../../app";

const links = (name: string): string[] => (app.shelves.systems?.find((row) => row.name === name)?.links ?? []) as string[];

export function hierarchies(): string[] {
  return (app.shelves.systems ?? []).filter((row) => (row.links as string[]).length > 1 && Number(row.devices) >= 64).map((row) => String(row.name));
}

/** The scenario's machine where it has levels, else the one chosen, else the reference's PE, cube and SIP. */
export function hierarchyOf(chosen: string | undefined): string {
  if (chosen && hierarchies().includes(chosen)) return chosen;
  const own = app.scenario.on;
  return typeof own === "string" && hierarchies().includes(own) ? own : "sip";
}

/** "intra-cube × 8, inter-cube × 16": the levels in words. */
export function levelsOf(name: string): string {
  return links(name).join(", ");
}

export const knobNames = (name: string): Record<string, string> => ({
  memory: "Memory of a device",
  memory_bandwidth: "Memory bandwidth",
  flop_rate: "Peak FLOP/s",
  ...Object.fromEntries(links(name).map((link, level) => [`links.${level}.bandwidth`, `Bandwidth of ${link.replace(/ ×.*/, "")}`])),
});
