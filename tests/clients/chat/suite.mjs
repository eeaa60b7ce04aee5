// Every row of the protocol's list, with the npm packages as they are.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient } from "agents/client";
import { address, mount, pause, room, stored, storedTexts, textOf, until } from "./harness.mjs";

/** Messages without what only the server adds: times. */
const content = (messages) =>
  JSON.parse(JSON.stringify(messages.map(({ id, role, parts }) => ({ id, role, parts }))));

const client = (options) =>
  new AgentClient({ agent: "Tester", host: address.host, protocol: "ws", ...options });

test("1, 2: the socket opens, the agent is identified, junk is ignored", async () => {
  const name = room();
  const socket = client({ name });
  await socket.ready;
  assert.equal(socket.identified, true);
  assert.equal(socket.name, name);
  for (const junk of ["", "no JSON", "[]", "{}", '{"type":5}', '{"type":"cf_agent_nothing"}'])
    socket.send(junk);
  socket.send(new Uint8Array([1, 2, 3]));
  assert.equal(await socket.call("add", [2, 3]), 5);
  socket.close();
});

test("3: calls are answered, also with errors", async () => {
  const socket = client({ name: room() });
  assert.equal(await socket.stub.add(20, 22), 42);
  await assert.rejects(socket.call("nothing"), /does not exist|nothing/);
  socket.close();
});

test("4: state is set, stored and sent to others", async () => {
  const name = room();
  const seen = [];
  const one = client({ name });
  const two = client({ name, onStateUpdate: (state) => seen.push(state) });
  await Promise.all([one.ready, two.ready]);
  one.setState({ mood: "blue" });
  await until(() => seen.some((state) => state.mood === "blue"));
  const three = client({ name, onStateUpdate: (state) => seen.push({ late: state }) });
  await until(() => seen.some((state) => state.late?.mood === "blue"));
  for (const socket of [one, two, three]) socket.close();
});

test("5, 6, 7, 14: a message is answered, stored and told as ended", async () => {
  const name = room();
  const tab = await mount({ name });
  assert.deepEqual(tab.chat.messages, []);
  await tab.say("hello there");
  await tab.ready();
  assert.deepEqual(tab.texts(), ["user: hello there", "assistant: you said hello there"]);
  assert.ok(tab.statuses.includes("submitted"));
  await until(() => tab.turns.length === 1);
  const [turn] = tab.turns;
  assert.equal(turn.outcome, "completed");
  assert.deepEqual(turn.messageIds, [tab.chat.messages[0].id]);
  const kept = await stored(name);
  assert.deepEqual(
    kept.map(({ id, role }) => ({ id, role })),
    tab.chat.messages.map(({ id, role }) => ({ id, role })),
  );
  const shown = tab.texts();
  tab.unmount(); // the hooks keep one list of first messages for all mounted pages of an address
  const later = await mount({ name });
  assert.deepEqual(later.texts(), shown);
  later.unmount();
});

test("7: a page in front of an idle agent is ready at once", async () => {
  const began = Date.now();
  const tab = await mount({ name: room() });
  await until(() => tab.frames.length === 0 || true);
  await tab.say("quick");
  await tab.ready();
  assert.ok(Date.now() - began < 4000);
  tab.unmount();
});

test("6: reasoning, steps and server tools arrive as parts", async () => {
  const name = room();
  const tab = await mount({ name });
  await tab.say("think now");
  await tab.ready();
  await tab.say("call clock");
  await tab.ready();
  const [, thought, , called] = tab.chat.messages;
  assert.deepEqual(
    thought.parts.map((part) => part.type),
    ["step-start", "reasoning", "text"],
  );
  const part = called.parts.find((item) => item.type === "tool-clock");
  assert.equal(part.state, "output-available");
  assert.equal(part.output, "noon at /tmp/x");
  assert.match(textOf(called), /^after/);
  tab.unmount();
});

test("8: stop ends the turn and keeps the partial text in one message", async () => {
  const name = room();
  const tab = await mount({ name });
  tab.say("slow 200");
  await until(() => tab.chat.messages[1] && textOf(tab.chat.messages[1]).includes("w5"));
  await tab.chat.stop();
  await tab.ready();
  await until(async () => (await stored(name)).length === 2);
  const kept = textOf((await stored(name))[1]);
  assert.match(kept, /^w0 w1 .*w5/);
  assert.ok(!kept.includes("w150"));
  await tab.say("next");
  await tab.ready();
  assert.equal((await storedTexts(name)).at(-1), "assistant: you said next");
  assert.equal((await stored(name)).length, 4);
  await until(() => tab.texts().length === 4);
  assert.deepEqual(tab.texts(), await storedTexts(name));
  tab.unmount();
});

