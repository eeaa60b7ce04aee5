"""Token estimates that fit in a Worker.

No tokenizer is loaded: one would cost 80 to 120 MB of the isolate's 128 MB. The Sessions
document's heuristic is ``max(characters / 4, words * 1.3)``, plus 4 for each message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from palimpsest.messages import dump_json, is_tool_part

CHARS_PER_TOKEN = 4
"""Characters (UTF-16 units) that the heuristic takes for one token."""

WORDS_TOKEN_MULTIPLIER = 1.3
"""Tokens that the heuristic takes for one word."""

TOKENS_PER_MESSAGE = 4
"""Overhead of one message, in tokens."""


def utf16_length(text: str) -> int:
    """The length that JavaScript's ``length`` gives: astral characters count two units."""
    if text.isascii():
        return len(text)
    return len(text) + sum(1 for character in text if character > "\uffff")


def estimate_string_tokens(text: str) -> int:
    """Tokens in a text by the documented heuristic; 0 for the empty text (Sessions document)."""
    if not text:
        return 0
    words = len(text.split())
    return math.ceil(max(utf16_length(text) / CHARS_PER_TOKEN, words * WORDS_TOKEN_MULTIPLIER))


def estimate_message_tokens(messages: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> int:
    """Tokens in one message, or in several, by the documented heuristic (Sessions document).

    Each costs 4 plus its parts: ``text`` and ``reasoning`` by their text, tool calls by input and
    output as JSON, other parts by their ``text`` or ``result`` where they have one.
    """
    if isinstance(messages, Mapping):
        return TOKENS_PER_MESSAGE + sum(_part_tokens(part) for part in messages.get("parts", ()))
    return sum(estimate_message_tokens(message) for message in messages)


def _part_tokens(part: Mapping[str, Any]) -> int:
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        value = part.get("text")
        return _value_tokens(part.get("reasoning") if value is None else value)
    if is_tool_part(part):
        output = part.get("output")
        return _value_tokens(part.get("input")) + _value_tokens(
            part.get("result") if output is None else output
        )
    value = part.get("text")
    return _value_tokens(part.get("result") if value is None else value)


def _value_tokens(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return estimate_string_tokens(value)
    try:
        return estimate_string_tokens(dump_json(value))
    except (TypeError, ValueError):
        return estimate_string_tokens(str(value))
