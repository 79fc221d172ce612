// Machines of a search: the scenario's own and others of the same size, as the engine is asked for them.
import { counted, known, type Scenario } from "../../state/scenario";
import { deviceName } from "../../words";

export const OTHERS = ["h100-sxm", "h200-sxm", "b200-sxm", "mi300x"];

/** "8x h100-sxm", "h100-sxm", or a whole system by its name. */
export function sized(name: string, devices: number): string {
  return known.systems.has(name) || devices === 1 ? name : `${devices}x ${name}`;
}

/** What a scenario's system is made of: a device that is counted, or a whole system. */
export function kindOf(s: Scenario): string {
  return counted(s.on)?.device ?? (typeof s.on === "string" ? s.on : "");
}

/** The device or system in "8x h100-sxm". */
export function kind(system: string): string {
  return counted(system)?.device ?? system;
}

/** "4 × H100 SXM" for a layout of four devices. */
export function machineName(system: string, devices: number): string {
  const name = kind(system);
  return known.systems.has(name) ? `${devices} of ${deviceName(name)}` : `${devices} × ${deviceName(name)}`;
}
