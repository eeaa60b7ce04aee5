// The page without a mouse, on a phone, in other scripts, and as assistive technology sees it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import {
  agentUrl, eventually, exchange, field, fill, freshAgent, idle, messages, openBrowser, openPage, panel, post, screenshot, write,
} from "./harness.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const talk = Array.from({ length: 20 }, (_, index) => [
  index % 2 ? "assistant" : "user",
  `Line ${index}: the **tide** came in, the ledger was written, and the keeper lit the lamp before the evening. `.repeat(2),
]);

async function violations(page) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return result.violations.map(({ id, nodes }) => ({ id, nodes: nodes.map((node) => `${node.target.join(" ")}: ${node.failureSummary}`) }));
}

for (const colorScheme of ["light", "dark"]) {
  test(`no accessibility rule is broken, contrast included (${colorScheme})`, async () => {
    const { context, close } = await openBrowser({ colorScheme });
    const agent = freshAgent();
    await fill(agent, talk);
    await post(agent, "compact");
    const page = await openPage(context, agent);
    if (!(await panel(page).isVisible())) await page.getByRole("button", { name: /^Memory/ }).click();
    await exchange(page, "tool use");
    await exchange(page, "markdown");
    await page.locator("section.palimpsest").getByRole("button", { name: /originals? beneath/ }).click();
    await panel(page).getByText("Messages 1 to").click();
    await page.mouse.move(0, 0);
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").fill("ledger");
    await page.getByRole("option").first().waitFor();
    assert.deepEqual(await violations(page), []);
    await close();
  });
}

test("everything is reached with the keyboard alone", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  await fill(agent, talk);
  await post(agent, "compact");
  const page = await openPage(context, agent);
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent?.trim() ?? "");
  const tabTo = async (wanted) => {
    for (let steps = 0; steps < 80; steps += 1) {
      await page.keyboard.press("Tab");
      if (wanted.test(await focused())) {
        const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        assert.notEqual(outline, "none", `the focus on ${wanted} cannot be seen`);
        return;
      }
    }
    assert.fail(`the keyboard never reaches ${wanted}`);
  };
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("Tab");
  assert.match(await focused(), /Skip to the message field/);
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "Message");
  await page.keyboard.type("typed without a mouse");
  await page.keyboard.press("Enter");
  await messages(page, "assistant").getByText("You said: typed without a mouse").waitFor();
  await idle(page);
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(), "Edit message");
  await page.keyboard.press("Escape");
  await tabTo(/^Search all chats/);
  await page.keyboard.press("Enter");
  assert.equal(await focused(), "Search words");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  if (!(await panel(page).isVisible())) {
    await tabTo(/^Memory/);
    await page.keyboard.press("Enter");
  }
  await tabTo(/^Timeline of the conversation$/);
  await page.keyboard.press("Home");
  const timeline = panel(page).getByRole("slider", { name: "Timeline of the conversation" });
  assert.match(await timeline.getAttribute("aria-valuetext"), /^Message 1, You, .*under a summary: Line 0/);
  await page.keyboard.press("Enter");
  await page.locator("article.found").getByText("Line 0").waitFor();
  await close();
});

test("a stop with Escape, and the answer is told to screen readers once", async () => {
  const { context, close } = await openBrowser();
  const page = await openPage(context, freshAgent());
  const announcer = page.locator(".conversation > .visually-hidden[role=status]");
  const told = [];
  await page.exposeFunction("tell", (text) => told.push(text));
  await announcer.evaluate((element) => new MutationObserver(() => globalThis.tell(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true }));
  await write(page, "slow 20");
  await messages(page, "assistant").getByText("word20").waitFor();
  await idle(page);
  await eventually(() => told.some((text) => /^Answer: word1 /.test(text)), "the answer is announced");
  assert.deepEqual(told.length, 2, told.join(" | "));
  await write(page, "slow 300");
  await messages(page, "assistant").nth(1).getByText("word5 ").waitFor();
  await field(page).press("Escape");
  await idle(page);
  await close();
});

