import { defineConfig } from "vite";

// Where `make ui-dev` finds `fencepost dev`.
const api = "http://127.0.0.1:8000";

export default defineConfig({
  // Files are linked relative to the page; the server adds the `../` of deeper pages.
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/fencepost/dashboard/static",
    emptyOutDir: true,
    // The policy of the page allows neither data: images nor inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    target: ["chrome123", "firefox120", "safari17.5"],
    reportCompressedSize: false,
  },
  server: { host: "127.0.0.1", proxy: { "/v1": api, "/health": api, "/openapi.json": api } },
});
