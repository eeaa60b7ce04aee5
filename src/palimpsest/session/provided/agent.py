"""The agent's own storage as a provider: what a session over other storage is measured by."""

from __future__ import annotations

from typing import Any

from palimpsest.messages import Message
from palimpsest.search.search import SearchResult
from palimpsest.session.changes import UnsetType
from palimpsest.session.session import Session
from palimpsest.store.rows import HistoryRowStat, RecentHistory, StoredCompaction


class AgentSessionProvider:
    """A :class:`~palimpsest.session.provided.interface.SessionProvider` over an agent's database.

    ``Session.create(agent)`` is the shorter way, and the faster one. The provider is for code that
    takes any provider: a cache or a mirror around it, a copy from one storage to another.

    :param owner: an agent or a host.
    :param session_id: the session whose rows these are.
    """

    def __init__(self, owner: Any, session_id: str = "") -> None:
        self._owner = owner
        self._session = Session(owner).for_session(session_id)

    def for_session(self, session_id: str) -> AgentSessionProvider:
        """The provider of another session of the same agent."""
        return AgentSessionProvider(self._owner, session_id)

    async def get_message(self, message_id: str) -> Message | None:
        """A message by its id, or None."""
        return await self._session.get_message(message_id)

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """The path to a message, overlays laid."""
        return await self._session.get_history(leaf_id)

    async def get_originals(self, leaf_id: str | None = None) -> list[Message]:
        """The path to a message, without overlays."""
        return await self._session.get_originals(leaf_id)

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: int = 1
    ) -> RecentHistory:
        """The newest messages of a path within a budget of bytes."""
        return await self._session.get_recent_history(
            max_content_bytes, min_recent_messages, leaf_id
        )

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[HistoryRowStat]:
        """The sizes of a path's messages."""
        return await self._session.get_history_row_stats(leaf_id)

    async def get_latest_leaf(self) -> Message | None:
        """The newest message, or None."""
        return await self._session.get_latest_leaf()

    async def get_branches(self, message_id: str) -> list[Message]:
        """The children of a message."""
        return await self._session.get_branches(message_id)

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """How many messages a path has."""
        return await self._session.get_path_length(leaf_id)

    async def append_message(self, message: Message, parent_id: str | UnsetType | None) -> bool:
        """Add a message; whether it was new.

        :raises UnknownParentError: there is no such parent.
        """
        return (await self._session.append_message(message, parent_id)).inserted

    async def update_message(self, message: Message) -> None:
        """Replace the message of the same id."""
        await self._session.update_message(message)

    async def delete_messages(self, ids: list[str]) -> None:
        """Remove messages."""
        await self._session.delete_messages(ids)

    async def clear_messages(self) -> None:
        """Remove all messages and overlays."""
        await self._session.clear_messages()

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Store an overlay."""
        return await self._session.add_compaction(summary, from_id, to_id)

    async def get_compactions(self) -> list[StoredCompaction]:
        """All overlays, the oldest first."""
        return await self._session.get_compactions()

    async def remove_compaction(self, compaction_id: str) -> bool:
        """Delete an overlay; whether there was one."""
        return await self._session.remove_compaction(compaction_id)

    async def search_messages(self, query: str, limit: int = 20) -> list[SearchResult]:
        """The messages that answer a query, the best first."""
        return await self._session.search(query, limit)
