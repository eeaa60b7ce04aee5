import { useEffect, useRef, useState } from "react";
import type { ChatMessage } from "../api/types";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { plainText } from "./parts";

function plainError(error: Error | undefined): string {
  const text = error?.message.trim() ?? "";
  if (!text) return "The agent could not answer.";
  if (/failed to fetch|network|socket|connection/i.test(text)) return "The connection broke before the answer was complete.";
  return text;
}

/** What stands below the last message while something is not as usual. */
export function TurnNotice({
  status,
  error,
  recovering,
  waitingForFirst,
  onRetry,
  onDismiss,
}: {
  status: string;
  error: Error | undefined;
  recovering: boolean;
  waitingForFirst: boolean;
  onRetry: () => void;
  onDismiss: () => void;
}) {
  if (status === "error") {
    return (
      <div className="notice failure" role="alert">
        <Icon name="warn" />
        <div>
          <p dir="auto">{plainError(error)}</p>
          <p className="quiet">What was written so far is kept.</p>
        </div>
        <button type="button" className="button" onClick={onRetry}>Try again</button>
        <IconButton icon="close" label="Dismiss" onClick={onDismiss} />
      </div>
    );
  }
  if (recovering) return <p className="notice">The answer was interrupted; the agent is picking it up again…</p>;
  if (waitingForFirst) {
    return (
      <p className="notice thinking">
        <span className="caret" aria-hidden="true" /> The agent is reading…
      </p>
    );
  }
  return null;
}

/** Tells screen readers about whole answers and compactions, never about single tokens. */
export function Announcer({ messages, busy, compacting }: { messages: ChatMessage[]; busy: boolean; compacting: boolean }) {
  const [text, setText] = useState("");
  const before = useRef({ busy, compacting });
  useEffect(() => {
    const was = before.current;
    before.current = { busy, compacting };
    if (busy && !was.busy) setText("The agent is answering.");
    else if (!busy && was.busy) {
      const last = messages.at(-1);
      if (last?.role === "assistant") setText(`Answer: ${plainText(last).slice(0, 600) || "no text"}`);
    } else if (compacting && !was.compacting) setText("Older messages are being summarized.");
    else if (!compacting && was.compacting) setText("Summarizing has ended.");
  }, [busy, compacting, messages]);
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {text}
    </div>
  );
}
