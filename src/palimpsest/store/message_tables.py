"""The tables of messages and overlays, and how a message's key is made.

A session has a small number; a message has a sequence number within its session, given once and
never again. Its key is ``number * 2**32 + seq``: a session is one range of keys, and their order is
the order in which messages were added.

A message is one row of the search index, whose rowid is its key, and one row of
``assistant_messages``, found by session and id. Each value stands in one of them only: in the
index (:mod:`palimpsest.store.search_tables`) whatever is the message's own (its JSON, role, time,
sizes, flags, how often it was changed), in ``assistant_messages`` its place in the tree and what
its path adds up to. That row is short, since SQLite reads a row of such a table whole to find it,
and ids may be random: an append with one touches any page of the table. Messages are read in order
from the index alone (``assistant_contents``): a further index of the same rows would be billed
with each write. The statements that write both rows take all numbers as one JSON array: on the
platform a parameter costs more than a column.

A row of ``assistant_messages`` without its row of the index is no message: no view shows it.

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

from palimpsest.store.search_reader import CONTENT_COLUMNS, FIRST_PIECE, SESSION_SPAN

MAX_SEQ = FIRST_PIECE - 1
"""The last sequence number; keys above it hold further pieces of the search index."""

PIECES = 1
"""Flag in ``extra``: the JSON is in ``assistant_message_pieces``; the content is ``null``."""

MEDIA = 2
"""Flag in ``extra``: inline media were taken out of the JSON into ``assistant_media``."""

FORGOTTEN = 4
"""Flag in ``extra``: the content was forgotten and a marker stands in its place."""

MESSAGE_TABLE = """
create table assistant_messages (
  session integer not null,
  id text not null,
  seq integer not null,
  run integer not null,
  as_of integer not null default 0,
  path_length integer not null,
  path_tokens integer not null,
  path_bytes integer not null,
  primary key (session, id)
) without rowid;
"""

_OWN = ", ".join(
    f"f.c{CONTENT_COLUMNS.index(kept)} as {name}"
    for kept, name in (
        ("message_id", "id"), ("role", "role"), ("created_at", "created_at"),
        ("tokens", "tokens"), ("bytes", "bytes"), ("extra", "extra"), ("revision", "revision"),
        ("content", "content"),
    )
)  # fmt: skip
_MESSAGE_ID = f"f.c{CONTENT_COLUMNS.index('message_id')}"
_PLACE = "m.session, m.seq, m.run, m.as_of, m.path_length, m.path_tokens, m.path_bytes"

MESSAGE_VIEWS = f"""
create view assistant_contents as select f.id as key, {_OWN} from assistant_fts_content f;
create view assistant_ordered_messages as
select f.id as key, {_OWN}, {_PLACE}
from assistant_fts_content f cross join assistant_messages m
where m.session = f.id / {SESSION_SPAN} and m.id = {_MESSAGE_ID} and m.seq = f.id % {SESSION_SPAN};
create view assistant_identified_messages as
select f.id as key, {_OWN}, {_PLACE}
from assistant_messages m cross join assistant_fts_content f
where f.id = m.session * {SESSION_SPAN} + m.seq and {_MESSAGE_ID} = m.id;
"""
"""What of messages is read: of those of a range of keys what is their own, or all of it, and of
those of some ids all of it: a row of the last is found by ``session`` and ``id``. The first holds
the further pieces of very long messages too, whose keys lie above those of all messages."""

TABLES = f"""
create table assistant_session_numbers (
  number integer primary key,
  session_id text not null unique,
  next_seq integer not null default 1,
  edits integer not null default 0
);
{MESSAGE_TABLE}
{MESSAGE_VIEWS}
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
