"""Rows of the durable jobs, of which many share the object's one alarm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palimpsest.errors import JobError, LimitError
from palimpsest.hosts.interface import MAX_VALUE_BYTES, Sql, SqlValue
from palimpsest.messages import dump_json
from palimpsest.store.fiber_tables import FIBERS_MIGRATION
from palimpsest.store.schema import migrate

MAX_PAYLOAD_BYTES = MAX_VALUE_BYTES - 4096
"""The largest payload of a job, as JSON in bytes: what a row of the platform holds."""

MAX_JOB_ID_LENGTH = 1_200
"""The longest job id, in characters: a prefix and the longest session id."""

MIGRATIONS = (
    """
    create table if not exists palimpsest_jobs (
      seq integer primary key autoincrement,
      id text not null unique,
      kind text not null,
      lane text not null,
      at integer not null,
      rank integer not null,
      payload text not null,
      status text not null check (status in ('pending', 'running', 'dead', 'done')),
      attempts integer not null,
      interruptions integer not null,
      max_attempts integer not null,
      base_delay_ms integer not null,
      max_delay_ms integer not null,
      timeout_ms integer not null,
      created_at integer not null,
      started_at integer,
      error text,
      failed_at integer
    );
    create index if not exists palimpsest_jobs_pending
      on palimpsest_jobs (lane, rank, seq) where status = 'pending';
    create index if not exists palimpsest_jobs_running
      on palimpsest_jobs (seq) where status = 'running';
    create index if not exists palimpsest_jobs_ended
      on palimpsest_jobs (status, failed_at, seq) where failed_at is not null;
    create table if not exists palimpsest_start_failures (count integer not null);
    """,
    FIBERS_MIGRATION,
)


@dataclass(frozen=True, slots=True)
class Job:
    """One durable job. Times are in ms since 1970 (UTC)."""

    id: str
    kind: str
    """The name under which its handler is registered."""
    lane: str
    """Jobs of one lane run one after the other; lanes run side by side."""
    at: int
    fifo: bool
    """Whether it keeps its place in the lane by arrival, not by ``at``."""
    payload: Any
    """A JSON value."""
    status: str
    """``pending``, ``running``, ``dead``, or ``done`` for a mark that it must not run again."""
    attempts: int
    """How often it was begun, the present run included, since it last succeeded."""
    interruptions: int
    """How often the object was evicted or crashed while the job ran."""
    max_attempts: int
    base_delay_ms: int
    max_delay_ms: int
    timeout_ms: int
    created_at: int
    error: str | None
    """Text of the last failure."""
    failed_at: int | None
    """When it became a dead letter (or, for a mark, when it was done)."""


@dataclass(frozen=True, slots=True)
class Wake:
    """What a waking object must know, read in one statement."""

    marked: bool
    """Whether the mark asked for is there."""
    running: int
    """Jobs that were cut short."""
    failed_starts: int
    inline_fibers: int
    """Fibers of functions that were cut short."""
    legacy_tables: int
    """Tables of the TypeScript package whose work is still to be taken over."""
    waiting: bool
    """Whether a job is pending."""


_COLUMNS = (
    "id, kind, lane, at, rank, payload, status, attempts, interruptions, max_attempts,"
    " base_delay_ms, max_delay_ms, timeout_ms, created_at, error, failed_at"
)


def _job(row: Any) -> Job:
    return Job(
        id=row[0],
        kind=row[1],
        lane=row[2],
        at=row[3],
        fifo=row[4] == 0,
        payload=json.loads(row[5]),
        status=row[6],
        attempts=row[7],
        interruptions=row[8],
        max_attempts=row[9],
        base_delay_ms=row[10],
        max_delay_ms=row[11],
        timeout_ms=row[12],
        created_at=row[13],
        error=row[14],
        failed_at=row[15],
    )


def encode_payload(payload: Any) -> str:
    """The JSON of a payload.

    :raises LimitError: it is larger than :data:`MAX_PAYLOAD_BYTES`.
    :raises JobError: it has no JSON form.
    """
    try:
        text = dump_json(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise JobError(f"a payload is a JSON value: {error}") from None
    if len(text) * 4 > MAX_PAYLOAD_BYTES and (size := len(text.encode())) > MAX_PAYLOAD_BYTES:
        raise LimitError(f"a payload is at most {MAX_PAYLOAD_BYTES} bytes of JSON, got {size}")
    return text


class JobStore:
    """The table ``palimpsest_jobs``."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        migrate(sql, "jobs", MIGRATIONS)

    def put(self, job: Job) -> None:
        """Insert the job as pending, or replace the one with the same id; attempts begin again.

        A job that is replaced keeps its place among those of equal rank.
        """
        self._sql.execute(
            "insert into palimpsest_jobs (id, kind, lane, at, rank, payload, status, attempts,"
            " interruptions, max_attempts, base_delay_ms, max_delay_ms, timeout_ms, created_at)"
            " values (?, ?, ?, ?, ?, ?, 'pending', 0, 0, ?, ?, ?, ?, ?)"
            " on conflict (id) do update set kind = excluded.kind, lane = excluded.lane,"
            " at = excluded.at, rank = excluded.rank, payload = excluded.payload,"
            " status = 'pending', attempts = 0, interruptions = 0,"
            " max_attempts = excluded.max_attempts, base_delay_ms = excluded.base_delay_ms,"
            " max_delay_ms = excluded.max_delay_ms, timeout_ms = excluded.timeout_ms,"
            " started_at = null, error = null, failed_at = null",
            job.id,
            job.kind,
            job.lane,
            job.at,
            0 if job.fifo else job.at,
            encode_payload(job.payload),
            job.max_attempts,
            job.base_delay_ms,
            job.max_delay_ms,
            job.timeout_ms,
            job.created_at,
        )

    def look(self, mark: str) -> Wake:
        """What a waking object must know."""
        rows: list[list[Any]] = self._sql.execute(
            "select (select count(*) from palimpsest_jobs where id = ?),"
            " (select count(*) from palimpsest_jobs where status = 'running'),"
            " (select count(*) from palimpsest_start_failures),"
            " (select count(*) from palimpsest_fibers where status = 'running' and durable = 0),"
            " (select count(*) from sqlite_master"
            "  where name in ('cf_agents_schedules', 'cf_agents_queues')),"
            " exists(select 1 from palimpsest_jobs where status = 'pending')",
            mark,
        )
        marked, running, failed_starts, fibers, legacy, waiting = rows[0]
        return Wake(bool(marked), running, failed_starts, fibers, legacy, bool(waiting))

    def status_of(self, identifier: str) -> str | None:
        """The status of the job with this id; cheaper than :meth:`get`."""
        rows = self._sql.execute("select status from palimpsest_jobs where id = ?", identifier)
        return str(rows[0][0]) if rows else None

    def get(self, identifier: str) -> Job | None:
        """The job with this id."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_jobs where id = ?", identifier
        )
        return _job(rows[0]) if rows else None

    def list(self, *, kind: str | None, status: str | None, limit: int) -> list[Job]:
        """Jobs in order of ``at``, filtered by kind and status."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_jobs where (?1 is null or kind = ?1)"
            " and (?2 is null or status = ?2) order by at, seq limit ?3",
            kind,
            status,
            limit,
        )
        return [_job(row) for row in rows]

    def waiting(self, lane: str, limit: int) -> list[Job]:
        """The pending jobs of a lane, in the order in which they will run."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_jobs where status = 'pending' and lane = ?"
            " order by rank, seq limit ?",
            lane,
            limit,
        )
        return [_job(row) for row in rows]

    def dead(self, limit: int) -> list[Job]:
        """The dead letters, newest first."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_jobs where status = 'dead'"
            " and failed_at is not null order by failed_at desc, seq desc limit ?",
            limit,
        )
        return [_job(row) for row in rows]

    def counts(self) -> Mapping[str, int]:
        """How many jobs there are of each status."""
        rows = self._sql.execute("select status, count(*) from palimpsest_jobs group by status")
        return {str(status): int(count or 0) for status, count in rows}

    def count(self, lane: str) -> int:
        """How many jobs of a lane wait or run."""
        rows = self._sql.execute(
            "select (select count(*) from palimpsest_jobs where status = 'pending' and lane = ?1)"
            " + (select count(*) from palimpsest_jobs where status = 'running' and lane = ?1)",
            lane,
        )
        return int(rows[0][0] or 0)

    def heads(self) -> list[tuple[str, int]]:
        """Each lane that has pending jobs, with the time of its first: two rows read per lane."""
        rows = self._sql.execute(
            "with recursive lanes (lane) as ("
            "  select min(lane) from palimpsest_jobs where status = 'pending'"
            "  union all select (select min(j.lane) from palimpsest_jobs j"
            "    where j.status = 'pending' and j.lane > lanes.lane)"
            "  from lanes where lanes.lane is not null)"
            " select lane, (select at from palimpsest_jobs j where j.status = 'pending'"
            "  and j.lane = lanes.lane order by rank, seq limit 1)"
            " from lanes where lane is not null"
        )
        return [(str(lane), int(at or 0)) for lane, at in rows]

    def head(self, lane: str) -> Job | None:
        """The first pending job of a lane."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_jobs where status = 'pending' and lane = ?"
            " order by rank, seq limit 1",
            lane,
        )
        return _job(rows[0]) if rows else None

    def begin(self, identifier: str, now: int) -> None:
        """Mark a job as running and count the attempt, before its handler is called."""
        self._sql.execute(
            "update palimpsest_jobs set status = 'running', attempts = attempts + 1,"
            " started_at = ? where id = ?",
            now,
            identifier,
        )

    def delete(self, identifier: str) -> bool:
        """Remove a job; whether there was one."""
        return bool(
            self._sql.execute("delete from palimpsest_jobs where id = ? returning 1", identifier)
        )

    def postpone(self, identifier: str, at: int, error: str | None) -> None:
        """Make a running job pending again, for ``at``; its attempts stay counted."""
        self._sql.execute(
            "update palimpsest_jobs set status = 'pending', at = ?1, error = ?2,"
            " rank = case rank when 0 then 0 else ?1 end where id = ?3",
            at,
            error,
            identifier,
        )

    def insert_mark(self, identifier: str, now: int) -> None:
        """Insert a mark that belongs to no job."""
        self._sql.execute(
            "insert into palimpsest_jobs (id, kind, lane, at, rank, payload, status, attempts,"
            " interruptions, max_attempts, base_delay_ms, max_delay_ms, timeout_ms, created_at)"
            " values (?1, ?1, ?1, ?2, ?2, 'null', 'done', 0, 0, 1, 0, 0, 1, ?2)"
            " on conflict (id) do nothing",
            identifier,
            now,
        )

    def mark_done(self, identifier: str, now: int) -> None:
        """Keep a finished job as a mark that it must not be declared again; its payload goes."""
        self._sql.execute(
            "update palimpsest_jobs set status = 'done', payload = 'null', failed_at = ?"
            " where id = ?",
            now,
            identifier,
        )

    def bury(self, identifier: str, now: int, error: str) -> None:
        """Make a job a dead letter."""
        self._sql.execute(
            "update palimpsest_jobs set status = 'dead', error = ?, failed_at = ? where id = ?",
            error,
            now,
            identifier,
        )

    def running(self) -> list[Job]:
        """The jobs marked as running."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_jobs where status = 'running' order by seq"
        )
        return [_job(row) for row in rows]

    def interrupt(self, identifier: str, now: int) -> None:
        """Make a job that was cut short pending at once, and count the interruption.

        The attempt that was cut short does not count: the job itself did not fail.
        """
        self._sql.execute(
            "update palimpsest_jobs set status = 'pending', at = min(at, ?1), rank = min(rank, ?1),"
            " attempts = max(attempts - 1, 0), interruptions = interruptions + 1 where id = ?2",
            now,
            identifier,
        )

    def prune(self, status: str, keep: int) -> int:
        """Drop the oldest dead letters or done marks beyond ``keep``; how many went."""
        rows: list[list[SqlValue]] = self._sql.execute(
            "delete from palimpsest_jobs where seq in ("
            "select seq from palimpsest_jobs where status = ?1 and failed_at is not null"
            " order by failed_at desc, seq desc limit -1 offset cast(?2 as integer)) returning 1",
            status,
            keep,
        )
        return len(rows)

    def count_failed_start(self) -> int:
        """Count a start that failed in the alarm; how many there were in a row."""
        rows = self._sql.execute("select count from palimpsest_start_failures")
        count = 1 + (int(rows[0][0] or 0) if rows else 0)
        self._sql.execute("delete from palimpsest_start_failures")
        self._sql.execute("insert into palimpsest_start_failures (count) values (?)", count)
        return count

    def clear_failed_starts(self) -> None:
        """The object has started."""
        self._sql.execute("delete from palimpsest_start_failures")


def has_job_tables(sql: Sql) -> bool:
    """Whether the object has the tables of this module: not if it is new or was destroyed."""
    return bool(sql.execute("select 1 from sqlite_master where name = 'palimpsest_jobs'"))
