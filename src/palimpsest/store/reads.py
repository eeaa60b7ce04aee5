"""Reading messages in bulk, in bounded pieces.

One call of the platform's SQL costs as much as reading several rows, and each row costs more than
its text: ranges of messages are therefore read as one JSON text that SQLite puts together, and
parsed once. It is asked for as bytes, which cross to Python at once; a text does so character by
character.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from palimpsest.errors import CorruptHistoryError, LimitError
from palimpsest.hosts.interface import Sql
from palimpsest.messages import Message
from palimpsest.store.encoding import parse_content
from palimpsest.store.message_tables import MEDIA, PIECES, SESSION_SPAN
from palimpsest.store.payloads import PayloadStore
from palimpsest.store.rows import HistoryRowStat, Interval, MessageRow, Place

TARGET_BYTES = 1_200_000
"""How much JSON one statement should bring."""

MAX_BYTES = 4_000_000
"""How much one list of messages may hold, unless a single message is larger."""

FIRST_ROWS = 256
"""How many messages the first statement of a read asks for."""

MAX_ROWS = 8_192
"""How many messages one statement asks for at most."""

UNREADABLE = "data-unreadable"
"""Type of the part that stands for a message whose row cannot be read."""

Report = Callable[[str, str], None]
"""Told of an unreadable message: its id and what is wrong."""


def unreadable_message(message_id: str, role: str, reason: str) -> Message:
    """What a read shows in place of a message whose row cannot be read, so that order holds."""
    return {
        "id": message_id,
        "role": role,
        "parts": [{"type": UNREADABLE, "data": {"reason": reason}}],
    }


class MessageReader:
    """Reads the content of messages of one database."""

    def __init__(self, sql: Sql, payloads: PayloadStore, report: Report) -> None:
        self._sql = sql
        self._payloads = payloads
        self._report = report

    def one(self, place: Place, message_id: str) -> Message | None:
        """A message by its id; None where there is none."""
        rows = self._sql.execute(
            "select key, role, extra, content from assistant_identified_messages"
            " where session = ? and id = ?",
            place.number,
            message_id,
        )
        if not rows:
            return None
        key, role, extra, content = cast("tuple[int, str, int, str | None]", tuple(rows[0]))
        return self._read(key, message_id, role, extra, content)

    def of_row(self, row: MessageRow) -> Message:
        """The message of a row."""
        return self._singly(row.key, row.key)[0]

    def chunks(
        self,
        place: Place,
        intervals: Sequence[Interval],
        *,
        newest_first: bool = False,
        target: int = TARGET_BYTES,
        first_rows: int = FIRST_ROWS,
    ) -> Iterator[list[Message]]:
        """The messages of a path in lists of about ``target`` bytes of JSON, lazily.

        Within a list the order is the path's; ``newest_first`` turns the order of the lists and
        that within them.
        """
        rows = first_rows
        ordered = reversed(intervals) if newest_first else intervals
        for interval in ordered:
            low, high = interval.low, interval.high
            while low <= high:
                messages, edge, size = self._chunk(place, low, high, rows, newest_first)
                if newest_first:
                    high = edge - 1
                    messages.reverse()
                else:
                    low = edge + 1
                if messages:
                    rows = _next_rows(len(messages), size, target)
                    yield messages

    def backward(
        self, place: Place, interval: Interval, rows: Callable[[], int]
    ) -> Iterator[tuple[Message, int]]:
        """The messages of a range with the size of each, the newest first, lazily.

        :param rows: how many the next statement should bring; asked before each.
        """
        high = interval.high
        while high >= interval.low:
            sizes: list[int] = []
            wanted = max(1, min(MAX_ROWS, rows()))
            messages, edge, _ = self._chunk(place, interval.low, high, wanted, True, sizes)
            yield from zip(reversed(messages), reversed(sizes), strict=True)
            high = edge - 1

    def _chunk(
        self,
        place: Place,
        low: int,
        high: int,
        rows: int,
        newest_first: bool,
        sizes: list[int] | None = None,
    ) -> tuple[list[Message], int, int]:
        """Messages from one end of a range, in ascending order; the last seq seen; their size.

        :param sizes: filled with the size of each, if given.
        """
        listed = "group_concat(bytes)" if sizes is not None else "null"
        while True:
            first, last = low, high
            if high - low >= rows:
                first, last = (high - rows + 1, high) if newest_first else (low, low + rows - 1)
            try:
                found = self._sql.execute(
                    f"select count(*), max(extra), sum(bytes), {listed},"
                    " cast(group_concat(content) as blob)"
                    " from assistant_contents"
                    " where key between cast(? as integer) and cast(? as integer)",
                    place.base + first,
                    place.base + last,
                )[0]
            except LimitError:
                if rows == 1:
                    raise
                rows = max(1, rows // 4)
                continue
            edge = first if newest_first else last
            count, extra, size, each, text = cast(
                "tuple[int, int, int, str | None, bytes | None]", tuple(found)
            )
            if not count:
                return [], self._skip_gap(place, low, high, newest_first, edge), 0
            if extra and size > MAX_BYTES and rows > 1:
                rows = max(1, rows // 4)  # most of these bytes are not in the text read so far
                continue
            if sizes is not None:
                sizes += map(int, str(each).split(","))
            messages = None if extra or text is None else _parse_list(text, count)
            if messages is None:
                messages = self._singly(place.base + first, place.base + last)
            return messages, edge, size

    def _skip_gap(self, place: Place, low: int, high: int, newest_first: bool, edge: int) -> int:
        """The edge of a stretch without messages, so that a long gap costs one look-up."""
        found = self._sql.execute(
            "select key from assistant_contents"
            " where key between cast(? as integer) and cast(? as integer)"
            f" order by key {'desc' if newest_first else 'asc'} limit 1",
            place.base + low,
            place.base + high,
        )
        if not found:
            return low if newest_first else high
        seq = int(found[0][0] or 0) % SESSION_SPAN
        return min(edge, seq + 1) if newest_first else max(edge, seq - 1)

    def _singly(self, first: int, last: int) -> list[Message]:
        """Messages of a key range whose rows need more than parsing, in order."""
        rows = self._sql.execute(
            "select key, id, role, extra, content from assistant_contents"
            " where key between cast(? as integer) and cast(? as integer) order by key",
            first,
            last,
        )
        return [
            self._read(*cast("tuple[int, str, str, int, str | None]", tuple(row))) for row in rows
        ]

    def _read(
        self, key: int, message_id: str, role: str, extra: int, content: str | None
    ) -> Message:
        try:
            text = self._payloads.read_pieces(key) if extra & PIECES else content or ""
            message = parse_content(text)
            if message is None:
                raise CorruptHistoryError("its row does not hold a message")
            if extra & MEDIA:
                self._payloads.restore_media(key, message)
        except CorruptHistoryError as error:
            self._report(message_id, str(error))
            return unreadable_message(message_id, role, str(error))
        return message

    def read_ids(self, place: Place, ids: Sequence[str]) -> list[Message]:
        """Messages by id, in the order asked; unknown ids are left out."""
        found: dict[str, Message] = {}
        for start in range(0, len(ids), 500):
            rows = self._sql.execute(
                f"select m.session * {SESSION_SPAN} + m.seq from json_each(?2) wanted"
                " cross join assistant_messages m on m.session = ?1 and m.id = wanted.value",
                place.number,
                json.dumps(list(ids[start : start + 500])),
            )
            for interval in _neighbours([int(row[0] or 0) - place.base for row in rows]):
                for chunk in self.chunks(place, [interval]):
                    found.update((message["id"], message) for message in chunk)
        return [found[one] for one in ids if one in found]

    def stats(self, place: Place, intervals: Sequence[Interval]) -> list[HistoryRowStat]:
        """Ids, roles and sizes of the messages of a path, without content."""
        found: list[HistoryRowStat] = []
        for interval in intervals:
            for low in range(interval.low, interval.high + 1, MAX_ROWS):
                high = min(interval.high, low + MAX_ROWS - 1)
                text = self._sql.execute(
                    "select cast(json_group_array("
                    "json_array(id, role, bytes, tokens, created_at)) as blob)"
                    " from assistant_contents"
                    " where key between cast(? as integer) and cast(? as integer)",
                    place.base + low,
                    place.base + high,
                )[0][0]
                found += [HistoryRowStat(*values) for values in json.loads(cast("bytes", text))]
        return found


def _neighbours(sequence_numbers: Iterable[int]) -> list[Interval]:
    """Sequence numbers as ranges of those that follow one another: a range is one read."""
    found: list[list[int]] = []
    for number in sorted(sequence_numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [Interval(0, low, high) for low, high in found]


def _parse_list(text: bytes, count: int) -> list[Message] | None:
    """The messages of a concatenation, or None if a row of it is no message."""
    try:
        values: list[Any] = json.loads(f"[{text.decode()}]")
    except (ValueError, RecursionError):
        return None
    if len(values) != count:
        return None
    for value in values:
        if type(value) is not dict:
            return None
        fields = cast("dict[str, Any]", value)
        if type(fields.get("parts")) is not list or type(fields.get("id")) is not str:
            return None
    return cast("list[Message]", values)


def _next_rows(count: int, size: int, target: int) -> int:
    return max(1, min(MAX_ROWS, target * count // max(size, 1)))
