"""Durable jobs on the one alarm: order, retries, dead letters, crashes, and no needless alarm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from palimpsest.errors import JobError, LimitError
from palimpsest.jobs import (
    MAX_INTERRUPTIONS,
    GiveUp,
    Job,
    Jobs,
    Postpone,
    rearm_after_failed_start,
)

Handler = Callable[[Job], Awaitable[Postpone | None]]


def recording(seen: list[Any]) -> Handler:
    """A handler that notes each job."""

    async def handle(job: Job) -> None:
        seen.append((job.id, job.payload))

    return handle


def fresh(host: Any) -> tuple[Jobs, list[Any]]:
    """The host's jobs, and a list for what happens."""
    return Jobs.of(host), []


async def test_jobs_run_in_order_of_their_time_and_the_alarm_follows(host: Any) -> None:
    jobs, seen = fresh(host)
    jobs.register("k", recording(seen))
    start = host.now()
    for delay in (3000, 1000, 2000):
        jobs.put(id=f"after {delay}", kind="k", at_ms=start + delay, payload={"d": delay})
    assert await host.get_alarm() == start + 1000
    await host.advance(2)
    assert [identifier for identifier, _ in seen] == ["after 1000", "after 2000"]
    assert await host.get_alarm() == start + 3000
    await host.advance(1)
    assert seen[-1] == ("after 3000", {"d": 3000})
    assert await host.get_alarm() is None
    assert jobs.counts() == {}


async def test_cancelling_the_last_job_disarms_the_alarm(host: Any) -> None:
    jobs = Jobs.of(host)
    jobs.put(id="a", kind="k", at_ms=host.now() + 1000)
    jobs.put(id="b", kind="k", at_ms=host.now() + 2000)
    assert jobs.cancel("a")
    assert await host.get_alarm() == host.now() + 2000
    assert jobs.cancel("b")
    assert await host.get_alarm() is None
    assert not jobs.cancel("b")


async def test_a_job_with_the_same_id_is_replaced(host: Any) -> None:
    jobs, seen = fresh(host)
    jobs.register("k", recording(seen))
    jobs.put(id="a", kind="k", at_ms=host.now() + 1000, payload=1)
    jobs.put(id="a", kind="k", at_ms=host.now() + 5000, payload=2)
    await host.advance(2)
    assert seen == []
    await host.advance(10)
    assert seen == [("a", 2)]


async def test_failures_back_off_and_end_as_a_dead_letter(host: Any) -> None:
    jobs, times = fresh(host)

    async def fail(job: Job) -> None:
        times.append((host.now() - start, job.attempts))
        raise ValueError("not today")

    jobs.register("k", fail)
    start = host.now()
    jobs.put(
        id="a",
        kind="k",
        at_ms=start,
        payload="p",
        max_attempts=4,
        base_delay_ms=1000,
        max_delay_ms=3000,
    )
    await host.advance(60)
    assert times == [(0, 1), (1000, 2), (3000, 3), (6000, 4)]
    (dead,) = jobs.dead_letters()
    assert (dead.id, dead.payload, dead.status, dead.error, dead.failed_at) == (
        "a",
        "p",
        "dead",
        "ValueError: not today",
        start + 6000,
    )
    assert await host.get_alarm() is None
    assert [e["event"] for e in host.logged] == ["job.failed"] * 3 + ["job.dead"]
    assert "not today" not in str(host.logged)


async def test_a_dead_letter_can_be_run_again_or_forgotten(host: Any) -> None:
    jobs, seen = fresh(host)

    async def fail(job: Job) -> None:
        raise GiveUp("pointless")

    jobs.register("k", fail)
    jobs.put(id="a", kind="k", at_ms=host.now())
    jobs.put(id="b", kind="k", at_ms=host.now())
    await host.advance(0)
    assert [job.id for job in jobs.dead_letters()] == ["b", "a"]
    jobs.register("k", recording(seen))
    assert jobs.retry_dead("a")
    assert not jobs.retry_dead("a")
    assert jobs.discard_dead("b")
    assert not jobs.discard_dead("b")
    await host.advance(0)
    assert [identifier for identifier, _ in seen] == ["a"]
    assert jobs.dead_letters() == []


async def test_a_kind_without_handler_ends_as_a_dead_letter(host: Any) -> None:
    jobs = Jobs.of(host)
    jobs.put(id="a", kind="gone", at_ms=host.now())
    await host.advance(60)
    assert jobs.dead_letters()[0].error == (
        "JobError: no handler is registered for jobs of kind 'gone'"
    )


async def test_postponing_repeats_the_job_with_fresh_attempts(host: Any) -> None:
    jobs, seen = fresh(host)

    async def repeat(job: Job) -> Postpone | None:
        seen.append((job.payload, job.attempts))
        if job.payload == 3:
            return None
        return Postpone(host.now() + 1000, job.payload + 1)

    jobs.register("k", repeat)
    jobs.put(id="a", kind="k", at_ms=host.now(), payload=1)
    await host.advance(10)
    assert seen == [(1, 1), (2, 1), (3, 1)]
    assert jobs.get("a") is None


