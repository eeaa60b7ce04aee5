"""Schedules: kinds, order, re-declaration, overlap, catching up, failures, bad input."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from actors import restarted, started

from palimpsest.actor.agent import Agent
from palimpsest.actor.schedules import ScheduledRun
from palimpsest.errors import JobError

MINUTE = 60_000


def at(host: Any, seconds: float) -> datetime.datetime:
    """A date so many seconds after the host's clock."""
    return datetime.datetime.fromtimestamp(host.now() / 1000 + seconds, datetime.UTC)


class Clock(Agent):
    """Notes what its callbacks are given."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.seen: list[Any] = []

    def tick(self, payload: Any) -> None:
        self.seen.append(payload)

    def bare(self) -> None:
        self.seen.append("bare")

    async def detailed(self, payload: Any, run: ScheduledRun) -> None:
        self.seen.append((payload, run.due_ms, run.missed, run.attempt, run.schedule.id))

    async def fail(self, payload: Any) -> None:
        self.seen.append("failing")
        raise RuntimeError("failed")


async def test_each_kind_fires_at_its_time(host: Any) -> None:
    agent = await started(host, Clock)
    start = host.now()
    delayed = agent.schedule(10, "tick", "delayed")
    dated = agent.schedule(at(host, 20), agent.tick, "dated")
    cron = agent.schedule("* * * * *", "tick", "cron")
    interval = agent.schedule_every(30, "bare")
    assert [s.type for s in (delayed, dated, cron, interval)] == [
        "delayed",
        "scheduled",
        "cron",
        "interval",
    ]
    assert (delayed.at_ms, dated.at_ms, interval.at_ms) == (
        start + 10_000,
        start + 20_000,
        start + 30_000,
    )
    assert cron.at_ms % MINUTE == 0
    assert 0 < cron.at_ms - start <= MINUTE
    await host.advance(60)
    assert sorted(agent.seen) == ["bare", "bare", "cron", "dated", "delayed"]
    assert [s.type for s in agent.list_schedules()].count("cron") == 1
    assert agent.get_schedule(delayed.id) is None
    assert agent.get_schedule(cron.id).at_ms == cron.at_ms + MINUTE  # type: ignore[union-attr]


async def test_schedules_survive_eviction(host: Any) -> None:
    agent = await started(host, Clock)
    agent.schedule(10, "tick", {"deep": [1, "é"]})
    agent = await restarted(agent)
    await agent.host.advance(10)  # type: ignore[attr-defined]
    assert agent.seen == [{"deep": [1, "é"]}]


async def test_a_run_is_told_what_it_is(host: Any) -> None:
    agent = await started(host, Clock)
    schedule = agent.schedule_every(60, "detailed", "p", id="mine")
    await host.advance(60)
    assert agent.seen == [("p", schedule.at_ms, 0, 1, "mine")]


async def test_listing_and_cancelling(host: Any) -> None:
    agent = await started(host, Clock)
    one = agent.schedule(30, "tick", 1)
    two = agent.schedule_every(20, "bare")
    assert [s.id for s in agent.list_schedules()] == [two.id, one.id]
    assert [s.id for s in agent.list_schedules(type="delayed")] == [one.id]
    assert [s.id for s in agent.list_schedules(callback="bare")] == [two.id]
    assert agent.cancel_schedule(one.id)
    assert not agent.cancel_schedule(one.id)
    assert not agent.cancel_schedule("nothing")
    assert agent.cancel_schedule(two.id)
    assert await host.get_alarm() is None
    await host.advance(100)
    assert agent.seen == []


async def test_recurring_schedules_are_the_same_when_declared_again(host: Any) -> None:
    agent = await started(host, Clock)
    first = agent.schedule("0 * * * *", "tick", 1)
    await host.advance(5)
    assert agent.schedule("0 * * * *", "tick", 1) == first
    assert agent.schedule("0 * * * *", "tick", 2).id != first.id
    assert agent.schedule("0 * * * *", "tick", 1, timezone="Asia/Tokyo").id != first.id
    every = agent.schedule_every(60, "tick", 1)
    await host.advance(5)
    assert agent.schedule_every(60, "tick", 1) == every
    assert agent.schedule_every(60, "tick", 1, idempotent=False).id != every.id
    assert len(agent.list_schedules()) == 5


async def test_one_time_schedules_are_separate_unless_asked(host: Any) -> None:
    agent = await started(host, Clock)
    agent.schedule(5, "tick")
    agent.schedule(5, "tick")
    agent.schedule(5, "tick", idempotent=True)
    agent.schedule(5, "tick", idempotent=True)
    agent.schedule(5, "tick", id="named")
    agent.schedule(5, "tick", id="named")
    assert len(agent.list_schedules()) == 4
    await host.advance(5)
    assert len(agent.seen) == 4
    agent.schedule(5, "tick", id="named")
    await host.advance(5)
    assert len(agent.seen) == 5


async def test_a_named_schedule_that_says_something_else_is_replaced(host: Any) -> None:
    agent = await started(host, Clock)
    agent.schedule_every(60, "tick", "old", id="job")
    new = agent.schedule_every(30, "tick", "new", id="job")
    assert agent.list_schedules() == [new]
    await host.advance(60)
    assert agent.seen == ["new", "new"]


class Declaring(Clock):
    """Declares all its schedules whenever it starts."""

    date: datetime.datetime

    def on_start(self) -> None:
        self.schedule(10, "tick", "delayed")
        self.schedule(self.date, "tick", "dated")
        self.schedule("* * * * *", "tick", "cron")
        self.schedule_every(60, "tick", "interval")


async def test_what_on_start_declares_runs_once_however_often_it_wakes(host: Any) -> None:
    Declaring.date = at(host, 20)
    agent = await started(host, Declaring)
    seen: list[Any] = []
    for _ in range(5):
        assert len(agent.list_schedules()) == 4
        agent = await restarted(agent)
    await agent.host.advance(30)  # type: ignore[attr-defined]
    seen += [item for item in agent.seen if item != "cron"]
    for _ in range(3):
        agent = await restarted(agent)
        assert {s.type for s in agent.list_schedules()} == {"cron", "interval"}
        await agent.host.advance(5)  # type: ignore[attr-defined]
        seen += [item for item in agent.seen if item != "cron"]
    assert seen == ["delayed", "dated"]
    assert [event for event in agent.host.logged if event["event"] == "schedule.past"] == []  # type: ignore[attr-defined]


async def test_a_past_date_in_on_start_is_passed_over(host: Any) -> None:
    Declaring.date = at(host, -3600)
    agent = await started(host, Declaring)
    assert {s.type for s in agent.list_schedules()} == {"delayed", "cron", "interval"}
    assert [event["event"] for event in host.logged] == ["schedule.past"]


async def test_a_schedule_never_overlaps_itself(host: Any) -> None:
    class Slow(Clock):
        async def slow(self, payload: Any, run: ScheduledRun) -> None:
            self.seen.append(("begin", run.missed))
            await asyncio.sleep(0)
            host.advance_clock(25)
            self.seen.append("end")

    moved = {"by": 0}

    def advance_clock(seconds: float) -> None:
        moved["by"] += int(seconds * 1000)

    real = host.now
    host.now = lambda: real() + moved["by"]
    host.advance_clock = advance_clock
    agent = await started(host, Slow)
    agent.schedule_every(10, "slow")
    start = host.now()
    await host.advance(10)
    assert agent.seen == [("begin", 0), "end"]
    (schedule,) = agent.list_schedules()
    # Due at 10 s; while it ran, 20 s and 30 s went by and are merged into the next.
    assert schedule.at_ms == start + 40_000


@pytest.mark.parametrize(
    ("rule", "runs", "missed"), [("once", 1, 4), ("all", 5, 0), ("skip", 0, 0)]
)
async def test_catching_up_after_downtime(host: Any, rule: Any, runs: int, missed: int) -> None:
    agent = await started(host, Clock)
    agent.schedule_every(60, "detailed", "i", catch_up=rule)
    agent.schedule("*/1 * * * *", "detailed", "c", catch_up=rule)
    start, due = host.now(), {s.payload: s.at_ms for s in agent.list_schedules()}
    handler, host.alarm_handler = host.alarm_handler, None  # the object is down
    await host.advance(5 * 60 + 30)
    host.alarm_handler = handler
    await host.advance(0)
    for kind in ("i", "c"):
        of_kind = [item for item in agent.seen if item[0] == kind]
        expected = runs if kind == "i" or rule != "all" else len(of_kind)
        assert len(of_kind) == expected, (kind, of_kind)
        if of_kind:
            assert of_kind[0][1] == due[kind]
            assert kind == "c" or of_kind[0][2] == missed
    assert start + 6 * MINUTE in [s.at_ms for s in agent.list_schedules()]
    assert all(s.at_ms > host.now() for s in agent.list_schedules())


async def test_cron_counts_what_it_missed(host: Any) -> None:
    agent = await started(host, Clock)
    agent.schedule("* * * * *", "detailed", "c")
    handler, host.alarm_handler = host.alarm_handler, None
    await host.advance(60 * 200)
    host.alarm_handler = handler
    await host.advance(0)
    assert agent.seen[0][2] >= 99
    assert len(agent.seen) == 1


async def test_a_failing_run_is_a_dead_letter_and_the_schedule_goes_on(host: Any) -> None:
    agent = await started(host, Clock)
    schedule = agent.schedule_every(600, "fail", "p", max_attempts=2)
    await host.advance(600 + 5)
    assert agent.seen == ["failing"] * 2
    (letter,) = agent.dead_letters()
    assert letter.error == "RuntimeError: failed"
    assert letter.payload["payload"] == "p"
    assert agent.get_schedule(schedule.id).at_ms == schedule.at_ms + 600_000  # type: ignore[union-attr]
    await host.advance(600)
    assert len(agent.dead_letters()) == 2
    assert agent.retry_dead_letter(letter.id)
    await host.advance(10)
    assert len(agent.dead_letters()) == 2  # it failed again
    assert len(agent.list_schedules()) == 1  # and did not become a second schedule


async def test_a_one_time_schedule_that_fails_is_kept_as_dead(host: Any) -> None:
    agent = await started(host, Clock)
    schedule = agent.schedule(1, "fail")
    await host.advance(60)
    assert agent.seen == ["failing"] * 3
    dead = agent.get_schedule(schedule.id)
    assert dead is not None
    assert (dead.status, dead.error) == ("dead", "RuntimeError: failed")
    assert agent.cancel_schedule(schedule.id)
    assert agent.dead_letters() == []


async def test_a_callback_that_went_with_a_deploy_is_a_visible_dead_letter(host: Any) -> None:
    class Before(Clock):
        def old(self) -> None: ...

    agent = await started(host, Before)
    recurring = agent.schedule_every(60, "old")
    agent.schedule(60, "old")
    after = await started(host.restarted(), Clock)
    await after.host.advance(3600)  # type: ignore[attr-defined]
    errors = {letter.error for letter in after.dead_letters()}
    assert errors == {"Clock has no method 'old' any more"}
    assert len(after.dead_letters()) == 2
    assert await after.host.get_alarm() is None
    again = await started(after.host.restarted(), Before)  # type: ignore[attr-defined]
    assert again.schedule_every(60, "old").id == recurring.id  # back with a later deploy
    assert [s.id for s in again.list_schedules()] == [recurring.id]


async def test_no_alarm_while_nothing_is_scheduled(host: Any) -> None:
    agent = await started(host, Clock)
    assert await host.get_alarm() is None
    agent.schedule(1, "tick")
    await host.advance(1)
    assert await host.get_alarm() is None


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ("61 * * * *", {}, "not a cron line: '61 * * * *' (Bad minute)"),
    ("not cron", {}, "not a cron line"),
    ("", {}, "not a cron line"),
    ("0 0 30 2 *", {}, "cron line"),
    ("* * * * *", {"timezone": "Mars/Olympus"}, "unknown time zone 'Mars/Olympus'"),
    ("* * * * *", {"timezone": "Europe"}, "unknown time zone"),
    ("* * * * *", {"timezone": "../../etc/passwd"}, "unknown time zone"),
    ("* * * * *", {"catch_up": "maybe"}, "catch_up"),
    (-1, {}, "a delay is 0 seconds"),
    (float("inf"), {}, "a delay is 0 seconds"),
    (float("nan"), {}, "'when' is seconds"),
    (True, {}, "'when' is seconds"),
    (None, {}, "'when' is seconds"),
    (datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC), {}, "the date is in the past"),
    (datetime.datetime(2100, 1, 1), {}, "a date needs a time zone"),
    (1, {"max_attempts": 0}, "max_attempts"),
]


@pytest.mark.parametrize(("when", "options", "error"), BAD, ids=str)
async def test_bad_times_are_clear_errors(
    host: Any, when: Any, options: dict[str, Any], error: str
) -> None:
    agent = await started(host, Clock)
    with pytest.raises(JobError) as raised:
        agent.schedule(when, "tick", **options)
    assert error in str(raised.value)
    assert agent.list_schedules() == []
    assert await host.get_alarm() is None


@pytest.mark.parametrize("seconds", [0, -5, 0.5, float("nan"), float("inf"), "60", True, None])
async def test_bad_intervals_are_clear_errors(host: Any, seconds: Any) -> None:
    agent = await started(host, Clock)
    with pytest.raises(JobError, match="interval"):
        agent.schedule_every(seconds, "tick")
    assert agent.list_schedules() == []


@pytest.mark.parametrize("callback", ["missing", "_open_work", "", "host", "a b", print, 7])
async def test_bad_callbacks_are_clear_errors(host: Any, callback: Any) -> None:
    agent = await started(host, Clock)
    with pytest.raises(JobError):
        agent.schedule(1, callback)
    with pytest.raises(JobError):
        agent.queue(callback)
    with pytest.raises(JobError):
        agent.start_fiber(callback)
    assert agent.jobs.counts() == {}
