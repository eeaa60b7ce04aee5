"""The chat-completions format: conversation into messages, streamed chunks into events.

OpenAI's own format, and that of most other servers; Workers AI speaks a variant of it. Whatever
such servers are known to leave out or to send differently is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.errors import ModelResponseError, RefusalError
from palimpsest.messages import Message, dump_json
from palimpsest.models.convert import (
    Block,
    CallBlock,
    FileBlock,
    ResultBlock,
    TextBlock,
    base64_of,
    file_marker,
    to_turns,
)
from palimpsest.models.failures import classify_failure, error_in
from palimpsest.models.interface import (
    FilePart,
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
from palimpsest.tools.tool import Tool

_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}


def chat_messages(messages: Sequence[Message], system: str) -> list[dict[str, Any]]:
    """The conversation in the format's messages, the system prompt first."""
    made: list[dict[str, Any]] = []
    if system.strip():
        made.append({"role": "system", "content": system})
    for turn in to_turns(messages):
        if turn.role == "tool":
            made += [
                {"role": "tool", "tool_call_id": block.call_id, "content": block.text}
                for block in turn.blocks
                if isinstance(block, ResultBlock)
            ]
        elif turn.role == "assistant":
            made.append(_assistant_message(turn.blocks))
        else:
            made.append({"role": "user", "content": _user_content(turn.blocks)})
    return made


