"""Tool calls and their results: which belong together, and what may be cut between.

A provider refuses a prompt in which a tool result stands without its call, or a call without its
result. With AI SDK messages both usually share one part; other producers store the results in
messages of their own, several to one call message. A *group* is a message that makes calls and
all messages that hold their results: it is never split, however many results it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palimpsest.messages import Message, Part, is_tool_part, tool_parts

_ANSWERED_STATES = frozenset({"output-available", "output-error", "output-denied"})
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What one message does with tools, by tool call id."""

    calls: frozenset[str] = _NOTHING
    """Calls made here whose result is not in the same part."""

    answered: frozenset[str] = _NOTHING
    """Calls made here that carry their own result, error or denial."""

    results: frozenset[str] = _NOTHING
    """Results given here to calls of earlier messages."""

    @property
    def any(self) -> bool:
        """Whether the message holds any tool part with an id."""
        return bool(self.calls or self.answered or self.results)


NO_TOOLS = ToolUse()
"""Of a message without tool parts."""


def has_result(part: Mapping[str, Any]) -> bool:
    """Whether a tool part carries a result, an error or a denial."""
    if part.get("type") == "tool-result" or part.get("state") in _ANSWERED_STATES:
        return True
    return any(part.get(key) is not None for key in ("output", "result", "errorText"))


def describe_tool_use(message: Mapping[str, Any]) -> ToolUse:
    """The calls and results of one message."""
    calls: set[str] = set()
    answered: set[str] = set()
    results: set[str] = set()
    for part in tool_parts(message):
        identifier = part.get("toolCallId")
        if not isinstance(identifier, str) or not identifier:
            continue
        if _is_bare_result(message, part):
            results.add(identifier)
        elif has_result(part):
            answered.add(identifier)
        else:
            calls.add(identifier)
    if not (calls or answered or results):
        return NO_TOOLS
    # A message that holds a call and, in another part, its result is complete in itself.
    within = calls & results
    return ToolUse(
        frozenset(calls - within), frozenset(answered | within), frozenset(results - within)
    )


def _is_bare_result(message: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Whether the part answers a call without being that call."""
    return part.get("type") == "tool-result" or message.get("role") == "tool"


@dataclass(frozen=True, slots=True)
class ToolGroups:
    """Where a conversation may be cut, and which calls still wait for a result."""

    splits: bytes
    """``splits[i]`` is 1 where a cut before message ``i`` would part a group (length n + 1)."""

    open_calls: tuple[tuple[int, str], ...]
    """(message index, tool call id) of each call that no later message answers."""

    orphan_results: tuple[tuple[int, str], ...]
    """(message index, tool call id) of each result without an earlier call."""

    def align_forward(self, index: int) -> int:
        """The first cut at or after ``index`` that splits no group."""
        while index < len(self.splits) - 1 and self.splits[index]:
            index += 1
        return index

    def align_backward(self, index: int) -> int:
        """The last cut at or before ``index`` that splits no group."""
        while index > 0 and self.splits[index]:
            index -= 1
        return index


def find_tool_groups(uses: Sequence[ToolUse]) -> ToolGroups:
    """Pair calls with results over a whole conversation.

    A call id may be used again later: a result belongs to the newest earlier call of its id, and
    several results may answer one call.
    """
    size = len(uses)
    starts = [0] * (size + 2)
    waiting: dict[str, int] = {}
    seen: dict[str, int] = {}
    orphans: list[tuple[int, str]] = []
    superseded: list[tuple[int, str]] = []
    for index, use in enumerate(uses):
        for identifier in use.results:
            owner = seen.get(identifier)
            if owner is None:
                orphans.append((index, identifier))
                continue
            waiting.pop(identifier, None)
            starts[owner + 1] += 1
            starts[index + 1] -= 1
        for identifier in use.answered:
            seen[identifier] = index
        for identifier in use.calls:
            if identifier in waiting:
                superseded.append((waiting[identifier], identifier))
            waiting[identifier] = index
            seen[identifier] = index
    splits = bytearray(size + 1)
    depth = 0
    for index in range(size + 1):
        depth += starts[index]
        splits[index] = 1 if depth else 0
    open_calls = [*superseded, *((index, identifier) for identifier, index in waiting.items())]
    return ToolGroups(bytes(splits), tuple(sorted(open_calls)), tuple(orphans))


def groups_of(messages: Iterable[Mapping[str, Any]]) -> ToolGroups:
    """:func:`find_tool_groups` of the messages themselves."""
    return find_tool_groups([describe_tool_use(message) for message in messages])


def sanitize_tool_pairs(messages: Sequence[Message]) -> list[Message]:
    """Make a message list acceptable to providers: every result has a call, every call a result.

    Results whose call is missing are left out, also when the call only comes later. After a
    message with unanswered calls a stub follows for each: an assistant message ``stub-<call id>``
    with one ``tool-result`` part that says the result is not there. Messages left without parts
    are dropped. The given messages are not changed (Sessions document, ``sanitizeToolPairs``).
    """
    groups = groups_of(messages)
    orphans: dict[int, set[str]] = {}
    for index, identifier in groups.orphan_results:
        orphans.setdefault(index, set()).add(identifier)
    unanswered: dict[int, list[str]] = {}
    for index, identifier in groups.open_calls:
        unanswered.setdefault(index, []).append(identifier)

    output: list[Message] = []
    for index, message in enumerate(messages):
        kept = _without_orphans(message, orphans.get(index, set()))
        if kept is not None:
            output.append(kept)
        output.extend(_stub(message, identifier) for identifier in unanswered.get(index, ()))
    return output


def _without_orphans(message: Message, orphans: set[str]) -> Message | None:
    parts: list[Part] = list(message.get("parts", ()))
    if orphans:
        parts = [
            part
            for part in parts
            if not (
                is_tool_part(part)
                and _is_bare_result(message, part)
                and part.get("toolCallId") in orphans
            )
        ]
    if not parts:
        return None
    return {**message, "parts": parts} if orphans else message


def _stub(message: Message, identifier: str) -> Message:
    name = "unknown"
    for part in tool_parts(message):
        if part.get("toolCallId") == identifier:
            name = str(part.get("toolName") or str(part.get("type", "")).removeprefix("tool-"))
    return {
        "id": f"stub-{identifier}",
        "role": "assistant",
        "parts": [
            {
                "type": "tool-result",
                "toolCallId": identifier,
                "toolName": name,
                "output": "[no result was recorded for this call]",
            }
        ],
    }
