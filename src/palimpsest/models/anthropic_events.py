"""The events of Anthropic's streamed messages into this library's events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from palimpsest.errors import ModelResponseError, RefusalError
from palimpsest.models.failures import classify_failure, error_in
from palimpsest.models.interface import (
    Finish,
    FinishReason,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
    token_count,
)
from palimpsest.models.tool_call_text import finish_call

_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}


class EventReader:
    """Reads the events of one streamed answer.

    :param provider: who answers, for errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._open: dict[int, dict[str, Any]] = {}
        self._reason: FinishReason | None = None
        self._input_tokens = 0
        self._cached_tokens = 0
        self._output_tokens = 0

    def take(self, event: Any) -> Iterator[ModelEvent]:
        """The events for one of the provider's, or for a whole message that was not streamed.

        :raises ModelError: it holds an error.
        """
        problem = error_in(event)
        if problem is not None:
            raise classify_failure(self._provider, problem)
        if not isinstance(event, Mapping):
            raise ModelResponseError(f"{self._provider} sent {event!r:.100} instead of an object")
        fields = cast("Mapping[str, Any]", event)
        match fields.get("type"):
            case "message_start":
                self._take_usage(_object(fields.get("message")).get("usage"))
            case "content_block_start":
                yield from self._start(_index(fields), _object(fields.get("content_block")))
            case "content_block_delta":
                yield from self._delta(_index(fields), _object(fields.get("delta")))
            case "content_block_stop":
                yield from self._stop(_index(fields))
            case "message_delta":
                self._take_reason(_object(fields.get("delta")).get("stop_reason"))
                self._take_usage(fields.get("usage"))
            case "message":
                yield from self._take_whole(fields)
            case _:
                pass  # pings, and whatever comes to be

    def end(self) -> Iterator[ModelEvent]:
        """The events that close the answer.

        :raises ModelResponseError: the stream just stopped.
        :raises RefusalError: the model refused.
        """
        if self._reason is None:
            raise ModelResponseError(
                f"{self._provider}: the stream stopped in the middle of the answer"
            )
        for index in list(self._open):
            yield from self._stop(index)
        if self._input_tokens or self._output_tokens:
            yield Usage(
                input_tokens=self._input_tokens or None,
                output_tokens=self._output_tokens or None,
                cached_input_tokens=self._cached_tokens or None,
            )
        if self._reason == "content-filter":
            raise RefusalError(f"{self._provider}: the model refused to answer")
        yield Finish(self._reason)

    def _start(self, index: int, block: Mapping[str, Any]) -> Iterator[ModelEvent]:
        kind = block.get("type")
        self._open[index] = {"type": kind, "json": "", "signature": None, **block}
        if kind == "tool_use":
            yield ToolCallStart(str(block.get("id")), str(block.get("name")))
        elif kind == "text" and block.get("text"):
            yield TextDelta(str(block["text"]))
        elif kind == "thinking" and block.get("thinking"):
            yield ReasoningDelta(str(block["thinking"]))

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        block = self._open.get(index)
        if block is None:
            raise ModelResponseError(f"{self._provider} sent a piece of a block it never began")
        match delta.get("type"):
            case "text_delta":
                yield TextDelta(str(delta.get("text") or ""))
            case "thinking_delta":
                yield ReasoningDelta(str(delta.get("thinking") or ""))
            case "signature_delta":
                block["signature"] = (block["signature"] or "") + str(delta.get("signature") or "")
            case "input_json_delta":
                piece = str(delta.get("partial_json") or "")
                block["json"] += piece
                if piece:
                    yield ToolCallDelta(str(block.get("id")), piece)
            case _:
                pass

    def _stop(self, index: int) -> Iterator[ModelEvent]:
        block = self._open.pop(index, None)
        if block is None:
            return
        if block["type"] == "tool_use":
            text = block["json"]
            given = block.get("input")
            if not text and isinstance(given, Mapping) and given:
                text = json.dumps(given, ensure_ascii=False)
            yield finish_call(str(block.get("id")), str(block.get("name")), text)
        elif block["type"] == "thinking":
            signature = block["signature"]
            yield ReasoningEnd({"anthropic": {"signature": signature}} if signature else {})
        elif block["type"] == "redacted_thinking":
            yield ReasoningEnd({"anthropic": {"redactedData": block.get("data")}})

    def _take_whole(self, message: Mapping[str, Any]) -> Iterator[ModelEvent]:
        content = message.get("content")
        for index, block in enumerate(cast("list[Any]", content or [])):
            yield from self._start(index, _object(block))
            yield from self._stop(index)
        self._take_reason(message.get("stop_reason"))
        self._take_usage(message.get("usage"))

    def _take_reason(self, reason: Any) -> None:
        if isinstance(reason, str) and reason:
            self._reason = _REASONS.get(reason, "other")

    def _take_usage(self, usage: Any) -> None:
        """Counts are cumulative; cached input is reported apart from the rest."""
        fields = _object(usage)

        def count(name: str) -> int:
            return token_count(fields.get(name)) or 0

        cached = count("cache_read_input_tokens")
        whole = count("input_tokens") + cached + count("cache_creation_input_tokens")
        self._input_tokens = max(self._input_tokens, whole)
        self._cached_tokens = max(self._cached_tokens, cached)
        self._output_tokens = max(self._output_tokens, count("output_tokens"))


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _index(fields: Mapping[str, Any]) -> int:
    index = fields.get("index")
    return index if isinstance(index, int) else 0
