// Short notices at the edge of the page: results of actions, with an undo where
// one exists, and failures in plain words.
import { createContext, useCallback, useContext, useMemo, useRef, useState, type ReactNode } from "react";
import { IconButton } from "./Button";

interface Toast {
  id: number;
  text: string;
  kind: "note" | "failure";
  action?: { label: string; run: () => void };
}

interface Toasts {
  note: (text: string, action?: Toast["action"]) => void;
  failure: (error: unknown) => void;
}

const ToastContext = createContext<Toasts | null>(null);

export function useToasts(): Toasts {
  const toasts = useContext(ToastContext);
  if (!toasts) throw new Error("useToasts needs a ToastProvider above it");
  return toasts;
}

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const counter = useRef(0);
  const dismiss = useCallback((id: number) => setToasts((all) => all.filter((toast) => toast.id !== id)), []);
  const add = useCallback(
    (toast: Omit<Toast, "id">) => {
      const id = ++counter.current;
      setToasts((all) => [...all.slice(-2), { ...toast, id }]);
      setTimeout(() => dismiss(id), toast.action || toast.kind === "failure" ? 12_000 : 5_000);
    },
    [dismiss],
  );
  const value = useMemo<Toasts>(
    () => ({
      note: (text, action) => add({ text, kind: "note", ...(action ? { action } : {}) }),
      failure: (error) => add({ text: error instanceof Error ? error.message : String(error), kind: "failure" }),
    }),
    [add],
  );
  return (
    <ToastContext value={value}>
      {children}
      <div className="toasts" role="status">
        {toasts.map((toast) => (
          <div key={toast.id} className={`toast ${toast.kind}`}>
            <span>{toast.text}</span>
            {toast.action && (
              <button
                type="button"
                className="text-button"
                onClick={() => {
                  toast.action?.run();
                  dismiss(toast.id);
                }}
              >
                {toast.action.label}
              </button>
            )}
            <IconButton icon="close" label="Dismiss" onClick={() => dismiss(toast.id)} />
          </div>
        ))}
      </div>
    </ToastContext>
  );
}
