// What the browser keeps: the last scenario, the baseline, saved scenarios, the theme. Storage may be closed to us.
const PREFIX = "rooflab.";

/** What is kept, where it is of the usual value's kind; else the usual value. */
export function kept<T>(name: string, usual: T): T {
  try {
    const found = JSON.parse(localStorage.getItem(PREFIX + name) ?? "null") as T;
    return found !== null && typeof found === typeof usual && Array.isArray(found) === Array.isArray(usual) ? found : usual;
  } catch {
    return usual;
  }
}

export function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    /* full or closed: the address still holds the scenario */
  }
}

export function forget(...names: string[]): void {
  try {
    for (const name of names) localStorage.removeItem(PREFIX + name);
  } catch {
    /* nothing was kept */
  }
}
