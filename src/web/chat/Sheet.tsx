// The palimpsest: a summary written over older messages. Closed, the old text
// shows faintly through the sheet; raised, the originals can be read beneath.
import { memo, useId, type ReactNode } from "react";
import type { Overlay } from "../api/types";
import { Markdown } from "../markdown/Markdown";
import { IconButton } from "../ui/Button";
import { formatFullTime, formatTime, formatTokens, plural } from "../ui/format";

interface Props {
  overlay: Overlay;
  count: number;
  /** Text of the covered messages, drawn as the faint layer (never read out). */
  ghost: string;
  raised: boolean;
  onToggle: (overlayId: string) => void;
  children: ReactNode;
}

function Measure({ overlay }: { overlay: Overlay }) {
  if (!overlay.tokensBefore || !overlay.tokensAfter) return null;
  return (
    <span>
      {formatTokens(overlay.tokensBefore)} → {formatTokens(overlay.tokensAfter)} tokens
    </span>
  );
}

export const Sheet = memo(({ overlay, count, ghost, raised, onToggle, children }: Props) => {
  const heading = useId();
  return (
    <section className={`palimpsest ${raised ? "raised" : ""}`} aria-labelledby={heading} data-overlay-id={overlay.id} id={`sheet-${overlay.id}`} tabIndex={-1}>
      <div className="sheet">
        {!raised && (
          <div className="ghost" aria-hidden="true">
            <p>{ghost}</p>
          </div>
        )}
        <header className="sheet-head">
          <h2 id={heading}>Summary over {plural(count, "message")}</h2>
          <p className="sheet-facts">
            <Measure overlay={overlay} />
            <time dateTime={new Date(overlay.createdAt).toISOString()} title={formatFullTime(overlay.createdAt)}>{formatTime(overlay.createdAt)}</time>
          </p>
        </header>
        <div className="sheet-text" tabIndex={0} role="group" aria-label="Summary">
          <Markdown text={overlay.summary} />
        </div>
        <IconButton
          className="sheet-toggle"
          icon={raised ? "lay" : "lift"}
          label={raised ? "Lay the summary back" : `Read the ${plural(count, "original")} beneath`}
          showLabel
          aria-expanded={raised}
          onClick={() => onToggle(overlay.id)}
        />
      </div>
      {raised && (
        <div className="originals" role="group" aria-label="Original messages beneath the summary">
          {children}
        </div>
      )}
    </section>
  );
});
