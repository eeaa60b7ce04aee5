import { useState } from "react";
import type { Overlay } from "../api/types";
import { Markdown } from "../markdown/Markdown";
import { IconButton } from "../ui/Button";
import { formatFullTime, formatRelative, formatTokens } from "../ui/format";
import { useToasts } from "../ui/toasts";

interface Props {
  overlays: Overlay[];
  /** Reads the whole text of a summary. */
  read: (overlayId: string) => Promise<string>;
  onOpen: (messageId: string) => void;
  onRemove: (overlayId: string) => void;
}

function Text({ overlay, read }: { overlay: Overlay; read: Props["read"] }) {
  const [whole, setWhole] = useState<string | null>(null);
  const toasts = useToasts();
  return (
    <>
      <Markdown text={whole ?? overlay.summary} />
      {overlay.summaryTruncated && whole === null && (
        <IconButton icon="down" label="Read all of this summary" showLabel onClick={() => void read(overlay.id).then(setWhole, toasts.failure)} />
      )}
    </>
  );
}

export function Summaries({ overlays, read, onOpen, onRemove }: Props) {
  if (overlays.length === 0) return <p className="quiet">No summary has been laid over this conversation.</p>;
  const newestActive = overlays.findLast((overlay) => overlay.active)?.id;
  return (
    <ol className="summaries">
      {overlays.toReversed().map((overlay) => {
        const { fromNumber: from, toNumber: to } = overlay;
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
              <Text overlay={overlay} read={read} />
              <div className="row">
                {typeof from === "number" && (
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
