import { defineConfig, type Plugin } from "vite";

// `npm run dev` serves the page with the data of a running console:
// KILONOVA_CONSOLE=http://127.0.0.1:7444 KILONOVA_CONSOLE_TOKEN=… npm run dev
const env = (globalThis as { process?: { env: Record<string, string | undefined> } }).process?.env;
const consoleUrl = env?.KILONOVA_CONSOLE ?? "http://127.0.0.1:7444";
const token = env?.KILONOVA_CONSOLE_TOKEN;

/** In development, the description of the page from the document of the running console. */
const developmentDescription: Plugin = {
  name: "description",
  apply: "serve",
  async transformIndexHtml(html) {
    const reply = await fetch(consoleUrl, { headers: token ? { authorization: `Bearer ${token}` } : {} });
    const served = await reply.text();
    const element = /<script id="description".*?<\/script>/s;
    return html.replace(element, (before) => element.exec(served)?.[0] ?? before);
  },
};

export default defineConfig({
  plugins: [developmentDescription],
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
        target: consoleUrl,
        changeOrigin: true,
        headers: token ? { authorization: `Bearer ${token}` } : {},
      },
    },
  },
});
