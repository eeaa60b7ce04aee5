"""The least Python Durable Object that echoes over a hibernating WebSocket."""

from __future__ import annotations

from typing import Any

import js
from workers import DurableObject, Response, WorkerEntrypoint


class Echo(DurableObject):
    """Sends back what it gets."""

    async def fetch(self, request: Any) -> Any:
        """Accept a socket."""
        client, server = js.WebSocketPair.new().object_values()
        self.ctx.acceptWebSocket(server)
        return Response(None, status=101, web_socket=client)

    async def webSocketMessage(self, ws: Any, message: Any) -> None:
        """Send it back."""
        ws.send(message)


class Default(WorkerEntrypoint):
    """One object for every name at the end of the path."""

    async def fetch(self, request: Any) -> Any:
        """Pass a socket to its object."""
        name = str(request.url).rpartition("/")[2]
        if not name:
            return Response("ok")
        return await self.env.Echo.getByName(name)._binding.fetch(request.js_object)
