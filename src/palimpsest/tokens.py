"""Token estimates that fit in a Worker.

No tokenizer is loaded: one would cost 80 to 120 MB of the isolate's 128 MB. ``estimate_...`` is
the Sessions document's heuristic exactly: ``max(characters / 4, words * 1.3)``, plus 4 for each
message. ``count_...`` is the default counter, of triggers, cuts and budgets alike: it builds on
the heuristic and adds what that does not see. A :class:`TokenCounter` scales the default counter
by what a model's reported usage taught.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from palimpsest.messages import dump_json, is_tool_part, tool_name
from palimpsest.token_media import count_file_tokens
from palimpsest.token_text import SLICE_CHARS, classify_text, count_words, slices_of

CHARS_PER_TOKEN = 4
"""Characters (UTF-16 units) that the heuristic takes for one token."""

WORDS_TOKEN_MULTIPLIER = 1.3
"""Tokens that the heuristic takes for one word."""

TOKENS_PER_CALL = 10
"""Overhead of a tool call and its result in a request: ids and wrapping, in tokens."""

MOST_SHOWN_CHARS = 16_000
"""How much of one tool result a request shows unless the tool says otherwise, in characters."""

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
    words = count_words(text)
    return math.ceil(max(utf16_length(text) / CHARS_PER_TOKEN, words * WORDS_TOKEN_MULTIPLIER))


def estimate_message_tokens(messages: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> int:
    """Tokens in one message, or in several, by the documented heuristic (Sessions document).

    Each costs 4 plus its parts: ``text`` and ``reasoning`` by their text, tool calls by input and
    output as JSON, other parts by their ``text`` or ``result`` where they have one.
    """
    if isinstance(messages, Mapping):
        message = cast("Mapping[str, Any]", messages)
        return TOKENS_PER_MESSAGE + sum(_part_tokens(part) for part in message.get("parts", ()))
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


def count_string_tokens(text: str) -> int:
    """Tokens in a text by the default counter.

    That is the documented heuristic for words of Latin letters. What it does not see is counted
    apart: scripts without spaces, Korean, emoji, hexadecimal and base64 runs; and data with few
    blanks counts at least its words, digit groups and punctuation.
    """
    if len(text) <= SLICE_CHARS:
        return _count_slice(text) if text else 0
    return sum(map(_count_slice, slices_of(text)))


def _count_slice(text: str) -> int:
    words, chars, special_tokens, pieces = classify_text(text)
    plain = max(chars / CHARS_PER_TOKEN, words * WORDS_TOKEN_MULTIPLIER, pieces)
    return math.ceil(plain + special_tokens)


def count_part_tokens(part: Mapping[str, Any]) -> int:
    """Tokens that one part of a message adds to a request, by the default counter.

    Of a tool's result it counts what requests show (see ``palimpsest.tools.truncate``), not what
    is stored; files count by their kind and size.
    """
    kind = part.get("type")
    if kind == "file":
        return count_file_tokens(part)
    if kind in ("text", "reasoning"):
        value = part.get("text")
        return _count_value(part.get("reasoning") if value is None else value)
    if is_tool_part(part):
        return _count_tool_part(part)
    value = part.get("text")
    return _count_value(part.get("result") if value is None else value)


def _count_tool_part(part: Mapping[str, Any]) -> int:
    output = part.get("output")
    if output is None:
        output = part.get("result")
    if output is None:
        output = part.get("errorText")
    return (
        TOKENS_PER_CALL
        + count_string_tokens(tool_name(part))
        + _count_value(part.get("input"))
        + _count_value(output, MOST_SHOWN_CHARS)
    )


def _count_value(value: Any, most_chars: int | None = None) -> int:
    """Tokens of a value as requests write it, up to ``most_chars`` characters of it."""
    if value is None:
        return 0
    if isinstance(value, str):
        text = value
    else:
        try:
            text = dump_json(value)
        except (TypeError, ValueError):
            text = str(value)
    return count_string_tokens(text if most_chars is None else text[:most_chars])


def count_message_tokens(message: Mapping[str, Any]) -> int:
    """Tokens that one message adds to a request, by the default counter."""
    tokens = TOKENS_PER_MESSAGE
    for part in message.get("parts", ()):
        text = part.get("text")
        if part.get("type") == "text" and type(text) is str and len(text) <= SLICE_CHARS:
            tokens += _count_slice(text)  # what most parts are, without further questions
        else:
            tokens += count_part_tokens(part)
    return tokens


def count_tools_tokens(tools: Iterable[Any]) -> int:
    """Tokens that the declarations of tools add to a request.

    :param tools: objects with ``name``, ``description`` and ``parameters`` (a JSON Schema).
    """
    return sum(
        TOKENS_PER_MESSAGE
        + count_string_tokens(tool.name)
        + count_string_tokens(tool.description)
        + count_string_tokens(dump_json(tool.parameters))
        for tool in tools
    )


class Calibration:
    """How far the default counter is off for one model, learned from reported usage.

    Serializable with :meth:`to_json`; one per model name. The newest reports count most, so that
    it follows a conversation that turns from prose to code.
    """

    LOWEST = 0.5
    HIGHEST = 2.0
    """Bounds of the ratio: a report outside of them is of something else than the request."""

    WINDOW = 8
    """About so many reports have weight."""

    FIRST_SPREAD = 0.1
    """The spread that is assumed before anything is known."""

    def __init__(self, ratio: float = 1.0, spread: float = FIRST_SPREAD, samples: int = 0) -> None:
        self._ratio = min(max(ratio, self.LOWEST), self.HIGHEST)
        self._spread = min(max(spread, 0.0), 1.0)
        self._samples = max(samples, 0)

    @property
    def ratio(self) -> float:
        """Reported tokens for each estimated one, within bounds; 1 before anything is known."""
        return self._ratio

    @property
    def spread(self) -> float:
        """How far reports were from what the ratio foretold, as a share of it."""
        return self._spread

    @property
    def samples(self) -> int:
        """Reports learned from."""
        return self._samples

    def observe(self, estimated: int, reported: int | None) -> None:
        """Learn from one request: the estimate and what the provider then reported.

        A report of zero or none, which some providers send, teaches nothing.
        """
        if not reported or reported < 0 or estimated <= 0:
            return
        seen = min(max(reported / estimated, self.LOWEST), self.HIGHEST)
        weight = 1 / min(self._samples + 1, self.WINDOW)
        if self._samples:
            self._spread += (abs(seen / self._ratio - 1) - self._spread) * weight
        self._ratio += (seen - self._ratio) * weight
        self._samples += 1

    def to_json(self) -> dict[str, Any]:
        """The calibration as JSON."""
        return {"ratio": self._ratio, "spread": self._spread, "samples": self._samples}

    @classmethod
    def from_json(cls, value: object) -> Calibration:
        """What :meth:`to_json` gave; anything else makes a fresh calibration."""
        if not isinstance(value, Mapping):
            return cls()
        fields = cast("Mapping[str, Any]", value)
        ratio, spread = fields.get("ratio"), fields.get("spread")
        samples = fields.get("samples")
        if not isinstance(ratio, int | float) or not isinstance(spread, int | float):
            return cls()
        return cls(float(ratio), float(spread), samples if isinstance(samples, int) else 0)


class TokenCounter:
    """The default counter with what was learned about one model."""

    SMALLEST_MARGIN = 0.04
    LARGEST_MARGIN = 0.25

    def __init__(self, calibration: Calibration | None = None) -> None:
        self.calibration = calibration or Calibration()

    def scale(self, tokens: int) -> int:
        """An estimate of the default counter, scaled by the learned ratio."""
        return math.ceil(tokens * self.calibration.ratio)

    def upper(self, tokens: int) -> int:
        """The same with a margin: what a request will hardly exceed.

        The margin is twice the spread of the reports, within bounds.
        """
        margin = max(self.calibration.spread * 2, self.SMALLEST_MARGIN)
        return math.ceil(tokens * self.calibration.ratio * (1 + min(margin, self.LARGEST_MARGIN)))

    def count(
        self,
        messages: Iterable[Mapping[str, Any]],
        system: str = "",
        tools: Iterable[Any] = (),
    ) -> int:
        """Tokens of a whole request, scaled by the learned ratio."""
        tokens = sum(count_message_tokens(message) for message in messages)
        return self.scale(tokens + count_string_tokens(system) + count_tools_tokens(tools))
