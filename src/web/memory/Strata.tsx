// The conversation as layers of text on one page: a line per message, as long
// as its tokens; covered messages are faint, under the sheet that covers them.
import { useMemo, useState } from "react";
import type { Overlay, TimelineEntry } from "../api/types";
import { layOut } from "../chat/layers";
import { formatTokens, plural } from "../ui/format";

interface Row {
  ids: string[];
  role: string;
  tokens: number;
  overlay: Overlay | null;
  /** Position in the conversation, from 1. */
  number: number;
}

/** More messages than this are drawn several to a line. */
const maxRows = 160;

/** Summaries that begin before the timeline does lie over its beginning. */
function clamped(timeline: TimelineEntry[], overlays: Overlay[], offset: number): Overlay[] {
  const first = timeline[0]?.id;
  if (offset === 0 || first === undefined) return overlays;
  return overlays.map((overlay) => {
    const { fromNumber: from, toNumber: to } = overlay;
    const reachesIn = overlay.active && from && to && from <= offset && to > offset;
    return reachesIn ? { ...overlay, fromMessageId: first } : overlay;
  });
}

function rowsOf(timeline: TimelineEntry[], overlays: Overlay[], offset: number): Row[] {
  const perRow = Math.ceil(timeline.length / maxRows) || 1;
  const rows: Row[] = [];
  let number = offset;
  for (const layer of layOut(timeline, clamped(timeline, overlays, offset))) {
    const overlay = layer.kind === "covered" ? layer.overlay : null;
    const items = layer.kind === "covered" ? layer.items : [layer.item];
    for (const item of items) {
      number += 1;
      const last = rows.at(-1);
      if (last && last.overlay === overlay && last.ids.length < perRow) {
        last.ids.push(item.id);
        last.tokens += item.tokens;
      } else {
        rows.push({ ids: [item.id], role: item.role, tokens: item.tokens, overlay, number });
      }
    }
  }
  return rows;
}

const speaker = (role: string): string => (role === "user" ? "You" : role === "assistant" ? "Agent" : role);

function rowText(row: Row, preview: string): string {
  const many = row.ids.length > 1 ? ` and ${row.ids.length - 1} more` : "";
  const covered = row.overlay ? ", under a summary" : "";
  return `Message ${row.number}${many}, ${speaker(row.role)}, ${plural(row.tokens, "token")}${covered}${preview ? `: ${preview}` : ""}`;
}

export function Strata({
  timeline,
  overlays,
  offset,
  previewOf,
  onOpen,
}: {
  timeline: TimelineEntry[];
  overlays: Overlay[];
  /** How many messages come before the timeline. */
  offset: number;
  previewOf: (messageId: string) => string;
  onOpen: (messageId: string) => void;
}) {
  const rows = useMemo(() => rowsOf(timeline, overlays, offset), [timeline, overlays, offset]);
  const [chosen, setChosen] = useState<number | null>(null);
  if (rows.length === 0) return <p className="quiet">Nothing has been written yet.</p>;
  const largest = Math.max(...rows.map((row) => row.tokens), 1);
  const position = Math.min(chosen ?? rows.length - 1, rows.length - 1);
  const row = rows[position]!;
  const move = (to: number) => setChosen(Math.max(0, Math.min(rows.length - 1, to)));
  const groups: Row[][] = [];
  for (const each of rows) {
    const last = groups.at(-1);
    if (last && last[0]!.overlay === each.overlay) last.push(each);
    else groups.push([each]);
  }
  let index = -1;
  return (
    <div className="strata-box">
      <div
        className="strata"
        role="slider"
        tabIndex={0}
        aria-label="Timeline of the conversation"
        aria-orientation="vertical"
        aria-valuemin={1}
        aria-valuemax={rows.length}
        aria-valuenow={position + 1}
        aria-valuetext={rowText(row, previewOf(row.ids[0]!))}
        onKeyDown={(event) => {
          const steps: Record<string, number> = { ArrowUp: position - 1, ArrowDown: position + 1, PageUp: position - 10, PageDown: position + 10, Home: 0, End: rows.length - 1 };
          const to = steps[event.key];
          if (to !== undefined) {
            event.preventDefault();
            move(to);
          } else if (event.key === "Enter") onOpen(row.ids[0]!);
        }}
        onMouseLeave={() => setChosen(null)}
      >
        {groups.map((group, groupIndex) => {
          const overlay = group[0]!.overlay;
          return (
            <div key={groupIndex} className={overlay ? "stratum covered" : "stratum"} {...(overlay ? { "data-overlay-id": overlay.id } : {})}>
              {group.map((each) => {
                index += 1;
                const place = index;
                return (
                  <div
                    key={each.ids[0]}
                    className={`line ${each.role} ${chosen === place ? "chosen" : ""}`}
                    data-message-id={each.ids[0]}
                    onMouseEnter={() => setChosen(place)}
                    onClick={() => onOpen(each.ids[0]!)}
                  >
                    <span style={{ inlineSize: `${6 + 94 * Math.sqrt(each.tokens / largest)}%` }} />
                  </div>
                );
              })}
            </div>
          );
        })}
      </div>
      <p className="strata-note" dir="auto" aria-hidden="true">
        {chosen === null ? (
          <span className="quiet">{offset > 0 ? "The newest " : ""}{plural(timeline.length, "message")}, oldest first. Choose a line to go to it.</span>
        ) : (
          <>
            <span className="quiet">{speaker(row.role)} · {formatTokens(row.tokens)} tokens{row.overlay ? " · covered" : ""}</span> {previewOf(row.ids[0]!)}
          </>
        )}
      </p>
    </div>
  );
}
