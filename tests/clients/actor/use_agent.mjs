// The unmodified npm hook useAgent in React and jsdom against an agent in workerd.
import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";

const url = new URL(process.env.PALIMPSEST_URL);
const dom = new JSDOM("<!doctype html><div id=root></div>", { url: `${url.origin}/`, pretendToBeVisual: true });
globalThis.window = dom.window;
globalThis.document = dom.window.document;
globalThis.IS_REACT_ACT_ENVIRONMENT = true;

const { act, createElement } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useAgent } = await import("agents/react");

async function until(check, milliseconds = 15_000) {
  const end = Date.now() + milliseconds;
  for (;;) {
    let found;
    await act(async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      found = await check();
    });
    if (found) return found;
    assert.ok(Date.now() < end, "it did not happen");
  }
}

test("useAgent: identity, state both ways, stub calls, stream", async () => {
  const seen = { states: [], identities: [] };
  let agent;
  function Page() {
    agent = useAgent({
      agent: "Counter",
      name: "hooked",
      host: url.host,
      protocol: "ws",
      onStateUpdate: (state, source) => seen.states.push([state.count, source]),
      onIdentity: (name, kind) => seen.identities.push([name, kind]),
    });
    return createElement("p", null, `count ${agent.state?.count ?? "?"} ${agent.identified}`);
  }
  const container = document.getElementById("root");
  const root = createRoot(container);
  await act(async () => root.render(createElement(Page)));
  await until(() => container.textContent === "count 0 true");
  assert.deepEqual(seen.identities, [["hooked", "counter"]]);
  assert.deepEqual([agent.name, agent.agent], ["hooked", "counter"]);
  await act(async () => agent.setState({ count: 4 }));
  assert.equal(container.textContent, "count 4 true");
  await act(async () => assert.equal(await agent.stub.add(3), 7));
  await until(() => container.textContent === "count 7 true");
  assert.deepEqual(seen.states, [[0, "server"], [4, "client"], [7, "server"]]);
  const chunks = [];
  await act(async () => agent.call("count_to", [2], { onChunk: (chunk) => chunks.push(chunk) }));
  assert.deepEqual(chunks, [1, 2]);
  await act(async () => assert.rejects(agent.stub.hidden(), /not callable/));
  await act(async () => root.unmount());
});
