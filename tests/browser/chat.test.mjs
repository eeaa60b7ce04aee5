// The conversation itself: sending, streaming, stopping, coming back, branches, approvals.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  connected, eventually, exchange, field, freshAgent, idle, messages, openBrowser, openPage, screenshot, stored, textOf, write,
} from "./harness.mjs";

const slowText = (count) => Array.from({ length: count }, (_, index) => `word${index + 1}`).join(" ");

test("a message is answered, and both survive a reload", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "remember the heron");
  await messages(page, "assistant").getByText("You said: remember the heron").waitFor();
  await page.reload();
  await messages(page, "assistant").getByText("You said: remember the heron").waitFor();
  assert.equal(await messages(page).count(), 2);
  assert.match(await messages(page, "assistant").locator(".byline").innerText(), /obedient/);
  await close();
});

test("Shift+Enter makes a new line, an input method's Enter sends nothing, and the draft is kept", async () => {
  const { context, close } = await openBrowser();
  const page = await openPage(context, freshAgent());
  await field(page).pressSequentially("one");
  await field(page).press("Shift+Enter");
  await field(page).pressSequentially("two");
  await field(page).dispatchEvent("keydown", { key: "Enter", keyCode: 229, isComposing: true });
  assert.equal(await field(page).inputValue(), "one\ntwo");
  assert.equal(await messages(page).count(), 0);
  await page.reload();
  await connected(page);
  assert.equal(await field(page).inputValue(), "one\ntwo");
  await field(page).press("Enter");
  await messages(page, "assistant").waitFor();
  assert.equal(await messages(page, "user").locator(".typed").innerText(), "one\ntwo");
  assert.equal(await field(page).inputValue(), "");
  await close();
});

test("a reload in mid-stream shows the same answer once and whole", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await write(page, "slow 120");
  await page.getByText("word20 ").waitFor();
  await screenshot(page, "streaming");
  await page.reload();
  await page.getByText("word30 ").waitFor();
  assert.equal(await messages(page, "assistant").count(), 1);
  await page.getByText("word120").waitFor();
  await idle(page);
  const shown = (await messages(page, "assistant").locator(".body").innerText()).trim().replace(/\s+/g, " ");
  assert.equal(shown, slowText(120));
  assert.equal(await messages(page, "assistant").count(), 1);
  const [, answer] = await stored(agent);
  assert.equal(textOf(answer).trim(), slowText(120));
  await close();
});

test("two tabs stay in step", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const one = await openPage(context, agent);
  const two = await openPage(context, agent);
  await write(one, "slow 40");
  await messages(two, "user").getByText("slow 40").waitFor();
  await two.getByText("word15 ").waitFor();
  await idle(one);
  await idle(two);
  await exchange(two, "from the second tab");
  await messages(one, "assistant").getByText("You said: from the second tab").waitFor();
  for (const page of [one, two]) {
    await eventually(async () => (await messages(page).count()) === 4, "four messages");
    assert.match(await messages(page, "assistant").first().locator(".body").innerText(), /^word1 .* word40\s*$/s);
  }
  const ids = async (page) => messages(page).evaluateAll((all) => all.map((each) => each.dataset.messageId));
  assert.deepEqual(await ids(one), await ids(two));
  assert.deepEqual(await ids(one), (await stored(agent)).map((message) => message.id));
  await close();
});

test("Stop keeps the partial answer", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await write(page, "slow 400");
  await page.getByText("word10 ").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await idle(page);
  const kept = await eventually(async () => (await stored(agent))[1], "the partial answer is stored");
  assert.match(textOf(kept), /^word1 word2 /);
  assert.doesNotMatch(textOf(kept), /word400/);
  await page.reload();
  await page.getByText("word10 ").waitFor();
  assert.equal(await messages(page).count(), 2);
  await exchange(page, "and on");
  assert.equal(await messages(page).count(), 4);
  await close();
});

