"""Overlays: which summaries are shown in place of which stretches of a path.

At each message of a path the newest overlay that begins there and ends later on the path is shown
and the path goes on behind its end (Sessions document; sessions-api 5.9). An overlay's ends are
kept as sequence numbers of messages that exist: deleting an end moves it inwards.

An overlay whose whole range a newer one covers is marked ``covered_by``. As long as all overlays
that are not covered apply to a path and do not overlap, they alone decide what is shown, and a
turn's context reads neither the covered ones nor any message between an overlay's ends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

from palimpsest.hosts.interface import Sql
from palimpsest.messages import Message
from palimpsest.store.message_tables import SESSION_SPAN
from palimpsest.store.rows import (
    Interval,
    MessageRow,
    Overlay,
    Piece,
    Place,
    StoredCompaction,
)
from palimpsest.store.tree import MessageTree

_SELECT = """
select key, from_seq, from_run, to_seq, to_run, id, summary, from_id, to_id, created_at, tokens,
  stale
from assistant_compactions c where key between ? and ?
"""


def overlay_message(stored: StoredCompaction) -> Message:
    """The synthetic message that shows an overlay: the same bytes at every read."""
    created = datetime.fromtimestamp(stored.created_at / 1000, UTC)
    return {
        "id": f"compaction_{stored.id}",
        "role": "assistant",
        "parts": [{"type": "text", "text": stored.summary}],
        "createdAt": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


class OverlayStore:
    """The overlays of the sessions of one database."""

    def __init__(self, sql: Sql, tree: MessageTree) -> None:
        self._sql = sql
        self._tree = tree

    def all(self, place: Place) -> list[Overlay]:
        """Every overlay of a session, the oldest first."""
        return self._select(place, " order by c.key")

    def newest(self, place: Place, count: int) -> list[Overlay]:
        """The newest overlays of a session, at most ``count``, the oldest of them first."""
        return self._select(place, " order by c.key desc limit ?", count)[::-1]

    def shown(self, place: Place) -> list[Overlay]:
        """The overlays that no newer one covers and that are not stale, the oldest first."""
        return self._select(place, " and c.covered_by is null and not c.stale order by c.key")

    def _select(self, place: Place, condition: str, *bindings: int | str) -> list[Overlay]:
        rows = self._sql.execute(
            _SELECT + condition, place.base, place.base + SESSION_SPAN - 1, *bindings
        )
        return [
            Overlay(
                cast("int", row[0]), cast("int", row[1]), cast("int", row[2]),
                cast("int", row[3]), cast("int", row[4]),
                StoredCompaction(
                    str(row[5]), str(row[6]), str(row[7]), str(row[8]),
                    cast("int", row[9]), cast("int", row[10]), bool(row[11]),
                ),
            )
            for row in rows
        ]  # fmt: skip

    # -- writing ----------------------------------------------------------------------------

    def insert(
        self,
        place: Place,
        overlay_id: str,
        summary: str,
        begin: MessageRow,
        end: MessageRow,
        tokens: int,
        now: int,
    ) -> None:
        """Store an overlay from ``begin`` to ``end``; both lie on one path, in this order."""
        last = self._sql.execute(
            "select max(key) from assistant_compactions where key between ? and ?",
            place.base,
            place.base + SESSION_SPAN - 1,
        )[0][0]
        key = place.base + 1 if last is None else int(last) + 1
        inside = [
            other.key
            for other in self.shown(place)
            if begin.seq <= other.from_seq
            and other.to_seq <= end.seq
            and self.is_on_path(place, end, other.to_run, other.to_seq)
        ]
        self._sql.execute(
            "insert into assistant_compactions (key, session, id, from_seq, from_run, from_id,"
            " to_seq, to_run, to_id, created_at, tokens, summary)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            key, place.number, overlay_id, begin.seq, begin.run, begin.id, end.seq, end.run, end.id,
            now, tokens, summary,
        )  # fmt: skip
        if inside:
            self._sql.execute(
                "update assistant_compactions set covered_by = ?"
                " where key in (select value from json_each(?))",
                key,
                json.dumps(inside),
            )
        self._note_change(place)

    def copy(self, target: Place, overlay: Overlay, begin: MessageRow, end: MessageRow) -> None:
        """Lay a copy of an overlay over the same messages of another session."""
        stored = overlay.stored
        self.insert(target, stored.id, stored.summary, begin, end, stored.tokens, stored.created_at)

    def _note_change(self, place: Place) -> None:
        """Count an edit, so that what was derived from the overlays before is derived anew."""
        self._sql.execute(
            "update assistant_session_numbers set edits = edits + 1 where number = ?", place.number
        )

    def remove(self, place: Place, overlay_id: str) -> bool:
        """Take an overlay away; what it covered is shown again. Whether there was one."""
        rows = self._sql.execute(
            "delete from assistant_compactions where session = ? and id = ?"
            " returning key, covered_by",
            place.number,
            overlay_id,
        )
        for key, covered_by in rows:
            self._uncover(place, cast("int", key), cast("int | None", covered_by))
            self._note_change(place)
        return bool(rows)

    def _uncover(self, place: Place, key: int, covered_by: int | None) -> None:
        """Hand what the overlay ``key`` covered to the one that covered it, if there is one."""
        self._sql.execute(
            "update assistant_compactions set covered_by = ?"
            " where covered_by = ? and key between ? and ?",
            covered_by,
            key,
            place.base,
            place.base + SESSION_SPAN - 1,
        )

    def fingerprint(self, place: Place) -> str:
        """A text that changes whenever an overlay is added, removed or becomes stale."""
        return str(
            self._sql.execute(
                "select count(*) || ' ' || ifnull(sum(stale), 0) || ' ' || ifnull((select id from"
                " assistant_compactions where key between ?1 and ?2 order by key desc limit 1), '')"
                " from assistant_compactions where key between ?1 and ?2",
                place.base,
                place.base + SESSION_SPAN - 1,
            )[0][0]
        )

    def one(self, place: Place, overlay_id: str) -> Overlay | None:
        """An overlay by its id."""
        found = self._select(place, " and c.id = ?", overlay_id)
        return found[0] if found else None

    def is_on_path(self, place: Place, leaf: MessageRow, run: int, seq: int) -> bool:
        """Whether the message at ``seq`` of ``run`` lies on the path that ends at ``leaf``."""
        if run == leaf.run:
            return seq <= leaf.seq
        steps = self._tree.path(place, leaf.run, leaf.seq, until=seq)
        return any(step.run == run and step.low <= seq <= step.high for step in steps)

    def before_delete(self, place: Place, row: MessageRow) -> None:
        """Move the ends of overlays off a message that is about to be deleted."""
        touched = self._select(place, " and ? in (c.from_seq, c.to_seq) order by c.key", row.seq)
        for overlay in touched:
            steps = self._within(place, overlay)
            if overlay.from_seq == overlay.to_seq:
                self.remove(place, overlay.stored.id)
            elif row.seq == overlay.to_seq:
                self._move(place, overlay, "to", self._last_before(place, steps, row.seq))
            else:
                self._move(place, overlay, "from", self._first_after(place, steps, row.seq))

    def _within(self, place: Place, overlay: Overlay) -> list[Interval]:
        """The ranges from an overlay's first message to its last."""
        steps = self._tree.path(place, overlay.to_run, overlay.to_seq, until=overlay.from_seq)
        return [
            Interval(step.run, max(step.low, overlay.from_seq), step.high)
            for step in steps
            if step.high >= overlay.from_seq
        ]

    def _last_before(self, place: Place, steps: list[Interval], seq: int) -> MessageRow | None:
        for step in reversed(steps):
            found = self._tree.last_in(place, step.low, min(step.high, seq - 1))
            if found is not None:
                return found
        return None

    def _first_after(self, place: Place, steps: list[Interval], seq: int) -> MessageRow | None:
        for step in steps:
            if step.high > seq:
                found = self._tree.first_in(place, max(step.low, seq + 1), step.high)
                if found is not None:
                    return found
        return None

    def _move(self, place: Place, overlay: Overlay, end: str, row: MessageRow | None) -> None:
        assert row is not None, "an overlay with two ends has a message between or at them"
        self._sql.execute(
            f"update assistant_compactions set {end}_seq = ?, {end}_run = ?, {end}_id = ?"
            " where key = ?",
            row.seq,
            row.run,
            row.id,
            overlay.key,
        )
        self._note_change(place)

    def make_stale(self, place: Place, rows: Sequence[MessageRow]) -> list[str]:
        """Mark and blank every overlay whose range holds one of the messages; their ids."""
        stale: list[Overlay] = []
        for overlay in self.all(place):
            steps = self._within(place, overlay)
            if any(step.low <= row.seq <= step.high for step in steps for row in rows):
                stale.append(overlay)
        for overlay in stale:
            changed = self._sql.execute(
                "update assistant_compactions set stale = 1, summary = '', tokens = 0"
                " where key = ? returning covered_by",
                overlay.key,
            )
            self._uncover(place, overlay.key, cast("int | None", changed[0][0]))
            self._note_change(place)
        return [overlay.stored.id for overlay in stale]

    # -- laying -----------------------------------------------------------------------------

    def render(self, place: Place, leaf: MessageRow) -> list[Piece]:
        """The path to ``leaf`` with overlays laid over it, the oldest piece first."""
        shown = self.shown(place)
        if not shown:
            return list(self._tree.path(place, leaf.run, leaf.seq))
        pieces = self._render_shown(place, leaf, shown)
        return self._render_all(place, leaf) if pieces is None else pieces

    def _render_shown(
        self, place: Place, leaf: MessageRow, shown: list[Overlay]
    ) -> list[Piece] | None:
        """Lay the overlays that are not covered; None where the covered ones may matter."""
        pieces: list[Piece] = []
        run, seq = leaf.run, leaf.seq
        for overlay in sorted(shown, key=lambda one: one.to_seq, reverse=True):
            if overlay.to_seq > seq:
                return None
            steps = self._tree.path(place, run, seq, until=overlay.to_seq)
            if steps[0].run != overlay.to_run or not overlay.to_seq <= steps[0].high:
                return None
            steps[0] = Interval(steps[0].run, overlay.to_seq + 1, steps[0].high)
            pieces += [step for step in reversed(steps) if step.low <= step.high]
            pieces.append(overlay)
            run, seq = overlay.from_run, overlay.from_seq - 1
        pieces += reversed(self._tree.path(place, run, seq))
        pieces.reverse()
        return [one for one in pieces if isinstance(one, Overlay) or one.low <= one.high]

    def _render_all(self, place: Place, leaf: MessageRow) -> list[Piece]:
        """Lay overlays by the full rule, over the full path."""
        steps = self._tree.path(place, leaf.run, leaf.seq)
        reach = {step.run: step.high for step in steps}
        applying: dict[int, Overlay] = {}
        for overlay in self.all(place):  # the oldest first, so the newest with a beginning stays
            if not overlay.stored.stale and overlay.to_seq <= reach.get(overlay.to_run, -1):
                applying[overlay.from_seq] = overlay
        laid: list[Overlay] = []
        for begin in sorted(applying):
            if not laid or begin > laid[-1].to_seq:
                laid.append(applying[begin])
        return _cut(steps, laid)


def _cut(steps: list[Interval], laid: list[Overlay]) -> list[Piece]:
    """Put overlays in place of their ranges; both lists are in order of the path."""
    pieces: list[Piece] = []
    waiting = list(reversed(laid))
    covered = -1
    for step in steps:
        low = max(step.low, covered + 1)
        while waiting and waiting[-1].from_seq <= step.high:
            overlay = waiting.pop()
            if low < overlay.from_seq:
                pieces.append(Interval(step.run, low, overlay.from_seq - 1))
            pieces.append(overlay)
            covered = overlay.to_seq
            low = covered + 1
        if low <= step.high:
            pieces.append(Interval(step.run, low, step.high))
    return pieces
