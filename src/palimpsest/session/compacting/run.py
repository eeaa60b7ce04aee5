"""One attempt to compact: snapshot, plan, summarize, check, commit by compare-and-set."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.head_tail import (
    CompactContext,
    CompactFunction,
    CompactResult,
    clean_count,
)
from palimpsest.compaction.outline import OutlineEntry, newest_user_index
from palimpsest.compaction.policy import CompactionPolicy
from palimpsest.compaction.ranges import fit_range
from palimpsest.compaction.tool_pairs import (
    NO_TOOLS,
    ToolUse,
    describe_tool_use,
    find_tool_groups,
)
from palimpsest.errors import CompactionRangeError, SummaryRefusedError
from palimpsest.messages import COMPACTION_PREFIX, Message
from palimpsest.session.compacting.steps import StepBounds, neighbourhood
from palimpsest.session.compacting.store import CompactionStore, PathEntry, PathSource
from palimpsest.session.compacting.summarizing import (
    DEFAULT_WINDOW,
    RangeSource,
    RangeSummarizer,
    least_gain,
    read_batches,
    require_gain,
    require_source,
)
from palimpsest.signatures import signature_of
from palimpsest.store.overlays import overlay_message
from palimpsest.store.rows import StoredCompaction

CustomFunction = Callable[..., "Awaitable[object] | object"]
"""``fn(messages, context)`` or ``fn(messages)``: a :class:`CompactResult`, a mapping, or None."""

CountMessages = Callable[[list[Message]], Awaitable[int]]
"""The session's token counter on a list of messages."""


@dataclass(frozen=True, slots=True)
class Step:
    """Positions on a rendered path: what is summarized now, and the tokens left for later."""

    start: int
    end: int
    rest: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A summary that is ready to be stored, valid as long as its range has this token."""

    from_id: str
    to_id: str
    summary: str
    token: str
    leaf_id: str | None
    rest: int = 0
    """Tokens of the policy's range that are left for further steps."""


class PathChanged(Exception):
    """The conversation changed under the snapshot."""


