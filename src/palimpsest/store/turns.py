"""The turns of a conversation as rows: what was asked for, where it stands, how it ended.

A turn is written before its request is acknowledged and stays for a while after its end, so that a
client that comes back learns how it ended and a repeated request is not run twice. Requests may be
larger than one stored value; they are kept in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from json import loads
from typing import Any

from palimpsest.hosts.interface import Sql, SqlValue
from palimpsest.messages import dump_json
from palimpsest.store.schema import migrate
from palimpsest.store.streams import MAX_SEGMENT_CHARACTERS, split_text

WAITING, RUNNING = "waiting", "running"
COMPLETED, ERROR, ABORTED, SKIPPED = "completed", "error", "aborted", "skipped"

_MIGRATIONS = (
    """
    create table palimpsest_turns (
        turn integer primary key autoincrement,
        session_id text not null,
        request_id text not null,
        trigger text not null,
        status text not null,
        connection_id text,
        message_id text,
        base_id text,
        attempts integer not null default 0,
        error text,
        message_ids text not null default '[]',
        delivered integer not null default 0,
        created_at integer not null,
        started_at integer,
        ended_at integer,
        unique (session_id, request_id)
    );
    create index palimpsest_turns_open on palimpsest_turns (status, turn)
        where status in ('waiting', 'running');
    create table palimpsest_turn_requests (
        turn integer not null,
        piece integer not null,
        body text not null,
        primary key (turn, piece)
    ) without rowid;
    create table palimpsest_chat_clients (
        session_id text not null,
        connection_id text not null,
        seen_at integer not null,
        primary key (session_id, connection_id)
    ) without rowid;
    create table palimpsest_chat_sessions (
        session_id text primary key,
        active_leaf text,
        client_tools text not null default '[]',
        body text not null default '{}',
        deleted_at integer
    ) without rowid;
    """,
)

_COLUMNS = (
    "turn, session_id, request_id, trigger, status, connection_id, message_id, base_id, attempts,"
    " error, message_ids, delivered, created_at, started_at, ended_at"
)


@dataclass(slots=True)
class StoredTurn:
    """One turn's row. Times are ms since 1970."""

    turn: int
    session_id: str
    request_id: str
    trigger: str
    status: str
    connection_id: str | None
    """The connection that asked; None for a turn that the server began."""
    message_id: str | None
    """The id of the answer, once the turn runs."""
    base_id: str | None
    """The stored answer that this turn continues."""
    attempts: int
    """How often it was taken up again after an interruption."""
    error: str | None
    message_ids: list[str]
    """The ids of the messages that asked for the turn."""
    delivered: bool
    """Whether some client was told how it ended."""
    created_at: int
    started_at: int | None
    ended_at: int | None

    @property
    def is_open(self) -> bool:
        """Whether it waits or runs."""
        return self.status in (WAITING, RUNNING)


