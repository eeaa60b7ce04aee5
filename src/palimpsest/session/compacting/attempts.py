"""Attempts to compact one session: by the summarizer, or without it after failures.

An attempt takes a snapshot, summarizes a range of it, checks the summary and commits it only if
the range is as it was. A failure at any point changes nothing but the engine's memory of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from palimpsest.compaction.policy import CompactionPolicy, TightPolicy
from palimpsest.errors import CompactionError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message
from palimpsest.session.compacting.jobs import CompactionJobs
from palimpsest.session.compacting.news import CompactionNews, error_text
from palimpsest.session.compacting.outcomes import (
    CompactionOutcome,
    CompactionRequest,
    TokenCountInput,
)
from palimpsest.session.compacting.run import (
    CompactionRun,
    CustomFunction,
    PathChanged,
    Prepared,
    count_with,
    insert_prepared,
    trigger_of,
)
from palimpsest.session.compacting.store import CompactionStore
from palimpsest.session.compacting.summarizing import TooLittleGain
from palimpsest.store.compaction_state import CompactionStatus
from palimpsest.store.rows import StoredCompaction

FAILURES_BEFORE_FALLBACK = 3
"""Failed summaries in a row after which the summary is made without a model."""

COOL_DOWN_MS = 600_000
"""After a fallback, the summarizer is not asked again for this long."""

MAX_CONFLICTS = 3
"""How often a run starts over because its range changed meanwhile."""

STEP_PAUSE_MS = 50
"""From a step to the next one's alarm: each alarm has the CPU time of an event of its own."""

SHARE_AFTER_NOTHING = 50
"""What was nothing to compact is looked at again when the context has grown by one fiftieth."""

SHARE_AFTER_TOO_LITTLE = 10
"""The same where a summary was made, and would have saved too little."""


