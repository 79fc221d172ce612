// Opens a menu under the button that asked for it.
import { mount, unmount } from "svelte";
import { pageItems, panelItems, type Form, type Item } from "./actions";
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

export const pageMenu = (anchor: HTMLElement): void => {
  const importing = import("../compare/importing"); // at hand when it is clicked: a browser soon forgets a click, and then lets no file be asked for
  importing.catch(() => undefined); // said once it is wanted
  show(pageItems(() => importing.then(({ choose }) => choose())), anchor, "Export");
};
