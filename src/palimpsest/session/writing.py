"""Changing one session: every method is one transaction over tree, overlays, payloads and index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from palimpsest.errors import InvalidMessageError, UnknownMessageError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message
from palimpsest.session.changes import UNSET, AppendResult, UnsetType
from palimpsest.store.encoding import encode_message
from palimpsest.store.opening import Stores
from palimpsest.store.rows import Interval, MessageRow, Place, Totals

FORGOTTEN_TEXT = "[This message was forgotten.]"
"""The text that stands in place of a forgotten message."""


class Writer:
    """Writes one session of a database."""

    def __init__(self, host: Host, stores: Stores, session_id: str) -> None:
        self._host = host
        self._stores = stores
        self._session_id = session_id

    def append(
        self,
        message: Message,
        parent_id: str | UnsetType | None,
        created_at: int | None = None,
    ) -> AppendResult:
        """Add one valid message; an id that exists already changes nothing."""
        if not isinstance(parent_id, UnsetType):
            return self.append_all([message], parent_id, created_at)[0]
        encoded = encode_message(message)
        now = self._host.now() if created_at is None else created_at
        if self._stores.messages.append(self._session_id, encoded, now):
            return AppendResult(True, encoded.message)
        return self._present(message["id"])

    def append_all(
        self,
        messages: Sequence[Message],
        parent_id: str | UnsetType | None,
        created_at: int | None = None,
    ) -> list[AppendResult]:
        """Add messages, each below the one before it, in one transaction."""
        encoded = [encode_message(message) for message in messages]
        now = self._host.now() if created_at is None else created_at
        store = self._stores.messages

        def write() -> list[bool]:
            added: list[bool] = []
            parent = parent_id
            for one in encoded:
                if isinstance(parent, UnsetType):
                    added.append(store.append(self._session_id, one, now))
                    # A duplicate is no place to go on from unless it is the newest message.
                    parent = UNSET if added[-1] else one.message["id"]
                else:
                    added.append(store.append_at(self._session_id, one, parent, now))
                    parent = one.message["id"]
            return added

        written = self._stores.sql.transaction(write)
        return [
            AppendResult(True, one.message) if inserted else self._present(one.message["id"])
            for one, inserted in zip(encoded, written, strict=True)
        ]

    def _present(self, message_id: str) -> AppendResult:
        place, row = self._require(message_id)
        _ = place
        return AppendResult(False, self._stores.reader.of_row(row))

    def _require(self, message_id: str) -> tuple[Place, MessageRow]:
        place = self._stores.tree.place(self._session_id)
        row = None if place is None else self._stores.tree.row(place, message_id)
        if place is None or row is None:
            raise UnknownMessageError(
                f"message {message_id!r} is not in session {self._session_id!r}"
            )
        return place, row

    def update(self, message: Message) -> tuple[bool, bool]:
        """Replace a message by its id: whether it exists, and whether anything changed."""
        encoded = encode_message(message)

        def write() -> tuple[bool, bool]:
            place = self._stores.tree.place(self._session_id)
            row = None if place is None else self._stores.tree.row(place, message["id"])
            if row is None:
                return False, False
            return True, self._stores.messages.update(self._session_id, row, encoded)

        return self._stores.sql.transaction(write)

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Remove messages; their children move to their parents. The ids that existed."""

        def write() -> list[str]:
            deleted: list[str] = []
            for message_id in dict.fromkeys(ids):
                place = self._stores.tree.place(self._session_id)
                row = None if place is None else self._stores.tree.row(place, message_id)
                if place is not None and row is not None:
                    self._stores.overlays.before_delete(place, row)
                    self._stores.messages.delete(self._session_id, row)
                    deleted.append(message_id)
            return deleted

        return self._stores.sql.transaction(write)

    def forget(self, ids: Iterable[str], reason: str | None) -> tuple[list[str], list[str]]:
        """Replace messages by markers; the forgotten ids, and the overlays that became stale."""
        wanted = list(dict.fromkeys(ids))
        now = self._host.now()

        def write() -> tuple[list[str], list[str]]:
            rows = [
                row
                for message_id in wanted
                if (place := self._stores.tree.place(self._session_id)) is not None
                and (row := self._stores.tree.row(place, message_id)) is not None
            ]
            if not rows:
                return [], []
            place = self._stores.tree.place_of_key(rows[0].key)
            stale = self._stores.overlays.make_stale(place, rows)
            for row in rows:
                marker = forgotten_message(row.id, row.role, now, reason)
                self._stores.messages.forget(self._session_id, row, encode_message(marker))
            self._stores.index.erase()
            return [row.id for row in rows], stale

        return self._stores.sql.transaction(write)

    def clear(self) -> bool:
        """Remove all messages and overlays; whether the session held any."""

        def write() -> bool:
            place = self._stores.tree.place(self._session_id)
            if place is None:
                return False
            self._stores.messages.clear(self._session_id, place)
            return True

        return self._stores.sql.transaction(write)

    def delete_session(self) -> None:
        """Remove everything of the session."""

        def write() -> None:
            place = self._stores.tree.place(self._session_id)
            if place is not None:
                self._stores.messages.delete_session(self._session_id, place)

        self._stores.sql.transaction(write)

    def copy_path(self, target_id: str, message_id: str) -> None:
        """Copy the path to a message, and the overlays on it, into an empty session.

        :raises UnknownMessageError: the session has no such message.
        :raises InvalidMessageError: the target holds messages already.
        """

        def write() -> None:
            source, leaf = self._require(message_id)
            store = self._stores.messages
            target = store.number_session(target_id)
            if self._stores.tree.newest(target) is not None:
                raise InvalidMessageError(f"session {target_id!r} holds messages already")
            steps = self._stores.tree.path(source, leaf.run, leaf.seq)
            copied = self._copy_rows(source, steps, target_id)
            for overlay in self._stores.overlays.all(source):
                begin, end = copied.get(overlay.from_seq), copied.get(overlay.to_seq)
                if begin is not None and end is not None and not overlay.stored.stale:
                    self._stores.overlays.copy(target, overlay, begin, end)
            store.changed(target_id)

        self._stores.sql.transaction(write)

    def _copy_rows(
        self, source: Place, steps: Sequence[Interval], target_id: str
    ) -> dict[int, MessageRow]:
        """Copy the rows of a path; the new row of each old sequence number."""
        copied: dict[int, MessageRow] = {}
        above = Totals(0, 0, 0)
        for step in steps:
            seq = step.low
            while (row := self._stores.tree.first_in(source, seq, step.high)) is not None:
                message = self._stores.reader.of_row(row)
                new = self._stores.messages.copy_row(row, message, target_id, above)
                above = Totals(above.length + 1, above.tokens + row.tokens, above.bytes + row.bytes)
                copied[row.seq] = new
                seq = row.seq + 1
        return copied


def forgotten_message(message_id: str, role: str, now: int, reason: str | None) -> Message:
    """The marker that keeps a forgotten message's place."""
    metadata: Message = {"forgotten": True, "forgottenAt": now}
    if reason is not None:
        metadata["forgottenReason"] = reason
    return {
        "id": message_id,
        "role": role,
        "parts": [{"type": "text", "text": FORGOTTEN_TEXT}],
        "metadata": metadata,
    }
