"""Messages as the JSON text that is stored, for clients: nothing is parsed to be written again.

Reading eight megabytes of messages into objects and writing them out again takes a second and more
of a Worker's CPU time, and nobody looks at the objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from palimpsest.errors import LimitError
from palimpsest.hosts.interface import Sql
from palimpsest.messages import dump_json
from palimpsest.store.reads import MAX_ROWS, TARGET_BYTES, MessageReader
from palimpsest.store.rows import Interval, Place

FIRST_ROWS = 1_024
"""How many messages the first statement asks for."""

_BLOCK = (
    "select count(*), max(extra), sum(bytes), cast(group_concat(content) as blob),"
    " min(case when json_valid(content) then"
    " ifnull(json_type(content, '$.id') = 'text' and json_type(content, '$.role') = 'text'"
    " and json_type(content, '$.parts') = 'array', 0) else 0 end)"
    " from assistant_contents"
    " where key between cast(? as integer) and cast(? as integer)"
)


class MessageTexts:
    """Reads paths as JSON: texts of one or more messages with commas between them."""

    def __init__(self, sql: Sql, reader: MessageReader) -> None:
        self._sql = sql
        self._reader = reader

    def forward(self, place: Place, intervals: Sequence[Interval]) -> Iterator[str]:
        """A path from its beginning, in texts of about :data:`TARGET_BYTES`."""
        rows = FIRST_ROWS
        for interval in intervals:
            low = interval.low
            while low <= interval.high:
                high = min(interval.high, low + rows - 1)
                block = self._block(place, low, high)
                if block is None:
                    rows = max(1, rows // 4)
                    continue
                count, size, text = block
                rows = _next_rows(count, size) if count else min(MAX_ROWS, rows * 4)
                if count:
                    yield text
                low = high + 1

    def newest(self, place: Place, intervals: Sequence[Interval], max_bytes: int) -> list[str]:
        """The end of a path, oldest first: what fits in ``max_bytes``, at least one message."""
        newest_first: list[str] = []
        left, rows = max_bytes, FIRST_ROWS
        for interval in reversed(intervals):
            high = interval.high
            while high >= interval.low:
                low = max(interval.low, high - rows + 1)
                block = self._block(place, low, high)
                if block is None:
                    rows = max(1, rows // 4)
                    continue
                count, size, text = block
                if size > left and (count > 1 or newest_first):
                    if count == 1:
                        return newest_first[::-1]
                    rows = max(1, min(rows, high - low + 1) // 2)
                    continue
                if count:
                    newest_first.append(text)
                    left -= size
                    rows = min(_next_rows(count, size), max(1, left * count // max(size, 1)) + 1)
                else:
                    rows = min(MAX_ROWS, rows * 4)  # many were deleted here
                high = low - 1
        return newest_first[::-1]

    def _block(self, place: Place, low: int, high: int) -> tuple[int, int, str] | None:
        """How many messages there are in a range, their size and text; None if it is too much."""
        try:
            found = self._sql.execute(_BLOCK, place.base + low, place.base + high)[0]
        except LimitError:
            if low == high:
                raise
            return None
        count, extra, size, text, whole = cast("tuple[int, int, int, bytes, int]", tuple(found))
        if not count:
            return 0, 0, ""
        if not extra and whole:
            return count, size, text.decode(errors="replace")
        # Files and long messages have rows of their own, and a broken row has its message.
        if extra and size > TARGET_BYTES and count > 1:
            return None
        messages = [
            message
            for chunk in self._reader.chunks(place, [Interval(0, low, high)])
            for message in chunk
        ]
        return count, size, ",".join(map(dump_json, messages))


def _next_rows(count: int, size: int) -> int:
    return max(1, min(MAX_ROWS, TARGET_BYTES * count // max(size, 1)))
