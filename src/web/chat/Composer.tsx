import { useCallback, useEffect, useImperativeHandle, useRef, useState, type Ref } from "react";
import { readStored, writeStored } from "../app/storage";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { formatBytes } from "../ui/format";
import { useToasts } from "../ui/toasts";
import { maxAttachments, readAttachment, type Attachment } from "./attachments";
import type { Connection } from "./useConnection";
import type { Waiting } from "./useQueue";

export interface ComposerHandle {
  focus: () => void;
  addFiles: (files: FileList) => void;
}

interface Props {
  session: string;
  busy: boolean;
  connection: Connection;
  /** Bytes of one file, and of all files of a message. */
  limit: number;
  totalLimit: number;
  waiting: Waiting[];
  handle: Ref<ComposerHandle>;
  onSend: (message: Waiting) => void;
  onCommand: (name: "compact" | "search", rest: string) => void;
  onStop: () => void;
  onEditLast: () => void;
  onRemoveWaiting: (id: string) => void;
}

function hint(busy: boolean, connection: Connection): string {
  if (connection !== "live") return "Not connected: what you send goes out when the connection is back.";
  if (busy) return "An answer is coming. What you send now waits for its end.";
  return "Enter sends, Shift + Enter makes a new line.";
}

function Files({ files, remove }: { files: Attachment[]; remove: (id: string) => void }) {
  if (files.length === 0) return null;
  return (
    <ul className="attachments" aria-label="Attached files">
      {files.map(({ id, part, bytes }) => (
        <li key={id}>
          {part.mediaType.startsWith("image/") ? <img src={part.url} alt="" /> : <Icon name="file" />}
          <span className="attachment-name">{part.filename}</span>
          <span className="quiet">{formatBytes(bytes)}</span>
          <IconButton icon="close" label={`Remove ${part.filename ?? "file"}`} onClick={() => remove(id)} />
        </li>
      ))}
    </ul>
  );
}

function WaitingList({ waiting, remove }: { waiting: Waiting[]; remove: (message: Waiting) => void }) {
  if (waiting.length === 0) return null;
  return (
    <ul className="waiting" aria-label="Waiting to be sent">
      {waiting.map((message) => (
        <li key={message.id}>
          <span className="mark pending">Waiting</span>
          <span className="waiting-text" dir="auto">{message.text || message.files[0]?.filename}</span>
          <IconButton icon="edit" label="Take back into the editor" onClick={() => remove(message)} />
        </li>
      ))}
    </ul>
  );
}

export function Composer(props: Props) {
  const { session, busy, connection, limit, totalLimit, waiting, handle, onSend, onCommand, onStop, onEditLast, onRemoveWaiting } = props;
  const draftKey = `draft:${session}`;
  const [text, setText] = useState(() => readStored(draftKey, ""));
  const [files, setFiles] = useState<Attachment[]>([]);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const toasts = useToasts();

  const write = useCallback(
    (value: string) => {
      setText(value);
      writeStored(draftKey, value);
    },
    [draftKey],
  );

  const addFiles = useCallback(
    async (list: FileList) => {
      for (const file of [...list].slice(0, maxAttachments)) {
        try {
          const attachment = await readAttachment(file, limit);
          setFiles((all) => {
            const total = all.reduce((sum, other) => sum + other.bytes, attachment.bytes);
            if (all.length < maxAttachments && total <= totalLimit) return [...all, attachment];
            queueMicrotask(() => toasts.failure(new Error(`${file.name} was left out: a message takes up to ${maxAttachments} files of together ${formatBytes(totalLimit)}.`)));
            return all;
          });
        } catch (error) {
          toasts.failure(error);
        }
      }
    },
    [limit, totalLimit, toasts],
  );

  useImperativeHandle(handle, () => ({ focus: () => area.current?.focus(), addFiles: (list) => void addFiles(list) }), [addFiles]);

  useEffect(() => {
    const element = area.current;
    if (!element) return;
    // Measured anew each time so that the field also shrinks.
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, 240)}px`;
  }, [text]);

  const send = () => {
    const trimmed = text.trim();
    if (!trimmed && files.length === 0) return;
    const command = /^\/(compact|search)(?:\s+([\s\S]*))?$/.exec(trimmed);
    if (command && files.length === 0) onCommand(command[1] as "compact" | "search", command[2]?.trim() ?? "");
    else onSend({ id: crypto.randomUUID(), text: trimmed, files: files.map((file) => file.part) });
    write("");
    setFiles([]);
    area.current?.focus();
  };

  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <WaitingList
        waiting={waiting}
        remove={(message) => {
          onRemoveWaiting(message.id);
          write(text ? `${message.text}\n${text}` : message.text);
        }}
      />
      <Files files={files} remove={(id) => setFiles((all) => all.filter((file) => file.id !== id))} />
      <div className="composer-row">
        <IconButton icon="attach" label={`Attach files (up to ${formatBytes(limit)} each)`} onClick={() => picker.current?.click()} />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            if (event.target.files) void addFiles(event.target.files);
            event.target.value = "";
          }}
        />
        <textarea
          ref={area}
          rows={1}
          dir="auto"
          aria-label="Message"
          aria-describedby="composer-hint"
          placeholder="Write to the agent"
          value={text}
          onChange={(event) => write(event.target.value)}
          onPaste={(event) => {
            if (event.clipboardData.files.length > 0) {
              event.preventDefault();
              void addFiles(event.clipboardData.files);
            }
          }}
          onKeyDown={(event) => {
            // While an input method composes, Enter belongs to it.
            if (event.nativeEvent.isComposing || event.keyCode === 229) return;
            if (event.key === "Enter" && !event.shiftKey) {
              event.preventDefault();
              send();
            } else if (event.key === "Escape" && busy) onStop();
            else if (event.key === "ArrowUp" && text === "" && !busy) {
              event.preventDefault();
              onEditLast();
            }
          }}
        />
        {busy && <IconButton className="stop" icon="stop" label="Stop" onClick={onStop} />}
        <button type="submit" className="icon-button send" aria-label={busy ? "Send after this answer" : "Send"} title={busy ? "Send after this answer" : "Send"} disabled={!text.trim() && files.length === 0}>
          <Icon name="send" />
        </button>
      </div>
      <p id="composer-hint" className="hint">{hint(busy, connection)}</p>
    </form>
  );
}
