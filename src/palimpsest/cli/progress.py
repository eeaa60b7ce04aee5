"""What of a stream that is replayed, or written anew, was not handed on before.

A replay begins at the first chunk, and deltas of one text that follow each other are joined in
storage. An answer that the agent takes up again after a crash has its last text written anew. So
texts are compared by what was handed on of them, and other chunks are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_DELTAS = {
    "text-delta": ("id", "delta"),
    "reasoning-delta": ("id", "delta"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
}
"""Chunks that can be joined: the field that tells which text they belong to, and their text."""

RESTART = "restart"
"""A chunk of our own: what was handed on is void, the answer is written anew and differs."""

_Key = tuple[str, str]


@dataclass(slots=True)
class Progress:
    """How much of one stream was handed on."""

    texts: dict[_Key, str] = field(default_factory=lambda: dict[_Key, str]())
    """What was handed on of each text."""
    chunks: Counter[_Key] = field(default_factory=lambda: Counter[_Key]())
    """How many of each other chunk were handed on."""
    _place: dict[_Key, int] = field(default_factory=lambda: dict[_Key, int]())
    """Where the stream is in each text, since it last began."""
    _passed: Counter[_Key] = field(default_factory=lambda: Counter[_Key]())

    def unseen(self, chunk: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The chunk, what of it is new, or nothing; after :data:`RESTART` the whole text."""
        kind = str(chunk.get("type"))
        if kind == "start":
            self._place.clear()
            self._passed.clear()
        fields = _DELTAS.get(kind)
        if fields is not None:
            return self._delta(chunk, (kind, str(chunk.get(fields[0]))), fields[1])
        key = (kind, str(chunk.get("toolCallId") or chunk.get("id") or ""))
        self._passed[key] += 1
        if self._passed[key] <= self.chunks[key]:
            return []
        self.chunks[key] += 1
        return [dict(chunk)]

    def _delta(self, chunk: Mapping[str, Any], key: _Key, name: str) -> list[dict[str, Any]]:
        text = str(chunk.get(name, ""))
        place, handed = self._place.get(key, 0), self.texts.get(key, "")
        self._place[key] = place + len(text)
        overlap = handed[place : place + len(text)]
        if text.startswith(overlap):
            rest = text[len(overlap) :]
            self.texts[key] = handed + rest
            return [{**chunk, name: rest}] if rest else []
        begun = handed[:place] + text
        self.texts = {key: begun}
        return [{"type": RESTART}, {**chunk, name: begun}]
