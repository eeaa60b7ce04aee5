"""A session over a storage provider (Sessions document, "Custom providers").

It needs no agent, no host and no database: any process that can run the provider can have one.
What a session does besides storing is done here: checking messages, context blocks and their
frozen prompt, tools, compaction, change events. Writes of one session object run one after the
other.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NoReturn

from palimpsest.compaction.head_tail import CompactResult
from palimpsest.errors import (
    InvalidMessageError,
    InvalidSearchError,
    SessionProviderError,
    UnknownMessageError,
    UnknownParentError,
)
from palimpsest.messages import COMPACTION_PREFIX, Message, validate_message
from palimpsest.search.search import MAX_LIMIT, SearchResult
from palimpsest.session.changes import UNSET, AppendResult, UnsetType
from palimpsest.session.history import HistoryPage
from palimpsest.session.provided.parts import ProviderParts
from palimpsest.session.provided.values import milliseconds
from palimpsest.session.writing import forgotten_message
from palimpsest.store.encoding import encode_message
from palimpsest.store.reads import TARGET_BYTES
from palimpsest.store.rows import HistoryRowStat, RecentHistory, StoredCompaction


class ProviderSession(ProviderParts):
    """One conversation in somebody else's storage; made by ``Session.create(provider)``.

    Every method of :class:`Session` that is async works, or raises :class:`SessionProviderError`
    where the provider lacks what it needs. Those that answer without being awaited
    (``message_count``, ``context_tokens``, ...) need the agent's own database and raise it always.
    """

    # -- reading ----------------------------------------------------------------------------

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """The path from the root to a message (default: the newest), overlays laid over it."""
        return await self._storage.history(leaf_id)

    async def get_originals(self, leaf_id: str | None = None) -> list[Message]:
        """The same path with its original messages.

        A provider without ``get_originals`` is asked for the messages under overlays one by one.
        """
        return await self._storage.originals(leaf_id)

    async def history(
        self,
        leaf_id: str | None = None,
        *,
        newest_first: bool = False,
        overlays: bool = True,
        max_batch_bytes: int = TARGET_BYTES,
    ) -> AsyncIterator[Message]:
        """A history message by message; the provider gives it as a whole."""
        del max_batch_bytes
        read = self._storage.history if overlays else self._storage.originals
        messages = await read(leaf_id)
        for message in reversed(messages) if newest_first else messages:
            yield message

    async def get_recent_history(
        self,
        max_content_bytes: int,
        min_recent_messages: int = 1,
        leaf_id: str | None = None,
    ) -> RecentHistory:
        """The newest messages whose JSON fits in ``max_content_bytes``, overlays laid.

        Without a ``get_recent_history`` of the provider everything is read and ``truncated`` is
        False.
        """
        least = max(1, int(min_recent_messages))
        return await self._storage.recent(leaf_id, max_content_bytes, least)

    async def get_page(
        self, before: str | None = None, limit: int = 50, leaf_id: str | None = None
    ) -> HistoryPage:
        """A page of original messages: the last ``limit`` before ``before``, oldest first.

        :raises UnknownMessageError: ``before`` is not in this session.
        :raises InvalidMessageError: the limit is not positive.
        """
        if limit < 1:
            raise InvalidMessageError(f"limit must be positive, got {limit}")
        if before is not None:
            messages = (await self._path(before))[:-1]
        else:
            messages = await self._storage.originals(leaf_id)
        return HistoryPage(messages[-limit:], len(messages) > limit)

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[HistoryRowStat]:
        """Id, role, bytes and tokens of each original message of a path, without content."""
        return await self._storage.stats(leaf_id)

    async def get_message(self, message_id: str) -> Message | None:
        """A message by its id, or None."""
        return await self._storage.message(message_id)

    async def get_latest_leaf(self) -> Message | None:
        """The newest message; None in an empty session."""
        return await self._storage.latest_leaf()

    async def get_branches(self, message_id: str) -> list[Message]:
        """The children of a message, in the order they were added."""
        return await self._storage.branches(message_id)

    async def get_roots(self) -> list[Message]:
        """Not known to a provider.

        :raises SessionProviderError: always.
        """
        self._refuse("listing roots")

    async def get_siblings(self, leaf_id: str | None = None) -> dict[str, list[str]]:
        """For each message of a path that has siblings: the ids of all of them, in order.

        The siblings of a root are not known to a provider. Costs one call for each message.
        """
        listed: dict[str, list[str]] = {}
        path = await self._storage.originals(leaf_id)
        for parent, child in itertools.pairwise(path):
            children = [one["id"] for one in await self._storage.branches(parent["id"])]
            if len(children) > 1:
                listed[child["id"]] = children
        return listed

    async def get_parent_id(self, message_id: str) -> str | None:
        """The id of a message's parent; None for a root.

        :raises UnknownMessageError: this session has no such message.
        """
        path = await self._path(message_id)
        return path[-2]["id"] if len(path) > 1 else None

    async def get_leaf_of(self, message_id: str) -> str:
        """The newest message of the branch below a message.

        Where the branch forks again and is not the active one, that is the end of its newest
        children.

        :raises UnknownMessageError: this session has no such message.
        """
        newest = await self._storage.latest_leaf()
        if newest is not None and await self.is_on_path(message_id, newest["id"]):
            return newest["id"]
        leaf = message_id
        while children := await self._storage.branches(leaf):
            leaf = children[-1]["id"]
        return leaf

    async def is_on_path(self, message_id: str, leaf_id: str) -> bool:
        """Whether a message lies on the path that ends with ``leaf_id``.

        :raises UnknownMessageError: this session has no such message.
        """
        if await self._storage.message(message_id) is None:
            self._unknown(message_id)
        path = await self._storage.originals(leaf_id)
        return any(message["id"] == message_id for message in path)

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """How many original messages a path has; 0 for an unknown id."""
        return await self._storage.path_length(leaf_id)

    async def get_created_at(self, message_id: str) -> int | None:
        """The time in a message's ``createdAt`` in ms since 1970; None where it has none."""
        message = await self._storage.message(message_id)
        return None if message is None else milliseconds(message.get("createdAt"))

    async def search(
        self,
        query: str,
        limit: int = 20,
        *,
        role: str | Sequence[str] | None = None,
        since: int | None = None,
        until: int | None = None,
        leaf_id: str | None = None,
    ) -> list[SearchResult]:
        """Find messages of this session by words, as the provider ranks them.

        :raises SessionProviderError: the provider does not search, or is asked for a role, a time
            or a branch.
        :raises InvalidSearchError: the query is no text, or the limit not from 1 to 1000.
        """
        if any(chosen is not None for chosen in (role, since, until, leaf_id)):
            self._refuse("searching by role, time or branch")
        if type(query) is not str:  # type: ignore[reportUnnecessaryComparison] - callers differ
            raise InvalidSearchError(f"a query is text, got {type(query).__name__}")
        if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
            raise InvalidSearchError(f"limit must be from 1 to {MAX_LIMIT}, got {limit!r}")
        return await self._storage.search(query, limit, self._id)

    async def _path(self, message_id: str) -> list[Message]:
        path = await self._storage.originals(message_id)
        if not path:
            self._unknown(message_id)
        return path

    def _unknown(self, message_id: str) -> NoReturn:
        raise UnknownMessageError(f"message {message_id!r} is not in session {self._id!r}")

    def _refuse(self, what: str) -> NoReturn:
        raise SessionProviderError(f"Session provider does not support {what}")

    # -- writing ----------------------------------------------------------------------------

    async def append_message(
        self, message: Any, parent_id: str | UnsetType | None = UNSET
    ) -> AppendResult:
        """Add a message: behind the newest one, below ``parent_id``, or as a new root (None).

        An id that exists already changes nothing and returns the stored message. A compaction that
        is due runs before this returns; whether it succeeds does not matter to the append.

        :raises InvalidMessageError: it is no message, or its id is reserved (ReservedIdError).
        :raises UnknownParentError: this session has no such parent.
        :raises LimitError: it is too large.
        """
        return (await self.append_messages([message], parent_id))[0]

    async def append_messages(
        self, messages: Iterable[Any], parent_id: str | UnsetType | None = UNSET
    ) -> list[AppendResult]:
        """Add messages, each below the one before it, one call of the provider for each.

        All are checked before the first is added. If the provider fails at one, those before it
        are stored, and adding the same list again adds the rest.

        :raises InvalidMessageError: one of them is no message, or its id is reserved.
        :raises UnknownParentError: this session has no such parent.
        :raises LimitError: one of them is too large.
        """
        checked = [_checked(message) for message in messages]
        results: list[AppendResult] = []
        try:
            async with self._write_lock:
                await self._append_all(checked, parent_id, results)
        finally:
            for result in results:
                await self._tell("append", (result.message["id"],), result.message, result.inserted)
        new = [result.message for result in results if result.inserted]
        if self._compacts and new:
            behind = isinstance(parent_id, UnsetType) and len(new) == len(results)
            await self._compacting.after_append(new, behind_newest=behind)
        return results

    async def _append_all(
        self,
        messages: list[Message],
        parent_id: str | UnsetType | None,
        results: list[AppendResult],
    ) -> None:
        # A message that is there already asks for no parent.
        if (
            messages
            and isinstance(parent_id, str)
            and await self._storage.message(parent_id) is None
            and await self._storage.message(messages[0]["id"]) is None
        ):
            raise UnknownParentError(f"parent {parent_id!r} is not in session {self._id!r}")
        parent = parent_id
        for message in messages:
            inserted, stored = await self._storage.append(message, parent)
            results.append(AppendResult(inserted, stored))
            # A duplicate is no place to go on from unless it is the newest message.
            if not (inserted and isinstance(parent, UnsetType)):
                parent = message["id"]

    async def import_message(
        self,
        message: Any,
        *,
        parent_id: str | UnsetType | None = UNSET,
        created_at: int | None = None,
    ) -> AppendResult:
        """Add a message from elsewhere; a provider takes no time with it.

        :raises SessionProviderError: a time is given.
        :raises InvalidMessageError: it is no message, or its id is reserved.
        :raises UnknownParentError: this session has no such parent.
        :raises LimitError: it is too large.
        """
        if created_at is not None:
            self._refuse("importing with a time; put createdAt into the message")
        checked = _checked(message)
        results: list[AppendResult] = []
        async with self._write_lock:
            await self._append_all([checked], parent_id, results)
        self._compacting.forget_estimate()
        result = results[0]
        await self._tell("import", (checked["id"],), result.message, result.inserted)
        return result

    async def update_message(self, message: Any) -> Message | None:
        """Replace the message of the same id; None where there is none (nothing is written).

        :raises InvalidMessageError: it is no message, or its id is reserved.
        :raises LimitError: it is too large.
        """
        checked = _checked(message)
        async with self._write_lock:
            stored = await self._storage.message(checked["id"])
            if stored is None:
                return None
            if stored == checked:
                return checked
            await self._storage.update(checked)
        self._compacting.forget_estimate()
        await self._tell("update", (checked["id"],), checked, False)
        return checked

    async def upsert_message(
        self, message: Any, parent_id: str | UnsetType | None = UNSET
    ) -> AppendResult:
        """Replace the message of the same id, or add it.

        :raises InvalidMessageError: it is no message, or its id is reserved.
        :raises UnknownParentError: it is new and this session has no such parent.
        :raises LimitError: it is too large.
        """
        stored = await self.update_message(message)
        if stored is None:
            return await self.append_message(message, parent_id)
        return AppendResult(False, stored)

    async def delete_messages(self, ids: Iterable[str]) -> list[str]:
        """Remove messages; their children move to their parents. Returns the ids that existed."""
        async with self._write_lock:
            there = [
                one for one in dict.fromkeys(ids) if await self._storage.message(one) is not None
            ]
            if there:
                await self._storage.delete(there)
        if there:
            self._compacting.forget_estimate()
            await self._tell("delete", there, None, False)
        return there

    async def forget(self, ids: Iterable[str], *, reason: str | None = None) -> list[str]:
        """Remove the content of messages for good; a marker keeps their place in the path.

        Overlays that cover one of the messages are removed, so compaction summarizes anew.
        Returns the ids that existed.

        :raises SessionProviderError: overlays cover one, and the provider cannot remove them.
        """
        async with self._write_lock:
            wanted = dict.fromkeys(ids)
            found = [await self._storage.message(one) for one in wanted]
            there = [message for message in found if message is not None]
            forgotten = [message["id"] for message in there]
            for overlay in await self._storage.compactions() if there else []:
                if await self._covers(overlay, forgotten):
                    await self._storage.remove_compaction(overlay.id)
            now = self.host.now()
            for message in there:
                marker = forgotten_message(message["id"], message["role"], now, reason)
                await self._storage.update(marker)
        if forgotten:
            self._compacting.forget_estimate()
            await self._tell("forget", forgotten, None, False)
        return forgotten

    async def _covers(self, overlay: StoredCompaction, ids: Iterable[str]) -> bool:
        """Whether a summary may tell of one of the messages; also if its ends are gone."""
        for end in (overlay.from_message_id, overlay.to_message_id):
            if await self._storage.message(end) is None:
                return True
        covered = {message["id"] for message in await self._storage.covered(overlay)}
        return not covered.isdisjoint(ids)

    async def clear_messages(self) -> None:
        """Remove all messages and overlays. Context blocks stay; the prompt is rendered anew."""
        async with self._write_lock:
            await self._storage.clear()
        self._compacting.forget_estimate()
        self.context.clear_skills()
        await self.context.refresh()
        await self._tell("clear", (), None, False)

    # -- overlays and compaction ------------------------------------------------------------

    async def compact(self, leaf_id: str | None = None) -> CompactResult | None:
        """Compact now, whatever the estimate says; None when nothing was compacted.

        A failure of the summarizer is reported to the error handler, and changes nothing.

        :raises CompactionError: no compaction was configured.
        """
        return await self._compacting.compact(leaf_id)

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Lay a summary over the messages from ``from_id`` to ``to_id`` of one path.

        :raises UnknownMessageError: an end does not exist.
        :raises CompactionRangeError: the ends are reversed or not on one path, or the summary is
            blank.
        """
        stored = await self._compacting.add_overlay(summary, from_id, to_id)
        ends = (stored.from_message_id, stored.to_message_id)
        await self._tell("compaction", ends, None, False)
        return stored

    async def get_compactions(self) -> list[StoredCompaction]:
        """All overlays, the oldest first, those covered by newer ones included."""
        return await self._storage.compactions()

    async def remove_compaction(self, compaction_id: str) -> bool:
        """Take an overlay away, so that what it covered is shown again; whether there was one.

        :raises SessionProviderError: the provider cannot.
        """
        removed = await self._storage.remove_compaction(
            compaction_id.removeprefix(COMPACTION_PREFIX)
        )
        if removed:
            self._compacting.forget_estimate()
            await self._tell("compaction", (), None, False)
        return removed


def _checked(message: Any) -> Message:
    """A message that any storage of a session would take."""
    return encode_message(validate_message(message)).message
