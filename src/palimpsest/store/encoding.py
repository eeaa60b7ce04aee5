"""A message as its row holds it, and back: JSON, its sizes, what does not fit in a row."""

from __future__ import annotations

from typing import NamedTuple, cast

from palimpsest.errors import InvalidMessageError, LimitError
from palimpsest.json_input import load_json
from palimpsest.messages import MAX_MESSAGE_NESTING, Message, dump_json
from palimpsest.store.message_tables import MEDIA, PIECES
from palimpsest.store.payloads import (
    IN_ROW_BYTES,
    MIN_MEDIA_CHARACTERS,
    Media,
    take_out_media,
)
from palimpsest.tokens import count_message_tokens

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest message, as JSON with its media inline: what an isolate can hold a few times."""


class Encoded(NamedTuple):
    """A message as its row holds it."""

    message: Message
    content: str
    bytes: int
    """Size of the whole JSON, media included."""
    tokens: int
    extra: int
    long_text: str | None
    media: list[Media]


def encode_message(message: Message) -> Encoded:
    """Bring a valid message into the form of its row.

    :raises InvalidMessageError: it holds what JSON cannot say.
    :raises LimitError: it is larger than :data:`MAX_MESSAGE_BYTES`.
    """
    try:
        text = dump_json(message, max_nesting=MAX_MESSAGE_NESTING)
        _ = (message["id"] + message["role"]).encode()
    except UnicodeEncodeError as error:
        raise InvalidMessageError(f"id and role must be valid Unicode text: {error}") from error
    except RecursionError as error:
        raise InvalidMessageError("the message is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise InvalidMessageError(f"message {message['id']!r} is not JSON: {error}") from error
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_MESSAGE_BYTES:
        raise LimitError(f"a message is at most {MAX_MESSAGE_BYTES} bytes of JSON, got {size}")
    tokens = count_message_tokens(message)
    extra = 0
    long_text: str | None = None
    media: list[Media] = []
    if size > MIN_MEDIA_CHARACTERS and ";base64," in text:
        stripped, media = take_out_media(message)
        if media:
            extra |= MEDIA
            text = dump_json(stripped)
    if len(text) > IN_ROW_BYTES // 4 and len(text.encode()) > IN_ROW_BYTES:
        extra |= PIECES
        text, long_text = "null", text
    return Encoded(message, text, size, tokens, extra, long_text, media)


def parse_content(text: str) -> Message | None:
    """A stored message; None where the text is no message."""
    try:
        value = load_json(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    message = cast("Message", value)
    parts = message.get("parts")
    whole = isinstance(message.get("id"), str) and isinstance(message.get("role"), str)
    return message if whole and isinstance(parts, list) else None
