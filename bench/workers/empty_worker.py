"""The least Python Durable Object that answers a request and a WebSocket message."""

from __future__ import annotations

from typing import Any

import js
from workers import DurableObject, Response, WorkerEntrypoint


class Empty(DurableObject):
    """Answers, and remembers nothing."""

    async def fetch(self, request: Any) -> Any:
        """Answer, or accept a socket."""
        if request.headers.get("upgrade") == "websocket":
            client, server = js.WebSocketPair.new().object_values()
            self.ctx.acceptWebSocket(server)
            return Response(None, status=101, web_socket=client)
        return Response("ok")

    async def webSocketMessage(self, ws: Any, message: Any) -> None:
        """Send it back."""
        ws.send(message)


class Default(WorkerEntrypoint):
    """One object for every address; ``/heap`` tells the WebAssembly heap's size."""

    async def fetch(self, request: Any) -> Any:
        """Pass everything to the object."""
        if str(request.url).endswith("/heap"):
            from pyodide_js import _module

            return Response(str(_module.HEAP8.length))
        return await self.env.Empty.getByName("empty")._binding.fetch(request.js_object)
