"""Which stretch of a rendered conversation may be replaced by a summary."""

from __future__ import annotations

from dataclasses import dataclass

from palimpsest.compaction.outline import OutlineEntry, newest_user_index
from palimpsest.compaction.tool_pairs import ToolGroups

OPEN_CALL_TURNS = 3
"""An unanswered call is given up for dead once this many newer user messages followed it."""


@dataclass(frozen=True, slots=True)
class CompactionRange:
    """Positions in a rendered conversation: ``start`` belongs to the range, ``end`` does not."""

    start: int
    end: int


def fit_range(
    outline: list[OutlineEntry], groups: ToolGroups, start: int, end: int
) -> CompactionRange | None:
    """The largest part of ``start`` to ``end`` that may be summarized; None if there is none.

    It never splits a tool group, never holds the newest user message, and never holds an
    unanswered call to which an answer can still come. Of the two sides of a message that must
    stay, the larger is taken; the other waits its turn.
    """
    start = groups.align_forward(max(0, start))
    end = groups.align_backward(min(end, len(outline)))
    for kept in sorted(_kept_positions(outline, groups)):
        if not start <= kept < end:
            continue
        before = CompactionRange(start, groups.align_backward(kept))
        after = CompactionRange(groups.align_forward(kept + 1), end)
        chosen = before if _weight(outline, before) >= _weight(outline, after) else after
        start, end = chosen.start, chosen.end
    if end <= start or all(entry.is_overlay for entry in outline[start:end]):
        return None
    return CompactionRange(start, end)


def _weight(outline: list[OutlineEntry], span: CompactionRange) -> int:
    return sum(entry.tokens for entry in outline[span.start : span.end] if not entry.is_overlay)


def _kept_positions(outline: list[OutlineEntry], groups: ToolGroups) -> set[int]:
    """Positions that no range may hold: the newest user message and live unanswered calls."""
    kept: set[int] = set()
    newest = newest_user_index(outline)
    if newest is not None:
        kept.add(newest)
    users = [index for index, entry in enumerate(outline) if entry.is_user]
    horizon = users[-OPEN_CALL_TURNS] if len(users) >= OPEN_CALL_TURNS else 0
    kept.update(index for index, _ in groups.open_calls if index >= horizon)
    return kept
