"""A support desk: one agent for a customer, one session for each case.

Every case has its own notes, all cases can be searched by the model and by people, a case can be
forked to try another way, and what each has cost is counted.
"""

from typing import Any

from palimpsest import ChatAgent, SessionManager, callable_method
from palimpsest.hosts.workers import durable_object, worker_entrypoint

GUIDE = "Answer customers of a bicycle shop. Look at earlier cases before you ask again."


class Guide:
    """Text that stands in every prompt and that the model cannot change."""

    def get(self) -> str:
        """The text."""
        return GUIDE


@durable_object
class Desk(ChatAgent):
    """The cases of one customer."""

    def configure_sessions(self, sessions: SessionManager) -> None:
        """What each case's prompt holds, and when it is summarized."""
        sessions.with_context("guide", provider=Guide())
        sessions.with_context("case", description="Facts of this case.", max_tokens=600)
        sessions.with_searchable_history("cases")
        sessions.with_cached_prompt()
        sessions.compact_after(12_000)

    @callable_method
    async def open_case(self, title: str) -> str:
        """Begin a case; clients then connect with ``?session=`` and this id."""
        return (await self.sessions.create(title, source="desk")).id

    @callable_method
    async def cases(self) -> list[dict[str, Any]]:
        """All cases, the one used last first, with what they have cost so far."""
        return [
            {
                "id": info.id,
                "title": info.name,
                "parent": info.parent_session_id,
                "inputTokens": info.input_tokens,
                "outputTokens": info.output_tokens,
            }
            for info in await self.sessions.list()
        ]

    @callable_method
    async def find(self, question: str) -> list[dict[str, str]]:
        """Where something was said, in any case, also what was summarized since."""
        results = await self.sessions.search(question, limit=5)
        return [{"case": hit.session_id, "message": hit.id, "text": hit.snippet} for hit in results]

    @callable_method
    async def try_another_way(self, case: str, message: str, title: str) -> str:
        """A new case with the history up to a message; the old one stays as it is."""
        return (await self.sessions.fork(case, message, title)).id

    @callable_method
    async def notes(self, case: str, text: str | None = None) -> str:
        """Read a case's notes, or replace them."""
        session = self.session(case)
        if text is not None:
            await session.replace_context_block("case", text)
        block = await session.get_context_block("case")
        return "" if block is None else block.content


Default = worker_entrypoint(cors=True)
