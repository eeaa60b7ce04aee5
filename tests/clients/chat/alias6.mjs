// Lets the agents package's hooks run on the AI SDK 6: `ai` and `@ai-sdk/react` become its packages.
import { register } from "node:module";

const source = `
import { pathToFileURL } from "node:url";
const root = ${JSON.stringify(process.cwd())} + "/node_modules/ai-sdk-react-3/";
const aliases = new Map([["@ai-sdk/react", root], ["ai", root + "node_modules/ai/"]]);
export async function resolve(specifier, context, next) {
  const base = aliases.get(specifier);
  if (!base) return next(specifier, context);
  return next(specifier === "ai" ? "ai" : "ai-sdk-react-3", {
    ...context,
    parentURL: pathToFileURL(specifier === "ai" ? base + "package.json" : base + "../../x.mjs").href,
  });
}
`;
register(`data:text/javascript,${encodeURIComponent(source)}`);
