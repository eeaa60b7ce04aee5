import { useEffect, useRef, useState } from "react";

/** A past message being rewritten; sending it makes a new branch. */
export function EditBox({ text, onSave, onCancel }: { text: string; onSave: (text: string) => void; onCancel: () => void }) {
  const [value, setValue] = useState(text);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, [text]);
  const save = () => {
    if (value.trim()) onSave(value.trim());
  };
  return (
    <form
      className="edit"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <textarea
        ref={area}
        aria-label="Edit message"
        dir="auto"
        rows={Math.min(12, value.split("\n").length + 1)}
        value={value}
        onChange={(event) => setValue(event.target.value)}
        onKeyDown={(event) => {
          if (event.nativeEvent.isComposing) return;
          if (event.key === "Escape") {
            event.stopPropagation();
            onCancel();
          } else if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            save();
          }
        }}
      />
      <p className="quiet">The old version and its answers stay, as another branch.</p>
      <div className="row">
        <button type="submit" className="button primary" disabled={!value.trim()}>Send as new version</button>
        <button type="button" className="button" onClick={onCancel}>Cancel</button>
      </div>
    </form>
  );
}
