// The `Sessions` capability of npm agents 0.32 on a plain Durable Object.
import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Sessions } from "agents/sessions";
import { answer, countRows, entrypoint } from "./sessions_peer.mjs";

export class Bench extends DurableObject {
  rows = countRows(this.ctx.storage);
  kept = { loaded: [] };
  sessions = new Sessions();
  lifecycle = Lifecycle.install(this).use(this.sessions);
  session = this.sessions.session();

  onRequest(request) {
    const session = this.session;
    const append = (message) => session.appendMessage(message);
    return answer(request, this.kept, {
      append,
      fill: append,
      history: () => session.getHistory(),
      recent: async (bytes) => (await session.getRecentHistory(bytes)).messages,
      search: (query) => session.search(query),
      overlay: (from, to) => session.addCompaction("Summary of the earlier notes.", from, to),
    }, this.rows);
  }
}

export default entrypoint;
