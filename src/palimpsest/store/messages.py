"""Writing messages: append, update, delete, forget, clear, copy.

The methods here are called inside one transaction of the caller, so that the tree, the overlays,
the payloads and the search index always change together.
"""

from __future__ import annotations

from dataclasses import dataclass

from palimpsest.errors import UniqueViolationError, UnknownParentError
from palimpsest.hosts.interface import Sql, SqlValue
from palimpsest.messages import Message
from palimpsest.store.encoding import Encoded
from palimpsest.store.message_tables import FORGOTTEN, SESSION_SPAN
from palimpsest.store.payloads import PayloadStore
from palimpsest.store.rows import MessageRow, Place, Totals
from palimpsest.store.search_index import Copied, Entry, SearchIndex
from palimpsest.store.tree import MessageTree

_INSERT = (
    "insert into assistant_messages"
    " (session, seq, run, as_of, path_length, path_tokens, path_bytes, id)"
    " values (?1 ->> 0, ?1 ->> 1, ?1 ->> 2, ?1 ->> 3, ?1 ->> 4, ?1 ->> 5, ?1 ->> 6, ?2)"
)
"""Its numbers come as one JSON array: on the platform a parameter costs more than a column."""

_SESSIONS_KNOWN = 256
"""Of how many sessions the newest message is remembered."""


@dataclass(slots=True)
class Newest:
    """What an append needs of its session and of the newest message there.

    An append brings it up to date where it stands: read what is needed of it at once.
    """

    number: int
    edits: int
    seq: int
    """The highest sequence number given so far; 0 in a session that never held a message."""

    run: int | None
    """The newest message's run; None where there is no message."""

    length: int
    tokens: int
    bytes: int
    rollbacks: int
    """The database's rollbacks when this was true: one more, and it may not be any longer."""


