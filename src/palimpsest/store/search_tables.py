"""The tables of the search index.

A row of ``assistant_fts`` is a message: what ranking reads of it, its sizes and flags, its words in
the three fields that are searched, and at the end the message itself as JSON. All but the words is
``unindexed``; FTS5 keeps the columns in ``assistant_fts_content``, whose rows are read by their
keys (:mod:`palimpsest.store.search_reader`). Short columns stand before long ones, so that none of
them is read through a text of several pages. Of the sizes of columns, which FTS5's own ranking
would want, no further row is kept (``columnsize = 0``).
"""

from __future__ import annotations


def index_table(name: str) -> str:
    """The statement that makes the index under a name."""
    return f"""
create virtual table {name} using fts5 (
  message_id unindexed, role unindexed, speaker unindexed, created_at unindexed,
  said_at unindexed, sitting unindexed, words unindexed, traits unindexed, row unindexed,
  tokens unindexed, bytes unindexed, extra unindexed, revision unindexed,
  text, tools, about, content unindexed, tokenize = 'porter unicode61', columnsize = 0
);
"""


SEARCH_VIEW = """
create view assistant_search as select
  rowid as doc, cast(row as integer) as row, message_id, role, speaker,
  cast(created_at as integer) as created_at, cast(said_at as integer) as said_at,
  cast(sitting as integer) as sitting, cast(words as integer) as words,
  cast(traits as integer) as traits, text, tools, about
from assistant_fts;
"""

INDEX_TABLES = f"""
create table assistant_search_sessions (
  number integer primary key,
  session_id text not null unique
);
{index_table("assistant_fts")}
{SEARCH_VIEW}
create table assistant_search_sittings (doc integer primary key);
create virtual table assistant_fts_grams using fts5 (
  grams, tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* S* Co'"
);
"""
