"""Rows of fibers: named long work, with what it has stashed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from palimpsest.hosts.interface import Sql
from palimpsest.store.jobs import encode_payload

LIVE = ("pending", "running")


@dataclass(frozen=True, slots=True)
class FiberRecord:
    """One fiber as stored. Times are in ms since 1970."""

    id: str
    name: str
    """The method's name, or the name given to work that is a function."""
    payload: Any
    durable: bool
    """Whether it is run again after an eviction (a method) or only reported (a function)."""
    status: str
    """``pending``, ``running``, ``completed``, ``aborted``, ``interrupted`` or ``error``."""
    snapshot: Any
    """What it stashed last, None at first."""
    result: Any
    error: str | None
    recoveries: int
    """How often it was found cut short."""
    created_at: int
    ended_at: int | None


_COLUMNS = (
    "id, name, payload, durable, status, snapshot, result, error, recoveries, created_at, ended_at"
)


def _record(row: Any) -> FiberRecord:
    return FiberRecord(
        id=row[0],
        name=row[1],
        payload=json.loads(row[2]),
        durable=bool(row[3]),
        status=row[4],
        snapshot=None if row[5] is None else json.loads(row[5]),
        result=None if row[6] is None else json.loads(row[6]),
        error=row[7],
        recoveries=row[8],
        created_at=row[9],
        ended_at=row[10],
    )


class FiberStore:
    """The table ``palimpsest_fibers``; it comes with those of the jobs, which run fibers."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def insert(
        self,
        identifier: str,
        *,
        name: str,
        payload: Any,
        durable: bool,
        status: str,
        now: int,
    ) -> None:
        """Add a fiber; one with the same id that has ended is replaced."""
        self._sql.execute(
            "insert into palimpsest_fibers (id, name, payload, durable, status, recoveries,"
            " created_at) values (?, ?, ?, ?, ?, 0, ?)"
            " on conflict (id) do update set name = excluded.name, payload = excluded.payload,"
            " durable = excluded.durable, status = excluded.status, snapshot = null, result = null,"
            " error = null, recoveries = 0, created_at = excluded.created_at, ended_at = null",
            identifier,
            name,
            encode_payload(payload),
            durable,
            status,
            now,
        )

    def get(self, identifier: str) -> FiberRecord | None:
        """The fiber with this id."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_fibers where id = ?", identifier
        )
        return _record(rows[0]) if rows else None

    def list(self, *, status: str | None, limit: int) -> list[FiberRecord]:
        """Fibers, oldest first."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_fibers where ?1 is null or status = ?1"
            " order by seq limit ?2",
            status,
            limit,
        )
        return [_record(row) for row in rows]

    def orphans(self) -> list[FiberRecord]:
        """Functions' fibers that are marked as running: after a wake, nobody runs them."""
        rows = self._sql.execute(
            f"select {_COLUMNS} from palimpsest_fibers"
            " where status = 'running' and durable = 0 order by seq"
        )
        return [_record(row) for row in rows]

    def stash(self, identifier: str, snapshot: Any) -> None:
        """Store a fiber's snapshot."""
        self._sql.execute(
            "update palimpsest_fibers set snapshot = ? where id = ?",
            encode_payload(snapshot),
            identifier,
        )

    def begin(self, identifier: str, recoveries: int) -> None:
        """Mark a fiber as running, also one that had failed."""
        self._sql.execute(
            "update palimpsest_fibers set status = 'running', recoveries = ?, error = null,"
            " result = null, ended_at = null where id = ?",
            recoveries,
            identifier,
        )

    def end(
        self,
        identifier: str,
        status: str,
        now: int,
        *,
        result: Any = None,
        error: str | None = None,
    ) -> None:
        """Mark a fiber as ended; one that has ended already stays as it is."""
        self._sql.execute(
            "update palimpsest_fibers set status = ?, result = ?, error = ?, ended_at = ?"
            " where id = ? and status in ('pending', 'running')",
            status,
            encode_payload(result),
            error,
            now,
            identifier,
        )

    def delete(self, identifier: str) -> bool:
        """Remove a fiber that has ended; whether there was one."""
        return bool(
            self._sql.execute(
                "delete from palimpsest_fibers where id = ?"
                " and status not in ('pending', 'running') returning 1",
                identifier,
            )
        )

    def prune(self, keep: int) -> int:
        """Remove the oldest ended fibers beyond ``keep``; how many."""
        return len(
            self._sql.execute(
                "delete from palimpsest_fibers where status not in ('pending', 'running')"
                " and seq not in (select seq from palimpsest_fibers"
                " where status not in ('pending', 'running') order by seq desc limit ?)"
                " returning 1",
                keep,
            )
        )

    def counts(self) -> dict[str, int]:
        """How many fibers there are of each status."""
        rows = self._sql.execute("select status, count(*) from palimpsest_fibers group by status")
        return {str(status): int(count or 0) for status, count in rows}
