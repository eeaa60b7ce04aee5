"""Shortening what is old at read time: copies, never the stored messages.

Old tool outputs are shortened keeping their JSON shape (a string stays a string, an object an
object), because tools replay them; old texts are cut at the end and say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from palimpsest.messages import Message, Part, dump_json, is_tool_part

KEEP_RECENT = 4
"""Messages at the end that are left as they are, by default."""

MAX_TOOL_OUTPUT_CHARS = 500
"""The longest tool output kept in older messages, in characters of JSON, by default."""

MAX_TEXT_CHARS = 10_000
"""The longest text kept in older messages, in characters, by default."""

_MAX_DEPTH = 8
_MIN_CHILD_CHARS = 80


def truncate_older_messages(
    messages: Sequence[Message],
    keep_recent: int = KEEP_RECENT,
    max_tool_output_chars: int = MAX_TOOL_OUTPUT_CHARS,
    max_text_chars: int = MAX_TEXT_CHARS,
) -> list[Message]:
    """Copies of ``messages`` in which all but the last ``keep_recent`` are shortened.

    The given messages are not changed. A cut text ends in ``... [truncated N chars]``, N being its
    whole length (Sessions document, ``truncateOlderMessages``).

    :raises ValueError: a limit is negative.
    """
    if min(keep_recent, max_tool_output_chars, max_text_chars) < 0:
        raise ValueError("truncate_older_messages: limits must not be negative")
    border = max(0, len(messages) - keep_recent)
    output: list[Message] = []
    for index, message in enumerate(messages):
        if index >= border:
            output.append(message)
            continue
        parts = [
            _truncate_part(part, max_tool_output_chars, max_text_chars)
            for part in message.get("parts", ())
        ]
        output.append({**message, "parts": parts})
    return output


def _truncate_part(part: Part, max_tool_output_chars: int, max_text_chars: int) -> Part:
    if is_tool_part(part):
        shortened = dict(part)
        for key in ("output", "result"):
            if part.get(key) is not None:
                shortened[key] = truncate_tool_output(part[key], max_tool_output_chars)
        return shortened
    text = part.get("text")
    if part.get("type") == "text" and isinstance(text, str) and len(text) > max_text_chars:
        return {**part, "text": f"{text[:max_text_chars]}... [truncated {len(text)} chars]"}
    return part


def truncate_tool_output(output: Any, max_chars: int = MAX_TOOL_OUTPUT_CHARS) -> Any:
    """``output`` in the same JSON shape, its JSON within about ``max_chars`` characters.

    Objects that lost something carry ``__truncated`` and ``__truncatedChars``; arrays end with
    such an object; strings end in a note that counts towards the limit.
    """
    return _shrink(output, max_chars, 0)


def _json_length(value: Any) -> int:
    try:
        return len(dump_json(value))
    except (TypeError, ValueError):
        return len(str(value))


def _shrink(value: Any, max_chars: int, depth: int) -> Any:
    size = _json_length(value)
    if size <= max_chars:
        return value
    if isinstance(value, str):
        return _shrink_text(value, max_chars)
    if isinstance(value, Mapping):
        return _shrink_object(cast("Mapping[str, Any]", value), max_chars, depth, size)
    if isinstance(value, list | tuple):
        return _shrink_array(cast("Sequence[Any]", value), max_chars, depth, size)
    return value


def _shrink_text(text: str, max_chars: int) -> str:
    note = f"... [truncated {len(text)} chars]"
    return text[: max(0, max_chars - len(note))] + note


def _child_budget(max_chars: int, children: int) -> int:
    return max(_MIN_CHILD_CHARS, math.floor(max_chars / max(1, min(children, 10))))


def _shrink_object(value: Mapping[str, Any], max_chars: int, depth: int, size: int) -> Any:
    marker = {"__truncated": True, "__truncatedChars": size}
    if depth >= _MAX_DEPTH:
        return marker
    budget = _child_budget(max_chars, len(value))
    kept: dict[str, Any] = {}
    used = _json_length(marker)
    for key, child in value.items():
        shrunk = _shrink(child, budget, depth + 1)
        cost = len(key) + 4 + _json_length(shrunk)
        if kept and used + cost > max_chars:
            break
        kept[key] = shrunk
        used += cost
    return {**kept, **marker}


def _shrink_array(value: Sequence[Any], max_chars: int, depth: int, size: int) -> Any:
    marker = {"__truncated": True, "__truncatedChars": size}
    if depth >= _MAX_DEPTH:
        return [marker]
    budget = _child_budget(max_chars, len(value))
    kept: list[Any] = []
    used = _json_length(marker)
    for child in value:
        shrunk = _shrink(child, budget, depth + 1)
        cost = 1 + _json_length(shrunk)
        if kept and used + cost > max_chars:
            break
        kept.append(shrunk)
        used += cost
    return [*kept, marker]
