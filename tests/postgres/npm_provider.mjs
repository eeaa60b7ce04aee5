// npm `agents` 0.22 over Postgres: `node npm_provider.mjs SOCKET_DIRECTORY write|read`.
// "write" fills the documented tables, "read" only reads; both print, as JSON, what it reads back.
import {
  PostgresContextProvider,
  PostgresSearchProvider,
  PostgresSessionProvider,
  Session,
} from "agents-legacy/experimental/memory/session";
import pg from "pg";

const [directory, command] = process.argv.slice(2);
const pool = new pg.Pool({ host: directory, user: "postgres", database: "postgres", max: 1 });
const message = (id, text, role = "user") => ({ id, role, parts: [{ type: "text", text }] });

async function write() {
  const session = new Session(new PostgresSessionProvider(pool, "s"));
  for (let i = 0; i < 8; i++) {
    await session.appendMessage(message(`m${i}`, `note ${i} copper lantern 漢字 😀`));
  }
  await session.appendMessage(message("branch", "another answer", "assistant"), "m4");
  await session.appendMessage(
    {
      id: "tool",
      role: "assistant",
      parts: [{
        type: "tool-weather", toolCallId: "c1", state: "output-available",
        input: { city: "Porto" }, output: { degrees: 21 },
      }],
      metadata: { model: "x" },
    },
    "m7",
  );
  await session.addCompaction("notes two to four", "m2", "m4");
  await session.addCompaction("goes nowhere", "m2", "no such message");
  await session.updateMessage(message("m6", "note six, corrected"));
  await new PostgresContextProvider(pool, "memory_s").set("The cat is called Miso.");
  const notes = new PostgresSearchProvider(pool);
  notes.init("notes");
  await notes.set("pets", "The cat sleeps on the copper roof.");
}

async function read() {
  const provider = new PostgresSessionProvider(pool, "s");
  return {
    history: await provider.getHistory(),
    branch: await provider.getHistory("branch"),
    leaf: (await provider.getLatestLeaf()).id,
    branches: (await provider.getBranches("m4")).map((one) => one.id),
    length: await provider.getPathLength(),
    compactions: await provider.getCompactions(),
    found: (await provider.searchMessages("copper lantern")).map((one) => one.id),
    memory: await new PostgresContextProvider(pool, "memory_s").get(),
  };
}

if (command === "write") await write();
console.log(JSON.stringify(await read()));
await pool.end();
