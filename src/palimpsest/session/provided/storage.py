"""A storage provider as a session uses it: awaited, checked, its optional methods made up for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from palimpsest.errors import SessionProviderError
from palimpsest.messages import COMPACTION_PREFIX, Message, is_compaction_message
from palimpsest.search.query import parse_query
from palimpsest.search.search import SearchResult
from palimpsest.session.changes import UnsetType
from palimpsest.session.provided.values import (
    json_bytes,
    read_compaction,
    read_list,
    read_message,
    read_messages,
    read_recent,
    read_results,
    read_stat,
    stat_of,
)
from palimpsest.session.providers import resolve
from palimpsest.store.rows import HistoryRowStat, RecentHistory, StoredCompaction


class ProviderStorage:
    """One conversation in somebody else's storage."""

    def __init__(self, provider: Any, log: Callable[[dict[str, Any]], None]) -> None:
        self.provider = provider
        self._log = log
        self._tells_insertion = False
        self._warned = False

    def optional(self, name: str) -> Callable[..., Any] | None:
        """A method that a provider need not have."""
        found = getattr(self.provider, name, None)
        return found if callable(found) else None

    # -- reading ----------------------------------------------------------------------------

    async def message(self, message_id: str) -> Message | None:
        """A stored message, or None."""
        found = await resolve(self.provider.get_message(message_id))
        return None if found is None else read_message(found, "get_message")

    async def history(self, leaf_id: str | None) -> list[Message]:
        """A path with overlays laid."""
        found = await resolve(self.provider.get_history(leaf_id or None))
        return read_messages(found, "get_history")

    async def latest_leaf(self) -> Message | None:
        """The newest message, or None."""
        found = await resolve(self.provider.get_latest_leaf())
        return None if found is None else read_message(found, "get_latest_leaf")

    async def branches(self, message_id: str) -> list[Message]:
        """The children of a message."""
        found = await resolve(self.provider.get_branches(message_id))
        return read_messages(found, "get_branches")

    async def path_length(self, leaf_id: str | None) -> int:
        """The number of original messages on a path."""
        return int(await resolve(self.provider.get_path_length(leaf_id or None)))

    async def compactions(self) -> list[StoredCompaction]:
        """All overlays, the oldest first."""
        found = await resolve(self.provider.get_compactions())
        return [
            read_compaction(item, "get_compactions") for item in read_list(found, "get_compactions")
        ]

    async def recent(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: int
    ) -> RecentHistory:
        """The newest messages within a budget; the whole history where there is no such read."""
        method = self.optional("get_recent_history")
        if method is not None:
            found = await resolve(method(leaf_id or None, max_content_bytes, min_recent_messages))
            return read_recent(found, "get_recent_history")
        if not self._warned:
            self._warned = True
            provider = type(self.provider).__name__
            self._log({"event": "session.provider_reads_everything", "provider": provider})
        messages = await self.history(leaf_id)
        return RecentHistory(messages, False, sum(json_bytes(message) for message in messages))

    async def stats(self, leaf_id: str | None) -> list[HistoryRowStat]:
        """The sizes of a path's original messages."""
        method = self.optional("get_history_row_stats")
        if method is None:
            return [stat_of(message) for message in await self.originals(leaf_id)]
        found = read_list(await resolve(method(leaf_id or None)), "get_history_row_stats")
        return [read_stat(item, "get_history_row_stats") for item in found]

    async def search(self, query: str, limit: int, session_id: str) -> list[SearchResult]:
        """What the provider finds.

        :raises SessionProviderError: it does not search.
        """
        method = self.optional("search_messages")
        if method is None:
            raise SessionProviderError("Session provider does not support search")
        parsed = parse_query(query)
        words = [word for term in parsed.terms for word in term.shown] if parsed else []
        found = await resolve(method(query, limit))
        return read_results(found, "search_messages", words, session_id)

    async def originals(self, leaf_id: str | None) -> list[Message]:
        """A path without overlays."""
        method = self.optional("get_originals")
        if method is not None:
            return read_messages(await resolve(method(leaf_id or None)), "get_originals")
        shown = await self.history(leaf_id)
        if not any(is_compaction_message(message) for message in shown):
            return shown
        overlays = {COMPACTION_PREFIX + one.id: one for one in await self.compactions()}
        messages: list[Message] = []
        for message in shown:
            if is_compaction_message(message):
                messages += await self.covered(overlays.get(message["id"]))
            else:
                messages.append(message)
        return messages

    async def covered(self, overlay: StoredCompaction | None) -> list[Message]:
        """The messages under an overlay, found by going down from its first to its last.

        :raises SessionProviderError: there is no such overlay, or no way between its ends.
        """
        if overlay is None:
            raise SessionProviderError("get_compactions() lacks an overlay that is shown")
        first = await self.message(overlay.from_message_id)
        # Depth first, the newest child first: the active branch is the likeliest way.
        waiting = [] if first is None else [(0, first)]
        way: list[Message] = []
        while waiting:
            depth, message = waiting.pop()
            way[depth:] = [message]
            if message["id"] == overlay.to_message_id:
                return way
            waiting += [(depth + 1, child) for child in await self.branches(message["id"])]
        raise SessionProviderError(
            f"overlay {overlay.id!r} covers no path from {overlay.from_message_id!r} to "
            f"{overlay.to_message_id!r}"
        )

    # -- writing ----------------------------------------------------------------------------

    async def append(
        self, message: Message, parent_id: str | UnsetType | None
    ) -> tuple[bool, Message]:
        """Add a message: whether it was new, and the one that is stored now."""
        if not self._tells_insertion:
            stored = await self.message(message["id"])
            if stored is not None:
                return False, stored
        inserted: object = await resolve(self.provider.append_message(message, parent_id))
        self._tells_insertion = isinstance(inserted, bool)
        if inserted is False:
            stored = await self.message(message["id"])
            return False, message if stored is None else stored
        return True, message

    async def update(self, message: Message) -> None:
        """Replace a message."""
        await resolve(self.provider.update_message(message))

    async def delete(self, ids: list[str]) -> None:
        """Remove messages."""
        await resolve(self.provider.delete_messages(ids))

    async def clear(self) -> None:
        """Remove everything."""
        await resolve(self.provider.clear_messages())

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Store an overlay.

        :raises SessionProviderError: the provider does not list it afterwards.
        """
        answer: object = await resolve(self.provider.add_compaction(summary, from_id, to_id))
        if answer is not None:
            return read_compaction(answer, "add_compaction")
        for stored in reversed(await self.compactions()):
            ends = (stored.from_message_id, stored.to_message_id)
            if ends == (from_id, to_id) and stored.summary == summary:
                return stored
        raise SessionProviderError("get_compactions() lacks the overlay that was just added")

    async def remove_compaction(self, compaction_id: str) -> bool:
        """Delete an overlay; whether there was one.

        :raises SessionProviderError: the provider cannot.
        """
        method = self.optional("remove_compaction")
        if method is None:
            raise SessionProviderError("Session provider does not support removing compactions")
        return bool(await resolve(cast("Any", method)(compaction_id)))
