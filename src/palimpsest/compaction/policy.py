"""Policies: when to compact a live session and which part of it.

The engine does the rest the same way for all of them. Head/tail is :class:`.head_tail.
CompactFunction`; the budget-ratio policy for sessions is here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from palimpsest.compaction.boundary import (
    COMPACTION_TARGET_RATIO,
    COMPACTION_TRIGGER_RATIO,
    MIN_KEPT_TURNS,
    TURN_START_SLACK,
)
from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.head_tail import (
    CompactFunction,
    Summarize,
    TokenCounter,
    plan_head_tail,
)
from palimpsest.compaction.outline import OutlineEntry
from palimpsest.compaction.prompts import HANDOFF_SECTIONS, SummarySection
from palimpsest.compaction.ranges import CompactionRange, fit_range
from palimpsest.compaction.records import ModelLimits
from palimpsest.compaction.tool_pairs import find_tool_groups
from palimpsest.errors import CompactionOptionError

__all__ = ["BudgetRatioPolicy", "CompactFunction", "CompactionPolicy", "plan_budget_ratio"]


TIGHT_TAIL_SHARE = 0.2
"""The tail of a turn that must fit, as a share of what fits."""


class CompactionPolicy(Protocol):
    """The two questions a policy answers, and the summarizer it goes with."""

    summarize: Summarize
    """Takes the whole prompt, gives the summary."""

    token_counter: TokenCounter | None
    """Counts messages for the cut; None for the estimates stamped at write."""

    summarizer_window: int | None
    """Tokens that the summarizer reads in one call; None for the engine's default."""

    summarizer_timeout: float | None
    """Seconds after which a call is given up; None for the engine's default."""

    @property
    def sections(self) -> Sequence[SummarySection]:
        """The headings of its summaries."""
        ...

    def trigger_tokens(self, threshold: int | None) -> int | None:
        """When: compaction starts at this many tokens; None for never by itself.

        :param threshold: the session's ``compact_after``, if set.
        """
        ...

    def plan(self, outline: list[OutlineEntry], limit: int | None = None) -> CompactionRange | None:
        """Where: the part of the rendered conversation to summarize, if any.

        :param limit: the tokens at which compaction starts, if known.
        """
        ...


class BudgetRatioPolicy:
    """The compaction article's policy for a session: ratios of the model's input budget.

    Starts at 85 % of the input budget and keeps about 30 %, at least two whole turns, cutting at
    the start of a turn where one lies near the target.
    """

    def __init__(
        self,
        summarize: Summarize,
        model_limits: ModelLimits | Mapping[str, Any] | int,
        *,
        trigger_ratio: float = COMPACTION_TRIGGER_RATIO,
        target_ratio: float = COMPACTION_TARGET_RATIO,
        min_turns: int = MIN_KEPT_TURNS,
        token_counter: TokenCounter | None = None,
        summarizer_window: int | None = None,
        summarizer_timeout: float | None = None,
    ) -> None:
        """Make the policy for one model.

        :param model_limits: from ``get_model_token_limits``, or the input budget in tokens.
        :raises CompactionOptionError: a budget or ratio that leaves nothing to keep.
        """
        if isinstance(model_limits, int):
            limits = ModelLimits(input_budget=model_limits)
        else:
            limits = ModelLimits.model_validate(model_limits)
        if not callable(summarize):
            raise CompactionOptionError("BudgetRatioPolicy: 'summarize' must be a function")
        if limits.input_budget <= 0:
            raise CompactionOptionError(
                f"BudgetRatioPolicy: the input budget must be above 0, got {limits.input_budget}"
            )
        if not 0 < target_ratio < trigger_ratio <= 1:
            raise CompactionOptionError(
                "BudgetRatioPolicy: 0 < target_ratio < trigger_ratio <= 1 is needed, got "
                f"{target_ratio} and {trigger_ratio}"
            )
        if min_turns < 1:
            raise CompactionOptionError(f"BudgetRatioPolicy: min_turns is at least 1: {min_turns}")
        self.summarize = summarize
        self.input_budget = limits.input_budget
        self.trigger_ratio = trigger_ratio
        self.target_ratio = target_ratio
        self.min_turns = min_turns
        self.token_counter = token_counter
        self.summarizer_window = summarizer_window
        self.summarizer_timeout = summarizer_timeout

    @property
    def sections(self) -> Sequence[SummarySection]:
        """The headings of its summaries: those of a hand-off."""
        return HANDOFF_SECTIONS

    def trigger_tokens(self, threshold: int | None) -> int | None:
        """85 % of the input budget, or above the session's own threshold if that is lower."""
        own = math.ceil(self.input_budget * self.trigger_ratio)
        return own if threshold is None else min(own, threshold + 1)

    def plan(self, outline: list[OutlineEntry], limit: int | None = None) -> CompactionRange | None:
        """Everything before the cut that :func:`plan_budget_ratio` finds."""
        full = self.input_budget * self.trigger_ratio
        if limit is not None:
            full = min(full, limit)
        # Below the trigger, where only a request compacts, the same share of less is kept.
        full = min(full, sum(entry.tokens for entry in outline))
        return plan_budget_ratio(
            outline, full * self.target_ratio / self.trigger_ratio, self.min_turns
        )


