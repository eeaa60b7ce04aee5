"""What one connection may do at most, on every host."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from chat_rig import Talker, user

from palimpsest.actor.agent import Agent
from palimpsest.actor.rate import RateLimit
from palimpsest.hosts.interface import Host, HttpRequest


class Echo(Agent):
    message_rate: ClassVar[RateLimit | None] = RateLimit(burst=3, per_second=2)

    def on_message(self, connection: Any, message: str | bytes) -> None:
        connection.send(message)


async def connected(agent: Agent, query: str = "") -> Any:
    url = f"http://agents.test/agents/echo/x{query}"
    response = await agent.handle_request(HttpRequest("GET", url, {"upgrade": "websocket"}))
    return response.upgrade


async def test_connection_that_sends_too_fast_is_closed_and_others_go_on(host: Any) -> None:
    agent = Echo(host)
    await agent.handle_start()
    fast, calm = await connected(agent, "?_pk=fast"), await connected(agent, "?_pk=calm")
    for number in range(4):
        await agent.handle_message(fast, f"message {number}")
    await agent.handle_message(calm, "hello")
    assert fast.closed[0] == 4429
    assert [data for data in fast.sent if data.startswith("message")] == [
        "message 0",
        "message 1",
        "message 2",
    ]
    assert calm.is_open
    assert calm.sent[-1] == "hello"


async def test_bucket_fills_with_time(host: Any) -> None:
    agent = Echo(host)
    await agent.handle_start()
    socket = await connected(agent)
    for _ in range(3):
        await agent.handle_message(socket, "x")
    await host.advance(1)
    for _ in range(2):
        await agent.handle_message(socket, "x")
    assert socket.is_open
    await agent.handle_message(socket, "x")
    assert socket.closed[0] == 4429


@pytest.mark.parametrize(("burst", "per_second"), [(0, 1.0), (1, 0.0), (1, -1.0)])
async def test_limit_of_nothing_is_refused(burst: int, per_second: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        RateLimit(burst=burst, per_second=per_second)


class Watched(Talker):
    def connection_readonly(self, request: HttpRequest) -> bool:
        return "watch" in request.url


async def test_readonly_connection_reads_along_and_cannot_write(host: Host) -> None:
    agent = Watched(host)
    await agent.handle_start()
    watcher = await connected(agent, "?watch=1&_pk=w")
    body = json.dumps({"messages": [user("m1", "hello")], "trigger": "submit-message"})
    request = {
        "type": "cf_agent_use_chat_request",
        "id": "r1",
        "init": {"method": "POST", "body": body},
    }
    await agent.handle_message(watcher, json.dumps(request))
    await agent.handle_message(watcher, json.dumps({"type": "cf_agent_chat_clear"}))
    (refusal,) = [json.loads(data) for data in watcher.sent if "cf_agent_use_chat_response" in data]
    assert refusal["error"] is True
    assert refusal["done"] is True
    assert refusal["body"] == "This connection may read along, but not write."
    assert await agent.session().get_history() == []
    writer = await connected(agent, "?_pk=x")
    await agent.handle_message(writer, json.dumps(request | {"id": "r2"}))
    await host.background_idle()
    assert any("answer" in data for data in watcher.sent)
    assert len(await agent.session().get_history()) == 2
