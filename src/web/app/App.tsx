import { useCallback, useEffect, useMemo, useState, type MouseEvent } from "react";
import { AgentApi } from "../api/client";
import { readToken } from "../api/token";
import { SearchDialog } from "../search/SearchDialog";
import { SessionList, sessionTitle } from "../sessions/SessionList";
import { useSessions } from "../sessions/useSessions";
import { IconButton } from "../ui/Button";
import { useTheme } from "../ui/theme";
import { go, useRoute } from "./route";
import { useStored } from "./storage";
import { TokenDialog } from "./TokenDialog";
import { Workspace } from "./Workspace";

const themeNames = { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" } as const;
const themeIcons = { system: "half", light: "sun", dark: "moon" } as const;

/** `?agent=NAME` chooses which of the Worker's agents is talked to. */
const agentName = (): string => new URLSearchParams(location.search).get("agent") || "default";

/**
 * The session whose views are mounted. Between two sessions there is one commit
 * with none: the chat hook keeps first messages in a cache whose key leaves the
 * query out, and clears it only when the old views are gone.
 */
function useMounted(session: string): string | null {
  const [mounted, setMounted] = useState<string | null>(session);
  useEffect(() => setMounted(session), [session]);
  return mounted === session ? mounted : null;
}

function skipToField(event: MouseEvent): void {
  event.preventDefault();
  // While the conversation is still being read there is no field yet.
  (document.querySelector<HTMLElement>(".composer textarea") ?? document.getElementById("conversation"))?.focus();
}

export function App() {
  const api = useMemo(() => new AgentApi("assistant", agentName(), readToken("assistant", agentName())), []);
  const { route, version } = useRoute();
  const mounted = useMounted(route.session);
  const sessions = useSessions(api, route.session);
  const [theme, nextTheme] = useTheme();
  const [drawer, setDrawer] = useState(false);
  const wide = useMemo(() => matchMedia("(min-width: 80rem)").matches, []);
  const [memoryWanted, setMemoryWanted] = useStored("memory-open", wide);
  const [memoryOpen, showMemory] = useState(() => memoryWanted && matchMedia("(min-width: 60rem)").matches);
  const [search, setSearch] = useState<string | null>(null);

  const setMemoryOpen = useCallback(
    (open: boolean) => {
      showMemory(open);
      setMemoryWanted(open);
    },
    [setMemoryWanted],
  );

  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setSearch("");
      } else if (event.key === "Escape") {
        setDrawer(false);
        if (matchMedia("(max-width: 60rem)").matches) showMemory(false);
      }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);

  const session = sessions.list.find((each) => each.id === route.session);
  const title = session ? sessionTitle(session) : "Palimpsest";
  useEffect(() => {
    const unread = sessions.list.filter(sessions.unread).length;
    document.title = `${unread > 0 ? `(${unread}) ` : ""}${title === "Palimpsest" ? title : `${title} · Palimpsest`}`;
  }, [title, sessions]);

  const { refresh } = sessions;
  const target = useMemo(() => ({ message: route.message, version }), [route.message, version]);
  return (
    <>
      <a className="skip" href="#conversation" onClick={skipToField}>
        Skip to the message field
      </a>
      <div className={`frame ${drawer ? "drawer-open" : ""} ${memoryOpen ? "memory-open" : ""}`}>
        <nav className="side" aria-label="Chats">
          <header className="brand">
            <span className="wordmark" data-under="palimpsest">Palimpsest</span>
            <IconButton icon={themeIcons[theme]} label={themeNames[theme]} onClick={nextTheme} />
            <IconButton icon="close" label="Close chats" className="only-narrow" onClick={() => setDrawer(false)} />
          </header>
          <SessionList api={api} sessions={sessions} open={route.session} onChoose={() => setDrawer(false)} />
        </nav>
        {(drawer || memoryOpen) && <div className="veil" onClick={() => { setDrawer(false); showMemory(false); }} />}
        {mounted !== null && (
          <Workspace
            key={mounted}
            api={api}
            session={mounted}
            title={title}
            target={target}
            memoryOpen={memoryOpen}
            setMemoryOpen={setMemoryOpen}
            onMenu={() => setDrawer(true)}
            onSearch={setSearch}
            onSessionsChanged={refresh}
          />
        )}
      </div>
      {sessions.locked && <TokenDialog api={api} refused={api.token !== ""} />}
      {search !== null && (
        <SearchDialog
          api={api}
          session={route.session}
          initial={search}
          onClose={() => setSearch(null)}
          onOpen={(hit) => {
            setSearch(null);
            go(hit.sessionId, hit.messageId);
          }}
        />
      )}
    </>
  );
}
