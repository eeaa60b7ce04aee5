"""What a policy sees of a conversation: one light entry for each message, without its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from palimpsest.compaction.tool_pairs import NO_TOOLS, ToolUse, describe_tool_use
from palimpsest.messages import is_compaction_message
from palimpsest.tokens import estimate_message_tokens


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """One message as it stands in the context: a stored one, or an overlay's summary."""

    id: str
    role: str
    tokens: int
    """Estimated tokens, the overhead per message included."""

    tools: ToolUse = NO_TOOLS
    is_overlay: bool = False

    @property
    def is_user(self) -> bool:
        """Whether a person wrote it, so that a turn starts here."""
        return self.role == "user" and not self.is_overlay and not self.tools.results


def outline_message(
    message: Mapping[str, Any],
    count: Callable[[Mapping[str, Any]], int] = estimate_message_tokens,
) -> OutlineEntry:
    """The outline of one message; ``count`` gives its tokens."""
    return OutlineEntry(
        id=str(message.get("id", "")),
        role=str(message.get("role", "")),
        tokens=count(message),
        tools=describe_tool_use(message),
        is_overlay=is_compaction_message(message),
    )


def outline_messages(
    messages: Iterable[Mapping[str, Any]],
    count: Callable[[Mapping[str, Any]], int] = estimate_message_tokens,
) -> list[OutlineEntry]:
    """The outline of a conversation, in order."""
    return [outline_message(message, count) for message in messages]


def newest_user_index(outline: list[OutlineEntry]) -> int | None:
    """Where the newest message of a person stands, or None."""
    for index in range(len(outline) - 1, -1, -1):
        if outline[index].is_user:
            return index
    return None
