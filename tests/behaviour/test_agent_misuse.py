"""What users do wrong with an agent: a clear error, nothing half written, nobody left waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from actors import call, cancelled_elsewhere, connect, started

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method, callables_of
from palimpsest.actor.fibers import Fiber
from palimpsest.errors import CallError, JobError, LimitError, PalimpsestError
from palimpsest.hosts.interface import MAX_SOCKET_MESSAGE_BYTES

if TYPE_CHECKING:
    from decimal import Decimal


class Mute(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Opaque:
    """A type that JSON Schema knows nothing of."""


class Careless(Agent):
    """Does what it should not."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.seen: list[Any] = []

    @callable_method
    def add(self, amount: int) -> Decimal:
        return amount  # type: ignore[return-value]

    @callable_method
    def unknown_type(self, amount: Decimal) -> None: ...

    @callable_method
    def keyword(self, *, amount: int) -> None: ...

    @callable_method
    def opaque(self, value: Opaque) -> None: ...

    @callable_method
    def too_large(self) -> str:
        return "x" * (MAX_SOCKET_MESSAGE_BYTES + 1)

    @callable_method
    def mute(self) -> None:
        raise Mute

    @callable_method
    def exits(self) -> None:
        raise SystemExit(1)

    @callable_method
    async def cancelled(self) -> None:
        await cancelled_elsewhere()

    @callable_method
    async def cancelled_stream(self) -> AsyncIterator[int]:
        yield 1
        await cancelled_elsewhere()

    async def on_message(self, connection: Any, message: str | bytes) -> None:
        await cancelled_elsewhere()

    async def on_error(self, error: BaseException, connection: Any) -> None:
        self.seen.append(str(error))

    async def generate(self, payload: Any) -> AsyncIterator[int]:
        yield 1

    def hand_out(self, payload: Any) -> Any:
        yield 1

    async def fragile(self, payload: Any, run: Any) -> None:
        self.seen.append(run.attempt)
        if run.attempt < 3:
            raise RuntimeError("not yet")

    async def fail(self, payload: Any) -> None:
        self.seen.append("failing")
        raise Mute

    async def long(self, fiber: Fiber) -> str:
        self.seen.append(fiber.payload)
        if len(self.seen) < 2:
            raise RuntimeError("the first time")
        return "done"


async def test_one_wrong_definition_harms_no_other_method(host: Any) -> None:
    agent = await started(host, Careless)
    socket = await connect(agent)
    (answer,) = await call(agent, socket, "add", 2)
    assert answer["result"] == 2
    (answer,) = await call(agent, socket, "unknown_type", 2)
    assert "Decimal" in answer["error"]
    (answer,) = await call(agent, socket, "keyword", 2)
    assert "keyword-only" in answer["error"]
    listed = {method["name"]: method for method in agent.callable_methods()}
    assert "Decimal" in listed["unknown_type"]["problem"]
    assert "problem" not in listed["add"]
    assert list(listed["opaque"]["schema"]["properties"]) == ["value"]


async def test_arguments_are_checked_where_only_the_result_is_unknown(host: Any) -> None:
    agent = await started(host, Careless)
    (answer,) = await call(agent, await connect(agent), "add", "many")
    assert "valid integer" in answer["error"]


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("too_large", "at most"),
        ("mute", "Mute"),
        ("exits", "exits() wanted to end the process"),
        ("cancelled", "cancelled() was cancelled"),
        ("cancelled_stream", "cancelled_stream() was cancelled"),
    ],
)
async def test_every_call_is_answered(host: Any, method: str, text: str) -> None:
    agent = await started(host, Careless)
    answer = (await call(agent, await connect(agent), method))[-1]
    assert answer["success"] is False
    assert text in answer["error"]
    if method != "too_large":  # what carries it to another object has no such limit
        with pytest.raises(CallError):
            await agent.handle_call(method, [])


async def test_a_hook_that_is_cancelled_from_within_is_a_failure_like_any_other(host: Any) -> None:
    agent = await started(host, Careless)
    await agent.handle_message(await connect(agent), "hello")
    assert agent.seen == ["the hook was cancelled"]


