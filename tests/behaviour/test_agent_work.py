"""The durable queue, fibers, background tasks, leases, locks and retries of an agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from actors import restarted, started

from palimpsest.actor.agent import Agent
from palimpsest.actor.connections import Connection
from palimpsest.actor.fibers import Fiber
from palimpsest.actor.queue import QueueItem
from palimpsest.errors import BusyError, JobError, LimitError


class Worker(Agent):
    """Notes what it does; ``gate`` holds what waits."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.seen: list[Any] = []
        self.gate = asyncio.Event()
        self.failures = 0

    async def process(self, payload: Any, item: QueueItem) -> None:
        self.seen.append((payload, item.attempts))
        if payload == "bad" or self.failures > 0:
            self.failures -= 1
            raise RuntimeError("failed")

    async def long(self, fiber: Fiber) -> dict[str, Any]:
        self.seen.append((fiber.payload, fiber.snapshot, fiber.recoveries))
        fiber.stash({"step": len(self.seen)})
        await self.gate.wait()
        return {"answer": 42}

    async def broken(self, fiber: Fiber) -> None:
        raise ValueError("broken")

    def on_fiber_recovered(self, fiber: Fiber) -> bool | None:
        self.seen.append(("recovered", fiber.name, fiber.snapshot))
        return None

    def on_error(self, error: BaseException, connection: Connection | None) -> None:
        self.seen.append(("error", str(error)))


# --- queue ---------------------------------------------------------------------------------------


async def test_the_queue_runs_in_order_one_at_a_time(host: Any) -> None:
    agent = await started(host, Worker)
    for number in range(5):
        agent.queue("process", number)
    assert [item.payload for item in agent.list_queue()] == [0, 1, 2, 3, 4]
    agent = await restarted(agent)
    await agent.host.advance(0)  # type: ignore[attr-defined]
    assert agent.seen == [(number, 1) for number in range(5)]
    assert agent.list_queue() == []
    assert await agent.host.get_alarm() is None


async def test_later_items_wait_for_a_failed_one(host: Any) -> None:
    agent = await started(host, Worker)
    agent.failures = 2
    agent.queue("process", "a")
    agent.queue("process", "b")
    await host.advance(60)
    assert agent.seen == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]


async def test_an_item_that_keeps_failing_becomes_a_dead_letter(host: Any) -> None:
    agent = await started(host, Worker)
    agent.queue("process", "bad", max_attempts=2)
    agent.queue("process", "good")
    await host.advance(60)
    assert agent.seen == [("bad", 1), ("bad", 2), ("good", 1)]
    (letter,) = agent.dead_letters()
    assert letter.payload == {"callback": "process", "payload": "bad"}
    assert agent.discard_dead_letter(letter.id)
    assert agent.dead_letters() == []


async def test_items_can_be_taken_out_and_named(host: Any) -> None:
    agent = await started(host, Worker)
    assert agent.queue("process", "once", id="n") == "n"
    assert agent.queue("process", "again", id="n") == "n"
    other = agent.queue("process", "other")
    assert agent.dequeue(other)
    assert not agent.dequeue(other)
    assert [item.payload for item in agent.list_queue()] == ["once"]
    agent.queue("process", "x")
    assert agent.dequeue_all() == 2
    await host.advance(0)
    assert agent.seen == []


# --- fibers --------------------------------------------------------------------------------------


async def test_a_fiber_runs_in_the_background_and_its_result_is_kept(host: Any) -> None:
    agent = await started(host, Worker)
    record = agent.start_fiber("long", {"q": 1}, id="f")
    assert record.status == "pending"
    await host.advance(0)
    await asyncio.sleep(0.01)
    assert agent.seen == [({"q": 1}, None, 0)]
    assert agent.start_fiber("long", {"q": 2}, id="f").payload == {"q": 1}
    agent.gate.set()
    await host.background_idle()
    record = agent.get_fiber("f")
    assert record is not None
    assert (record.status, record.result, record.snapshot) == (
        "completed",
        {"answer": 42},
        {"step": 1},
    )
    assert await host.get_alarm() is None


