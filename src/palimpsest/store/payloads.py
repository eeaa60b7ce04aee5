"""What does not fit in a message's row: pieces of long JSON, and inline media.

The platform stores at most 2 MB in one row. JSON beyond :data:`IN_ROW_BYTES` is kept in rows of
``assistant_message_pieces`` of at most :data:`PIECE_BYTES`, cut at character boundaries. Media that
a part carries as a base64 ``data:`` URL are stored once by the SHA-256 of their bytes and put back
on reading; where in the message each belongs is kept beside it (a JSON pointer), so no text of a
user can be mistaken for such a reference.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.errors import CorruptHistoryError
from palimpsest.hosts.interface import Sql
from palimpsest.messages import Message

PIECE_BYTES = 1_500_000
"""The most bytes of JSON or media in one row of their own."""

IN_ROW_BYTES = 500_000
"""The most bytes of JSON in a message's row, which holds its words too and is at most 2 MB."""

MIN_MEDIA_CHARACTERS = 8_192
"""Shorter ``data:`` URLs stay in the message."""

MAX_MEDIA_DEPTH = 8
"""How deep in a message media are looked for."""

TAKEN_OUT = "palimpsest:media"
"""What stands in the stored JSON where media were taken out."""


@dataclass(frozen=True, slots=True)
class Media:
    """Media found in a message: where, the URL's beginning up to the comma, and the bytes."""

    pointer: tuple[str | int, ...]
    header: str
    data: bytes

    @property
    def hash(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()


def split_text(text: str, limit: int = PIECE_BYTES) -> list[str]:
    """Cut a text into pieces of at most ``limit`` bytes of UTF-8, never within a character."""
    if text.isascii():
        return [text[start : start + limit] for start in range(0, len(text), limit)]
    data = text.encode()
    pieces: list[str] = []
    start = 0
    while start < len(data):
        end = min(start + limit, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(data[start:end].decode())
        start = end
    return pieces


def take_out_media(message: Message) -> tuple[Message, list[Media]]:
    """The message with its large inline media taken out, and those media."""
    found: list[Media] = []
    stripped = _strip(message, (), found)
    return cast("Message", stripped), found


def _strip(value: Any, pointer: tuple[str | int, ...], found: list[Media]) -> Any:
    if isinstance(value, str):
        media = _decode(value, pointer)
        if media is None:
            return value
        found.append(media)
        return TAKEN_OUT
    if len(pointer) >= MAX_MEDIA_DEPTH:
        return value
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _strip(item, (*pointer, key), found) for key, item in items}
    if isinstance(value, list | tuple):
        listed = cast("list[Any]", value)
        return [_strip(item, (*pointer, index), found) for index, item in enumerate(listed)]
    return value


def _decode(url: str, pointer: tuple[str | int, ...]) -> Media | None:
    if len(url) < MIN_MEDIA_CHARACTERS or not url.startswith("data:"):
        return None
    header, comma, encoded = url.partition(",")
    if not comma or not header.endswith(";base64") or not url.isascii():
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    # Only what is restored to the very same text may be taken out.
    if base64.b64encode(data).decode() != encoded:
        return None
    return Media(pointer, header, data)


class PayloadStore:
    """Pieces and media of messages, by the message's key."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def put_pieces(self, key: int, text: str) -> None:
        """Store JSON that is too long for its row."""
        for place, piece in enumerate(split_text(text)):
            self._sql.execute(
                "insert into assistant_message_pieces (key, place, content) values (?, ?, ?)",
                key,
                place,
                piece,
            )

    def read_pieces(self, key: int) -> str:
        """The JSON stored in pieces.

        :raises CorruptHistoryError: a piece is missing.
        """
        rows = self._sql.execute(
            "select place, content from assistant_message_pieces where key = ? order by place", key
        )
        if not rows or [row[0] for row in rows] != list(range(len(rows))):
            raise CorruptHistoryError(f"pieces of the message with key {key} are missing")
        return "".join(str(row[1]) for row in rows)

    def put_media(self, key: int, media: list[Media]) -> None:
        """Store media of a message; bytes that are there already are stored once."""
        for item in media:
            digest = item.hash
            if not self._sql.execute(
                "select 1 from assistant_media where hash = ? limit 1", digest
            ):
                for place, start in enumerate(range(0, len(item.data), PIECE_BYTES)):
                    self._sql.execute(
                        "insert into assistant_media (hash, place, data) values (?, ?, ?)",
                        digest,
                        place,
                        item.data[start : start + PIECE_BYTES],
                    )
            self._sql.execute(
                "insert into assistant_media_refs (key, pointer, header, hash) values (?, ?, ?, ?)",
                key,
                json.dumps(item.pointer),
                item.header,
                digest,
            )

    def restore_media(self, key: int, message: Message) -> None:
        """Put a message's media back in place.

        :raises CorruptHistoryError: media or their place are missing.
        """
        references = self._sql.execute(
            "select pointer, header, hash from assistant_media_refs where key = ?", key
        )
        for pointer, header, digest in references:
            rows = self._sql.execute(
                "select data from assistant_media where hash = ? order by place", digest
            )
            if not rows:
                raise CorruptHistoryError(f"media {digest} of the message with key {key} are gone")
            data = b"".join(cast("bytes", row[0]) for row in rows)
            *steps, last = json.loads(str(pointer))
            target: Any = message
            try:
                for step in steps:
                    target = target[step]
                target[last] = f"{header},{base64.b64encode(data).decode()}"
            except (LookupError, TypeError) as error:
                raise CorruptHistoryError(f"media have no place at {pointer}") from error

    def drop(self, key: int) -> None:
        """Remove a message's pieces and media; bytes that others show too stay."""
        self._sql.execute("delete from assistant_message_pieces where key = ?", key)
        rows = self._sql.execute(
            "delete from assistant_media_refs where key = ? returning hash", key
        )
        self._collect({str(row[0]) for row in rows})

    def drop_range(self, first: int, last: int) -> None:
        """Remove pieces and media of all keys from ``first`` to ``last``."""
        self._sql.execute(
            "delete from assistant_message_pieces where key between ? and ?", first, last
        )
        rows = self._sql.execute(
            "delete from assistant_media_refs where key between ? and ? returning hash", first, last
        )
        self._collect({str(row[0]) for row in rows})

    def copy(self, source: int, target: int) -> None:
        """Give the message ``target`` the pieces and media of ``source``."""
        self._sql.execute(
            "insert into assistant_message_pieces (key, place, content)"
            " select cast(? as integer), place, content from assistant_message_pieces"
            " where key = ?",
            target,
            source,
        )
        self._sql.execute(
            "insert into assistant_media_refs (key, pointer, header, hash)"
            " select cast(? as integer), pointer, header, hash from assistant_media_refs"
            " where key = ?",
            target,
            source,
        )

    def _collect(self, hashes: set[str]) -> None:
        """Remove media that no message shows any more."""
        for digest in _in_order(hashes):
            self._sql.execute(
                "delete from assistant_media where hash = ?1 and not exists"
                " (select 1 from assistant_media_refs where hash = ?1)",
                digest,
            )


def _in_order(hashes: set[str]) -> Iterator[str]:
    return iter(sorted(hashes))
