import { memo, type ReactNode } from "react";
import type { AgentApi } from "../api/client";
import type { Schedule } from "../api/types";
import { IconButton } from "../ui/Button";
import { formatBytes, formatFullTime, formatRelative, formatTokens, plural } from "../ui/format";
import { useToasts } from "../ui/toasts";
import { ContextBlocks } from "./ContextBlocks";
import { Meter } from "./Meter";
import { Strata } from "./Strata";
import { Summaries } from "./Summaries";
import type { MemoryState } from "./useMemory";

function Section({ title, count, children }: { title: string; count?: number; children: ReactNode }) {
  return (
    <section className="panel-section" aria-label={title}>
      <h3>
        {title} {count !== undefined && count > 0 && <span className="count">{count}</span>}
      </h3>
      {children}
    </section>
  );
}

function Checkpoints({ memory, onOpen }: { memory: MemoryState; onOpen: (id: string) => void }) {
  if (memory.checkpoints.length === 0) return <p className="quiet">None stored.</p>;
  return (
    <ul className="plain-list">
      {memory.checkpoints.map((checkpoint) => (
        <li key={checkpoint.id}>
          <span>{checkpoint.reason ?? "Checkpoint"}</span>
          <span className="quiet">
            {checkpoint.tokens ? `${formatTokens(checkpoint.tokens)} tokens · ` : ""}
            <time title={formatFullTime(checkpoint.createdAt)}>{formatRelative(checkpoint.createdAt)}</time>
          </span>
          {checkpoint.messageId && (
            <IconButton icon="right" label="Go to the message of this checkpoint" onClick={() => onOpen(checkpoint.messageId!)} />
          )}
        </li>
      ))}
    </ul>
  );
}

const ownJobs: Record<string, string> = {
  "session.compaction": "Summarize older messages",
  "chat:sweep": "Clear finished streams",
  "chat:wake": "Go on with waiting messages",
  "chat:delete": "Delete a chat for good",
};

/** Work without which turns would wait and chunks stay for ever: the agent refuses to cancel it. */
const keptJobs = new Set(["chat:sweep", "chat:wake"]);

/** What a job does: the user's own callback, or one of the agent's own jobs in plain words. */
function jobName(schedule: Schedule): string {
  const callback = (schedule.payload as { callback?: unknown } | null | undefined)?.callback;
  return typeof callback === "string" ? callback : (ownJobs[schedule.callback] ?? schedule.callback);
}

function mayCancel(schedule: Schedule): boolean {
  return schedule.status === "dead" || !keptJobs.has(schedule.callback);
}

function Schedules({ memory, cancel }: { memory: MemoryState; cancel: (id: string) => void }) {
  if (memory.schedules.length === 0) return <p className="quiet">Nothing is scheduled.</p>;
  return (
    <ul className="plain-list">
      {memory.schedules.map((schedule) => (
        <li key={schedule.id}>
          <span>{jobName(schedule)}</span>
          <span className="quiet">
            {schedule.status ?? schedule.type} · <time title={formatFullTime(schedule.timeMs)}>{formatRelative(schedule.timeMs)}</time>
          </span>
          {mayCancel(schedule) && (
            <IconButton icon="close" label={`Cancel ${jobName(schedule)}`} onClick={() => cancel(schedule.id)} />
          )}
        </li>
      ))}
    </ul>
  );
}

interface Props {
  api: AgentApi;
  session: string;
  memory: MemoryState;
  previewOf: (messageId: string) => string;
  onOpen: (messageId: string) => void;
  onClose: () => void;
}

export const MemoryPanel = memo(
  ({ api, session, memory, previewOf, onOpen, onClose }: Props) => {
    const toasts = useToasts();
    const then = (action: Promise<unknown>) => void action.then(memory.refresh, toasts.failure);
    const compacting = memory.phase === "compacting";
    return (
      <>
        <header className="panel-head">
          <h2>Memory</h2>
          <IconButton icon="close" label="Close memory" className="panel-close" onClick={onClose} />
        </header>
        <div className="panel-body">
          {memory.problem && <p className="notice failure" role="alert">{memory.problem}</p>}
          {!memory.loaded && !memory.problem ? (
            <p className="quiet">Reading…</p>
          ) : (
            <>
              <Section title="Context">
                <Meter memory={memory} />
                <div className="row compaction" data-phase={memory.phase}>
                  <span className="phase" role="status">{compacting ? "Summarizing older messages…" : "At rest"}</span>
                  <IconButton icon="lay" label="Compact now" showLabel disabled={compacting} onClick={memory.compact} />
                </div>
                {memory.lastError && <p className="notice failure">Last attempt failed: {memory.lastError}</p>}
              </Section>
              <Section title="Layers">
                <Strata
                  timeline={memory.timeline}
                  overlays={memory.overlays}
                  offset={memory.timelineOffset ?? 0}
                  previewOf={previewOf}
                  onOpen={onOpen}
                />
              </Section>
              <Section title="Summaries" count={memory.overlays.length}>
                <Summaries
                  overlays={memory.overlays}
                  read={(id) => api.overlay(session, id).then((answer) => answer.summary)}
                  onOpen={onOpen}
                  onRemove={(id) => then(api.removeOverlay(session, id))}
                />
              </Section>
              <Section title="Context blocks" count={memory.context.length}>
                <ContextBlocks blocks={memory.context} onWrite={(label, content) => then(api.writeContext(session, label, content))} />
              </Section>
              <Section title="Checkpoints" count={memory.checkpoints.length}>
                <Checkpoints memory={memory} onOpen={onOpen} />
              </Section>
              <Section title="Schedules" count={memory.schedules.length}>
                <Schedules memory={memory} cancel={(id) => then(api.cancelSchedule(session, id))} />
              </Section>
              {memory.stats && (
                <p className="quiet stats">
                  {plural(memory.stats.messages, "message")} kept, {formatBytes(memory.stats.bytes)}
                  {memory.model ? ` · ${memory.model}` : ""}
                </p>
              )}
            </>
          )}
        </div>
      </>
    );
  },
);
