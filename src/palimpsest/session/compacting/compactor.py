"""The compaction engine of one session.

After each write a running estimate, which costs the same at every length of the conversation, is
compared with the policy's trigger; if it is reached a job is put on the alarm and the write
returns. The job takes a snapshot, summarizes it, checks the summary and commits it only if the
summarized range is as it was. Originals are never touched, so a failure at any point changes
nothing. One compaction runs at a time per session, whoever asked for it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from palimpsest.compaction.head_tail import CompactResult
from palimpsest.errors import CompactionError
from palimpsest.messages import Message
from palimpsest.session.compacting.attempts import (
    COOL_DOWN_MS,
    FAILURES_BEFORE_FALLBACK,
    STEP_PAUSE_MS,
    CompactionAttempts,
)
from palimpsest.session.compacting.manual_overlays import insert_manual_overlay
from palimpsest.session.compacting.news import Frame, session_frame
from palimpsest.session.compacting.outcomes import (
    CompactionOutcome,
    CompactionRequest,
    RoomReport,
    TokenCountInput,
    check_options,
    joined,
)
from palimpsest.session.compacting.run import policy_or_default, rendered_messages, trigger_of
from palimpsest.session.compacting.steps import LAST_STEP_SHARE, STEP_TOKENS
from palimpsest.store.compaction_state import CompactionStatus
from palimpsest.store.rows import StoredCompaction

__all__ = [
    "CompactionOutcome",
    "Compactor",
    "RoomReport",
    "TokenCountInput",
    "check_options",
]

RETRY_DELAYS_MS = (10_000, 60_000)
"""Waits after the first and the second failure."""

STEPS_AT_ONCE = 4
"""Steps of a long backlog for which a caller waits; the job does the rest, one in each alarm."""

CLOCK_SECONDS = 0.001
"""A timer so short that it only lets the platform's clock go on."""

BUSY_PAUSE_MS = 2_000
"""How long the job waits for a turn to end before it looks again."""


