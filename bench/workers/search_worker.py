"""The Worker of ``scripts/bench search``: sessions in one object, driven by requests.

``POST ?op=append&session=ID`` takes a JSON array of messages, ``POST ?op=ask&session=ID&limit=N``
one of queries and answers with the ids found for each. ``POST ?op=append-each`` appends one by one,
with ``&single`` into one plain FTS5 index in the place of the project's.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import Message, text_of
from palimpsest.session.session import Session
from palimpsest.store.search_index import NO_RECORD, Entry, Record, SearchIndex
from palimpsest.store.search_reader import SESSION_SPAN
from palimpsest.store.search_text import IndexedMessage, IndexedText


class SingleIndex(SearchIndex):
    """One full-text index of the text and nothing else: what appending is compared with."""

    def entry(
        self, number: int, row: int, message: Message, created_at: int, record: Record = NO_RECORD
    ) -> Entry:
        """The text of a message, as it stands."""
        read = IndexedMessage([IndexedText(text_of(message), "", "", "")], "", None, 0, 0)
        doc, identifier = number * SESSION_SPAN + row, str(message["id"])
        role = str(message["role"])
        return Entry(doc, row, 0, identifier, role, created_at, created_at, read, record)

    def complete(self, entry: Entry) -> None:
        """There is nothing else."""


@durable_object
class Bench:
    """Answers ``?op=`` with JSON."""

    def __init__(self, host: Any) -> None:
        self.host = host

    async def handle_start(self) -> None:
        """Nothing to do."""

    async def handle_request(self, request: HttpRequest) -> HttpResponse:
        """Carry out one operation."""
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.url).query).items()}
        sent: list[Any] = json.loads(request.body or b"[]")
        session = Session.create(self.host).for_session(query.get("session", ""))
        answer: list[Any] = []
        operation = query.get("op", "empty")
        if operation == "append":
            await session.append_messages(sent)
        elif operation == "append-each":
            if "single" in query:
                setattr(session.stores.messages, "_index", SingleIndex(self.host.sql))  # noqa: B010
            for message in sent:
                await session.append_message(message)
        elif operation == "ask":
            for _ in range(int(query.get("times", "1"))):
                answer = [await self._ask(session, text, int(query["limit"])) for text in sent]
        return HttpResponse(body=json.dumps(answer))

    async def _ask(self, session: Session, text: str, limit: int) -> list[str]:
        return [result.id for result in await session.search(text, limit)]


Default = worker_entrypoint()
