// How summaries lie over messages: the agent's own reading rule, in the page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut } from "../../../src/web/chat/layers.ts";

const items = Array.from({ length: 8 }, (_, index) => ({ id: `m${index}` }));
const overlay = (id, from, to) => ({ id, fromMessageId: `m${from}`, toMessageId: `m${to}`, summary: id, createdAt: 0, active: true });
const shown = (overlays, of = items) =>
  layOut(of, overlays).map((layer) => (layer.kind === "open" ? layer.item.id : `${layer.overlay.id}:${layer.items.map((item) => item.id[1]).join("")}`));

test("without a summary every message is open", () => {
  assert.deepEqual(shown([]), items.map((item) => item.id));
  assert.deepEqual(shown([], []), []);
});

test("the newest of two summaries with the same start lies on top", () => {
  assert.deepEqual(shown([overlay("old", 0, 2), overlay("new", 0, 5)]), ["new:012345", "m6", "m7"]);
});

test("a summary over one message, and two apart from each other", () => {
  assert.deepEqual(shown([overlay("a", 1, 1), overlay("b", 4, 6)]), ["m0", "a:1", "m2", "m3", "b:456", "m7"]);
});

test("a summary that begins inside another one is not seen", () => {
  assert.deepEqual(shown([overlay("inner", 2, 7), overlay("outer", 0, 3)]), ["outer:0123", "m4", "m5", "m6", "m7"]);
});

test("a summary whose ends are on another branch, or reversed, covers nothing", () => {
  const far = { ...overlay("far", 0, 2), toMessageId: "elsewhere" };
  assert.deepEqual(shown([far, overlay("reversed", 5, 3)]), items.map((item) => item.id));
});
