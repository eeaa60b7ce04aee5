"""The full-text index of messages: the upkeep of its tables.

``assistant_fts`` (:mod:`palimpsest.store.search_tables`) holds one row per message (further rows
for very long ones): its words, role, speaker and times, and the message itself, which the message
store hands over as a :class:`Record`. ``assistant_fts_grams`` indexes scripts without spaces in
single characters and is written only where such text exists.

A row's key is the session's number times 2^32 plus the message's row number. A session is thus
one range of keys, which FTS5 reads directly, and a message's neighbours are the next keys. The
message store reads its messages in this order too (:mod:`palimpsest.store.message_tables`). What
searches read is in :mod:`palimpsest.store.search_reader`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple, Protocol, cast

from palimpsest.errors import LimitError
from palimpsest.hosts.interface import Sql
from palimpsest.messages import Message, dump_json
from palimpsest.store.content_move import move_content
from palimpsest.store.schema import migrate
from palimpsest.store.search_reader import (
    FIRST_PIECE,
    MAX_SESSION_NUMBER,
    SESSION_SPAN,
    SearchReader,
)
from palimpsest.store.search_tables import INDEX_TABLES
from palimpsest.store.search_text import IndexedMessage, IndexedText, indexed_message


def _drop_foreign_index(sql: Sql) -> None:
    # The TypeScript package kept its words in a table of this name, with other columns.
    sql.execute("drop table if exists assistant_fts")


_MIGRATIONS = (_drop_foreign_index, INDEX_TABLES, move_content)

SITTING_PAUSE = 3_600_000
"""The pause, in ms, after which talk is a new sitting."""

SITTING_ROWS = 32
"""The most row numbers that one sitting spans, pause or not."""

_ADD = """
insert into assistant_fts
  (rowid, row, sitting, created_at, said_at, words, traits, tokens, bytes, extra, revision,
   speaker, about, message_id, role, text, tools, content)
values (?1 ->> 0, ?1 ->> 1, ?1 ->> 2, ?1 ->> 3, ?1 ->> 4, ?1 ->> 5, ?1 ->> 6, ?1 ->> 7, ?1 ->> 8,
  ?1 ->> 9, 0, ?1 ->> 10, ?1 ->> 11, ?2, ?3, ?4, ?5, ?6)
"""
"""Its numbers come as one JSON array: on the platform a parameter costs more than a column."""

_CHANGE = """
update assistant_fts set created_at = ?1 ->> 1, said_at = ?1 ->> 2, words = ?1 ->> 3,
  traits = ?1 ->> 4, tokens = ?1 ->> 5, bytes = ?1 ->> 6, extra = ?1 ->> 7,
  revision = cast(revision as integer) + 1, speaker = ?1 ->> 8, about = ?1 ->> 9,
  message_id = ?2, role = ?3, text = ?4, tools = ?5, content = ?6
where rowid = ?1 ->> 0
"""

_SESSIONS_KNOWN = 256
"""Of how many sessions the last message is remembered."""


class _Last(NamedTuple):
    """The last message of a session; true as long as nothing was rolled back since."""

    row: int
    said_at: int
    sitting: int
    rollbacks: int


class Record(Protocol):
    """What the message store keeps in a message's row of the index."""

    @property
    def content(self) -> str | None:
        """The message's JSON; ``null`` where it stands in pieces, None where no store keeps it."""
        ...

    @property
    def bytes(self) -> int:
        """Size of the whole JSON, media included."""
        ...

    @property
    def tokens(self) -> int:
        """Tokens by the default counter."""
        ...

    @property
    def extra(self) -> int:
        """Flags of :mod:`palimpsest.store.message_tables`."""
        ...


class Copied(NamedTuple):
    """A record that is given in values."""

    content: str | None
    bytes: int
    tokens: int
    extra: int


NO_RECORD: Record = Copied(None, 0, 0, 0)
"""Of a message that is searched here and stored elsewhere, and of further pieces."""


class Entry(NamedTuple):
    """What the index holds of a new message."""

    doc: int
    row: int
    sitting: int
    message_id: str
    role: str
    created_at: int
    said_at: int
    read: IndexedMessage
    record: Record = NO_RECORD

    @property
    def number(self) -> int:
        """The session's number."""
        return self.doc // SESSION_SPAN

    @property
    def is_plain(self) -> bool:
        """Whether the message's own row is all that the index needs, but for a new sitting."""
        pieces = self.read.pieces
        return len(pieces) == 1 and not pieces[0].grams


