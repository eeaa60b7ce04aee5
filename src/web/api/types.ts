// Shapes of the agent's HTTP endpoints (docs: "The chat over HTTP"). All times
// are milliseconds since 1970; all token counts are estimates unless a model
// reported them.
import type { UIMessage } from "ai";

export interface MessageMetadata {
  createdAt?: number | string;
  model?: string;
  finishReason?: string;
  usage?: { inputTokens?: number; outputTokens?: number; totalTokens?: number };
}

export type ChatMessage = UIMessage<MessageMetadata>;
export type MessagePart = ChatMessage["parts"][number];

export interface SessionInfo {
  id: string;
  name: string;
  createdAt: number;
  updatedAt: number;
  messageCount?: number;
  parentSessionId?: string | null;
  preview?: string | null;
}

export interface BranchPlace {
  index: number;
  total: number;
  siblings: string[];
}

export interface TimelineEntry {
  id: string;
  role: string;
  tokens: number;
  createdAt: number;
}

export interface Overlay {
  id: string;
  fromMessageId: string;
  toMessageId: string;
  /** Positions in the conversation, from 1; null where the message is on another branch. */
  fromNumber?: number | null;
  toNumber?: number | null;
  summary: string;
  /** Only the beginning of the text is here. */
  summaryTruncated?: boolean;
  createdAt: number;
  tokensBefore?: number | null;
  tokensAfter?: number | null;
  /** A message beneath was forgotten on request, so the summary no longer counts. */
  stale?: boolean;
  active: boolean;
}

export interface ContextBlock {
  label: string;
  description?: string | null;
  content: string | null;
  tokens: number;
  maxTokens?: number | null;
  writable: boolean;
  searchable: boolean;
  loadable: boolean;
}

export interface Checkpoint {
  id: string;
  createdAt: number;
  messageId?: string | null;
  reason?: string | null;
  tokens?: number | null;
}

export interface Schedule {
  id: string;
  callback: string;
  type: string;
  timeMs: number;
  status?: string;
  payload?: unknown;
}

export interface Memory {
  phase: "idle" | "compacting";
  tokenEstimate: number;
  tokenThreshold: number | null;
  tokenBudget: number | null;
  model: string | null;
  lastError: string | null;
  timeline: TimelineEntry[];
  /** Only the newest messages are in the timeline. */
  timelineTruncated?: boolean;
  /** How many messages come before them. */
  timelineOffset?: number;
  overlays: Overlay[];
  context: ContextBlock[];
  systemPromptTokens: number;
  checkpoints: Checkpoint[];
  schedules: Schedule[];
  stats?: { messages: number; bytes: number };
  limits?: { maxMessageBytes: number; maxAttachmentBytes: number };
}

export interface CompactResult {
  compacted: boolean;
  tokensBefore?: number;
  tokensAfter?: number;
  /** Tokens of a long backlog that the agent goes on summarizing in the background. */
  tokensRemaining?: number;
  overlayId?: string;
  reason?: string;
}

export interface SearchHit {
  sessionId: string;
  sessionName: string;
  messageId: string;
  role: string;
  createdAt: number;
  score: number;
  /** Plain text; a hit starts at U+E000 and ends at U+E001. */
  snippet: string;
  onActivePath?: boolean;
  compacted?: boolean;
}

export interface StoredMessage {
  message: ChatMessage;
  leafId: string;
  onActivePath: boolean;
}
