// The `Session` of npm agents 0.22, wired as its documentation does it: `Session.create(agent)`.
import { DurableObject } from "cloudflare:workers";
import { Session } from "agents-legacy/experimental/memory/session";
import { answer, countRows, entrypoint } from "./sessions_peer.mjs";

export class Bench extends DurableObject {
  rows = countRows(this.ctx.storage);
  kept = { loaded: [] };
  // What Session takes of an agent: SQL, and broadcast, with which each append estimates tokens.
  session = Session.create(this);
  // Without broadcast there is no estimate: only to fill a conversation in bearable time.
  bare = Session.create({ sql: (strings, ...values) => this.sql(strings, ...values) });

  sql(strings, ...values) {
    return [...this.ctx.storage.sql.exec(strings.join("?"), ...values)];
  }

  broadcast() {}

  fetch(request) {
    const session = this.session;
    return answer(request, this.kept, {
      append: (message) => session.appendMessage(message),
      fill: (message) => this.bare.appendMessage(message),
      history: () => session.getHistory(),
      recent: async (bytes) => (await session.getRecentHistory(bytes)).messages,
      search: (query) => session.search(query),
      overlay: (from, to) => session.addCompaction("Summary of the earlier notes.", from, to),
    }, this.rows);
  }
}

export default entrypoint;