async def test_a_fiber_is_run_again_after_an_eviction_with_its_stash(host: Any) -> None:
    agent = await started(host, Worker)
    agent.start_fiber("long", "p", id="f")
    await host.advance(0)
    await asyncio.sleep(0.01)
    agent = await restarted(agent)
    await asyncio.sleep(0.01)
    assert await agent.host.get_alarm() == agent.host.now()
    agent.gate.set()
    await agent.host.advance(0)  # type: ignore[attr-defined]
    await agent.host.background_idle()
    assert agent.seen == [("recovered", "long", {"step": 1}), ("p", {"step": 1}, 1)]
    assert agent.get_fiber("f").status == "completed"  # type: ignore[union-attr]


async def test_the_hook_can_refuse_to_run_a_fiber_again(host: Any) -> None:
    class Wary(Worker):
        def on_fiber_recovered(self, fiber: Fiber) -> bool:
            return False

    agent = await started(host, Wary)
    agent.start_fiber("long", id="f")
    await host.advance(0)
    await asyncio.sleep(0.01)
    agent = await restarted(agent)
    await agent.host.advance(0)  # type: ignore[attr-defined]
    await agent.host.background_idle()
    assert agent.seen == []
    assert agent.get_fiber("f").status == "interrupted"  # type: ignore[union-attr]


async def test_a_fiber_that_fails_ends_with_its_error(host: Any) -> None:
    agent = await started(host, Worker)
    agent.start_fiber("broken", id="f")
    await host.advance(0)
    await host.background_idle()
    record = agent.get_fiber("f")
    assert record is not None
    assert (record.status, record.error) == ("error", "ValueError: broken")
    assert "fiber.failed" in [event["event"] for event in host.logged]


async def test_a_fiber_can_be_cancelled_and_deleted(host: Any) -> None:
    agent = await started(host, Worker)
    agent.start_fiber("long", id="f")
    await host.advance(0)
    await asyncio.sleep(0.01)
    assert not agent.delete_fiber("f")
    assert agent.cancel_fiber("f")
    await host.background_idle()
    assert agent.get_fiber("f").status == "aborted"  # type: ignore[union-attr]
    assert not agent.cancel_fiber("f")
    assert [record.id for record in agent.list_fibers(status="aborted")] == ["f"]
    assert agent.delete_fiber("f")
    assert agent.get_fiber("f") is None
    assert await host.get_alarm() is None
    agent.start_fiber("long", id="f")
    assert agent.get_fiber("f").status == "pending"  # type: ignore[union-attr]


async def test_an_inline_fiber_returns_its_result(host: Any) -> None:
    agent = await started(host, Worker)

    async def work(fiber: Fiber) -> str:
        assert agent.jobs.leases == 1
        fiber.stash(1)
        return f"{fiber.name} {fiber.payload}"

    assert await agent.run_fiber("sum", work, "p") == "sum p"
    (record,) = agent.list_fibers()
    assert (record.status, record.result, record.snapshot) == ("completed", "sum p", 1)

    async def fail(fiber: Fiber) -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await agent.run_fiber("bad", fail)
    assert agent.list_fibers(status="error")[0].error == "KeyError: 'k'"
    assert agent.jobs.leases == 0
    with pytest.raises(JobError):
        await agent.run_fiber("", work)


async def test_an_inline_fiber_cut_short_is_offered_with_its_stash(host: Any) -> None:
    agent = await started(host, Worker)

    async def work(fiber: Fiber) -> None:
        fiber.stash({"done": 3})
        await asyncio.Event().wait()

    host.spawn(agent.run_fiber("import", work), name="inline")
    await asyncio.sleep(0.01)
    agent = await restarted(agent)
    assert agent.seen == [("recovered", "import", {"done": 3})]
    assert agent.list_fibers()[0].status == "interrupted"
    agent = await restarted(agent)
    assert agent.seen == []


async def test_an_oversized_stash_is_refused_and_the_last_one_stays(host: Any) -> None:
    agent = await started(host, Worker)

    async def work(fiber: Fiber) -> None:
        fiber.stash("small")
        with pytest.raises(LimitError):
            fiber.stash("x" * 2_000_000)
        assert fiber.snapshot == "small"

    await agent.run_fiber("w", work)
    assert agent.list_fibers()[0].snapshot == "small"


