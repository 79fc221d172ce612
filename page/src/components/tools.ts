// What opens over the view; see later.svelte.ts.
export { default as CommandBox } from "./CommandBox.svelte";
export { default as Editor } from "./Editor.svelte";
export { default as Keys } from "./Keys.svelte";
export { default as Reset } from "./Reset.svelte";
export { takeModel } from "../state/smallest";
