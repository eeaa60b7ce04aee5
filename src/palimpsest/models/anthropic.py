"""Anthropic's messages, over the platform's fetch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from palimpsest.errors import ConfigurationError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, dump_json
from palimpsest.models.anthropic_events import EventReader
from palimpsest.models.convert import (
    Block,
    CallBlock,
    FileBlock,
    ReasoningBlock,
    ResultBlock,
    TextBlock,
    Turn,
    base64_of,
    file_marker,
    to_turns,
)
from palimpsest.models.interface import ModelEvent, ModelRequest
from palimpsest.models.provider_model import ProviderModel
from palimpsest.models.retry import RetryPolicy
from palimpsest.models.transport import Secret, TimeLimits, parse_json, stream_events
from palimpsest.tools.tool import Tool

ANTHROPIC_URL = "https://api.anthropic.com"
"""The base URL where none is given."""

API_VERSION = "2023-06-01"
"""The version of the interface that this module speaks."""

_CACHE = {"type": "ephemeral"}


class AnthropicModel(ProviderModel):
    """A model behind ``{base_url}/v1/messages``.

    The system prompt and the newest message are marked for the provider's prompt cache, so that a
    conversation that only grows is read from it.

    :param host: what sends the requests.
    :param model: the provider's name of the model.
    :param api_key: the key.
    :param base_url: the address up to ``/v1``.
    :param context_window: tokens that a request and its answer may have together.
    :param max_output_tokens: tokens that an answer may have.
    :param thinking_tokens: tokens of an answer that the model may think before it speaks; None
        turns that off.
    :param extra: more fields of the request's body, as the provider documents them.
    :raises ConfigurationError: nothing of an answer is left after thinking.
    """

    provider = "anthropic"

    def __init__(
        self,
        host: Host,
        model: str,
        *,
        api_key: str | Secret = "",
        base_url: str = ANTHROPIC_URL,
        context_window: int = 200_000,
        max_output_tokens: int = 16_384,
        thinking_tokens: int | None = None,
        limits: TimeLimits | None = None,
        retries: RetryPolicy | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if thinking_tokens is not None and not 0 < thinking_tokens < max_output_tokens:
            raise ConfigurationError(
                f"thinking_tokens is {thinking_tokens}; it must be less than max_output_tokens, "
                f"{max_output_tokens}"
            )
        super().__init__(
            model,
            context_window=context_window,
            max_output_tokens=max_output_tokens,
            limits=limits,
            retries=retries,
        )
        self._host = host
        self._key = api_key if isinstance(api_key, Secret) else Secret(api_key)
        self._url = f"{base_url.rstrip('/').removesuffix('/v1')}/v1/messages"
        self._thinking = thinking_tokens
        self._extra = dict(extra or {})

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        reader = EventReader(self.provider)
        events = stream_events(
            self._host,
            self.provider,
            self._url,
            headers={"x-api-key": self._key.reveal(), "anthropic-version": API_VERSION},
            payload=self._payload(request),
            secret=self._key,
            limits=self._limits,
            abort=request.abort,
        )
        async with aclosing(events):
            async for event in events:
                for made in reader.take(parse_json(self.provider, event.data)):
                    yield made
        for made in reader.end():
            yield made

    def _payload(self, request: ModelRequest) -> dict[str, Any]:
        limit = min(request.max_output_tokens or self.max_output_tokens, self.max_output_tokens)
        thinking = self._thinking if self._thinking is not None and self._thinking < limit else None
        payload: dict[str, Any] = {
            "model": self._model,
            "max_tokens": limit,
            "messages": anthropic_messages(
                request.messages, thinking=thinking is not None, with_tools=bool(request.tools)
            ),
            "stream": True,
        }
        if request.system.strip():
            payload["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHE}]
        if request.tools:
            payload["tools"] = [_declaration(tool) for tool in request.tools.values()]
            choice = {"required": "any"}.get(request.tool_choice, request.tool_choice)
            payload["tool_choice"] = {"type": choice}
        if thinking is not None:
            payload["thinking"] = {"type": "enabled", "budget_tokens": thinking}
        elif request.temperature is not None:
            payload["temperature"] = request.temperature
        return {**payload, **self._extra}


def anthropic_messages(
    messages: Sequence[Message], *, thinking: bool, with_tools: bool
) -> list[dict[str, Any]]:
    """The conversation in the provider's messages.

    :param thinking: whether the reasoning of the answer that is under way goes along: the
        provider wants it back, signed, as long as that answer's calls are being run.
    :param with_tools: whether the request declares tools. Without them the provider refuses calls
        and results, which are then shown as text.
    """
    turns = to_turns(messages)
    if not with_tools:
        for turn in turns:
            turn.blocks = [_as_text(block) for block in turn.blocks]
    last_question = max(
        (index for index, turn in enumerate(turns) if turn.role == "user"), default=0
    )
    made: list[dict[str, Any]] = []
    for index, turn in enumerate(turns):
        content = _content(turn, thinking=thinking and index > last_question)
        role = "assistant" if turn.role == "assistant" else "user"
        if made and made[-1]["role"] == role:
            made[-1]["content"] += content
        elif content:
            made.append({"role": role, "content": content})
    made[-1]["content"][-1] = {**made[-1]["content"][-1], "cache_control": _CACHE}
    return made


def _as_text(block: Block) -> Block:
    if isinstance(block, CallBlock):
        return TextBlock(f"[called {block.name} with {dump_json(block.input)}]")
    if isinstance(block, ResultBlock):
        return TextBlock(f"[result of {block.name}: {block.text}]")
    return block


def _content(turn: Turn, *, thinking: bool) -> list[dict[str, Any]]:
    return [made for block in turn.blocks if (made := _block(block, thinking=thinking)) is not None]


def _block(block: Block, *, thinking: bool) -> dict[str, Any] | None:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text.rstrip() or text}
        case CallBlock():
            return {
                "type": "tool_use",
                "id": block.call_id,
                "name": block.name,
                "input": block.input,
            }
        case ResultBlock():
            result = {"type": "tool_result", "tool_use_id": block.call_id, "content": block.text}
            return {**result, "is_error": True} if block.is_error else result
        case ReasoningBlock():
            return _thinking_block(block) if thinking else None
        case FileBlock():
            return _file_block(block)


def _thinking_block(block: ReasoningBlock) -> dict[str, Any] | None:
    ours = block.metadata.get("anthropic")
    if not isinstance(ours, Mapping):
        return None
    if "redactedData" in ours:
        return {"type": "redacted_thinking", "data": ours["redactedData"]}
    if "signature" in ours:
        return {"type": "thinking", "thinking": block.text, "signature": ours["signature"]}
    return None


def _file_block(block: FileBlock) -> dict[str, Any]:
    content = base64_of(block.url)
    source: dict[str, Any] = (
        {"type": "url", "url": block.url}
        if content is None
        else {"type": "base64", "media_type": block.media_type, "data": content[1]}
    )
    if block.media_type.startswith("image/"):
        return {"type": "image", "source": source}
    if block.media_type == "application/pdf":
        return {"type": "document", "source": source}
    return {"type": "text", "text": file_marker(block).text}


def _declaration(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }
