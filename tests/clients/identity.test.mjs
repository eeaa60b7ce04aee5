// An unmodified npm AgentClient learns who it talks to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AgentClient } from "agents/client";

const url = new URL(process.env.PALIMPSEST_URL);

test("ready resolves and the agent is identified", async () => {
  const client = new AgentClient({ agent: "Assistant", name: "identity", host: url.host, protocol: "ws" });
  try {
    await client.ready;
    assert.equal(client.identified, true);
    assert.equal(client.name, "identity");
    assert.equal(client.agent, "assistant");
  } finally {
    client.close();
  }
});
