"""Moving the content of messages into their rows of the search index.

Earlier databases kept a message's JSON, sizes and flags in ``assistant_messages``. FTS5 cannot add
a column to an index, so the index is written anew from its rows and those of the messages, and
takes the place of the old one; the messages' rows are written anew without what moved. All in the
transaction of the migration: a database is moved once and completely, or not at all.
"""

from __future__ import annotations

from palimpsest.hosts.interface import Sql
from palimpsest.store.message_tables import MESSAGE_TABLE, MESSAGE_VIEWS, PIECES
from palimpsest.store.payloads import IN_ROW_BYTES
from palimpsest.store.search_reader import SESSION_SPAN
from palimpsest.store.search_tables import SEARCH_VIEW, index_table

_OLD_VIEWS = ("assistant_new_messages", "assistant_ordered_messages", "assistant_search")

_HAS_LONG_CONTENT = f"m.extra & {PIECES} = 0 and length(cast(m.content as blob)) > {IN_ROW_BYTES}"
"""A row of the old messages ``m`` whose content a row of the index cannot hold beside its words."""

_KEEP_LONG_CONTENT = f"""
insert into assistant_message_pieces (key, place, content)
select m.session * {SESSION_SPAN} + m.seq, 0, m.content from assistant_messages m
where {_HAS_LONG_CONTENT}
"""

_WORDS = (
    "f.c0, f.c1, f.c2, cast(f.c3 as integer), cast(f.c4 as integer), cast(f.c5 as integer),"
    " cast(f.c6 as integer), cast(f.c7 as integer), cast(f.c8 as integer), f.c9, f.c10, f.c11"
)
"""The columns of the old index as FTS5 kept them: what was bound as REAL becomes an integer."""

_INSERT = """
insert into assistant_fts_wide
  (rowid, message_id, role, speaker, created_at, said_at, sitting, words, traits, row, text, tools,
   about, tokens, bytes, extra, revision, content)
"""

_MOVE = f"""
{_INSERT} select f.id, {_WORDS}, ifnull(m.tokens, 0), ifnull(m.bytes, 0),
  ifnull(case when {_HAS_LONG_CONTENT} then m.extra | {PIECES} else m.extra end, 0),
  ifnull(m.revision, 0), case when {_HAS_LONG_CONTENT} then 'null' else m.content end
from assistant_fts_content f left join assistant_messages m
  on m.session = f.id / {SESSION_SPAN} and m.id = f.c0 and m.seq = f.id % {SESSION_SPAN}
order by f.id
"""

_MOVE_WORDS = f"{_INSERT} select f.id, {_WORDS}, 0, 0, 0, 0, null from assistant_fts_content f"

_NARROW_MESSAGES = f"""
alter table assistant_messages rename to assistant_messages_with_content;
{MESSAGE_TABLE}
insert into assistant_messages
  (session, id, seq, run, as_of, path_length, path_tokens, path_bytes)
select session, id, seq, run, as_of, path_length, path_tokens, path_bytes
from assistant_messages_with_content order by session, id;
drop table assistant_messages_with_content;
"""


def move_content(sql: Sql) -> None:
    """Bring a database of the earlier form into the present one; others stay as they are."""
    if "content" in _columns(sql, "assistant_fts"):
        return
    # Tables of the TypeScript package have this name too; they are upgraded by their own step.
    messages = {"path_length", "content"} <= _columns(sql, "assistant_messages")
    for view in _OLD_VIEWS:
        sql.execute(f"drop view if exists {view}")
    sql.execute(index_table("assistant_fts_wide"))
    if messages:
        sql.execute(_KEEP_LONG_CONTENT)
        sql.execute(_MOVE)
        sql.execute(_NARROW_MESSAGES)
    else:
        sql.execute(_MOVE_WORDS)
    sql.execute("drop table assistant_fts")
    sql.execute("alter table assistant_fts_wide rename to assistant_fts")
    sql.execute(SEARCH_VIEW)
    if messages:
        sql.execute(MESSAGE_VIEWS)


def _columns(sql: Sql, table: str) -> set[str]:
    return {str(row[1]) for row in sql.execute(f"pragma table_info({table})")}
