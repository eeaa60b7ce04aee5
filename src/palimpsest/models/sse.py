"""Server-sent events: bytes as they arrive in, whole events out (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from palimpsest.errors import ModelResponseError

MAX_EVENT_CHARS = 32 * 1024 * 1024
"""The largest event that is read, in characters; a generated image fits."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event."""

    event: str
    """The event's name; '' where it has none."""
    data: str


class EventParser:
    """Collects bytes, cut anywhere, into events."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._event = ""
        self._data: list[str] = []
        self._size = 0
        self._first = True

    def feed(self, chunk: bytes, *, end: bool = False) -> list[ServerSentEvent]:
        """The events that are complete after these bytes.

        :param end: whether the stream ends here; an event that lacks its blank line is then
            given out as well, for servers that close without one.
        :raises ModelResponseError: an event is too large.
        """
        text = self._decoder.decode(chunk, end)
        if self._first and text:
            text = text.removeprefix("\ufeff")
            self._first = False
        text = self._pending + text
        # A carriage return at the very end may be half of a line break.
        keep = "\r" if text.endswith("\r") and not end else ""
        text = text.removesuffix(keep) if keep else text
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._pending = "" if end else lines.pop() + keep
        found: list[ServerSentEvent] = []
        for line in lines:
            self._take_line(line, found)
        if end:
            self._take_line("", found)
        if self._size + len(self._pending) > MAX_EVENT_CHARS:
            raise ModelResponseError(f"one event has more than {MAX_EVENT_CHARS:,} characters")
        return found

    def _take_line(self, line: str, found: list[ServerSentEvent]) -> None:
        if not line:
            if self._data:
                found.append(ServerSentEvent(self._event, "\n".join(self._data)))
            self._event, self._data, self._size = "", [], 0
            return
        name, _colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(value)
        elif name == "event":
            self._event = value


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[ServerSentEvent, None]:
    """The events of a body; closing this closes the body.

    :raises ModelResponseError: an event is too large.
    """
    parser = EventParser()
    try:
        async for chunk in chunks:
            for event in parser.feed(chunk):
                yield event
        for event in parser.feed(b"", end=True):
            yield event
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
