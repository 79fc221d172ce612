// Editors, command box and dialogs: not needed for the first paint, but soon. Kept once loaded, so that what is typed right after a
// key finds its field.
type Tools = typeof import("./tools");

class Later {
  tools = $state.raw<Tools | null>(null);

  load = async (): Promise<Tools> => (this.tools ??= await import("./tools"));
}

export const later = new Later();
const load = (): void => void later.load().catch(() => undefined);
if (typeof window !== "undefined") {
  if ("requestIdleCallback" in window) requestIdleCallback(load, { timeout: 500 });
  else setTimeout(load, 300);
}