test("an answer is given again as another version, and one moves between them", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "say it");
  const first = await messages(page, "assistant").getAttribute("data-message-id");
  await page.getByRole("button", { name: "Answer again" }).click();
  await page.getByLabel("Version 2 of 2").waitFor();
  const second = await messages(page, "assistant").getAttribute("data-message-id");
  assert.notEqual(second, first);
  await screenshot(page, "versions");
  await page.getByRole("button", { name: "Previous version" }).click();
  await page.getByLabel("Version 1 of 2").waitFor();
  assert.equal(await messages(page, "assistant").getAttribute("data-message-id"), first);
  assert.equal((await stored(agent))[1].id, first);
  await page.reload();
  await page.getByLabel("Version 1 of 2").waitFor();
  await close();
});

test("an edited message begins a branch, and the old one stays", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await exchange(page, "the first question");
  await exchange(page, "the second question");
  for (const [old, text] of [["the second question", "another second question"], ["the first question", "another first question"]]) {
    const message = messages(page, "user").filter({ hasText: old });
    await message.hover();
    await message.getByRole("button", { name: "Edit and send again" }).click();
    await page.getByLabel("Edit message").fill(text);
    await page.getByLabel("Edit message").press("Enter");
    await messages(page, "assistant").getByText(`You said: ${text}`).waitFor();
    await idle(page);
    await page.getByLabel("Version 2 of 2").first().waitFor();
  }
  assert.deepEqual((await stored(agent)).map(textOf), ["another first question", "You said: another first question"]);
  await page.getByRole("button", { name: "Previous version" }).click();
  await messages(page, "user").getByText("another second question").waitFor();
  assert.equal(await messages(page).count(), 4);
  await close();
});

test("what is sent while an answer streams waits for its end", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await write(page, "slow 40");
  await page.getByText("word5 ").waitFor();
  await write(page, "then this");
  await write(page, "not this");
  const waiting = page.getByRole("list", { name: "Waiting to be sent" });
  assert.equal(await waiting.getByRole("listitem").count(), 2);
  await waiting.getByRole("button", { name: "Take back into the editor" }).nth(1).click();
  assert.equal(await field(page).inputValue(), "not this");
  await messages(page, "assistant").getByText("You said: then this").waitFor();
  assert.deepEqual((await stored(agent)).map((message) => message.role), ["user", "assistant", "user", "assistant"]);
  await close();
});

test("a tool that needs approval is asked for and then runs, or does not", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await write(page, "approve the letter");
  const asked = page.getByRole("group", { name: "Approval for send letter" });
  await asked.waitFor();
  await screenshot(page, "approval");
  await asked.getByRole("button", { name: "Approve" }).click();
  await messages(page, "assistant").getByText("The tool was used.").waitFor();
  await idle(page);
  assert.equal(await messages(page, "assistant").count(), 1);
  await write(page, "approve another letter");
  await asked.getByRole("button", { name: "Deny" }).click();
  await messages(page, "assistant").getByText("The tool was not used.").waitFor();
  await idle(page);
  const states = (await stored(agent)).flatMap((message) => message.parts).filter((part) => part.type === "tool-send_letter").map((part) => part.state);
  assert.deepEqual(states, ["output-available", "output-denied"]);
  await page.reload();
  await messages(page, "assistant").getByText("The tool was not used.").waitFor();
  assert.equal(await messages(page).count(), 4);
  await close();
});

test("a failed answer says so in plain words, keeps its part, and can be tried again", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await write(page, "fail please");
  await page.getByRole("alert").getByText("The model is resting. Ask it again in a moment.").waitFor();
  await messages(page, "assistant").getByText("Half of an answer").waitFor();
  await screenshot(page, "failure");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("alert").getByText("The model is resting").waitFor();
  await page.getByLabel("Version 2 of 2").waitFor();
  await page.reload();
  await page.getByRole("alert").getByText("The model is resting").waitFor();
  assert.equal(await messages(page, "assistant").getByText("Half of an answer").count(), 1);
  await close();
});

