"""What clients are shown of a session's memory: a bounded picture, however long the conversation.

Sizes of the whole come from totals that are kept with the messages; only the newest messages and
summaries are listed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palimpsest.session.history import History
from palimpsest.session.session import Session
from palimpsest.store.rows import Interval, MessageRow, Overlay, Place, Totals

MAX_TIMELINE = 2_000
"""The most messages of a timeline: the newest."""

MAX_OVERLAYS = 50
"""The most summaries that are listed besides those in use: the newest."""

MAX_OLD_SUMMARY = 600
"""The most characters that are shown of a summary which is not in use."""


def memory_view(session: Session, leaf: str | None) -> dict[str, Any]:
    """``timeline``, ``overlays``, ``checkpoints`` and ``stats`` of a branch."""
    path = None if leaf is None else _Path.of(session, leaf)
    if path is None:
        return {
            "timeline": [],
            "timelineOffset": 0,
            "timelineTruncated": False,
            "overlays": [],
            "checkpoints": [],
            "stats": {"messages": 0, "bytes": 0},
        }
    timeline = path.timeline()
    overlays = path.overlays()
    offset = path.total.length - len(timeline)
    return {
        "timeline": timeline,
        "timelineOffset": offset,
        "timelineTruncated": offset > 0,
        "overlays": overlays,
        "checkpoints": [
            {
                "id": one["id"],
                "createdAt": one["createdAt"],
                "messageId": one["toMessageId"],
                "reason": "forgotten" if one["stale"] else "compaction",
                "tokens": one["tokensAfter"],
            }
            for one in overlays
        ],
        "stats": {"messages": path.total.length, "bytes": path.total.bytes},
    }


def overlay_text(session: Session, overlay_id: str) -> str | None:
    """The whole text of a summary, in use or not; None where there is none of that id."""
    stores = session.stores
    place = stores.tree.place(session.id)
    overlay = None if place is None else stores.overlays.one(place, overlay_id)
    return None if overlay is None else overlay.stored.summary


class _Path:
    """The path to a leaf, and what lies over it."""

    def __init__(self, session: Session, place: Place, leaf: MessageRow) -> None:
        self._stores = session.stores
        self._place = place
        self._leaf = leaf
        self.total = self._stores.tree.totals(place, leaf)

    @classmethod
    def of(cls, session: Session, leaf: str) -> _Path | None:
        place = session.stores.tree.place(session.id)
        row = None if place is None else History(session.stores, session.id).leaf(place, leaf)
        return None if place is None or row is None else cls(session, place, row)

    def timeline(self) -> list[dict[str, Any]]:
        """The newest messages, oldest first."""
        steps = self._stores.tree.path(self._place, self._leaf.run, self._leaf.seq)
        return [
            {
                "id": entry.id,
                "role": entry.role,
                "tokens": entry.tokens,
                "createdAt": entry.created_at,
            }
            for entry in self._stores.reader.stats(self._place, _last(steps, MAX_TIMELINE))
        ]

    def overlays(self) -> list[dict[str, Any]]:
        """Those in use and the newest of the others, the oldest first."""
        shown = [
            piece
            for piece in self._stores.overlays.render(self._place, self._leaf)
            if isinstance(piece, Overlay)
        ]
        active = {overlay.key for overlay in shown}
        newest = self._stores.overlays.newest(self._place, MAX_OVERLAYS)
        listed = {overlay.key: overlay for overlay in [*shown, *newest]}
        return [self._overlay(listed[key], key in active) for key in sorted(listed)]

    def _overlay(self, overlay: Overlay, is_active: bool) -> dict[str, Any]:
        stored = overlay.stored
        begin, end = self._totals_at(stored.from_message_id), self._totals_at(stored.to_message_id)
        summary, full = stored.summary, stored.summary
        if not is_active and len(summary) > MAX_OLD_SUMMARY:
            summary = f"{summary[:MAX_OLD_SUMMARY]}…"
        before = None
        if begin is not None and end is not None:
            before = end[1].tokens - begin[1].tokens + begin[0].tokens
        return {
            "id": stored.id,
            "summary": summary,
            "summaryTruncated": summary is not full,
            "fromMessageId": stored.from_message_id,
            "toMessageId": stored.to_message_id,
            "fromNumber": None if begin is None else begin[1].length,
            "toNumber": None if end is None else end[1].length,
            "createdAt": stored.created_at,
            "tokensAfter": stored.tokens,
            "tokensBefore": before,
            "stale": stored.stale,
            "active": is_active,
        }

    def _totals_at(self, message_id: str) -> tuple[MessageRow, Totals] | None:
        """A message of the path and the totals up to it; None where it is not on the path."""
        row = self._stores.tree.row(self._place, message_id)
        if row is None or not self._stores.overlays.is_on_path(
            self._place, self._leaf, row.run, row.seq
        ):
            return None
        return row, self._stores.tree.totals(self._place, row)


def _last(steps: Sequence[Interval], most: int) -> list[Interval]:
    """The end of a path: ranges that hold at most so many messages."""
    newest_first: list[Interval] = []
    for step in reversed(steps):
        if most <= 0:
            break
        low = max(step.low, step.high - most + 1)
        newest_first.append(Interval(step.run, low, step.high))
        most -= step.high - low + 1
    return newest_first[::-1]
