"""Compaction of a session over a storage provider.

There is no alarm that could run it between turns, so it runs where the caller waits: behind the
append that passes the threshold, when the message is stored already. Whatever goes wrong is told
to the error handler, and never to the one who appended. One compaction runs at a time; an append
that meets one does not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from palimpsest.compaction.head_tail import CompactResult
from palimpsest.compaction.policy import CompactionPolicy
from palimpsest.errors import CompactionError, CompactionRangeError, UnknownMessageError
from palimpsest.messages import Message
from palimpsest.session.compacting.attempts import FAILURES_BEFORE_FALLBACK, MAX_CONFLICTS
from palimpsest.session.compacting.compactor import STEPS_AT_ONCE
from palimpsest.session.compacting.manual_overlays import overlay_ends, overlay_text
from palimpsest.session.compacting.news import CompactionNews, ErrorHandler
from palimpsest.session.compacting.outcomes import TokenCountInput
from palimpsest.session.compacting.run import (
    CompactionRun,
    CustomFunction,
    PathChanged,
    count_with,
    policy_or_default,
    trigger_of,
)
from palimpsest.session.compacting.summarizing import TooLittleGain
from palimpsest.session.context import ContextBlocks
from palimpsest.session.provided.snapshot import HistorySnapshot
from palimpsest.session.provided.storage import ProviderStorage
from palimpsest.store.rows import StoredCompaction
from palimpsest.tokens import count_message_tokens

APPENDS_BEFORE_RECOUNT = 50
"""After so many appends the history is counted anew: others may write to the same storage."""


class ProviderCompactor:
    """Compacts one conversation in somebody else's storage."""

    def __init__(
        self,
        storage: ProviderStorage,
        context: ContextBlocks,
        news: CompactionNews,
        after_commit: Callable[[StoredCompaction], Awaitable[None]],
    ) -> None:
        """A compactor that does nothing yet.

        :param after_commit: awaited after each stored compaction.
        """
        self._storage = storage
        self._context = context
        self._news = news
        self._after_commit = after_commit
        self._policy: Any = None
        self._threshold: int | None = None
        self._counter: Callable[[TokenCountInput], object] | None = None
        self._lock = asyncio.Lock()
        self._failures = 0
        self._next_tokens = 0
        self._remaining = 0
        self._path_tokens: int | None = None
        self._appends = 0
        self._prompt_was_read = False

    def configure(
        self,
        policy: Any,
        threshold: int | None,
        token_counter: Any,
        on_error: ErrorHandler | None,
    ) -> None:
        """Set what compacts and when; a threshold alone stands for head/tail without a model."""
        self._policy = policy_or_default(policy, threshold)
        self._threshold = threshold
        self._counter = token_counter
        self._news.on_error = on_error

    @property
    def trigger_tokens(self) -> int | None:
        """Compaction starts at this many tokens; None when it never starts by itself."""
        return trigger_of(self._policy, self._threshold)

    # -- the trigger ----------------------------------------------------------------------------

    def forget_estimate(self) -> None:
        """The history changed otherwise than by an append: count it anew next time."""
        self._path_tokens = None

    async def after_append(self, appended: list[Message], *, behind_newest: bool) -> None:
        """Compact if the context has reached the trigger. Never raises.

        :param appended: the messages that were new.
        :param behind_newest: whether they continue the path that was the active one.
        """
        self._appends += len(appended)
        if not behind_newest or self._appends >= APPENDS_BEFORE_RECOUNT:
            self._path_tokens = None
        if self._path_tokens is not None:
            self._path_tokens += sum(count_message_tokens(message) for message in appended)
        trigger = self.trigger_tokens
        if trigger is None or self._lock.locked():
            return
        try:
            if not await self._reaches(trigger):
                return
            async with self._lock:
                # Another may have compacted, or appended elsewhere, since it was counted.
                self._path_tokens = None
                if await self._reaches(trigger):
                    await self._compact(None)
                    await self._wait_for_growth(trigger)
        except Exception as error:
            await self._news.report(error)

    async def _reaches(self, trigger: int) -> bool:
        tokens = await self._measure()
        if tokens < trigger:
            self._next_tokens = 0
        return tokens >= max(trigger, self._next_tokens)

    async def _measure(self) -> int:
        """Tokens by the session's own counter, or by the running estimate without one."""
        if self._counter is not None:
            try:
                return await self._count(await self._storage.history(None))
            except Exception as error:
                await self._news.report(error)
        if self._path_tokens is None:
            self._appends = 0
            messages = await self._storage.history(None)
            self._path_tokens = sum(count_message_tokens(message) for message in messages)
        return self._path_tokens + await self._prompt_tokens()

    async def _prompt_tokens(self) -> int:
        if not self._prompt_was_read:
            self._prompt_was_read = True
            await self._context.frozen()
        return self._context.frozen_tokens()

    async def _count(self, messages: list[Message]) -> int:
        assert self._counter is not None
        counter = self._counter
        prompt, blocks = await self._context.freeze(), await self._context.blocks()
        return await count_with(
            lambda listed: counter(TokenCountInput(listed, prompt, blocks)), messages
        )

    async def _wait_for_growth(self, trigger: int) -> None:
        """What could not be brought below the trigger is no reason to try at each append."""
        if self._remaining or 0 < self._failures < FAILURES_BEFORE_FALLBACK:
            return
        tokens = await self._measure()
        if tokens >= trigger:
            self._next_tokens = tokens + max(1, tokens // 4)

    # -- compacting -----------------------------------------------------------------------------

    async def compact(self, leaf_id: str | None) -> CompactResult | None:
        """Compact now; None when nothing was compacted.

        :raises CompactionError: no compaction was configured.
        """
        if self._policy is None:
            raise CompactionError("No compaction function registered. Call on_compaction() first.")
        async with self._lock:
            stored = await self._compact(leaf_id)
        if stored is None:
            return None
        return CompactResult(stored.from_message_id, stored.to_message_id, stored.summary)

    async def _compact(self, leaf_id: str | None) -> StoredCompaction | None:
        """Compact, a long backlog in a few steps; the newest overlay, or None without any."""
        newest: StoredCompaction | None = None
        for _ in range(STEPS_AT_ONCE):
            stored = await self._attempt(leaf_id)
            newest = stored or newest
            if stored is None or not self._remaining:
                break
        return newest

    async def _attempt(self, leaf_id: str | None) -> StoredCompaction | None:
        """One step: ask the summarizer, after repeated failure do without. Failures are told."""
        self._remaining = 0
        try:
            stored = await self._run(leaf_id, fallback=False)
            self._failures = 0
        except Exception as error:
            await self._news.report(error)
            self._failures += 1
            if self._failures < FAILURES_BEFORE_FALLBACK:
                return None
            try:
                stored = await self._run(leaf_id, fallback=True)
            except Exception as failure:
                await self._news.report(failure)
                return None
        if stored is not None:
            self._path_tokens = None
            await self._after_commit(stored)
        return stored

    async def _run(self, leaf_id: str | None, *, fallback: bool) -> StoredCompaction | None:
        """Summarize and store, starting over while the range changes under it.

        :raises CompactionError: it changed each time.
        :raises Exception: whatever the summarizer or the provider raised.
        """
        policy = cast("CompactionPolicy | CustomFunction", self._policy)
        limit = self.trigger_tokens
        if limit is not None:
            limit = max(1, limit - await self._prompt_tokens())
        snapshot = await self._snapshot(leaf_id)
        for _ in range(MAX_CONFLICTS):
            run = CompactionRun(snapshot, limit, self._count if self._counter else None)
            try:
                prepared = await run.prepare(policy, None, fallback=fallback)
            except PathChanged:
                snapshot = await self._snapshot(leaf_id)
                continue
            except TooLittleGain:
                return None
            if prepared is None:
                return None
            now = await self._snapshot(leaf_id)
            ends = prepared.from_id, prepared.to_id
            if now.shown(*ends) == snapshot.shown(*ends):
                stored = await self._storage.add_compaction(prepared.summary, *ends)
                self._remaining = prepared.rest
                return stored
            snapshot = now
        raise CompactionError("the conversation changed each time it was summarized")

    async def _snapshot(self, leaf_id: str | None) -> HistorySnapshot:
        messages = await self._storage.history(leaf_id)
        return HistorySnapshot(messages, await self._storage.compactions())

    # -- overlays by hand -----------------------------------------------------------------------

    async def add_overlay(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Store an overlay given by hand; ends may be ids of overlays' own messages.

        :raises CompactionRangeError: the summary is blank, or the ends are reversed or not on one
            path.
        :raises UnknownMessageError: an end does not exist.
        """
        text = overlay_text(summary)
        begin, end = overlay_ends(await self._storage.compactions(), from_id, to_id)
        for identifier in (begin, end):
            if await self._storage.message(identifier) is None:
                raise UnknownMessageError(f"no message {identifier!r} in this session")
        path = [message["id"] for message in await self._storage.originals(end)]
        if begin not in path:
            if end in [message["id"] for message in await self._storage.originals(begin)]:
                raise CompactionRangeError(f"{begin!r} comes after {end!r} on its path")
            raise CompactionRangeError(f"{begin!r} and {end!r} are on different branches")
        self._path_tokens = None
        return await self._storage.add_compaction(text, begin, end)
