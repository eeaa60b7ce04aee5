"""Checks of the platform's limits that both hosts make before anything is written.

A Durable Object stores something else than it was given for several Python types, and refuses
what is too large only in production; these functions refuse it everywhere in the same words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from palimpsest.errors import BindingError, LimitError
from palimpsest.hosts.interface import (
    MAX_ATTACHMENT_BYTES,
    MAX_BOUND_PARAMETERS,
    MAX_INTEGER,
    MAX_SOCKET_MESSAGE_BYTES,
    MAX_STATEMENT_BYTES,
    MAX_TAG_LENGTH,
    MAX_TAGS,
    MAX_VALUE_BYTES,
    SqlValue,
)


def check_statement(sql: str, bindings: int) -> None:
    """Refuse a statement that is too long or binds too much.

    :raises LimitError: it exceeds the platform's limits.
    """
    if len(sql) > MAX_STATEMENT_BYTES // 4 and len(sql.encode()) > MAX_STATEMENT_BYTES:
        raise LimitError(f"a statement is at most {MAX_STATEMENT_BYTES} bytes")
    if bindings > MAX_BOUND_PARAMETERS:
        raise LimitError(f"a statement binds at most {MAX_BOUND_PARAMETERS} values, got {bindings}")


def check_value(value: object) -> SqlValue:
    """The value if SQLite in a Durable Object stores it unchanged: bool as int, NaN as None.

    :raises BindingError: the platform would store something else than the value.
    :raises LimitError: it is too large.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise LimitError(f"an integer binds up to 2**53 - 1, got {value}")
        return value
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, str):
        _check_text(value)
        return value
    if isinstance(value, bytes | memoryview):
        data = bytes(cast("bytes", value))
        if len(data) > MAX_VALUE_BYTES:
            raise LimitError(f"a value is at most {MAX_VALUE_BYTES} bytes, got {len(data)}")
        return data
    raise BindingError(
        f"SQL binds None, bool, int, float, str or bytes, got {type(value).__name__}"
    )


def _check_text(value: str) -> None:
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise BindingError(f"text with a lone surrogate cannot be stored: {error}") from error
    if size > MAX_VALUE_BYTES:
        raise LimitError(f"a value is at most {MAX_VALUE_BYTES} bytes, got {size}")


def check_tags(tags: Sequence[str]) -> None:
    """Refuse tags that the platform refuses.

    :raises LimitError: too many tags, or one that is empty or too long.
    """
    if len(tags) > MAX_TAGS:
        raise LimitError(f"a socket carries at most {MAX_TAGS} tags, got {len(tags)}")
    for tag in tags:
        if not 0 < len(tag) <= MAX_TAG_LENGTH:
            raise LimitError(f"a tag has 1 to {MAX_TAG_LENGTH} characters: {tag!r:.80}")


def check_socket_message(data: str | bytes) -> None:
    """Refuse a WebSocket message that is too large.

    :raises LimitError: it exceeds the platform's 32 MiB.
    """
    if len(data) <= MAX_SOCKET_MESSAGE_BYTES // 4:
        return
    size = len(data.encode(errors="surrogatepass")) if isinstance(data, str) else len(data)
    if size > MAX_SOCKET_MESSAGE_BYTES:
        raise LimitError(
            f"a WebSocket message is at most {MAX_SOCKET_MESSAGE_BYTES} bytes, got {size}"
        )


_SERIALIZATION_OVERHEAD = 8
"""Bytes that the structured clone of a string takes beside its characters."""


def dump_attachment(value: Any) -> str:
    """The JSON of a socket's attachment.

    :raises LimitError: what the platform stores for it exceeds 16 KiB. V8 stores one byte per
        character, or two for all of them if any is outside Latin-1.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    latin = text.isascii() or max(text) <= "\xff"
    size = len(text) if latin else len(text.encode("utf-16-le", errors="surrogatepass"))
    if size + _SERIALIZATION_OVERHEAD > MAX_ATTACHMENT_BYTES:
        raise LimitError(f"an attachment is at most {MAX_ATTACHMENT_BYTES} bytes, got {size}")
    return text
