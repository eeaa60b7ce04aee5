"""The agent's HTTP endpoints, as the terminal client needs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from palimpsest.cli.address import AgentAddress
from palimpsest.errors import PalimpsestError

_TIMEOUT_SECONDS = 60.0
_TAIL = 20
"""Messages read to learn where the conversation stands."""


class EndpointError(PalimpsestError):
    """The agent refused a request or could not be reached; ``status`` is 0 when it was not."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def _text_of(error: HTTPError) -> str:
    try:
        told = json.loads(error.read())["error"]
        return told if isinstance(told, str) else str(told["message"])
    except (ValueError, KeyError, TypeError):
        return f"the agent answered with status {error.code}"


def _request(method: str, url: str, own: Mapping[str, str], body: object | None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = dict(own) if data is None else {**own, "content-type": "application/json"}
    request = Request(url, data=data, headers=headers, method=method)
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            content = response.read()
    except HTTPError as error:
        with error:
            raise EndpointError(_text_of(error), error.code) from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise EndpointError(f"the agent cannot be reached: {reason}") from error
    return json.loads(content) if content else None


class Endpoints:
    """Asks the agent at one address. Every method raises :class:`EndpointError`."""

    def __init__(self, address: AgentAddress) -> None:
        self.address = address

    async def _ask(
        self, method: str, path: str, body: object | None = None, **query: str | int
    ) -> Any:
        url = self.address.http(path, **query)
        return await asyncio.to_thread(_request, method, url, self.address.headers, body)

    async def latest_messages(self, limit: int = _TAIL) -> list[dict[str, Any]]:
        """The newest messages of the active path, oldest first."""
        answer = await self._ask("GET", "messages", limit=limit)
        return cast("list[dict[str, Any]]", answer["messages"])

    async def message(self, message_id: str) -> dict[str, Any] | None:
        """One stored message, or None if the agent does not have it."""
        try:
            answer = await self._ask("GET", f"messages/{quote(message_id, safe='')}")
        except EndpointError as error:
            if error.status == 404:
                return None
            raise
        return cast("dict[str, Any]", answer["message"])

    async def search(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Messages of all sessions that fit ``query``, best first."""
        answer = await self._ask("GET", "search", q=query, limit=limit, scope="all")
        return cast("list[dict[str, Any]]", answer["results"])

    async def memory(self) -> dict[str, Any]:
        """What the session remembers: tokens, timeline, overlays, context blocks, schedules."""
        return cast("dict[str, Any]", await self._ask("GET", "memory"))

    async def compact(self) -> dict[str, Any]:
        """Summarize older messages now."""
        return cast("dict[str, Any]", await self._ask("POST", "compact", {}))

    async def sessions(self) -> list[dict[str, Any]]:
        """The agent's sessions, newest first."""
        answer = await self._ask("GET", "sessions")
        return cast("list[dict[str, Any]]", answer["sessions"])

    async def create_session(self, name: str | None) -> dict[str, Any]:
        """A new session."""
        body = {"name": name} if name else {}
        return cast("dict[str, Any]", await self._ask("POST", "sessions", body))
