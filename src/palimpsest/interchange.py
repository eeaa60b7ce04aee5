"""Conversations from elsewhere: what other programs write, as messages.

Three forms are told apart by their fields: the library's own JSON Lines export, message lists in
the style of OpenAI's chat completions, and the AI SDK's UI messages (its version 4 included).
Nothing is dropped: what has no counterpart is kept as a data part or under ``metadata``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from palimpsest.errors import InvalidImportError
from palimpsest.json_input import load_json
from palimpsest.messages import MAX_TIME_MS, Message, Part, validate_message

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """One message and where it stands: behind ``parent_id``, or behind the one before.

    ``parent_known`` is False where the form has no tree; the messages then form a chain.
    """

    message: Message
    parent_id: str | None = None
    parent_known: bool = False
    created_at: int | None = None
    """When it was made, in ms since 1970; None where the form does not tell."""


@dataclass(slots=True)
class Conversation:
    """What was read, in order."""

    messages: list[ImportedMessage] = field(default_factory=list[ImportedMessage])
    compactions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Overlays of the library's own export: ``summary``, ``fromMessageId``, ``toMessageId``."""
    session: dict[str, Any] = field(default_factory=dict[str, Any])
    """The session's own line of the export; empty for other forms."""


def read_conversation(text: str, new_id: Callable[[], str]) -> Conversation:
    """Read a conversation in any of the known forms.

    :param text: JSON Lines as exported, or a JSON array of messages, or an object whose
        ``messages`` is one.
    :param new_id: gives an id to a message that has none.
    :raises InvalidImportError: with the line or message that cannot be read, and why.
    """
    stripped = text.strip()
    if not stripped:
        raise InvalidImportError("nothing to import: the input is empty")
    try:
        document: Any = load_json(stripped)
    except ValueError:
        return _read_lines(stripped)
    if isinstance(document, dict):
        members = cast("dict[str, Any]", document)
        if members.get("type") in ("session", "message", "compaction"):
            return _read_lines(stripped)
        document = members.get("messages")
    if not isinstance(document, list):
        raise InvalidImportError("expected JSON Lines, an array of messages, or 'messages'")
    return _read_list(cast("list[Any]", document), new_id)


