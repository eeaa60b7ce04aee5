"""Takes over the schedules and the queue of an object that the ``agents`` package wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from palimpsest.store.legacy_work import (
    LegacySchedule,
    drop_legacy_work,
    read_queue,
    read_schedules,
)

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent


def take_over_work(agent: Agent) -> int:
    """Turn the old rows into schedules and queue items, all in one transaction; how many.

    A callback keeps its name if the agent has such a method, else it becomes snake_case. One that
    the agent does not have at all is a dead letter when it is due, not a loss.
    """
    sql = agent.host.sql

    def take_over() -> int:
        schedules, items = read_schedules(sql), read_queue(sql)
        for schedule in schedules:
            agent.adopt_schedule(
                schedule.id,
                {**_timing(schedule), "callback": method_name(agent, schedule.callback)},
                schedule.payload,
                schedule.time * 1000,
            )
        for item in items:
            agent.adopt_queue_item(item.id, method_name(agent, item.callback), item.payload)
        drop_legacy_work(sql)
        return len(schedules) + len(items)

    count = sql.transaction(take_over)
    if count:
        agent.events.emit("legacy.work_taken_over", count=count)
    return count


def _timing(schedule: LegacySchedule) -> dict[str, Any]:
    if schedule.type == "cron" and schedule.cron:
        return {"type": "cron", "cron": schedule.cron, "timezone": "UTC", "catch_up": "once"}
    if schedule.type == "interval" and schedule.interval_seconds:
        seconds = max(schedule.interval_seconds, 1)
        return {"type": "interval", "interval_seconds": seconds, "catch_up": "once"}
    if schedule.type == "delayed":
        return {"type": "delayed", "delay_seconds": schedule.delay_seconds or 0}
    return {"type": "scheduled", "at": schedule.time * 1000}


def method_name(agent: object, callback: str) -> str:
    """The name of a callback here: ``sendReminder`` may be ``send_reminder``."""
    if callable(getattr(type(agent), callback, None)):
        return callback
    return re.sub("(?<=[a-z0-9])([A-Z])", r"_\1", callback).lower()
