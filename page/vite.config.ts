import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// Few files compress better than many: what the first paint needs, what saves, compares and exports, what opens over a view, and the
// ways of a search.
const groups = [
  { name: "core", test: /src\/App\.svelte/, priority: 2 },
  { name: "keep", test: /src\/(compare|export)\//, priority: 1 },
  { name: "tools", test: /components\/(tools|Progress)|state\/work/, priority: 1 },
  { name: "search", test: /views\/design\/(Suggested|Sharded|Planner|Hardware|Setting)/ },
];

// The build hook (hatch_build.py) runs this, then adds Pyodide; the server and `rooflab site` add the engine and the stored reports.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  worker: { format: "es" },
  build: { outDir: process.env.PAGE_OUT ?? "dist", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false }, rolldownOptions: { output: { codeSplitting: { groups } } } },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