test("an answer that failed before a word still says so when the page is loaded anew", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  await write(page, "refuse please");
  await page.getByRole("alert").getByText("The model is resting").waitFor();
  for (let time = 0; time < 2; time += 1) {
    await page.reload();
    await page.getByRole("alert").getByText("The model is resting").waitFor();
    assert.equal(await messages(page).count(), 1, "the question alone");
  }
  await exchange(page, "hello");
  await page.reload();
  await messages(page, "assistant").getByText("You said: hello").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  await close();
});

test("a lost connection is shown, and the same answer goes on when it is back", async () => {
  const { context, problems, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  let gate;
  await page.routeWebSocket(/\/agents\//, (socket) => {
    const server = socket.connectToServer();
    gate = () => {
      void server.close({ code: 1011 });
      void socket.close({ code: 1011 });
    };
  });
  await page.reload();
  await connected(page);
  await write(page, "slow 80");
  await page.getByText("word10 ").waitFor();
  gate();
  await page.getByText("word80").waitFor();
  await idle(page);
  assert.match(await messages(page, "assistant").locator(".body").innerText(), /^word1 .* word80\s*$/s);
  assert.equal((await messages(page, "assistant").locator(".body").innerText()).match(/word10 /g).length, 1);
  problems.splice(0); // The browser reports the broken socket.
  await close();
});

test("Markdown is drawn and nothing in it runs", async () => {
  const { context, close } = await openBrowser();
  const requests = [];
  const page = await openPage(context, freshAgent());
  page.on("request", (request) => requests.push(request.url()));
  await exchange(page, "markdown");
  const answer = messages(page, "assistant");
  assert.equal(await answer.getByRole("table").getByRole("cell").count(), 6);
  await answer.locator("pre .token-kwd").first().waitFor();
  await answer.locator("math").waitFor();
  assert.equal(await answer.getByRole("link", { name: "the archive" }).getAttribute("rel"), "noopener noreferrer");
  assert.equal(await answer.getByText("a trap").evaluate((element) => element.closest("a")), null);
  await answer.getByText('<img src=x onerror="document.title=').waitFor();
  assert.equal(await answer.locator("img").count(), 0);
  assert.doesNotMatch(await page.title(), /broken/);
  assert.deepEqual(requests.filter((address) => new URL(address).hostname === "example.com"), []);
  await screenshot(page, "markdown");
  await close();
});

test("files are attached, shown and kept; one that is too large is refused with its size", async () => {
  const { context, close } = await openBrowser();
  const agent = freshAgent();
  const page = await openPage(context, agent);
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgaPj/HwAEgQKA1sJpOwAAAABJRU5ErkJggg==", "base64");
  await page.locator("input[type=file]").setInputFiles([
    { name: "pixel.png", mimeType: "image/png", buffer: pixel },
    { name: "large.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(11_000_000) },
  ]);
  await page.getByText(/large\.bin has 10\.5 MB; the agent accepts up to/).waitFor();
  await page.getByRole("list", { name: "Attached files" }).getByText("pixel.png").waitFor();
  await write(page, "look at this");
  await messages(page, "user").getByRole("img", { name: "pixel.png" }).waitFor();
  await idle(page);
  await page.reload();
  const image = messages(page, "user").getByRole("img", { name: "pixel.png" });
  await image.waitFor();
  assert.equal(await image.evaluate((element) => element.naturalWidth), 1);
  await close();
});

test("the view follows the answer until the reader scrolls up", async () => {
  const { context, close } = await openBrowser({ viewport: { width: 900, height: 420 } });
  const page = await openPage(context, freshAgent());
  await write(page, "slow 500");
  const gap = () => page.locator(".scroll-area").evaluate((area) => area.scrollHeight - area.scrollTop - area.clientHeight);
  await page.getByText("word250 ").waitFor();
  await eventually(async () => (await gap()) < 4, "the view is at the end");
  await page.locator(".scroll-area").hover();
  await page.mouse.wheel(0, -200);
  const jump = page.getByRole("button", { name: "Follow the answer" });
  await jump.waitFor();
  await page.getByText("word400 ").waitFor();
  assert.ok((await gap()) > 100);
  await jump.click();
  await page.getByText("word450 ").waitFor();
  await eventually(async () => (await gap()) < 4, "the view follows again");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await close();
});
