// Machines of a search: the scenario's own and others of the same size, as the engine is asked for them.
import { app } from "../../app";
import { known } from "../../state/known.svelte";
import { counted, type Scenario } from "../../state/scenario";
import { deviceName } from "../../words";

export const OTHERS = ["h100-sxm", "h200-sxm", "b200-sxm", "mi300x"];

/** Devices that the innermost links of a whole system join. */
function joined(row: Record<string, unknown>): number {
  return Number(/×\s*(\d+)$/.exec(String((row.links as string[])[0] ?? ""))?.[1] ?? row.devices);
}

/** "8x h100-sxm", "h100-sxm" for one; beyond what its links join, a whole system of these devices. */
export function sized(name: string, devices: number): string {
  if (known.systems.has(name) || devices === 1) return name;
  const larger = (app.shelves.systems ?? []).find((row) => row.device === name && joined(row) < devices && Number(row.devices) >= devices);
  return larger ? String(larger.name) : `${devices}x ${name}`;
}

/** What a system is made of. */
export function deviceOf(system: string): string {
  return counted(system)?.device ?? String(app.shelves.systems?.find((row) => row.name === system)?.device ?? system);
}

export function kindOf(s: Scenario): string {
  return typeof s.on === "string" ? deviceOf(s.on) : "";
}

/** The scenario's machine with room for so many devices: a whole system stays what it is. */
export function room(s: Scenario, devices: number): Scenario["on"] {
  return typeof s.on !== "string" || known.systems.has(s.on) ? s.on : sized(kindOf(s), devices);
}

/** "4 × H100 SXM" for a layout of four devices. */
export function machineName(system: string, devices: number): string {
  return `${devices} × ${deviceName(deviceOf(system))}`;
}
