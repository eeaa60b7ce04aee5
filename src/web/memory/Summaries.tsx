import { useMemo } from "react";
import type { Overlay, TimelineEntry } from "../api/types";
import { Markdown } from "../markdown/Markdown";
import { IconButton } from "../ui/Button";
import { formatFullTime, formatRelative, formatTokens } from "../ui/format";

interface Props {
  overlays: Overlay[];
  timeline: TimelineEntry[];
  onOpen: (messageId: string) => void;
  onRemove: (overlayId: string) => void;
}

export function Summaries({ overlays, timeline, onOpen, onRemove }: Props) {
  const numbers = useMemo(() => new Map(timeline.map((entry, index) => [entry.id, index + 1])), [timeline]);
  if (overlays.length === 0) return <p className="quiet">No summary has been laid over this conversation.</p>;
  const newestActive = overlays.findLast((overlay) => overlay.active)?.id;
  return (
    <ol className="summaries">
      {overlays.toReversed().map((overlay) => {
        const from = numbers.get(overlay.fromMessageId);
        const to = numbers.get(overlay.toMessageId);
        return (
          <li key={overlay.id} className={overlay.active ? "" : "covered"}>
            <details>
              <summary>
                <span>{from && to ? `Messages ${from} to ${to}` : "On another branch"}</span>
                <span className="quiet">
                  {overlay.tokensBefore && overlay.tokensAfter ? `${formatTokens(overlay.tokensBefore)} → ${formatTokens(overlay.tokensAfter)} · ` : ""}
                  {overlay.active ? "" : overlay.stale ? "no longer valid · " : "covered by a newer one · "}
                  <time dateTime={new Date(overlay.createdAt).toISOString()} title={formatFullTime(overlay.createdAt)}>{formatRelative(overlay.createdAt)}</time>
                </span>
              </summary>
              <Markdown text={overlay.summary} />
              <div className="row">
                {from !== undefined && (
                  <IconButton icon="lift" label="Read the originals" showLabel onClick={() => onOpen(overlay.fromMessageId)} />
                )}
                {overlay.id === newestActive && (
                  <IconButton icon="trash" label="Take this summary off" showLabel onClick={() => onRemove(overlay.id)} />
                )}
              </div>
            </details>
          </li>
        );
      })}
    </ol>
  );
}
