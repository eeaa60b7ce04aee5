// The unmodified npm AgentClient against an agent in workerd.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient, agentFetch } from "agents/client";

const url = new URL(process.env.PALIMPSEST_URL);
let rooms = 0;

function connect(options = {}) {
  const client = new AgentClient({
    agent: "Counter",
    name: `room-${process.pid}-${++rooms}`,
    host: url.host,
    protocol: "ws",
    ...options,
  });
  client.addEventListener("error", () => {});
  return client;
}

async function until(check, milliseconds = 15_000) {
  const end = Date.now() + milliseconds;
  for (;;) {
    const found = await check();
    if (found) return found;
    assert.ok(Date.now() < end, "it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("ready comes with identity and state", async () => {
  const seen = [];
  const client = connect({ onStateUpdate: (state, source) => seen.push([state, source]) });
  await client.ready;
  assert.equal(client.identified, true);
  assert.equal(client.agent, "counter");
  assert.deepEqual(client.state, { count: 0 });
  assert.deepEqual(seen, [[{ count: 0 }, "server"]]);
  client.close();
});

test("state goes both ways and not back to its originator", async () => {
  const changes = { one: [], two: [] };
  const name = `state-${process.pid}`;
  const one = connect({ name, onStateUpdate: (state, source) => changes.one.push([state.count, source]) });
  const two = connect({ name, onStateUpdate: (state, source) => changes.two.push([state.count, source]) });
  await Promise.all([one.ready, two.ready]);
  one.setState({ count: 5 });
  await until(() => two.state?.count === 5);
  assert.equal(await two.call("add", [2]), 7);
  await until(() => one.state?.count === 7 && two.state?.count === 7);
  assert.deepEqual(changes.one, [[0, "server"], [5, "client"], [7, "server"]]);
  assert.deepEqual(changes.two, [[0, "server"], [5, "server"], [7, "server"]]);
  one.close();
  two.close();
});

test("a refused state is reported and the client is given the one that stands", async () => {
  const errors = [];
  const client = connect({ onStateUpdateError: (error) => errors.push(error) });
  await client.ready;
  client.setState({ count: -1 });
  await until(() => errors.length === 1);
  assert.deepEqual(errors, ["State update rejected"]);
  await until(() => client.state.count === 0);
  client.close();
});

test("a readonly client may read and call, not write", async () => {
  const errors = [];
  const client = connect({ query: { readonly: "1" }, onStateUpdateError: (error) => errors.push(error) });
  await client.ready;
  client.setState({ count: 9 });
  await until(() => errors.length === 1);
  assert.deepEqual(errors, ["Connection is readonly"]);
  await assert.rejects(client.call("add", [1]), /Connection is readonly/);
  assert.equal(await client.call("nothing"), null);
  client.close();
});

test("calls and the stub return results", async () => {
  const client = connect();
  assert.equal(await client.call("add", [3]), 3);
  assert.equal(await client.stub.add(4), 7);
  client.close();
});

test("errors of calls are clear and leak nothing", async () => {
  const client = connect();
  await assert.rejects(client.call("missing"), { message: "Method missing does not exist" });
  await assert.rejects(client.call("hidden"), { message: "Method hidden is not callable" });
  await assert.rejects(client.call("destroy"), { message: "Method destroy is not callable" });
  await assert.rejects(client.call("__init__"), { message: "Method __init__ does not exist" });
  await assert.rejects(client.call("fails"), { message: "it failed on purpose" });
  await assert.rejects(client.call("add", ["x"]), /add\(\): amount: Input should be a valid integer/);
  await assert.rejects(client.call("add", []), /add\(\) needs the arguments: amount/);
  client.close();
});

test("a call that takes too long is given up by the client", async () => {
  const client = connect();
  await client.ready;
  await assert.rejects(client.call("slow", [], { timeout: 300 }), /timed out after 300ms/);
  client.close();
});

test("streaming calls deliver chunks, the end, and errors", async () => {
  const client = connect();
  const chunks = [];
  let ended = false;
  await client.call("count_to", [3], {
    stream: { onChunk: (chunk) => chunks.push(chunk), onDone: () => { ended = true; } },
  });
  assert.deepEqual([chunks, ended], [[1, 2, 3], true]);
  const errors = [];
  await assert.rejects(
    client.call("count_to", [5, 3], {
      stream: { onChunk: (chunk) => chunks.push(chunk), onError: (error) => errors.push(error) },
    }),
    /no 3/,
  );
  assert.deepEqual(chunks, [1, 2, 3, 1, 2]);
  assert.equal(errors.length, 1);
  client.close();
});

test("after a dropped connection the client returns with the same id", async () => {
  const client = connect();
  await client.ready;
  const before = await client.call("connection_ids");
  const closes = [];
  client.addEventListener("close", (event) => closes.push(event.code));
  client.send("drop me");
  await until(() => closes.length === 1);
  assert.equal(closes[0], 1012);
  assert.deepEqual(await client.call("connection_ids", [], { timeout: 20_000 }), before);
  await client.ready;
  client.close();
});

test("terminal close codes stop the client at once", async () => {
  for (const [token, code, reason] of [["bad", 4401, "bad token"], ["policy", 1008, "against policy"]]) {
    const failures = [];
    const client = connect({ query: { token }, onConnectionError: (error) => failures.push(error) });
    const began = Date.now();
    await until(() => client.connectionError, 5000);
    assert.ok(Date.now() - began < 3000, "it took too long to notice");
    assert.equal(client.connectionError.code, code);
    assert.equal(client.connectionError.reason, reason);
    assert.equal(failures.length, 1);
    client.close();
  }
});

test("an agent without identity still answers calls", async () => {
  const client = connect({ agent: "Anonymous" });
  assert.equal(await client.call("add", [1]), 1);
  assert.equal(client.identified, false);
  client.close();
});

test("messages of the user's own reach everybody", async () => {
  const name = `messages-${process.pid}`;
  const [one, two] = [connect({ name }), connect({ name })];
  await Promise.all([one.ready, two.ready]);
  const seen = [];
  two.addEventListener("message", (event) => { if (event.data === "hello") seen.push(event.data); });
  one.send("hello");
  await until(() => seen.length === 1);
  one.close();
  two.close();
});

test("agentFetch reaches the agent over HTTP", async () => {
  const answer = await agentFetch({ agent: "Counter", name: "http", host: url.host, protocol: "http", path: "status" });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("access-control-allow-origin"), "*");
  const status = await answer.json();
  assert.deepEqual([status.agent, status.name], ["counter", "http"]);
});
