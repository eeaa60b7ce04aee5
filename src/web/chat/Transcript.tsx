import { memo, useMemo } from "react";
import type { BranchPlace, ChatMessage, Overlay, TimelineEntry } from "../api/types";
import { layOut } from "./layers";
import { Message, type MessageActions } from "./Message";
import { plainText } from "./parts";
import { Sheet } from "./Sheet";

interface Props {
  messages: ChatMessage[];
  overlays: Overlay[];
  timeline: TimelineEntry[];
  session: string;
  busy: boolean;
  failed: boolean;
  raised: ReadonlySet<string>;
  found: string | null;
  places: Record<string, BranchPlace>;
  actions: MessageActions;
  onToggle: (overlayId: string) => void;
}

/** As much of the covered text as the faint layer can show (UTF-16 units). */
const ghostLength = 1600;

function ghostText(messages: ChatMessage[]): string {
  let text = "";
  for (const message of messages) {
    text += `${plainText(message)} `;
    if (text.length > ghostLength) break;
  }
  return text.replace(/[*_`#>|]+/g, "").slice(0, ghostLength);
}

export const Transcript = memo((props: Props) => {
  const { messages, overlays, timeline, session, busy, failed, raised, found, places, actions, onToggle } = props;
  const layers = useMemo(() => layOut(messages, overlays), [messages, overlays]);
  const times = useMemo(() => new Map(timeline.map((entry) => [entry.id, entry.createdAt])), [timeline]);
  const last = messages.at(-1);

  const view = (message: ChatMessage, beneath: boolean) => {
    const newest = message === last;
    const unanswered = newest && message.role === "user";
    const state = newest && failed ? "failed" : unanswered && busy ? "pending" : undefined;
    return (
      <Message
        key={message.id}
        message={message}
        session={session}
        active={newest && busy && message.role === "assistant"}
        busy={busy}
        state={state}
        place={places[message.id]}
        createdAt={times.get(message.id)}
        beneath={beneath}
        highlighted={found === message.id}
        actions={actions}
      />
    );
  };

  return layers.map((layer) =>
    layer.kind === "open" ? (
      view(layer.item, false)
    ) : (
      <Sheet
        key={layer.overlay.id}
        overlay={layer.overlay}
        count={layer.items.length}
        ghost={ghostText(layer.items)}
        raised={raised.has(layer.overlay.id)}
        onToggle={onToggle}
      >
        {raised.has(layer.overlay.id) && layer.items.map((message) => view(message, true))}
      </Sheet>
    ),
  );
});
