"""All SQL for PostgreSQL: the migration that its owner runs, and the statements of the providers.

The tables have the columns that the TypeScript package documents for Postgres. Every parameter is
a text, an integer or null and is cast where it is used, so that no driver has to guess; every
statement gives rows. Paths are walked by ids, and content is read only for what is shown.
"""

from __future__ import annotations

POSTGRES_MIGRATION: tuple[str, ...] = (
    """
create table if not exists assistant_messages (
    id text not null,
    session_id text not null default '',
    parent_id text,
    role text not null,
    content text not null,
    text_content text not null default '',
    created_at timestamptz default now(),
    content_tsv tsvector generated always as (to_tsvector('english', text_content)) stored,
    primary key (session_id, id)
)""",
    """
create index if not exists assistant_messages_children
    on assistant_messages (session_id, parent_id)""",
    """
create index if not exists assistant_messages_newest
    on assistant_messages (session_id, created_at desc, id desc)""",
    """
create index if not exists assistant_messages_words
    on assistant_messages using gin (content_tsv)""",
    """
create table if not exists assistant_compactions (
    id text primary key,
    session_id text not null default '',
    summary text not null,
    from_message_id text not null,
    to_message_id text not null,
    created_at timestamptz default now()
)""",
    """
create index if not exists assistant_compactions_session
    on assistant_compactions (session_id, created_at)""",
    """
create table if not exists cf_agents_context_blocks (
    label text primary key,
    content text not null,
    updated_at timestamptz default now()
)""",
    """
create table if not exists cf_agents_search_entries (
    label text not null,
    key text not null,
    content text not null,
    created_at timestamptz default now(),
    updated_at timestamptz default now(),
    content_tsv tsvector generated always as (to_tsvector('english', left(content, 250000))) stored,
    primary key (label, key)
)""",
    """
create index if not exists cf_agents_search_entries_words
    on cf_agents_search_entries using gin (content_tsv)""",
    # A function, because each of its statements sees what was committed before it: the parent is
    # chosen after the lock is held, so two processes never answer the same message by accident.
    """
create or replace function palimpsest_append_message(
    a_session text, an_id text, a_place text, a_parent text, a_role text, a_content text,
    a_text text
) returns text language plpgsql as $palimpsest$
declare
    place text := a_parent;
    latest timestamptz;
begin
    perform pg_advisory_xact_lock(hashtextextended('palimpsest ' || a_session, 0));
    perform 1 from assistant_messages where session_id = a_session and id = an_id;
    if found then
        return 'exists';
    end if;
    if a_place = 'newest' then
        select id into place from assistant_messages where session_id = a_session
            order by created_at desc, id desc limit 1;
    elsif a_place = 'below' then
        perform 1 from assistant_messages where session_id = a_session and id = a_parent;
        if not found then
            return 'no parent';
        end if;
    end if;
    select max(created_at) into latest from assistant_messages where session_id = a_session;
    insert into assistant_messages
        (id, session_id, parent_id, role, content, text_content, created_at)
    values (
        an_id, a_session, place, a_role, a_content, a_text,
        greatest(clock_timestamp(), latest + interval '1 microsecond')
    );
    return 'inserted';
end
$palimpsest$""",
    # Children move to the parent and overlays shrink to what is left, one message after the other.
    """
create or replace function palimpsest_delete_messages(a_session text, some_ids text)
returns integer language plpgsql as $palimpsest$
declare
    one text;
    above text;
    deleted integer := 0;
begin
    perform pg_advisory_xact_lock(hashtextextended('palimpsest ' || a_session, 0));
    for one in select jsonb_array_elements_text(some_ids::jsonb) loop
        select parent_id into above from assistant_messages
            where session_id = a_session and id = one;
        if not found then
            continue;
        end if;
        delete from assistant_compactions
            where session_id = a_session and from_message_id = one and to_message_id = one;
        update assistant_compactions as overlay set from_message_id = coalesce((
            with recursive way (id, parent_id, depth) as (
                select id, parent_id, 0 from assistant_messages
                    where session_id = a_session and id = overlay.to_message_id
                union all
                select step.id, step.parent_id, way.depth + 1
                    from way join assistant_messages as step
                        on step.session_id = a_session and step.id = way.parent_id
                    where way.parent_id <> one and way.depth < (
                        select count(*) from assistant_messages where session_id = a_session
                    )
            )
            select way.id from way where way.parent_id = one limit 1
        ), overlay.from_message_id)
            where overlay.session_id = a_session and overlay.from_message_id = one;
        update assistant_compactions set to_message_id = coalesce(above, to_message_id)
            where session_id = a_session and to_message_id = one;
        update assistant_messages set parent_id = above
            where session_id = a_session and parent_id = one;
        delete from assistant_messages where session_id = a_session and id = one;
        deleted := deleted + 1;
    end loop;
    return deleted;
end
$palimpsest$""",
)
"""Statements to run once, in this order; running them again changes nothing.

Over tables of the TypeScript package they add what is missing and change no row.
"""

