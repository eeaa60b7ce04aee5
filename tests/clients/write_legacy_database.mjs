// Writes a database as npm `agents` 0.22 does: `node write_legacy_database.mjs FILE`.
// Prints, as JSON, what that package itself reads back from it.
import { DatabaseSync } from "node:sqlite";
import {
  AgentContextProvider,
  AgentSearchProvider,
  Session,
  SessionManager,
} from "agents-legacy/experimental/memory/session";

const database = new DatabaseSync(process.argv[2]);
const agent = {
  sql(strings, ...values) {
    return database.prepare(strings.join("?")).all(...values);
  },
};

const message = (id, role, text, more = {}) => ({
  id,
  role,
  parts: [{ type: "text", text }],
  ...more,
});

// The default session: a branch, a manual overlay, a message with a tool call.
const plain = Session.create(agent)
  .withContext("memory", { description: "Learned facts", maxTokens: 1100 })
  .withContext("notes", { provider: new AgentSearchProvider(agent) })
  .withCachedPrompt();
for (let i = 0; i < 8; i++) {
  await plain.appendMessage(message(`m${i}`, i % 2 ? "assistant" : "user", `note ${i} copper lantern`));
}
await plain.appendMessage(message("branch", "assistant", "another answer"), "m4");
await plain.appendMessage({
  id: "tool",
  role: "assistant",
  parts: [{
    type: "tool-weather", toolCallId: "c1", state: "output-available",
    input: { city: "Porto" }, output: { degrees: 21 },
  }],
  metadata: { model: "x" },
}, "m7");
await plain.addCompaction("notes two to four", "m2", "m4");
await plain.addCompaction("goes nowhere", "m2", "no such message");
await plain.freezeSystemPrompt();
await plain.replaceContextBlock("memory", "The cat is called Miso.");

// Managed sessions, one with a key that the old scheme could not tell from another.
const manager = SessionManager.create(agent).withContext("memory", {}).withCachedPrompt();
const first = manager.create("First chat", { model: "m", source: "web" });
const second = manager.create("Second chat", { parentSessionId: first.id });
for (const info of [first, second]) {
  await manager.append(info.id, message(`${info.name}-1`, "user", `hello from ${info.name}`));
  await manager.append(info.id, message(`${info.name}-2`, "assistant", "answer 漢字 😀"));
  await manager.getSession(info.id).replaceContextBlock("memory", `memory of ${info.name}`);
}
manager.addUsage(first.id, 10, 20, 0.5);
await manager.addCompaction(second.id, "all of it", "Second chat-1", "Second chat-2");

const expected = {
  default: await plain.getHistory(),
  branch: await plain.getHistory("branch"),
  first: { info: manager.get(first.id), history: await manager.getHistory(first.id) },
  second: { info: manager.get(second.id), history: await manager.getHistory(second.id) },
  memory: database.prepare("SELECT label, content FROM cf_agents_context_blocks ORDER BY label").all(),
};

// What the package could leave behind: a row that does not parse, a deleted parent, an overlay
// that a client sent back, a cycle of parents.
const insert = database.prepare(
  "INSERT INTO assistant_messages (id, session_id, parent_id, role, content, created_at) VALUES (?, ?, ?, ?, ?, ?)"
);
const old = "2025-01-01 00:00:00";
insert.run("broken", "", "m0", "user", "{not json", old);
insert.run("orphan", "", "gone", "user", JSON.stringify(message("orphan", "user", "an orphan")), old);
insert.run("x1", "", "x2", "user", JSON.stringify(message("x1", "user", "in a cycle")), old);
insert.run("x2", "", "x1", "user", JSON.stringify(message("x2", "user", "in a cycle")), old);
const echo = database.prepare("SELECT id FROM assistant_compactions WHERE session_id = '' LIMIT 1").get();
insert.run(
  `compaction_${echo.id}`, "", "m3", "assistant",
  JSON.stringify(message(`compaction_${echo.id}`, "assistant", "an echo")), old
);
database.close();
console.log(JSON.stringify(expected));
