// Builds the chat page into build/web (or the folder given as first argument).
//   node src/web/build.mjs [folder] [--watch]
import { build, context } from "esbuild";
import { copyFile, mkdir, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const arguments_ = process.argv.slice(2);
const watch = arguments_.includes("--watch");
const folder = arguments_.find((argument) => !argument.startsWith("--"));
const target = folder ? resolve(folder) : join(root, "build/web");
const font = dirname(createRequire(import.meta.url).resolve("@fontsource-variable/literata/package.json"));

const shared = {
  absWorkingDir: root,
  bundle: true,
  minify: !watch,
  target: ["chrome120", "firefox121", "safari17.2"],
  define: { "process.env.NODE_ENV": watch ? '"development"' : '"production"' },
  legalComments: "none",
  logLevel: "info",
};

const application = {
  ...shared,
  entryPoints: { app: join(here, "main.tsx") },
  outdir: target,
  format: "esm",
  splitting: true,
  jsx: "automatic",
  chunkNames: "parts/[name]-[hash]",
  sourcemap: watch ? "linked" : false,
};
const styles = { ...shared, entryPoints: { app: join(here, "styles/app.css") }, outdir: target, external: ["*.woff2"] };
const theme = { ...shared, entryPoints: { theme: join(here, "theme.ts") }, outdir: target, format: "iife" };

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
await Promise.all([
  copyFile(join(here, "index.html"), join(target, "index.html")),
  copyFile(join(here, "icon.svg"), join(target, "icon.svg")),
  copyFile(join(here, "_headers"), join(target, "_headers")),
  copyFile(join(font, "files/literata-latin-wght-normal.woff2"), join(target, "literata.woff2")),
  copyFile(join(font, "files/literata-latin-wght-italic.woff2"), join(target, "literata-italic.woff2")),
]);
if (watch) {
  for (const options of [application, styles, theme]) await (await context(options)).watch();
} else {
  await Promise.all([application, styles, theme].map((options) => build(options)));
}
