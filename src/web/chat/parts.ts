import { isToolUIPart, type DynamicToolUIPart, type ToolUIPart } from "ai";
import type { ChatMessage, MessagePart } from "../api/types";

export type ToolPart = ToolUIPart | DynamicToolUIPart;

export type Piece =
  | { kind: "text"; text: string; streaming: boolean }
  | { kind: "reasoning"; text: string; streaming: boolean }
  | { kind: "tools"; parts: ToolPart[] }
  | { kind: "file"; mediaType: string; url: string; name: string }
  | { kind: "sources"; sources: { title: string; url: string | null }[] };

function source(part: MessagePart): { title: string; url: string | null } | null {
  if (part.type === "source-url") return { title: part.title ?? part.url, url: part.url };
  if (part.type === "source-document") return { title: part.title, url: null };
  return null;
}

/** The parts of a message as they are drawn: tool calls next to each other form one group, and so do sources. */
export function pieces(message: ChatMessage): Piece[] {
  const all: Piece[] = [];
  for (const part of message.parts) {
    const last = all.at(-1);
    const cited = source(part);
    if (isToolUIPart(part)) {
      if (last?.kind === "tools") last.parts.push(part);
      else all.push({ kind: "tools", parts: [part] });
    } else if (cited) {
      if (last?.kind === "sources") last.sources.push(cited);
      else all.push({ kind: "sources", sources: [cited] });
    } else if (part.type === "text" || part.type === "reasoning") {
      if (part.text.trim() || part.state === "streaming")
        all.push({ kind: part.type, text: part.text, streaming: part.state === "streaming" });
    } else if (part.type === "file") {
      all.push({ kind: "file", mediaType: part.mediaType, url: part.url, name: part.filename ?? "file" });
    }
  }
  return all;
}

/** The words of a message, as copied and as read out. */
export function plainText(message: ChatMessage): string {
  return message.parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n\n");
}