MAX_INDEXED_CHARACTERS = 250_000
"""How much of a message's text is found by searching: a ``tsvector`` holds at most 1 MB."""

_LEAF = """
    select coalesce($2::text, (
        select id from assistant_messages where session_id = $1::text
            order by created_at desc, id desc limit 1
    )) as id"""

_PATH = f"""
with recursive leaf as ({_LEAF}), path (id, parent_id, depth) as (
    select m.id, m.parent_id, 0 from leaf join assistant_messages as m
        on m.session_id = $1::text and m.id = leaf.id
    union all
    select m.id, m.parent_id, path.depth + 1 from path join assistant_messages as m
        on m.session_id = $1::text and m.id = path.parent_id
        where path.depth < (select count(*) from assistant_messages where session_id = $1::text)
)"""
# The depth is bounded by what there is: a cycle of parents ends, and shows as an id seen twice.

GET_MESSAGE = """
select id, role, content from assistant_messages where session_id = $1::text and id = $2::text"""

GET_LATEST_LEAF = """
select id, role, content from assistant_messages where session_id = $1::text
    order by created_at desc, id desc limit 1"""

GET_BRANCHES = """
select id, role, content from assistant_messages
    where session_id = $1::text and parent_id = $2::text order by created_at, id"""

GET_PATH = f"{_PATH} select id from path order by depth desc"

GET_PATH_SIZES = f"""{_PATH}
select m.id, m.role, octet_length(m.content) as bytes, m.created_at from path
    join assistant_messages as m on m.session_id = $1::text and m.id = path.id
    order by path.depth desc"""

GET_PATH_LENGTH = f"{_PATH} select count(*) as length from path"

GET_ORIGINALS = f"""
with recursive leaf as ({_LEAF}), path (id, role, content, parent_id, depth) as (
    select m.id, m.role, m.content, m.parent_id, 0 from leaf join assistant_messages as m
        on m.session_id = $1::text and m.id = leaf.id
    union all
    select m.id, m.role, m.content, m.parent_id, path.depth + 1
        from path join assistant_messages as m
        on m.session_id = $1::text and m.id = path.parent_id
        where path.depth < (select count(*) from assistant_messages where session_id = $1::text)
)
select id, role, content from path order by depth desc"""
# What is long is carried as a pointer: reading each row once more costs more than carrying it.

GET_CONTENTS = """
select id, role, content from assistant_messages
    where session_id = $1::text and id in (select jsonb_array_elements_text($2::text::jsonb))"""

GET_COMPACTIONS = """
select id, summary, from_message_id, to_message_id, created_at from assistant_compactions
    where session_id = $1::text order by created_at, id"""

APPEND_MESSAGE = """
select palimpsest_append_message(
    $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text
) as outcome"""

