// Counts what Cloudflare bills: rows read and written by every statement of an object.

/** Replace `exec` of the object's SQL by one that remembers its cursors. */
export function countRows(storage) {
  const sql = storage.sql;
  const exec = sql.exec.bind(sql);
  let cursors = [];
  sql.exec = (...statement) => {
    const cursor = exec(...statement);
    cursors.push(cursor);
    return cursor;
  };
  return {
    start() {
      cursors = [];
    },
    /** Rows since start(). Cursors that their user left unread are counted as far as they got. */
    sum() {
      let read = 0;
      let written = 0;
      for (const cursor of cursors) {
        read += cursor.rowsRead;
        written += cursor.rowsWritten;
      }
      cursors = [];
      return { read, written };
    },
  };
}

/** The operations that both peers answer; `session` gives reads and writes in one form. */
export async function answer(request, state, session, rows) {
  const query = new URL(request.url).searchParams;
  const times = Number(query.get("times") ?? 1);
  const operation = query.get("op") ?? "empty";
  let count = 0;
  rows.start();
  if (operation === "load") {
    state.loaded = await request.json();
  } else if (operation === "append" || operation === "fill") {
    const append = operation === "append" ? session.append : session.fill;
    for (const message of state.loaded) await append(message);
    count = state.loaded.length;
    state.loaded = [];
  } else if (operation === "overlay") {
    await session.overlay(query.get("from"), query.get("to"));
  }
  for (let i = 0; i < times; i++) {
    if (operation === "history" || operation === "context") count = (await session.history()).length;
    if (operation === "recent") count = (await session.recent(Number(query.get("bytes")))).length;
    if (operation === "search") count = (await session.search(query.get("q"))).length;
  }
  return Response.json({ count, ...rows.sum() });
}

/** Hands a request to the object named by the last segment of its path. */
export const entrypoint = {
  fetch(request, environment) {
    const name = new URL(request.url).pathname.split("/").pop() || "idle";
    return environment.Bench.getByName(name).fetch(request);
  },
};
