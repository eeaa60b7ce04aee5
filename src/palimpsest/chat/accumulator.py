"""UI message chunks in, one message out: the server's copy of what the clients assemble.

The rules are those of the AI SDK's client (wire protocol document, section 2.8): which chunk opens,
extends or closes which part. Two things differ because this side speaks first. A chunk that a
client would refuse (a delta of a part that was never opened) is preceded by what it lacks, and a
tool chunk that repeats what the message already holds is dropped, for some providers replay the
calls of earlier steps.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from palimpsest.messages import Message, Part, is_tool_part, tool_name

Chunk = dict[str, Any]
"""One UI message chunk; ``type`` tells its kind."""

FINISHED_STATES = frozenset({"output-available", "output-error", "output-denied"})
"""States of a tool part that no later chunk takes back."""

INTERRUPTED_TOOL = "The tool call was interrupted before its result was known."


class MessageAccumulator:
    """Assembles one assistant message.

    :param message_id: the message's id; it is stamped into ``start``.
    :param base: the stored message that is continued; it is copied, never changed.
    :param created_at: the time (ms since 1970) that a new message's metadata tells.
    """

    def __init__(
        self, message_id: str, base: Message | None = None, created_at: int | None = None
    ) -> None:
        self._message: Message = (
            {"id": message_id, "role": "assistant", "parts": []}
            if base is None
            else copy.deepcopy(base)
        )
        self.message_id = message_id
        self.is_continuation = base is not None
        self.finish_reason: str | None = None
        """The reason of the last ``finish`` chunk."""
        self.error_text: str | None = None
        """The text of an ``error`` chunk."""
        self.base_changed = False
        """Whether a chunk changed a part that the base already had (see :meth:`accept`)."""
        self._parts: list[Part] = cast("list[Part]", self._message["parts"])
        self._base_parts = len(self._parts)
        self._started = False
        self._created_at = created_at
        self._open: dict[str, tuple[Part, list[str]]] = {}
        self._inputs: dict[str, list[str]] = {}
        self._tools: dict[str, Part] = {}
        self._base_tools: set[str] = set()
        for part in self._parts:
            if is_tool_part(part):
                identifier = str(part.get("toolCallId", ""))
                self._tools[identifier] = part
                self._base_tools.add(identifier)

    @property
    def is_empty(self) -> bool:
        """Whether nothing that a person would see has been added."""
        return all(
            part.get("type") == "step-start" or (part.get("type") in TEXTS and not self._text(part))
            for part in self._parts[self._base_parts :]
        )

    @property
    def parts(self) -> list[Part]:
        """The parts so far; texts still streaming may lag behind until :meth:`message`."""
        return self._parts

    def tool_part(self, tool_call_id: str) -> Part | None:
        """The part of a tool call."""
        return self._tools.get(tool_call_id)

    def is_of_base(self, tool_call_id: str) -> bool:
        """Whether the call was made in the message that is continued."""
        return tool_call_id in self._base_tools

    def accept(self, chunk: Chunk) -> list[Chunk]:
        """Take one chunk and return what the clients are to be sent for it, in order.

        Usually that is the chunk itself. A tool result for a call of the base message is applied
        and not sent (``base_changed`` is set): newer AI SDK clients fail on it, so the caller
        sends the whole message instead.

        :raises ValueError: the chunk has no string ``type`` or lacks a field its type needs.
        """
        kind = chunk.get("type")
        if kind == "text-delta" or kind == "reasoning-delta":
            return self._delta(chunk, kind)
        if not isinstance(kind, str) or not kind:
            raise ValueError(f"a chunk needs a string 'type': {chunk!r:.200}")
        handler = self._HANDLERS.get(kind)
        if handler is not None:
            return handler(self, chunk)
        if kind.startswith("data-"):
            self._data(chunk)
        return [chunk]

    def message(self) -> Message:
        """A copy of the message as it is now."""
        self._flush()
        result = copy.deepcopy(self._message)
        for part in result["parts"]:
            for key in [key for key, value in part.items() if value is None and key in OPTIONAL]:
                del part[key]
        return result

    def base_message(self) -> Message:
        """A copy of the message that is continued, with what became of its own calls."""
        return {**self.message(), "parts": copy.deepcopy(self._parts[: self._base_parts])}

    def close(self, tool_error: str | None = INTERRUPTED_TOOL) -> list[Chunk]:
        """End whatever is still open and return the chunks that tell the clients so.

        :param tool_error: the text given to calls that still had no complete input; None leaves
            them as they are.
        """
        chunks: list[Chunk] = []
        for key, (part, _) in list(self._open.items()):
            end = "text-end" if part["type"] == "text" else "reasoning-end"
            chunks += self.accept({"type": end, "id": key.partition(":")[2]})
        for identifier, part in self._tools.items():
            if part.get("state") == "input-streaming" and tool_error is not None:
                chunks += self.accept(
                    {
                        "type": "tool-input-error",
                        "toolCallId": identifier,
                        "toolName": tool_name(part),
                        "input": part.get("input"),
                        "errorText": tool_error,
                    }
                )
        return chunks

    def interrupt_tools(self, server_tools: bool, text: str = INTERRUPTED_TOOL) -> list[Chunk]:
        """Give every call without a result an error, so that no call stays open for ever.

        :param server_tools: also the calls with complete input (a client cannot answer them).
        """
        chunks = self.close(text)
        if server_tools:
            for identifier, part in self._tools.items():
                if part.get("state") == "input-available":
                    chunks += self.accept(
                        {"type": "tool-output-error", "toolCallId": identifier, "errorText": text}
                    )
        return chunks

    def _flush(self) -> None:
        for part, pieces in self._open.values():
            if len(pieces) > 1:
                pieces[:] = ["".join(pieces)]
            part["text"] = pieces[0] if pieces else ""

    def _text(self, part: Part) -> str:
        for other, pieces in self._open.values():
            if other is part:
                return "".join(pieces)
        return str(part.get("text", ""))

    def _delta(self, chunk: Chunk, kind: str) -> list[Chunk]:
        family = "text" if kind == "text-delta" else "reasoning"
        identifier, delta = chunk.get("id"), chunk.get("delta")
        if not isinstance(identifier, str) or not isinstance(delta, str):
            raise ValueError(f"{kind} needs string 'id' and 'delta': {chunk!r:.200}")
        entry = self._open.get(f"{family}:{identifier}")
        if entry is not None:
            entry[1].append(delta)
            if "providerMetadata" in chunk:
                entry[0]["providerMetadata"] = chunk["providerMetadata"]
            return [chunk]
        opened = self._start_text({"type": f"{family}-start", "id": identifier})
        self._open[f"{family}:{identifier}"][1].append(delta)
        return [*opened, chunk]

    def _start_text(self, chunk: Chunk) -> list[Chunk]:
        family = str(chunk["type"]).removesuffix("-start")
        identifier = _text_field(chunk, "id")
        ended = self._end_text({"type": f"{family}-end", "id": identifier}, known=True)
        part: Part = {"type": family, "text": "", "state": "streaming"}
        if family == "reasoning":
            part["id"] = identifier
        if chunk.get("providerMetadata") is not None:
            part["providerMetadata"] = chunk["providerMetadata"]
        self._parts.append(part)
        self._open[f"{family}:{identifier}"] = (part, [])
        return [*self._ensure_started(), *ended, chunk]

    def _end_text(self, chunk: Chunk, known: bool = False) -> list[Chunk]:
        family = str(chunk["type"]).removesuffix("-end")
        entry = self._open.pop(f"{family}:{_text_field(chunk, 'id')}", None)
        if entry is None:
            return []
        part, pieces = entry
        part["text"] = "".join(pieces)
        part["state"] = "done"
        if chunk.get("providerMetadata") is not None:
            part["providerMetadata"] = chunk["providerMetadata"]
        return [chunk]

    def _start(self, chunk: Chunk) -> list[Chunk]:
        self._merge_metadata(chunk.get("messageMetadata"))
        if self._started:
            if chunk.get("messageMetadata") is None:
                return []
            return [{"type": "message-metadata", "messageMetadata": chunk["messageMetadata"]}]
        self._started = True
        return [self._stamped(chunk)]

    def _stamped(self, chunk: Chunk) -> Chunk:
        """``start`` with our id; in a continuation without one, for clients would take the id as
        a reason to replace the parts they have."""
        stamped = {key: value for key, value in chunk.items() if key != "messageId"}
        if not self.is_continuation:
            stamped["messageId"] = self.message_id
            if self._created_at is not None:
                created = {"createdAt": self._created_at}
                given: Any = stamped.get("messageMetadata")
                stamped["messageMetadata"] = created | (given if isinstance(given, dict) else {})
                self._merge_metadata(stamped["messageMetadata"])
        return stamped

    def _ensure_started(self) -> list[Chunk]:
        if self._started:
            return []
        self._started = True
        return [self._stamped({"type": "start"})]

    def _start_step(self, chunk: Chunk) -> list[Chunk]:
        self._parts.append({"type": "step-start"})
        return [*self._ensure_started(), chunk]

    def _finish_step(self, chunk: Chunk) -> list[Chunk]:
        return [*self._end_all_texts(), chunk]

    def _reset_step(self, chunk: Chunk) -> list[Chunk]:
        start = len(self._parts)
        while start > self._base_parts and self._parts[start - 1].get("type") != "step-start":
            start -= 1
        for part in self._parts[start:]:
            if is_tool_part(part):
                self._tools.pop(str(part.get("toolCallId", "")), None)
        del self._parts[start:]
        self._open.clear()
        self._inputs.clear()
        return [chunk]

    def _end_all_texts(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        for key in list(self._open):
            family, _, identifier = key.partition(":")
            chunks += self._end_text({"type": f"{family}-end", "id": identifier})
        return chunks

    def _tool_input_start(self, chunk: Chunk) -> list[Chunk]:
        identifier, name = _text_field(chunk, "toolCallId"), _text_field(chunk, "toolName")
        if identifier in self._tools:
            return []
        self._add_tool(identifier, name, chunk, "input-streaming")
        self._inputs[identifier] = []
        return [*self._ensure_started(), chunk]

    def _tool_input_delta(self, chunk: Chunk) -> list[Chunk]:
        identifier, delta = _text_field(chunk, "toolCallId"), chunk.get("inputTextDelta")
        if identifier not in self._inputs or not isinstance(delta, str):
            return []
        self._inputs[identifier].append(delta)
        return [chunk]

    def _tool_input_available(self, chunk: Chunk) -> list[Chunk]:
        identifier, name = _text_field(chunk, "toolCallId"), _text_field(chunk, "toolName")
        self._inputs.pop(identifier, None)
        part = self._tools.get(identifier)
        if part is not None and part.get("state") != "input-streaming":
            return []
        if part is None:
            part = self._add_tool(identifier, name, chunk, "input-available")
        part["state"] = "input-available"
        part["input"] = chunk.get("input")
        _copy_fields(chunk, part)
        return [*self._ensure_started(), chunk]

    def _tool_input_error(self, chunk: Chunk) -> list[Chunk]:
        identifier, name = _text_field(chunk, "toolCallId"), _text_field(chunk, "toolName")
        self._inputs.pop(identifier, None)
        part = self._tools.get(identifier)
        if part is not None and part.get("state") in FINISHED_STATES:
            return []
        if part is None:
            part = self._add_tool(identifier, name, chunk, "output-error")
        part["state"] = "output-error"
        part["input"] = chunk.get("input")
        part["errorText"] = str(chunk.get("errorText", ""))
        return [*self._ensure_started(), chunk]

    def _tool_output(self, chunk: Chunk) -> list[Chunk]:
        identifier = _text_field(chunk, "toolCallId")
        part = self._tools.get(identifier)
        if part is None:
            raise ValueError(f"{chunk['type']} for a tool call that was never made: {identifier!r}")
        if part.get("state") in FINISHED_STATES and not part.get("preliminary"):
            return []
        kind = str(chunk["type"])
        part["state"] = kind.removeprefix("tool-")
        if kind == "tool-output-available":
            part["output"] = chunk.get("output")
            part["preliminary"] = True if chunk.get("preliminary") else None
        elif kind == "tool-output-error":
            part["errorText"] = str(chunk.get("errorText", ""))
        if chunk.get("providerExecuted") is not None:
            part["providerExecuted"] = chunk["providerExecuted"]
        return self._unless_base(identifier, chunk)

    def _approval_request(self, chunk: Chunk) -> list[Chunk]:
        identifier = _text_field(chunk, "toolCallId")
        part = self._tools.get(identifier)
        if part is None:
            raise ValueError(f"an approval for a tool call that was never made: {identifier!r}")
        if part.get("state") in FINISHED_STATES:
            return []
        part["state"] = "approval-requested"
        approval: dict[str, Any] = {"id": _text_field(chunk, "approvalId")}
        if chunk.get("reason") is not None:
            approval["requestReason"] = chunk["reason"]
        if chunk.get("isAutomatic") is True:
            approval["isAutomatic"] = True
        if chunk.get("signature") is not None:
            approval["signature"] = chunk["signature"]
        part["approval"] = approval
        return self._unless_base(identifier, chunk)

    def _approval_response(self, chunk: Chunk) -> list[Chunk]:
        wanted = _text_field(chunk, "approvalId")
        for identifier, part in self._tools.items():
            approval = cast("dict[str, Any]", part.get("approval") or {})
            if approval.get("id") == wanted:
                part["state"] = "approval-responded"
                answer: dict[str, Any] = {"approved": chunk.get("approved") is True}
                if chunk.get("reason") is not None:
                    answer["reason"] = chunk["reason"]
                part["approval"] = {**approval, **answer}
                return self._unless_base(identifier, chunk)
        raise ValueError(f"an answer to an approval that was never asked for: {wanted!r}")

    def _unless_base(self, identifier: str, chunk: Chunk) -> list[Chunk]:
        if identifier in self._base_tools:
            self.base_changed = True
            return []
        return [chunk]

    def _add_tool(self, identifier: str, name: str, chunk: Chunk, state: str) -> Part:
        part: Part = {
            "type": "dynamic-tool" if chunk.get("dynamic") else f"tool-{name}",
            "toolCallId": identifier,
            "state": state,
        }
        if chunk.get("dynamic"):
            part["toolName"] = name
        _copy_fields(chunk, part)
        self._parts.append(part)
        self._tools[identifier] = part
        return part

    def _append(self, chunk: Chunk) -> list[Chunk]:
        self._parts.append({key: value for key, value in chunk.items() if value is not None})
        return [*self._ensure_started(), chunk]

    def _data(self, chunk: Chunk) -> None:
        if chunk.get("transient"):
            return
        identifier = chunk.get("id")
        if identifier is not None:
            for part in self._parts:
                if part.get("type") == chunk["type"] and part.get("id") == identifier:
                    part["data"] = chunk.get("data")
                    return
        self._parts.append(dict(chunk))

    def _metadata(self, chunk: Chunk) -> list[Chunk]:
        self._merge_metadata(chunk.get("messageMetadata"))
        return [chunk]

    def _finish(self, chunk: Chunk) -> list[Chunk]:
        """``finish`` keeps only its metadata on the wire, with the reason inside it."""
        closing = self._end_all_texts()
        reason = chunk.get("finishReason")
        metadata = chunk.get("messageMetadata")
        merged = dict(cast("Mapping[str, Any]", metadata)) if isinstance(metadata, Mapping) else {}
        if isinstance(reason, str):
            self.finish_reason = reason
            merged["finishReason"] = reason
        self._merge_metadata(merged)
        sent: Chunk = {"type": "finish"}
        if merged:
            sent["messageMetadata"] = merged
        return [*self._ensure_started(), *closing, sent]

    def _error(self, chunk: Chunk) -> list[Chunk]:
        self.error_text = str(chunk.get("errorText", "The model failed."))
        return []

    def _merge_metadata(self, metadata: Any) -> None:
        if isinstance(metadata, Mapping) and metadata:
            present = cast("Mapping[str, Any]", self._message.get("metadata") or {})
            self._message["metadata"] = merge_objects(present, cast("Mapping[str, Any]", metadata))

    _HANDLERS: ClassVar[dict[str, Callable[[MessageAccumulator, Chunk], list[Chunk]]]] = {
        "text-start": _start_text,
        "text-end": _end_text,
        "reasoning-start": _start_text,
        "reasoning-end": _end_text,
        "start": _start,
        "start-step": _start_step,
        "finish-step": _finish_step,
        "reset-step": _reset_step,
        "tool-input-start": _tool_input_start,
        "tool-input-delta": _tool_input_delta,
        "tool-input-available": _tool_input_available,
        "tool-input-error": _tool_input_error,
        "tool-output-available": _tool_output,
        "tool-output-error": _tool_output,
        "tool-output-denied": _tool_output,
        "tool-approval-request": _approval_request,
        "tool-approval-response": _approval_response,
        "source-url": _append,
        "source-document": _append,
        "file": _append,
        "reasoning-file": _append,
        "custom": _append,
        "steering-message": _append,
        "message-metadata": _metadata,
        "finish": _finish,
        "error": _error,
    }


TEXTS = ("text", "reasoning")

OPTIONAL = frozenset({"preliminary", "providerExecuted"})
"""Fields of a part that are left out when they hold nothing."""


def _text_field(chunk: Chunk, field: str) -> str:
    value = chunk.get(field)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{chunk.get('type')} needs a string {field!r}: {chunk!r:.200}")
    return value


def _copy_fields(chunk: Chunk, part: Part) -> None:
    for field in ("providerExecuted", "title", "toolMetadata"):
        if chunk.get(field) is not None:
            part[field] = chunk[field]
    if chunk.get("providerMetadata") is not None:
        part["callProviderMetadata"] = chunk["providerMetadata"]


def merge_objects(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """``extra`` laid over ``base``, nested objects merged, everything else replaced."""
    merged = dict(base)
    for key, value in extra.items():
        present = merged.get(key)
        if isinstance(present, Mapping) and isinstance(value, Mapping):
            merged[key] = merge_objects(
                cast("Mapping[str, Any]", present), cast("Mapping[str, Any]", value)
            )
        else:
            merged[key] = value
    return merged


def accumulate(message_id: str, bodies: list[str], base: Message | None = None) -> Message:
    """The message that these stored chunks (their JSON) add up to; unreadable ones are left out."""
    accumulator = MessageAccumulator(message_id, base)
    for body in bodies:
        try:
            accumulator.accept(json.loads(body))
        except ValueError:
            continue
    return accumulator.message()