class MessageStore:
    """Writes the messages of the sessions of one database.

    There is one store per host, so that it may remember the newest message of a session: an
    append then reads nothing. Whatever else changes a session makes it forget.
    """

    def __init__(
        self, sql: Sql, tree: MessageTree, payloads: PayloadStore, index: SearchIndex
    ) -> None:
        self._sql = sql
        self._tree = tree
        self._payloads = payloads
        self._index = index
        self._known: dict[str, Newest] = {}

    def newest(self, session_id: str) -> Newest | None:
        """The newest message of a session and its counters; None for an unknown session."""
        known = self._known.get(session_id)
        if known is not None and known.rollbacks == self._sql.rollbacks:
            return known
        place = self._tree.place(session_id)
        if place is None:
            return None
        row = self._tree.newest(place)
        rollbacks = self._sql.rollbacks
        if row is None:
            found = Newest(place.number, place.edits, place.next_seq - 1, None, 0, 0, 0, rollbacks)
        else:
            seq = max(row.seq, place.next_seq - 1)
            found = Newest(
                place.number, place.edits, seq, row.run, row.length, row.path_tokens,
                row.path_bytes, rollbacks,
            )  # fmt: skip
        self._remember(session_id, found)
        return found

    def _remember(self, session_id: str, newest: Newest) -> None:
        if len(self._known) >= _SESSIONS_KNOWN and session_id not in self._known:
            self._known.clear()
        self._known[session_id] = newest

    def changed(self, session_id: str) -> None:
        """Forget what is remembered of a session: something else than an append changed it."""
        self._known.pop(session_id, None)

    def number_session(self, session_id: str) -> Place:
        """The session's place, made on its first write.

        :raises LimitError: the database holds too many sessions.
        """
        place = self._tree.place(session_id)
        if place is None:
            number = self._sql.execute(
                "insert into assistant_session_numbers (session_id) values (?) returning number",
                session_id,
            )[0][0]
            place = Place(int(number or 0), 1, 0)
            self._index.register(session_id, place.number)
        return place

    # -- adding -----------------------------------------------------------------------------

    def append(self, session_id: str, encoded: Encoded, created_at: int) -> bool:
        """Add a message behind the newest one: two statements, unless the message needs more.

        The only method here that opens a transaction where it needs one.

        :returns: whether it was added; False if there was one of its id already.
        """
        newest = self.newest(session_id)
        if newest is None:
            return self._sql.transaction(
                lambda: self._append_first(session_id, encoded, created_at)
            )
        number, edits, seq = newest.number, newest.edits, newest.seq + 1
        run = seq if newest.run is None else newest.run
        entry = self._index.entry(number, seq, encoded.message, created_at, encoded)
        try:
            if (
                self._sql.keeps_writes_together
                and run != seq
                and not encoded.extra
                and entry.is_plain
            ):
                self._insert_plain(entry, run, edits, encoded, newest)
            else:
                self._sql.transaction(lambda: self._insert(entry, run, edits, encoded, newest))
        except UniqueViolationError:
            place = Place(number, seq, edits)
            present = self._tree.row(place, encoded.message["id"])
            if present is not None:
                return False
            if not self._has_half(number, encoded.message["id"]):
                raise
            return self._replace_half(session_id, number, encoded, created_at)
        newest.seq, newest.run = seq, run
        newest.length += 1
        newest.tokens += encoded.tokens
        newest.bytes += encoded.bytes
        return True

    def _append_first(self, session_id: str, encoded: Encoded, created_at: int) -> bool:
        self.number_session(session_id)
        return self.append(session_id, encoded, created_at)

    def _insert_plain(
        self,
        entry: Entry,
        run: int,
        edits: int,
        encoded: Encoded,
        above: Totals | Newest,
    ) -> None:
        """Write a message that is one row here and one of the index, without a transaction.

        A savepoint would make FTS5 write out what it has gathered, at every append.
        """
        self._put_row(entry, run, edits, encoded, above)
        try:
            self._index.put(entry)
        except BaseException:
            self._delete_row(entry.number, encoded.message["id"])
            raise

    def _has_half(self, number: int, message_id: str) -> bool:
        """Whether there is a row of this id, be it a whole message or without its index row."""
        return bool(
            self._sql.execute(
                "select 1 from assistant_messages where session = ? and id = ?", number, message_id
            )
        )

    def _replace_half(
        self, session_id: str, number: int, encoded: Encoded, created_at: int
    ) -> bool:
        """Add a message of which an isolate that was ended left a row without its index row."""
        self.changed(session_id)

        def write() -> bool:
            self._delete_row(number, encoded.message["id"])
            return self.append(session_id, encoded, created_at)

        return self._sql.transaction(write)

    def _delete_row(self, number: int, message_id: str) -> None:
        self._sql.execute(
            "delete from assistant_messages where session = ? and id = ?", number, message_id
        )

    def append_at(
        self, session_id: str, encoded: Encoded, parent_id: str | None, created_at: int
    ) -> bool:
        """Add a message below the one named, or as a new root (None).

        :returns: as :meth:`append`.
        :raises UnknownParentError: the session has no such message.
        """
        place = self.number_session(session_id)
        present = self._tree.row(place, encoded.message["id"])
        if present is not None:
            return False
        newest = self._tree.newest(place)
        parent = None
        if parent_id is not None:
            parent = self._tree.row(place, parent_id)
            if parent is None:
                raise UnknownParentError(
                    f"parent {parent_id!r} is not a message of session {session_id!r}"
                )
        if newest is None or (parent is not None and parent.key == newest.key):
            return self.append(session_id, encoded, created_at)
        seq = max(newest.seq + 1, place.next_seq)
        above = Totals(0, 0, 0) if parent is None else self._tree.totals(place, parent)
        self.changed(session_id)
        self._delete_row(place.number, encoded.message["id"])  # half a message may be left of it
        entry = self._index.entry(place.number, seq, encoded.message, created_at, encoded)
        self._insert(entry, seq, place.edits, encoded, above, parent)
        return True

    def _insert(
        self,
        entry: Entry,
        run: int,
        edits: int,
        encoded: Encoded,
        above: Totals | Newest,
        parent: MessageRow | None = None,
    ) -> None:
        """Write a message with all that belongs to it."""
        self._put_row(entry, run, edits, encoded, above)
        self._index.put(entry)
        if run == entry.row:
            self._open_run(entry.number, run, parent)
        self._index.complete(entry)
        if encoded.long_text is not None:
            self._payloads.put_pieces(entry.doc, encoded.long_text)
        if encoded.media:
            self._payloads.put_media(entry.doc, encoded.media)

    def _put_row(
        self, entry: Entry, run: int, edits: int, encoded: Encoded, above: Totals | Newest
    ) -> None:
        numbers = (
            f"[{entry.doc // SESSION_SPAN},{entry.row},{run},{edits},{above.length + 1},"
            f"{above.tokens + encoded.tokens},{above.bytes + encoded.bytes}]"
        )
        self._sql.execute(_INSERT, numbers, encoded.message["id"])

    def _open_run(self, number: int, run: int, parent: MessageRow | None) -> None:
        # A row of this number belonged to a message of which only half was left.
        self._sql.execute(
            "insert or replace into assistant_runs (session, run, parent_run, parent_seq)"
            " values (?, ?, ?, ?)",
            number,
            run,
            None if parent is None else parent.run,
            None if parent is None else parent.seq,
        )

    # -- changing ---------------------------------------------------------------------------

    def update(self, session_id: str, row: MessageRow, encoded: Encoded) -> bool:
        """Replace a message's content; False where it is the same already."""
        self.changed(session_id)
        if not row.extra and not encoded.extra and self._content(row.key) == encoded.content:
            return False
        self._replace_payloads(row, encoded)
        self._index.update(session_id, row.seq, encoded.message, row.created_at, encoded)
        self._note_sizes(row, encoded)
        return True

    def forget(self, session_id: str, row: MessageRow, marker: Encoded) -> None:
        """Put a marker in place of a message's content, everywhere the content is kept.

        The caller has the index erase its words (:meth:`SearchIndex.erase`), once for many.
        """
        self.changed(session_id)
        self._replace_payloads(row, marker)
        forgotten = marker._replace(extra=marker.extra | FORGOTTEN)
        self._index.forget(session_id, row.seq, marker.message, row.created_at, forgotten)
        self._note_sizes(row, marker)

    def _content(self, key: int) -> SqlValue:
        """What a message's row holds as its JSON."""
        return self._sql.execute(
            "select content from assistant_contents where key = cast(? as integer)", key
        )[0][0]

    def _replace_payloads(self, row: MessageRow, encoded: Encoded) -> None:
        if row.extra:
            self._payloads.drop(row.key)
        if encoded.long_text is not None:
            self._payloads.put_pieces(row.key, encoded.long_text)
        if encoded.media:
            self._payloads.put_media(row.key, encoded.media)

    def _note_sizes(self, row: MessageRow, encoded: Encoded) -> None:
        """Bring the totals of ``row``, as it was, and those of all below it to its new sizes."""
        change = Totals(0, encoded.tokens - row.tokens, encoded.bytes - row.bytes)
        if not change.tokens and not change.bytes:
            return
        self._sql.execute(
            "update assistant_messages set path_tokens = path_tokens + ?,"
            " path_bytes = path_bytes + ? where session = ? and id = ?",
            change.tokens, change.bytes, row.number, row.id,
        )  # fmt: skip
        self._shift(row, change)

    def _shift(self, row: MessageRow, change: Totals) -> None:
        """Note that the totals of all messages below ``row`` changed (not of ``row``)."""
        place = self._tree.place_of_key(row.key)
        newest = self._tree.newest(place)
        if newest is None or newest.key <= row.key:
            return
        number = place.edits + 1
        self._sql.execute(
            "insert into assistant_shifts (session, number, run, seq, length, tokens, bytes)"
            " values (?, ?, ?, ?, ?, ?, ?)",
            place.number, number, row.run, row.seq, change.length, change.tokens, change.bytes,
        )  # fmt: skip
        self._sql.execute(
            "update assistant_session_numbers set edits = ? where number = ?", number, place.number
        )
        self._restamp(Place(place.number, place.next_seq, number), newest)

    def _restamp(self, place: Place, row: MessageRow) -> None:
        """Write the true totals of a row: those of the newest message always are."""
        if row.as_of == place.edits:
            return
        true = self._tree.totals(place, row)
        self._sql.execute(
            "update assistant_messages set path_length = ?, path_tokens = ?, path_bytes = ?,"
            " as_of = ? where session = ? and id = ?",
            true.length, true.tokens, true.bytes, place.edits, place.number, row.id,
        )  # fmt: skip

    # -- removing ---------------------------------------------------------------------------

    def delete(self, session_id: str, row: MessageRow) -> None:
        """Remove a message; its children thereby follow its parent."""
        self.changed(session_id)
        place = self._tree.place_of_key(row.key)
        self._delete_row(place.number, row.id)
        if row.extra:
            self._payloads.drop(row.key)
        self._index.remove(session_id, [row.seq])
        newest = self._tree.newest(place)
        if newest is None or newest.key < row.key:
            self._sql.execute(
                "update assistant_session_numbers set next_seq = max(next_seq, ?) where number = ?",
                row.seq + 1,
                place.number,
            )
            if newest is not None:
                self._restamp(place, newest)
            return
        self._shift(row, Totals(-1, -row.tokens, -row.bytes))

    def clear(self, session_id: str, place: Place) -> None:
        """Remove all messages and overlays of a session; it keeps its number and counters."""
        self.changed(session_id)
        first, last = place.base, place.base + SESSION_SPAN - 1
        newest = self._tree.newest(place)
        self._payloads.drop_range(first, last)
        for table in (
            "assistant_messages",
            "assistant_compactions",
            "assistant_runs",
            "assistant_shifts",
        ):
            self._sql.execute(f"delete from {table} where session = ?", place.number)
        self._sql.execute(
            "update assistant_session_numbers set next_seq = max(next_seq, ?) where number = ?",
            1 if newest is None else newest.seq + 1,
            place.number,
        )
        self._index.clear(session_id)
        self._index.register(session_id, place.number)

    def delete_session(self, session_id: str, place: Place) -> None:
        """Remove everything of a session, its number included."""
        self.clear(session_id, place)
        self._index.clear(session_id)
        self._index.erase()
        self._sql.execute("delete from assistant_session_numbers where number = ?", place.number)

    # -- copying ----------------------------------------------------------------------------

    def copy_row(
        self, source: MessageRow, message: Message, target_id: str, above: Totals
    ) -> MessageRow:
        """Add a copy of a stored message behind the newest one of another session."""
        place = self.number_session(target_id)
        newest = self._tree.newest(place)
        seq = place.next_seq if newest is None else max(newest.seq + 1, place.next_seq)
        run = seq if newest is None else newest.run
        copied = MessageRow(
            place.base + seq, run, source.id, source.role, source.created_at, source.tokens,
            source.bytes, 0, source.extra, place.edits, above.length + 1,
            above.tokens + source.tokens, above.bytes + source.bytes,
        )  # fmt: skip
        self.changed(target_id)
        content = self._content(source.key)
        numbers = (
            f"[{place.number},{seq},{run},{copied.as_of},{copied.length},{copied.path_tokens},"
            f"{copied.path_bytes}]"
        )
        self._sql.execute(_INSERT, numbers, source.id)
        if run == seq:
            self._open_run(place.number, run, None)
        if source.extra:
            self._payloads.copy(source.key, copied.key)
        record = Copied(
            None if content is None else str(content), source.bytes, source.tokens, source.extra
        )
        self._index.add(target_id, seq, message, source.created_at, place.number, record)
        return copied
