"""The tables of messages and overlays, and how a message's key is made.

A session has a small number; a message has a sequence number within its session, given once and
never again. Its key is ``number * 2**31 + seq``: one B-tree holds all messages, a session is one
range of it, and the order of keys is the order in which messages were added.

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

SESSION_SPAN = 2**31
"""The keys of one session."""

MAX_SESSION_NUMBER = 2**22 - 1
"""The last session number whose keys cross the JavaScript boundary unchanged (2^53 - 1)."""

PIECES = 1
"""Flag in ``extra``: the JSON is in ``assistant_message_pieces``; ``content`` is ``null``."""

MEDIA = 2
"""Flag in ``extra``: inline media were taken out of the JSON into ``assistant_media``."""

FORGOTTEN = 4
"""Flag in ``extra``: the content was forgotten and a marker stands in its place."""

TABLES = """
create table assistant_session_numbers (
  number integer primary key,
  session_id text not null unique,
  next_seq integer not null default 1,
  edits integer not null default 0
);
create table assistant_messages (
  key integer primary key,
  session integer not null,
  run integer not null,
  id text not null,
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
  content text not null
);
create unique index assistant_messages_by_id on assistant_messages (session, id);
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
  created_at integer not null,
  tokens integer not null,
  stale integer not null default 0,
  covered_by integer,
  summary text not null
);
create unique index assistant_compactions_by_id on assistant_compactions (session, id);
"""
