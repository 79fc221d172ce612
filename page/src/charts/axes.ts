// The axes of a panel that its menu can switch between straight and logarithmic; a switched one is in the address.
import { getContext, setContext } from "svelte";
import { app } from "../app";
import { slug } from "../components/sheets";

export interface Axes {
  title: () => string;
  /** Names ("x", "y", or "xy" for both at once) and whether each is usually logarithmic. */
  of: Map<string, () => boolean>;
}
const KEY = "axes";
export const axesOf = (title: () => string): Axes => setContext(KEY, { title, of: new Map() });
/** Of charts that hold their panel, rather than stand in it, by its title. */
const holders = new Map<string, Axes>();
function holder(title: string): Axes {
  const found = holders.get(title) ?? { title: () => title, of: new Map() };
  holders.set(title, found);
  return found;
}
export const namesOf = (axes: Axes): string[] => [...axes.of.keys(), ...(holders.get(axes.title())?.of.keys() ?? [])];
const switched = (): string[] => (app.more.scale ?? "").split(",").filter(Boolean);
const key = (axes: Axes, name: string): string => `${slug(axes.title())}.${name}`;

export const isLog = (axes: Axes, name: string): boolean => ((axes.of.get(name) ?? holders.get(axes.title())?.of.get(name))?.() ?? true) !== (app.more.scale !== undefined && switched().includes(key(axes, name)));

/** Whether an axis of this chart is logarithmic: as it usually is, or as the reader chose in the menu of its panel (of this title, if it holds one). */
export function logOf(name: string, usual: () => boolean = () => true, title = ""): { readonly now: boolean } {
  const axes = title ? holder(title) : getContext<Axes | undefined>(KEY);
  axes?.of.set(name, usual);
  return {
    get now() {
      return axes ? isLog(axes, name) : usual();
    },
  };
}

export function turn(axes: Axes, name: string): void {
  const one = key(axes, name);
  const rest = switched();
  app.option("scale", (rest.includes(one) ? rest.filter((each) => each !== one) : [...rest, one]).join(","));
}