test("9: an error is shown, the partial text stays, the next turn works", async () => {
  const name = room();
  const tab = await mount({ name });
  await tab.say("fail please");
  await until(() => tab.chat.status === "error");
  assert.match(tab.chat.error.message, /the model is tired/);
  assert.deepEqual(await storedTexts(name), ["user: fail please", "assistant: half an answer"]);
  await tab.say("again");
  await tab.ready();
  assert.equal(tab.texts().at(-1), "assistant: you said again");
  tab.unmount();
});

test("10: two tabs show the same, while it streams and after", async () => {
  const name = room();
  const one = await mount({ name });
  const two = await mount({ name });
  one.say("slow 40");
  await until(() => two.chat.messages[1] && textOf(two.chat.messages[1]).includes("w5"));
  assert.equal(two.chat.isServerStreaming ?? two.chat.isStreaming ?? true, true);
  await one.ready();
  await until(() => two.texts()[1] === one.texts()[1]);
  assert.deepEqual(content(two.chat.messages), content(one.chat.messages));
  await two.say("from two");
  await two.ready();
  await until(() => one.texts().length === 4);
  assert.deepEqual(one.texts(), two.texts());
  assert.deepEqual(one.texts(), await storedTexts(name));
  one.unmount();
  two.unmount();
});

test("11: clear, set and regenerate reach the server and the other tab", async () => {
  const name = room();
  const one = await mount({ name });
  const two = await mount({ name });
  await one.say("first");
  await one.ready();
  await one.say("second");
  await one.ready();
  const answer = one.chat.messages[3].id;
  await one.chat.regenerate();
  await one.ready();
  assert.equal(one.chat.messages.length, 4);
  assert.notEqual(one.chat.messages[3].id, answer);
  assert.equal((await stored(name)).length, 4);
  await until(() => two.chat.messages[3]?.id === one.chat.messages[3].id);
  // The first answer is still there, as a sibling.
  const base = `${address.origin}/agents/tester/${name}`;
  const { siblings } = await (await fetch(`${base}/branches?message=${answer}`)).json();
  assert.deepEqual(
    siblings.map((sibling) => sibling.id),
    [answer, one.chat.messages[3].id],
  );
  await fetch(`${base}/branches/switch`, {
    method: "POST",
    body: JSON.stringify({ messageId: answer }),
  });
  await until(() => one.chat.messages[3].id === answer && two.chat.messages[3].id === answer);
  one.chat.setMessages(one.chat.messages.slice(0, 2));
  await until(() => two.chat.messages.length === 2);
  assert.equal((await stored(name)).length, 2);
  one.chat.clearHistory();
  await until(() => two.chat.messages.length === 0);
  await until(async () => (await stored(name)).length === 0);
  one.unmount();
  two.unmount();
});

test("11: an edited message becomes a branch", async () => {
  const name = room();
  const tab = await mount({ name });
  await tab.say("first");
  await tab.ready();
  const edited = tab.chat.messages[0].id;
  await tab.chat.sendMessage({ text: "first, edited", messageId: edited });
  await tab.ready();
  await until(() => tab.texts().length === 2);
  assert.deepEqual(await storedTexts(name), [
    "user: first, edited",
    "assistant: you said first, edited",
  ]);
  await until(async () => tab.chat.messages[0].id === (await stored(name))[0].id);
  const base = `${address.origin}/agents/tester/${name}`;
  const { siblings } = await (await fetch(`${base}/branches?message=${edited}`)).json();
  assert.equal(siblings.length, 2);
  tab.unmount();
});

const locate = {
  locate: { description: "Where", parameters: { type: "object", properties: {} }, execute: true },
};

test("12: a client's tool is called, its result continued", async () => {
  const name = room();
  const calls = [];
  const options = {
    tools: locate,
    onToolCall: ({ toolCall, addToolOutput }) => {
      calls.push(toolCall.toolName);
      addToolOutput({ toolCallId: toolCall.toolCallId, output: { at: "home" } });
    },
  };
  const tab = await mount({ name, options });
  const other = await mount({ name });
  await tab.say("call locate");
  await until(async () => (await storedTexts(name)).at(-1)?.includes('after [{"at"'));
  await tab.ready();
  await until(() => tab.chat.messages.length === 2 && textOf(tab.chat.messages[1]).includes("after"));
  assert.deepEqual(calls, ["locate"]);
  assert.deepEqual(tab.chat.messages, await stored(name));
  await until(() => other.chat.messages.length === 2 && textOf(other.chat.messages[1]).includes("after"));
  assert.deepEqual(other.texts(), tab.texts());
  assert.deepEqual(tab.errors, []);
  await tab.say("next");
  await tab.ready();
  assert.equal((await stored(name)).length, 4);
  tab.unmount();
  other.unmount();
});