class CompactionRun:
    """Works out one compaction without storing anything."""

    def __init__(
        self,
        store: PathSource,
        limit: int | None,
        count: CountMessages | None,
        *,
        must_gain: bool = True,
    ) -> None:
        """A run on one session.

        :param limit: the tokens at which compaction starts, which bound tail and summary.
        :param count: the session's own token counter.
        :param must_gain: whether a gain below :func:`least_gain` is refused.
        """
        self._store = store
        self._limit = limit
        self._count = count
        self._must_gain = must_gain

    async def prepare(
        self,
        policy: CompactionPolicy | CustomFunction,
        leaf_id: str | None,
        *,
        fallback: bool,
    ) -> Prepared | None:
        """Plan a range and summarize it; None when there is nothing to compact.

        :param fallback: summarize without a model.
        :raises PathChanged: a message of the path changed or went away meanwhile.
        :raises TooLittleGain: it would save next to nothing.
        :raises SummaryRefusedError: no usable summary came.
        :raises Exception: whatever the summarizer raised.
        """
        if not is_policy(policy):
            if not fallback:
                return await self._prepare_custom(cast("CustomFunction", policy), leaf_id)
            policy = CompactFunction(ExtractiveSummarizer())
        chosen = cast("CompactionPolicy", policy)
        entries = self._store.path_entries(leaf_id)
        step = await self._plan(entries, chosen)
        if step is None:
            return None
        source = RangeSource(entries[step.start : step.end])
        least = 0 if step.rest else self._least_gain(entries)
        require_source(source, least)
        token = self._token(source.first_id, source.last_id, leaf_id)
        limit = self._limit
        if limit is not None:
            # What stays around the range leaves this much for summary and growth.
            staying = sum(entry.tokens for entry in entries) - source.tokens - step.rest
            limit = max(1, limit - staying)
        summarizer = RangeSummarizer(self._store, chosen)
        summary = await summarizer.summarize(source, limit, fallback=fallback)
        require_gain(source, summary, least)
        return Prepared(source.first_id, source.last_id, summary, token, leaf_id, step.rest)

    def _least_gain(self, entries: list[PathEntry]) -> int:
        """Tokens that a compaction has to save, at least, to be worth its price."""
        if not self._must_gain:
            return 0
        tokens = sum(entry.tokens for entry in entries)
        return least_gain(tokens if self._limit is None else min(tokens, self._limit))

    def _token(self, from_id: str, to_id: str, leaf_id: str | None) -> str:
        token = self._store.range_token(from_id, to_id, leaf_id)
        if token is None:
            raise PathChanged
        return token

    async def _plan(self, entries: list[PathEntry], policy: CompactionPolicy) -> Step | None:
        """The part to summarize now: the policy's range, or as much of it as one step takes."""
        bounds = StepBounds.of(policy, DEFAULT_WINDOW)
        if bounds.end_of_step(entries, 0, len(entries)) == len(entries):
            span = policy.plan(await self._outline(entries, policy), self._limit)
            return None if span is None else Step(span.start, span.end, 0)
        # Of a long path only a step and its neighbours are read; sizes tell where it lies.
        sizes = [_outlined(entry, NO_TOOLS, entry.tokens) for entry in entries]
        whole = policy.plan(sizes, self._limit)
        if whole is None:
            return None
        while True:
            end = bounds.end_of_step(entries, whole.start, whole.end)
            low, high = neighbourhood(entries, whole.start, end)
            outline = await self._outline(entries[low:high], policy)
            groups = find_tool_groups([entry.tools for entry in outline])
            span = fit_range(outline, groups, whole.start - low, end - low)
            if span is not None or end >= whole.end:
                break
            bounds = bounds.times(2)  # one tool group, say, that is larger than a step
        if span is None:
            return None
        left = sum(entry.tokens for entry in entries[low + span.end : whole.end])
        return Step(low + span.start, low + span.end, left if end < whole.end else 0)

    async def _outline(
        self, entries: list[PathEntry], policy: CompactionPolicy
    ) -> list[OutlineEntry]:
        """What a policy sees of entries. Content is read for its tool calls, in bounded batches.

        :raises PathChanged: one of them went away meanwhile.
        """
        uses: dict[str, ToolUse] = {}
        counts: dict[str, int] = {}
        counter = policy.token_counter or self._count
        ratio = 1.0
        if policy.token_counter is None and self._count is not None and len(entries) > 1:
            ratio, additive = await self._examine_counter(entries)
            counter = self._count if additive else None
        for batch in read_batches(self._store, [e for e in entries if e.overlay is None]):
            for message in batch:
                uses[message["id"]] = describe_tool_use(message)
                if counter is not None:
                    counts[message["id"]] = await count_with(counter, [message])
            await asyncio.sleep(0)
        if any(entry.overlay is None and entry.id not in uses for entry in entries):
            raise PathChanged
        return [
            _outlined(
                entry,
                uses.get(entry.id, NO_TOOLS),
                counts.get(entry.id, int(entry.tokens * ratio)),
            )
            for entry in entries
        ]

    async def _examine_counter(self, entries: list[PathEntry]) -> tuple[float, bool]:
        """How the session's counter relates to the stamped estimates, and whether it adds up.

        A counter that gives the provider's figure for the last prompt, whatever it is asked, says
        nothing about one message: the estimates are then scaled to its figure.
        """
        assert self._count is not None
        messages = rendered_messages(self._store, entries)
        whole = await self._count(messages)
        additive = whole != await self._count(messages[-1:])
        estimated = sum(entry.tokens for entry in entries)
        ratio = whole / estimated if whole > 0 and estimated > 0 else 1.0
        return ratio, additive

    # -- functions of the user's own ----------------------------------------------------------

    async def _prepare_custom(
        self, function: CustomFunction, leaf_id: str | None
    ) -> Prepared | None:
        entries = self._store.path_entries(leaf_id)
        messages = rendered_messages(self._store, entries)
        if len(messages) != len(entries):
            raise PathChanged
        context = CompactContext(self._count, self._limit)
        answer = function(messages, context) if _takes_context(function) else function(messages)
        if inspect.isawaitable(answer):
            answer = await answer
        result = _read_result(answer)
        if result is None or not result.summary.strip():
            return None
        source = _custom_range(entries, messages, result)
        shown = {message["id"]: message for message in messages}
        if any(
            message != shown.get(message["id"])
            for batch in source.batches(self._store)
            for message in batch
        ):
            raise PathChanged
        require_gain(source, result.summary, self._least_gain(entries))
        token = self._token(source.first_id, source.last_id, leaf_id)
        return Prepared(source.first_id, source.last_id, result.summary, token, leaf_id)


def insert_prepared(store: CompactionStore, prepared: Prepared) -> StoredCompaction | None:
    """Store a prepared overlay; None when its range changed meanwhile."""
    return store.insert_overlay(
        prepared.summary,
        prepared.from_id,
        prepared.to_id,
        expected_token=prepared.token,
        leaf_id=prepared.leaf_id,
    )


def _outlined(entry: PathEntry, uses: ToolUse, tokens: int) -> OutlineEntry:
    return OutlineEntry(entry.id, entry.role, tokens, uses, entry.overlay is not None)


