import { useAgent } from "agents/react";
import { useEffect, useState } from "react";
import type { AgentApi } from "../api/client";

/** The socket of one session; the hooks keep the query on every address. */
export function useSessionAgent(api: AgentApi, session: string) {
  return useAgent({ agent: api.agent, name: api.name, query: { session, ...(api.token ? { token: api.token } : {}) } });
}

export type Agent = ReturnType<typeof useSessionAgent>;
export type Connection = "connecting" | "live" | "reconnecting" | "offline" | "refused";

/** The state of the socket as a person would say it. */
export function useConnection(agent: Agent): Connection {
  const [open, setOpen] = useState(agent.readyState === WebSocket.OPEN);
  const [wasOpen, setWasOpen] = useState(open);
  const [online, setOnline] = useState(navigator.onLine);
  useEffect(() => {
    const opened = () => {
      setOpen(true);
      setWasOpen(true);
    };
    const closed = () => setOpen(false);
    const network = () => setOnline(navigator.onLine);
    if (agent.readyState === WebSocket.OPEN) opened();
    agent.addEventListener("open", opened);
    agent.addEventListener("close", closed);
    window.addEventListener("online", network);
    window.addEventListener("offline", network);
    return () => {
      agent.removeEventListener("open", opened);
      agent.removeEventListener("close", closed);
      window.removeEventListener("online", network);
      window.removeEventListener("offline", network);
    };
  }, [agent]);
  if (agent.connectionError) return "refused";
  if (open) return "live";
  if (!online) return "offline";
  return wasOpen ? "reconnecting" : "connecting";
}

/**
 * Calls `handler` with each frame whose type is in `types`. Frames of answers
 * are many and large, so others are told apart without being parsed.
 */
export function useFrames(agent: Agent, types: readonly string[], handler: (frame: Record<string, unknown>) => void): void {
  useEffect(() => {
    const listener = (event: MessageEvent) => {
      if (typeof event.data !== "string") return;
      const head = event.data.slice(0, 400);
      if (!types.some((type) => head.includes(type))) return;
      try {
        const frame = JSON.parse(event.data) as Record<string, unknown>;
        if (types.includes(String(frame.type))) handler(frame);
      } catch {
        // Not JSON: not ours.
      }
    };
    agent.addEventListener("message", listener);
    return () => agent.removeEventListener("message", listener);
  }, [agent, types, handler]);
}