def test_a_subclass_may_take_a_wire_name_over() -> None:
    class Base(Agent):
        @callable_method(name="show")
        def base(self) -> str:
            return "base"

    class Derived(Base):
        @callable_method(name="show")
        def derived(self) -> str:
            return "derived"

    assert callables_of(Derived)["show"].attribute == "derived"


@pytest.mark.parametrize(
    "options",
    [
        {"payload": object()},
        {"payload": float("nan")},
        {"payload": {("a", "b"): 1}},
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": float("inf")},
        {"timeout_seconds": "5"},
        {"timeout_seconds": 0},
        {"max_attempts": "3"},
        {"max_attempts": 1.5},
        {"max_attempts": 2**60},
        {"base_delay_ms": float("nan")},
        {"base_delay_ms": -1},
        {"id": 5},
        {"id": "x" * 5_000},
        {"id": "\ud800"},
    ],
)
async def test_wrong_values_are_refused_and_leave_nothing(
    host: Any, options: dict[str, Any]
) -> None:
    agent = await started(host, Careless)
    with pytest.raises(PalimpsestError):
        agent.schedule(1, "fail", **options)
    with pytest.raises(PalimpsestError):
        agent.schedule_every(1, "fail", **options)
    with pytest.raises(PalimpsestError):
        agent.queue("fail", **options)
    if options.keys() <= {"payload", "id"}:
        with pytest.raises(PalimpsestError):
            agent.start_fiber("long", **options)
    assert agent.jobs.list() == []
    assert agent.list_fibers() == []
    assert await host.get_alarm() is None


async def test_a_generator_is_no_callback(host: Any) -> None:
    agent = await started(host, Careless)
    for name in ("generate", "hand_out"):
        for schedule in (agent.queue, agent.start_fiber):
            with pytest.raises(JobError, match="generator"):
                schedule(name)


async def test_a_run_that_failed_is_tried_again_however_late(host: Any) -> None:
    agent = await started(host, Careless)
    agent.schedule_every(3_600, "fragile", catch_up="skip", base_delay_ms=120_000)
    await host.advance(3_600 + 2 * 600)
    assert agent.seen == [1, 2, 3]


async def test_what_was_given_up_can_be_scheduled_again(host: Any) -> None:
    agent = await started(host, Careless)
    agent.schedule(1, "fail", id="mail", max_attempts=1)
    await host.advance(2)
    assert [job.error for job in agent.dead_letters()] == ["Mute"]
    again = agent.schedule(1, "fail", id="mail", max_attempts=1)
    assert again.status == "pending"
    await host.advance(2)
    assert agent.seen == ["failing", "failing"]


async def test_a_fiber_that_failed_can_be_run_again(host: Any) -> None:
    agent = await started(host, Careless)
    agent.start_fiber("long", "work", id="one")
    await host.advance(1)
    await host.background_idle()
    (letter,) = agent.dead_letters()
    assert agent.retry_dead_letter(letter.id)
    await host.advance(1)
    await host.background_idle()
    fiber = agent.get_fiber("one")
    assert fiber is not None
    assert (fiber.status, fiber.result, fiber.error) == ("completed", "done", None)
    assert agent.seen == ["work", "work"]
    assert agent.dead_letters() == []


@pytest.mark.parametrize("result", [Opaque(), "x" * 2_000_000])
async def test_an_inline_fiber_whose_result_cannot_be_stored_has_ended(
    host: Any, result: Any
) -> None:
    agent = await started(host, Careless)

    async def work(fiber: Fiber) -> Any:
        return result

    with pytest.raises((CallError, LimitError)):
        await agent.run_fiber("work", work)
    with pytest.raises(TypeError):
        await agent.run_fiber("no coroutine", lambda fiber: 5)  # type: ignore[arg-type, return-value]
    assert [fiber.status for fiber in agent.list_fibers()] == ["error", "error"]
