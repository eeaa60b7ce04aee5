import { useAgentChat } from "@cloudflare/ai-chat/react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { AgentApi } from "../api/client";
import type { ChatMessage } from "../api/types";
import { go } from "../app/route";
import type { MemoryState } from "../memory/useMemory";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { useToasts } from "../ui/toasts";
import { defaultAttachmentLimit } from "./attachments";
import { Composer, type ComposerHandle } from "./Composer";
import { Announcer, TurnNotice } from "./Notices";
import { Transcript } from "./Transcript";
import type { MessageActions } from "./Message";
import { useBranches } from "./useBranches";
import type { Agent, Connection } from "./useConnection";
import { useFind } from "./useFind";
import { useQueue, type Waiting } from "./useQueue";
import { useScroll } from "./useScroll";

interface Props {
  agent: Agent;
  api: AgentApi;
  session: string;
  connection: Connection;
  memory: MemoryState;
  target: { message: string | null; version: number };
  onMessages: (messages: ChatMessage[]) => void;
  onSearch: (query: string) => void;
  onTurnEnd: () => void;
}

/** Messages sent with a request: the new one and enough before it to be recognised. */
const sentTail = 4;

function Empty() {
  return (
    <div className="empty">
      <h2>A fresh page</h2>
      <p>Write below. Older messages are summarized as the conversation grows; nothing you write is erased.</p>
    </div>
  );
}

export function Conversation({ agent, api, session, connection, memory, target, onMessages, onSearch, onTurnEnd }: Props) {
  const toasts = useToasts();
  const branches = useBranches(api, session);
  const refreshBranches = branches.refresh;
  const turnEnded = useCallback(() => {
    refreshBranches();
    onTurnEnd();
  }, [refreshBranches, onTurnEnd]);

  const chat = useAgentChat<unknown, ChatMessage>({
    agent,
    // The agent's store holds branches and overlays that this list is only a
    // view of: local changes must never replace it.
    syncMessagesToServer: false,
    onTurnEnd: turnEnded,
    // The agent has the conversation; it needs to see only where this page
    // stands in it, not every message and file again with each request.
    prepareSendMessagesRequest: ({ messages: all }) => ({ body: { messages: all.slice(-sentTail) } }),
  });
  const { messages, sendMessage, regenerate, status, error, clearError, stop } = chat;
  const busy = status === "submitted" || status === "streaming" || chat.isServerStreaming || chat.isRecovering;
  const failed = status === "error" && !busy;

  const latest = useRef({ messages, chat });
  latest.current = { messages, chat };
  const composer = useRef<ComposerHandle>(null);
  const scroll = useScroll();
  const { toEnd } = scroll;

  const send = useCallback(
    async (message: Waiting) => {
      toEnd();
      await sendMessage({
        id: message.id,
        role: "user",
        parts: [...message.files, ...(message.text ? [{ type: "text" as const, text: message.text }] : [])],
        metadata: { createdAt: Date.now() },
      });
    },
    [sendMessage, toEnd],
  );
  const queue = useQueue(session, !busy && status !== "error" && connection === "live", send);

  const actions = useMemo<MessageActions>(
    () => ({
      decide: (id, approved) => latest.current.chat.addToolApprovalResponse({ id, approved }),
      // Sent under the old id; the agent stores it beside the old message, under
      // an id of its own, and shows everybody the new branch.
      edit: (message, text) => {
        const files = message.parts.filter((part) => part.type === "file");
        const parts = [...files, { type: "text" as const, text }];
        void sendMessage({ messageId: message.id, role: "user", parts, metadata: { createdAt: Date.now() } });
      },
      regenerate: (messageId) => void regenerate({ messageId }),
      fork: (messageId) => {
        api.forkSession(session, messageId).then((made) => {
          go(made.id);
          toasts.note("A new chat continues from that message.");
        }, toasts.failure);
      },
      showBranch: branches.show,
    }),
    [api, session, branches.show, regenerate, sendMessage, toasts],
  );

  const retry = useCallback(() => {
    const last = latest.current.messages.at(-1);
    clearError();
    // A message without an answer goes out again under its own id, so that the
    // agent cannot store it twice; a broken answer is begun again beside itself.
    if (last?.role === "assistant") void regenerate({ messageId: last.id });
    else void sendMessage();
  }, [clearError, regenerate, sendMessage]);

  const find = useFind({ api, session, messages, overlays: memory.overlays, ready: memory.loaded || memory.problem !== null, target, release: scroll.release, showBranch: branches.show });

  useEffect(() => {
    refreshBranches();
  }, [messages.length, refreshBranches]);
  useEffect(() => onMessages(messages), [messages, onMessages]);

  const [dragging, setDragging] = useState(false);
  return (
    <div
      className={`conversation ${dragging ? "dragging" : ""}`}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setDragging(true);
      }}
      onDragLeave={(event) => {
        if (event.currentTarget === event.target) setDragging(false);
      }}
      onDrop={(event) => {
        if (event.dataTransfer.files.length === 0) return;
        event.preventDefault();
        setDragging(false);
        composer.current?.addFiles(event.dataTransfer.files);
      }}
    >
      <div className="scroll-area" ref={scroll.area} tabIndex={-1}>
        <div className="page" ref={scroll.content} role="log" aria-live="off" aria-label="Messages">
          {messages.length === 0 && !busy && <Empty />}
          <Transcript
            messages={messages}
            overlays={memory.overlays}
            timeline={memory.timeline}
            session={session}
            busy={busy}
            failed={failed}
            raised={find.raised}
            found={find.found}
            places={branches.places}
            actions={actions}
            onToggle={find.toggle}
          />
          <TurnNotice
            status={status}
            error={error}
            recovering={chat.isRecovering}
            waitingForFirst={busy && messages.at(-1)?.role === "user"}
            onRetry={retry}
            onDismiss={clearError}
          />
        </div>
      </div>
      {find.elsewhere && (
        <div className="elsewhere" role="status">
          <span>That message belongs to another version of this conversation.</span>
          <button type="button" className="text-button" onClick={find.showElsewhere}>Show that version</button>
          <IconButton icon="close" label="Dismiss" onClick={find.dismiss} />
        </div>
      )}
      {!scroll.atEnd && (
        <button type="button" className="jump" onClick={() => toEnd(true)}>
          <Icon name="down" /> {busy ? "Follow the answer" : "Jump to newest"}
        </button>
      )}
      <Announcer messages={messages} busy={busy} compacting={memory.phase === "compacting"} />
      <Composer
        key={session}
        session={session}
        busy={busy}
        connection={connection}
        limit={memory.limits?.maxAttachmentBytes ?? defaultAttachmentLimit}
        totalLimit={0.7 * (memory.limits?.maxMessageBytes ?? defaultAttachmentLimit)}
        waiting={queue.waiting}
        handle={composer}
        onSend={(message) => (busy || queue.waiting.length > 0 ? queue.add(message) : void send(message))}
        onCommand={(name, rest) => (name === "compact" ? memory.compact() : onSearch(rest))}
        onStop={() => void stop()}
        onEditLast={() => {
          const last = messages.findLast((message) => message.role === "user");
          const button = last && document.getElementById(`message-${last.id}`)?.querySelector<HTMLButtonElement>('[aria-label="Edit and send again"]');
          button?.click();
        }}
        onRemoveWaiting={queue.remove}
      />
    </div>
  );
}
