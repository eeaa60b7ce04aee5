"""What of a replayed stream is new.

A replay begins at the first chunk. Whole chunks keep their sequence numbers; deltas that follow
each other are joined in storage, so of those it is counted how many characters were handed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_DELTAS = {
    "text-delta": ("id", "delta"),
    "reasoning-delta": ("id", "delta"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
}
"""Chunks that can be joined: the field that tells which text they belong to, and their text."""

_Key = tuple[str, str]


@dataclass(slots=True)
class Progress:
    """How much of one stream was handed on."""

    seen: int = -1
    """The greatest sequence number handed on."""
    handed: dict[_Key, int] = field(default_factory=lambda: dict[_Key, int]())
    """Characters handed on of each text."""
    replayed: dict[_Key, int] = field(default_factory=lambda: dict[_Key, int]())
    """Characters that the present replay has passed of each text."""

    def begin(self, replayed: bool) -> None:
        """The stream starts, or is replayed once more."""
        if replayed:
            self.replayed.clear()

    def unseen(
        self, chunk: Mapping[str, Any], sequence: Any, replayed: bool
    ) -> dict[str, Any] | None:
        """The chunk, or what of it was not handed on yet; None if nothing.

        :param sequence: the frame's sequence number, if it has one.
        """
        number = sequence if isinstance(sequence, int) else None
        known = number is not None and number <= self.seen
        if number is not None:
            self.seen = max(self.seen, number)
        fields = _DELTAS.get(str(chunk.get("type")))
        if fields is None:
            return None if known or (replayed and number is None) else dict(chunk)
        text = str(chunk.get(fields[1], ""))
        key = (str(chunk.get("type")), str(chunk.get(fields[0])))
        if not replayed:
            self.handed[key] = self.handed.get(key, 0) + len(text)
            return dict(chunk)
        start = self.replayed.get(key, 0)
        self.replayed[key] = end = start + len(text)
        handed = self.handed.get(key, 0)
        if end <= handed:
            return None
        self.handed[key] = end
        return {**chunk, fields[1]: text[max(0, handed - start) :]}
