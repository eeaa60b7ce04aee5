"""State sync: initial state, changes from both sides, refusals, types, limits."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from actors import connect, frames, restarted, send, started
from pydantic import BaseModel, Field

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.actor.connections import Connection
from palimpsest.errors import ConnectionStateError, StateRejectedError
from palimpsest.hosts.interface import HttpRequest


class Counter(Agent):
    """Keeps a count, refuses negative ones, and notes every change."""

    initial_state: ClassVar[Any] = {"count": 0}

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.changes: list[Any] = []

    def connection_readonly(self, request: HttpRequest) -> bool:
        return "readonly" in request.url

    def validate_state(self, state: Any, source: Connection | str) -> None:
        if state["count"] < 0:
            raise ValueError("count is negative")

    async def on_state_changed(self, state: Any, source: Connection | str) -> None:
        self.changes.append((state, source if isinstance(source, str) else source.id))

    @callable_method
    def add(self, amount: int) -> int:
        self.set_state({"count": self.state["count"] + amount})
        return self.state["count"]


async def set_from_client(agent: Agent, socket: Any, state: Any) -> list[dict[str, Any]]:
    """Set the state as a client; the frames that the client gets."""
    before = len(socket.sent)
    await send(agent, socket, {"type": "cf_agent_state", "state": state})
    return frames(socket)[before:]


async def test_the_initial_state_is_shown_and_not_shared(host: Any) -> None:
    agent = await started(host, Counter)
    agent.state["count"] = 99  # not a change: set_state makes changes
    assert Counter.initial_state == {"count": 0}
    agent = await restarted(agent)
    assert agent.state == {"count": 0}


async def test_a_change_goes_to_all_but_its_originator(host: Any) -> None:
    agent = await started(host, Counter)
    one, two = await connect(agent, "_pk=one"), await connect(agent, "_pk=two")
    assert await set_from_client(agent, one, {"count": 5}) == []
    assert frames(two)[-1] == {"type": "cf_agent_state", "state": {"count": 5}}
    agent.set_state({"count": 6})
    assert [frames(s)[-1]["state"] for s in (one, two)] == [{"count": 6}] * 2
    await host.background_idle()
    assert agent.changes == [({"count": 5}, "one"), ({"count": 6}, "server")]
    agent = await restarted(agent)
    assert agent.state == {"count": 6}


async def test_a_refused_state_is_answered_to_its_sender_alone(host: Any) -> None:
    agent = await started(host, Counter)
    one, two = await connect(agent), await connect(agent)
    before = len(two.sent)
    assert await set_from_client(agent, one, {"count": -1}) == [
        {
            "type": "cf_agent_state_error",
            "error": "State update rejected",
            "reason": "count is negative",
        },
        {"type": "cf_agent_state", "state": {"count": 0}},
    ]
    assert len(two.sent) == before
    with pytest.raises(StateRejectedError, match="count is negative"):
        agent.set_state({"count": -1})
    assert agent.state == {"count": 0}
    await host.background_idle()
    assert agent.changes == []


async def test_readonly_clients_cannot_change_the_state(host: Any) -> None:
    agent = await started(host, Counter)
    socket = await connect(agent, "readonly")
    answer = await set_from_client(agent, socket, {"count": 1})
    assert answer[0]["error"] == "Connection is readonly"
    await send(agent, socket, {"type": "rpc", "id": "1", "method": "add", "args": [1]})
    assert frames(socket)[-1] == {
        "type": "rpc",
        "id": "1",
        "success": False,
        "error": "Connection is readonly",
    }
    assert agent.state == {"count": 0}


async def test_set_state_for_a_readonly_client_raises(host: Any) -> None:
    class Sneaky(Counter):
        async def on_message(self, connection: Connection, message: str | bytes) -> None:
            with pytest.raises(ConnectionStateError):
                self.set_state({"count": 1})
            self.changes.append("refused")

    agent = await started(host, Sneaky)
    await send(agent, await connect(agent, "readonly"), "x")
    assert agent.changes == ["refused"]


@pytest.mark.parametrize("state", [object(), float("nan"), {1, 2}, "\ud800"], ids=repr)
async def test_what_is_not_json_is_refused(host: Any, state: Any) -> None:
    class Plain(Agent):
        pass

    agent = await started(host, Plain)
    if state == "\ud800":  # JSON can carry it, escaped
        agent.set_state(state)
        agent = await restarted(agent)
        assert agent.state == "\ud800"
        return
    with pytest.raises(StateRejectedError, match="not JSON"):
        agent.set_state(state)
    assert agent.state is None


async def test_an_oversized_state_is_refused(host: Any) -> None:
    agent = await started(host, Counter)
    socket = await connect(agent)
    with pytest.raises(StateRejectedError, match="at most 1995904 bytes"):
        agent.set_state({"count": 1, "text": "é" * 1_000_000})
    answer = await set_from_client(agent, socket, {"count": 1, "text": "x" * 2_000_000})
    assert "at most 1995904 bytes" in answer[0]["reason"]
    agent.set_state({"count": 1, "text": "x" * 1_900_000})
    agent = await restarted(agent)
    assert len(agent.state["text"]) == 1_900_000


async def test_a_frame_without_state_is_refused(host: Any) -> None:
    agent = await started(host, Counter)
    socket = await connect(agent)
    await send(agent, socket, {"type": "cf_agent_state"})
    assert frames(socket, "cf_agent_state_error")[0]["reason"] == "the frame has no state"


class Board(BaseModel):
    """A typed state."""

    title: str = Field(max_length=10)
    moveCount: int = 0


class Typed(Agent):
    """State as a pydantic model."""

    state_type = Board

    initial_state = staticmethod(lambda: Board(title="new"))


async def test_a_typed_state_is_an_instance_here_and_json_there(host: Any) -> None:
    agent = await started(host, Typed)
    assert agent.state == Board(title="new")
    socket = await connect(agent)
    assert frames(socket)[1]["state"] == {"title": "new", "moveCount": 0}
    assert await set_from_client(agent, socket, {"title": "chess", "moveCount": 3}) == []
    assert agent.state == Board(title="chess", moveCount=3)
    refused = await set_from_client(agent, socket, {"title": "much too long", "moveCount": "x"})
    assert refused[0]["reason"] == (
        "title: String should have at most 10 characters; "
        "moveCount: Input should be a valid integer, unable to parse string as an integer"
    )
    agent = await restarted(agent)
    assert agent.state == Board(title="chess", moveCount=3)


async def test_a_failing_change_hook_is_reported(host: Any) -> None:
    class Failing(Counter):
        async def on_state_changed(self, state: Any, source: Connection | str) -> None:
            raise RuntimeError("hook")

    agent = await started(host, Failing)
    agent.set_state({"count": 1})
    await host.background_idle()
    assert agent.state == {"count": 1}
    assert agent.events.last_errors()[0]["event"] == "on_state_changed.failed"


async def test_a_stored_state_of_the_typescript_package_is_read(host: Any) -> None:
    host.sql.execute(
        "create table cf_agents_state (id text primary key not null, state text);"
        "insert into cf_agents_state values ('cf_state_row_id', '{\"count\":7}')"
    )
    agent = await started(host, Counter)
    assert agent.state == {"count": 7}


class Old(Agent):
    initial_state: ClassVar[Any] = {"count": 3}


class Outdated(Agent):
    class Shape(BaseModel):
        count: int
        name: str

    state_type = Shape


class Migrating(Outdated):
    def on_start(self) -> None:
        self.set_state({"name": "new", **self.state_sync.json})


async def test_a_state_that_a_deploy_has_outdated_keeps_nobody_out(host: Any) -> None:
    (await started(host, Old)).set_state({"count": 4})
    agent: Any = await started(host.restarted(), Outdated)
    socket = await connect(agent)
    assert socket.is_open
    assert frames(socket, "cf_agent_state")[0]["state"] == {"count": 4}
    with pytest.raises(StateRejectedError, match="name"):
        _ = agent.state
    agent = await started(agent.host.restarted(), Migrating)
    assert agent.state == Outdated.Shape(count=4, name="new")
