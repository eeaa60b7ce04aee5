import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { AgentApi } from "../api/client";
import type { Memory } from "../api/types";
import { useFrames, type Agent } from "../chat/useConnection";
import { formatTokens } from "../ui/format";
import { useToasts } from "../ui/toasts";

export interface MemoryState extends Memory {
  loaded: boolean;
  /** The last failure to read the memory, for the panel to show. */
  problem: string | null;
  refresh: () => void;
  compact: () => void;
}

const nothing: Memory = {
  phase: "idle", tokenEstimate: 0, tokenThreshold: null, tokenBudget: null, model: null, lastError: null, timeline: [],
  overlays: [], context: [], systemPromptTokens: 0, checkpoints: [], schedules: [],
};

const frameTypes = ["cf_agent_session", "cf_agent_session_error", "cf_agent_chat_messages", "cf_agent_chat_clear"] as const;

/** Several changes close together cause one reading (milliseconds). */
const settle = 150;

/** Whether further steps of a long backlog follow. */
const goesOn = (compacted: unknown): boolean => Boolean((compacted as { tokensRemaining?: number } | undefined)?.tokensRemaining);

/** What the agent remembers, kept current by the frames it sends. */
export function useMemory(agent: Agent, api: AgentApi, session: string): MemoryState {
  const [memory, setMemory] = useState<Memory>(nothing);
  const [loaded, setLoaded] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const toasts = useToasts();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const running = useRef<AbortController | null>(null);

  const refresh = useCallback(() => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      running.current?.abort();
      const controller = new AbortController();
      running.current = controller;
      api.memory(session, controller.signal).then(
        (next) => {
          setMemory(next);
          setLoaded(true);
          setProblem(null);
        },
        (error: unknown) => {
          if (!controller.signal.aborted) setProblem(error instanceof Error ? error.message : String(error));
        },
      );
    }, settle);
  }, [api, session]);

  useEffect(() => {
    refresh();
    const opened = () => refresh();
    agent.addEventListener("open", opened);
    return () => {
      agent.removeEventListener("open", opened);
      clearTimeout(timer.current);
      running.current?.abort();
    };
  }, [agent, refresh]);

  const onFrame = useCallback(
    (frame: Record<string, unknown>) => {
      if (frame.type === "cf_agent_session") {
        setMemory((old) => ({
          ...old,
          phase: frame.phase === "compacting" || goesOn(frame.compacted) ? "compacting" : "idle",
          tokenEstimate: typeof frame.tokenEstimate === "number" ? frame.tokenEstimate : old.tokenEstimate,
          tokenThreshold: typeof frame.tokenThreshold === "number" ? frame.tokenThreshold : old.tokenThreshold,
        }));
        if (frame.phase === "idle") refresh();
      } else if (frame.type === "cf_agent_session_error") {
        const error = String(frame.error ?? "unknown reason");
        setMemory((old) => ({ ...old, lastError: error }));
        toasts.failure(new Error(`Summarizing failed: ${error} Nothing was changed.`));
        refresh();
      } else refresh();
    },
    [refresh, toasts],
  );
  useFrames(agent, frameTypes, onFrame);

  const compact = useCallback(() => {
    setMemory((old) => ({ ...old, phase: "compacting" }));
    api
      .compact(session)
      .then((result) => {
        if (!result.compacted) toasts.note(result.reason ?? "There is nothing to summarize yet.");
        else if (result.tokensBefore !== undefined && result.tokensAfter !== undefined)
          toasts.note(
            `Summarized: ${formatTokens(result.tokensBefore)} → ${formatTokens(result.tokensAfter)} tokens.` +
              (result.tokensRemaining ? ` ${formatTokens(result.tokensRemaining)} more follow in the background.` : ""),
          );
        else toasts.note("Older messages were summarized.");
      }, toasts.failure)
      .finally(() => {
        setMemory((old) => ({ ...old, phase: "idle" }));
        refresh();
      });
  }, [api, session, refresh, toasts]);

  return useMemo(() => ({ ...memory, loaded, problem, refresh, compact }), [memory, loaded, problem, refresh, compact]);
}
