// Changes worth trying, each a change of the scenario; what they do is for the engine to say.
import { whole } from "../format";
import { formatName, deviceName } from "../words";
import { counted, machineTitle, devicesOf, type Change, type Scenario } from "./scenario";

export interface Lever {
  id: string;
  name: string;
  /** What it costs, in words. */
  cost: string;
  change: Change;
}

const NARROW = ["fp8", "int4"];
const BIGGER = ["h200-sxm", "b200-sxm", "mi300x", "h100-sxm"];

/** Narrower formats, another batch, more devices, other devices: a handful that differ from the scenario. */
export function levers(s: Scenario, formats: { weights: string; kv: string }): Lever[] {
  const found: Lever[] = [];
  const kv = NARROW.find((name) => name !== formats.kv && !(formats.kv === "int4") && !(formats.kv === "fp8" && name === "fp8"));
  if (kv) found.push({ id: `kv-${kv}`, name: `KV cache in ${formatName(kv)}`, cost: "fewer KV bytes; check accuracy", change: { kv } });
  const weights = NARROW.find((name) => !formats.weights.startsWith(name) && !formats.weights.includes("4"));
  if (weights) found.push({ id: `weights-${weights}`, name: `${formatName(weights)} weights`, cost: "fewer weight bytes; check accuracy", change: { weights } });
  const system = counted(s.on);
  const doubled = s.tp * 2;
  if (system) {
    const count = devicesOf({ ...s, tp: doubled });
    found.push({ id: "tp-up", name: `TP ${doubled} on ${machineTitle(count, system.device)}`, cost: "twice the devices; more exchange", change: { tp: doubled, on: `${count}x ${system.device}` } });
    const other = BIGGER.find((name) => name !== system.device);
    if (other) found.push({ id: `device-${other}`, name: `${system.count} × ${deviceName(other)}`, cost: "other devices", change: { on: `${system.count}x ${other}`, changes: {} } });
  } else found.push({ id: "tp-up", name: `TP ${doubled}`, cost: "twice the devices; more exchange", change: { tp: doubled } });
  if (s.batch > 1) found.push({ id: "batch-down", name: `Batch ${whole(Math.floor(s.batch / 2))}`, cost: "half the users per replica", change: { batch: Math.floor(s.batch / 2) } });
  found.push({ id: "batch-up", name: `Batch ${whole(s.batch * 2)}`, cost: "twice the users per replica", change: { batch: s.batch * 2 } });
  if (s.prompt > 2) found.push({ id: "prompt-down", name: `Prompt ${whole(Math.floor(s.prompt / 2))}`, cost: "half the prompt tokens", change: { prompt: Math.floor(s.prompt / 2), cached: 0 } });
  return found;
}
