// What the agent remembers, as the page shows it: tokens, layers, summaries, search, chats.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  eventually, exchange, field, fill, freshAgent, idle, messages, openBrowser, openPage, panel, post, screenshot, write,
} from "./harness.mjs";

const ledger = Array.from({ length: 24 }, (_, index) => [
  index % 2 ? "assistant" : "user",
  index === 3
    ? "The lighthouse keeper buys the oil in October and pays with the harbour's silver."
    : `Entry ${index} of the harbour ledger: the ship came in with the tide, was unloaded before noon, and paid its dues in full.`,
]);

const openMemory = async (page) => {
  if (!(await panel(page).isVisible())) await page.getByRole("button", { name: /^Memory/ }).click();
};

test("compaction appears in the conversation and in the timeline, and the originals can be read", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  await fill(agent, ledger);
  const page = await openPage(context, agent);
  const other = await openPage(context, agent);
  await openMemory(page);
  assert.equal(await page.locator(".palimpsest").count(), 0);
  await panel(page).getByRole("button", { name: "Compact now" }).click();
  const sheet = page.locator("section.palimpsest");
  await sheet.waitFor();
  await other.locator("section.palimpsest").waitFor();
  assert.match(await sheet.getByRole("heading", { level: 2 }).first().innerText(), /^Summary over \d+ messages$/);
  await panel(page).locator(".stratum.covered").waitFor();
  const covered = await panel(page).locator(".stratum.covered .line").count();
  assert.ok(covered >= 8, `${covered} covered lines`);
  assert.equal(await messages(page).count(), ledger.length - covered);
  await screenshot(page, "compacted-light");
  await sheet.getByRole("button", { name: `Read the ${covered} originals beneath` }).click();
  assert.equal(await messages(page).count(), ledger.length);
  await sheet.locator(".originals").getByText("Entry 0 of the harbour ledger").waitFor();
  await screenshot(page, "originals-light");
  await sheet.getByRole("button", { name: "Lay the summary back" }).click();
  assert.equal(await messages(page).count(), ledger.length - covered);
  await page.emulateMedia({ colorScheme: "dark" });
  await sheet.scrollIntoViewIfNeeded();
  await screenshot(page, "compacted-dark");
  await panel(page).getByText("Messages 1 to").click();
  await panel(page).getByRole("button", { name: "Take this summary off" }).click();
  await sheet.waitFor({ state: "detached" });
  assert.equal(await messages(page).count(), ledger.length);
  await close();
});

test("of a long conversation the layers show the end, under its numbers", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  await fill(agent, Array.from({ length: 2030 }, (_, index) => [index % 2 ? "assistant" : "user", `Line ${index + 1} of a long ledger.`]));
  const page = await openPage(context, agent);
  await openMemory(page);
  const layers = panel(page).getByRole("slider", { name: "Timeline of the conversation" });
  await layers.focus();
  await page.keyboard.press("Home");
  await panel(page).getByText("2,030 messages kept").waitFor();
  await eventually(
    async () => /^Message 31 .*under a summary/.test(await layers.getAttribute("aria-valuetext")),
    "the first line stands for message 31, under the summary that the agent made by itself",
  );
  await panel(page).getByText(/^Messages 1 to \d+$/).first().waitFor();
  await close();
});

test("a conversation that outgrows its budget is compacted by itself", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  await fill(agent, ledger);
  const page = await openPage(context, agent);
  await openMemory(page);
  const used = async () => Number(await panel(page).getByRole("meter", { name: "Context used" }).getAttribute("aria-valuenow"));
  for (let turn = 0; turn < 6 && (await page.locator("section.palimpsest").count()) === 0; turn += 1) {
    await write(page, `Turn ${turn}: ${"the tide and the oil and the silver of the harbour. ".repeat(8)}`);
    await messages(page, "assistant").getByText(`You said: Turn ${turn}:`).waitFor();
    await idle(page);
  }
  await page.locator("section.palimpsest").waitFor();
  await eventually(async () => (await used()) < 1275, "the meter is below the threshold");
  await exchange(page, "still here?");
  await messages(page, "assistant").getByText("You said: still here?").waitFor();
  await close();
});

test("/compact is a command, and is not stored as a message", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  await fill(agent, ledger);
  const page = await openPage(context, agent);
  await write(page, "/compact");
  await page.locator("section.palimpsest").waitFor();
  await page.getByText(/Summarized: .* tokens/).waitFor();
  assert.equal(await messages(page, "user").getByText("/compact").count(), 0);
  await close();
});

test("search finds a message under a summary in another chat, marks it and goes to it", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  await fill(agent, ledger);
  await post(agent, "compact");
  const made = await post(agent, "sessions", { name: "Elsewhere" });
  const page = await openPage(context, agent, `#/${made.id}`);
  await page.keyboard.press("Control+k");
  const search = page.getByRole("combobox", { name: "Search words" });
  await search.fill("lighthouse oil October");
  const hit = page.getByRole("option").first();
  await hit.waitFor();
  assert.deepEqual(await hit.locator("mark").allInnerTexts(), ["lighthouse", "oil", "October"]);
  await screenshot(page, "search");
  await search.press("Enter");
  const found = page.locator("article.found");
  await found.getByText("The lighthouse keeper buys the oil").waitFor();
  assert.equal(await found.evaluate((element) => element.closest(".originals") !== null), true);
  await eventually(
    async () => found.evaluate((element) => {
      const box = element.getBoundingClientRect();
      return box.top >= 0 && box.bottom <= innerHeight;
    }),
    "the message is in view",
  );
  await screenshot(page, "found");
  assert.match(page.url(), /#\/\?m=m3$/);
  await page.reload();
  await page.locator("article.found").getByText("The lighthouse keeper buys the oil").waitFor();
  await close();
});

