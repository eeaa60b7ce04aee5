"""A Worker that is fed a conversation and asked what it remembers."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.chat.agent import ChatAgent
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.session.manager import SessionManager

THRESHOLD = 3_000
"""Tokens above which the conversation is compacted: small, so that it happens many times."""


@durable_object
class Remembering(ChatAgent):
    """One conversation, compacted by the alarm."""

    def configure_sessions(self, sessions: SessionManager) -> None:
        """Compact early."""
        sessions.compact_after(THRESHOLD)

    async def on_request(self, request: HttpRequest) -> HttpResponse:
        """``POST ?op=append`` messages; ``?op=overview``; ``?op=search&q=``; ``?op=originals``."""
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.url).query).items()}
        answer: Any = await getattr(self, f"_{query['op']}")(query, request)
        return HttpResponse(200, {"content-type": "application/json"}, json.dumps(answer))

    async def _append(self, query: dict[str, str], request: HttpRequest) -> int:
        for message in json.loads(request.body):
            await self.session().append_message(message)
        return await self.session().get_path_length()

    async def _overview(self, query: dict[str, str], request: HttpRequest) -> dict[str, Any]:
        session = self.session()
        overlays = await session.get_compactions()
        return {
            "tokens": session.context_tokens(),
            "overlays": [[overlay.from_message_id, overlay.to_message_id] for overlay in overlays],
            "context": [message["id"] for message in await session.get_history()],
            "connections": len(self.connections),
        }

    async def _search(self, query: dict[str, str], request: HttpRequest) -> list[str]:
        return [result.id for result in await self.session().search(query["q"], limit=10)]

    async def _originals(self, query: dict[str, str], request: HttpRequest) -> list[Any]:
        return await self.session().get_originals()


Default = worker_entrypoint()
