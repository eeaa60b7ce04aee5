"""The life of an agent: start, requests, refusals, failures, destruction."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from actors import body_of, connect, frames, request, restarted, send, started

from palimpsest.actor.agent import Agent
from palimpsest.actor.connections import Connection
from palimpsest.actor.current import current
from palimpsest.actor.hooks import Decision, Reject
from palimpsest.errors import DestroyedError
from palimpsest.hosts.interface import HttpRequest, HttpResponse


class Recorder(Agent):
    """Notes every hook that is called."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.seen: list[Any] = []

    async def on_start(self) -> None:
        self.seen.append("start")

    async def on_connect(self, connection: Connection, request: HttpRequest) -> None:
        self.seen.append(("connect", connection.id))

    def on_message(self, connection: Connection, message: str | bytes) -> None:
        self.seen.append(("message", message))

    async def on_close(self, connection: Connection, code: int, reason: str, clean: bool) -> None:
        self.seen.append(("close", code, reason, clean))

    async def on_error(self, error: BaseException, connection: Connection | None) -> None:
        self.seen.append(("error", str(error)))

    async def on_request(self, request: HttpRequest) -> HttpResponse | None:
        if request.url.endswith("/hello"):
            return HttpResponse(200, {}, "hello")
        return None

    async def on_alarm(self) -> None:
        self.seen.append("alarm")


async def test_hooks_are_called_in_order(host: Any) -> None:
    agent = await started(host, Recorder)
    socket = await connect(agent, "_pk=one")
    await send(agent, socket, "plain text")
    await send(agent, socket, b"bytes")
    await send(agent, socket, '{"type": "unknown"}')
    await send(agent, socket, '{"no": "type"}')
    await agent.handle_close(socket, 1001, "going", True)
    assert agent.seen == [
        "start",
        ("connect", "one"),
        ("message", "plain text"),
        ("message", b"bytes"),
        ("message", '{"type": "unknown"}'),
        ("message", '{"no": "type"}'),
        ("close", 1001, "going", True),
    ]


async def test_a_request_nobody_answers_is_404(host: Any) -> None:
    agent = await started(host, Recorder)
    assert (await request(agent, "hello")).body == "hello"
    missing = await request(agent, "nothing")
    assert (missing.status, body_of(missing)["error"]["code"]) == (404, "not_found")


async def test_a_failing_start_is_raised_and_the_next_instance_starts(host: Any) -> None:
    failures = [RuntimeError("not yet"), RuntimeError("not yet")]

    class Slow(Recorder):
        async def on_start(self) -> None:
            if failures:
                raise failures.pop()
            await super().on_start()

    for _ in range(2):
        with pytest.raises(RuntimeError, match="not yet"):
            await started(host, Slow)
        host.jobs = None
    agent = await started(host, Slow)
    assert agent.seen == ["start"]
    assert not agent.starting


async def test_a_failing_hook_is_reported_and_the_agent_lives_on(host: Any) -> None:
    class Failing(Recorder):
        def on_message(self, connection: Connection, message: str | bytes) -> None:
            raise ValueError("secret text of a prompt")

        async def on_request(self, request: HttpRequest) -> HttpResponse | None:
            raise KeyError("inside")

    agent = await started(host, Failing)
    socket = await connect(agent)
    await send(agent, socket, "x")
    assert agent.seen[-1] == ("error", "secret text of a prompt")
    answer = await request(agent, "boom")
    assert answer.status == 500
    assert "inside" not in str(answer.body)
    logged = [event for event in host.logged if event["event"] == "message.failed"]
    assert logged[0]["error"] == "ValueError"
    assert logged[0]["place"].startswith("on_message (test_agent_lifecycle.py:")
    assert not any("secret text" in str(event) for event in host.logged)
    assert [error["event"] for error in agent.events.last_errors()] == [
        "message.failed",
        "request.failed",
    ]


async def test_a_failing_error_hook_is_logged_too(host: Any) -> None:
    class Worse(Agent):
        def on_message(self, connection: Connection, message: str | bytes) -> None:
            raise ValueError("first")

        def on_error(self, error: BaseException, connection: Connection | None) -> None:
            raise ValueError("second")

    agent = await started(host, Worse)
    await send(agent, await connect(agent), "x")
    assert [e["event"] for e in host.logged if "error" in e] == [
        "message.failed",
        "on_error.failed",
    ]


async def test_a_failing_on_connect_closes_the_connection(host: Any) -> None:
    class Broken(Agent):
        def on_connect(self, connection: Connection, request: HttpRequest) -> None:
            raise RuntimeError("no database")

    agent = await started(host, Broken)
    socket = await connect(agent)
    assert socket.closed == (1011, "the connection could not be set up")
    assert not any("no database" in str(text) for text in socket.sent)


class Guarded(Agent):
    """Decides by the query what becomes of a request."""

    def _decide(self, request: HttpRequest) -> Decision:
        if "answer" in request.url:
            return HttpResponse(202, {}, "answered")
        if "reject" in request.url:
            return Reject("no entry", code=4401, status=401)
        if "replace" in request.url:
            return HttpRequest(request.method, request.url + "&replaced=1", request.headers)
        return None

    def before_request(self, request: HttpRequest) -> Decision:
        return self._decide(request)

    async def before_connect(self, request: HttpRequest) -> Decision:
        return self._decide(request)

    def on_request(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, request.url.partition("&")[2])


