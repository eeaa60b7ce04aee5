"""The tables of messages and overlays, and how a message's key is made.

A session has a small number; a message has a sequence number within its session, given once and
never again. Its key is ``number * 2**32 + seq``: a session is one range of keys, and their order is
the order in which messages were added.

A message is one row of ``assistant_messages``, found by session and id, and one row of the search
index, whose rowid is its key. The statements that write them take all numbers as one JSON array:
on the platform a parameter costs more than a column.
Messages are read in order through the index (``assistant_ordered_messages``): a further index of
the same rows would be billed with each write.

**Runs.** A run is a stretch of messages in which each follows the one before it and no message of
another branch stands between. A message that is added behind the newest one continues its run;
every other message opens a run, and ``assistant_runs`` keeps where that run is attached. The path
to a message is therefore a list of key ranges, one for each change of branch: a conversation that
never branched is one range, however long.

A run's attachment never changes, also when the message at that place is deleted: a path holds the
messages that are left in its ranges. Deleting thus moves children to their grandparent without
touching a row, and no cycle can arise, because a run is attached to what is older than itself.

**Totals.** Each message carries the length, tokens and bytes of its path as they were when it was
written (or last restamped). A change to an older message adds a row to ``assistant_shifts``
instead of rewriting everything below it; ``as_of`` tells which shifts a message's totals include.
The newest message of a session always includes them all, so that an append reads only it.
"""

from __future__ import annotations

from palimpsest.store.search_index import FIRST_PIECE, SESSION_SPAN

MAX_SEQ = FIRST_PIECE - 1
"""The last sequence number; keys above it hold further pieces of the search index."""

PIECES = 1
"""Flag in ``extra``: the JSON is in ``assistant_message_pieces``; ``content`` is ``null``."""

MEDIA = 2
"""Flag in ``extra``: inline media were taken out of the JSON into ``assistant_media``."""

FORGOTTEN = 4
"""Flag in ``extra``: the content was forgotten and a marker stands in its place."""

TABLES = f"""
create table assistant_session_numbers (
  number integer primary key,
  session_id text not null unique,
  next_seq integer not null default 1,
  edits integer not null default 0
);
create table assistant_messages (
  session integer not null,
  id text not null,
  seq integer not null,
  run integer not null,
  role text not null,
  created_at integer not null,
  tokens integer not null,
  bytes integer not null,
  revision integer not null default 0,
  extra integer not null default 0,
  as_of integer not null default 0,
  path_length integer not null,
  path_tokens integer not null,
  path_bytes integer not null,
  content text not null,
  primary key (session, id)
) without rowid;
create view assistant_ordered_messages as
select f.rowid as key, m.*
from assistant_fts f cross join assistant_messages m
where m.session = f.rowid / {SESSION_SPAN} and m.id = f.message_id;
create table assistant_runs (
  session integer not null,
  run integer not null,
  parent_run integer,
  parent_seq integer,
  primary key (session, run)
) without rowid;
create index assistant_runs_by_parent on assistant_runs (session, parent_run, parent_seq);
create table assistant_shifts (
  session integer not null,
  number integer not null,
  run integer not null,
  seq integer not null,
  length integer not null,
  tokens integer not null,
  bytes integer not null,
  primary key (session, number)
) without rowid;
create table assistant_message_pieces (
  key integer not null,
  place integer not null,
  content text not null,
  primary key (key, place)
) without rowid;
create table assistant_media (
  hash text not null,
  place integer not null,
  data blob not null,
  primary key (hash, place)
) without rowid;
create table assistant_media_refs (
  key integer not null,
  pointer text not null,
  header text not null,
  hash text not null,
  primary key (key, pointer)
) without rowid;
create index assistant_media_refs_by_hash on assistant_media_refs (hash);
create table assistant_compactions (
  key integer primary key,
  session integer not null,
  id text not null,
  from_seq integer not null,
  from_run integer not null,
  to_seq integer not null,
  to_run integer not null,
  from_id text not null,
  to_id text not null,
  created_at integer not null,
  tokens integer not null,
  stale integer not null default 0,
  covered_by integer,
  summary text not null
);
create unique index assistant_compactions_by_id on assistant_compactions (session, id);
"""

DROP_WRITING_VIEW = "drop view if exists assistant_new_messages"
"""Earlier databases wrote both rows of a message through a view, which nothing uses any more."""
