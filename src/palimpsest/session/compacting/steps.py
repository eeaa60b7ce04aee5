"""Steps: how much of a long backlog one compaction takes, so that no event runs out of CPU time.

A conversation may come with a backlog of any length: an import, or a threshold that is set late.
It is summarized from its beginning in steps, each with a committed overlay of its own that brings
the summary before up to date. What one step reads and summarizes is bounded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.policy import CompactionPolicy
from palimpsest.session.compacting.store import PathEntry

STEP_MESSAGES = 2_000
"""The most messages of one step."""

STEP_TOKENS = 100_000
"""The most tokens of one step."""

STEP_BYTES = 8_000_000
"""The most content of one step, as JSON: tokens do not tell the size of files and tool results."""

STEP_WINDOWS = 4
"""The most tokens of one step in windows of the summarizer, about twice as many calls of it."""

LAST_STEP_SHARE = 1.5
"""A backlog of up to so many steps is taken in one: half a step would be a call for little."""

NEIGHBOURS = 100
"""Messages on either side of a step that are looked at for tool calls which reach into it."""

NEIGHBOUR_BYTES = 1_000_000
"""The most content of these neighbours, on either side."""


@dataclass(frozen=True, slots=True)
class StepBounds:
    """The most that one step takes. At least one message is taken, however large it is."""

    messages: float
    tokens: float
    bytes: float

    @classmethod
    def of(cls, policy: CompactionPolicy, default_window: int) -> StepBounds:
        """The bounds where a policy's summarizer does the work.

        :param default_window: tokens that a summarizer reads where nothing is known of it.
        """
        tokens = STEP_TOKENS
        if not isinstance(policy.summarize, ExtractiveSummarizer):
            tokens = min(tokens, STEP_WINDOWS * (policy.summarizer_window or default_window))
        return cls(STEP_MESSAGES, tokens, STEP_BYTES)

    def times(self, factor: float) -> StepBounds:
        """Bounds larger by a factor."""
        return StepBounds(self.messages * factor, self.tokens * factor, self.bytes * factor)

    def end_of_step(self, entries: Sequence[PathEntry], start: int, end: int) -> int:
        """Where a step that begins at ``start`` ends, at the latest at ``end``.

        Earlier summaries are not counted: they are brought up to date, not summarized.
        """
        if self.times(LAST_STEP_SHARE)._reach(entries, start, end) == end:
            return end
        return self._reach(entries, start, end)

    def _reach(self, entries: Sequence[PathEntry], start: int, end: int) -> int:
        messages = tokens = size = 0
        for index in range(start, end):
            entry = entries[index]
            if entry.overlay is not None:
                continue
            messages += 1
            tokens += entry.tokens
            size += entry.bytes
            over = messages > self.messages or tokens > self.tokens or size > self.bytes
            if over and messages > 1:
                return index
        return end


def neighbourhood(entries: Sequence[PathEntry], start: int, end: int) -> tuple[int, int]:
    """The positions ``start`` to ``end`` with their neighbours on both sides."""
    low, high, before, behind = start, end, 0, 0
    while low > 0 and start - low < NEIGHBOURS and before < NEIGHBOUR_BYTES:
        low -= 1
        before += entries[low].bytes
    while high < len(entries) and high - end < NEIGHBOURS and behind < NEIGHBOUR_BYTES:
        behind += entries[high].bytes
        high += 1
    return low, high
