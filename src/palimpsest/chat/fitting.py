"""Making a request fit: what of tool results a model is shown, before every step.

Results stay whole in the conversation. A request never carries more of one result than its tool
allows. When the request as a whole is over the budget, older results are shortened first, oldest
before newer; the results of the newest step only when nothing else helps. What was shortened once
stays shortened in the same run, so that the requests of a turn share their beginning and prompt
caches hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.messages import Message, Part, is_tool_part, tool_name
from palimpsest.tokens import TOKENS_PER_MESSAGE, TokenCounter, count_part_tokens
from palimpsest.tools.tool import DEFAULT_MAX_OUTPUT_CHARS, Tool
from palimpsest.tools.truncate import shorten_output

RUN_MESSAGE_ID = "run"
"""The id that the message being made has in requests; providers do not see ids.

Reasoning is sent back within the same answer only, and only where its provider signed it.
"""

OLDER_OUTPUT_CHARS = (2_000, 400)
"""How much of an older result stays, in characters, at each round of shortening."""

NEWEST_OUTPUT_CHARS = (8_000, 2_000, 400)
"""The same for results that no model has seen yet, when nothing else helps."""

FILL_AFTER_SHORTENING = 0.8
"""Shortening goes on until this share of the budget, so that not every step has to shorten."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Messages as a request shows them."""

    messages: list[Message]
    tokens: int
    """The default counter's estimate of the whole request, not scaled by what was learned."""
    fits: bool


class RequestFitter:
    """Fits the requests of one run; see the module.

    :param tools: the run's tools, for how much of a result each one shows.
    :param fixed_tokens: the estimate of what is in every request: system prompt and tools.
    """

    def __init__(self, counter: TokenCounter, tools: Mapping[str, Tool], fixed_tokens: int) -> None:
        self._counter = counter
        self._tools = tools
        self._fixed = fixed_tokens
        self._limits: dict[str, int] = {}
        # By the part's identity; the part itself is kept, so that the identity stays its own.
        self._shown: dict[tuple[int, int], tuple[Part, Part]] = {}
        self._counts: dict[int, tuple[Part, int]] = {}

    def fit(
        self, messages: Sequence[Message], budget: int, *, newest: int, may_shorten_newest: bool
    ) -> Fitted:
        """The messages, shortened as far as needed to keep the request under ``budget`` tokens.

        :param newest: index of the first message whose results no model has seen yet.
        :param may_shorten_newest: whether their results may be cut below what the tools allow.
        """
        tokens = self._fixed + sum(self._message_tokens(message) for message in messages)
        if self._counter.upper(tokens) > budget:
            tokens = self._shorten_results(messages, tokens, budget, newest, may_shorten_newest)
        shown = [self._shown_message(message) for message in messages]
        return Fitted(shown, tokens, self._counter.upper(tokens) <= budget)

    def _shorten_results(
        self,
        messages: Sequence[Message],
        tokens: int,
        budget: int,
        newest: int,
        may_shorten_newest: bool,
    ) -> int:
        """Shorten results until the request fits with room to spare; its estimate afterwards."""
        aim = int(budget * FILL_AFTER_SHORTENING)
        rounds = [(messages[:newest], limit) for limit in OLDER_OUTPUT_CHARS]
        if may_shorten_newest:
            rounds += [(messages[newest:], limit) for limit in NEWEST_OUTPUT_CHARS]
        for group, limit in rounds:
            for part in _results(group):
                before = self._part_tokens(part)
                self._limits[_call_key(part)] = min(limit, self._limit(part))
                tokens += self._part_tokens(part) - before
                if self._counter.upper(tokens) <= aim:
                    return tokens
        return tokens

    def _limit(self, part: Part) -> int:
        allowed = self._limits.get(_call_key(part))
        if allowed is not None:
            return allowed
        tool = self._tools.get(tool_name(part))
        return DEFAULT_MAX_OUTPUT_CHARS if tool is None else tool.max_output_chars

    def _shown_message(self, message: Message) -> Message:
        parts: Sequence[Part] = message.get("parts", ())
        shown = [self._shown_part(part) for part in parts]
        if all(new is old for new, old in zip(shown, parts, strict=True)):
            return message
        return {**message, "parts": shown}

    def _shown_part(self, part: Part) -> Part:
        if not _is_result(part):
            return part
        key = (id(part), self._limit(part))
        known = self._shown.get(key)
        if known is None:
            output = part["output"]
            shortened = shorten_output(output, key[1])
            known = (part, part if shortened is output else {**part, "output": shortened})
            self._shown[key] = known
        return known[1]

    def _message_tokens(self, message: Message) -> int:
        current = message.get("id") == RUN_MESSAGE_ID
        return TOKENS_PER_MESSAGE + sum(
            self._part_tokens(part)
            for part in message.get("parts", ())
            if part.get("type") != "reasoning" or (current and "providerMetadata" in part)
        )

    def _part_tokens(self, part: Part) -> int:
        shown = self._shown_part(part)
        known = self._counts.get(id(shown))
        if known is None:
            known = (shown, count_part_tokens(shown))
            self._counts[id(shown)] = known
        return known[1]


def _is_result(part: Part) -> bool:
    return "output" in part and is_tool_part(part)


def _results(messages: Sequence[Message]) -> list[Part]:
    return [part for message in messages for part in message.get("parts", ()) if _is_result(part)]


def _call_key(part: Part) -> str:
    return str(part.get("toolCallId"))
