import { formatTokens } from "../ui/format";
import type { MemoryState } from "./useMemory";

interface Band {
  name: string;
  tokens: number;
  kind: "prompt" | "summary" | "messages";
}

/** What the context of the next turn is made of, in tokens. */
function bands(memory: MemoryState): Band[] {
  const summaries = memory.overlays
    .filter((overlay) => overlay.active)
    .reduce((sum, overlay) => sum + (overlay.tokensAfter ?? 0), 0);
  const prompt = Math.min(memory.systemPromptTokens, memory.tokenEstimate);
  const laid = Math.min(summaries, memory.tokenEstimate - prompt);
  const all: Band[] = [
    { name: "Instructions and context", tokens: prompt, kind: "prompt" },
    { name: "Summaries", tokens: laid, kind: "summary" },
    { name: "Messages", tokens: Math.max(0, memory.tokenEstimate - prompt - laid), kind: "messages" },
  ];
  return all.filter((band) => band.tokens > 0);
}

/** What the end of the bar stands for: the budget, or a little past the trigger where that is far below it. */
export function meterScale({ tokenEstimate, tokenThreshold, tokenBudget }: MemoryState): number {
  const budget = tokenBudget ?? Number.POSITIVE_INFINITY;
  const trigger = tokenThreshold === null ? Number.POSITIVE_INFINITY : tokenThreshold / 0.85;
  const nearer = Math.min(budget, trigger);
  return Math.max(Number.isFinite(nearer) ? nearer : 0, tokenEstimate, 1);
}

export function Meter({ memory }: { memory: MemoryState }) {
  const { tokenEstimate, tokenThreshold, tokenBudget } = memory;
  const scale = meterScale(memory);
  const limit = tokenBudget ?? tokenThreshold;
  const share = (tokens: number) => `${(100 * tokens) / scale}%`;
  const parts = bands(memory);
  return (
    <div className="meter">
      <p className="meter-figure">
        <strong>{formatTokens(tokenEstimate)}</strong>
        {limit ? <span> of {formatTokens(limit)} tokens</span> : <span> tokens</span>}
      </p>
      <div
        className="meter-bar"
        role="meter"
        aria-label="Context used"
        aria-valuemin={0}
        aria-valuemax={scale}
        aria-valuenow={tokenEstimate}
        aria-valuetext={`${formatTokens(tokenEstimate)}${limit ? ` of ${formatTokens(limit)}` : ""} tokens`}
      >
        {parts.map((part) => (
          <span key={part.kind} className={`band ${part.kind}`} style={{ inlineSize: share(part.tokens) }} />
        ))}
        {tokenThreshold !== null && (
          <span className="threshold" style={{ insetInlineStart: share(tokenThreshold) }} />
        )}
      </div>
      <ul className="meter-key">
        {parts.map((part) => (
          <li key={part.kind}>
            <i className={`swatch ${part.kind}`} /> {part.name} <span>{formatTokens(part.tokens)}</span>
          </li>
        ))}
        {tokenThreshold !== null && (
          <li>
            <i className="swatch threshold" /> Summarizes at <span>{formatTokens(tokenThreshold)}</span>
          </li>
        )}
      </ul>
    </div>
  );
}
