"""The full-text index of messages: all its SQL.

``assistant_search`` holds one row per message (further rows for very long ones): its words, role,
speaker and times. ``assistant_fts`` indexes those words; it stores no text of its own, and triggers
keep it equal to ``assistant_search`` whatever is written there. ``assistant_fts_grams`` indexes
scripts without spaces in single characters and is written only where such text exists.

A row's key is the session's number times 2^32 plus the message's row number. A session is thus
one range of keys, which FTS5 reads directly, and a message's neighbours are the next keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from palimpsest.errors import LimitError
from palimpsest.hosts.interface import Sql
from palimpsest.messages import Message, is_compaction_message
from palimpsest.store.schema import migrate
from palimpsest.store.search_text import IndexedText, indexed_pieces

SESSION_SPAN = 2**32
"""The keys of one session."""

FIRST_PIECE = 2**31
"""Keys from here on, within a session, hold the further pieces of very long messages."""

MAX_SESSION_NUMBER = 2**21 - 1
"""The last session number whose keys cross the JavaScript boundary unchanged (2^53 - 1)."""


def _drop_foreign_index(sql: Sql) -> None:
    # The TypeScript package kept its words in a table of this name, with other columns.
    sql.execute("drop table if exists assistant_fts")


_TABLES = """
create table assistant_search_sessions (
  number integer primary key,
  session_id text not null unique
);
create table assistant_search (
  doc integer primary key,
  row integer not null,
  message_id text not null,
  role text not null,
  speaker text not null,
  created_at integer not null,
  said_at integer not null,
  text text not null,
  tools text not null,
  about text not null
);
create virtual table assistant_fts using fts5 (
  text, tools, about,
  content = 'assistant_search', content_rowid = 'doc', tokenize = 'porter unicode61'
);
create virtual table assistant_fts_grams using fts5 (
  grams, tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* S* Co'"
);
create trigger assistant_search_added after insert on assistant_search begin
  insert into assistant_fts (rowid, text, tools, about)
  values (new.doc, new.text, new.tools, new.about);
end;
create trigger assistant_search_removed after delete on assistant_search begin
  insert into assistant_fts (assistant_fts, rowid, text, tools, about)
  values ('delete', old.doc, old.text, old.tools, old.about);
end;
create trigger assistant_search_changed after update on assistant_search
when old.text <> new.text or old.tools <> new.tools or old.about <> new.about begin
  insert into assistant_fts (assistant_fts, rowid, text, tools, about)
  values ('delete', old.doc, old.text, old.tools, old.about);
  insert into assistant_fts (rowid, text, tools, about)
  values (new.doc, new.text, new.tools, new.about);
end;
"""

_MIGRATIONS = (_drop_foreign_index, _TABLES)

_ADD = """
insert into assistant_search
  (doc, row, message_id, role, speaker, created_at, said_at, text, tools, about)
select number * 4294967296 + cast(?1 as integer), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
from assistant_search_sessions where session_id = ?11
on conflict (doc) do update set
  message_id = excluded.message_id, role = excluded.role, speaker = excluded.speaker,
  created_at = excluded.created_at, said_at = excluded.said_at,
  text = excluded.text, tools = excluded.tools, about = excluded.about
