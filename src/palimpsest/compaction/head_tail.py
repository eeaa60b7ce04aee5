"""The head/tail policy: keep the first messages and a tail within a token budget.

The middle is summarized; an earlier summary inside it is brought up to date instead of being
summarized as text (Sessions document, "Compaction"). Positions are those of the document's
algorithm, with four differences: a group of several tool results is never split, the newest user
message is never summarized away, unanswered calls of the current exchange stay outside, and an
overlay in the protected head keeps its place, so no message falls between two summaries.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palimpsest.compaction.outline import OutlineEntry, outline_messages
from palimpsest.compaction.prompts import SUMMARY_SECTIONS, SummarySection, build_summary_request
from palimpsest.compaction.ranges import CompactionRange, fit_range
from palimpsest.compaction.render import render_transcript
from palimpsest.compaction.tool_pairs import find_tool_groups, groups_of, sanitize_tool_pairs
from palimpsest.compaction.truncation import truncate_older_messages, truncate_tool_output
from palimpsest.errors import SummaryRefusedError
from palimpsest.messages import COMPACTION_PREFIX, Message, is_compaction_message, text_of
from palimpsest.tokens import estimate_message_tokens

__all__ = [
    "COMPACTION_PREFIX",
    "CompactContext",
    "CompactFunction",
    "CompactResult",
    "CompactionRange",
    "align_boundary_backward",
    "align_boundary_forward",
    "build_summary_prompt",
    "compute_summary_budget",
    "create_compact_function",
    "find_tail_cut_by_tokens",
    "is_compaction_message",
    "plan_head_tail",
    "sanitize_tool_pairs",
    "truncate_older_messages",
    "truncate_tool_output",
]

PROTECT_HEAD = 3
"""Messages at the beginning that are never compacted, by default."""

TAIL_TOKEN_BUDGET = 20_000
"""Tokens of the protected tail, by default."""

MIN_TAIL_MESSAGES = 2
"""The fewest messages in the tail, by default."""

TAIL_SHARE = 0.3
"""The largest share of a session's threshold, less the head, that the tail takes."""

SUMMARY_SHARE = 0.2
"""A summary's budget as a share of what it replaces."""

MIN_SUMMARY_TOKENS = 100
"""The smallest budget of a summary, in tokens."""

Summarize = Callable[[str], "Awaitable[str] | str"]
"""Takes the whole prompt, gives the summary."""

TokenCounter = Callable[[list[Message]], "Awaitable[float] | float"]
"""Takes messages, gives their tokens."""


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction replaces and by which summary; both ends belong to the range."""

    from_message_id: str
    to_message_id: str
    summary: str


@dataclass(frozen=True, slots=True)
class CompactContext:
    """What a session tells its compaction function."""

    token_counter: TokenCounter | None = None
    """The session's counter, used for the tail where the function has none of its own."""

    token_threshold: int | None = None
    """The session's ``compact_after``; a tail near or over it would compact for nothing."""


def align_boundary_forward(messages: Sequence[Mapping[str, Any]], index: int) -> int:
    """The first position at or after ``index`` that splits no call from its results."""
    return groups_of(messages).align_forward(max(0, min(index, len(messages))))


def align_boundary_backward(messages: Sequence[Mapping[str, Any]], index: int) -> int:
    """The last position at or before ``index`` that splits no call from its results."""
    return groups_of(messages).align_backward(max(0, min(index, len(messages))))


def find_tail_cut_by_tokens(
    messages: Sequence[Mapping[str, Any]],
    head_end: int,
    token_budget: int = TAIL_TOKEN_BUDGET,
    min_tail_messages: int = MIN_TAIL_MESSAGES,
) -> int:
    """Where the tail begins: the last messages within the budget, aligned to whole groups.

    The last message is always kept, however large it is.
    """
    outline = outline_messages(messages)
    cut = _tail_cut(outline, head_end, token_budget, min_tail_messages)
    return find_tool_groups([entry.tools for entry in outline]).align_backward(cut)


