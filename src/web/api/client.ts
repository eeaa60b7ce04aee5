// The one place that knows the agent's HTTP addresses.
import type {
  BranchPlace,
  ChatMessage,
  CompactResult,
  ContextBlock,
  Memory,
  SearchHit,
  SessionInfo,
  StoredMessage,
} from "./types";

/** A refused or failed request, with a text that can be shown as it is. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const plainTexts: Record<number, string> = {
  404: "The agent does not know this address or item.",
  409: "Something else changed this at the same time. Look again and repeat.",
  413: "This is larger than the agent accepts.",
  429: "Too many requests at once. Wait a moment.",
  503: "The agent is busy or restarting. Try again in a moment.",
};

async function failure(response: Response): Promise<ApiError> {
  try {
    const body = (await response.json()) as { error?: { code?: string; message?: string } };
    if (body.error?.message) return new ApiError(response.status, body.error.code ?? "failed", body.error.message);
  } catch {
    // Not JSON: fall through to a text of our own.
  }
  const text = plainTexts[response.status] ?? `The agent answered with an error (${response.status}).`;
  return new ApiError(response.status, "failed", text);
}

export class AgentApi {
  readonly agent: string;
  readonly name: string;
  /** Empty where the deployment asks for none. */
  readonly token: string;

  constructor(agent: string, name: string, token: string) {
    this.agent = agent;
    this.name = name;
    this.token = token;
  }

  /** Address of an endpoint; `session` is left out for agent-wide ones. */
  url(path: string, query: Record<string, string | undefined> = {}): string {
    const url = new URL(`/agents/${this.agent}/${encodeURIComponent(this.name)}/${path}`, location.origin);
    for (const [key, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(key, value);
    return url.toString();
  }

  private async request<T>(
    method: string,
    path: string,
    query: Record<string, string | undefined> = {},
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<T> {
    let response: Response;
    try {
      response = await fetch(this.url(path, query), {
        method,
        headers: {
          ...(this.token ? { authorization: `Bearer ${this.token}` } : {}),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new ApiError(0, "offline", "The agent cannot be reached. Check the connection and try again.");
    }
    if (!response.ok) throw await failure(response);
    const text = await response.text();
    return (text ? JSON.parse(text) : undefined) as T;
  }

  async sessions(): Promise<SessionInfo[]> {
    return (await this.request<{ sessions: SessionInfo[] }>("GET", "sessions")).sessions;
  }

  createSession(name?: string): Promise<SessionInfo> {
    return this.request("POST", "sessions", {}, name ? { name } : {});
  }

  renameSession(id: string, name: string): Promise<SessionInfo> {
    return this.request("POST", "sessions/rename", {}, { id, name });
  }

  forkSession(id: string, messageId?: string): Promise<SessionInfo> {
    return this.request("POST", "sessions/fork", {}, messageId ? { id, messageId } : { id });
  }

  async deleteSession(id: string): Promise<void> {
    await this.request("POST", "sessions/delete", {}, { id });
  }

  async restoreSession(id: string): Promise<void> {
    await this.request("POST", "sessions/restore", {}, { id });
  }

  memory(session: string, signal?: AbortSignal): Promise<Memory> {
    return this.request("GET", "memory", { session }, undefined, signal);
  }

  /** The whole text of a summary of which the memory has only the beginning. */
  overlay(session: string, id: string): Promise<{ summary: string }> {
    return this.request("GET", `overlays/${encodeURIComponent(id)}`, { session });
  }

  compact(session: string): Promise<CompactResult> {
    return this.request("POST", "compact", { session }, {});
  }

  async removeOverlay(session: string, id: string): Promise<void> {
    await this.request("DELETE", `overlays/${encodeURIComponent(id)}`, { session });
  }

  writeContext(session: string, label: string, content: string): Promise<ContextBlock> {
    return this.request("PUT", `context/${encodeURIComponent(label)}`, { session }, { content });
  }

  async cancelSchedule(session: string, id: string): Promise<void> {
    await this.request("DELETE", `schedules/${encodeURIComponent(id)}`, { session });
  }

  async branches(session: string, signal?: AbortSignal): Promise<Record<string, BranchPlace>> {
    const answer = await this.request<{ branches: Record<string, BranchPlace> }>(
      "GET", "branches", { session }, undefined, signal,
    );
    return answer.branches;
  }

  async switchBranch(session: string, messageId: string): Promise<void> {
    await this.request("POST", "branches/switch", { session }, { messageId });
  }

  message(session: string, id: string): Promise<StoredMessage> {
    return this.request("GET", `messages/${encodeURIComponent(id)}`, { session });
  }

  messages(session: string): Promise<ChatMessage[]> {
    return this.request("GET", "get-messages", { session });
  }

  async search(
    query: string,
    options: { session?: string; scope: "all" | "session"; limit?: number },
    signal?: AbortSignal,
  ): Promise<SearchHit[]> {
    const answer = await this.request<{ results: SearchHit[] }>(
      "GET",
      "search",
      { q: query, scope: options.scope, session: options.session, limit: String(options.limit ?? 30) },
      undefined,
      signal,
    );
    return answer.results;
  }

  exportUrl(session: string): string {
    // A link carries no headers, so the token has to stand in its address.
    return this.url("export", { session, token: this.token || undefined });
  }
}
