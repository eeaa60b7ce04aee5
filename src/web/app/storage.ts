// Small values kept in this browser. Storage may be blocked or full; the page
// then works without it.
import { useCallback, useState } from "react";

export function readStored<T>(key: string, fallback: T): T {
  try {
    const text = localStorage.getItem(`palimpsest:${key}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

export function writeStored(key: string, value: unknown): void {
  try {
    if (value === undefined || value === null || value === "") localStorage.removeItem(`palimpsest:${key}`);
    else localStorage.setItem(`palimpsest:${key}`, JSON.stringify(value));
  } catch {
    // Nothing is lost but the convenience.
  }
}

export function useStored<T>(key: string, fallback: T): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => readStored(key, fallback));
  const set = useCallback(
    (next: T) => {
      setValue(next);
      writeStored(key, next);
    },
    [key],
  );
  return [value, set];
}
