"""Turning a range of messages into one checked summary.

A range larger than the summarizer's window is read in pieces, each bringing the summary so far up
to date. Content is fetched in bounded batches, so a range may be larger than memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.head_tail import call_summarizer
from palimpsest.compaction.policy import CompactionPolicy
from palimpsest.compaction.prompts import build_summary_request
from palimpsest.compaction.render import split_transcript
from palimpsest.compaction.standing import (
    add_standing,
    merge_standing,
    split_standing,
    standing_instruction,
)
from palimpsest.compaction.validation import check_summary
from palimpsest.errors import ContextOverflowError, SummaryRefusedError
from palimpsest.messages import Message
from palimpsest.session.compacting.store import PathEntry, PathSource
from palimpsest.tokens import count_message_tokens, count_string_tokens

DEFAULT_WINDOW = 32_000
"""Tokens that a summarizer is taken to read in one call where nothing is known of it."""

DEFAULT_TIMEOUT = 120.0
"""Seconds after which one call of a summarizer is given up."""

BATCH_BYTES = 1_000_000
"""Content read from storage at once."""

MIN_PIECE_TOKENS = 500
"""The smallest piece; below it a summarizer's window is of no use."""

MIN_SUMMARY_TOKENS = 100
"""The smallest budget that is asked for."""

SUMMARY_SHARE = 0.2
"""What the new messages may take in a summary, as a share of their tokens."""

LIMIT_SHARE = 0.6
"""The largest summary as a share of what the rest of the context leaves of its limit."""

MAX_SUMMARY_TOKENS = 12_000
"""The largest budget of a summary, however long the conversation: it is read in every turn."""

SOURCE_SHARE = 0.6
"""The largest budget as a share of what is replaced."""

MAX_KEPT_SHARE = 0.9
"""A summary that keeps more than this share of its source's tokens gains nothing worth a run."""

SMALL_SUMMARY_TOKENS = 24
"""A summary of at most this many tokens is never refused for its size."""

LEAST_GAIN_SHARE = 0.02
"""What a compaction must save, as a share of the context (or of the trigger, if that is less).

Less is not worth a call of the model, and every compaction makes a provider's prompt cache void.
"""

_EXTRACT_TOKENS = 50_000
_REQUEST_OVERHEAD = 700
_OVERFLOW_HINTS = (
    "context length",
    "context_length",
    "context window",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "too many tokens",
)


@dataclass(frozen=True, slots=True)
class RangeSource:
    """What is to be summarized: the rendered entries of a range."""

    entries: Sequence[PathEntry]

    @property
    def tokens(self) -> int:
        """Tokens that the range takes in the context now."""
        return sum(entry.tokens for entry in self.entries)

    @property
    def first_id(self) -> str:
        """The first stored message that the range covers."""
        first = self.entries[0]
        return first.overlay.from_message_id if first.overlay else first.id

    @property
    def last_id(self) -> str:
        """The last stored message that the range covers."""
        last = self.entries[-1]
        return last.overlay.to_message_id if last.overlay else last.id

    def batches(self, store: PathSource) -> Iterator[list[Message]]:
        """The stored messages of the range that no earlier summary covers, in bounded lists."""
        return read_batches(store, [entry for entry in self.entries if entry.overlay is None])


def read_batches(store: PathSource, entries: Sequence[PathEntry]) -> Iterator[list[Message]]:
    """The content of entries in lists of about :data:`BATCH_BYTES`, read as they are asked for."""
    ids: list[str] = []
    size = 0
    for entry in entries:
        if ids and size + entry.bytes > BATCH_BYTES:
            yield store.read_messages(ids)
            ids, size = [], 0
        ids.append(entry.id)
        size += entry.bytes
    if ids:
        yield store.read_messages(ids)


