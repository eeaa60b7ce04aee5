"""When schedules are due: cron lines, time zones, clock changes, intervals."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.actor.timing import interval_ms, next_cron, next_tick, time_zone
from palimpsest.errors import JobError


def ms(text: str) -> int:
    """An ISO date with offset, in ms since 1970."""
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("* * * * *", "UTC", "2026-01-01T00:00:00+00:00", "2026-01-01T00:01:00+00:00"),
        ("* * * * *", "UTC", "2026-01-01T00:00:59.999+00:00", "2026-01-01T00:01:00+00:00"),
        ("*/5 * * * * *", "UTC", "2026-01-01T00:00:01+00:00", "2026-01-01T00:00:05+00:00"),
        ("0 9 * * MON-FRI", "UTC", "2026-01-02T09:00:00+00:00", "2026-01-05T09:00:00+00:00"),
        ("0 9 * * *", "Asia/Tokyo", "2026-01-01T01:00:00+00:00", "2026-01-02T09:00:00+09:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00+00:00", "2028-02-29T00:00:00+00:00"),
        ("@daily", "UTC", "2026-01-01T05:00:00+00:00", "2026-01-02T00:00:00+00:00"),
        ("@hourly", "UTC", "2026-01-01T05:30:00+00:00", "2026-01-01T06:00:00+00:00"),
        # Clocks go forward at 02:00 in Berlin on 29 March 2026: 02:30 does not exist that day.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"),
        # They go back at 03:00 on 25 October 2026: 02:30 comes twice, the job once.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"),
        # What runs every few minutes goes on through the repeated hour.
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"),
    ],
)
def test_next_cron(line: str, zone: str, after: str, expected: str) -> None:
    assert next_cron(line, ms(after), zone) == ms(expected)


@pytest.mark.parametrize("line", ["", "x", "60 * * * *", "* * * *", "0 0 31 2 *", "* * * * * * *"])
def test_what_is_not_a_cron_line(line: str) -> None:
    with pytest.raises(JobError, match="not a cron line"):
        next_cron(line, 0)


@pytest.mark.parametrize("zone", ["", "Nowhere", "Europe", "/etc/passwd", "../x", "a\0b"])
def test_what_is_not_a_time_zone(zone: str) -> None:
    with pytest.raises(JobError, match="unknown time zone"):
        time_zone(zone)


@given(
    due=st.integers(10**12, 2 * 10**12),
    step=st.integers(1000, 10**9),
    late=st.integers(-(10**6), 10**12),
)
def test_ticks_stay_on_the_grid_and_come_after_now(due: int, step: int, late: int) -> None:
    now = due + late
    following, missed = next_tick(due, step, now)
    assert following > now
    assert (following - due) % step == 0
    assert following - due == (missed + 1) * step
    assert following - step <= max(now, due)


@pytest.mark.parametrize(("seconds", "expected"), [(1, 1000), (1.5, 1500), (86_400, 86_400_000)])
def test_intervals(seconds: float, expected: int) -> None:
    assert interval_ms(seconds) == expected


@pytest.mark.parametrize("seconds", [0, 0.999, -1, 4e9, float("nan"), float("inf"), True, "1"])
def test_bad_intervals(seconds: Any) -> None:
    with pytest.raises(JobError, match="interval"):
        interval_ms(seconds)