test("a hit on another version offers to show that version", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "the walrus question");
  const message = messages(page, "user");
  await message.hover();
  await message.getByRole("button", { name: "Edit and send again" }).click();
  await page.getByLabel("Edit message").fill("the seal question");
  await page.getByLabel("Edit message").press("Enter");
  await messages(page, "assistant").getByText("You said: the seal question").waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search words" }).fill("walrus");
  await page.getByRole("option").first().click();
  await page.getByRole("button", { name: "Show that version" }).click();
  await messages(page, "user").getByText("the walrus question").waitFor();
  await close();
});

test("chats are made, renamed, forked, deleted and brought back", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  const chats = page.getByRole("navigation", { name: "Chats" });
  const menu = async (title, item) => {
    const actions = page.getByLabel(`Actions for ${title}`, { exact: true });
    const row = chats.getByRole("listitem").filter({ has: actions });
    await row.hover();
    await row.locator("summary").click();
    await row.getByRole("button", { name: item }).click();
  };
  await exchange(page, "first words");
  await chats.getByRole("link", { name: /first words/ }).waitFor();
  await chats.getByRole("button", { name: "New chat" }).click();
  await page.getByRole("heading", { name: "A fresh page" }).waitFor();
  await exchange(page, "second words");
  await chats.getByRole("link", { name: /second words/ }).waitFor();
  assert.match(await chats.getByRole("listitem").first().innerText(), /second words/);
  await menu("second words", "Rename");
  await chats.getByLabel("Name of the chat").fill("The second");
  await chats.getByLabel("Name of the chat").press("Enter");
  await page.getByRole("heading", { name: "The second", level: 1 }).waitFor();
  await messages(page, "user").hover();
  await messages(page, "user").getByRole("button", { name: "Fork a new chat from here" }).click();
  await page.getByRole("heading", { name: /fork/, level: 1 }).waitFor();
  await eventually(async () => (await messages(page).count()) === 1, "only the forked message");
  await menu("The second", "Delete");
  await eventually(async () => (await chats.getByText("The second", { exact: true }).count()) === 0, "the chat is gone");
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByRole("heading", { name: "The second", level: 1, exact: true }).waitFor();
  await eventually(async () => (await messages(page).count()) === 2, "both messages are back");
  await screenshot(page, "chats");
  await close();
});

test("switching chats shows each one's own messages", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "alpha");
  const made = await post(agent, "sessions", { name: "Beta" });
  await fill(agent, [["user", "beta question"], ["assistant", "beta answer"]], made.id);
  const chats = page.getByRole("navigation", { name: "Chats" });
  for (let round = 0; round < 3; round += 1) {
    await chats.getByRole("link", { name: /Beta/ }).click();
    await messages(page).getByText("beta answer").waitFor();
    assert.equal(await messages(page).count(), 2);
    await chats.getByRole("link", { name: /alpha/ }).click();
    await messages(page).getByText("You said: alpha").waitFor();
    assert.equal(await messages(page).count(), 2);
  }
  await close();
});

test("a chat written to elsewhere is marked as unread", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "here");
  const made = await post(agent, "sessions", { name: "Over there" });
  const chats = page.getByRole("navigation", { name: "Chats" });
  await chats.getByRole("link", { name: /Over there/ }).waitFor();
  await post(agent, "chat", { message: "hello from elsewhere" }, made.id).catch(() => undefined);
  await chats.getByRole("link", { name: /Unread\. Over there/ }).waitFor();
  await chats.getByRole("link", { name: /Over there/ }).click();
  await messages(page, "assistant").getByText("You said: hello from elsewhere").waitFor();
  await eventually(async () => (await chats.getByText("Unread.").count()) === 0, "the mark is gone");
  await close();
});

test("context blocks show their use and can be written", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await openMemory(page);
  await panel(page).getByText("memory", { exact: true }).click();
  await panel(page).getByRole("button", { name: "Edit memory" }).click();
  await panel(page).getByLabel("Content of memory").fill("The keeper is called Ines.");
  await panel(page).getByRole("button", { name: "Save" }).click();
  await panel(page).getByText("The keeper is called Ines.").waitFor();
  const used = Number(await panel(page).getByRole("meter", { name: "Usage of memory" }).getAttribute("aria-valuenow"));
  assert.ok(used > 0);
  await close();
});

test("the conversation can be exported", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "keep this");
  const row = page.getByRole("navigation", { name: "Chats" }).getByRole("listitem").first();
  await row.hover();
  await row.locator("summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), row.getByRole("link", { name: "Export" }).click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  const lines = Buffer.concat(chunks).toString().trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(lines[0].type, "session");
  assert.deepEqual(lines.filter((line) => line.type === "message").map((line) => line.message.role), ["user", "assistant"]);
  assert.equal(await field(page).isVisible(), true);
  await close();
});

test("the agent's own work is listed, and offers no way to cancel what it needs", async () => {
  const { context, close } = await openBrowser();
  const page = await openPage(context, freshAgent());
  await exchange(page, "good morning");
  await openMemory(page);
  const schedules = panel(page).getByRole("region", { name: "Schedules" });
  await schedules.getByText("Clear finished streams").waitFor();
  assert.equal(await schedules.getByRole("button", { name: /^Cancel/ }).count(), 0);
  await close();
});
