"""Schedules and queue items that the TypeScript ``agents`` package (up to 0.22) left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from palimpsest.hosts.interface import Sql, SqlValue

SCHEDULES, QUEUES = "cf_agents_schedules", "cf_agents_queues"


@dataclass(frozen=True, slots=True)
class LegacySchedule:
    """A row of ``cf_agents_schedules``; ``time`` is in seconds since 1970."""

    id: str
    callback: str
    payload: Any
    type: str
    time: int
    delay_seconds: float | None
    cron: str | None
    interval_seconds: float | None


@dataclass(frozen=True, slots=True)
class LegacyQueueItem:
    """A row of ``cf_agents_queues``."""

    id: str
    callback: str
    payload: Any


def read_schedules(sql: Sql) -> list[LegacySchedule]:
    """The schedules of the agent itself (those of its sub-agents belong to other objects)."""
    columns = _columns(sql, SCHEDULES)
    if not columns:
        return []
    names = ("id", "callback", "payload", "type", "time", "delayInSeconds", "cron")
    chosen = [name if name in columns else "null" for name in (*names, "intervalSeconds")]
    own = "where owner_path is null" if "owner_path" in columns else ""
    rows: list[list[Any]] = sql.execute(
        f"select {', '.join(chosen)} from {SCHEDULES} {own} order by time"
    )
    return [
        LegacySchedule(str(row[0]), str(row[1]), _value(row[2]), str(row[3]), int(row[4]), *row[5:])
        for row in rows
    ]


def read_queue(sql: Sql) -> list[LegacyQueueItem]:
    """The queue's items, oldest first."""
    if not _columns(sql, QUEUES):
        return []
    rows = sql.execute(f"select id, callback, payload from {QUEUES} order by created_at, rowid")
    return [LegacyQueueItem(str(row[0]), str(row[1]), _value(row[2])) for row in rows]


def drop_legacy_work(sql: Sql) -> None:
    """Remove the old tables."""
    sql.execute(f"drop table if exists {SCHEDULES}")
    sql.execute(f"drop table if exists {QUEUES}")


def _columns(sql: Sql, table: str) -> set[str]:
    return {str(row[1]) for row in sql.execute(f"pragma table_info({table})")}


def _value(text: SqlValue) -> Any:
    if not isinstance(text, str):
        return text if not isinstance(text, bytes) else None
    try:
        return json.loads(text)
    except ValueError:
        return text
