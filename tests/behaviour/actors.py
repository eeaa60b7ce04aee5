"""Agents on the host of a behaviour test: start, connect, restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from palimpsest.actor.agent import Agent
from palimpsest.hosts.interface import HttpRequest, HttpResponse

AgentT = TypeVar("AgentT", bound=Agent)

ADDRESS = "https://agents.test/agents/some-agent/behaviour"


async def started(host: Any, agent_class: type[AgentT]) -> AgentT:
    """An agent that has started on the host."""
    agent = agent_class(host)
    await agent.handle_start()
    return agent


async def restarted(agent: AgentT) -> AgentT:
    """Another instance of the agent over the same storage and sockets, as after an eviction."""
    host: Any = agent.host
    return await started(host.restarted(), type(agent))


async def connect(agent: Agent, query: str = "", **headers: str) -> Any:
    """The server's end of a new connection."""
    address = f"{ADDRESS}?{query}" if query else ADDRESS
    request = HttpRequest("GET", address, {"upgrade": "websocket", **headers})
    response = await agent.handle_request(request)
    assert response.status == 101, (response.status, response.body)
    return response.upgrade


async def request(agent: Agent, path: str = "", method: str = "GET") -> HttpResponse:
    """The answer to a plain request."""
    return await agent.handle_request(HttpRequest(method, f"{ADDRESS}/{path}", {}))


def body_of(response: HttpResponse) -> Any:
    """The JSON of an answer."""
    assert isinstance(response.body, str)
    return json.loads(response.body)


async def send(agent: Agent, socket: Any, frame: Mapping[str, Any] | str | bytes) -> None:
    """A message from the client."""
    text = frame if isinstance(frame, str | bytes) else json.dumps(frame)
    await agent.handle_message(socket, text)


def frames(socket: Any, kind: str | None = None) -> list[dict[str, Any]]:
    """What the server sent as JSON, of one type if given."""
    found: list[dict[str, Any]] = [json.loads(text) for text in socket.sent]
    return [frame for frame in found if kind in (None, frame.get("type"))]


async def call(agent: Agent, socket: Any, method: str, *arguments: Any) -> list[dict[str, Any]]:
    """The frames that answer one call."""
    before = len(socket.sent)
    await send(agent, socket, {"type": "rpc", "id": "1", "method": method, "args": arguments})
    return [json.loads(text) for text in socket.sent[before:] if '"type":"rpc"' in text]


async def cancelled_elsewhere() -> None:
    """Awaits what somebody else has cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future
