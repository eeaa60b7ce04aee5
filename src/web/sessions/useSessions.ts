import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError, type AgentApi } from "../api/client";
import type { SessionInfo } from "../api/types";
import { readStored, writeStored } from "../app/storage";

export interface Sessions {
  list: SessionInfo[];
  loaded: boolean;
  problem: string | null;
  /** Whether the agent asks for a token, or refuses the one it was given. */
  locked: boolean;
  refresh: () => void;
  /** Whether something was written there since it was last looked at. */
  unread: (session: SessionInfo) => boolean;
}

type Seen = Record<string, number>;

/** The chats of the agent, newest first, and which of them hold something unread. */
export function useSessions(api: AgentApi, open: string): Sessions {
  const [list, setList] = useState<SessionInfo[]>([]);
  const [loaded, setLoaded] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const [locked, setLocked] = useState(false);
  const key = `seen:${api.name}`;
  const [seen, setSeen] = useState<Seen>(() => readStored<Seen>(key, {}));
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  const refresh = useCallback(() => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      api.sessions().then(
        (next) => {
          setList(next);
          setLoaded(true);
          setProblem(null);
        },
        (error: unknown) => {
          setLocked(error instanceof ApiError && error.status === 401);
          setProblem(error instanceof Error ? error.message : String(error));
        },
      );
    }, 100);
  }, [api]);

  useEffect(() => {
    refresh();
    return () => clearTimeout(timer.current);
  }, [refresh]);

  // The open chat counts as seen; so does everything at the very first visit.
  useEffect(() => {
    if (!loaded) return;
    setSeen((old) => {
      const first = Object.keys(old).length === 0;
      const next: Seen = {};
      let changed = false;
      for (const session of list) {
        const visible = session.id === open && !document.hidden;
        const at = first || visible ? session.updatedAt : old[session.id];
        if (at === undefined) continue;
        next[session.id] = at;
        if (old[session.id] !== at) changed = true;
      }
      if (!changed) return old;
      writeStored(key, next);
      return next;
    });
  }, [list, loaded, open, key]);

  const unread = useCallback(
    (session: SessionInfo) => session.id !== open && (session.messageCount ?? 1) > 0 && session.updatedAt > (seen[session.id] ?? 0),
    [open, seen],
  );
  return { list, loaded, problem, locked, refresh, unread };
}
