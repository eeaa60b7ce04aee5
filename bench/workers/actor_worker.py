"""An agent that echoes: as a message, and as a callable method."""

from __future__ import annotations

from typing import Any, ClassVar

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.actor.connections import Connection
from palimpsest.hosts.workers import durable_object, worker_entrypoint


@durable_object
class Echo(Agent):
    """Sends back what it gets."""

    initial_state: ClassVar[Any] = {"count": 0}

    @callable_method
    def echo(self, text: str) -> str:
        return text

    def on_message(self, connection: Connection, message: str | bytes) -> None:
        connection.send(message)


Default = worker_entrypoint()
