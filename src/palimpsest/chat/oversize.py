"""Answers larger than a message may be: kept, with their largest pieces shortened."""

from __future__ import annotations

from typing import Any

from palimpsest.messages import Message, Part, dump_json
from palimpsest.tools.truncate import shorten_output, shorten_text

SHORTENED_OUTPUT_CHARS = 16_000
"""What stays of a tool's result in an answer that is too large, in characters."""

SHORTENED_TEXT_CHARS = 200_000
"""What stays of one text of such an answer, in characters."""


def shortened_to_fit(message: Message, max_bytes: int) -> Message:
    """The message with its largest results, then its longest texts, shortened until it fits.

    What was left out is counted where it was. Files and what else cannot be shortened stay, so that
    the message may still be too large.

    :param max_bytes: of the message's JSON.
    """
    parts: list[Part] = [dict(part) for part in message["parts"]]
    size = _size({**message, "parts": parts})
    for field, most in (("output", SHORTENED_OUTPUT_CHARS), ("text", SHORTENED_TEXT_CHARS)):
        for part in sorted(parts, key=lambda one: -_size(one.get(field))):
            if size <= max_bytes or field not in part:
                break
            before = _size(part[field])
            part[field] = _shortened(part[field], most)
            size -= before - _size(part[field])
    return {**message, "parts": parts}


def _shortened(value: Any, most: int) -> Any:
    return shorten_text(value, most) if isinstance(value, str) else shorten_output(value, most)


def _size(value: Any) -> int:
    return len(dump_json(value).encode())