def _tail_cut(outline: Sequence[OutlineEntry], start: int, budget: float, minimum: int) -> int:
    total = 0
    cut = len(outline)
    for index in range(len(outline) - 1, start - 1, -1):
        tokens = outline[index].tokens
        if total + tokens > budget and cut < len(outline):
            break
        total += tokens
        cut = index
    minimum_cut = len(outline) - minimum
    return min(cut, minimum_cut) if minimum_cut >= start else cut


def plan_head_tail(
    outline: list[OutlineEntry],
    protect_head: int = PROTECT_HEAD,
    tail_token_budget: float = TAIL_TOKEN_BUDGET,
    min_tail_messages: int = MIN_TAIL_MESSAGES,
) -> CompactionRange | None:
    """Which part of a rendered conversation to summarize; None when there is nothing to gain.

    :func:`fit_range` tells what no range ever holds.
    """
    if len(outline) <= protect_head + min_tail_messages:
        return None
    groups = find_tool_groups([entry.tools for entry in outline])
    start = groups.align_forward(protect_head)
    end = _tail_cut(outline, start, tail_token_budget, min_tail_messages)
    return fit_range(outline, groups, start, end)


def compute_summary_budget(messages: Sequence[Mapping[str, Any]]) -> int:
    """The length to aim for, in tokens: a fifth of what is replaced, at least 100."""
    return summary_budget_for(estimate_message_tokens(messages))


def summary_budget_for(tokens: int) -> int:
    """:func:`compute_summary_budget` where the tokens are known already."""
    return max(MIN_SUMMARY_TOKENS, math.floor(tokens * SUMMARY_SHARE))


def build_summary_prompt(
    messages: Sequence[Mapping[str, Any]], previous_summary: str | None = None, budget: int = 0
) -> str:
    """The prompt for summarizing ``messages``, updating ``previous_summary`` where given.

    ``budget`` is in tokens; 0 stands for :func:`compute_summary_budget`.
    """
    return build_summary_request(
        render_transcript(messages), previous_summary, budget or compute_summary_budget(messages)
    )


def create_compact_function(
    summarize: Summarize,
    protect_head: int = PROTECT_HEAD,
    tail_token_budget: int = TAIL_TOKEN_BUDGET,
    min_tail_messages: int = MIN_TAIL_MESSAGES,
    token_counter: TokenCounter | None = None,
    *,
    summarizer_window: int | None = None,
    summarizer_timeout: float | None = None,
) -> CompactFunction:
    """The documented compaction function (Sessions document, ``createCompactFunction``).

    :param summarize: takes one prompt, gives the summary; may be async.
    :param protect_head: messages at the beginning that stay as they are.
    :param tail_token_budget: tokens at the end that stay; 0 keeps ``min_tail_messages`` alone.
    :param min_tail_messages: the fewest messages that stay at the end.
    :param token_counter: counts the tail, one message at a time; may be async.
    :param summarizer_window: tokens that the summarizer reads in one call; longer ranges are
        given to it in pieces.
    :param summarizer_timeout: seconds after which the engine gives a call up.
    :raises TypeError: ``summarize`` or ``token_counter`` cannot be called.
    :raises ValueError: a number is negative or not whole.
    """
    return CompactFunction(
        summarize,
        protect_head,
        tail_token_budget,
        min_tail_messages,
        token_counter,
        summarizer_window,
        summarizer_timeout,
    )


