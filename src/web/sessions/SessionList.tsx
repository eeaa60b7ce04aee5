import { useState } from "react";
import type { AgentApi } from "../api/client";
import type { SessionInfo } from "../api/types";
import { go, routeHref } from "../app/route";
import { IconButton } from "../ui/Button";
import { formatFullTime, formatRelative } from "../ui/format";
import { useToasts } from "../ui/toasts";
import type { Sessions } from "./useSessions";

export const sessionTitle = (session: SessionInfo): string => session.name || session.preview || (session.id === "" ? "First chat" : "New chat");

function Rename({ session, onDone }: { session: SessionInfo; onDone: (name: string | null) => void }) {
  const [name, setName] = useState(session.name || "");
  return (
    <form
      className="rename"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(name.trim() || null);
      }}
    >
      <input
        autoFocus
        dir="auto"
        aria-label="Name of the chat"
        maxLength={200}
        value={name}
        onChange={(event) => setName(event.target.value)}
        onBlur={() => onDone(name.trim() || null)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            onDone(null);
          }
        }}
      />
    </form>
  );
}

interface RowProps {
  session: SessionInfo;
  open: boolean;
  unread: boolean;
  api: AgentApi;
  onRename: (session: SessionInfo, name: string) => void;
  onFork: (session: SessionInfo) => void;
  onDelete: (session: SessionInfo) => void;
  onChoose: () => void;
}

function SessionRow({ session, open, unread, api, onRename, onFork, onDelete, onChoose }: RowProps) {
  const [renaming, setRenaming] = useState(false);
  const title = sessionTitle(session);
  if (renaming) {
    return (
      <li>
        <Rename
          session={session}
          onDone={(name) => {
            setRenaming(false);
            if (name && name !== session.name) onRename(session, name);
          }}
        />
      </li>
    );
  }
  return (
    <li className={open ? "open" : ""} data-session-id={session.id}>
      <a href={routeHref(session.id)} aria-current={open ? "page" : undefined} onClick={onChoose}>
        <span className="session-title" dir="auto">
          {unread && <span className="unread"><span className="visually-hidden">Unread. </span></span>}
          {title}
        </span>
        {session.updatedAt > 0 && (
          <time className="quiet" dateTime={new Date(session.updatedAt).toISOString()} title={formatFullTime(session.updatedAt)}>
            {formatRelative(session.updatedAt)}
          </time>
        )}
      </a>
      <details
        className="menu"
        onBlur={(event) => {
          if (!event.currentTarget.contains(event.relatedTarget)) event.currentTarget.open = false;
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          event.currentTarget.open = false;
          event.currentTarget.querySelector("summary")?.focus();
        }}
      >
        <summary aria-label={`Actions for ${title}`} title="Actions">⋯</summary>
        <div className="menu-items" onClick={(event) => (event.currentTarget.parentElement as HTMLDetailsElement).removeAttribute("open")}>
          <IconButton icon="edit" label="Rename" showLabel onClick={() => setRenaming(true)} />
          <IconButton icon="fork" label="Fork" showLabel onClick={() => onFork(session)} />
          <a className="icon-button labelled" href={api.exportUrl(session.id)} download={`${title.slice(0, 60)}.jsonl`}>Export</a>
          <IconButton icon="trash" label="Delete" showLabel onClick={() => onDelete(session)} />
        </div>
      </details>
    </li>
  );
}

export function SessionList({ api, sessions, open, onChoose }: { api: AgentApi; sessions: Sessions; open: string; onChoose: () => void }) {
  const toasts = useToasts();
  const { list, refresh } = sessions;
  const create = () => {
    api.createSession().then((made) => {
      refresh();
      go(made.id);
      onChoose();
    }, toasts.failure);
  };
  const remove = (session: SessionInfo) => {
    api.deleteSession(session.id).then(() => {
      refresh();
      const next = list.find((other) => other.id !== session.id);
      if (session.id === open) go(next?.id ?? "");
      toasts.note(`“${sessionTitle(session)}” was deleted.`, {
        label: "Undo",
        run: () => {
          api.restoreSession(session.id).then(() => {
            refresh();
            go(session.id);
          }, toasts.failure);
        },
      });
    }, toasts.failure);
  };
  return (
    <>
      <IconButton icon="plus" label="New chat" showLabel className="new-chat" onClick={create} />
      {sessions.problem && <p className="notice failure">{sessions.problem}</p>}
      <ul className="sessions">
        {list.map((session) => (
          <SessionRow
            key={session.id}
            session={session}
            open={session.id === open}
            unread={sessions.unread(session)}
            api={api}
            onChoose={onChoose}
            onRename={(which, name) => void api.renameSession(which.id, name).then(refresh, toasts.failure)}
            onFork={(which) =>
              void api.forkSession(which.id).then((made) => {
                refresh();
                go(made.id);
              }, toasts.failure)
            }
            onDelete={remove}
          />
        ))}
      </ul>
    </>
  );
}
