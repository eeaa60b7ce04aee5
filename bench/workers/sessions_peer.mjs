// What the Workers on the npm packages share: operations by request, and counted rows.

/** Replaces `exec` of an object's SQL by one that remembers its cursors, to count what is billed. */
export function countRows(storage) {
  const exec = storage.sql.exec.bind(storage.sql);
  let cursors = null;
  storage.sql.exec = (...statement) => {
    const cursor = exec(...statement);
    cursors?.push(cursor);
    return cursor;
  };
  return {
    start() {
      cursors = [];
    },
    /** Rows since start(). A cursor that was left unread counts as far as it got. */
    stop() {
      const seen = cursors ?? [];
      cursors = null;
      return {
        read: seen.reduce((sum, cursor) => sum + cursor.rowsRead, 0),
        written: seen.reduce((sum, cursor) => sum + cursor.rowsWritten, 0),
      };
    },
  };
}

/** Carries out `?op=`; `session` gives reads and writes in one form. */
export async function answer(request, kept, session, rows) {
  const query = new URL(request.url).searchParams;
  const times = Number(query.get("times") ?? 1);
  const operation = query.get("op") ?? "empty";
  let count = 0;
  if (query.has("rows")) rows.start();
  if (operation === "load") {
    kept.loaded = await request.json();
  } else if (operation === "append" || operation === "fill") {
    const append = operation === "append" ? session.append : session.fill;
    for (const message of kept.loaded) await append(message);
    count = kept.loaded.length;
    kept.loaded = [];
  } else if (operation === "overlay") {
    await session.overlay(query.get("from"), query.get("to"));
  }
  for (let i = 0; i < times; i++) {
    if (operation === "history") count = (await session.history()).length;
    if (operation === "recent") count = (await session.recent(Number(query.get("bytes")))).length;
    if (operation === "search") count = (await session.search(query.get("q"))).length;
  }
  return Response.json({ count, ...rows.stop() });
}

/** Hands a request to the object named by the last segment of its path. */
export const entrypoint = {
  fetch(request, environment) {
    const name = new URL(request.url).pathname.split("/").pop() || "idle";
    return environment.Bench.getByName(name).fetch(request);
  },
};
