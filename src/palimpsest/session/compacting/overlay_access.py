"""The storage of one session as the compaction engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from palimpsest.errors import UnknownMessageError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message
from palimpsest.session.compacting.store import PathEntry
from palimpsest.session.history import History
from palimpsest.store.opening import Stores
from palimpsest.store.rows import Interval, MessageRow, Overlay, Place, StoredCompaction
from palimpsest.tokens import TOKENS_PER_MESSAGE, count_string_tokens

T = TypeVar("T")


class OverlayAccess:
    """Implements :class:`palimpsest.session.compacting.store.CompactionStore`."""

    def __init__(
        self,
        host: Host,
        stores: Stores,
        session_id: str,
        prompt_tokens: Callable[[], int],
    ) -> None:
        self._host = host
        self._stores = stores
        self._session_id = session_id
        self._history = History(stores, session_id)
        self._prompt_tokens = prompt_tokens
        self._saved: tuple[tuple[int, int, int, int], int] | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._session_id

    def context_tokens(self) -> int:
        """Tokens of the active path as rendered, and of the frozen prompt."""
        return self.path_tokens() + self._prompt_tokens()

    def path_tokens(self) -> int:
        """Tokens of the active path as rendered.

        What overlays save is worked out when the branch or the overlays change, not at each call:
        while both stay, an append adds to the path and to its rendering alike.
        """
        newest = self._stores.messages.newest(self._session_id)
        if newest is None or newest.run is None:
            return 0
        state = (newest.number, newest.run, newest.edits, newest.rollbacks)
        if self._saved is None or self._saved[0] != state:
            self._saved = (state, newest.tokens - self._rendered_tokens())
        return newest.tokens - self._saved[1]

    def _rendered_tokens(self) -> int:
        found = self._history.pieces(None, True)
        if found is None:
            return 0
        place, pieces = found
        return sum(
            piece.stored.tokens
            if isinstance(piece, Overlay)
            else self._stores.tree.total_of_interval(place, piece).tokens
            for piece in pieces
        )

    def active_leaf_id(self) -> str | None:
        """The id of the newest message."""
        return self._history.newest_id()

    def path_entries(self, leaf_id: str | None = None) -> list[PathEntry]:
        """The rendered path to a leaf (the active one by default), the root first."""
        found = self._history.pieces(leaf_id, True)
        if found is None:
            return []
        place, pieces = found
        entries: list[PathEntry] = []
        for piece in pieces:
            if isinstance(piece, Overlay):
                stored = piece.stored
                size = len(stored.summary.encode())
                entries.append(
                    PathEntry(piece.message_id, "assistant", stored.tokens, size, stored)
                )
            else:
                entries += [
                    PathEntry(stat.id, stat.role, stat.tokens, stat.bytes)
                    for stat in self._stores.reader.stats(place, [piece])
                ]
        return entries

    def read_messages(self, ids: Sequence[str]) -> list[Message]:
        """Contents in the order asked; unknown ids are left out."""
        place = self._history.place()
        return [] if place is None else self._stores.reader.read_ids(place, ids)

    def range_token(self, from_id: str, to_id: str, leaf_id: str | None = None) -> str | None:
        """A text that changes when anything in the range, or an overlay, changes."""
        ends = self._ends(from_id, to_id)
        if ends is None:
            return None
        place, begin, end = ends
        if leaf_id is not None:
            leaf = self._stores.tree.row(place, leaf_id)
            if leaf is None or not self._stores.overlays.is_on_path(place, leaf, end.run, end.seq):
                return None
        steps = self._stores.tree.path(place, end.run, end.seq, until=begin.seq)
        inside = [
            Interval(step.run, max(step.low, begin.seq), step.high)
            for step in steps
            if step.high >= begin.seq
        ]
        count, revisions = self._stores.tree.revisions(place, inside)
        # The rows themselves, too: a cleared session may hold other messages of the same ids.
        rows = f"{begin.key} {begin.created_at} {end.key} {end.created_at}"
        return f"{rows} {count} {revisions} {self._stores.overlays.fingerprint(place)}"

    def _ends(self, from_id: str, to_id: str) -> tuple[Place, MessageRow, MessageRow] | None:
        """Both ends of a range; None unless they are messages of one path, in this order."""
        place = self._history.place()
        if place is None:
            return None
        begin = self._stores.tree.row(place, from_id)
        end = self._stores.tree.row(place, to_id)
        if begin is None or end is None or begin.seq > end.seq:
            return None
        if not self._stores.overlays.is_on_path(place, end, begin.run, begin.seq):
            return None
        return place, begin, end

    def insert_overlay(
        self,
        summary: str,
        from_id: str,
        to_id: str,
        *,
        expected_token: str,
        leaf_id: str | None = None,
    ) -> StoredCompaction | None:
        """Store an overlay if the range's token is still the expected one; else None."""

        def write() -> StoredCompaction | None:
            if self.range_token(from_id, to_id, leaf_id) != expected_token:
                return None
            return self._insert(summary, from_id, to_id)

        return self._stores.sql.transaction(write)

    def _insert(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        ends = self._ends(from_id, to_id)
        if ends is None:
            raise UnknownMessageError(
                f"{from_id!r} to {to_id!r} is no range of messages on one path"
            )
        place, begin, end = ends
        self._stores.messages.changed(self._session_id)
        overlay_id = self._host.random_id()
        tokens = TOKENS_PER_MESSAGE + count_string_tokens(summary)
        self._stores.overlays.insert(
            place, overlay_id, summary, begin, end, tokens, self._host.now()
        )
        overlay = self._stores.overlays.one(place, overlay_id)
        assert overlay is not None, "an overlay that was just stored is there"
        return overlay.stored

    def add_overlay(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Store an overlay given by hand.

        :raises UnknownMessageError: the ends are not messages of one path, in this order.
        """
        return self._stores.sql.transaction(lambda: self._insert(summary, from_id, to_id))

    def remove_overlay(self, overlay_id: str) -> bool:
        """Delete an overlay; whether there was one."""

        def write() -> bool:
            place = self._history.place()
            self._stores.messages.changed(self._session_id)
            return place is not None and self._stores.overlays.remove(place, overlay_id)

        return self._stores.sql.transaction(write)

    def list_overlays(self) -> list[StoredCompaction]:
        """All overlays of the session, the oldest first."""
        return self._history.overlays()

    def transaction(self, work: Callable[[], T]) -> T:
        """Run ``work`` in one transaction; joins an outer one."""
        return self._stores.sql.transaction(work)
