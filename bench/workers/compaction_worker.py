"""The Worker of ``scripts/bench compaction``: one session per object, driven by requests."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import text_message
from palimpsest.session.compacting.jobs import CompactionJobs
from palimpsest.session.session import Session

NEVER = 10**12
"""A threshold that is compared after every write and never reached."""

BACKLOG_THRESHOLD = 20_000
"""The threshold that is set on a conversation only once it is long."""


@durable_object
class Bench:
    """Answers ``?op=`` with JSON; ``times`` repeats it within one request."""

    def __init__(self, host: Any) -> None:
        self.host = host
        compact = create_compact_function(ExtractiveSummarizer(), tail_token_budget=1_000)
        self.watched = Session.create(host).on_compaction(compact).compact_after(NEVER)
        self.plain = Session.create(host)
        self.jobs = CompactionJobs.of(host)

    async def handle_start(self) -> None:
        """Nothing to do."""

    async def handle_alarm(self) -> None:
        """No alarm is due in this bench."""

    async def handle_request(self, request: HttpRequest) -> HttpResponse:
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.url).query).items()}
        times = int(query.get("times", "1"))
        start = int(query.get("start", "0"))
        sql = self.host.sql
        sql.counting = "rows" in query
        sql.rows_read = sql.rows_written = 0
        answer = await self._do(query.get("op", "nothing"), times, start)
        answer |= {"read": sql.rows_read, "written": sql.rows_written}
        return HttpResponse(body=json.dumps(answer))

    async def _do(self, operation: str, times: int, start: int) -> dict[str, Any]:
        if operation == "grow":
            numbers = range(start, start + times)
            await self.plain.append_messages([message(number) for number in numbers])
        elif operation == "trigger":
            for _ in range(times):
                self.watched.compactor.after_write()
        elif operation in ("append", "append-plain"):
            session = self.watched if operation == "append" else self.plain
            for number in range(start, start + times):
                await session.append_message(message(number))
        elif operation == "backlog":
            self.watched.compact_after(BACKLOG_THRESHOLD)
        elif operation == "step":
            # What the alarm does; the bench's own object leaves its alarms alone.
            await self.watched.compactor.run_job(self.jobs.remaining("") > 0)
            return {"remaining": self.jobs.remaining(""), "tokens": self.plain.context_tokens()}
        elif operation == "compact":
            outcome = await self.watched.compactor.request_compaction()
            return {"status": outcome.status, "after": outcome.tokens_after}
        return {"tokens": self.plain.context_tokens()}


def message(number: int) -> dict[str, Any]:
    """A message of about fifty tokens, like no other."""
    role = "user" if number % 2 == 0 else "assistant"
    text = (
        f"Note {number}: parcel PX-{number * 7919 % 100_003} went to dock {number % 40} at "
        f"{number % 24}:00, signed by clerk {number % 300}, and it weighed {number % 97} kilos. "
        "Nothing else was said about it at the time."
    )
    return text_message(f"m{number}", role, text)


Default = worker_entrypoint()