class CompactionAttempts:
    """What a session's engine knows, and how it carries out one step."""

    def __init__(
        self,
        *,
        host: Host,
        store: CompactionStore,
        system_prompt_tokens: Callable[[], int] | None = None,
        after_commit: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """An engine without a policy yet.

        :param system_prompt_tokens: tokens of the frozen prompt, which no compaction can shrink.
        :param after_commit: awaited after each stored compaction.
        """
        self._host = host
        self._store = store
        self._session_id = store.session_id
        self._prompt_tokens = system_prompt_tokens or (lambda: 0)
        self._after_commit = after_commit
        self._jobs = CompactionJobs.of(host)
        self._state = self._jobs.state
        self._policy: CompactionPolicy | CustomFunction | None = None
        self._threshold: int | None = None
        self._counter: Callable[[TokenCountInput], object] | None = None
        self._counter_input: Callable[[], Awaitable[tuple[str, list[Any]]]] | None = None
        self._busy: Callable[[], bool] | None = None
        self._news = CompactionNews(host, self._session_id)

    @property
    def trigger_tokens(self) -> int | None:
        """Compaction starts at this many tokens; None when it never starts by itself."""
        return trigger_of(self._policy, self._threshold)

    def estimate(self, status: CompactionStatus | None = None) -> int:
        """Tokens of the next prompt: the estimate, corrected by the provider's last report."""
        if status is None:
            status = self._state.load(self._session_id)
        return max(0, self._store.context_tokens() + status.usage_offset)

    async def _count(self, messages: list[Message]) -> int:
        assert self._counter is not None
        counter = self._counter
        prompt, blocks = await self._counter_input() if self._counter_input else ("", [])
        return await count_with(
            lambda listed: counter(TokenCountInput(listed, prompt, blocks)), messages
        )

    async def _attempt(self, request: CompactionRequest, before: int) -> CompactionOutcome:
        """Ask the summarizer if it may be asked; after repeated failure do without."""
        error: Exception | None = None
        status = self._state.load(self._session_id)
        if self._may_ask_model(status):
            try:
                return await self._ask_model(request, before, status.failures)
            except Exception as failure:
                error = failure
                await self._report(failure)
                failures = self._state.load(self._session_id).failures
                if failures < request.fallback_at:
                    return CompactionOutcome("failed", before, before, None, failure, str(failure))
                if failures >= FAILURES_BEFORE_FALLBACK:
                    self._state.cool_down(self._session_id, self._host.now() + COOL_DOWN_MS)
        try:
            outcome = await self._run(request, before, fallback=True)
        except Exception as failure:
            await self._report(failure)
            self._wait_for_growth(self.estimate(), share=4)
            self._jobs.end_steps(self._session_id, self._host.now())
            return CompactionOutcome("failed", before, before, None, failure, str(failure))
        return dataclasses.replace(outcome, error=error)

    def _may_ask_model(self, status: CompactionStatus) -> bool:
        """Whether the summarizer is asked; after repeated failure only now and then.

        The next time is put off before it is asked: a run may end with the process.
        """
        if status.failures < FAILURES_BEFORE_FALLBACK:
            return True
        now = self._host.now()
        if now < status.model_retry_at:
            return False
        self._state.cool_down(self._session_id, now + COOL_DOWN_MS)
        # Without an earlier time the last failure was a crash, which set none.
        return status.model_retry_at > 0

    async def _ask_model(
        self, request: CompactionRequest, before: int, failures: int
    ) -> CompactionOutcome:
        self._state.begin(self._session_id)
        try:
            outcome = await self._run(request, before, fallback=False)
        except asyncio.CancelledError:
            if not request.counts_when_cancelled:
                self._state.set_failures(self._session_id, failures)
            raise
        if outcome.status == "nothing":
            self._state.set_failures(self._session_id, failures)
        return outcome

    async def _run(
        self, request: CompactionRequest, before: int, *, fallback: bool
    ) -> CompactionOutcome:
        """Prepare and commit, starting over while the range changes under it.

        :raises CompactionError: it changed each time.
        :raises Exception: whatever the summarizer raised.
        """
        assert self._policy is not None
        limit = request.limit if request.limit is not None else self.trigger_tokens
        if limit is not None:
            limit = max(1, limit - self._prompt_tokens())
        run = CompactionRun(
            self._store,
            limit,
            self._count if self._counter else None,
            must_gain=request.limit is None,  # where a turn has to fit, any gain may do
        )
        policy = TightPolicy.of(self._policy) if request.tight else self._policy

        for _ in range(MAX_CONFLICTS):
            try:
                prepared = await run.prepare(policy, request.leaf_id, fallback=fallback)
            except PathChanged:
                continue
            except TooLittleGain as small:
                return self._nothing(before, SHARE_AFTER_TOO_LITTLE, str(small))
            if prepared is None:
                return self._nothing(before, SHARE_AFTER_NOTHING, "nothing to compact")
            stored = self._store.transaction(
                functools.partial(self._insert, prepared, request, before, fallback)
            )
            if stored is not None:
                after = self.estimate()
                self._news.log(
                    "compaction.committed",
                    before=before,
                    after=after,
                    fallback=fallback,
                    remaining=prepared.rest,
                )
                return CompactionOutcome(
                    "compacted", before, after, stored, remaining=prepared.rest
                )
        raise CompactionError("the conversation changed each time it was summarized")

    def _nothing(self, tokens: int, share: int, reason: str) -> CompactionOutcome:
        """Nothing was compacted, and nothing is tried by itself before the context has grown."""
        self._wait_for_growth(tokens, share)
        self._jobs.end_steps(self._session_id, self._host.now())
        return CompactionOutcome("nothing", tokens, tokens, reason=reason)

    def _insert(
        self,
        prepared: Prepared,
        request: CompactionRequest,
        before: int,
        fallback: bool,
    ) -> StoredCompaction | None:
        stored = insert_prepared(self._store, prepared)
        if stored is None:
            return None
        after = self._store.context_tokens()
        trigger = self.trigger_tokens
        # Without headroom the next write would compact again for next to nothing.
        next_tokens = after + max(1, after // 4) if trigger is not None and after >= trigger else 0
        now = self._host.now()
        if prepared.rest:
            next_tokens = 0
            self._jobs.put_next_step(
                self._session_id, now + STEP_PAUSE_MS, prepared.rest, request.leaf_id
            )
        else:
            self._jobs.end_steps(self._session_id, now)
        self._state.record(
            self._session_id,
            request_id=request.request_id,
            overlay_id=stored.id,
            tokens_before=before,
            tokens_after=after,
            next_tokens=next_tokens,
            keep_failures=fallback,
        )
        return stored

    def _wait_for_growth(self, tokens: int, share: int) -> None:
        """Try nothing by itself before the context has grown by one ``share``-th."""
        wanted = tokens + max(1, tokens // share)
        self._state.wait_for_tokens(self._session_id, wanted)

    async def _report(self, error: Exception) -> None:
        self._state.fail(self._session_id, error_text(error), self._host.now())
        await self._news.report(error)
