"""Reading one session: histories with and without overlays, pages, branches, sizes.

All reads here are synchronous and bounded: what a turn needs costs what it shows, not what the
conversation has become.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from palimpsest.errors import UnknownMessageError
from palimpsest.messages import Message
from palimpsest.store.opening import Stores
from palimpsest.store.overlays import overlay_message
from palimpsest.store.reads import FIRST_ROWS, TARGET_BYTES
from palimpsest.store.rows import (
    HistoryRowStat,
    Interval,
    MessageRow,
    Overlay,
    Piece,
    Place,
    RecentHistory,
    StoredCompaction,
)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of original messages, oldest first; ``has_more`` tells that older ones exist."""

    messages: list[Message]
    has_more: bool


class History:
    """Reads one session of a database."""

    def __init__(self, stores: Stores, session_id: str) -> None:
        self._stores = stores
        self._session_id = session_id

    def place(self) -> Place | None:
        """The session's number; None while it holds nothing."""
        return self._stores.tree.place(self._session_id)

    def leaf(self, place: Place, leaf_id: str | None) -> MessageRow | None:
        """The message a history ends with: the one named, or the newest (None or '')."""
        if not leaf_id:
            return self._stores.tree.newest(place)
        return self._stores.tree.row(place, leaf_id)

    def require(self, message_id: str) -> tuple[Place, MessageRow]:
        """The row of a message.

        :raises UnknownMessageError: the session has no such message.
        """
        place = self.place()
        row = None if place is None else self._stores.tree.row(place, message_id)
        if place is None or row is None:
            raise UnknownMessageError(
                f"message {message_id!r} is not in session {self._session_id!r}"
            )
        return place, row

    # -- histories --------------------------------------------------------------------------

    def pieces(self, leaf_id: str | None, overlays: bool) -> tuple[Place, list[Piece]] | None:
        """The path to a leaf as ranges and overlays; None where there is no such leaf."""
        place = self.place()
        leaf = None if place is None else self.leaf(place, leaf_id)
        if place is None or leaf is None:
            return None
        if overlays:
            return place, self._stores.overlays.render(place, leaf)
        return place, list(self._stores.tree.path(place, leaf.run, leaf.seq))

    def chunks(
        self,
        leaf_id: str | None,
        *,
        overlays: bool,
        newest_first: bool = False,
        target: int = TARGET_BYTES,
        first_rows: int = FIRST_ROWS,
    ) -> Iterator[list[Message]]:
        """The messages of a history in lists of about ``target`` bytes, read as they are asked for.

        What the history consists of is settled by the first read: messages appended later do not
        appear, messages deleted meanwhile are missing.
        """
        found = self.pieces(leaf_id, overlays)
        if found is None:
            return
        place, pieces = found
        for piece in reversed(pieces) if newest_first else pieces:
            if isinstance(piece, Overlay):
                yield [overlay_message(piece.stored)]
            else:
                yield from self._stores.reader.chunks(
                    place,
                    [piece],
                    newest_first=newest_first,
                    target=target,
                    first_rows=first_rows,
                )

    def messages(self, leaf_id: str | None, *, overlays: bool) -> list[Message]:
        """A whole history, oldest first; empty for an unknown leaf."""
        return [message for chunk in self.chunks(leaf_id, overlays=overlays) for message in chunk]

    def recent(self, leaf_id: str | None, max_bytes: int, min_messages: int) -> RecentHistory:
        """The newest messages of a history whose JSON fits in ``max_bytes``.

        At least ``min_messages`` are returned, however large they are.
        """
        place = self.place()
        leaf = None if place is None else self.leaf(place, leaf_id)
        if place is None or leaf is None:
            return RecentHistory([], False, 0)
        total = self._stores.tree.totals(place, leaf)
        newest: list[Message] = []
        size = 0

        def likely() -> int:
            """How many more messages of the usual size fit, and a few, in one read's bytes."""
            usual = total.bytes // total.length + 1
            budget = min(max_bytes - size, TARGET_BYTES)
            return max(min_messages - len(newest), budget * 17 // (usual * 16)) + 4

        for piece in reversed(self._stores.overlays.render(place, leaf)):
            if isinstance(piece, Overlay):
                shown = overlay_message(piece.stored)
                sized = iter([(shown, len(piece.stored.summary.encode()))])
            else:
                sized = self._stores.reader.backward(place, piece, likely)
            for message, bytes_of in sized:
                if len(newest) >= min_messages and size + bytes_of > max_bytes:
                    newest.reverse()
                    return RecentHistory(newest, True, total.bytes)
                newest.append(message)
                size += bytes_of
        newest.reverse()
        return RecentHistory(newest, False, total.bytes)

    def page(self, leaf_id: str | None, before: str | None, limit: int) -> HistoryPage:
        """Up to ``limit`` original messages that end before ``before`` (or with the leaf).

        :raises UnknownMessageError: ``before`` is not in the session.
        """
        if before is not None:
            place, row = self.require(before)
            parent = self._stores.tree.parent(place, row)
            if parent is None:
                return HistoryPage([], False)
            leaf_id = parent.id
        messages: list[Message] = []
        for chunk in self.chunks(
            leaf_id, overlays=False, newest_first=True, first_rows=min(limit + 1, FIRST_ROWS)
        ):
            messages += chunk
            if len(messages) > limit:
                break
        page = messages[:limit]
        page.reverse()
        return HistoryPage(page, len(messages) > limit)

    def stats(self, leaf_id: str | None) -> list[HistoryRowStat]:
        """Ids, roles and sizes of the original messages of a history."""
        found = self.pieces(leaf_id, False)
        if found is None:
            return []
        place, pieces = found
        return self._stores.reader.stats(
            place, [piece for piece in pieces if isinstance(piece, Interval)]
        )

    def path_seqs(self, leaf_id: str) -> list[int]:
        """The sequence numbers of the messages of a path, oldest first; empty for unknown."""
        found = self.pieces(leaf_id, False)
        if found is None:
            return []
        place, pieces = found
        return self._stores.tree.seqs(
            place, [piece for piece in pieces if isinstance(piece, Interval)]
        )

    def path_length(self, leaf_id: str | None) -> int:
        """How many original messages a history has; 0 for an unknown leaf."""
        place = self.place()
        leaf = None if place is None else self.leaf(place, leaf_id)
        if place is None or leaf is None:
            return 0
        return self._stores.tree.totals(place, leaf).length

    # -- single messages and branches -------------------------------------------------------

    def one(self, message_id: str) -> Message | None:
        """A message by its id."""
        place = self.place()
        return None if place is None else self._stores.reader.one(place, message_id)

    def row(self, message_id: str) -> MessageRow | None:
        """A message's row by its id."""
        place = self.place()
        return None if place is None else self._stores.tree.row(place, message_id)

    def newest(self) -> Message | None:
        """The newest message."""
        place = self.place()
        row = None if place is None else self._stores.tree.newest(place)
        return None if row is None else self._stores.reader.of_row(row)

    def newest_id(self) -> str | None:
        """The id of the newest message."""
        place = self.place()
        row = None if place is None else self._stores.tree.newest(place)
        return None if row is None else row.id

    def branches(self, message_id: str) -> list[Message]:
        """The children of a message, oldest first; empty for an unknown one."""
        place = self.place()
        row = None if place is None else self._stores.tree.row(place, message_id)
        if place is None or row is None:
            return []
        return [self._stores.reader.of_row(one) for one in self._stores.tree.children(place, row)]

    def roots(self) -> list[Message]:
        """The messages without a parent, oldest first."""
        place = self.place()
        if place is None:
            return []
        return [self._stores.reader.of_row(row) for row in self._stores.tree.roots(place)]

    def siblings(self, leaf_id: str | None) -> dict[str, list[str]]:
        """For each message of a path that has siblings: its id and theirs, in order of adding."""
        found = self.pieces(leaf_id, False)
        if found is None:
            return {}
        place, pieces = found
        steps = [piece for piece in pieces if isinstance(piece, Interval)]
        groups = [self._stores.tree.roots(place)]
        groups += self._stores.tree.forks(place, steps)
        reach = {step.run: step.high for step in steps}
        listed: dict[str, list[str]] = {}
        for group in groups:
            if len(group) > 1:
                for row in group:
                    if row.seq <= reach.get(row.run, -1):
                        listed[row.id] = [one.id for one in group]
        return listed

    def parent_id(self, message_id: str) -> str | None:
        """The id of a message's parent; None for a root.

        :raises UnknownMessageError: the session has no such message.
        """
        place, row = self.require(message_id)
        parent = self._stores.tree.parent(place, row)
        return None if parent is None else parent.id

    def leaf_of(self, message_id: str) -> str:
        """The newest message of the branch that begins with a message.

        :raises UnknownMessageError: the session has no such message.
        """
        place, row = self.require(message_id)
        return self._stores.tree.newest_below(place, row).id

    def is_on_path(self, message_id: str, leaf_id: str) -> bool:
        """Whether a message lies on the path that ends with another; no message is read."""
        place, row = self.require(message_id)
        leaf = self._stores.tree.row(place, leaf_id)
        return leaf is not None and self._stores.overlays.is_on_path(place, leaf, row.run, row.seq)

    def count(self) -> int:
        """How many messages the session holds, on all branches."""
        place = self.place()
        if place is None:
            return 0
        return self._stores.tree.count(place)

    def overlays(self) -> list[StoredCompaction]:
        """The overlays of the session, the oldest first, covered and stale ones included."""
        place = self.place()
        if place is None:
            return []
        return [overlay.stored for overlay in self._stores.overlays.all(place)]
