// Opens a menu under the button that asked for it.
import { mount, unmount } from "svelte";
import { moreItems, pageItems, panelItems, share, tried, type Form, type Item } from "./actions";
import Menu from "./Menu.svelte";

function show(items: Item[], anchor: HTMLElement, label: string): void {
  anchor.setAttribute("aria-expanded", "true");
  const menu = mount(Menu, {
    target: document.body,
    props: {
      items, anchor, label,
      onclose: () => {
        anchor.setAttribute("aria-expanded", "false");
        setTimeout(() => void unmount(menu));
      },
    },
  });
}

export const panelMenu = (panel: HTMLElement, anchor: HTMLElement, form: Form): void => {
  const label = `${panel.querySelector("h2")?.textContent ?? ""} menu`;
  show(panelItems(panel, form, (items) => show(items, anchor, label)), anchor, label);
};

/** Asks for a file: at hand when it is clicked, as a browser soon forgets a click, and then lets no file be asked for. */
function importing(): () => Promise<void> {
  const loading = import("../compare/importing");
  loading.catch(() => undefined); // said once it is wanted
  return () => loading.then(({ choose }) => choose());
}
const shared = (anchor: HTMLElement) => (items: Item[]): void => show(items, anchor, "Share link");

export const pageMenu = (anchor: HTMLElement): void => show(pageItems(shared(anchor), importing()), anchor, "Export");

/** Where there is no room for every button: what the others do, and what stands at the end of the scenario bar. */
export const moreMenu = (anchor: HTMLElement): void => show(moreItems(shared(anchor), importing()), anchor, "More");

/** A link at once, or a choice where the reader's own content would go along. */
export const shareMenu = (anchor: HTMLElement): void => void tried(() => share(shared(anchor)))();