class TurnStore:
    """The turns of all sessions of one object."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        migrate(sql, "turns", _MIGRATIONS)

    def add(
        self,
        *,
        session_id: str,
        request_id: str,
        trigger: str,
        status: str,
        connection_id: str | None,
        request: dict[str, Any],
        message_ids: list[str],
        now: int,
        base_id: str | None = None,
    ) -> StoredTurn:
        """Store a new turn with its request.

        :raises UniqueViolationError: the session has a turn with this request id.
        """

        def write() -> StoredTurn:
            rows = self._sql.execute(
                "insert into palimpsest_turns (session_id, request_id, trigger, status,"
                " connection_id, base_id, message_ids, created_at)"
                f" values (?, ?, ?, ?, ?, ?, ?, ?) returning {_COLUMNS}",
                session_id,
                request_id,
                trigger,
                status,
                connection_id,
                base_id,
                dump_json(message_ids),
                now,
            )
            turn = _turn(rows[0])
            self._write_request(turn.turn, request)
            return turn

        return self._sql.transaction(write)

    def _write_request(self, turn: int, request: dict[str, Any]) -> None:
        for index, piece in enumerate(split_text(dump_json(request))):
            self._sql.execute(
                "insert into palimpsest_turn_requests (turn, piece, body) values (?, ?, ?)",
                turn,
                index,
                piece,
            )

    def set_request(self, turn: int, request: dict[str, Any], message_ids: list[str]) -> None:
        """Replace a waiting turn's request (its messages were merged with others)."""

        def write() -> None:
            self._sql.execute("delete from palimpsest_turn_requests where turn = ?", turn)
            self._write_request(turn, request)
            self._sql.execute(
                "update palimpsest_turns set message_ids = ? where turn = ?",
                dump_json(message_ids),
                turn,
            )

        self._sql.transaction(write)

    def request(self, turn: int) -> dict[str, Any]:
        """The turn's request; empty once it was swept."""
        rows = self._sql.execute(
            "select body from palimpsest_turn_requests where turn = ? order by piece", turn
        )
        return loads("".join(str(row[0]) for row in rows)) if rows else {}

    def get(self, session_id: str, request_id: str) -> StoredTurn | None:
        """The session's turn with this request id."""
        return self._one("session_id = ? and request_id = ?", session_id, request_id)

    def waiting(self, session_id: str) -> list[StoredTurn]:
        """The session's waiting turns, oldest first."""
        return self._many("status = 'waiting' and session_id = ?", session_id)

    def open_turns(self) -> list[StoredTurn]:
        """The waiting and running turns of every session, oldest first."""
        return self._many("status in ('waiting', 'running')")

    def newest(self, session_id: str) -> StoredTurn | None:
        """The session's newest turn that was not skipped."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_turns where session_id = ?"
            " and status <> 'skipped' order by turn desc limit 1",
            session_id,
        )
        return _turn(rows[0]) if rows else None

    def start(self, turn: int, message_id: str, now: int) -> None:
        """The turn runs and writes this message."""
        self._sql.execute(
            "update palimpsest_turns set status = 'running', message_id = ?, started_at = ?"
            " where turn = ?",
            message_id,
            now,
            turn,
        )

    def set_trigger(self, turn: int, trigger: str) -> None:
        """Change what a waiting turn is for."""
        self._sql.execute("update palimpsest_turns set trigger = ? where turn = ?", trigger, turn)

    def interrupted(self, turn: int, base_id: str | None) -> None:
        """The turn is taken up again, from ``base_id`` if part of its answer is kept."""
        self._sql.execute(
            "update palimpsest_turns set attempts = attempts + 1, base_id = ? where turn = ?",
            base_id,
            turn,
        )

    def finish(
        self, turn: int, status: str, now: int, *, error: str | None = None, delivered: bool = True
    ) -> None:
        """The turn ended; its request is no longer needed."""

        def write() -> None:
            self._sql.execute(
                "update palimpsest_turns set status = ?, ended_at = ?, error = ?, delivered = ?"
                " where turn = ?",
                status,
                now,
                error,
                delivered,
                turn,
            )
            self._sql.execute("delete from palimpsest_turn_requests where turn = ?", turn)

        self._sql.transaction(write)

    def mark_delivered(self, turn: int) -> None:
        """A client was told how the turn ended."""
        self._sql.execute("update palimpsest_turns set delivered = 1 where turn = ?", turn)

    def see_client(self, session_id: str, connection_id: str, now: int) -> bool:
        """Remember a connection; whether it was known, so that this is a reconnection."""
        rows = self._sql.execute(
            "insert into palimpsest_chat_clients (session_id, connection_id, seen_at)"
            " values (?, ?, ?) on conflict do nothing returning 1",
            session_id,
            connection_id,
            now,
        )
        return not rows

    def sweep(self, *, streams_before: int, turns_before: int) -> int | None:
        """Remove what is no longer needed; when the next sweep is due (an end time), if ever.

        :param streams_before: chunks of turns that ended by then are removed.
        :param turns_before: rows of turns that ended by then are removed too.
        """

        def write() -> None:
            self._sql.execute(
                "delete from palimpsest_stream_segments where turn in"
                " (select turn from palimpsest_turns where ended_at <= ?)",
                streams_before,
            )
            self._sql.execute("delete from palimpsest_turns where ended_at <= ?", turns_before)
            self._sql.execute(
                "delete from palimpsest_chat_clients where seen_at <= ?", turns_before
            )

        self._sql.transaction(write)
        rows = self._sql.execute(
            "select min(ended_at) from palimpsest_turns where turn in"
            " (select turn from palimpsest_stream_segments)"
        )
        if rows[0][0] is not None:
            return int(rows[0][0])
        rows = self._sql.execute("select min(ended_at) from palimpsest_turns")
        return None if rows[0][0] is None else int(rows[0][0])

    def active_leaf(self, session_id: str) -> str | None:
        """The end of the branch that people chose to see; None for the newest message."""
        rows = self._sql.execute(
            "select active_leaf from palimpsest_chat_sessions where session_id = ?", session_id
        )
        return _text(rows[0][0]) if rows else None

    def set_active_leaf(self, session_id: str, leaf: str | None) -> None:
        """Show another branch, or (None) follow the newest message again."""
        self._sql.execute(
            "insert into palimpsest_chat_sessions (session_id, active_leaf) values (?, ?)"
            " on conflict (session_id) do update set active_leaf = excluded.active_leaf",
            session_id,
            leaf,
        )

    def last_request(self, session_id: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The client tools and the custom body of the newest request: continuations need them."""
        rows = self._sql.execute(
            "select client_tools, body from palimpsest_chat_sessions where session_id = ?",
            session_id,
        )
        return (loads(str(rows[0][0])), loads(str(rows[0][1]))) if rows else ([], {})

    def set_last_request(
        self, session_id: str, client_tools: list[dict[str, Any]], body: dict[str, Any]
    ) -> None:
        """Remember them; they survive hibernation. What is too large for a row is left out."""
        tools, custom = dump_json(client_tools), dump_json(body)
        self._sql.execute(
            "insert into palimpsest_chat_sessions (session_id, client_tools, body)"
            " values (?, ?, ?) on conflict (session_id) do update"
            " set client_tools = excluded.client_tools, body = excluded.body",
            session_id,
            tools if len(tools) <= MAX_SEGMENT_CHARACTERS else "[]",
            custom if len(custom) <= MAX_SEGMENT_CHARACTERS else "{}",
        )

    def set_deleted(self, session_id: str, at: int | None) -> None:
        """Hide a session that is to be deleted (its time), or show it again (None)."""
        self._sql.execute(
            "insert into palimpsest_chat_sessions (session_id, deleted_at) values (?, ?)"
            " on conflict (session_id) do update set deleted_at = excluded.deleted_at",
            session_id,
            at,
        )

    def is_deleted(self, session_id: str) -> bool:
        """Whether a session is hidden because it is to be deleted."""
        rows = self._sql.execute(
            "select deleted_at from palimpsest_chat_sessions where session_id = ?", session_id
        )
        return bool(rows) and rows[0][0] is not None

    def deleted_sessions(self) -> set[str]:
        """The sessions that are hidden because they are to be deleted."""
        found = self._sql.execute(
            "select session_id from palimpsest_chat_sessions where deleted_at is not null"
        )
        return {str(row[0]) for row in found}

    def clear(self, session_id: str, *, keep_waiting: bool = False) -> None:
        """Remove every turn of a session with its chunks.

        :param keep_waiting: turns that were accepted and have not begun stay, with what their
            client sent.
        """
        kept = " and status <> 'waiting'" if keep_waiting else ""

        def write() -> None:
            for table in ("palimpsest_stream_segments", "palimpsest_turn_requests"):
                self._sql.execute(
                    f"delete from {table} where turn in"
                    f" (select turn from palimpsest_turns where session_id = ?{kept})",
                    session_id,
                )
            self._sql.execute(
                f"delete from palimpsest_turns where session_id = ?{kept}", session_id
            )
            self._sql.execute(
                "delete from palimpsest_chat_sessions where session_id = ?", session_id
            )

        self._sql.transaction(write)

    def _one(self, where: str, *values: SqlValue) -> StoredTurn | None:
        rows = self._sql.execute(f"select {_COLUMNS} from palimpsest_turns where {where}", *values)
        return _turn(rows[0]) if rows else None

    def _many(self, where: str, *values: SqlValue) -> list[StoredTurn]:
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_turns where {where} order by turn", *values
        )
        return [_turn(row) for row in rows]


def _turn(row: list[SqlValue]) -> StoredTurn:
    return StoredTurn(
        turn=int(row[0] or 0),
        session_id=str(row[1]),
        request_id=str(row[2]),
        trigger=str(row[3]),
        status=str(row[4]),
        connection_id=_text(row[5]),
        message_id=_text(row[6]),
        base_id=_text(row[7]),
        attempts=int(row[8] or 0),
        error=_text(row[9]),
        message_ids=loads(str(row[10])),
        delivered=bool(row[11]),
        created_at=int(row[12] or 0),
        started_at=None if row[13] is None else int(row[13]),
        ended_at=None if row[14] is None else int(row[14]),
    )


def _text(value: SqlValue) -> str | None:
    return None if value is None else str(value)