async def test_before_request_can_answer_reject_and_replace(host: Any) -> None:
    agent = await started(host, Guarded)
    assert (await request(agent, "?answer")).status == 202
    refused = await request(agent, "?reject")
    assert refused.status == 401
    assert body_of(refused)["error"]["message"] == "no entry"
    assert (await request(agent, "?replace")).body == "replaced=1"


async def test_before_connect_rejects_with_a_code_that_stops_clients(host: Any) -> None:
    agent = await started(host, Guarded)
    refused = await connect(agent, "reject")
    assert refused.closed == (4401, "no entry")
    assert refused.sent == []
    assert len(agent.connections) == 0
    replaced = await connect(agent, "replace")
    assert Connection(replaced).query["replaced"] == "1"
    answered = await agent.handle_request(
        HttpRequest("GET", "https://h/?answer", {"upgrade": "websocket"})
    )
    assert answered.status == 202


def test_a_rejection_that_clients_would_retry_is_refused() -> None:
    for arguments in ({"code": 1000}, {"code": 1011}, {"status": 200}, {"reason": "x" * 124}):
        with pytest.raises(ValueError, match=r"terminal|status|reason"):
            Reject(**{"reason": "no", **arguments})  # type: ignore[arg-type]


async def test_current_tells_whom_the_code_works_for(host: Any) -> None:
    seen: list[Any] = []

    class Aware(Agent):
        async def on_message(self, connection: Connection, message: str | bytes) -> None:
            work = current()
            assert work is not None
            seen.append((work.agent is self, work.connection == connection, work.request))

    agent = await started(host, Aware)
    await send(agent, await connect(agent), "x")
    assert seen == [(True, True, None)]
    assert current() is None


async def test_status_shows_counters_and_no_contents(host: Any) -> None:
    class Busy(Agent):
        def later(self, payload: Any) -> None:
            raise RuntimeError("x")

    agent = await started(host, Busy)
    await connect(agent)
    agent.schedule(60, "later", "private payload")
    agent.queue("later", "private payload")
    status = body_of(await request(agent, "status"))
    assert status["connections"] == 1
    assert status["schedules"] == 1
    assert status["queue"] == 1
    assert status["databaseBytes"] > 0
    assert status["nextAlarm"] == host.now()
    assert status["lastErrors"] == []
    assert status["events"]["agent.started"] == 1
    assert "heapBytes" in status
    assert "private" not in str(status)


async def test_destroy_removes_everything(host: Any) -> None:
    class Rich(Recorder):
        initial_state: ClassVar[Any] = {"a": 1}

        def tick(self) -> None:
            self.seen.append("tick")

    agent = await started(host, Rich)
    socket = await connect(agent)
    agent.set_state({"a": 2})
    agent.schedule(5, "tick")
    await agent.destroy()
    assert socket.closed == (4410, "the agent was destroyed")
    assert (await request(agent, "hello")).status == 410
    await host.advance(0)
    assert tables(host) == []
    assert await host.get_alarm() is None
    await host.background_idle()
    assert host.aborted == "destroyed"
    await host.advance(100)
    assert "tick" not in agent.seen
    again = await started(host.restarted(), Rich)
    assert again.state == {"a": 1}
    assert again.list_schedules() == []


async def test_destroy_that_was_cut_short_is_finished_at_the_next_event(host: Any) -> None:
    agent = await started(host, Recorder)
    agent.set_state({"a": 2})
    await agent.destroy()
    assert await host.get_alarm() == host.now()
    successor = host.restarted()
    with pytest.raises(DestroyedError):
        await started(successor, Recorder)
    assert tables(successor) == []
    assert await successor.get_alarm() is None
    assert (await started(successor.restarted(), Recorder)).state is None


async def test_destroy_stops_work_that_runs(host: Any) -> None:
    ended: list[str] = []

    gate = asyncio.Event()

    class Working(Agent):
        async def forever(self, fiber: Any) -> None:
            try:
                await gate.wait()
            finally:
                ended.append("fiber")

        async def loop(self) -> None:
            try:
                await gate.wait()
            finally:
                ended.append("background")

    agent = await started(host, Working)
    agent.start_fiber("forever")
    agent.spawn(agent.loop())
    await host.advance(0)
    await asyncio.sleep(0.01)
    agent.start_fiber("forever", id="just begun")
    await host.advance(0)
    await agent.destroy()
    await host.advance(0)
    await host.background_idle()
    assert sorted(ended) == ["background", "fiber"]
    assert tables(host) == []


async def test_an_evicted_agent_starts_anew_and_keeps_what_is_stored(host: Any) -> None:
    agent = await started(host, Recorder)
    socket = await connect(agent, "_pk=one")
    agent.set_state({"kept": True})
    agent = await restarted(agent)
    assert agent.seen == ["start"]
    assert agent.state == {"kept": True}
    assert [connection.id for connection in agent.connections] == ["one"]
    agent.set_state({"kept": "changed"})
    assert frames(socket, "cf_agent_state")[-1]["state"] == {"kept": "changed"}


def tables(host: Any) -> list[str]:
    """The names of the tables that hold something of the agent."""
    rows = host.sql.execute(
        "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
        " and name not like '\\_cf%' escape '\\' and name <> 'local_alarm'"
    )
    return [str(row[0]) for row in rows]
