import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The build hook (hatch_build.py) runs this, then adds Pyodide, the engine and the stored reports; see bake.py.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  worker: { format: "es" },
  build: { outDir: process.env.PAGE_OUT ?? "dist", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