class SearchIndex(SearchReader):
    """The words of all messages of one database.

    Every method writes within the caller's transaction; none opens one of its own.
    """

    def __init__(self, sql: Sql, *, reasoning: bool = False) -> None:
        """Open the index, making its tables on first use.

        :param reasoning: whether reasoning parts are indexed with the text.
        """
        super().__init__(sql)
        self._reasoning = reasoning
        migrate(sql, "search", _MIGRATIONS)
        # The last message of sessions written lately, to tell the sitting of the next one.
        self._lately: dict[int, _Last] = {}

    def register(self, session_id: str, number: int) -> None:
        """Use this number for a session's keys.

        :raises LimitError: the number is too large for a key.
        """
        if number > MAX_SESSION_NUMBER:
            raise LimitError(f"one object indexes at most {MAX_SESSION_NUMBER} sessions")
        self.sql.execute(
            "insert into assistant_search_sessions (number, session_id) values (?, ?)",
            number,
            session_id,
        )

    def add(
        self,
        session_id: str,
        row: int,
        message: Message,
        created_at: int,
        number: int | None = None,
        record: Record = NO_RECORD,
    ) -> None:
        """Index a new message.

        :param row: the message's row number, unique in its session and ascending in its order.
        :param created_at: when it was stored, in ms since 1970.
        :param number: the session's number where the caller knows it.
        :param record: what else its row keeps.
        :raises LimitError: the row number or the number of sessions is too large for a key.
        """
        if number is None:
            number = self.number(session_id) or self._number_session(session_id)
        entry = self.entry(number, row, message, created_at, record)
        self.put(entry)
        self.complete(entry)

    def entry(
        self,
        number: int,
        row: int,
        message: Message,
        created_at: int,
        record: Record = NO_RECORD,
    ) -> Entry:
        """What the index holds of a new message; ``put`` and ``complete`` store it.

        :raises LimitError: the row number is too large for a key.
        """
        if not 0 < row < FIRST_PIECE:
            raise LimitError(f"one session holds at most {FIRST_PIECE - 1} messages in its life")
        read = indexed_message(message, reasoning=self._reasoning)
        said_at = created_at if read.said_at is None else read.said_at
        return Entry(
            number * SESSION_SPAN + row, row, self._sitting(number, row, said_at),
            message["id"], message["role"], created_at, said_at, read, record,
        )  # fmt: skip

    def put(self, entry: Entry) -> None:
        """Store a new message's own row, and where a sitting begins; both or neither."""
        opens = entry.sitting == entry.doc
        if opens:
            self.sql.execute(
                "insert or ignore into assistant_search_sittings (doc) values (?)", entry.doc
            )
        try:
            self._put_piece(entry, entry.doc, entry.sitting, entry.read.pieces[0], entry.record)
        except BaseException:
            if opens:
                self._close_sitting(entry.doc)
            raise

    def _close_sitting(self, doc: int) -> None:
        self.sql.execute("delete from assistant_search_sittings where doc = ?", doc)

    def _put_piece(
        self, entry: Entry, doc: int, sitting: int, piece: IndexedText, record: Record
    ) -> None:
        read = entry.read
        speaker = dump_json(read.speaker) if read.speaker else '""'
        about = dump_json(piece.about) if piece.about else '""'
        numbers = (
            f"[{doc},{entry.row},{sitting},{entry.created_at},{entry.said_at},{read.words},"
            f"{read.traits},{record.tokens},{record.bytes},{record.extra},"
            f"{speaker},{about}]"
        )
        self.sql.execute(
            _ADD, numbers, entry.message_id, entry.role, piece.text, piece.tools, record.content
        )

    def complete(self, entry: Entry) -> None:
        """Store what an entry needs besides its row: nothing for most messages."""
        first, *further = entry.read.pieces
        if first.grams:
            self._put_grams(entry.doc, first.grams)
        if further:
            self._put_further_pieces(entry, further)

    def update(
        self,
        session_id: str,
        row: int,
        message: Message,
        created_at: int,
        record: Record = NO_RECORD,
    ) -> None:
        """Index a message anew after it was replaced; adds it if it was not indexed."""
        number = self.number(session_id)
        if number is None or not self._has(number * SESSION_SPAN + row):
            self.add(session_id, row, message, created_at, number, record)
            return
        doc = number * SESSION_SPAN + row
        self._remove_further_pieces(number, [row])
        self._remove_grams([doc])
        read = indexed_message(message, reasoning=self._reasoning)
        said_at = created_at if read.said_at is None else read.said_at
        entry = Entry(
            doc, row, doc, message["id"], message["role"], created_at, said_at, read, record
        )  # fmt: skip
        piece = read.pieces[0]
        numbers = (
            f"[{doc},{created_at},{said_at},{read.words},{read.traits},{record.tokens},"
            f"{record.bytes},{record.extra},{dump_json(read.speaker)},{dump_json(piece.about)}]"
        )
        self.sql.execute(
            _CHANGE, numbers, entry.message_id, entry.role, piece.text, piece.tools, record.content
        )
        self.complete(entry)

    def _has(self, doc: int) -> bool:
        return bool(
            self.sql.execute("select 1 from assistant_fts where rowid = cast(? as integer)", doc)
        )

    def remove(self, session_id: str, rows: Iterable[int]) -> None:
        """Take messages out of the index; unknown ones are ignored."""
        number = self.number(session_id)
        listed = list(rows)
        if number is None or not listed:
            return
        self._lately.clear()
        self._remove_further_pieces(number, listed)
        docs = [number * SESSION_SPAN + row for row in listed]
        self._remove_grams(docs)
        for doc in docs:
            self.sql.execute("delete from assistant_fts where rowid = cast(? as integer)", doc)
            self._close_sitting(doc)

    def forget(
        self,
        session_id: str,
        row: int,
        marker: Message,
        created_at: int,
        record: Record = NO_RECORD,
    ) -> None:
        """Take a message and its words out for good; :meth:`erase` completes it.

        :param marker: what stands in its place; ``record`` is the marker's.
        """
        self.update(session_id, row, {**marker, "parts": []}, created_at, record)

    def erase(self) -> None:
        """Erase whatever was taken out, now or earlier: FTS5 keeps it until it merges its parts.

        What an update replaced is in other parts than the message's present words, so that
        FTS5's ``secure-delete`` would not reach it: the whole index is merged.
        """
        for table in ("assistant_fts", "assistant_fts_grams"):
            self.sql.execute(f"insert into {table} ({table}) values ('optimize')")

    def clear(self, session_id: str) -> None:
        """Take all messages of a session out of the index, and its number."""
        number = self.number(session_id)
        if number is None:
            return
        self._lately.clear()
        first, last = number * SESSION_SPAN, (number + 1) * SESSION_SPAN - 1
        for table, key in (
            ("assistant_fts_grams", "rowid"),
            ("assistant_fts", "rowid"),
            ("assistant_search_sittings", "doc"),
        ):
            self.sql.execute(
                f"delete from {table}"
                f" where {key} between cast(? as integer) and cast(? as integer)",
                first,
                last,
            )
        self.sql.execute("delete from assistant_search_sessions where number = ?", number)

    # -- parts of writing ---------------------------------------------------------------------

    def _sitting(self, number: int, row: int, said_at: int) -> int:
        """The sitting of a new message: that of the one before, unless a pause or the span parts.

        Notes it for the next message.
        """
        last = self._lately.get(number)
        if last is None or last.rollbacks != self.sql.rollbacks or last.row >= row:
            last = self._last_before(number, row)
        doc = number * SESSION_SPAN + row
        sitting = doc
        if (
            last is not None
            and abs(last.said_at - said_at) <= SITTING_PAUSE
            and last.sitting > doc - SITTING_ROWS
        ):
            sitting = last.sitting
        if len(self._lately) >= _SESSIONS_KNOWN:
            self._lately.clear()
        self._lately[number] = _Last(row, said_at, sitting, self.sql.rollbacks)
        return sitting

    def _last_before(self, number: int, row: int) -> _Last | None:
        rows = self.sql.execute(
            "select row, said_at, sitting from assistant_fts"
            " where rowid between cast(? as integer) and cast(? as integer)"
            " order by rowid desc limit 1",
            number * SESSION_SPAN,
            number * SESSION_SPAN + row - 1,
        )
        if not rows:
            return None
        last, said_at, sitting = cast("list[int]", rows[0])
        return _Last(last, said_at, sitting, self.sql.rollbacks)

    def _put_grams(self, doc: int, grams: str) -> None:
        self.sql.execute(
            "insert into assistant_fts_grams (rowid, grams) values (cast(? as integer), ?)",
            doc,
            grams,
        )

    def _put_further_pieces(self, entry: Entry, pieces: list[IndexedText]) -> None:
        base = entry.doc - entry.row
        rows = self.sql.execute(
            "select rowid from assistant_fts where rowid between cast(? as integer)"
            " and cast(? as integer) order by rowid desc limit 1",
            base + FIRST_PIECE,
            base + SESSION_SPAN - 1,
        )
        key = FIRST_PIECE if not rows else int(rows[0][0] or 0) - base + 1
        for doc, piece in enumerate(pieces, base + key):
            self._put_piece(entry, doc, 0, piece, NO_RECORD)
            if piece.grams:
                self._put_grams(doc, piece.grams)

    def _remove_further_pieces(self, number: int, rows: list[int]) -> None:
        first, last = number * SESSION_SPAN + FIRST_PIECE, (number + 1) * SESSION_SPAN - 1
        found = self.sql.execute(
            "select json_group_array(rowid) from assistant_fts where rowid between"
            " cast(?1 as integer) and cast(?2 as integer)"
            " and row in (select value from json_each(?3))",
            first,
            last,
            json.dumps(rows),
        )[0][0]
        docs: list[int] = json.loads(str(found))
        self._remove_grams(docs)
        for doc in docs:
            self.sql.execute("delete from assistant_fts where rowid = cast(? as integer)", doc)

    def _remove_grams(self, docs: list[int]) -> None:
        for doc in docs:
            self.sql.execute(
                "delete from assistant_fts_grams where rowid = cast(? as integer)", doc
            )

    def _number_session(self, session_id: str) -> int:
        rows = self.sql.execute(
            "insert into assistant_search_sessions (session_id) values (?) returning number",
            session_id,
        )
        number = int(rows[0][0] or 0)
        if number > MAX_SESSION_NUMBER:
            raise LimitError(f"one object indexes at most {MAX_SESSION_NUMBER} sessions")
        return number
