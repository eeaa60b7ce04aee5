// Where the page is: `#/SESSION` or `#/SESSION?m=MESSAGE`. The hash carries it
// so that the page needs no routes on the server and every place is a link.
import { useSyncExternalStore } from "react";

export interface Route {
  session: string;
  /** The message to show, from a deep link or a search hit. */
  message: string | null;
}

export function parseRoute(hash: string): Route {
  const match = /^#\/([^?]*)(?:\?(.*))?$/.exec(hash);
  if (!match) return { session: "", message: null };
  let session = "";
  try {
    session = decodeURIComponent(match[1] ?? "");
  } catch {
    // A mangled link opens the default session instead of failing.
  }
  return { session, message: new URLSearchParams(match[2] ?? "").get("m") };
}

export function routeHref(session: string, message?: string): string {
  const query = message ? `?${new URLSearchParams({ m: message }).toString()}` : "";
  return `#/${encodeURIComponent(session)}${query}`;
}

export function go(session: string, message?: string): void {
  const href = routeHref(session, message);
  // The same target again (a second click on a search hit) must still act.
  if (location.hash === href) window.dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = href;
}

let version = 0;
let current = { route: parseRoute(location.hash), version };

function subscribe(listener: () => void): () => void {
  const changed = () => {
    version += 1;
    current = { route: parseRoute(location.hash), version };
    listener();
  };
  window.addEventListener("hashchange", changed);
  return () => window.removeEventListener("hashchange", changed);
}

/** The present route and a number that grows at each navigation. */
export function useRoute(): { route: Route; version: number } {
  return useSyncExternalStore(subscribe, () => current);
}
