"""A session: one conversation, its tree of messages, its overlays, its context blocks.

Sessions document, in snake_case. Everything is kept in the agent's own database; nothing about the
tree is held in memory, so any number of ``Session`` objects over one host see the same. All SQL of
a call runs before its first ``await``: a call is atomic with respect to other tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Self, cast

from palimpsest.compaction.head_tail import CompactResult
from palimpsest.errors import InvalidMessageError
from palimpsest.messages import MAX_TIME_MS, Message, validate_message
from palimpsest.search.search import SearchResult, search_messages
from palimpsest.session.changes import UNSET, AppendResult, ChangeEvent, UnsetType
from palimpsest.session.compacting.jobs import CompactionJobs
from palimpsest.session.history import HistoryPage
from palimpsest.session.parts import SessionParts, check_session_id, stores_of
from palimpsest.session.provided.interface import check_provider
from palimpsest.store.reads import TARGET_BYTES
from palimpsest.store.rows import HistoryRowStat, RecentHistory, StoredCompaction

__all__ = [
    "UNSET",
    "AppendResult",
    "ChangeEvent",
    "HistoryPage",
    "HistoryRowStat",
    "RecentHistory",
    "SearchResult",
    "Session",
    "StoredCompaction",
    "UnsetType",
    "stores_of",
]


class Session(SessionParts):
    """One conversation. Made with :meth:`create`; the builder methods return the session itself.

    What is read of a session comes first here, then what changes it, then overlays; the builder
    and the context blocks are those of :class:`SessionParts`.
    """

    def __new__(cls, owner: Any, *arguments: Any, **options: Any) -> Self:
        """A :class:`~palimpsest.session.provided.session.ProviderSession` for a storage provider.

        :raises SessionProviderError: it is one, but lacks methods; the text lists them.
        """
        del arguments, options
        if cls is Session and check_provider(owner):
            # Imported here: it is a subclass, and most objects never need it.
            from palimpsest.session.provided.session import ProviderSession

            return object.__new__(cast("type[Self]", ProviderSession))
        return object.__new__(cls)

    @classmethod
    def create(cls, owner: Any) -> Self:
        """The default session (id '') of an agent or a host, or one over a storage provider.

        :param owner: an agent, a host, or a
            :class:`~palimpsest.session.provided.interface.SessionProvider`.
        :raises TypeError: ``owner`` is none of these.
        :raises SessionProviderError: it is a provider, but lacks methods; the text lists them.
        """
        return cls(owner)

    # -- reading ----------------------------------------------------------------------------

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """The path from the root to a message (default: the newest), overlays laid over it.

        Empty for an unknown id. Costs what it returns: messages under an overlay are not read.
        """
        return self._history.messages(leaf_id, overlays=True)

    async def get_originals(self, leaf_id: str | None = None) -> list[Message]:
        """The same path with its original messages, as if nothing had been compacted."""
        return self._history.messages(leaf_id, overlays=False)

    async def history(
        self,
        leaf_id: str | None = None,
        *,
        newest_first: bool = False,
        overlays: bool = True,
        max_batch_bytes: int = TARGET_BYTES,
    ) -> AsyncIterator[Message]:
        """A history message by message, never more than about ``max_batch_bytes`` in memory."""
        for chunk in self._history.chunks(
            leaf_id, overlays=overlays, newest_first=newest_first, target=max_batch_bytes
        ):
            for message in chunk:
                yield message

    def originals(self, leaf_id: str | None = None) -> AsyncIterator[Message]:
        """The original messages of a path, in bounded batches."""
        return self.history(leaf_id, overlays=False)

    async def get_recent_history(
        self,
        max_content_bytes: int,
        min_recent_messages: int = 1,
        leaf_id: str | None = None,
    ) -> RecentHistory:
        """The newest messages whose JSON fits in ``max_content_bytes``, overlays laid.

        At least ``min_recent_messages`` (at least one) are returned, however large.
        """
        return self._history.recent(leaf_id, max_content_bytes, max(1, int(min_recent_messages)))

    async def get_page(
        self, before: str | None = None, limit: int = 50, leaf_id: str | None = None
    ) -> HistoryPage:
        """A page of original messages: the last ``limit`` before ``before``, oldest first.

        :raises UnknownMessageError: ``before`` is not in this session.
        :raises InvalidMessageError: the limit is not positive.
        """
        if limit < 1:
            raise InvalidMessageError(f"limit must be positive, got {limit}")
        return self._history.page(leaf_id, before, limit)

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[HistoryRowStat]:
        """Id, role, bytes and tokens of each original message of a path, without content."""
        return self._history.stats(leaf_id)

    async def get_message(self, message_id: str) -> Message | None:
        """A message by its id, or None."""
        return self._history.one(message_id)

    async def get_latest_leaf(self) -> Message | None:
        """The newest message, which ends the active branch; None in an empty session."""
        return self._history.newest()

    async def get_branches(self, message_id: str) -> list[Message]:
        """The children of a message, in the order they were added."""
        return self._history.branches(message_id)

    async def get_roots(self) -> list[Message]:
        """The messages without a parent, in the order they were added."""
        return self._history.roots()

    async def get_siblings(self, leaf_id: str | None = None) -> dict[str, list[str]]:
        """For each message of a path that has siblings: the ids of all of them, in order."""
        return self._history.siblings(leaf_id)

    async def get_parent_id(self, message_id: str) -> str | None:
        """The id of a message's parent; None for a root.

        :raises UnknownMessageError: this session has no such message.
        """
        return self._history.parent_id(message_id)

    async def get_leaf_of(self, message_id: str) -> str:
        """The newest message of the branch below a message: what to show after switching to it.

        :raises UnknownMessageError: this session has no such message.
        """
        return self._history.leaf_of(message_id)

    async def is_on_path(self, message_id: str, leaf_id: str) -> bool:
        """Whether a message lies on the path that ends with ``leaf_id``; costs no more with length.

        :raises UnknownMessageError: this session has no such message.
        """
        return self._history.is_on_path(message_id, leaf_id)

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """How many original messages a path has; 0 for an unknown id."""
        return self._history.path_length(leaf_id)

    async def get_created_at(self, message_id: str) -> int | None:
        """When a message was stored, in ms since 1970; None for an unknown id."""
        row = self._history.row(message_id)
        return None if row is None else row.created_at

    def message_count(self) -> int:
        """How many messages the session holds, on all branches."""
        return self._history.count()

    def context_tokens(self) -> int:
        """Estimated tokens of the active path as rendered, and of the frozen system prompt."""
        return self.compaction_store.context_tokens()

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
        """Find messages of this session by words, the best first.

        Compacted messages are found too. ``query`` is plain text, never a syntax.

        :param role: only messages of this role, or of one of these.
        :param since: only messages stored at or after this time (ms since 1970).
        :param until: only messages stored before this time.
        :param leaf_id: only messages on the path to this one.
        :raises InvalidSearchError: a parameter has no meaning.
        :raises SearchError: the index failed.
        """
        path_rows = None if leaf_id is None else self._history.path_seqs(leaf_id)
        return search_messages(
            self.stores.index,
            query,
            session_id=self._id,
            limit=limit,
            role=role,
            since=since,
            until=until,
            path_rows=path_rows,
            clock=self.host.now,
        )

    def search_index_of_all(
        self,
        query: str,
        limit: int = 20,
        *,
        session_id: str | None = None,
        role: str | Sequence[str] | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> list[SearchResult]:
        """Find messages of all sessions of the object (see :meth:`search`)."""
        return search_messages(
            self.stores.index,
            query,
            session_id=session_id,
            limit=limit,
            role=role,
            since=since,
            until=until,
            clock=self.host.now,
        )

    # -- writing ----------------------------------------------------------------------------

    async def append_message(
        self, message: Any, parent_id: str | UnsetType | None = UNSET
    ) -> AppendResult:
        """Add a message: behind the newest one, below ``parent_id``, or as a new root (None).

        An id that exists already changes nothing and returns the stored message.

        :raises InvalidMessageError: it is no message, or its id is reserved (ReservedIdError).
        :raises UnknownParentError: this session has no such parent.
        :raises LimitError: it is too large.
        """
        # As little as may be besides the two rows: in Pyodide each call costs a hundredth of them.
        result = (self._writes or self._writer).append(validate_message(message), parent_id)
        if self._policy is not None or self._threshold is not None:
            (self._compactor or self.compactor).after_write()
        if self._changes.listeners:
            await self._tell("append", (result.message["id"],), result.message, result.inserted)
        return result

    async def append_messages(
        self, messages: Iterable[Any], parent_id: str | UnsetType | None = UNSET
    ) -> list[AppendResult]:
        """Add messages, each below the one before it, all or none.

        :raises InvalidMessageError: one of them is no message, or its id is reserved.
        :raises UnknownParentError: this session has no such parent.
        :raises LimitError: one of them is too large.
        """
        checked = [validate_message(message) for message in messages]
        results = self._writer.append_all(checked, parent_id)
        for result in results:
            await self._changed("append", (result.message["id"],), result.message, result.inserted)
        return results

    async def import_message(
        self,
        message: Any,
        *,
        parent_id: str | UnsetType | None = UNSET,
        created_at: int | None = None,
    ) -> AppendResult:
        """Add a message from elsewhere, with the time it was made (ms since 1970).

        :raises InvalidMessageError: it is no message, its id is reserved, or the time no time
            from 1970 to 9999.
        :raises UnknownParentError: this session has no such parent.
        :raises LimitError: it is too large.
        """
        if created_at is not None and (
            type(created_at) is not int or not 0 <= created_at <= MAX_TIME_MS
        ):
            raise InvalidMessageError(f"created_at is a time in ms, got {created_at!r:.50}")
        result = self._writer.append(validate_message(message), parent_id, created_at)
        await self._changed("import", (result.message["id"],), result.message, result.inserted)
        return result

    async def update_message(self, message: Any) -> Message | None:
        """Replace the message of the same id; None where there is none (nothing is written).

        :raises InvalidMessageError: it is no message, or its id is reserved.
        :raises LimitError: it is too large.
        """
        checked = validate_message(message)
        exists, changed = self._writer.update(checked)
        if changed:
            await self._changed("update", (checked["id"],), checked)
        return checked if exists else None

    async def upsert_message(
        self, message: Any, parent_id: str | UnsetType | None = UNSET
    ) -> AppendResult:
        """Replace the message of the same id, or add it.

        :raises InvalidMessageError: it is no message, or its id is reserved.
        :raises UnknownParentError: it is new and this session has no such parent.
        :raises LimitError: it is too large.
        """
        checked = validate_message(message)
        exists, changed = self._writer.update(checked)
        if not exists:
            return await self.append_message(checked, parent_id)
        if changed:
            await self._changed("update", (checked["id"],), checked)
        return AppendResult(False, checked)

    async def delete_messages(self, ids: Iterable[str]) -> list[str]:
        """Remove messages; their children move to their parents. Returns the ids that existed.

        Overlays keep covering what is left of their range. A deleted id may be added again: it is
        then a new message at its new place.
        """
        deleted = self._writer.delete(ids)
        if deleted:
            await self._changed("delete", deleted)
        return deleted

    async def forget(self, ids: Iterable[str], *, reason: str | None = None) -> list[str]:
        """Remove the content of messages for good; a marker keeps their place in the path.

        Rows, media and index lose the content; overlays that cover one of the messages become
        stale: they are no longer shown, their text is gone, and compaction summarizes anew.
        Returns the ids that existed.
        """
        forgotten, stale = self._writer.forget(ids, reason)
        if forgotten:
            await self._changed("forget", forgotten)
        _ = stale
        return forgotten

    async def clear_messages(self) -> None:
        """Remove all messages and overlays. Context blocks stay; the prompt is rendered anew."""

        def clear() -> None:
            self._writer.clear()
            self._forget_compactions()

        self.stores.sql.transaction(clear)
        self.context.clear_skills()
        await self.context.refresh()
        await self._changed("clear")

    def _forget_compactions(self) -> None:
        """Drop the compaction engine's rows and job of this session, in the same transaction."""
        CompactionJobs.of(self.host).forget(self._id)

    def delete_everything(self) -> None:
        """Remove messages, overlays, media, index rows, checkpoints and jobs of this session.

        Joins the caller's transaction. Context blocks are the manager's to remove.
        """

        def delete() -> None:
            self._writer.delete_session()
            self._forget_compactions()

        self.stores.sql.transaction(delete)

    def copy_path_to(self, new_session_id: str, at_message_id: str) -> None:
        """Copy the path to a message into an empty session: ids, times and overlays as they are.

        Joins the caller's transaction.

        :raises UnknownMessageError: this session has no such message.
        :raises InvalidMessageError: the other session holds messages already.
        """
        check_session_id(new_session_id)
        self._writer.copy_path(new_session_id, at_message_id)

    # -- overlays and compaction ------------------------------------------------------------

    async def compact(self, leaf_id: str | None = None) -> CompactResult | None:
        """Compact now, whatever the estimate says; None when nothing was compacted.

        A failure of the summarizer is reported to the error handler, and changes nothing.

        :raises CompactionError: no compaction was configured.
        """
        return await self.compactor.compact_now(leaf_id)

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Lay a summary over the messages from ``from_id`` to ``to_id`` of one path.

        :raises UnknownMessageError: an end does not exist.
        :raises CompactionRangeError: the ends are reversed or not on one path, or the summary is
            blank.
        """
        stored = self.compactor.add_overlay(summary, from_id, to_id)
        await self._changed("compaction", (stored.from_message_id, stored.to_message_id))
        return stored

    async def get_compactions(self) -> list[StoredCompaction]:
        """All overlays, the oldest first, those covered by newer ones and stale ones included."""
        return self._history.overlays()

    async def remove_compaction(self, compaction_id: str) -> bool:
        """Take an overlay away, so that what it covered is shown again; whether there was one."""
        removed = self.compaction_store.remove_overlay(compaction_id)
        if removed:
            await self._changed("compaction")
        return removed
