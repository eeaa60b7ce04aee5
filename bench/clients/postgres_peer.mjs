// npm `agents` 0.22 over Postgres: `node postgres_peer.mjs SOCKET_DIRECTORY`. Each line of input
// names a conversation, a number of rounds and perhaps a summary to lay over a range first; each line
// of output holds the times, in ms.
import { createInterface } from "node:readline";
import { PostgresSessionProvider, Session } from "agents-legacy/experimental/memory/session";
import pg from "pg";

const pool = new pg.Pool({ host: process.argv[2], user: "postgres", database: "theirs", max: 1 });

const timed = async (work) => {
  const began = performance.now();
  await work();
  return performance.now() - began;
};

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const { conversation, rounds, text, summary } = JSON.parse(line);
  const session = new Session(new PostgresSessionProvider(pool, conversation));
  if (summary) await session.addCompaction(...summary);
  const times = { append: [], history: [], search: [] };
  for (let round = 0; round < rounds; round++) {
    const message = { id: `new${number++}`, role: "user", parts: [{ type: "text", text }] };
    times.append.push(await timed(() => session.appendMessage(message)));
  }
  for (let round = 0; round < Math.min(rounds, 9); round++) {
    times.history.push(await timed(() => session.getHistory()));
    times.search.push(await timed(() => session.search("lantern 77")));
  }
  console.log(JSON.stringify(times));
}
await pool.end();
