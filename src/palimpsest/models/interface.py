"""The model interface: one request in, a stream of events out.

Adapters turn a provider's wire format into these events; nothing above this package knows a
provider. Messages go in as they are stored (AI SDK ``UIMessage`` shape).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from palimpsest.abort import Abort
from palimpsest.messages import Message, text_message
from palimpsest.tools.tool import Tool

FinishReason = Literal["stop", "length", "tool-calls", "content-filter", "error", "other"]
"""Why a model ended a step, in the AI SDK's words."""

ToolChoice = Literal["auto", "none", "required"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """The next piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningEnd:
    """The end of one block of reasoning.

    ``metadata`` is what the provider wants back with it in the same turn (a signature), by
    provider: ``{"anthropic": {"signature": "..."}}``.
    """

    metadata: Mapping[str, Any] = field(default_factory=lambda: dict[str, Any]())


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call to a tool begins; its arguments follow in pieces."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of a call's arguments, as JSON text."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call.

    ``input`` is the parsed arguments. Where they are no JSON object, ``input`` is the text as it
    came and ``error`` says what is wrong with it.
    """

    call_id: str
    name: str
    input: Any
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file that the model made; ``url`` may be a ``data:`` URL."""

    media_type: str
    url: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider reports them, for one step. None where it does not say."""

    input_tokens: int | None = None
    """All of the request's tokens, cached ones included."""
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Input and output together; None where the provider reported neither, or zero."""
        total = (self.input_tokens or 0) + (self.output_tokens or 0)
        return total or None


MAX_TOKEN_COUNT = 10**12
"""A larger count is no count of one request's tokens."""


def token_count(value: Any) -> int | None:
    """A count as a provider sent it; None where it is zero, absurd, or no whole number."""
    return value if type(value) is int and 0 < value <= MAX_TOKEN_COUNT else None


@dataclass(frozen=True, slots=True)
class Finish:
    """The step ended as the model meant it to."""

    reason: FinishReason


ModelEvent = (
    TextDelta
    | ReasoningDelta
    | ReasoningEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCall
    | FilePart
    | Usage
    | Finish
)


@dataclass(slots=True)
class ModelRequest:
    """One step's request."""

    messages: Sequence[Message]
    system: str = ""
    tools: Mapping[str, Tool] = field(default_factory=lambda: dict[str, Tool]())
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    abort: Abort = field(default_factory=Abort)


class Model(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """Provider and model, as in the configuration: ``openai:gpt-5.6``."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that a request and its answer may have together."""
        ...

    @property
    def max_output_tokens(self) -> int:
        """Tokens that an answer may have."""
        ...

    @property
    def max_input_tokens(self) -> int:
        """Tokens that a request may have, room for the answer being kept."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send the request and yield what comes back; the last event is :class:`Finish`.

        Closing the iterator, cancelling the task or setting ``request.abort`` stops the request
        at the provider.

        :raises ModelError: one of its subclasses says why there is no (whole) answer.
        :raises AbortedError: ``request.abort`` was set.
        """
        ...


async def generate_text(
    model: Model,
    prompt: str | Sequence[Message],
    *,
    system: str = "",
    max_output_tokens: int | None = None,
    temperature: float | None = None,
    abort: Abort | None = None,
) -> str:
    """The whole text of one answer without tools: for summaries and other single questions.

    :raises ModelError: there is no whole answer.
    :raises AbortedError: ``abort`` was set.
    """
    messages = [text_message("prompt", "user", prompt)] if isinstance(prompt, str) else prompt
    request = ModelRequest(
        messages,
        system=system,
        tool_choice="none",
        max_output_tokens=max_output_tokens,
        temperature=temperature,
        abort=abort or Abort(),
    )
    pieces: list[str] = []
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
    return "".join(pieces)
