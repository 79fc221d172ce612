// Editors, command box and dialogs: not needed for the first paint, but soon. What is typed before they are there is theirs.
import { tick } from "svelte";

type Tools = typeof import("./tools");

class Later {
  tools = $state.raw<Tools | null>(null);
  private typed: string[] = [];
  private ready = false;

  load = async (): Promise<Tools> => {
    const tools = await import("./tools");
    if (!this.tools) {
      this.tools = tools;
      void this.give();
    }
    return tools;
  };

  /** Keep a key for the field that is about to open; true when it was kept. */
  keep(event: KeyboardEvent): boolean {
    if (this.ready || event.ctrlKey || event.metaKey || event.altKey || (event.key.length !== 1 && event.key !== "Enter")) return false;
    event.preventDefault();
    this.typed.push(event.key);
    return true;
  }

  private async give(): Promise<void> {
    await tick();
    await new Promise((done) => setTimeout(done)); // the field has the focus then
    this.ready = true;
    for (const key of this.typed.splice(0)) {
      const field = document.activeElement;
      if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement)) return;
      if (key === "Enter") {
        await tick();
        field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
      } else document.execCommand("insertText", false, key);
    }
  }
}

export const later = new Later();
const load = (): void => void later.load().catch(() => undefined);
if (typeof window !== "undefined") {
  if ("requestIdleCallback" in window) requestIdleCallback(load, { timeout: 500 });
  else setTimeout(load, 300);
}
