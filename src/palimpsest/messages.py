"""Messages and their parts: plain JSON objects in the AI SDK's ``UIMessage`` shape.

A message is ``{"id": str, "role": str, "parts": [...]}``; a part has a string ``type`` (``text``,
``reasoning``, ``file``, ``tool-<name>``, ``dynamic-tool``, ``data-<name>``, ...). Unknown fields
and part types are kept as they are. JSON keys stay in the ecosystem's camelCase.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from palimpsest.errors import InvalidMessageError, ReservedIdError

Message = dict[str, Any]
"""One message. Keys: ``id``, ``role``, ``parts``; optional ``metadata``, ``createdAt``, ..."""

Part = dict[str, Any]
"""One part of a message; ``type`` tells its kind."""

COMPACTION_PREFIX = "compaction_"
"""Ids with this prefix belong to the synthetic messages that overlays show (Sessions document)."""

MAX_ID_LENGTH = 1024
"""The longest message or session id, in characters."""


MAX_TIME_MS = 253_402_300_799_999
"""The latest time that a message can have been made at, in ms since 1970: the year 9999's end."""

MAX_NESTING = 256
"""How deeply arrays and objects may be nested in JSON that is written."""

MAX_MESSAGE_NESTING = 240
"""The same for a message: what carries it to a client or into an export adds levels of its own."""


def _encoder(*, ensure_ascii: bool) -> Callable[[Any], str]:
    """Writes compact JSON.

    ``JSONEncoder.encode`` makes an encoder in C at every call, which takes as long as encoding a
    short message; here one is made for all calls, where there is such a thing.
    """
    # No check for cycles: a value that holds itself is nested too deeply like any other, and that
    # is looked for first, because the encoder would end a Worker's process instead of raising.
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, check_circular=False, separators=(",", ":"), allow_nan=False
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    quote = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
    pieces = make(None, encoder.default, quote, None, ":", ",", False, False, False)
    return lambda value: "".join(pieces(value, 0))


_encode = _encoder(ensure_ascii=False)
_encode_ascii = _encoder(ensure_ascii=True)
_CONTAINERS = frozenset({dict, list, tuple})
_MAPPINGS = frozenset({dict})
_MANY = 64


def is_nested_deeper(value: Any, limit: int) -> bool:
    """Whether arrays and objects are nested more than ``limit`` deep, or hold themselves."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    depth = 0
    while level:
        level = [
            item
            for holder in level
            for item in (holder.values() if type(holder) in _MAPPINGS else holder)
            if type(item) in _CONTAINERS
        ]
        depth += 1
        if depth > limit:
            return True
        if len(level) > _MANY:  # what is held in many places is looked at once
            level = list({id(item): item for item in level}.values())
    return False


def dump_json(value: Any, *, max_nesting: int = MAX_NESTING) -> str:
    """Compact JSON. Lone surrogates, which UTF-8 cannot carry, stay as ``\\udXXX`` escapes.

    :raises ValueError: the value holds NaN or an infinity.
    :raises TypeError: the value holds something that JSON has no form for.
    :raises RecursionError: the value is nested too deeply, or holds itself.
    """
    if is_nested_deeper(value, max_nesting):
        raise RecursionError(f"arrays and objects are nested more than {max_nesting} deep")
    text = _encode(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _encode_ascii(value)
    return text


def validate_message(value: Any) -> Message:
    """Check that ``value`` can be stored as a message and return it as a plain dict.

    Accepts any mapping, or an object with ``model_dump`` (a pydantic model).

    :raises InvalidMessageError: with the field that is wrong and what was found there.
    :raises ReservedIdError: the id begins with ``compaction_``.
    """
    if type(value) is not dict:  # what most messages are: the other questions cost more
        if hasattr(value, "model_dump"):
            value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if not isinstance(value, Mapping):
            raise InvalidMessageError(f"a message is a JSON object, got {type(value).__name__}")
    message: Message = dict(cast("Mapping[str, Any]", value))
    identifier = message.get("id")
    if not isinstance(identifier, str) or not identifier:
        raise InvalidMessageError(f"message field 'id' must be a non-empty string: {identifier!r}")
    if len(identifier) > MAX_ID_LENGTH:
        raise InvalidMessageError(
            f"message field 'id' has {len(identifier)} characters, at most {MAX_ID_LENGTH}"
        )
    if identifier.startswith(COMPACTION_PREFIX):
        raise ReservedIdError(
            f"message id {identifier!r}: ids that begin with {COMPACTION_PREFIX!r} are reserved "
            "for the summaries that compaction shows"
        )
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidMessageError(f"message field 'role' must be a non-empty string: {role!r}")
    parts = message.get("parts")
    if not isinstance(parts, list | tuple):
        raise InvalidMessageError(
            f"message field 'parts' must be an array, got {type(parts).__name__}"
        )
    listed = list(cast("list[Any]", parts))
    for index, part in enumerate(listed):
        whole = type(part) in _MAPPINGS or isinstance(part, Mapping)
        kind = cast("Mapping[str, Any]", part).get("type") if whole else None
        if not isinstance(kind, str) or not kind:
            raise InvalidMessageError(
                f"message part {index} must be an object with a string 'type': {part!r:.200}"
            )
    message["parts"] = listed
    return message


def is_compaction_message(message: Mapping[str, Any]) -> bool:
    """Whether this is the synthetic message that shows an overlay's summary."""
    return str(message.get("id", "")).startswith(COMPACTION_PREFIX)


def is_tool_part(part: Mapping[str, Any]) -> bool:
    """Whether the part is a tool call (with or without its result)."""
    kind = str(part.get("type", ""))
    return kind.startswith("tool-") or kind == "dynamic-tool"


def tool_name(part: Mapping[str, Any]) -> str:
    """The tool's name: the field ``toolName``, or what follows ``tool-`` in the type."""
    name = part.get("toolName")
    if isinstance(name, str) and name:
        return name
    return str(part.get("type", "")).removeprefix("tool-")


def tool_parts(message: Mapping[str, Any]) -> Iterator[Part]:
    """The tool parts of a message, in order."""
    for part in message.get("parts", ()):
        if is_tool_part(part):
            yield part


def text_of(message: Mapping[str, Any], separator: str = "\n") -> str:
    """The text parts of a message, joined."""
    return separator.join(
        part["text"]
        for part in message.get("parts", ())
        if part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def text_message(identifier: str, role: str, text: str, **fields: Any) -> Message:
    """A message with one text part."""
    return {"id": identifier, "role": role, "parts": [{"type": "text", "text": text}], **fields}
