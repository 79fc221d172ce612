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

export const pageMenu = (anchor: HTMLElement): void =>
  show(pageItems(() => void import("../compare/importing").then(({ choose }) => choose())), anchor, "Export");
