import { useCallback, useEffect, useRef, useState } from "react";
import type { AgentApi } from "../api/client";
import type { BranchPlace } from "../api/types";
import { useToasts } from "../ui/toasts";

export interface Branches {
  places: Record<string, BranchPlace>;
  switching: boolean;
  show: (messageId: string) => void;
  refresh: () => void;
}

/** The messages of the shown path that have other versions, and moving between them. */
export function useBranches(api: AgentApi, session: string): Branches {
  const [places, setPlaces] = useState<Record<string, BranchPlace>>({});
  const [switching, setSwitching] = useState(false);
  const running = useRef<AbortController | null>(null);
  const toasts = useToasts();

  const refresh = useCallback(() => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    // A failure leaves the old counts; the next change asks again.
    api.branches(session, controller.signal).then(setPlaces, () => undefined);
  }, [api, session]);

  useEffect(() => {
    refresh();
    return () => running.current?.abort();
  }, [refresh]);

  const show = useCallback(
    (messageId: string) => {
      setSwitching(true);
      api
        .switchBranch(session, messageId)
        .then(refresh, toasts.failure)
        .finally(() => setSwitching(false));
    },
    [api, session, refresh, toasts],
  );

  return { places, switching, show, refresh };
}
