import { useState } from "react";
import type { ContextBlock } from "../api/types";
import { IconButton } from "../ui/Button";
import { formatTokens } from "../ui/format";

function kind(block: ContextBlock): string {
  if (block.searchable) return "searchable";
  if (block.loadable) return "loadable";
  return block.writable ? "the agent may write" : "read only";
}

function Usage({ block }: { block: ContextBlock }) {
  if (!block.maxTokens) return <span className="quiet">{formatTokens(block.tokens)} tokens</span>;
  return (
    <span className="usage-bar">
      <span
        className={`small-bar ${block.tokens > 0.9 * block.maxTokens ? "full" : ""}`}
        role="meter"
        aria-label={`Usage of ${block.label}`}
        aria-valuemin={0}
        aria-valuemax={block.maxTokens}
        aria-valuenow={block.tokens}
      >
        <i style={{ inlineSize: `${Math.min(100, (100 * block.tokens) / block.maxTokens)}%` }} />
      </span>
      <span className="quiet">{formatTokens(block.tokens)} / {formatTokens(block.maxTokens)}</span>
    </span>
  );
}

function Block({ block, onWrite }: { block: ContextBlock; onWrite: (label: string, content: string) => void }) {
  const [draft, setDraft] = useState<string | null>(null);
  const editable = block.writable && !block.searchable && !block.loadable;
  return (
    <li>
      <details>
        <summary>
          <span className="block-label">{block.label}</span>
          <Usage block={block} />
        </summary>
        <p className="quiet">{block.description ? `${block.description} ` : ""}({kind(block)})</p>
        {draft === null ? (
          <>
            {block.content ? <pre className="block-content" tabIndex={0} dir="auto">{block.content}</pre> : <p className="quiet">Empty.</p>}
            {editable && <IconButton icon="edit" label={`Edit ${block.label}`} showLabel onClick={() => setDraft(block.content ?? "")} />}
          </>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              onWrite(block.label, draft);
              setDraft(null);
            }}
          >
            <textarea aria-label={`Content of ${block.label}`} dir="auto" rows={8} value={draft} onChange={(event) => setDraft(event.target.value)} />
            <div className="row">
              <button type="submit" className="button primary">Save</button>
              <button type="button" className="button" onClick={() => setDraft(null)}>Cancel</button>
            </div>
          </form>
        )}
      </details>
    </li>
  );
}

export function ContextBlocks({ blocks, onWrite }: { blocks: ContextBlock[]; onWrite: (label: string, content: string) => void }) {
  if (blocks.length === 0) return <p className="quiet">This agent has no context blocks.</p>;
  return (
    <ul className="blocks">
      {blocks.map((block) => (
        <Block key={block.label} block={block} onWrite={onWrite} />
      ))}
    </ul>
  );
}