class RangeSummarizer:
    """Summarizes one range by a policy's summarizer, or without a model."""

    def __init__(self, store: PathSource, policy: CompactionPolicy) -> None:
        self._store = store
        self._policy = policy

    async def summarize(self, source: RangeSource, limit: int | None, *, fallback: bool) -> str:
        """The summary to store, standing instructions behind it.

        :param limit: tokens that are left for the summary and for what comes after it.
        :param fallback: do without the policy's summarizer.
        :raises SummaryRefusedError: an answer was not usable as a summary.
        :raises TimeoutError: the summarizer did not answer in time.
        :raises Exception: whatever the summarizer raised.
        """
        earlier: list[str] = []
        standing: list[str] = []
        for entry in source.entries:
            if entry.overlay is not None:
                text, items = split_standing(entry.overlay.summary)
                earlier.append(text)
                standing = merge_standing(standing, items)
        previous = "\n\n".join(text for text in earlier if text.strip())
        budget = self.budget(source, previous, limit)
        extractor = self._policy.summarize
        if fallback or isinstance(extractor, ExtractiveSummarizer):
            if not isinstance(extractor, ExtractiveSummarizer):
                extractor = ExtractiveSummarizer()
            summary, found = await self._extract(extractor, source, previous, budget)
        else:
            summary, found = await self._ask(source, previous, budget)
        return add_standing(check_summary(summary), merge_standing(standing, found))

    @staticmethod
    def budget(source: RangeSource, previous: str, limit: int | None) -> int:
        """Tokens to aim for: the earlier summary and a fifth of what is new, within bounds."""
        carried = count_string_tokens(previous)
        fresh = max(0, source.tokens - carried)
        wanted = max(MIN_SUMMARY_TOKENS, carried + int(fresh * SUMMARY_SHARE))
        if limit is not None:
            wanted = min(wanted, max(MIN_SUMMARY_TOKENS, int(limit * LIMIT_SHARE)))
        return max(1, min(wanted, MAX_SUMMARY_TOKENS, int(source.tokens * SOURCE_SHARE)))

    async def _extract(
        self, extractor: ExtractiveSummarizer, source: RangeSource, previous: str, budget: int
    ) -> tuple[str, list[str]]:
        summary = previous
        standing: list[str] = []
        piece: list[Message] = []
        used = 0
        for batch in source.batches(self._store):
            for message in batch:
                _collect_standing(message, standing)
                tokens = count_message_tokens(message)
                if piece and used + tokens > _EXTRACT_TOKENS:
                    summary = self._extract_piece(extractor, piece, summary, budget)
                    piece, used = [], 0
                    await asyncio.sleep(0)
                piece.append(message)
                used += tokens
            await asyncio.sleep(0)
        return self._extract_piece(extractor, piece, summary, budget), standing

    def _extract_piece(
        self, extractor: ExtractiveSummarizer, piece: list[Message], previous: str, budget: int
    ) -> str:
        return extractor.summarize_messages(piece, budget, previous, self._policy.sections)

    async def _ask(self, source: RangeSource, previous: str, budget: int) -> tuple[str, list[str]]:
        """Ask the policy's summarizer, in smaller pieces where its window turns out too small."""
        window = self._policy.summarizer_window or DEFAULT_WINDOW
        # The answer and the earlier summary need room beside the piece; half is left for it.
        budget = max(1, min(budget, window // 4))
        piece_tokens = max(MIN_PIECE_TOKENS, window - _REQUEST_OVERHEAD - 2 * budget)
        while True:
            try:
                return await self._ask_in_pieces(source, previous, budget, piece_tokens)
            except Exception as error:
                if not is_overflow(error) or piece_tokens <= MIN_PIECE_TOKENS:
                    raise
                piece_tokens = max(MIN_PIECE_TOKENS, piece_tokens // 2)

    async def _ask_in_pieces(
        self, source: RangeSource, previous: str, budget: int, piece_tokens: int
    ) -> tuple[str, list[str]]:
        summary = previous
        standing: list[str] = []
        for batch in source.batches(self._store):
            for message in batch:
                _collect_standing(message, standing)
            for piece in split_transcript(batch, piece_tokens):
                prompt = build_summary_request(piece, summary, budget, self._policy.sections)
                async with asyncio.timeout(self._policy.summarizer_timeout or DEFAULT_TIMEOUT):
                    answer = await call_summarizer(self._policy.summarize, prompt)
                summary = check_summary(answer)
            await asyncio.sleep(0)
        return summary, standing


class TooLittleGain(Exception):
    """A compaction would save next to nothing."""


def least_gain(tokens: int) -> int:
    """Tokens that a compaction of a context of so many tokens has to save, at least."""
    return int(tokens * LEAST_GAIN_SHARE)


def require_source(source: RangeSource, least: int) -> None:
    """Refuse a range whose new messages have fewer than ``least`` tokens, before it is summarized.

    :raises TooLittleGain: the best of summaries could save no more.
    """
    fresh = sum(entry.tokens for entry in source.entries if entry.overlay is None)
    if fresh < least:
        raise TooLittleGain(f"only {fresh} tokens could be summarized, {least} are worth it")


def require_gain(source: RangeSource, summary: str, least: int = 0) -> None:
    """Refuse a summary that is not worth laying over its source.

    :raises SummaryRefusedError: it is as large as its source, or nearly. A very short one is no
        fault of the summarizer.
    :raises TooLittleGain: it saves fewer than ``least`` tokens.
    """
    tokens = count_message_tokens({"parts": [{"type": "text", "text": summary}]})
    if tokens > SMALL_SUMMARY_TOKENS and (
        tokens >= source.tokens or tokens > source.tokens * MAX_KEPT_SHARE + MIN_SUMMARY_TOKENS
    ):
        raise SummaryRefusedError(
            f"the summary has {tokens} tokens and replaces {source.tokens}: nothing is gained"
        )
    if source.tokens - tokens < least:
        raise TooLittleGain(
            f"the summary has {tokens} tokens and replaces {source.tokens}:"
            f" {least} would have to be saved"
        )


def is_overflow(error: BaseException) -> bool:
    """Whether an error says that a request was larger than the model's window."""
    if isinstance(error, ContextOverflowError):
        return True
    text = str(error).lower()
    return any(hint in text for hint in _OVERFLOW_HINTS)


def _collect_standing(message: Message, found: list[str]) -> None:
    instruction = standing_instruction(message)
    if instruction is not None and instruction not in found:
        found.append(instruction)
