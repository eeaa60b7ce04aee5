import { Suspense, useCallback, useEffect, useRef } from "react";
import type { AgentApi } from "../api/client";
import type { ChatMessage } from "../api/types";
import { Conversation } from "../chat/Conversation";
import { plainText } from "../chat/parts";
import { useConnection, useFrames, useSessionAgent, type Connection } from "../chat/useConnection";
import { MemoryPanel } from "../memory/MemoryPanel";
import { meterScale } from "../memory/Meter";
import { useMemory } from "../memory/useMemory";
import { IconButton } from "../ui/Button";
import { formatTokens } from "../ui/format";
import { Failure } from "./Failure";
import { go } from "./route";

interface Props {
  api: AgentApi;
  session: string;
  title: string;
  target: { message: string | null; version: number };
  memoryOpen: boolean;
  setMemoryOpen: (open: boolean) => void;
  onMenu: () => void;
  onSearch: (query: string) => void;
  onSessionsChanged: () => void;
}

const connectionTexts: Record<Connection, string> = {
  connecting: "Connecting…",
  live: "Live",
  reconnecting: "Reconnecting…",
  offline: "Offline",
  refused: "Refused",
};

const sessionFrames = ["palimpsest_sessions"] as const;

/** One open chat: its socket, the conversation and the memory panel. */
export function Workspace(props: Props) {
  const { api, session, title, target, memoryOpen, setMemoryOpen, onMenu, onSearch, onSessionsChanged } = props;
  const agent = useSessionAgent(api, session);
  const connection = useConnection(agent);
  const memory = useMemory(agent, api, session);
  useFrames(agent, sessionFrames, onSessionsChanged);
  const { refresh } = memory;
  const turnEnded = useCallback(() => {
    refresh();
    onSessionsChanged();
  }, [refresh, onSessionsChanged]);
  useEffect(() => {
    if (connection === "live") onSessionsChanged();
  }, [connection, onSessionsChanged]);
  const shown = useRef<ChatMessage[]>([]);
  const showMessages = useCallback((messages: ChatMessage[]) => {
    shown.current = messages;
  }, []);
  const previewOf = useCallback((id: string) => {
    const message = shown.current.find((each) => each.id === id);
    return message ? plainText(message).slice(0, 160) : "";
  }, []);
  const limit = memory.tokenBudget ?? memory.tokenThreshold;
  const open = (id: string) => {
    go(session, id);
    // On a phone the panel covers the conversation it points into.
    if (matchMedia("(max-width: 60rem)").matches) setMemoryOpen(false);
  };
  return (
    <>
      <main className="centre" id="conversation" tabIndex={-1}>
        <header className="bar">
          <IconButton icon="menu" label="Chats" className="only-narrow" onClick={onMenu} />
          <h1 dir="auto">{title}</h1>
          <span className={`connection ${connection}`} role="status">{connectionTexts[connection]}</span>
          <IconButton icon="search" label="Search all chats (Ctrl K)" onClick={() => onSearch("")} />
          <button
            type="button"
            className={`memory-button ${memory.phase}`}
            aria-expanded={memoryOpen}
            aria-controls="memory"
            onClick={() => setMemoryOpen(!memoryOpen)}
          >
            Memory
            {memory.loaded && limit ? <span className="memory-share">{Math.round((100 * memory.tokenEstimate) / meterScale(memory))}%</span> : null}
            {memory.loaded && !limit ? <span className="memory-share">{formatTokens(memory.tokenEstimate)}</span> : null}
          </button>
        </header>
        {connection === "refused" && (
          <p className="notice failure" role="alert">
            The agent refused the connection{agent.connectionError?.reason ? `: ${agent.connectionError.reason}` : "."} Reload the page or check your access.
          </p>
        )}
        <Failure>
          <Suspense fallback={<div className="conversation"><p className="loading" role="status">Opening the conversation…</p></div>}>
            <Conversation
              agent={agent}
              api={api}
              session={session}
              connection={connection}
              memory={memory}
              target={target}
              onMessages={showMessages}
              onSearch={onSearch}
              onTurnEnd={turnEnded}
            />
          </Suspense>
        </Failure>
      </main>
      <aside className="memory" id="memory" aria-label="Memory" hidden={!memoryOpen}>
        <MemoryPanel api={api} session={session} memory={memory} previewOf={previewOf} onOpen={open} onClose={() => setMemoryOpen(false)} />
      </aside>
    </>
  );
}