class CompactFunction:
    """A head/tail policy that can be called on a message list or run by the engine.

    The engine uses its numbers and its summarizer with snapshots, pieces and checks of its own;
    calling it does one plain compaction and gives the result without storing anything.
    """

    def __init__(
        self,
        summarize: Summarize,
        protect_head: int = PROTECT_HEAD,
        tail_token_budget: int = TAIL_TOKEN_BUDGET,
        min_tail_messages: int = MIN_TAIL_MESSAGES,
        token_counter: TokenCounter | None = None,
        summarizer_window: int | None = None,
        summarizer_timeout: float | None = None,
    ) -> None:
        if not callable(summarize):
            raise TypeError("create_compact_function: 'summarize' must be a function")
        if token_counter is not None and not callable(token_counter):
            raise TypeError("create_compact_function: 'token_counter' must be a function")
        numbers: dict[str, Any] = {
            "protect_head": protect_head,
            "tail_token_budget": tail_token_budget,
            "min_tail_messages": min_tail_messages,
            "summarizer_window": 0 if summarizer_window is None else summarizer_window,
        }
        for name, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(
                    f"create_compact_function: {name!r} must be a whole number of at least 0, "
                    f"got {value!r}"
                )
        self.summarize = summarize
        self.protect_head = protect_head
        self.tail_token_budget = tail_token_budget
        self.min_tail_messages = min_tail_messages
        self.token_counter = token_counter
        self.summarizer_window = summarizer_window
        self.summarizer_timeout = summarizer_timeout

    async def __call__(
        self, messages: Sequence[Message], context: CompactContext | None = None
    ) -> CompactResult | None:
        """Summarize the middle of ``messages``; None when there is nothing to compact.

        :raises Exception: whatever ``summarize`` raised.
        """
        context = context or CompactContext()
        outline = await self.count(messages, context)
        span = self.plan(outline, context.token_threshold)
        if span is None:
            return None
        middle = messages[span.start : span.end]
        real = [message for message in middle if not is_compaction_message(message)]
        earlier = [text_of(message) for message in middle if is_compaction_message(message)]
        previous = "\n\n".join(text for text in earlier if text.strip()) or None
        prompt = build_summary_prompt(real, previous, compute_summary_budget(middle))
        summary = await call_summarizer(self.summarize, prompt)
        if not summary.strip():
            return None
        return CompactResult(str(real[0]["id"]), str(real[-1]["id"]), summary)

    @property
    def sections(self) -> Sequence[SummarySection]:
        """The headings of its summaries."""
        return SUMMARY_SECTIONS

    def trigger_tokens(self, threshold: int | None) -> int | None:
        """Compaction starts at this many tokens: above the session's threshold."""
        return None if threshold is None else threshold + 1

    def plan(self, outline: list[OutlineEntry], limit: int | None = None) -> CompactionRange | None:
        """Which part to summarize, positions in ``outline``.

        :param limit: tokens that the whole conversation may take. The tail takes at most 30 % of
            what the head leaves of it: a tail that fills it would compact nothing, again and again.
        """
        budget: float = self.tail_token_budget
        if limit is not None:
            head = sum(entry.tokens for entry in outline[: self.protect_head])
            budget = min(budget, max(0, limit - head) * TAIL_SHARE)
        return plan_head_tail(outline, self.protect_head, budget, self.min_tail_messages)

    async def count(
        self, messages: Sequence[Message], context: CompactContext
    ) -> list[OutlineEntry]:
        """The outline of ``messages``, tokens by the own counter, the session's or the estimate."""
        counter = self.token_counter or context.token_counter
        if counter is None:
            return outline_messages(messages)
        counts: dict[int, int] = {}
        for message in messages:
            counted = counter([message])
            if inspect.isawaitable(counted):
                counted = await counted
            counts[id(message)] = clean_count(counted)
        return outline_messages(messages, lambda message: counts[id(message)])


async def call_summarizer(summarize: Callable[[str], object], prompt: str) -> str:
    """Call a summarizer that may be async.

    :raises SummaryRefusedError: it gave something else than a text.
    """
    answer = summarize(prompt)
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, str):
        raise SummaryRefusedError(f"the summarizer gave {type(answer).__name__}, not a text")
    return answer


def clean_count(value: float) -> int:
    """A counter's answer as whole tokens: not finite or negative counts as 0."""
    return max(0, math.ceil(value)) if math.isfinite(value) else 0
