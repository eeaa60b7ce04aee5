import { useCallback, useEffect, useRef, useState, type RefObject } from "react";

/** How near the end (pixels) still counts as being at it. */
const nearEnd = 80;

export interface Scroll {
  area: RefObject<HTMLDivElement | null>;
  content: RefObject<HTMLDivElement | null>;
  atEnd: boolean;
  toEnd: (smooth?: boolean) => void;
  release: () => void;
}

/** Stays at the end of a growing text until the reader scrolls up. */
export function useScroll(): Scroll {
  const area = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const pinned = useRef(true);
  const lastTop = useRef(0);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback((smooth = false) => {
    const element = area.current;
    if (!element) return;
    pinned.current = true;
    setAtEnd(true);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    element.scrollTo({ top: element.scrollHeight, behavior: smooth && !calm ? "smooth" : "instant" });
  }, []);

  const release = useCallback(() => {
    pinned.current = false;
  }, []);

  useEffect(() => {
    const element = area.current;
    const inner = content.current;
    if (!element || !inner) return;
    const scrolled = () => {
      const gap = element.scrollHeight - element.scrollTop - element.clientHeight;
      const up = element.scrollTop < lastTop.current - 2;
      lastTop.current = element.scrollTop;
      if (gap < nearEnd) pinned.current = !up || gap < 4;
      else if (up) pinned.current = false;
      setAtEnd(gap < nearEnd);
    };
    const grown = new ResizeObserver(() => {
      if (pinned.current) element.scrollTop = element.scrollHeight;
      setAtEnd(element.scrollHeight - element.scrollTop - element.clientHeight < nearEnd);
    });
    element.addEventListener("scroll", scrolled, { passive: true });
    grown.observe(inner);
    grown.observe(element);
    return () => {
      element.removeEventListener("scroll", scrolled);
      grown.disconnect();
    };
  }, []);

  return { area, content, atEnd, toEnd, release };
}