for (const approved of [true, false]) {
  test(`12: a call is ${approved ? "approved" : "denied"} and the answer goes on`, async () => {
    const name = room();
    const tab = await mount({ name });
    const other = await mount({ name });
    await tab.say("call remove_file");
    await tab.ready();
    const part = await until(() =>
      tab.chat.messages[1].parts.find((item) => item.state === "approval-requested"),
    );
    tab.chat.addToolApprovalResponse({ id: part.approval.id, approved });
    await until(async () => (await storedTexts(name)).at(-1)?.includes("after"));
    await tab.ready();
    await until(() => tab.chat.messages.length === 2 && textOf(tab.chat.messages[1]).includes("after"));
    const kept = await stored(name);
    const [call] = kept[1].parts.filter((item) => item.toolCallId);
    assert.equal(call.state, approved ? "output-available" : "output-denied");
    if (approved) assert.equal(call.output, "removed /tmp/x");
    assert.deepEqual(tab.chat.messages, kept);
    assert.equal(tab.chat.status, "ready");
    assert.deepEqual(tab.errors, []);
    await until(() => other.chat.messages[1] && textOf(other.chat.messages[1]).includes("after"));
    tab.unmount();
    other.unmount();
  });
}

test("12: two parallel client tools are continued once", async () => {
  const name = room();
  const waiting = [];
  const options = {
    tools: { ...locate, measure: { ...locate.locate, description: "How much" } },
    onToolCall: ({ toolCall, addToolOutput }) => {
      waiting.push(() => addToolOutput({ toolCallId: toolCall.toolCallId, output: toolCall.toolName }));
    },
  };
  const tab = await mount({ name, options });
  await tab.say("call locate measure");
  await until(() => waiting.length === 2);
  waiting[0]();
  await pause(300);
  assert.equal(textOf((await stored(name))[1]), "");
  waiting[1]();
  await until(async () => (await storedTexts(name)).at(-1)?.includes("after"));
  await tab.ready();
  assert.equal((await storedTexts(name)).at(-1), 'assistant: after ["locate", "measure"]');
  assert.equal((await stored(name)).length, 2);
  tab.unmount();
});

test("13: a page opened in the middle of an answer shows it once and whole", async () => {
  const name = room();
  const one = await mount({ name });
  one.say("slow 60");
  await until(() => one.chat.messages[1] && textOf(one.chat.messages[1]).includes("w10"));
  one.unmount();
  const two = await mount({ name });
  await until(() => two.chat.messages[1] && textOf(two.chat.messages[1]).includes("w12"), "resumed");
  await until(() => two.chat.messages[1] && textOf(two.chat.messages[1]).includes("w59"), "the end");
  await two.ready();
  const expected = Array.from({ length: 60 }, (_, number) => `w${number}`).join(" ");
  assert.deepEqual(two.texts(), ["user: slow 60", `assistant: ${expected}`]);
  assert.deepEqual(two.texts(), await storedTexts(name));
  two.unmount();
});

test("13: a lost connection is taken up again by the same page", async () => {
  const name = room();
  const tab = await mount({ name });
  tab.say("slow 100").catch(() => {});
  await until(() => tab.chat.messages[1] && textOf(tab.chat.messages[1]).includes("w10"));
  tab.agent.reconnect();
  await until(async () => (await stored(name)).length === 2, "stored");
  await until(() => tab.texts()[1]?.includes("w99"), "shown");
  await until(async () => JSON.stringify(tab.texts()) === JSON.stringify(await storedTexts(name)));
  tab.unmount();
});

test("15: the list of MCP servers is sent", async () => {
  const tab = await mount({ name: room() });
  await until(() => tab.mcp.length > 0);
  assert.deepEqual(tab.mcp[0].servers, {});
  tab.unmount();
});

async function sendThree(agent) {
  const name = room();
  const tab = await mount({ agent, name });
  tab.say("slow 20");
  await until(() => tab.chat.messages[1] && textOf(tab.chat.messages[1]).includes("w3"));
  tab.say("two");
  await pause(30);
  tab.say("three");
  const kind = agent.toLowerCase();
  const answered = (texts) => texts.at(-1)?.startsWith("assistant") && texts.length > 1;
  let seen = "";
  await until(async () => {
    const texts = await storedTexts(name, { agent: kind });
    const quiet = JSON.stringify(texts) === seen && answered(texts);
    seen = JSON.stringify(texts);
    if (!quiet) await pause(500);
    return quiet;
  });
  await until(() => tab.chat.status !== "streaming" && tab.chat.status !== "submitted");
  await until(
    async () => JSON.stringify(tab.texts()) === JSON.stringify(await storedTexts(name, { agent: kind })),
    "the page shows what is stored",
  );
  tab.unmount();
  return (await storedTexts(name, { agent: kind })).map((text) => text.replace(/ w\d.*/, ""));
}

test("16: queued messages are answered one by one", async () => {
  assert.deepEqual(await sendThree("Tester"), [
    "user: slow 20",
    "assistant:",
    "user: two",
    "assistant: you said two",
    "user: three",
    "assistant: you said three",
  ]);
});

