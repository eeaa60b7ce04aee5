// Messages written while an answer is still coming: kept in this tab (another tab
// would send them a second time), sent one by one as each answer ends, and shown
// as waiting until then.
import type { FileUIPart } from "ai";
import { useCallback, useEffect, useRef, useState } from "react";
import { readStored, writeStored } from "../app/storage";

export interface Waiting {
  id: string;
  text: string;
  files: FileUIPart[];
}

export interface Queue {
  waiting: Waiting[];
  add: (message: Waiting) => void;
  remove: (id: string) => void;
}

export function useQueue(session: string, ready: boolean, send: (message: Waiting) => Promise<void>): Queue {
  const key = `queue:${session}`;
  const [waiting, setWaiting] = useState<Waiting[]>(() => readStored<Waiting[]>(key, [], "tab"));
  const sending = useRef(false);

  const change = useCallback(
    (update: (all: Waiting[]) => Waiting[]) => {
      setWaiting((all) => {
        const next = update(all);
        // Files may be too large for the browser's store; the texts are what must survive.
        writeStored(key, next.length > 0 ? next.map((message) => ({ ...message, files: [] })) : undefined, "tab");
        return next;
      });
    },
    [key],
  );
  const add = useCallback((message: Waiting) => change((all) => [...all, message]), [change]);
  const remove = useCallback((id: string) => change((all) => all.filter((message) => message.id !== id)), [change]);

  useEffect(() => {
    const first = waiting[0];
    if (!ready || !first || sending.current) return;
    sending.current = true;
    remove(first.id);
    void send(first).finally(() => {
      sending.current = false;
    });
  }, [ready, waiting, send, remove]);

  return { waiting, add, remove };
}
