"""An agent on the local host, driven by hand: clock, alarms, eviction and crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from palimpsest.actor.agent import Agent
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.local import LocalHost, LocalSocket
from palimpsest.models.interface import Model
from palimpsest.testing.clients import FakeClient

AgentT = TypeVar("AgentT", bound=Agent)


class LocalAgent(Generic[AgentT]):
    """One agent of a class on a :class:`LocalHost`.

    :param agent_class: the agent under test.
    :param name: the object's name.
    :param environment: variables, secrets and bindings.
    :param path: a database file; None keeps everything in memory.
    :param start: the clock's first reading in ms since 1970; None reads the system's clock.
    :param model: the model of a chat agent, also after an eviction or a crash; None leaves the
        agent's own.

    Use as ``async with LocalAgent(MyAgent) as local:``, or call :meth:`start` and :meth:`close`.
    """

    def __init__(
        self,
        agent_class: type[AgentT],
        *,
        name: str = "test",
        environment: Mapping[str, Any] | None = None,
        path: str | Path | None = None,
        start: int | None = None,
        model: Model | None = None,
    ) -> None:
        self._agent_class = agent_class
        self._model = model
        self.host = LocalHost(path, name=name, environment=environment, start=start)
        self._agent: AgentT | None = None

    @property
    def agent(self) -> AgentT:
        """The running instance; another one after :meth:`evict` and :meth:`crash`.

        :raises RuntimeError: it was not started.
        """
        if self._agent is None:
            raise RuntimeError("the agent is not running: call start() first")
        return self._agent

    @property
    def url(self) -> str:
        """The agent's address, as in a request."""
        return f"http://agents.test/agents/{self.agent.agent_name}/{self.host.name}"

    async def __aenter__(self) -> LocalAgent[AgentT]:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> AgentT:
        """Make the instance and run its start, as the first event of an instance does."""
        agent: Any = self._agent_class(self.host)
        if self._model is not None:
            agent.model = lambda: self._model
        await agent.handle_start()
        self._agent = agent
        return agent

    async def request(
        self,
        method: str,
        path: str = "",
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> LocalResponse:
        """Send an HTTP request to the agent and read the whole answer.

        :param path: below the agent's address, with its query; may begin with ``?``.
        :param body: bytes or text as they are; anything else is sent as JSON.
        """
        separator = "" if not path or path.startswith("?") else "/"
        url = f"{self.url}{separator}{path.removeprefix('/')}"
        request = HttpRequest(method, url, dict(headers or {}), _body_bytes(body))
        return await LocalResponse.read(await self.agent.handle_request(request))

    async def connect(
        self, query: str = "", *, headers: Mapping[str, str] | None = None
    ) -> FakeClient:
        """Open a WebSocket, as an npm client does.

        :param query: the URL's query without ``?``, e.g. ``session=work&_pk=1``.
        :raises ConnectionRefusedError: the agent answered with something else than an upgrade.
        """
        url = f"{self.url}?{query}" if query else self.url
        upgrade = {"upgrade": "websocket", **(headers or {})}
        response = await self.agent.handle_request(HttpRequest("GET", url, upgrade))
        if not isinstance(response.upgrade, LocalSocket):
            raise ConnectionRefusedError(f"the agent answered with status {response.status}")
        return FakeClient(response.upgrade, lambda: self.agent)

    async def advance(self, seconds: float) -> None:
        """Move the clock; every alarm on the way fires at its own time, and its work ends."""
        await self.host.advance(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Wait until the agent's background work has ended."""
        await self.host.background_idle()

    async def evict(self) -> AgentT:
        """Drop the idle instance and start another, as hibernation does.

        Rows, the alarm and the sockets with their tags and attachments stay; memory goes.
        """
        await self.settle()
        return await self._restart()

    async def crash(self) -> AgentT:
        """Kill the instance in the middle of whatever it does, and start another.

        Nothing that the old instance still tries can reach storage or sockets. All sockets are
        gone, as when the process died.
        """
        sockets = self.host.sockets()
        agent = await self._restart()
        for socket in sockets:
            socket.close(1006, "the process died")
        return agent

    async def _restart(self) -> AgentT:
        self.host = self.host.restarted()
        self._agent = None
        await asyncio.sleep(0)  # lets the cancelled tasks of the old instance end
        return await self.start()

    async def close(self) -> None:
        """Stop the agent's background work and close the database."""
        self.host.stop_background()
        await asyncio.sleep(0)
        self.host.close()


class LocalResponse:
    """An answer, read to its end."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @classmethod
    async def read(cls, response: HttpResponse) -> LocalResponse:
        """Read what the agent returned, streamed or not."""
        body = response.body
        if isinstance(body, str):
            body = body.encode()
        elif isinstance(body, AsyncIterator):
            body = b"".join([chunk async for chunk in body])
        return cls(response.status, dict(response.headers), bytes(body))

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as a JSON value."""
        return json.loads(self.body)


def _body_bytes(body: object) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return json.dumps(body).encode()
