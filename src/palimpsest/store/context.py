"""Rows of context blocks, cached prompts and search entries, each keyed by its session.

Sessions and labels are separate columns of the key: no label and session together can meet the
key of another pair, and no block can be mistaken for the cached prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from palimpsest.hosts.interface import Sql
from palimpsest.store.schema import migrate

T = TypeVar("T")

_TABLES = """
create table cf_agents_context_blocks (
    session_id text not null,
    label text not null,
    content text not null,
    updated_at integer not null,
    primary key (session_id, label)
) without rowid;
create table if not exists assistant_config (
    session_id text not null,
    key text not null,
    value text not null,
    primary key (session_id, key)
);
create table cf_agents_search_entries (
    entry integer primary key,
    session_id text not null,
    label text not null,
    key text not null,
    content text not null,
    created_at integer not null,
    updated_at integer not null,
    unique (session_id, label, key)
);
create virtual table cf_agents_search_fts using fts5(content, tokenize = 'porter unicode61')
"""

PROMPT_KEY = "system_prompt"
"""The row of ``assistant_config`` that holds a session's frozen prompt."""

_LEGACY_PROMPT = "_system_prompt"


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """One entry of a searchable context block. Times are ms since 1970."""

    key: str
    content: str
    created_at: int
    updated_at: int


def _columns(sql: Sql, table: str) -> set[str]:
    return {str(row[1]) for row in sql.execute(f"pragma table_info({table})")}


def _create(sql: Sql) -> None:
    """Make the tables, taking over what npm ``agents`` up to 0.22 stored under the same names."""
    blocks: list[tuple[str, str]] = []
    entries: list[tuple[str, str, str]] = []
    if "label" in _columns(sql, "cf_agents_context_blocks"):
        rows = sql.execute("select label, content from cf_agents_context_blocks order by label")
        blocks = [(str(label), str(content)) for label, content in rows]
        sql.execute("drop table cf_agents_context_blocks")
    if "label" in _columns(sql, "cf_agents_search_entries"):
        rows = sql.execute("select label, key, content from cf_agents_search_entries")
        entries = [(str(label), str(key), str(content)) for label, key, content in rows]
        sql.execute("drop table cf_agents_search_entries")
    sql.execute("drop table if exists cf_agents_search_fts")
    for statement in _TABLES.split(";"):
        sql.execute(statement)
    store = ContextStore(sql)
    sessions = _legacy_sessions(sql)
    for label, content in blocks:
        session_id, plain = _split_legacy_label(label, sessions)
        if plain == _LEGACY_PROMPT:
            store.set_config(session_id, PROMPT_KEY, content)
        else:
            store.set_block(session_id, plain, content, 0)
    for label, key, content in entries:
        store.set_entry("", label, key, content, content, 0)


def _legacy_sessions(sql: Sql) -> list[str]:
    """Session ids known to the old tables, longest first, so that the longest suffix wins."""
    known: set[str] = set()
    if "id" in _columns(sql, "assistant_sessions"):
        known.update(str(row[0]) for row in sql.execute("select id from assistant_sessions"))
    if "session_id" in _columns(sql, "assistant_messages"):
        rows = sql.execute("select distinct session_id from assistant_messages")
        known.update(str(row[0]) for row in rows)
    return sorted((name for name in known if name), key=len, reverse=True)


def _split_legacy_label(label: str, sessions: list[str]) -> tuple[str, str]:
    for session_id in sessions:
        if label.endswith(f"_{session_id}"):
            return session_id, label[: -len(session_id) - 1]
    return "", label


