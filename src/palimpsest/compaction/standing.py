"""Standing instructions: what stays word for word in every summary.

System messages, and messages whose metadata has ``pinned: true``, are orders that go on holding,
not events to describe. They are copied into a section of their own behind each summary, taken out
before a summarizer sees the earlier one, and put back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from palimpsest.messages import text_of

STANDING_HEADING = "## Standing Instructions"
"""Opens the section; its items are quoted lines with a blank line between items."""


def standing_instruction(message: Mapping[str, Any]) -> str | None:
    """The text of a message that must not be summarized away, or None."""
    metadata = message.get("metadata")
    pinned = (
        isinstance(metadata, Mapping) and cast("Mapping[str, Any]", metadata).get("pinned") is True
    )
    if message.get("role") != "system" and not pinned:
        return None
    return text_of(message).strip() or None


def split_standing(summary: str) -> tuple[str, list[str]]:
    """A summary without its standing section, and the section's items."""
    head, found, section = summary.partition(STANDING_HEADING + "\n")
    if not found:
        return summary, []
    items: list[str] = []
    rest: list[str] = []
    lines: list[str] = []
    inside = True
    for line in section.split("\n"):
        if inside and line.startswith(">"):
            lines.append(line[2:] if line.startswith("> ") else line[1:])
            continue
        if lines:
            items.append("\n".join(lines))
            lines = []
        if line.strip():
            inside = False
        if not inside:
            rest.append(line)
    if lines:
        items.append("\n".join(lines))
    return "\n".join(filter(None, [head.rstrip(), "\n".join(rest).strip()])), items


def add_standing(summary: str, items: Sequence[str]) -> str:
    """A summary with a standing section behind it; none when there are no items."""
    if not items:
        return summary
    quoted = "\n\n".join("\n".join(f"> {line}" for line in item.split("\n")) for item in items)
    return f"{summary.rstrip()}\n\n{STANDING_HEADING}\n{quoted}"


def merge_standing(*groups: Iterable[str]) -> list[str]:
    """Items of all groups in order, each once."""
    return list(dict.fromkeys(item for group in groups for item in group))
