// The store that every component reads.
import { App } from "./state/app.svelte";

export const app = new App();
