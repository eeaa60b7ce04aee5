// Loaded only when a message holds a formula. Temml builds MathML elements,
// which the browser draws itself.
import temml from "temml";
import { useEffect, useRef } from "react";

export default function Maths({ source, display }: { source: string; display: boolean }) {
  const reference = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const element = reference.current;
    if (!element) return;
    try {
      temml.render(source, element, { displayMode: display, throwOnError: true, trust: false, maxSize: [20, 200], maxExpand: 500 });
    } catch {
      element.textContent = source;
    }
  }, [source, display]);
  return <span ref={reference} className={display ? "maths display" : "maths"} />;
}