async def test_a_job_that_puts_itself_anew_stands(host: Any) -> None:
    jobs, seen = fresh(host)

    async def again(job: Job) -> None:
        seen.append(job.payload)
        if job.payload < 3:
            jobs.put(id=job.id, kind="k", at_ms=host.now(), payload=job.payload + 1)

    jobs.register("k", again)
    jobs.put(id="a", kind="k", at_ms=host.now(), payload=1)
    await host.advance(0)
    assert seen == [1, 2, 3]


async def test_lanes_run_side_by_side_and_one_lane_in_order(host: Any) -> None:
    jobs, seen = fresh(host)
    gate = asyncio.Event()

    async def slow(job: Job) -> None:
        seen.append(f"{job.id} begins")
        await gate.wait()
        seen.append(f"{job.id} ends")

    async def quick(job: Job) -> None:
        seen.append(job.id)
        gate.set()

    jobs.register("slow", slow)
    jobs.register("quick", quick)
    for identifier, kind in (("s1", "slow"), ("s2", "slow"), ("q", "quick")):
        jobs.put(id=identifier, kind=kind, at_ms=host.now())
    await host.advance(0)
    assert seen[:2] == ["q", "s1 begins"] or seen[:2] == ["s1 begins", "q"]
    assert seen[2:] == ["s1 ends", "s2 begins", "s2 ends"]


async def test_a_job_put_while_others_run_is_taken_up(host: Any) -> None:
    jobs, seen = fresh(host)

    async def first(job: Job) -> None:
        jobs.put(id="second", kind="k", lane="other", at_ms=host.now())
        while not seen:
            await asyncio.sleep(0.001)

    jobs.register("first", first)
    jobs.register("k", recording(seen))
    jobs.put(id="first", kind="first", at_ms=host.now())
    await host.advance(0)
    assert [identifier for identifier, _ in seen] == ["second"]


async def test_strict_arrival_order_waits_for_a_failed_head(host: Any) -> None:
    jobs, seen = fresh(host)

    async def handle(job: Job) -> None:
        seen.append((job.id, job.attempts))
        if job.id == "a" and job.attempts < 3:
            raise ValueError("again")

    jobs.register("k", handle)
    for identifier in ("a", "b", "c"):
        jobs.put(id=identifier, kind="k", fifo=True, at_ms=host.now())
    await host.advance(0)
    assert seen == [("a", 1)]
    assert await host.get_alarm() == host.now() + 2000
    await host.advance(60)
    assert seen == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]


async def test_a_job_that_takes_too_long_fails(host: Any) -> None:
    jobs = Jobs.of(host)

    async def hang(job: Job) -> None:
        await asyncio.Event().wait()

    jobs.register("k", hang)
    jobs.put(id="a", kind="k", at_ms=host.now(), max_attempts=1, timeout_ms=20)
    await host.advance(0)
    assert jobs.dead_letters()[0].error == "TimeoutError"


async def test_a_job_cut_short_runs_again_and_does_not_lose_an_attempt(host: Any) -> None:
    jobs, began = fresh(host)

    async def hang(job: Job) -> None:
        began.append((job.attempts, job.interruptions))
        await asyncio.Event().wait()

    jobs.register("k", hang)
    jobs.put(id="a", kind="k", at_ms=host.now())
    running = asyncio.ensure_future(host.advance(0))
    await asyncio.sleep(0.01)
    running.cancel()
    successor = host.restarted()
    await asyncio.sleep(0.01)
    assert began == [(1, 0)]
    jobs, seen = fresh(successor)
    assert await successor.get_alarm() == host.now() + 30_000  # armed while the job ran

    async def finish(job: Job) -> None:
        seen.append((job.attempts, job.interruptions))

    jobs.register("k", finish)
    jobs.recover()
    assert await successor.get_alarm() == host.now()
    await successor.advance(0)
    assert seen == [(1, 1)]
    assert jobs.counts() == {}


async def test_a_job_that_always_kills_its_object_becomes_a_dead_letter(host: Any) -> None:
    """No crash loop: each wake counts one interruption."""
    jobs = Jobs.of(host)
    jobs.put(id="killer", kind="k", at_ms=host.now())
    wakes = 0
    while jobs.get("killer").status != "dead":  # type: ignore[union-attr]
        wakes += 1
        host.sql.execute("update palimpsest_jobs set status = 'running', attempts = attempts + 1")
        host = host.restarted()
        jobs = Jobs.of(host)
        jobs.recover()
        assert wakes < 20
    assert wakes == MAX_INTERRUPTIONS
    assert await host.get_alarm() is None
    assert "cut short 5 times" in str(jobs.dead_letters()[0].error)


async def test_a_lease_keeps_an_alarm_and_leaves_none_behind(host: Any) -> None:
    jobs = Jobs.of(host)
    with jobs.lease(), jobs.lease():
        assert jobs.leases == 2
        assert await host.get_alarm() == host.now() + 30_000
        await host.advance(30)
        assert await host.get_alarm() == host.now() + 30_000
    assert await host.get_alarm() is None
    with jobs.lease():
        pass
    successor = host.restarted()  # died inside a lease: its alarm fires once, then none
    successor.set_alarm(successor.now() + 30_000)
    Jobs.of(successor)
    await successor.advance(120)
    assert await successor.get_alarm() is None


