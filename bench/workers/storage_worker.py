"""The Worker of ``scripts/bench storage``: one session per object, driven by requests.

The session is configured to compact, far above any size here: the estimate that decides whether to
compact is part of what an append costs.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import Message
from palimpsest.session.session import Session

_NEVER = 10**12
"""A threshold that is compared after every write and never reached."""


def heap_size() -> int:
    """Bytes of WebAssembly memory."""
    from pyodide_js import _module  # not at top level: a snapshot could not hold it

    return int(_module.HEAP8.length)


async def _summarize_nothing(messages: list[Message], context: Any = None) -> None:
    return None


@durable_object
class Bench:
    """Answers ``?op=`` with JSON; ``times`` repeats a read within one request."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.loaded: list[Message] = []
        self.session = Session.create(host).on_compaction(_summarize_nothing).compact_after(_NEVER)

    async def handle_start(self) -> None:
        """Nothing to do."""

    async def handle_request(self, request: HttpRequest) -> HttpResponse:
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.url).query).items()}
        sql = self.host.sql
        sql.counting = "rows" in query
        sql.rows_read = sql.rows_written = 0
        answer = await self._do(query, request.body)
        answer |= {"read": sql.rows_read, "written": sql.rows_written}
        return HttpResponse(body=json.dumps(answer))

    async def _do(self, query: dict[str, str], body: bytes) -> dict[str, Any]:
        session = self.session
        operation, times = query.get("op", "empty"), int(query.get("times", "1"))
        count = 0
        if operation == "load":
            self.loaded = json.loads(body)
        elif operation in ("append", "fill"):
            for message in self.loaded:
                await session.append_message(message)
            count, self.loaded = len(self.loaded), []
        elif operation == "overlay":
            stored = await session.add_compaction(
                "Summary of the earlier notes.", query["from"], query["to"]
            )
            count = len(stored.summary)
        elif operation == "heap":
            count = heap_size()
        elif operation == "scan":
            async for _message in session.history(overlays=False):
                count += 1
        for _ in range(times):
            if operation == "history":
                count = len(await session.get_history())
            elif operation == "recent":
                count = len((await session.get_recent_history(int(query["bytes"]))).messages)
            elif operation == "search":
                count = len(await session.search(query["q"]))
        return {"count": count}


Default = worker_entrypoint()