test("16: drop", async () => {
  assert.deepEqual(await sendThree("Dropper"), ["user: slow 20", "assistant:"]);
});

test("16: latest", async () => {
  assert.deepEqual((await sendThree("Latest")).slice(2), [
    "user: two",
    "user: three",
    "assistant: you said three",
  ]);
});

test("16: merge", async () => {
  const texts = await sendThree("Merger");
  assert.deepEqual(texts.slice(2), ["user: twothree", "assistant: you said two\nthree"]);
});

test("17: a turn cut off by a crash is taken up again in its own place", async () => {
  const name = room();
  const tab = await mount({ name });
  tab.say("slow 60").catch(() => {});
  await until(() => tab.chat.messages[1] && textOf(tab.chat.messages[1]).includes("w20"));
  tab.agent.call("crash").catch(() => {});
  const expected = Array.from({ length: 60 }, (_, number) => `w${number}`).join(" ");
  const stored = () => storedTexts(name).catch(() => []); // the crash may cut off this answer, too
  await until(async () => (await stored())[1] === `assistant: ${expected}`, "recovered", 60000);
  await until(() => tab.texts()[1] === `assistant: ${expected}`, "shown", 20000);
  assert.equal(tab.chat.messages.length, 2);
  assert.deepEqual(tab.texts(), await storedTexts(name));
  tab.unmount();
});

test("17: a closed turn tells its error to those who come back", async () => {
  const name = room();
  const tab = await mount({ agent: "Closer", name });
  tab.say("slow 100").catch(() => {});
  await until(() => tab.chat.messages[1] && textOf(tab.chat.messages[1]).includes("w20"));
  tab.agent.call("crash").catch(() => {});
  await until(() => tab.chat.status === "error" && /interrupted/.test(tab.chat.error?.message ?? ""));
  const [, partial] = await storedTexts(name, { agent: "closer" });
  assert.match(partial, /^assistant: w0 w1/);
  await until(() => tab.texts()[1] === partial, "the page shows what was kept");
  tab.unmount();
});

test("18: a refused client is told so and does not try again for ever", async () => {
  const socket = client({ name: room(), query: { token: "bad" } });
  socket.ready.catch(() => {});
  const code = await new Promise((resolve) =>
    socket.addEventListener("close", (event) => resolve(event.code)),
  );
  assert.equal(code, 4401);
  let opened = 0;
  socket.addEventListener("open", () => (opened += 1));
  await pause(500);
  assert.equal(opened, 0);
  socket.close();
});

test("19: readonly connections may not set the state; plain ones get no frames", async () => {
  const name = room();
  const errors = [];
  const reader = client({
    name,
    query: { readonly: "1" },
    onStateUpdateError: (error) => errors.push(error),
  });
  await reader.ready;
  reader.setState({ mine: true });
  await until(() => errors.length === 1);
  assert.match(errors[0], /readonly/);
  const frames = [];
  const plain = new WebSocket(`ws://${address.host}/agents/tester/${name}?plain=1&_pk=p`);
  plain.onmessage = (event) => frames.push(event.data);
  await new Promise((resolve) => (plain.onopen = resolve));
  await pause(300);
  assert.deepEqual(frames, []);
  plain.close();
  reader.close();
});

test("sessions of one agent are apart for the hooks, too", async () => {
  const name = room();
  const one = await mount({ name, query: { session: "a" } });
  const two = await mount({ name, query: { session: "b" } });
  await one.say("in a");
  await one.ready();
  assert.deepEqual(two.chat.messages, []);
  await two.say("in b");
  await two.ready();
  assert.deepEqual(await storedTexts(name, { query: "?session=a" }), [
    "user: in a",
    "assistant: you said in a",
  ]);
  assert.deepEqual(one.texts(), ["user: in a", "assistant: you said in a"]);
  one.unmount();
  two.unmount();
});

test("the AI SDK's default transport works over plain HTTP", async () => {
  const { DefaultChatTransport, readUIMessageStream } = await import("ai");
  const name = room();
  const api = `${address.origin}/agents/tester/${name}/chat`;
  const transport = new DefaultChatTransport({ api });
  const message = { id: "u1", role: "user", parts: [{ type: "text", text: "over HTTP" }] };
  const stream = await transport.sendMessages({
    chatId: "c",
    trigger: "submit-message",
    messages: [message],
    messageId: undefined,
    abortSignal: undefined,
  });
  let last;
  for await (const next of readUIMessageStream({ stream })) last = next;
  assert.equal(textOf(last).trim(), "you said over HTTP");
  const kept = await stored(name);
  assert.equal(kept[1].id, last.id);
  assert.equal(await transport.reconnectToStream({ chatId: "c" }), null);
});
