// A browser with the page open in it. One Chromium per test file, a fresh context
// and a fresh agent per test, so that no test sees what another one wrote.
import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.PALIMPSEST_URL;
const folder = process.env.PALIMPSEST_SCREENSHOTS ?? mkdtempSync(join(tmpdir(), "screenshots-"));
const patience = 20_000;

let browser;
let count = 0;

before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.PALIMPSEST_CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
});
after(() => browser?.close());

/** A browser context; anything the page logs as an error fails the test at `close`. */
export async function openBrowser(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(patience);
  const problems = [];
  context.on("page", (page) => {
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error") problems.push(message.text());
    });
  });
  return {
    context,
    problems,
    close: async () => {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}

/** The name of an agent that nobody has talked to. */
export const freshAgent = () => `agent-${process.pid}-${Date.now()}-${(count += 1)}`;

export const agentUrl = (agent, path, query = {}) => {
  const address = new URL(`/agents/assistant/${agent}/${path}`, url);
  for (const [key, value] of Object.entries(query)) address.searchParams.set(key, value);
  return address.toString();
};

/** Opens the page on an agent, and waits until it is connected and can be written to. */
export async function openPage(context, agent, hash = "") {
  const page = await context.newPage();
  await page.goto(new URL(`/?agent=${agent}${hash}`, url).toString());
  await connected(page);
  await field(page).waitFor();
  return page;
}

export const connected = (page) => page.locator(".connection.live").waitFor();
export const field = (page) => page.getByRole("textbox", { name: "Message", exact: true });
export const messages = (page, role) => page.locator(role ? `article.message.${role}` : "article.message");
export const idle = (page) => page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
export const panel = (page) => page.getByRole("complementary", { name: "Memory" });

/** Sends a message with the Enter key. */
export async function write(page, text) {
  await field(page).fill(text);
  await field(page).press("Enter");
}

/** Sends a message and waits for the whole answer. */
export async function exchange(page, text) {
  const newest = () => page.evaluate(() => {
    const last = [...document.querySelectorAll("article.message")].at(-1);
    return last?.classList.contains("assistant") ? last.dataset.messageId : null;
  });
  const before = await newest();
  await write(page, text);
  // Messages are not counted: a compaction may cover old ones meanwhile.
  await eventually(async () => ![null, before].includes(await newest()), `an answer to ${text}`);
  await idle(page);
}

/** Messages stored for a session, oldest first. */
export async function stored(agent, session = "") {
  const response = await fetch(agentUrl(agent, "get-messages", { session }));
  assert.equal(response.status, 200);
  return response.json();
}

/** Puts messages into a session without the page: [[role, text], …]. */
export async function fill(agent, texts, session = "") {
  const body = texts.map(([role, text], index) => ({ id: `m${index}`, role, parts: [{ type: "text", text }] }));
  const response = await fetch(agentUrl(agent, "import", { session }), { method: "POST", body: JSON.stringify(body) });
  assert.equal(response.status, 200, await response.clone().text());
}

export async function post(agent, path, body = {}, session = "") {
  const response = await fetch(agentUrl(agent, path, { session }), { method: "POST", body: JSON.stringify(body) });
  assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
  return response.json();
}

/** Repeats a check until it holds. */
export async function eventually(check, what) {
  const end = Date.now() + patience;
  let last;
  while (Date.now() < end) {
    try {
      const value = await check();
      if (value) return value;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  throw new Error(`Not in time: ${what}`, { cause: last });
}

export const textOf = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");

export const screenshot = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });
