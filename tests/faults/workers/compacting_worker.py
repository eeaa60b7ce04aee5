"""A Worker whose summarizer can be told to hang, so that a test may kill it in the middle."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.actor.agent import Agent
from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import text_message, text_of
from palimpsest.session.session import Session

THRESHOLD = 400


def box(number: int) -> dict[str, Any]:
    """A message like no other."""
    role = "user" if number % 2 == 0 else "assistant"
    text = f"Box {number} has the code BX-{1000 + number} and stands in a room."
    return text_message(f"m{number}", role, text)


@durable_object
class Compacting(Agent):
    """One session; ``mode`` in the key ``mode`` of its table tells how the summarizer behaves."""

    async def on_start(self) -> None:
        """Make the session."""
        self.host.sql.execute("create table if not exists test_mode (mode text, asked integer)")
        compact = create_compact_function(self.summarize, tail_token_budget=100)
        self.session = Session.create(self).on_compaction(compact).compact_after(THRESHOLD)

    async def summarize(self, prompt: str) -> str:
        """Hang, or answer, at once or slowly."""
        self.host.sql.execute("update test_mode set asked = asked + 1")
        mode = self.host.sql.execute("select mode from test_mode")[0][0]
        if mode == "hang":
            await asyncio.sleep(60)
        if mode == "slow":
            await asyncio.sleep(0.5)
        return "## Topic\nboxes"

    async def on_request(self, request: HttpRequest) -> HttpResponse:
        """``?op=fill``, ``?op=mode&mode=`` and ``?op=state``."""
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.url).query).items()}
        if query["op"] == "mode":
            asked = self.host.sql.execute("select max(asked) from test_mode")[0][0]
            self.host.sql.execute("delete from test_mode")
            self.host.sql.execute("insert into test_mode values (?, ?)", query["mode"], asked or 0)
        if query["op"] == "fill":
            start = int(query["start"])
            for number in range(start, start + 40):
                await self.session.append_message(box(number))
        if query["op"] == "import":
            await self.session.append_messages([box(number) for number in range(int(query["n"]))])
            return HttpResponse(body="{}")
        return HttpResponse(body=json.dumps(await self.everything()))

    async def everything(self) -> dict[str, Any]:
        """Everything the test looks at."""
        status = self.session.compactor.status()
        overlays = await self.session.get_compactions()
        history = await self.session.get_history()
        rows = self.host.sql.execute("select mode, asked from test_mode")
        return {
            "originals": [message["id"] for message in await self.session.get_originals()],
            "history": [message["id"] for message in history],
            "text": "\n".join(text_of(message) for message in history),
            "overlays": len(overlays),
            "ends": [overlay.to_message_id for overlay in overlays],
            "failures": status.failures,
            "asked": rows[0][1] if rows else 0,
            "phase": self.session.compactor.phase,
            "tokens": self.session.context_tokens(),
        }


Default = worker_entrypoint()
