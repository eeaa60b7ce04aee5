import { memo, useState } from "react";
import type { BranchPlace, ChatMessage } from "../api/types";
import { routeHref } from "../app/route";
import { Markdown } from "../markdown/Markdown";
import { safeHref } from "../markdown/parse";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { formatFullTime, formatTime, formatTokens, toTime } from "../ui/format";
import { useCopy } from "../ui/useCopy";
import { EditBox } from "./EditBox";
import { pieces, plainText, type Piece } from "./parts";
import { ToolCalls, type Decide } from "./ToolCalls";

export interface MessageActions {
  decide: Decide;
  edit: (message: ChatMessage, text: string) => void;
  regenerate: (messageId: string) => void;
  fork: (messageId: string) => void;
  showBranch: (messageId: string) => void;
}

interface Props {
  message: ChatMessage;
  session: string;
  /** Part of the turn that is being answered now. */
  active: boolean;
  busy: boolean;
  state?: "pending" | "failed" | undefined;
  place?: BranchPlace | undefined;
  createdAt?: number | undefined;
  beneath?: boolean;
  highlighted?: boolean;
  actions: MessageActions;
}

function FilePiece({ piece }: { piece: Extract<Piece, { kind: "file" }> }) {
  const inline = piece.url.startsWith("data:") || piece.url.startsWith("blob:") || piece.url.startsWith("/");
  if (inline && piece.mediaType.startsWith("image/")) return <img className="picture" src={piece.url} alt={piece.name} loading="lazy" />;
  const href = inline ? piece.url : safeHref(piece.url);
  return (
    <a className="file" {...(href ? { href, download: piece.name } : {})}>
      <Icon name="file" /> {piece.name} <span className="quiet">{piece.mediaType}</span>
    </a>
  );
}

function Sources({ piece }: { piece: Extract<Piece, { kind: "sources" }> }) {
  return (
    <ul className="sources" aria-label="Sources">
      {piece.sources.map((source, index) => {
        const href = source.url ? safeHref(source.url) : null;
        return <li key={index}>{href ? <a href={href} target="_blank" rel="noopener noreferrer">{source.title}</a> : source.title}</li>;
      })}
    </ul>
  );
}

function PieceView({ piece, user, active, decide }: { piece: Piece; user: boolean; active: boolean; decide: Decide }) {
  switch (piece.kind) {
    case "text":
      // What a person typed is shown as typed; only answers are Markdown.
      return user ? <p className="typed" dir="auto">{piece.text}</p> : <Markdown text={piece.text} />;
    case "reasoning":
      return (
        <details className="reasoning">
          <summary>{piece.streaming && active ? "Thinking…" : "Reasoning"}</summary>
          <Markdown text={piece.text} />
        </details>
      );
    case "tools":
      return <ToolCalls parts={piece.parts} running={active} decide={decide} />;
    case "file":
      return <FilePiece piece={piece} />;
    case "sources":
      return <Sources piece={piece} />;
  }
}

function BranchSwitch({ place, busy, show }: { place: BranchPlace; busy: boolean; show: (id: string) => void }) {
  const to = (step: number) => {
    const id = place.siblings[place.index + step];
    if (id) show(id);
  };
  return (
    <span className="branches" role="group" aria-label="Versions of this message">
      <IconButton icon="left" label="Previous version" disabled={busy || place.index === 0} onClick={() => to(-1)} />
      <span aria-label={`Version ${place.index + 1} of ${place.total}`}>{place.index + 1} / {place.total}</span>
      <IconButton icon="right" label="Next version" disabled={busy || place.index >= place.total - 1} onClick={() => to(1)} />
    </span>
  );
}

function Actions({ message, session, busy, actions, onEdit }: Pick<Props, "message" | "session" | "busy" | "actions"> & { onEdit: () => void }) {
  const text = useCopy();
  const link = useCopy();
  const user = message.role === "user";
  return (
    <div className="actions" role="toolbar" aria-label="Message actions">
      <IconButton icon={text.copied ? "check" : "copy"} label={text.copied ? "Copied" : "Copy message"} onClick={() => text.copy(plainText(message))} />
      {user && <IconButton icon="edit" label="Edit and send again" disabled={busy} onClick={onEdit} />}
      {!user && <IconButton icon="redo" label="Answer again" disabled={busy} onClick={() => actions.regenerate(message.id)} />}
      <IconButton icon="fork" label="Fork a new chat from here" onClick={() => actions.fork(message.id)} />
      <IconButton
        icon={link.copied ? "check" : "link"}
        label={link.copied ? "Link copied" : "Copy link to this message"}
        onClick={() => link.copy(new URL(routeHref(session, message.id), location.href).toString())}
      />
    </div>
  );
}

function byline(message: ChatMessage): string {
  if (message.role === "user") return "You";
  if (message.role === "system") return "System";
  return message.metadata?.model ?? "Agent";
}

export const Message = memo((props: Props) => {
  const { message, session, active, busy, state, place, beneath, highlighted, actions } = props;
  const [editing, setEditing] = useState(false);
  const user = message.role === "user";
  const time = toTime(message.metadata?.createdAt) ?? props.createdAt ?? null;
  const content = pieces(message);
  const usage = message.metadata?.usage?.outputTokens;
  return (
    <article
      id={`message-${message.id}`}
      className={`message ${message.role} ${active ? "active" : ""} ${beneath ? "beneath" : ""} ${highlighted ? "found" : ""}`}
      data-message-id={message.id}
      aria-label={`${byline(message)}${time ? `, ${formatTime(time)}` : ""}`}
      aria-busy={active || undefined}
      tabIndex={-1}
    >
      <header className="byline">
        <h2 className="who">{byline(message)}</h2>
        {time !== null && <time dateTime={new Date(time).toISOString()} title={formatFullTime(time)}>{formatTime(time)}</time>}
        {usage !== undefined && <span className="usage">{formatTokens(usage)} tokens</span>}
        {state === "pending" && <span className="mark pending">Sending…</span>}
        {state === "failed" && <span className="mark failed">{user ? "Not answered" : "Broken off"}</span>}
      </header>
      {editing ? (
        <EditBox
          text={plainText(message)}
          onCancel={() => setEditing(false)}
          onSave={(text) => {
            setEditing(false);
            actions.edit(message, text);
          }}
        />
      ) : (
        <div className="body">
          {content.map((piece, index) => (
            <PieceView key={index} piece={piece} user={user} active={active} decide={actions.decide} />
          ))}
          {active && !user && <span className="caret" aria-hidden="true" />}
          {!active && !user && state !== "failed" && content.length === 0 && <p className="quiet">The answer was stopped before any text.</p>}
        </div>
      )}
      {!editing && (
        <footer className="under">
          {place && place.total > 1 && <BranchSwitch place={place} busy={busy} show={actions.showBranch} />}
          {!active && <Actions message={message} session={session} busy={busy} actions={actions} onEdit={() => setEditing(true)} />}
        </footer>
      )}
    </article>
  );
});
