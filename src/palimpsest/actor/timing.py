"""When a schedule is due next: cron lines in a time zone, and intervals on a fixed grid."""

from __future__ import annotations

import datetime
from typing import Any

from cronsim import CronSim, CronSimError

from palimpsest.errors import JobError

MIN_INTERVAL_MS = 1_000
"""The shortest interval: an alarm more often than once a second would only cost."""

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def time_zone(name: str) -> datetime.tzinfo:
    """The time zone of an IANA name (``Europe/Berlin``).

    :raises JobError: there is none of that name.
    """
    if name == "UTC":
        return datetime.UTC
    from zoneinfo import ZoneInfo  # reads files: only where a schedule asks for it

    try:
        return ZoneInfo(name)
    except Exception as error:  # the kind of error depends on what the name looks like as a path
        raise JobError(f"unknown time zone {name!r:.100}") from error


def next_cron(line: str, after_ms: int, zone: str = "UTC") -> int:
    """When a cron line is due next, strictly after a time; both in ms since 1970.

    Five fields, or six with seconds first; names of days and months, ``L``, ``#`` and the macros
    of :data:`MACROS` are understood. Where clocks are put forward, a time that does not exist
    fires right after the gap, once; where they are put back it fires once (as Debian's cron does).

    :raises JobError: the line is not a cron line, or is never due.
    """
    after = datetime.datetime.fromtimestamp(after_ms / 1000, time_zone(zone))
    try:
        moment = next(CronSim(MACROS.get(line.strip().lower(), line), after))
    except CronSimError as error:
        raise JobError(f"not a cron line: {line!r:.100} ({error})") from None
    except StopIteration:
        raise JobError(f"the cron line {line!r:.100} is never due") from None
    return int(moment.timestamp() * 1000)


def next_tick(due_ms: int, interval_ms: int, now_ms: int) -> tuple[int, int]:
    """The first tick of an interval's grid after now, and how many ticks before it were missed.

    :param due_ms: the tick that has run; the grid is this plus multiples of the interval.
    """
    missed = max((now_ms - due_ms) // interval_ms, 0)
    return due_ms + (missed + 1) * interval_ms, missed


def timeout_ms(seconds: Any) -> int:
    """How long a run may take, in ms.

    :raises JobError: it is not a number of seconds above 0.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise JobError(f"a time limit is a number of seconds, got {seconds!r:.100}")
    if not 0.001 <= seconds <= 3_153_600_000:
        raise JobError(f"a time limit is above 0 and at most 100 years, got {seconds!r:.100} s")
    return int(seconds * 1000)


def interval_ms(seconds: Any) -> int:
    """An interval in ms.

    :raises JobError: it is shorter than a second, or not a number of seconds.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise JobError(f"an interval is a number of seconds, got {seconds!r:.100}")
    if seconds * 1000 < MIN_INTERVAL_MS or seconds > 3_153_600_000:
        raise JobError(f"an interval is 1 second to 100 years, got {seconds} s")
    return int(seconds * 1000)
