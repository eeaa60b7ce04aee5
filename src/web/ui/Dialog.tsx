import { useEffect, useRef, type ReactNode } from "react";
import { IconButton } from "./Button";

/** A modal dialog on the platform's own element: focus is kept inside, Escape closes. */
export function Dialog({
  title,
  onClose,
  className = "",
  children,
}: {
  title: string;
  onClose: () => void;
  className?: string;
  children: ReactNode;
}) {
  const reference = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = reference.current;
    if (dialog && !dialog.open) dialog.showModal();
    // The platform would focus the first button, which closes the dialog.
    dialog?.querySelector<HTMLElement>("[data-first-focus]")?.focus();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={reference}
      className={`dialog ${className}`}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
    >
      <div className="dialog-sheet">
        <header className="dialog-head">
          <h2>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}
