// Getting to one message: raising the summary that covers it, scrolling to it
// and marking it; or saying that it belongs to another branch.
import { useCallback, useEffect, useRef, useState } from "react";
import type { AgentApi } from "../api/client";
import type { ChatMessage, Overlay } from "../api/types";
import { useToasts } from "../ui/toasts";
import { layOut } from "./layers";

export interface Find {
  raised: ReadonlySet<string>;
  found: string | null;
  elsewhere: string | null;
  toggle: (overlayId: string) => void;
  showElsewhere: () => void;
  dismiss: () => void;
}

export function useFind(options: {
  api: AgentApi;
  session: string;
  messages: ChatMessage[];
  overlays: Overlay[];
  /** Whether the overlays are known: before that no message can be told from a covered one. */
  ready: boolean;
  target: { message: string | null; version: number };
  release: () => void;
  showBranch: (messageId: string) => void;
}): Find {
  const { api, session, messages, overlays, ready, target, release, showBranch } = options;
  const toasts = useToasts();
  const [raised, setRaised] = useState<ReadonlySet<string>>(new Set());
  const [found, setFound] = useState<string | null>(null);
  const [elsewhere, setElsewhere] = useState<string | null>(null);
  const handled = useRef<string | null>(null);
  const asked = useRef<string | null>(null);

  const toggle = useCallback(
    (overlayId: string) => {
      release();
      setRaised((all) => {
        const next = new Set(all);
        if (!next.delete(overlayId)) next.add(overlayId);
        return next;
      });
    },
    [release],
  );

  const key = target.message ? `${target.version}:${target.message}` : null;
  useEffect(() => {
    const id = target.message;
    if (!id || !key || !ready || handled.current === key) return;
    if (messages.some((message) => message.id === id)) {
      const cover = layOut(messages, overlays).find((layer) => layer.kind === "covered" && layer.items.some((item) => item.id === id));
      if (cover?.kind === "covered" && !raised.has(cover.overlay.id)) {
        setRaised((all) => new Set(all).add(cover.overlay.id));
        return; // Runs again once the originals are drawn.
      }
      handled.current = key;
      setElsewhere(null);
      setFound(id);
      release();
      requestAnimationFrame(() => {
        const element = document.getElementById(`message-${id}`);
        element?.scrollIntoView({ block: "center" });
        element?.focus({ preventScroll: true });
      });
    } else if (asked.current !== key) {
      asked.current = key;
      api.message(session, id).then(
        (stored) => setElsewhere(stored.onActivePath ? null : id),
        () => toasts.failure(new Error("That message is no longer there.")),
      );
    }
  }, [api, session, messages, overlays, ready, raised, target.message, key, release, toasts]);

  useEffect(() => {
    if (!found) return;
    const timer = setTimeout(() => setFound(null), 6000);
    return () => clearTimeout(timer);
  }, [found, key]);

  const showElsewhere = useCallback(() => {
    if (elsewhere) showBranch(elsewhere);
    setElsewhere(null);
  }, [elsewhere, showBranch]);

  return { raised, found, elsewhere, toggle, showElsewhere, dismiss: () => setElsewhere(null) };
}
