"""What the compaction engine is given and gives: options, requests, outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from palimpsest.compaction.head_tail import CompactResult
from palimpsest.errors import CompactionOptionError
from palimpsest.messages import Message
from palimpsest.session.compacting.run import is_policy
from palimpsest.store.rows import StoredCompaction


@dataclass(frozen=True, slots=True)
class TokenCountInput:
    """What the token counter of ``compact_after`` is given."""

    messages: list[Message]
    system_prompt: str
    context_blocks: list[Any]


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """How one compaction ended. ``error`` is set where it failed, also if a fallback helped."""

    status: Literal["compacted", "nothing", "failed"]
    tokens_before: int
    tokens_after: int
    overlay: StoredCompaction | None = None
    error: Exception | None = None
    reason: str | None = None
    remaining: int = 0
    """Tokens of a long backlog that are not summarized yet: further steps follow by themselves."""

    @property
    def result(self) -> CompactResult | None:
        """The documented form: the range and its summary, or None."""
        if self.overlay is None:
            return None
        stored = self.overlay
        return CompactResult(stored.from_message_id, stored.to_message_id, stored.summary)


def joined(done: CompactionOutcome, step: CompactionOutcome) -> CompactionOutcome:
    """The outcome of several steps, given that of the steps before and of the newest one.

    What was done before stays done, also where the newest step failed.
    """
    if step.status == "compacted":
        return replace(step, tokens_before=done.tokens_before, error=step.error or done.error)
    if step.status == "nothing":
        return replace(done, remaining=0, reason=None)
    return replace(done, error=step.error, reason=f"a further step failed: {step.reason}")


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """One compaction as it was asked for."""

    needed: Callable[[], bool]
    """Asked once it is this request's turn: another may have made it needless."""

    fallback_at: int
    """Failures in a row from which on the summary is made without a model."""

    leaf_id: str | None = None
    request_id: str | None = None
    limit: int | None = None
    tight: bool = False
    """Protect no head and keep as little tail as may be."""

    steps: int = 1
    """How many steps of a long backlog are done at once; the job does the rest."""

    counts_when_cancelled: bool = False
    """Whether a run that is cancelled counts as failed: the job's own time limit cancels it."""


@dataclass(frozen=True, slots=True)
class RoomReport:
    """Whether a turn fits."""

    fits: bool
    tokens: int
    budget: int | None
    compacted: bool = False
    reason: str | None = None
    """Why it does not fit, in plain words."""
    remaining: int = 0
    """Tokens of a long backlog that are being summarized: it will fit when that is done."""


def check_options(policy: Any, threshold: Any, token_counter: Any, on_error: Any) -> None:
    """Refuse a configuration that cannot work, before it is used.

    :raises CompactionOptionError: a threshold below 0 or not whole, or no function.
    """
    if threshold is not None:
        if isinstance(threshold, bool) or not isinstance(threshold, int):
            raise CompactionOptionError(f"compact_after: a whole number is needed: {threshold!r}")
        if threshold < 0:
            raise CompactionOptionError(f"compact_after: the threshold is negative: {threshold}")
    for name, value in (
        ("on_compaction", policy),
        ("token_counter", token_counter),
        ("on_compaction_error", on_error),
    ):
        if value is not None and not callable(value) and not is_policy(value):
            raise CompactionOptionError(f"{name}: a function is needed, got {value!r:.80}")
