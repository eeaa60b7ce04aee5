"""A chat agent whose model sends as many text deltas as the request asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from palimpsest.chat.agent import ChatAgent
from palimpsest.chat.turns import Turn
from palimpsest.hosts.workers import durable_object, worker_entrypoint


class Streaming(ChatAgent):
    """Streams ``chunks`` deltas of ``size`` characters."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[dict[str, Any]]:
        delta = "x" * (int(turn.body["size"]) - 1) + " "
        yield {"type": "start"}
        yield {"type": "text-start", "id": "t"}
        for _ in range(int(turn.body["chunks"])):
            yield {"type": "text-delta", "id": "t", "delta": delta}
        yield {"type": "text-end", "id": "t"}
        yield {"type": "finish"}


@durable_object
class Chat(Streaming):
    """As a user would have it."""


@durable_object
class Plain(Streaming):
    """The same with a frame for each delta."""

    gather_deltas = False


Default = worker_entrypoint()