def chat_tools(tools: Mapping[str, Tool]) -> list[dict[str, Any]]:
    """The declarations of tools."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools.values()
    ]


def _assistant_message(blocks: Sequence[Block]) -> dict[str, Any]:
    text = "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    calls = [
        {
            "id": block.call_id,
            "type": "function",
            "function": {"name": block.name, "arguments": dump_json(block.input)},
        }
        for block in blocks
        if isinstance(block, CallBlock)
    ]
    # Some servers refuse null, some refuse an empty text beside calls: leave it out there.
    message: dict[str, Any] = {"role": "assistant"}
    if text or not calls:
        message["content"] = text
    if calls:
        message["tool_calls"] = calls
    return message


def _user_content(blocks: Sequence[Block]) -> str | list[dict[str, Any]]:
    if all(isinstance(block, TextBlock) for block in blocks):
        return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [_user_block(block) for block in blocks]


def _user_block(block: Block) -> dict[str, Any]:
    if isinstance(block, FileBlock):
        if block.media_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": block.url}}
        content = base64_of(block.url)
        if block.media_type.startswith("audio/") and content is not None:
            form = "mp3" if "mpeg" in block.media_type else block.media_type.split("/")[1]
            return {"type": "input_audio", "input_audio": {"data": content[1], "format": form}}
        if block.media_type == "application/pdf" and content is not None:
            return {
                "type": "file",
                "file": {"filename": block.name or "document.pdf", "file_data": block.url},
            }
        return {"type": "text", "text": file_marker(block).text}
    return {"type": "text", "text": block.text if isinstance(block, TextBlock) else ""}


@dataclass(slots=True)
class _OpenCall:
    call_id: str
    name: str
    text: str = ""
    started: bool = False


class ChunkReader:
    """Reads the chunks of one streamed answer.

    :param provider: who answers, for errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: dict[object, _OpenCall] = {}
        self._reason: FinishReason | None = None
        self._refusal = ""
        self._done = False
        self._usage: Usage | None = None

    def take(self, chunk: Any) -> Iterator[ModelEvent]:
        """The events of one chunk, or of a whole answer that was not streamed.

        :raises ModelError: the chunk holds an error.
        """
        problem = error_in(chunk)
        if problem is not None:
            raise classify_failure(self._provider, problem)
        if not isinstance(chunk, Mapping):
            raise ModelResponseError(f"{self._provider} sent {chunk!r:.100} instead of an object")
        fields = cast("Mapping[str, Any]", chunk)
        usage = fields.get("usage")
        if isinstance(usage, Mapping):
            self._usage = read_usage(cast("Mapping[str, Any]", usage))
        choices = fields.get("choices")
        if not isinstance(choices, list) or not choices:
            return
        choice: Any = cast("list[Any]", choices)[0]
        if not isinstance(choice, Mapping):
            raise ModelResponseError(f"{self._provider} sent a choice that is no object")
        chosen = cast("Mapping[str, Any]", choice)
        delta = chosen.get("delta") or chosen.get("message")
        if isinstance(delta, Mapping):
            yield from self._take_delta(cast("Mapping[str, Any]", delta))
        reason = chosen.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = _REASONS.get(reason, "other")

    def done(self) -> None:
        """The server said that this is all."""
        self._done = True

    def end(self) -> Iterator[ModelEvent]:
        """The events that close the answer.

        :raises ModelResponseError: the stream just stopped.
        :raises RefusalError: the model or the provider's filter refused.
        """
        if self._refusal:
            raise RefusalError(f"the model refused: {self._refusal.strip()}")
        if self._reason is None and not self._done:
            raise ModelResponseError(
                f"{self._provider}: the stream stopped in the middle of the answer"
            )
        for call in self._calls.values():
            yield from self._start(call)
            yield finish_call(call.call_id, call.name, call.text)
        if self._usage is not None:
            yield self._usage
        if self._reason == "content-filter":
            raise RefusalError(f"{self._provider} stopped the answer: its content filter refused")
        yield Finish(self._reason or ("tool-calls" if self._calls else "stop"))

    def _take_delta(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            yield ReasoningDelta(reasoning)
        refusal = delta.get("refusal")
        if isinstance(refusal, str):
            self._refusal += refusal
        content = delta.get("content")
        if isinstance(content, list):
            content = "".join(
                str(cast("Mapping[str, Any]", piece).get("text") or "")
                for piece in cast("list[Any]", content)
                if isinstance(piece, Mapping)
            )
        if isinstance(content, str) and content:
            yield TextDelta(content)
        for image in _listed(delta.get("images")):
            url = image.get("image_url")
            address = cast("Mapping[str, Any]", url).get("url") if isinstance(url, Mapping) else url
            if isinstance(address, str):
                read = base64_of(address)
                yield ReasoningEnd()
                yield FilePart(read[0] if read else "image/png", address)
        for position, piece in enumerate(_listed(delta.get("tool_calls"))):
            yield from self._take_call(piece, position)

    def _take_call(self, piece: Mapping[str, Any], position: int) -> Iterator[ModelEvent]:
        identifier = piece.get("id")
        function = piece.get("function")
        fields = cast("Mapping[str, Any]", function) if isinstance(function, Mapping) else piece
        name = fields.get("name")
        key: object = piece.get("index")
        if key is None:
            # Without an index, an id begins a call and a piece without one goes on with the last.
            key = identifier or (list(self._calls)[-1] if self._calls and not name else position)
        call = self._calls.get(key)
        if call is None:
            call = _OpenCall(str(identifier or f"call-{len(self._calls)}"), "")
            self._calls[key] = call
        if isinstance(name, str) and name and not call.started:
            call.name += name
        arguments = fields.get("arguments")
        if arguments is None:
            arguments = fields.get("parameters")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if arguments:
            yield from self._start(call)
            call.text += arguments
            yield ToolCallDelta(call.call_id, arguments)

    def _start(self, call: _OpenCall) -> Iterator[ModelEvent]:
        if not call.started:
            call.started = True
            yield ToolCallStart(call.call_id, call.name)


def read_usage(usage: Mapping[str, Any]) -> Usage:
    """Usage as reported; counts of zero, which some servers send for "unknown", become None."""

    def count(fields: Any, name: str) -> int | None:
        if not isinstance(fields, Mapping):
            return None
        return token_count(cast("Mapping[str, Any]", fields).get(name))

    return Usage(
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        cached_input_tokens=count(usage.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _listed(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        return []
    return [
        cast("Mapping[str, Any]", entry)
        for entry in cast("list[Any]", value)
        if isinstance(entry, Mapping)
    ]
