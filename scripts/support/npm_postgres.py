"""The Postgres tables of npm ``agents`` 0.22."""

from __future__ import annotations

DOCUMENTED_TABLES = (
    """
create table assistant_messages (
    id text not null, session_id text not null default '', parent_id text, role text not null,
    content text not null, text_content text not null default '',
    created_at timestamptz default now(),
    content_tsv tsvector generated always as (to_tsvector('english', text_content)) stored,
    primary key (session_id, id)
)""",
    "create index idx_assistant_msg_parent on assistant_messages (parent_id)",
    "create index idx_assistant_msg_session on assistant_messages (session_id)",
    "create index idx_assistant_msg_fts on assistant_messages using gin (content_tsv)",
    """
create table assistant_compactions (
    id text primary key, session_id text not null default '', summary text not null,
    from_message_id text not null, to_message_id text not null,
    created_at timestamptz default now()
)""",
    """
create table cf_agents_context_blocks (
    label text primary key, content text not null, updated_at timestamptz default now()
)""",
    """
create table cf_agents_search_entries (
    label text not null, key text not null, content text not null,
    created_at timestamptz default now(), updated_at timestamptz default now(),
    content_tsv tsvector generated always as (to_tsvector('english', content)) stored,
    primary key (label, key)
)""",
)
"""The tables that the TypeScript package documents for its users' own migrations."""
