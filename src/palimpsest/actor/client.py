"""Calling an agent from another Worker or Durable Object, in Python."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from palimpsest.actor.calls import CLOSE, METHODS, NEXT, OPEN


class Callee(Protocol):
    """Anything that reaches an agent's ``handle_call``: a stub of its namespace, or the agent."""

    async def call(self, method: str, *arguments: Any) -> Any:
        """Run a method there; arguments and result are JSON values."""
        ...


class AgentClient:
    """One agent, seen from another Worker or object.

    Inside an agent: ``AgentClient(self.host.environment["Assistant"].get("room 1"))``.

    :param stub: what a Durable Object binding's ``get(name)`` returns.
    """

    def __init__(self, stub: Callee) -> None:
        self._stub = stub

    async def call(self, method: str, *arguments: Any) -> Any:
        """Run a callable method and return its result, a JSON value.

        :raises CallError: it is not callable, the arguments do not fit, or it failed.
        :raises ConnectionError: the object could not be reached.
        """
        return await self._stub.call(method, *arguments)

    async def stream(self, method: str, *arguments: Any) -> AsyncGenerator[Any, None]:
        """Run a streaming method and yield its chunks as they come.

        Leaving the loop early ends the method there.

        :raises CallError: as for :meth:`call`, or the method does not stream.
        """
        identifier = await self._stub.call(OPEN, method, *arguments)
        ended = False
        try:
            while chunks := await self._stub.call(NEXT, identifier):
                for chunk in chunks:
                    yield chunk
            ended = True
        finally:
            if not ended:
                await self._stub.call(CLOSE, identifier)

    async def methods(self) -> list[dict[str, Any]]:
        """What can be called: name, description, parameters and JSON Schema of each method."""
        return await self._stub.call(METHODS)