async def test_a_lost_alarm_is_armed_again_at_the_next_wake(host: Any) -> None:
    jobs = Jobs.of(host)
    due = host.now() + 60_000
    jobs.put(id="a", kind="k", at_ms=due)
    for lost_to in (None, due + 5000, due):
        host.delete_alarm()
        if lost_to is not None:
            host.set_alarm(lost_to)
        host = host.restarted()
        await Jobs.of(host).check_alarm()
        assert await host.get_alarm() == due


async def test_putting_later_jobs_never_moves_the_alarm_back(host: Any) -> None:
    Jobs.of(host).put(id="soon", kind="k", at_ms=host.now() + 1000)
    host = host.restarted()
    Jobs.of(host).put(id="later", kind="k", at_ms=host.now() + 50_000)
    assert await host.get_alarm() == host.now() + 1000
    host = host.restarted()
    with Jobs.of(host).lease():
        assert await host.get_alarm() == host.now() + 1000


async def test_starts_that_fail_arm_the_alarm_later_each_time(host: Any) -> None:
    jobs = Jobs.of(host)
    delays = [rearm_after_failed_start(host) for _ in range(10)]
    seconds = [((at or 0) - host.now()) // 1000 for at in delays]
    assert seconds == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    jobs.started()
    assert rearm_after_failed_start(host) == host.now() + 2000


async def test_an_empty_object_is_not_armed_after_a_failed_start(host: Any) -> None:
    assert rearm_after_failed_start(host) is None
    assert await host.get_alarm() is None


async def test_a_detached_job_does_not_hold_the_alarm(host: Any) -> None:
    jobs, seen = fresh(host)
    gate = asyncio.Event()

    async def long(job: Job) -> None:
        await gate.wait()
        seen.append("long")

    jobs.register("long", long, detached=True)
    jobs.put(id="a", kind="long", at_ms=host.now())
    await host.advance(0)
    assert jobs.get("a").status in ("running", "pending")  # type: ignore[union-attr]
    assert await host.get_alarm() == host.now() + 30_000
    await host.advance(45)
    assert await host.get_alarm() == host.now() + 15_000
    gate.set()
    await host.background_idle()
    assert seen == ["long"]
    assert await host.get_alarm() is None


async def test_stopping_a_job_cancels_its_handler(host: Any) -> None:
    jobs, ended = fresh(host)

    async def long(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(job.id)

    jobs.register("long", long, detached=True)
    jobs.put(id="a", kind="long", at_ms=host.now())
    await host.advance(0)
    await asyncio.sleep(0.01)
    assert jobs.running == ["a"]
    assert jobs.stop("a")
    await host.background_idle()
    assert ended == ["a"]
    assert jobs.counts() == {}
    assert not jobs.stop("a")


async def test_a_handler_that_raises_cancelled_by_itself_has_failed(host: Any) -> None:
    jobs = Jobs.of(host)

    async def odd(job: Job) -> None:
        raise asyncio.CancelledError

    jobs.register("k", odd)
    jobs.put(id="a", kind="k", at_ms=host.now(), max_attempts=1)
    await host.advance(0)
    assert jobs.dead_letters()[0].error == "CancelledError"


async def test_dead_letters_are_bounded(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.jobs.MAX_DEAD_LETTERS", 5)
    jobs = Jobs.of(host)

    async def fail(job: Job) -> None:
        raise GiveUp("no")

    jobs.register("k", fail)
    for number in range(9):
        jobs.put(id=str(number), kind="k", at_ms=host.now() + number)
    await host.advance(1)
    assert [job.id for job in jobs.dead_letters()] == ["8", "7", "6", "5", "4"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "x" * 1201},
        {"kind": ""},
        {"max_attempts": 0},
        {"base_delay_ms": -1},
        {"max_delay_ms": 1},
        {"timeout_ms": 0},
    ],
    ids=str,
)
async def test_bad_jobs_are_refused(host: Any, wrong: dict[str, Any]) -> None:
    jobs = Jobs.of(host)
    put: Any = jobs.put
    with pytest.raises(JobError):
        put(**{"id": "a", "kind": "k", "at_ms": host.now(), **wrong})
    assert jobs.counts() == {}
    assert await host.get_alarm() is None


async def test_bad_payloads_are_refused(host: Any) -> None:
    jobs = Jobs.of(host)
    with pytest.raises(LimitError, match="1995904 bytes"):
        jobs.put(id="a", kind="k", at_ms=1, payload="x" * 2_000_000)
    with pytest.raises(JobError):
        jobs.put(id="a", kind="k", at_ms=1, payload=object())
    assert jobs.counts() == {}
    jobs.put(id="a", kind="k", at_ms=1, payload="x" * 1_900_000)
    assert jobs.get("a").payload == "x" * 1_900_000  # type: ignore[union-attr]
