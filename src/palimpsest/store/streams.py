"""The chunks of answers as they stream, in segments of many chunks each.

A segment's row holds consecutive chunks, one JSON text per line (compact JSON has no line breaks),
from ``first``. Chunk numbers only grow; after an interruption a stream may be cut back, which
leaves a gap. A chunk larger than one stored value is kept in pieces of its own segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palimpsest.hosts.interface import Sql
from palimpsest.store.schema import migrate

MAX_SEGMENT_CHARACTERS = 450_000
"""A segment's text: at most four bytes a character, so under the platform's 2 MB a value."""

_SEGMENTS_PER_READ = 8

_MIGRATIONS = (
    """
    create table palimpsest_stream_segments (
        turn integer not null,
        first integer not null,
        piece integer not null,
        body text not null,
        primary key (turn, first, piece)
    ) without rowid;
    """,
)


class StreamStore:
    """The stored chunks of every turn."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        migrate(sql, "streams", _MIGRATIONS)

    def append(self, turn: int, first: int, bodies: Sequence[str]) -> None:
        """Store consecutive chunks; ``first`` is the number of the first one."""
        start, size = 0, 0
        for index, body in enumerate(bodies):
            if size + len(body) > MAX_SEGMENT_CHARACTERS and index > start:
                self._write(turn, first + start, "\n".join(bodies[start:index]))
                start, size = index, 0
            size += len(body) + 1
        if start < len(bodies):
            self._write(turn, first + start, "\n".join(bodies[start:]))

    def _write(self, turn: int, first: int, text: str) -> None:
        for piece, part in enumerate(split_text(text)):
            self._sql.execute(
                "insert or replace into palimpsest_stream_segments (turn, first, piece, body)"
                " values (?, ?, ?, ?)",
                turn,
                first,
                piece,
                part,
            )

    def read(self, turn: int, after: int = -1) -> Iterator[tuple[int, str]]:
        """The chunks whose number is greater than ``after``, in order, a few segments at a time."""
        position = self._segment_of(turn, after + 1)
        while True:
            rows = self._sql.execute(
                "select first, body from palimpsest_stream_segments where turn = ? and first in"
                " (select distinct first from palimpsest_stream_segments where turn = ?"
                " and first >= ? order by first limit ?) order by first, piece",
                turn,
                turn,
                position,
                _SEGMENTS_PER_READ,
            )
            if not rows:
                return
            segments: dict[int, str] = {}
            for first, body in rows:
                number = int(first or 0)
                segments[number] = segments.get(number, "") + str(body)
            for first, text in segments.items():
                for offset, line in enumerate(text.split("\n")):
                    if first + offset > after:
                        yield first + offset, line
                position = first + 1

    def _segment_of(self, turn: int, number: int) -> int:
        rows = self._sql.execute(
            "select max(first) from palimpsest_stream_segments where turn = ? and first <= ?",
            turn,
            number,
        )
        return 0 if rows[0][0] is None else int(rows[0][0])

    def truncate(self, turn: int, count: int) -> None:
        """Keep only the first ``count`` stored chunks.

        The numbers of those kept do not change.
        """

        def write() -> None:
            runs: list[tuple[int, list[str]]] = []
            for kept, (number, body) in enumerate(self.read(turn)):
                if kept == count:
                    break
                if not runs or runs[-1][0] + len(runs[-1][1]) != number:
                    runs.append((number, []))
                runs[-1][1].append(body)
            self.delete(turn)
            for first, bodies in runs:
                self.append(turn, first, bodies)

        self._sql.transaction(write)

    def delete(self, turn: int) -> None:
        """Remove a turn's chunks."""
        self._sql.execute("delete from palimpsest_stream_segments where turn = ?", turn)


def split_text(text: str) -> list[str]:
    """The text in pieces that each fit into one stored value."""
    if len(text) <= MAX_SEGMENT_CHARACTERS:
        return [text]
    return [
        text[start : start + MAX_SEGMENT_CHARACTERS]
        for start in range(0, len(text), MAX_SEGMENT_CHARACTERS)
    ]