class TightPolicy:
    """Another policy's summarizer with as much summarized as may be: for a turn that must fit."""

    def __init__(self, policy: CompactionPolicy) -> None:
        self.summarize = policy.summarize
        self.token_counter = policy.token_counter
        self.summarizer_window = policy.summarizer_window
        self.summarizer_timeout = policy.summarizer_timeout
        self.sections = policy.sections

    @classmethod
    def of(cls, policy: object) -> TightPolicy:
        """The tight form of a policy; of a plain function, one that needs no model."""
        if not all(hasattr(policy, name) for name in ("plan", "summarize", "sections")):
            policy = CompactFunction(ExtractiveSummarizer())
        return cls(cast("CompactionPolicy", policy))

    def trigger_tokens(self, threshold: int | None) -> int | None:
        """It is never used by itself."""
        return None

    def plan(self, outline: list[OutlineEntry], limit: int | None = None) -> CompactionRange | None:
        """Everything but a fifth of the limit, the newest user message and what it waits for."""
        return plan_head_tail(outline, 0, (limit or 0) * TIGHT_TAIL_SHARE, 1)


def plan_budget_ratio(
    outline: list[OutlineEntry], target_tokens: float, min_turns: int = MIN_KEPT_TURNS
) -> CompactionRange | None:
    """Which part of a rendered conversation to summarize so that about ``target_tokens`` stay.

    At least ``min_turns`` whole turns stay where there are as many and they leave something to
    summarize; otherwise the newest turn alone does.
    """
    groups = find_tool_groups([entry.tools for entry in outline])
    turns = [index for index, entry in enumerate(outline) if entry.is_user]
    cut = _nearest_cut(outline, groups.splits, set(turns), target_tokens)
    latest = turns[-min(min_turns, len(turns))] if turns else len(outline)
    span = fit_range(outline, groups, 0, min(cut, latest))
    if span is None and turns:
        span = fit_range(outline, groups, 0, max(cut, turns[-1]))
    return span


def _nearest_cut(outline: list[OutlineEntry], splits: bytes, turns: set[int], target: float) -> int:
    kept = 0.0
    best, best_distance = len(outline), math.inf
    turn, turn_distance = None, target * TURN_START_SLACK
    for index in range(len(outline) - 1, 0, -1):
        kept += outline[index].tokens
        if splits[index]:
            continue
        distance = abs(kept - target)
        if distance < best_distance:
            best, best_distance = index, distance
        if index in turns and distance <= turn_distance:
            turn, turn_distance = index, distance
    return best if turn is None else turn
