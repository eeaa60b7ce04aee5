"""The registry of sessions: names, lineage, usage and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from palimpsest.errors import UnknownSessionError
from palimpsest.hosts.interface import Row, Sql
from palimpsest.store.schema import migrate

_TABLE = """
create table assistant_sessions (
    id text primary key,
    name text not null,
    parent_session_id text,
    parent_message_id text,
    model text,
    source text,
    input_tokens integer not null default 0,
    output_tokens integer not null default 0,
    estimated_cost real not null default 0,
    end_reason text,
    created_at integer not null,
    updated_at integer not null
) without rowid;
create index assistant_sessions_recent on assistant_sessions (updated_at desc, id)
"""

_COLUMNS = (
    "id, name, parent_session_id, parent_message_id, model, source,"
    " input_tokens, output_tokens, estimated_cost, end_reason, created_at, updated_at"
)

# The session used last is always the newest, also when the clock stands still or runs backwards.
_NOW = "max(?, (select max(updated_at) + 1 from assistant_sessions))"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What the registry knows of a session (Sessions document, "SessionManager").

    Times are ms since 1970; ``estimated_cost`` is in the currency given to ``add_usage``.
    ``end_reason`` is ``"compaction"`` once the session was continued in another one.
    """

    id: str
    name: str
    parent_session_id: str | None
    parent_message_id: str | None
    model: str | None
    source: str | None
    input_tokens: int
    output_tokens: int
    estimated_cost: float
    end_reason: str | None
    created_at: int
    updated_at: int

    @property
    def cursor(self) -> str:
        """Where a listing continues after this session."""
        return f"{self.updated_at}:{self.id}"


def _info(row: Row) -> SessionInfo:
    values: list[Any] = list(row)
    values[8] = float(values[8])
    return SessionInfo(*values)


def _create(sql: Sql) -> None:
    """Make the table, taking over the one of npm ``agents`` up to 0.22 (times as text)."""
    columns = {str(row[1]) for row in sql.execute("pragma table_info(assistant_sessions)")}
    if columns:
        sql.execute("alter table assistant_sessions rename to assistant_sessions_022")
    for statement in _TABLE.split(";"):
        sql.execute(statement)
    if columns:
        sql.execute(
            f"insert into assistant_sessions ({_COLUMNS}) select id, name, parent_session_id, null,"
            " model, source, coalesce(input_tokens, 0), coalesce(output_tokens, 0),"
            " coalesce(estimated_cost, 0), end_reason,"
            " coalesce(unixepoch(created_at), 0) * 1000, coalesce(unixepoch(updated_at), 0) * 1000"
            " from assistant_sessions_022"
        )
        sql.execute("drop table assistant_sessions_022")


class SessionRegistry:
    """The rows of ``assistant_sessions``."""

    def __init__(self, sql: Sql) -> None:
        migrate(sql, "sessions", (_create,))
        self._sql = sql

    def insert(self, info: SessionInfo) -> None:
        """Add a session.

        :raises UniqueViolationError: the id is taken.
        """
        self._sql.execute(
            f"insert into assistant_sessions ({_COLUMNS})"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            info.id,
            info.name,
            info.parent_session_id,
            info.parent_message_id,
            info.model,
            info.source,
            info.input_tokens,
            info.output_tokens,
            info.estimated_cost,
            info.end_reason,
            info.created_at,
            info.updated_at,
        )

    def get(self, session_id: str) -> SessionInfo | None:
        """One session, or None."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from assistant_sessions where id = ?", session_id
        )
        return _info(rows[0]) if rows else None

    def page(self, limit: int, after: tuple[int, str] | None) -> list[SessionInfo]:
        """Sessions, newest first, beginning after a (time, id) pair."""
        if after is None:
            rows = self._sql.execute(
                f"select {_COLUMNS} from assistant_sessions"
                " order by updated_at desc, id limit ?",
                limit,
            )
        else:
            rows = self._sql.execute(
                f"select {_COLUMNS} from assistant_sessions"
                " where updated_at < ? or (updated_at = ? and id > ?)"
                " order by updated_at desc, id limit ?",
                after[0],
                after[0],
                after[1],
                limit,
            )
        return [_info(row) for row in rows]

    def count(self) -> int:
        """How many sessions are registered."""
        return int(self._sql.execute("select count(*) from assistant_sessions")[0][0] or 0)

    def touch(self, session_id: str, now: int) -> None:
        """Note that a session was used; times never run backwards and never tie.

        An unregistered session is left unregistered.
        """
        self._sql.execute(
            f"update assistant_sessions set updated_at = {_NOW} where id = ?",
            now,
            session_id,
        )

    def rename(self, session_id: str, name: str, now: int) -> None:
        """Change a session's name.

        :raises UnknownSessionError: no such session.
        """
        rows = self._sql.execute(
            f"update assistant_sessions set name = ?, updated_at = {_NOW}"
            " where id = ? returning id",
            name,
            now,
            session_id,
        )
        _must_exist(rows, session_id)

    def end(self, session_id: str, reason: str, now: int) -> None:
        """Note why a session ended.

        :raises UnknownSessionError: no such session.
        """
        rows = self._sql.execute(
            f"update assistant_sessions set end_reason = ?, updated_at = {_NOW}"
            " where id = ? returning id",
            reason,
            now,
            session_id,
        )
        _must_exist(rows, session_id)

    def add_usage(
        self, session_id: str, input_tokens: int, output_tokens: int, cost: float, now: int
    ) -> None:
        """Add to a session's counters.

        :raises UnknownSessionError: no such session.
        """
        rows = self._sql.execute(
            "update assistant_sessions set input_tokens = input_tokens + ?,"
            " output_tokens = output_tokens + ?, estimated_cost = estimated_cost + ?,"
            f" updated_at = {_NOW} where id = ? returning id",
            input_tokens,
            output_tokens,
            cost,
            now,
            session_id,
        )
        _must_exist(rows, session_id)

    def delete(self, session_id: str) -> bool:
        """Remove a session's row; whether there was one."""
        rows = self._sql.execute(
            "delete from assistant_sessions where id = ? returning id", session_id
        )
        return bool(rows)


def _must_exist(rows: list[Any], session_id: str) -> None:
    if not rows:
        raise UnknownSessionError(f"no session {session_id!r}")