test("on a phone nothing is cut off, and chats and memory are drawers", async () => {
  const { context, close } = await openBrowser(phone);
  const agent = freshAgent();
  await fill(agent, [...talk, ["user", `${"unbroken".repeat(60)} and https://example.com/${"path/".repeat(40)}`]]);
  await post(agent, "compact");
  const page = await openPage(context, agent);
  await exchange(page, "markdown");
  const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.equal(await overflow(), 0);
  assert.ok(await page.locator(".page").evaluate((element) => element.scrollWidth <= element.clientWidth + 8), "the text column overflows");
  await screenshot(page, "phone");
  await page.locator("section.palimpsest").scrollIntoViewIfNeeded();
  await screenshot(page, "phone-summary");
  assert.equal(await page.getByRole("navigation", { name: "Chats" }).isVisible(), false);
  await page.getByRole("button", { name: "Chats", exact: true }).tap();
  await page.getByRole("navigation", { name: "Chats" }).getByRole("button", { name: "New chat" }).waitFor();
  await screenshot(page, "phone-chats");
  await page.getByRole("button", { name: "Close chats" }).tap();
  await page.getByRole("button", { name: /^Memory/ }).tap();
  await panel(page).getByRole("meter", { name: "Context used" }).waitFor();
  await screenshot(page, "phone-memory");
  await panel(page).getByRole("slider").locator(".line").first().tap();
  await page.locator("article.found").waitFor();
  assert.equal(await panel(page).isVisible(), false);
  assert.equal(await overflow(), 0);
  await close();
});

test("right-to-left and other scripts keep their own direction", async () => {
  const { context, close } = await openBrowser();
  const page = await openPage(context, freshAgent());
  await exchange(page, "مرحبا بالعالم من السفينة");
  const direction = await messages(page, "user").locator(".typed").evaluate((element) => getComputedStyle(element).direction);
  assert.equal(direction, "rtl");
  await exchange(page, "北海の船は潮とともに来た。".repeat(30));
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  await close();
});

test("the theme can be chosen and is kept", async () => {
  const { context, close } = await openBrowser({ colorScheme: "light" });
  const page = await openPage(context, freshAgent());
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole("button", { name: "Theme: as the system" }).click();
  await page.getByRole("button", { name: "Theme: light" }).click();
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await background(), dark);
  await close();
});

test("a token is asked for where one is needed, and kept in the tab", async () => {
  const { context, problems, close } = await openBrowser();
  const agent = freshAgent();
  const good = "Bearer the right token";
  await context.route(agentUrl(agent, "**"), async (route) => {
    if (route.request().headers().authorization === good) await route.continue();
    else await route.fulfill({ status: 401, json: { error: { code: "unauthenticated", message: "a token is required" } } });
  });
  const page = await context.newPage();
  await page.goto(new URL(`/?agent=${agent}`, agentUrl(agent, "")).toString());
  const dialog = page.getByRole("dialog", { name: "This agent asks for a token" });
  await dialog.getByLabel("Token").fill("a wrong one");
  await dialog.getByRole("button", { name: "Open the agent" }).click();
  await dialog.getByText("is not valid here").waitFor();
  await dialog.getByLabel("Token").fill("the right token");
  const sockets = [];
  page.on("websocket", (socket) => sockets.push(new URL(socket.url()).searchParams.get("token")));
  await dialog.getByRole("button", { name: "Open the agent" }).click();
  await page.getByRole("heading", { name: "A fresh page" }).waitFor();
  await dialog.waitFor({ state: "detached" });
  await eventually(() => sockets.includes("the right token"), "the socket carries the token");
  assert.doesNotMatch(page.url(), /token/);
  problems.splice(0); // The browser reports every refused request.
  await close();
});

test("the page needs nothing from elsewhere and forbids inline script", async () => {
  const { context, close } = await openBrowser();
  const hosts = new Set();
  context.on("request", (request) => hosts.add(new URL(request.url()).host));
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "hello");
  assert.deepEqual([...hosts], [new URL(agentUrl(agent, "")).host]);
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.injected = true";
    document.head.append(script);
    return globalThis.injected === true;
  });
  assert.equal(ran, false);
  await context.close();
  await close().catch((error) => assert.match(String(error.message), /Content Security Policy/));
});
