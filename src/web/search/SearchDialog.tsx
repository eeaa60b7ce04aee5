import { Fragment, useEffect, useId, useRef, useState } from "react";
import type { AgentApi } from "../api/client";
import type { SearchHit } from "../api/types";
import { Dialog } from "../ui/Dialog";
import { formatFullTime, formatTime } from "../ui/format";

/** Waits for the writer to pause before asking (milliseconds). */
const pause = 200;

/** Snippets mark hits with two private characters; here they become elements. */
export function Highlighted({ snippet }: { snippet: string }) {
  const parts = snippet.split(/\ue000([^\ue001]*)\ue001?/);
  return parts.map((part, index) => <Fragment key={index}>{index % 2 === 1 ? <mark>{part}</mark> : part}</Fragment>);
}

type Result = { kind: "none" } | { kind: "waiting" } | { kind: "hits"; hits: SearchHit[] } | { kind: "failure"; text: string };

function useSearch(api: AgentApi, session: string, query: string, scope: "all" | "session"): Result {
  const [result, setResult] = useState<Result>({ kind: "none" });
  useEffect(() => {
    if (!query.trim()) {
      setResult({ kind: "none" });
      return;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      setResult((old) => (old.kind === "hits" ? old : { kind: "waiting" }));
      api.search(query, { scope, session }, controller.signal).then(
        (hits) => setResult({ kind: "hits", hits }),
        (error: unknown) => {
          if (!controller.signal.aborted) setResult({ kind: "failure", text: error instanceof Error ? error.message : String(error) });
        },
      );
    }, pause);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [api, session, query, scope]);
  return result;
}

function Hit({ hit, id, chosen, onOpen }: { hit: SearchHit; id: string; chosen: boolean; onOpen: () => void }) {
  return (
    <li id={id} role="option" aria-selected={chosen} className={chosen ? "chosen" : ""} onClick={onOpen} data-message-id={hit.messageId}>
      <p className="hit-head">
        <span className="hit-session" dir="auto">{hit.sessionName || "First chat"}</span>
        <span className="quiet">
          {hit.role === "user" ? "You" : "Agent"} · <time title={formatFullTime(hit.createdAt)}>{formatTime(hit.createdAt)}</time>
          {hit.compacted ? " · under a summary" : ""}
          {hit.onActivePath === false ? " · another version" : ""}
        </span>
      </p>
      <p className="hit-text" dir="auto"><Highlighted snippet={hit.snippet} /></p>
    </li>
  );
}

export function SearchDialog({
  api,
  session,
  initial,
  onOpen,
  onClose,
}: {
  api: AgentApi;
  session: string;
  initial: string;
  onOpen: (hit: SearchHit) => void;
  onClose: () => void;
}) {
  const [query, setQuery] = useState(initial);
  const [scope, setScope] = useState<"all" | "session">("all");
  const [chosen, setChosen] = useState(0);
  const result = useSearch(api, session, query, scope);
  const hits = result.kind === "hits" ? result.hits : [];
  const list = useId();
  const box = useRef<HTMLUListElement>(null);
  useEffect(() => setChosen(0), [result]);
  useEffect(() => box.current?.querySelector(".chosen")?.scrollIntoView({ block: "nearest" }), [chosen]);
  return (
    <Dialog title="Search all chats" className="search" onClose={onClose}>
      <div className="search-bar">
        <input
          type="search"
          data-first-focus
          dir="auto"
          role="combobox"
          aria-label="Search words"
          aria-expanded={hits.length > 0}
          aria-controls={list}
          aria-activedescendant={hits.length > 0 ? `${list}-${chosen}` : undefined}
          placeholder="Words you remember"
          value={query}
          onChange={(event) => setQuery(event.target.value)}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            const hit = hits[chosen];
            if (event.key === "ArrowDown" || event.key === "ArrowUp") {
              event.preventDefault();
              setChosen((old) => Math.max(0, Math.min(hits.length - 1, old + (event.key === "ArrowDown" ? 1 : -1))));
            } else if (event.key === "Enter" && hit) onOpen(hit);
          }}
        />
        <label className="scope">
          <input type="checkbox" checked={scope === "session"} onChange={(event) => setScope(event.target.checked ? "session" : "all")} /> This chat only
        </label>
      </div>
      <div className="search-state" role="status">
        {result.kind === "waiting" && "Searching…"}
        {result.kind === "failure" && result.text}
        {result.kind === "hits" && hits.length === 0 && "Nothing found. Try other or fewer words."}
        {hits.length > 0 && <span className="visually-hidden">{hits.length} found</span>}
      </div>
      <ul className="hits" id={list} ref={box} role="listbox" aria-label="Found messages">
        {hits.map((hit, index) => (
          <Hit key={`${hit.sessionId}/${hit.messageId}`} hit={hit} id={`${list}-${index}`} chosen={index === chosen} onOpen={() => onOpen(hit)} />
        ))}
      </ul>
    </Dialog>
  );
}
