// How summaries lie over a conversation. The rule is the one the agent itself
// reads by: at each message the newest summary that begins there, and whose end
// comes later on the same path, covers everything up to its end.
import type { Overlay } from "../api/types";

export type Layer<T> =
  | { kind: "open"; item: T }
  | { kind: "covered"; overlay: Overlay; items: T[]; firstIndex: number };

export function layOut<T extends { id: string }>(items: readonly T[], overlays: readonly Overlay[]): Layer<T>[] {
  const place = new Map(items.map((item, index) => [item.id, index]));
  const starting = new Map<string, { overlay: Overlay; end: number }>();
  // Oldest first, so that the newest of several with the same start stays.
  for (const overlay of overlays) {
    const start = place.get(overlay.fromMessageId);
    const end = place.get(overlay.toMessageId);
    if (start !== undefined && end !== undefined && end >= start) starting.set(overlay.fromMessageId, { overlay, end });
  }
  const layers: Layer<T>[] = [];
  for (let index = 0; index < items.length; index += 1) {
    const item = items[index]!;
    const cover = starting.get(item.id);
    if (cover) {
      layers.push({ kind: "covered", overlay: cover.overlay, items: items.slice(index, cover.end + 1), firstIndex: index });
      index = cover.end;
    } else {
      layers.push({ kind: "open", item });
    }
  }
  return layers;
}
