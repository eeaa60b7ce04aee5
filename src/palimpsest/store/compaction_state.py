"""What the compaction engine remembers of each session between two wakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from palimpsest.hosts.interface import Sql, SqlValue
from palimpsest.store.schema import migrate

MIGRATIONS = (
    """
    create table palimpsest_compaction_state (
      session_id text primary key,
      failures integer not null default 0,
      model_retry_at integer not null default 0,
      next_tokens integer not null default 0,
      usage_offset integer not null default 0,
      request_id text,
      request_overlay text,
      tokens_before integer,
      tokens_after integer,
      compactions integer not null default 0,
      last_error text,
      last_error_at integer
    ) without rowid;
    """,
)

_COLUMNS = (
    "failures, model_retry_at, next_tokens, usage_offset, request_id, request_overlay,"
    " tokens_before, tokens_after, compactions, last_error, last_error_at"
)

MAX_ERROR_CHARS = 500
"""The longest error text that is kept."""


@dataclass(frozen=True, slots=True)
class CompactionStatus:
    """The engine's memory of one session."""

    failures: int = 0
    """Summarizer runs in a row that did not end well; a run counts from its beginning."""

    model_retry_at: int = 0
    """Until then (ms since 1970) the summarizer is not asked after repeated failure."""

    next_tokens: int = 0
    """Nothing is compacted by itself below this many tokens; 0 for no such bound."""

    usage_offset: int = 0
    """Tokens to add to the estimate, learned from the provider's last report."""

    request_id: str | None = None
    """The newest request that was carried out, and the overlay it made."""

    request_overlay: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    compactions: int = 0
    last_error: str | None = None
    last_error_at: int | None = None


class CompactionStateStore:
    """One row per session that the engine had something to remember of.

    Rows are kept in memory between writes, so that the check after each append reads nothing:
    there is one such store per object, and nobody else writes the table.
    """

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._known: dict[str, CompactionStatus] = {}

    def _write(self, statement: str, session_id: str, *values: SqlValue) -> None:
        self._known.pop(session_id, None)
        self._sql.execute(statement, session_id, *values)

    def open(self) -> None:
        """Make the table if it is not there; needed once before anything else."""
        migrate(self._sql, "compaction_state", MIGRATIONS)

    def load(self, session_id: str) -> CompactionStatus:
        """The session's row, or that of a session not seen before."""
        known = self._known.get(session_id)
        if known is None:
            rows = self._sql.execute(
                f"select {_COLUMNS} from palimpsest_compaction_state where session_id = ?",
                session_id,
            )
            known = CompactionStatus(*cast("list[Any]", rows[0])) if rows else CompactionStatus()
            self._known[session_id] = known
        return known

    def begin(self, session_id: str) -> None:
        """Count a run before it starts, so that one that kills the process is counted too."""
        self._write(
            "insert into palimpsest_compaction_state (session_id, failures) values (?, 1)"
            " on conflict (session_id) do update set failures = failures + 1",
            session_id,
        )

    def set_failures(self, session_id: str, failures: int) -> None:
        """Correct the count, where a run ended without an answer of the summarizer."""
        self._upsert(session_id, "failures", failures)

    def fail(self, session_id: str, error: str, now: int) -> None:
        """Keep the newest error's text."""
        self._write(
            "insert into palimpsest_compaction_state (session_id, last_error, last_error_at)"
            " values (?, ?, ?) on conflict (session_id) do update set"
            " last_error = excluded.last_error, last_error_at = excluded.last_error_at",
            session_id,
            error[:MAX_ERROR_CHARS],
            now,
        )

    def cool_down(self, session_id: str, until: int) -> None:
        """Do not ask the summarizer before ``until`` (ms since 1970)."""
        self._upsert(session_id, "model_retry_at", until)

    def wait_for_tokens(self, session_id: str, tokens: int) -> None:
        """Compact nothing by itself below this many tokens."""
        self._upsert(session_id, "next_tokens", tokens)

    def set_usage_offset(self, session_id: str, tokens: int) -> None:
        """Keep how far the provider's report lies above the estimate."""
        self._upsert(session_id, "usage_offset", tokens)

    def record(
        self,
        session_id: str,
        *,
        request_id: str | None,
        overlay_id: str,
        tokens_before: int,
        tokens_after: int,
        next_tokens: int,
        keep_failures: bool,
    ) -> None:
        """A compaction was stored: in the transaction that stores its overlay.

        The request's id stands in the same transaction, so a request that is carried out again
        after a crash is recognised. The provider's report is void, as the prompt has changed.
        """
        self._write(
            "insert into palimpsest_compaction_state (session_id, request_id, request_overlay,"
            " tokens_before, tokens_after, next_tokens, compactions)"
            " values (?1, ?2, ?3, ?4, ?5, ?6, 1)"
            " on conflict (session_id) do update set"
            " request_id = coalesce(excluded.request_id, request_id),"
            " request_overlay = case when excluded.request_id is null then request_overlay"
            " else excluded.request_overlay end,"
            " tokens_before = excluded.tokens_before, tokens_after = excluded.tokens_after,"
            " next_tokens = excluded.next_tokens, compactions = compactions + 1,"
            " usage_offset = 0, failures = case when ?7 then failures else 0 end,"
            " model_retry_at = case when ?7 then model_retry_at else 0 end,"
            " last_error = case when ?7 then last_error else null end,"
            " last_error_at = case when ?7 then last_error_at else null end",
            session_id,
            request_id,
            overlay_id,
            tokens_before,
            tokens_after,
            next_tokens,
            keep_failures,
        )

    def delete(self, session_id: str) -> None:
        """Forget a session."""
        self._write("delete from palimpsest_compaction_state where session_id = ?", session_id)

    def _upsert(self, session_id: str, column: str, value: int) -> None:
        self._write(
            f"insert into palimpsest_compaction_state (session_id, {column}) values (?, ?)"
            f" on conflict (session_id) do update set {column} = excluded.{column}",
            session_id,
            value,
        )
