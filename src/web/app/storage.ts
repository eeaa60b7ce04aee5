// Small values kept in this browser, for every tab or only for this one. Storage
// may be blocked or full; the page then works without it.
import { useCallback, useState } from "react";

export type Place = "browser" | "tab";

const storageOf = (place: Place): Storage => (place === "tab" ? sessionStorage : localStorage);

export function readStored<T>(key: string, fallback: T, place: Place = "browser"): T {
  try {
    const text = storageOf(place).getItem(`palimpsest:${key}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

export function writeStored(key: string, value: unknown, place: Place = "browser"): void {
  try {
    if (value === undefined || value === null || value === "") storageOf(place).removeItem(`palimpsest:${key}`);
    else storageOf(place).setItem(`palimpsest:${key}`, JSON.stringify(value));
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