async def test_ended_fibers_are_bounded(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.actor.fibers.MAX_KEPT", 3)
    agent = await started(host, Worker)

    async def work(fiber: Fiber) -> None: ...

    for number in range(10):
        await agent.run_fiber(f"f{number}", work)
    assert [record.name for record in agent.list_fibers()] == ["f7", "f8", "f9"]


# --- background tasks, leases --------------------------------------------------------------------


async def test_a_background_task_keeps_the_object_and_reports_its_failure(host: Any) -> None:
    agent = await started(host, Worker)

    async def background() -> None:
        await agent.gate.wait()
        raise ValueError("in the background")

    agent.spawn(background(), name="report")
    await asyncio.sleep(0.01)
    assert agent.jobs.leases == 1
    assert await host.get_alarm() == host.now() + 30_000
    agent.gate.set()
    await host.background_idle()
    assert agent.seen == [("error", "in the background")]
    (event,) = [event for event in host.logged if event["event"] == "background.failed"]
    assert (event["work"], event["error"]) == ("report", "ValueError")
    assert await host.get_alarm() is None


async def test_background_tasks_are_not_garbage_collected(host: Any) -> None:
    import gc

    agent = await started(host, Worker)
    ended: list[int] = []

    async def background(number: int) -> None:
        await asyncio.sleep(0.001)
        ended.append(number)

    for number in range(50):
        agent.spawn(background(number))
    gc.collect()
    await host.background_idle()
    assert sorted(ended) == list(range(50))


async def test_keep_alive_is_a_lease(host: Any) -> None:
    agent = await started(host, Worker)
    with agent.keep_alive():
        assert await host.get_alarm() == host.now() + 30_000
    assert await host.get_alarm() is None


# --- what may interleave -------------------------------------------------------------------------


async def test_events_interleave_only_where_one_awaits(host: Any) -> None:
    class Slow(Worker):
        async def on_message(self, connection: Connection, message: str | bytes) -> None:
            self.seen.append(f"{message} begins")
            self.seen.append(f"{message} goes on")
            await asyncio.sleep(0.001 if message == "one" else 0)
            self.seen.append(f"{message} ends")

    from actors import connect, send

    agent = await started(host, Slow)
    socket = await connect(agent)
    await asyncio.gather(send(agent, socket, "one"), send(agent, socket, "two"))
    assert agent.seen == [
        "one begins",
        "one goes on",
        "two begins",
        "two goes on",
        "two ends",
        "one ends",
    ]


async def test_exclusive_lets_one_in_at_a_time_in_order_of_arrival(host: Any) -> None:
    agent = await started(host, Worker)

    async def enter(name: str) -> None:
        async with agent.exclusive("turn"):
            agent.seen.append(f"{name} in")
            await asyncio.sleep(0)
            agent.seen.append(f"{name} out")

    await asyncio.gather(*(enter(name) for name in "abc"))
    assert agent.seen == ["a in", "a out", "b in", "b out", "c in", "c out"]
    async with agent.exclusive("turn"), agent.exclusive("other"):
        with pytest.raises(BusyError, match="'turn' is busy"):
            async with agent.exclusive("turn", wait=False):
                raise AssertionError("let in")
    async with agent.exclusive("turn", wait=False):
        pass


async def test_exclusive_survives_waiters_that_give_up(host: Any) -> None:
    agent = await started(host, Worker)

    async def enter(name: str) -> None:
        async with agent.exclusive("turn"):
            agent.seen.append(name)

    async with agent.exclusive("turn"):
        waiters = [asyncio.ensure_future(enter(name)) for name in "abc"]
        await asyncio.sleep(0)
        waiters[0].cancel()
        await asyncio.sleep(0)
    waiters[1].cancel()  # its turn has just come: it must be handed on
    await asyncio.gather(*waiters, return_exceptions=True)
    assert agent.seen == ["c"]
    async with agent.exclusive("turn", wait=False):
        pass


# --- retry ---------------------------------------------------------------------------------------


async def test_retry_tries_again_and_gives_up_with_the_last_error(host: Any) -> None:
    agent = await started(host, Worker)
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError(f"try {len(tries)}")
        return "done"

    assert await agent.retry(flaky, base_delay_ms=1) == "done"
    tries.clear()
    with pytest.raises(ConnectionError, match="try 2"):
        await agent.retry(flaky, max_attempts=2, base_delay_ms=1)
    tries.clear()
    with pytest.raises(ConnectionError, match="try 1"):
        await agent.retry(flaky, should_retry=lambda error: False)
    with pytest.raises(JobError):
        await agent.retry(flaky, max_attempts=0)
