import { defineConfig } from "vite";

// `npm run dev` shows the page with the live rows of a console that runs elsewhere:
// KILONOVA_CONSOLE=http://127.0.0.1:7444 KILONOVA_CONSOLE_TOKEN=… npm run dev
const env = (globalThis as { process?: { env: Record<string, string | undefined> } }).process?.env;
const console_ = env?.KILONOVA_CONSOLE ?? "http://127.0.0.1:7444";
const token = env?.KILONOVA_CONSOLE_TOKEN;

export default defineConfig({
  build: {
    outDir: "../src/kilonova/console/static",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    sourcemap: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/console.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/console.[ext]",
      },
    },
  },
  server: {
    proxy: {
      "/api": {
        target: console_,
        changeOrigin: true,
        headers: token ? { authorization: `Bearer ${token}` } : {},
      },
    },
  },
});