class ContextStore:
    """All rows that context blocks need, for every session of one object."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    @classmethod
    def open(cls, sql: Sql) -> ContextStore:
        """The store, after bringing its tables up to date.

        :raises MigrationError: the database is newer than this library.
        """
        migrate(sql, "context", (_create,))
        return cls(sql)

    def get_block(self, session_id: str, label: str) -> str | None:
        """The content of a block, or None where it was never written."""
        rows = self._sql.execute(
            "select content from cf_agents_context_blocks where session_id = ? and label = ?",
            session_id,
            label,
        )
        return str(rows[0][0]) if rows else None

    def set_block(self, session_id: str, label: str, content: str, now: int) -> None:
        """Write the content of a block.

        :raises LimitError: it exceeds the platform's 2 MB.
        """
        self._sql.execute(
            "insert into cf_agents_context_blocks (session_id, label, content, updated_at)"
            " values (?, ?, ?, ?) on conflict (session_id, label) do update set"
            " content = excluded.content, updated_at = excluded.updated_at",
            session_id,
            label,
            content,
            now,
        )

    def get_config(self, session_id: str, key: str) -> str | None:
        """A session's setting, or None."""
        rows = self._sql.execute(
            "select value from assistant_config where session_id = ? and key = ?", session_id, key
        )
        return str(rows[0][0]) if rows else None

    def set_config(self, session_id: str, key: str, value: str | None) -> None:
        """Write a session's setting; None removes it."""
        if value is None:
            self._sql.execute(
                "delete from assistant_config where session_id = ? and key = ?", session_id, key
            )
            return
        self._sql.execute(
            "insert into assistant_config (session_id, key, value) values (?, ?, ?)"
            " on conflict (session_id, key) do update set value = excluded.value",
            session_id,
            key,
            value,
        )

    def transaction(self, body: Callable[[], T]) -> T:
        """Run ``body`` in one transaction."""
        return self._sql.transaction(body)

    def count_entries(self, session_id: str, label: str) -> int:
        """How many entries a searchable block has."""
        rows = self._sql.execute(
            "select count(*) from cf_agents_search_entries where session_id = ? and label = ?",
            session_id,
            label,
        )
        return int(rows[0][0] or 0)

    def set_entry(
        self, session_id: str, label: str, key: str, content: str, indexed: str, now: int
    ) -> None:
        """Write an entry and its row in the index; ``indexed`` is the text as the index takes it.

        :raises LimitError: the content exceeds the platform's 2 MB.
        """

        def write() -> None:
            rows = self._sql.execute(
                "insert into cf_agents_search_entries"
                " (session_id, label, key, content, created_at, updated_at)"
                " values (?, ?, ?, ?, ?, ?) on conflict (session_id, label, key) do update set"
                " content = excluded.content, updated_at = excluded.updated_at"
                " returning entry",
                session_id,
                label,
                key,
                content,
                now,
                now,
            )
            entry = rows[0][0]
            self._sql.execute("delete from cf_agents_search_fts where rowid = ?", entry)
            self._sql.execute(
                "insert into cf_agents_search_fts (rowid, content) values (?, ?)", entry, indexed
            )

        self._sql.transaction(write)

    def delete_entry(self, session_id: str, label: str, key: str) -> bool:
        """Remove an entry; whether there was one."""

        def delete() -> bool:
            rows = self._sql.execute(
                "delete from cf_agents_search_entries"
                " where session_id = ? and label = ? and key = ? returning entry",
                session_id,
                label,
                key,
            )
            for row in rows:
                self._sql.execute("delete from cf_agents_search_fts where rowid = ?", row[0])
            return bool(rows)

        return self._sql.transaction(delete)

    def search_entries(
        self, session_id: str, label: str, match: str, limit: int
    ) -> list[SearchEntry]:
        """The entries that an FTS5 expression matches, best first."""
        rows = self._sql.execute(
            "select e.key, e.content, e.created_at, e.updated_at"
            " from cf_agents_search_fts f join cf_agents_search_entries e on e.entry = f.rowid"
            " where f.cf_agents_search_fts match ? and e.session_id = ? and e.label = ?"
            " order by f.rank, e.entry limit ?",
            match,
            session_id,
            label,
            limit,
        )
        return [
            SearchEntry(str(key), str(content), int(created or 0), int(updated or 0))
            for key, content, created, updated in rows
        ]

    def copy_session(self, source: str, target: str) -> None:
        """Give ``target`` the blocks and search entries of ``source`` (not the frozen prompt)."""

        def copy() -> None:
            self._sql.execute(
                "insert or replace into cf_agents_context_blocks"
                " select ?, label, content, updated_at from cf_agents_context_blocks"
                " where session_id = ?",
                target,
                source,
            )
            rows = self._sql.execute(
                "select e.label, e.key, e.content, f.content, e.updated_at"
                " from cf_agents_search_entries e"
                " join cf_agents_search_fts f on f.rowid = e.entry where e.session_id = ?",
                source,
            )
            for label, key, content, indexed, updated in rows:
                self.set_entry(
                    target, str(label), str(key), str(content), str(indexed), int(updated or 0)
                )

        self._sql.transaction(copy)

    def delete_session(self, session_id: str) -> None:
        """Remove every row of a session."""

        def delete() -> None:
            self._sql.execute(
                "delete from cf_agents_search_fts where rowid in"
                " (select entry from cf_agents_search_entries where session_id = ?)",
                session_id,
            )
            for table in (
                "cf_agents_search_entries",
                "cf_agents_context_blocks",
                "assistant_config",
            ):
                self._sql.execute(f"delete from {table} where session_id = ?", session_id)

        self._sql.transaction(delete)
