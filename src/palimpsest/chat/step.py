"""One model step: events in, UI message chunks out, and the parts that the next step needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from palimpsest.messages import Part
from palimpsest.models.interface import (
    FilePart,
    Finish,
    FinishReason,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)

Chunk = dict[str, Any]
"""One AI SDK UI message chunk."""


UNNAMED = "unnamed"
"""The name of a call for which the model gave none: there is no such tool, which it is told."""


@dataclass(slots=True)
class Ids:
    """Ids that are unique within one run of the loop, and for calls within the conversation."""

    new_id: Callable[[], str]
    seen_calls: set[str] = field(default_factory=lambda: set[str]())
    texts: int = 0
    reasonings: int = 0

    def next_text(self) -> str:
        """The id of the next block of text."""
        self.texts += 1
        return f"text-{self.texts}"

    def next_reasoning(self) -> str:
        """The id of the next block of reasoning."""
        self.reasonings += 1
        return f"reasoning-{self.reasonings}"

    def unique_call(self, given: str) -> str:
        """The provider's id of a call, or a fresh one where it is empty or was used before."""
        identifier = given
        while not identifier or identifier in self.seen_calls:
            identifier = f"call_{self.new_id()}"
        self.seen_calls.add(identifier)
        return identifier


class Step:
    """Turns one step's events into chunks, and remembers what they said."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._text: tuple[str, Part] | None = None
        self._reasoning: tuple[str, Part] | None = None
        self._call_ids: dict[str, str] = {}
        self.parts: list[Part] = [{"type": "step-start"}]
        """The assistant message's parts that this step made."""
        self.calls: list[ToolCall] = []
        """Whole calls, with the conversation's ids, in the model's order."""
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        self.empty = True
        """Whether the step has said nothing yet."""

    def take(self, event: ModelEvent) -> Iterator[Chunk]:
        """The chunks for one event."""
        match event:
            case TextDelta(text=text):
                if text:
                    yield from self._take_text(text)
            case ReasoningDelta(text=text):
                if text:
                    yield from self._take_reasoning(text)
            case ReasoningEnd(metadata=metadata):
                yield from self._end_reasoning(dict(metadata))
            case ToolCallStart(call_id=call_id, name=name):
                yield from self.end_blocks()
                yield self._start_call(call_id, name)
            case ToolCallDelta(call_id=call_id, text=text):
                identifier = self._call_ids.get(call_id)
                if identifier is not None and text:
                    yield {
                        "type": "tool-input-delta",
                        "toolCallId": identifier,
                        "inputTextDelta": text,
                    }
            case ToolCall():
                yield from self._take_call(event)
            case FilePart(media_type=media_type, url=url):
                yield from self.end_blocks()
                self.empty = False
                self.parts.append({"type": "file", "mediaType": media_type, "url": url})
                yield {"type": "file", "mediaType": media_type, "url": url}
            case Usage():
                self.usage = event
            case Finish(reason=reason):
                self.finish_reason = reason

    def _take_text(self, text: str) -> Iterator[Chunk]:
        yield from self._end_reasoning({})
        self.empty = False
        if self._text is None:
            part: Part = {"type": "text", "text": ""}
            self._text = (self._ids.next_text(), part)
            self.parts.append(part)
            yield {"type": "text-start", "id": self._text[0]}
        identifier, part = self._text
        part["text"] += text
        yield {"type": "text-delta", "id": identifier, "delta": text}

    def _take_reasoning(self, text: str) -> Iterator[Chunk]:
        yield from self._end_text()
        self.empty = False
        if self._reasoning is None:
            part: Part = {"type": "reasoning", "text": ""}
            self._reasoning = (self._ids.next_reasoning(), part)
            self.parts.append(part)
            yield {"type": "reasoning-start", "id": self._reasoning[0]}
        identifier, part = self._reasoning
        part["text"] += text
        yield {"type": "reasoning-delta", "id": identifier, "delta": text}

    def _end_text(self) -> Iterator[Chunk]:
        if self._text is not None:
            yield {"type": "text-end", "id": self._text[0]}
            self._text = None

    def _end_reasoning(self, metadata: dict[str, Any]) -> Iterator[Chunk]:
        if self._reasoning is None and metadata:
            # Some providers hide the reasoning itself and give only what they want back.
            part: Part = {"type": "reasoning", "text": ""}
            self._reasoning = (self._ids.next_reasoning(), part)
            self.parts.append(part)
            yield {"type": "reasoning-start", "id": self._reasoning[0]}
        if self._reasoning is None:
            return
        identifier, part = self._reasoning
        chunk: Chunk = {"type": "reasoning-end", "id": identifier}
        if metadata:
            part["providerMetadata"] = metadata
            chunk["providerMetadata"] = metadata
        self._reasoning = None
        yield chunk

    def end_blocks(self) -> Iterator[Chunk]:
        """Close the text and the reasoning that are open."""
        yield from self._end_text()
        yield from self._end_reasoning({})

    def _start_call(self, call_id: str, name: str) -> Chunk:
        self.empty = False
        identifier = self._ids.unique_call(call_id)
        self._call_ids[call_id] = identifier
        return {"type": "tool-input-start", "toolCallId": identifier, "toolName": name or UNNAMED}

    def _take_call(self, call: ToolCall) -> Iterator[Chunk]:
        yield from self.end_blocks()
        if call.call_id not in self._call_ids:
            yield self._start_call(call.call_id, call.name)
        identifier = self._call_ids.pop(call.call_id)
        self.calls.append(ToolCall(identifier, call.name or UNNAMED, call.input, call.error))