returning doc
"""


class SearchIndex:
    """The words of all messages of one database.

    Every method writes within the caller's transaction; none opens one of its own.
    """

    def __init__(self, sql: Sql, *, reasoning: bool = False) -> None:
        """Open the index, making its tables on first use.

        :param reasoning: whether reasoning parts are indexed with the text.
        """
        self.sql = sql
        self._reasoning = reasoning
        migrate(sql, "search", _MIGRATIONS)

    def add(self, session_id: str, row: int, message: Message, created_at: int) -> None:
        """Index a new message.

        :param row: the message's row number, unique in its session and ascending in its order.
        :param created_at: when it was stored, in ms since 1970.
        :raises LimitError: the row number or the number of sessions is too large for a key.
        """
        if is_compaction_message(message):
            return
        if not 0 < row < FIRST_PIECE:
            raise LimitError(f"a search row number lies between 1 and 2^31 - 1, got {row}")
        pieces, speaker, said = indexed_pieces(message, reasoning=self._reasoning)
        fields = (
            str(message["id"]), str(message["role"]), speaker, created_at,
            created_at if said is None else said,
        )  # fmt: skip
        doc = self._put(session_id, row, row, fields, pieces[0])
        if len(pieces) > 1:
            self._put_further_pieces(session_id, row, doc, fields, pieces[1:])

    def update(self, session_id: str, row: int, message: Message, created_at: int) -> None:
        """Index a message anew after it was replaced; adds it if it was not indexed."""
        if is_compaction_message(message):
            return
        if number := self._number(session_id):
            doc = number * SESSION_SPAN + row
            self._remove_further_pieces(number, [row])
            self.sql.execute("delete from assistant_fts_grams where rowid = cast(? as integer)", doc)
        self.add(session_id, row, message, created_at)

    def remove(self, session_id: str, rows: Iterable[int]) -> None:
        """Take messages out of the index; unknown ones are ignored."""
        number = self._number(session_id)
        listed = list(rows)
        if number is None or not listed:
            return
        self._remove_further_pieces(number, listed)
        docs = json.dumps([number * SESSION_SPAN + row for row in listed])
        self.sql.execute(
            "delete from assistant_fts_grams where rowid in (select value from json_each(?))", docs
        )
        self.sql.execute(
            "delete from assistant_search where doc in (select value from json_each(?))", docs
        )

    def clear(self, session_id: str) -> None:
        """Take all messages of a session out of the index."""
        number = self._number(session_id)
        if number is None:
            return
        first, last = number * SESSION_SPAN, (number + 1) * SESSION_SPAN - 1
        for table, key in (("assistant_fts_grams", "rowid"), ("assistant_search", "doc")):
            self.sql.execute(
                f"delete from {table} where {key} between cast(? as integer) and cast(? as integer)",
                first,
                last,
            )
        self.sql.execute("delete from assistant_search_sessions where number = ?", number)

    def _put(
        self, session_id: str, key: int, row: int, fields: tuple[Any, ...], piece: IndexedText
    ) -> int:
        bindings = (key, row, *fields, piece.text, piece.tools, piece.about, session_id)
        added = self.sql.execute(_ADD, *bindings)
        if not added:
            self._number_session(session_id)
            added = self.sql.execute(_ADD, *bindings)
        doc = int(added[0][0] or 0)
        if piece.grams:
            self.sql.execute(
                "insert into assistant_fts_grams (rowid, grams) values (cast(? as integer), ?)",
                doc,
                piece.grams,
            )
        return doc

    def _put_further_pieces(
        self,
        session_id: str,
        row: int,
        doc: int,
        fields: tuple[Any, ...],
        pieces: list[IndexedText],
    ) -> None:
        base = doc - row
        last = self.sql.execute(
            "select max(doc) from assistant_search where doc between cast(? as integer)"
            " and cast(? as integer)",
            base + FIRST_PIECE,
            base + SESSION_SPAN - 1,
        )[0][0]
        key = FIRST_PIECE if last is None else int(last) - base + 1
        for offset, piece in enumerate(pieces):
            self._put(session_id, key + offset, row, fields, piece)

    def _remove_further_pieces(self, number: int, rows: list[int]) -> None:
        first, last = number * SESSION_SPAN + FIRST_PIECE, (number + 1) * SESSION_SPAN - 1
        found = self.sql.execute(
            "select json_group_array(doc) from assistant_search where doc between"
            " cast(?1 as integer) and cast(?2 as integer)"
            " and row in (select value from json_each(?3))",
            first,
            last,
            json.dumps(rows),
        )[0][0]
        if found == "[]":
            return
        self.sql.execute(
            "delete from assistant_fts_grams where rowid in (select value from json_each(?))", found
        )
        self.sql.execute(
            "delete from assistant_search where doc in (select value from json_each(?))", found
        )

    def _number(self, session_id: str) -> int | None:
        rows = self.sql.execute(
            "select number from assistant_search_sessions where session_id = ?", session_id
        )
        return int(rows[0][0] or 0) if rows else None

    def _number_session(self, session_id: str) -> None:
        rows = self.sql.execute(
            "insert into assistant_search_sessions (session_id) values (?) returning number",
            session_id,
        )
        if int(rows[0][0] or 0) > MAX_SESSION_NUMBER:
            raise LimitError(f"one object indexes at most {MAX_SESSION_NUMBER} sessions")