class Compactor(CompactionAttempts):
    """Compacts one session; made by the session on first use."""

    # -- configuration --------------------------------------------------------------------------

    def configure(
        self,
        *,
        policy: Any = None,
        threshold: int | None = None,
        token_counter: Any = None,
        on_error: Callable[[Exception], object] | None = None,
        counter_input: Callable[[], Awaitable[tuple[str, list[Any]]]] | None = None,
    ) -> None:
        """Set what compacts and when; replaces the configuration before.

        :param policy: a policy, or a function ``fn(messages, context)``. None with a threshold
            stands for head/tail with the extractive summarizer.
        :param threshold: ``compact_after``; compaction starts above this many tokens.
        :param token_counter: given a :class:`TokenCountInput`; called by the job, never on a write.
        :param on_error: told of every failure, a summarizer's included; may be async.
        :param counter_input: gives the system prompt and context blocks for ``token_counter``.
        :raises CompactionOptionError: a threshold below 0 or not whole, or no function.
        """
        check_options(policy, threshold, token_counter, on_error)
        self._policy = policy_or_default(policy, threshold)
        self._threshold = threshold
        self._counter = token_counter
        self._news.on_error = on_error
        self._counter_input = counter_input
        if self.trigger_tokens is not None:
            # Another Session over the same id that compacts nothing must not take the job over.
            self._jobs.add(self._session_id, lambda: self)

    def add_listener(self, listener: Callable[[Frame], None]) -> Callable[[], None]:
        """Send ``listener`` every frame for clients; returns the function that ends this."""
        return self._news.add_listener(listener)

    def defer_while(self, busy: Callable[[], bool] | None) -> None:
        """Let the job wait while ``busy()`` is true: it runs between turns."""
        self._busy = busy

    # -- the trigger ----------------------------------------------------------------------------

    def after_write(self) -> None:
        """Schedule a compaction if one is due. Reads no message; never raises."""
        try:
            trigger = trigger_of(self._policy, self._threshold)
            if trigger is None:
                return
            if self._counter is None and not self._reaches(trigger, self.estimate()):
                return
            self._jobs.put(self._session_id, self._host.now())
        except Exception as error:
            self._news.log_failure("compaction.trigger_failed", error)

    def _is_due(self, trigger: int) -> bool:
        return self._reaches(trigger, self.estimate())

    def _reaches(self, trigger: int, tokens: int) -> bool:
        status = self._state.load(self._session_id)
        if tokens < trigger:
            if status.next_tokens:
                # There is room again: what could not be compacted then is no reason now.
                self._state.wait_for_tokens(self._session_id, 0)
            return False
        return tokens >= status.next_tokens

    def record_usage(self, total_tokens: int) -> None:
        """Learn from the provider's report of the last step.

        Call it after the step's message is stored.

        :param total_tokens: tokens of the prompt and the answer together; 0 teaches nothing.
        """
        if total_tokens <= 0:
            return
        offset = total_tokens - self._store.context_tokens()
        known = self._state.load(self._session_id).usage_offset
        if abs(offset - known) * 20 > total_tokens:
            self._state.set_usage_offset(self._session_id, offset)
            self.after_write()

    # -- the job --------------------------------------------------------------------------------

    async def run_job(self, continues: bool = False, leaf_id: str | None = None) -> int | None:
        """Compact if it is still due, one step of it; when to try again (ms since 1970), or None.

        :param continues: a compaction goes on of which a step is done, whatever the trigger says.
        :param leaf_id: the branch it is for; None for the active one.
        """
        if self._busy is not None and self._busy():
            return self._host.now() + BUSY_PAUSE_MS
        trigger = self.trigger_tokens
        if not continues and (trigger is None or not self._reaches(trigger, await self._measure())):
            return None
        if self._policy is None:
            return None
        request = CompactionRequest(
            needed=functools.partial(self._job_is_needed, continues),
            fallback_at=FAILURES_BEFORE_FALLBACK,
            leaf_id=leaf_id,
            counts_when_cancelled=True,
        )
        outcome = await self._compact(request)
        if outcome.remaining:
            await self._leave_the_event(outcome.remaining, leaf_id)
            return None
        if trigger is not None:
            await self._mind_own_counter(trigger, outcome.status)
        now = self._host.now()
        if outcome.status == "failed":
            failures = self._state.load(self._session_id).failures
            delays = RETRY_DELAYS_MS
            return now + (delays[failures - 1] if 0 < failures <= len(delays) else COOL_DOWN_MS)
        # What came in meanwhile may have made it due again.
        again = (
            outcome.status == "compacted"
            and trigger is not None
            and self._counter is None
            and self._is_due(trigger)
        )
        return now if again else None

    async def _leave_the_event(self, remaining: int, leaf_id: str | None) -> None:
        """Put off the next step until the running alarm has ended.

        It was scheduled with this one, by a clock that stands still on Cloudflare while Python
        runs: by now its time may have come, and it would run in this very event. A timer lets the
        clock go on.
        """
        await asyncio.sleep(CLOCK_SECONDS)
        if self._jobs.remaining(self._session_id):
            at = self._host.now() + STEP_PAUSE_MS
            self._jobs.put_next_step(self._session_id, at, remaining, leaf_id)

    def _job_is_needed(self, continues: bool) -> bool:
        """Asked once no other compaction runs: it may have done the job's work."""
        if continues:
            return self._jobs.remaining(self._session_id) > 0
        trigger = self.trigger_tokens
        return trigger is not None and (self._counter is not None or self._is_due(trigger))

    async def _measure(self) -> int:
        """Tokens by the session's own counter, or by the estimate where it has none or it fails.

        A context far above the trigger and longer than a step is not read to be counted.
        """
        estimate, trigger = self.estimate(), self.trigger_tokens
        is_far_above = trigger is not None and estimate >= 2 * trigger
        if self._counter is None or (is_far_above and estimate > LAST_STEP_SHARE * STEP_TOKENS):
            return estimate
        try:
            return await self._count(self._rendered())
        except Exception as error:
            await self._report(error)
            return estimate

    async def _mind_own_counter(self, trigger: int, status: str) -> None:
        """Wait for growth where the session's own counter still stands above the trigger.

        A counter that gives the provider's figure for the last prompt goes on giving it after a
        compaction: it must not compact again at every write.
        """
        if self._counter is None or status == "failed":
            return
        tokens = await self._measure()
        if tokens >= trigger:
            growth = max(1, tokens // (4 if status == "compacted" else 50))
            self._state.wait_for_tokens(self._session_id, tokens + growth)

    def _rendered(self) -> list[Message]:
        return rendered_messages(self._store, self._store.path_entries())

    # -- compacting -----------------------------------------------------------------------------

    async def compact_now(
        self, leaf_id: str | None = None, request_id: str | None = None
    ) -> CompactResult | None:
        """Compact now, whatever the estimate says; None when nothing was compacted.

        A failure is reported to the error handler and to clients, and changes nothing.

        :raises CompactionError: no compaction was configured.
        """
        outcome = await self.request_compaction(leaf_id, request_id)
        return outcome.result

    async def request_compaction(
        self, leaf_id: str | None = None, request_id: str | None = None
    ) -> CompactionOutcome:
        """:meth:`compact_now` with the whole outcome: what ``/compact`` shows.

        :param request_id: names the request. One that was carried out before, and is repeated
            after a crash, gives the outcome it had and compacts nothing again.
        :raises CompactionError: no compaction was configured.
        """
        if self._policy is None:
            raise CompactionError("No compaction function registered. Call on_compaction() first.")
        request = CompactionRequest(
            needed=lambda: True,
            fallback_at=FAILURES_BEFORE_FALLBACK,
            leaf_id=leaf_id,
            request_id=request_id,
            steps=STEPS_AT_ONCE,
        )
        return await self._compact(request)

    async def ensure_room(
        self,
        budget_tokens: int | None = None,
        reserve_tokens: int = 0,
        *,
        force: bool = False,
    ) -> RoomReport:
        """Make the next turn fit; returns at once when it does.

        This is the one case in which a turn waits for a compaction. If the summarizer fails the
        summary is made without it.

        :param budget_tokens: what the model takes as input; by default the policy's trigger.
        :param reserve_tokens: kept free for what the store does not know (tools, the new message).
        :param force: compact even if the estimate says that it fits: a provider refused it.
        """
        budget = budget_tokens if budget_tokens is not None else self.trigger_tokens
        tokens = self.estimate()
        if budget is None:
            return RoomReport(True, tokens, None)
        room = budget - reserve_tokens
        if self._policy is None or (tokens <= room and not force):
            return self._room(tokens, budget, reserve_tokens, False)
        prompt = self._prompt_tokens()
        if prompt >= room:
            reason = f"the system prompt alone has {prompt} tokens, {room} are left for all"
            return RoomReport(False, tokens, budget, False, reason)
        compacted = False
        for tight in (False, True):
            request = CompactionRequest(
                needed=functools.partial(self._exceeds, room, force and not tight),
                fallback_at=0,
                limit=room,
                tight=tight,
                steps=STEPS_AT_ONCE,
            )
            outcome = await self._compact(request)
            compacted = compacted or outcome.status == "compacted"
            tokens = self.estimate()
            if tokens <= room:
                break
            if outcome.remaining:
                reason = (
                    f"a long conversation is being summarized, {outcome.remaining} tokens of it"
                    " are still to be done; it will fit in a moment"
                )
                return RoomReport(False, tokens, budget, compacted, reason, outcome.remaining)
        return self._room(tokens, budget, reserve_tokens, compacted)

    def _exceeds(self, room: int, whatever: bool) -> bool:
        return whatever or self.estimate() > room

    def _room(self, tokens: int, budget: int, reserve: int, compacted: bool) -> RoomReport:
        if tokens + reserve <= budget:
            return RoomReport(True, tokens, budget, compacted)
        self._news.log("compaction.no_room", tokens=tokens, budget=budget)
        reason = f"what must stay has {tokens + reserve} tokens, the budget is {budget}"
        return RoomReport(False, tokens, budget, compacted, reason)

    async def _compact(self, request: CompactionRequest) -> CompactionOutcome:
        async with self._jobs.lock(self._session_id):
            done = self._request_done(request.request_id)
            if done is not None:
                return done
            before = self.estimate()
            if not request.needed():
                return CompactionOutcome("nothing", before, before, reason="no longer needed")
            self._news.send(self._frame("compacting", before))
            outcome = CompactionOutcome("failed", before, before)
            try:
                outcome = await self._attempt(request, before)
                for _ in range(request.steps - 1):
                    tokens = self.estimate()
                    enough = request.limit is not None and tokens <= request.limit
                    if outcome.error is not None or not outcome.remaining or enough:
                        break
                    self._news.send(self._frame("compacting", tokens))
                    outcome = joined(outcome, await self._attempt(request, tokens))
            finally:
                # Also after a cancelled turn: no client is left behind in "compacting".
                frame = self._frame("idle", self.estimate())
                if outcome.status == "compacted":
                    frame["compacted"] = {
                        "tokensBefore": outcome.tokens_before,
                        "tokensAfter": outcome.tokens_after,
                    }
                    if outcome.remaining:
                        frame["compacted"]["tokensRemaining"] = outcome.remaining
                self._news.send(frame)
        if outcome.status == "compacted" and self._after_commit is not None:
            await self._after_commit()
        return outcome

    def _request_done(self, request_id: str | None) -> CompactionOutcome | None:
        if request_id is None:
            return None
        status = self._state.load(self._session_id)
        if status.request_id != request_id:
            return None
        overlay = next(
            (one for one in self._store.list_overlays() if one.id == status.request_overlay), None
        )
        return CompactionOutcome(
            "compacted",
            status.tokens_before or 0,
            status.tokens_after or 0,
            overlay,
            reason="this request was carried out before",
            remaining=self._jobs.remaining(self._session_id),
        )

    # -- overlays by hand -----------------------------------------------------------------------

    def add_overlay(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Store an overlay given by hand; ends may be ids of overlays' own messages.

        :raises CompactionRangeError: the summary is blank, or the ends are reversed or not on one
            path.
        :raises UnknownMessageError: an end does not exist.
        """
        stored = insert_manual_overlay(self._store, summary, from_id, to_id)
        self._state.set_usage_offset(self._session_id, 0)
        self._news.send(self.status_frame())
        return stored

    def list_overlays(self) -> list[StoredCompaction]:
        """All overlays of the session, the oldest first."""
        return self._store.list_overlays()

    def undo_newest_overlay(self) -> StoredCompaction | None:
        """Take the newest overlay away: what it covered is shown as before; None without one.

        The trigger waits until the context has grown by a quarter, else it would be back at once.
        """
        overlays = self._store.list_overlays()
        if not overlays:
            return None
        newest = overlays[-1]

        def undo() -> None:
            self._store.remove_overlay(newest.id)
            self._state.set_usage_offset(self._session_id, 0)
            self._wait_for_growth(self._store.context_tokens(), share=4)

        self._store.transaction(undo)
        self._news.send(self.status_frame())
        return newest

    def clear(self) -> None:
        """Forget this session's engine state and job; joins the caller's transaction."""
        self._jobs.forget(self._session_id)

    # -- what others are told -------------------------------------------------------------------

    @property
    def phase(self) -> Literal["idle", "compacting"]:
        """Whether a compaction runs now, or its next step is scheduled."""
        runs = self._jobs.lock(self._session_id).locked()
        return "compacting" if runs or self._jobs.remaining(self._session_id) else "idle"

    def status(self) -> CompactionStatus:
        """The engine's memory of this session: failures, last error, counts."""
        return self._state.load(self._session_id)

    def status_frame(self) -> Frame:
        """The frame ``cf_agent_session`` as it is now."""
        return self._frame(self.phase, self.estimate())

    def _frame(self, phase: str, tokens: int) -> Frame:
        threshold = self._threshold if self._threshold is not None else self.trigger_tokens
        return session_frame(phase, tokens, threshold)
