// What the browser keeps: the last scenario, the baseline, saved scenarios, the theme. Storage may be closed to us.
const PREFIX = "rooflab.";

export function kept<T>(name: string): T | null {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
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