UPDATE_MESSAGE = """
update assistant_messages set role = $3::text, content = $4::text, text_content = $5::text
    where session_id = $1::text and id = $2::text returning id"""

DELETE_MESSAGES = "select palimpsest_delete_messages($1::text, $2::text) as deleted"

CLEAR_MESSAGES = """
with overlays as (
    delete from assistant_compactions where session_id = $1::text returning id
), messages as (
    delete from assistant_messages where session_id = $1::text returning id
)
select (select count(*) from messages) + (select count(*) from overlays) as deleted"""

ADD_COMPACTION = """
insert into assistant_compactions
    (id, session_id, summary, from_message_id, to_message_id, created_at)
select $2::text, $1::text, $3::text, $4::text, $5::text, greatest(
    clock_timestamp(),
    (select max(created_at) from assistant_compactions where session_id = $1::text)
        + interval '1 microsecond'
)
returning id, summary, from_message_id, to_message_id, created_at"""

REMOVE_COMPACTION = """
delete from assistant_compactions where session_id = $1::text and id = $2::text returning id"""

# Words are alternatives: "&" between the lexemes of a plain query becomes "|". What holds them all
# comes first.
_ASKED = """
with asked as (
    select plainto_tsquery('english', $2::text) as everything,
        replace(plainto_tsquery('english', $2::text)::text, ' & ', ' | ')::tsquery as anything
)"""

_RANK = """
ts_rank(content_tsv, asked.anything, 1)
        + (case when content_tsv @@ asked.everything then 1 else 0 end)"""

# Scripts without spaces are one lexeme a sentence, so they are looked for in the text as it is:
# every message of the conversation is read, which a query without such a script does not do.
_RUNS = f"""{_ASKED}, runs as (
    select jsonb_array_elements_text($4::text::jsonb) as run
)"""

SEARCH_MESSAGES = f"""{_ASKED}
select id, role, text_content as content, created_at, {_RANK} as score
    from asked, assistant_messages
    where session_id = $1::text and content_tsv @@ asked.anything
    order by score desc, created_at desc limit $3::integer"""

SEARCH_MESSAGES_BY_RUNS = f"""{_RUNS}
select * from (
    select id, role, text_content as content, created_at, {_RANK}
        + (select count(*) from runs where strpos(text_content, run) > 0) as score
    from asked, assistant_messages where session_id = $1::text
) as found
where score > 0 order by score desc, created_at desc limit $3::integer"""

GET_BLOCK = "select content from cf_agents_context_blocks where label = $1::text"

SET_BLOCK = """
insert into cf_agents_context_blocks (label, content, updated_at)
values ($1::text, $2::text, clock_timestamp())
on conflict (label) do update set content = excluded.content, updated_at = excluded.updated_at
returning label"""

COUNT_ENTRIES = """
select count(*) as entries from cf_agents_search_entries where label = $1::text"""

SET_ENTRY = """
insert into cf_agents_search_entries (label, key, content, created_at, updated_at)
values ($1::text, $2::text, $3::text, clock_timestamp(), clock_timestamp())
on conflict (label, key) do update
    set content = excluded.content, updated_at = excluded.updated_at
returning key"""

DELETE_ENTRY = """
delete from cf_agents_search_entries where label = $1::text and key = $2::text returning key"""

SEARCH_ENTRIES = f"""{_ASKED}
select key, content from asked, cf_agents_search_entries
    where label = $1::text and content_tsv @@ asked.anything
    order by {_RANK} desc, updated_at desc limit $3::integer"""

SEARCH_ENTRIES_BY_RUNS = f"""{_RUNS}
select key, content from (
    select key, content, updated_at, {_RANK}
        + (select count(*) from runs where strpos(content, run) > 0) as score
    from asked, cf_agents_search_entries where label = $1::text
) as found
where score > 0 order by score desc, updated_at desc limit $3::integer"""
