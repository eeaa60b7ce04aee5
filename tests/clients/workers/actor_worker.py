"""An agent for the npm clients of the actor: state, calls, streams, closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.actor.connections import Connection
from palimpsest.actor.hooks import Decision, Reject
from palimpsest.hosts.interface import HttpRequest
from palimpsest.hosts.workers import durable_object, worker_entrypoint


@durable_object
class Counter(Agent):
    """Counts; refuses negative counts."""

    initial_state: ClassVar[Any] = {"count": 0}

    def before_connect(self, request: HttpRequest) -> Decision:
        if "token=bad" in request.url:
            return Reject("bad token", code=4401)
        if "token=policy" in request.url:
            return Reject("against policy", code=1008)
        return None

    def connection_readonly(self, request: HttpRequest) -> bool:
        return "readonly=1" in request.url

    def connection_tags(self, request: HttpRequest) -> Sequence[str]:
        return ["tagged"]

    def validate_state(self, state: Any, source: Connection | str) -> None:
        if state["count"] < 0:
            raise ValueError("count is negative")

    def on_message(self, connection: Connection, message: str | bytes) -> None:
        if message == "drop me":
            connection.close(1012, "restart")
        else:
            self.broadcast(message)

    @callable_method
    def add(self, amount: int) -> int:
        """Adds to the count."""
        self.set_state({"count": self.state["count"] + amount})
        return self.state["count"]

    @callable_method
    def connection_ids(self) -> list[str]:
        return sorted({connection.id for connection in self.connections})

    @callable_method
    def nothing(self) -> None:
        return None

    @callable_method
    def fails(self) -> None:
        raise ValueError("it failed on purpose")

    @callable_method
    async def slow(self) -> str:
        await asyncio.sleep(5)
        return "late"

    @callable_method
    async def count_to(self, to: int, fail_at: int = -1) -> AsyncIterator[int]:
        for number in range(1, to + 1):
            if number == fail_at:
                raise ValueError(f"no {number}")
            await asyncio.sleep(0.01)
            yield number

    def hidden(self) -> str:
        return "secret"


@durable_object
class Anonymous(Counter.agent_class):
    """Does not tell its name."""

    send_identity = False


Default = worker_entrypoint(cors=True)