def _read_lines(text: str) -> Conversation:
    conversation = Conversation()
    # Not splitlines(): JSON may hold U+2028, U+2029 and U+0085 as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry: Any = load_json(line)
        except ValueError as error:
            raise InvalidImportError(f"line {number} is not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise InvalidImportError(f"line {number} is not a JSON object")
        _take_line(conversation, cast("dict[str, Any]", entry), number)
    return conversation


def _take_line(conversation: Conversation, entry: dict[str, Any], number: int) -> None:
    kind = entry.get("type")
    if kind == "session":
        conversation.session = entry
    elif kind == "compaction":
        conversation.compactions.append(entry)
    elif kind == "message" or "parts" in entry:
        message = _checked(entry.get("message", entry), f"line {number}")
        parent = entry.get("parentId")
        if parent is not None and not isinstance(parent, str):
            raise InvalidImportError(f"line {number}: parentId must be text or null")
        created = entry.get("createdAt")
        if created is not None and (type(created) is not int or not 0 <= created <= MAX_TIME_MS):
            raise InvalidImportError(f"line {number}: createdAt must be a time in ms")
        conversation.messages.append(ImportedMessage(message, parent, "parentId" in entry, created))
    else:
        raise InvalidImportError(f"line {number}: unknown type {kind!r:.50}")


def _checked(message: Any, place: str) -> Message:
    try:
        return validate_message(message)
    except ValueError as error:
        raise InvalidImportError(f"{place}: {error}") from error


def _read_list(entries: list[Any], new_id: Callable[[], str]) -> Conversation:
    objects: list[JsonObject] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise InvalidImportError(f"message {index} is not a JSON object")
        objects.append(cast("JsonObject", entry))
    convert = ui_messages if any("parts" in entry for entry in objects) else _by_content(objects)
    return Conversation([ImportedMessage(message) for message in convert(objects, new_id)])


def _by_content(
    entries: Iterable[JsonObject],
) -> Callable[[Iterable[JsonObject], Callable[[], str]], list[Message]]:
    if any("toolInvocations" in entry for entry in entries):
        return ui_messages
    return openai_messages


# -- AI SDK ---------------------------------------------------------------------------------------


def ui_messages(entries: Iterable[JsonObject], new_id: Callable[[], str]) -> list[Message]:
    """AI SDK UI messages as messages; those of version 4 are brought to the newer parts.

    :raises InvalidImportError: an entry is no message.
    """
    found: list[Message] = []
    for index, entry in enumerate(entries):
        message = dict(entry)
        if not message.get("id"):
            message["id"] = new_id()
        parts = _list(message.get("parts"), f"message {index}: parts")
        if not parts:
            parts = _parts_of_version_4(message)
        message["parts"] = [_ui_part(part) for part in parts]
        for old in ("content", "toolInvocations", "experimental_attachments", "reasoning"):
            message.pop(old, None)
        found.append(_checked(message, f"message {index}"))
    return found


def _parts_of_version_4(message: JsonObject) -> list[Part]:
    parts: list[Part] = []
    if isinstance(message.get("reasoning"), str):
        parts.append({"type": "reasoning", "text": message["reasoning"]})
    for invocation in _list(message.get("toolInvocations"), "toolInvocations"):
        parts.append({"type": "tool-invocation", "toolInvocation": invocation})
    if isinstance(message.get("content"), str) and message["content"]:
        parts.append({"type": "text", "text": message["content"]})
    attachments = _list(message.get("experimental_attachments"), "experimental_attachments")
    for attachment in map(_mapping, attachments):
        parts.append(
            {
                "type": "file",
                "url": attachment.get("url", ""),
                "mediaType": attachment.get("contentType", "application/octet-stream"),
                "filename": attachment.get("name", ""),
            }
        )
    return parts


def _ui_part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    fields = dict(cast("JsonObject", part))
    kind = fields.get("type")
    if kind == "tool-invocation" and isinstance(fields.get("toolInvocation"), Mapping):
        return _tool_invocation(cast("JsonObject", fields["toolInvocation"]))
    if kind == "reasoning" and "text" not in fields and isinstance(fields.get("reasoning"), str):
        fields["text"] = fields.pop("reasoning")
    if kind == "file" and "mediaType" not in fields and "mimeType" in fields:
        fields["mediaType"] = fields.pop("mimeType")
        if "url" not in fields and "data" in fields:
            fields["url"] = f"data:{fields['mediaType']};base64,{fields.pop('data')}"
    return fields


def _tool_invocation(invocation: JsonObject) -> Part:
    part: Part = {
        "type": f"tool-{invocation.get('toolName', 'unknown')}",
        "toolCallId": str(invocation.get("toolCallId", "")),
        "input": invocation.get("args", {}),
    }
    if invocation.get("state") == "result":
        return {**part, "state": "output-available", "output": invocation.get("result")}
    return {**part, "state": "input-available"}


# -- OpenAI's chat completions --------------------------------------------------------------------


def openai_messages(entries: Iterable[JsonObject], new_id: Callable[[], str]) -> list[Message]:
    """A message list of OpenAI's chat completions as messages.

    A ``tool`` message becomes the result of the call that it answers. One that answers no call is
    kept as an assistant message with the result alone.

    :raises InvalidImportError: an entry has no role.
    """
    found: list[Message] = []
    calls: dict[str, Part] = {}
    for index, entry in enumerate(entries):
        role = entry.get("role")
        if not isinstance(role, str) or not role:
            raise InvalidImportError(f"message {index} has no role")
        if role in ("tool", "function"):
            answered = calls.get(str(entry.get("tool_call_id") or entry.get("name") or ""))
            if answered is not None and "output" not in answered:
                answered.update(state="output-available", output=_json_or_text(entry))
                continue
            found.append(_stray_result(entry, new_id))
            continue
        parts = _content_parts(entry.get("content"))
        for call in _calls(entry):
            calls[call["toolCallId"]] = call
            parts.append(call)
        message: Message = {"id": str(entry.get("id") or new_id()), "parts": parts}
        message["role"] = "system" if role == "developer" else role
        if isinstance(entry.get("name"), str):
            message["metadata"] = {"name": entry["name"]}
        found.append(_checked(message, f"message {index}"))
    return found


def _content_parts(content: Any) -> list[Part]:
    if content is None or content == "":
        return []
    if not isinstance(content, list):
        return [{"type": "text", "text": content if isinstance(content, str) else str(content)}]
    return [_content_part(part) for part in cast("list[Any]", content)]


def _content_part(part: Any) -> Part:
    if not isinstance(part, Mapping):
        return {"type": "text", "text": str(part)}
    fields = dict(cast("JsonObject", part))
    kind = fields.get("type")
    if kind in ("text", "input_text", "output_text", "refusal"):
        return {"type": "text", "text": str(fields.get("text") or fields.get("refusal") or "")}
    if kind == "image_url":
        image: Any = fields.get("image_url")
        url = str(_mapping(image).get("url") if isinstance(image, dict) else image)
        return {"type": "file", "mediaType": _media_type(url), "url": url}
    return {"type": f"data-{kind or 'unknown'}", "data": fields}


def _media_type(url: str) -> str:
    if url.startswith("data:"):
        return url[5:].split(";")[0].split(",")[0] or "image/*"
    return "image/*"


def _calls(entry: JsonObject) -> list[Part]:
    calls: list[Part] = []
    listed = _list(entry.get("tool_calls"), "tool_calls")
    if not listed and isinstance(entry.get("function_call"), Mapping):
        function = cast("JsonObject", entry["function_call"])
        listed = [{"id": function.get("name"), "function": function}]
    for call in (_mapping(entry) for entry in listed):
        function = _mapping(call.get("function"))
        arguments = function.get("arguments", "{}")
        calls.append(
            {
                "type": f"tool-{function.get('name', 'unknown')}",
                "toolCallId": str(call.get("id") or function.get("name") or ""),
                "state": "input-available",
                "input": _parsed(arguments),
            }
        )
    return calls


def _list(value: Any, what: str) -> list[Any]:
    """A field's array; empty where the field is missing or null.

    :raises InvalidImportError: it is something else.
    """
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise InvalidImportError(f"{what} must be an array, got {type(value).__name__}")
    return list(cast("list[Any]", value))


def _mapping(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return load_json(value)
    except ValueError:
        return value


def _json_or_text(entry: JsonObject) -> Any:
    content = entry.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in _content_parts(content))
    return _parsed(content)


def _stray_result(entry: JsonObject, new_id: Callable[[], str]) -> Message:
    part: Part = {
        "type": f"tool-{entry.get('name') or 'unknown'}",
        "toolCallId": str(entry.get("tool_call_id") or new_id()),
        "state": "output-available",
        "input": {},
        "output": _json_or_text(entry),
    }
    return {"id": new_id(), "role": "assistant", "parts": [part]}
