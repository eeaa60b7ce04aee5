"""Tokens of images and other files, by what they are and how large they are.

Providers bill an image by its dimensions and a document by its pages, never by the length of its
base64: a 3 MB photograph counted as text would be a million tokens. The size of an image is read
from its first bytes where it is inline; else a class is taken.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from typing import Any

PIXELS_PER_TOKEN = 750
"""Pixels of an image that cost one token (Anthropic's rule; OpenAI's tiles come close to it)."""

LONGEST_IMAGE_SIDE = 1568
"""Providers scale an image down to about this many pixels before they bill it."""

SMALLEST_IMAGE = 85
UNKNOWN_IMAGE = 1_200
"""An image whose size is not known: behind an address, or of an unknown format."""

BYTES_PER_PAGE = 60_000
TOKENS_PER_PAGE = 2_000
MOST_PAGES = 100
"""A document: its pages are guessed from its bytes; providers take so many at most."""

AUDIO_BYTES_PER_TOKEN = 400
SMALLEST_AUDIO = 50
MOST_AUDIO = 20_000
"""Sound: about ten tokens a second at 32 kbit/s."""

FILE_MARKER = 24
"""A file that no model reads is shown as one line."""

_HEAD_CHARS = 65_536
_DATA_URL = re.compile(r"data:[^,]*,")


def count_file_tokens(part: Mapping[str, Any]) -> int:
    """Tokens of a part of type ``file``."""
    url = part.get("url")
    address = url if isinstance(url, str) else ""
    kind = str(part.get("mediaType") or part.get("mimeType") or "")
    match = _DATA_URL.match(address)
    size = (len(address) - match.end()) * 3 // 4 if match else None
    if kind.startswith("image/"):
        return _image_tokens(address[match.end() : match.end() + _HEAD_CHARS] if match else "")
    if kind == "application/pdf":
        pages = 3 if size is None else math.ceil(size / BYTES_PER_PAGE)
        return TOKENS_PER_PAGE * min(max(pages, 1), MOST_PAGES)
    if kind.startswith("audio/"):
        heard = 1_000 if size is None else size // AUDIO_BYTES_PER_TOKEN
        return min(max(heard, SMALLEST_AUDIO), MOST_AUDIO)
    if size is not None and (kind.startswith("text/") or kind in _TEXT_KINDS):
        # Sent as text: see the conversion of messages.
        return FILE_MARKER + size // 4
    return FILE_MARKER


_TEXT_KINDS = frozenset({"application/json", "application/xml"})


def _image_tokens(text: str) -> int:
    size = _image_size(text)
    if size is None:
        return UNKNOWN_IMAGE
    width, height = size
    scale = min(1.0, LONGEST_IMAGE_SIDE / max(width, height, 1))
    pixels = width * scale * height * scale
    return max(math.ceil(min(pixels / PIXELS_PER_TOKEN, 1_600)), SMALLEST_IMAGE)


def _image_size(text: str) -> tuple[int, int] | None:
    """Width and height of an image in pixels, from the beginning of its base64."""
    try:
        head = base64.b64decode(text[: len(text) // 4 * 4], validate=False)
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP" and len(head) >= 30:
        return _webp_size(head)
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(head)
    return None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return (
            int.from_bytes(head[26:28], "little") & 0x3FFF,
            int.from_bytes(head[28:30], "little") & 0x3FFF,
        )
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    """Walk the segments to the frame header, which has the size."""
    place = 2
    while place + 9 <= len(head) and head[place] == 0xFF:
        marker = head[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return (
                int.from_bytes(head[place + 7 : place + 9], "big"),
                int.from_bytes(head[place + 5 : place + 7], "big"),
            )
        length = int.from_bytes(head[place + 2 : place + 4], "big")
        if length < 2:
            return None
        place += 2 + length
    return None
