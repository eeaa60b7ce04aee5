"""Brings a database into the form in which ``assistant_messages`` held the content of messages."""

from __future__ import annotations

import re
from pathlib import Path

from palimpsest.hosts.interface import Sql

EARLIER = Path(__file__).parents[1] / "behaviour" / "earlier_database.sql"

_VIEWS = (
    "assistant_search",
    "assistant_contents",
    "assistant_ordered_messages",
    "assistant_identified_messages",
)

_WORDS = (
    "message_id, role, speaker, created_at, said_at, sitting, words, traits, row, text, tools,"
    " about"
)


def bring_to_earlier_form(sql: Sql) -> None:
    """Write the tables that held content, from those of the present form, and note the version."""
    for view in _VIEWS:
        sql.execute(f"drop view {view}")
    for table in ("assistant_fts", "assistant_messages"):
        sql.execute(f"alter table {table} rename to {table}_now")
        sql.execute(_creating(f"table {table}"))
    sql.execute(
        f"insert into assistant_fts (rowid, {_WORDS})"
        f" select rowid, {_WORDS} from assistant_fts_now order by rowid"
    )
    sql.execute(
        "insert into assistant_messages (session, id, seq, run, role, created_at, tokens, bytes,"
        " revision, extra, as_of, path_length, path_tokens, path_bytes, content)"
        " select m.session, m.id, m.seq, m.run, f.role, f.created_at, f.tokens, f.bytes,"
        " f.revision, f.extra, m.as_of, m.path_length, m.path_tokens, m.path_bytes, f.content"
        " from assistant_messages_now m join assistant_fts_now f"
        " on f.rowid = m.session * 4294967296 + m.seq"
    )
    for table in ("assistant_fts", "assistant_messages"):
        sql.execute(f"drop table {table}_now")
    for view in ("assistant_search", "assistant_ordered_messages"):
        sql.execute(_creating(f"view {view}"))
    sql.execute("update palimpsest_schema set version = 2 where component = 'search'")


def _creating(what: str) -> str:
    """The statement of the earlier database that creates a table or view."""
    text = EARLIER.read_text(encoding="utf-8")
    kind, name = what.split()
    found = re.search(rf"(?ims)^create (virtual )?{kind} {name}\b[^;]*;", text)
    assert found is not None, what
    return found[0]
