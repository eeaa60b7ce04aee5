// The `Session` of npm agents 0.22, as its documentation wires it.
import { Agent } from "agents-legacy";
import { Session } from "agents-legacy/experimental/memory/session";
import { answer, countRows, entrypoint } from "./counting.mjs";

export class Bench extends Agent {
  rows = countRows(this.ctx.storage);
  state_ = { loaded: [] };
  // An agent gives SQL and broadcasts: each append estimates the tokens of the whole history.
  documented = Session.create(this);
  // SQL alone: no estimate. Only to fill a conversation in bearable time.
  bare = Session.create({ sql: this.sql.bind(this) });

  async onRequest(request) {
    const session = this.documented;
    return answer(request, this.state_, {
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
