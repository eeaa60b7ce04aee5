import { getToolName } from "ai";
import { memo, useState } from "react";
import { Icon } from "../ui/Icon";
import { plural } from "../ui/format";
import type { ToolPart } from "./parts";

export type Decide = (approvalId: string, approved: boolean) => void;

/** Longer values are cut until asked for (UTF-16 units). */
const shownAtFirst = 4000;

function readable(name: string): string {
  return name.replace(/[_-]+/g, " ");
}

function stateText(part: ToolPart, running: boolean): { text: string; tone: "calm" | "ask" | "good" | "bad" } {
  switch (part.state) {
    case "input-streaming":
      return running ? { text: "preparing", tone: "calm" } : { text: "not finished", tone: "bad" };
    case "input-available":
      return running ? { text: "running", tone: "calm" } : { text: "no result", tone: "bad" };
    case "approval-requested":
      return { text: "waiting for your approval", tone: "ask" };
    case "approval-responded":
      return part.approval.approved ? { text: "approved", tone: "calm" } : { text: "denied", tone: "bad" };
    case "output-available":
      return { text: "done", tone: "good" };
    case "output-error":
      return { text: "failed", tone: "bad" };
    case "output-denied":
      return { text: "denied", tone: "bad" };
  }
}

function Value({ title, value }: { title: string; value: unknown }) {
  const [whole, setWhole] = useState(false);
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  const cut = !whole && text.length > shownAtFirst;
  return (
    <div className="tool-value">
      <h5>{title}</h5>
      <pre tabIndex={0} dir="auto">{cut ? `${text.slice(0, shownAtFirst)}…` : text}</pre>
      {cut && (
        <button type="button" className="text-button" onClick={() => setWhole(true)}>
          Show all {plural(text.length, "character")}
        </button>
      )}
    </div>
  );
}

const ToolCall = memo(({ part, running, decide }: { part: ToolPart; running: boolean; decide: Decide }) => {
  const name = getToolName(part);
  const state = stateText(part, running);
  const asks = part.state === "approval-requested";
  return (
    <div className={`tool tone-${state.tone}`} data-tool={name} data-state={part.state}>
      <details open={asks || undefined}>
        <summary>
          <Icon name="tool" />
          <span className="tool-name">{part.title ?? readable(name)}</span>
          <span className="tool-state">{state.text}</span>
        </summary>
        {part.input !== undefined && <Value title="Input" value={part.input} />}
        {part.state === "output-available" && <Value title={part.preliminary ? "Output so far" : "Output"} value={part.output} />}
        {part.state === "output-error" && <Value title="Error" value={part.errorText} />}
      </details>
      {asks && (
        <div className="tool-ask" role="group" aria-label={`Approval for ${readable(name)}`}>
          <span>The agent asks to run this.</span>
          <button type="button" className="button primary" onClick={() => decide(part.approval.id, true)}>Approve</button>
          <button type="button" className="button" onClick={() => decide(part.approval.id, false)}>Deny</button>
        </div>
      )}
    </div>
  );
});

export function ToolCalls({ parts, running, decide }: { parts: ToolPart[]; running: boolean; decide: Decide }) {
  return (
    <div className="tools" role="group" aria-label={plural(parts.length, "tool call")}>
      {parts.map((part) => (
        <ToolCall key={part.toolCallId} part={part} running={running} decide={decide} />
      ))}
    </div>
  );
}