def is_policy(value: object) -> bool:
    """Whether this is a policy that the engine runs itself, not a plain function."""
    if not hasattr(value, "trigger_tokens"):
        return False
    return hasattr(value, "plan") and hasattr(value, "summarize")


def policy_or_default(policy: Any, threshold: int | None) -> Any:
    """What compacts: a threshold alone stands for head/tail with the extractive summarizer."""
    if policy is None and threshold is not None:
        return CompactFunction(ExtractiveSummarizer())
    return policy


def trigger_of(
    policy: CompactionPolicy | CustomFunction | None, threshold: int | None
) -> int | None:
    """The tokens at which compaction starts; None when it never starts by itself."""
    if policy is None:
        return None
    if is_policy(policy):
        return cast("CompactionPolicy", policy).trigger_tokens(threshold)
    return None if threshold is None else threshold + 1


def rendered_messages(store: PathSource, entries: list[PathEntry]) -> list[Message]:
    """The content of a rendered path, summaries included; entries gone meanwhile are left out."""
    stored: dict[str, Message] = {}
    for batch in read_batches(store, [entry for entry in entries if entry.overlay is None]):
        stored.update((message["id"], message) for message in batch)
    messages: list[Message] = []
    for entry in entries:
        if entry.overlay is not None:
            messages.append(overlay_message(entry.overlay))
        elif entry.id in stored:
            messages.append(stored[entry.id])
    return messages


async def count_with(counter: Callable[[list[Message]], object], messages: list[Message]) -> int:
    """A counter's answer, which may be awaited, as whole tokens."""
    counted = counter(messages)
    if inspect.isawaitable(counted):
        counted = await counted
    return clean_count(float(cast("float", counted)))


def _takes_context(function: CustomFunction) -> bool:
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [
        one
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)
    ]
    return len(positional) > 1 or any(one.kind == one.VAR_POSITIONAL for one in positional)


def _read_result(answer: object) -> CompactResult | None:
    """A compaction function's answer, which may be a mapping in either spelling."""
    if answer is None or isinstance(answer, CompactResult):
        return answer
    if not isinstance(answer, Mapping):
        raise CompactionRangeError(
            f"a compaction function gives a CompactResult or None, got {type(answer).__name__}"
        )
    fields = cast("Mapping[str, Any]", answer)
    values = [
        fields.get(snake, fields.get(camel))
        for snake, camel in (
            ("from_message_id", "fromMessageId"),
            ("to_message_id", "toMessageId"),
            ("summary", "summary"),
        )
    ]
    if not all(isinstance(value, str) for value in values):
        raise CompactionRangeError(
            "a compaction function's answer needs texts from_message_id, to_message_id and summary"
        )
    return CompactResult(*cast("list[str]", values))


def _custom_range(
    entries: list[PathEntry], messages: list[Message], result: CompactResult
) -> RangeSource:
    """The entries that a function's answer covers, made safe.

    An overlay directly before the range belongs to it, so that overlays grow instead of piling up
    (Sessions document). The range shrinks to whole tool groups, and ends before the newest user
    message.

    :raises CompactionRangeError: an end is unknown or the ends are reversed.
    :raises SummaryRefusedError: nothing is left of it.
    """
    start = _position(entries, result.from_message_id, last=False)
    end = _position(entries, result.to_message_id, last=True) + 1
    if end <= start:
        raise CompactionRangeError(
            f"the range {result.from_message_id!r} to {result.to_message_id!r} is reversed"
        )
    if start > 0 and entries[start - 1].overlay is not None and entries[start].overlay is None:
        start -= 1
    uses = [describe_tool_use(message) for message in messages]
    groups = find_tool_groups(uses)
    start, end = groups.align_forward(start), groups.align_backward(end)
    outline = [
        _outlined(entry, use, entry.tokens) for entry, use in zip(entries, uses, strict=True)
    ]
    newest = newest_user_index(outline)
    if newest is not None and start <= newest < end:
        end = groups.align_backward(newest)
    if end <= start or all(entry.overlay is not None for entry in entries[start:end]):
        raise SummaryRefusedError("the range holds no whole message to replace")
    return RangeSource(entries[start:end])


def _position(entries: list[PathEntry], identifier: str, *, last: bool) -> int:
    """Where a message stands on the rendered path, also if an overlay stands for it."""
    for index, entry in enumerate(entries):
        if entry.id == identifier:
            return index
        if entry.overlay is not None:
            end = entry.overlay.to_message_id if last else entry.overlay.from_message_id
            if end == identifier.removeprefix(COMPACTION_PREFIX) or end == identifier:
                return index
    raise CompactionRangeError(f"the message {identifier!r} is not on the path as it is shown")
