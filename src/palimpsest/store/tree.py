"""The shape of a session's tree: paths as key ranges, parents, children, totals of a path."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from palimpsest.errors import CorruptHistoryError
from palimpsest.hosts.interface import Sql
from palimpsest.store.message_tables import MAX_SEQ, SESSION_SPAN
from palimpsest.store.rows import (
    ROW_COLUMNS,
    Interval,
    MessageRow,
    Place,
    Totals,
    message_row,
)

_SEQS_AT_ONCE = 100_000
"""Messages whose numbers are read as one text: it stays well under a value's limit."""

_PATH = """
with recursive path (run, high) as (
  select cast(?1 as integer), cast(?2 as integer)
  union all
  select r.parent_run, r.parent_seq
  from path join assistant_runs r on r.session = ?3 and r.run = path.run
  where r.parent_run is not null and path.run > ?4
)
select group_concat(run || ' ' || high) from path
"""

_SUBTREE = """
with recursive below (run, low) as (
  select cast(?1 as integer), cast(?2 as integer)
  union all
  select r.run, r.run
  from below join assistant_runs r
    on r.session = ?3 and r.parent_run = below.run and r.parent_seq >= below.low
)
select run, low from below
"""


class MessageTree:
    """Reads the tree of the sessions of one database; never reads content."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    def place(self, session_id: str) -> Place | None:
        """A session's number and counters; None while it holds nothing."""
        rows = self._sql.execute(
            "select number, next_seq, edits from assistant_session_numbers where session_id = ?",
            session_id,
        )
        return Place(*cast("list[int]", rows[0])) if rows else None

    def place_of_key(self, key: int) -> Place:
        """The place of the session that a message's key belongs to, as it is now."""
        number = key // SESSION_SPAN
        rows = self._sql.execute(
            "select next_seq, edits from assistant_session_numbers where number = ?", number
        )
        if not rows:
            raise CorruptHistoryError(f"session number {number} has messages but no row")
        return Place(number, *cast("list[int]", rows[0]))

    def row(self, place: Place, message_id: str) -> MessageRow | None:
        """A message by its id."""
        rows = self._sql.execute(
            f"select {ROW_COLUMNS} from assistant_identified_messages where session = ? and id = ?",
            place.number,
            message_id,
        )
        return message_row(rows[0]) if rows else None

    def newest(self, place: Place) -> MessageRow | None:
        """The newest message, which is the leaf of the active branch."""
        return self.last_in(place, 0, MAX_SEQ)

    def last_in(self, place: Place, low: int, high: int) -> MessageRow | None:
        """The newest message with ``low <= seq <= high``."""
        rows = self._sql.execute(
            f"select {ROW_COLUMNS} from assistant_ordered_messages"
            " where key between cast(? as integer) and cast(? as integer)"
            " order by key desc limit 1",
            place.base + low,
            place.base + high,
        )
        return message_row(rows[0]) if rows else None

    def first_in(self, place: Place, low: int, high: int = MAX_SEQ) -> MessageRow | None:
        """The oldest message with ``low <= seq <= high``."""
        rows = self._sql.execute(
            f"select {ROW_COLUMNS} from assistant_ordered_messages"
            " where key between cast(? as integer) and cast(? as integer)"
            " order by key limit 1",
            place.base + low,
            place.base + high,
        )
        return message_row(rows[0]) if rows else None

    def rows_between(self, place: Place, low: int, high: int) -> list[MessageRow]:
        """The messages of all branches with ``low <= seq <= high``, in the order of addition."""
        rows = self._sql.execute(
            f"select {ROW_COLUMNS} from assistant_ordered_messages"
            " where key between cast(? as integer) and cast(? as integer) order by key",
            place.base + low,
            place.base + high,
        )
        return [message_row(row) for row in rows]

    # -- paths ------------------------------------------------------------------------------

    def path(self, place: Place, run: int, seq: int, until: int = 0) -> list[Interval]:
        """The ranges of the path that ends at ``seq`` of ``run``, oldest first.

        :param until: stop as soon as a range begins at or before this sequence number.
        :raises CorruptHistoryError: a run is attached to what is newer than itself.
        """
        listed = self._sql.execute(_PATH, run, seq, place.number, until)[0][0]
        intervals: list[Interval] = []
        for entry in str(listed).split(","):
            start, _, high = entry.partition(" ")
            intervals.append(Interval(int(start), int(start), int(high)))
        intervals.reverse()
        for older, newer in pairwise(intervals):
            if older.high >= newer.low:
                raise CorruptHistoryError(f"run {newer.run} is attached behind its own beginning")
        return intervals

    def parent(self, place: Place, row: MessageRow) -> MessageRow | None:
        """The message before ``row`` on its path; None for a root."""
        if row.seq > row.run:
            found = self.last_in(place, row.run, row.seq - 1)
            if found is not None:
                return found
        for interval in reversed(self.path(place, row.run, row.seq)[:-1]):
            found = self.last_in(place, interval.low, interval.high)
            if found is not None:
                return found
        return None

    def following(self, place: Place, row: MessageRow) -> MessageRow | None:
        """The next message of the same run."""
        found = self.first_in(place, row.seq + 1)
        return found if found is not None and found.run == row.run else None

    def children(self, place: Place, row: MessageRow) -> list[MessageRow]:
        """The messages whose parent is ``row``, oldest first."""
        following = self.following(place, row)
        found = [] if following is None else [following]
        high = MAX_SEQ if following is None else following.seq - 1
        found += self._attached(place, row.run, row.seq, high)
        return sorted(found, key=lambda child: child.key)

    def roots(self, place: Place) -> list[MessageRow]:
        """The messages without a parent, oldest first."""
        runs = self._sql.execute(
            "select run from assistant_runs where session = ? and parent_run is null", place.number
        )
        found: list[MessageRow] = []
        for (run,) in runs:
            found += self._heads(place, int(run or 0))
        return sorted(found, key=lambda root: root.key)

    def _attached(self, place: Place, run: int, low: int, high: int) -> list[MessageRow]:
        runs = self._sql.execute(
            "select run from assistant_runs where session = ? and parent_run = ?"
            " and parent_seq between ? and ?",
            place.number,
            run,
            low,
            high,
        )
        found: list[MessageRow] = []
        for (attached,) in runs:
            found += self._heads(place, int(attached or 0))
        return found

    def _heads(self, place: Place, run: int) -> list[MessageRow]:
        """The first message of a run, and of the runs attached where it has none left before."""
        heads: list[MessageRow] = []
        pending = [run]
        while pending:
            start = pending.pop()
            first = self.first_in(place, start)
            high = MAX_SEQ
            if first is not None and first.run == start:
                heads.append(first)
                high = first.seq - 1
            if high >= start:
                rows = self._sql.execute(
                    "select run from assistant_runs where session = ? and parent_run = ?"
                    " and parent_seq between ? and ?",
                    place.number,
                    start,
                    start,
                    high,
                )
                pending.extend(int(attached or 0) for (attached,) in rows)
        return heads

    def forks(self, place: Place, steps: Sequence[Interval]) -> list[list[MessageRow]]:
        """The children of every message of a path that a further run is attached to."""
        found: list[list[MessageRow]] = []
        for step in steps:
            rows = self._sql.execute(
                "select distinct parent_seq from assistant_runs where session = ?"
                " and parent_run = ? and parent_seq between ? and ? order by parent_seq",
                place.number,
                step.run,
                step.low,
                step.high,
            )
            seen: set[int] = set()
            for (seq,) in rows:
                parent = self.last_in(place, step.low, int(seq or 0))
                if parent is not None and parent.key not in seen:
                    seen.add(parent.key)
                    found.append(self.children(place, parent))
        return found

    def count(self, place: Place) -> int:
        """How many messages a session holds."""
        return int(
            self._sql.execute(
                "select count(*) from assistant_messages where session = ?", place.number
            )[0][0]
            or 0
        )

    def newest_below(self, place: Place, row: MessageRow) -> MessageRow:
        """The newest message of the subtree of ``row``; ``row`` itself where it has no children."""
        newest = row
        for run, low in self._sql.execute(_SUBTREE, row.run, row.seq, place.number):
            last = self._last_of_run(place, int(run or 0), int(low or 0))
            if last is not None and last.key > newest.key:
                newest = last
        return newest

    def _last_of_run(self, place: Place, run: int, low: int) -> MessageRow | None:
        """The newest message of a run with a sequence number of ``low`` or more."""
        starts = self._sql.execute(
            "select run from assistant_runs where session = ? and run > ? order by run",
            place.number,
            run,
        )
        high = MAX_SEQ
        for (start,) in starts:
            first = self.first_in(place, int(start or 0))
            if first is None:
                break
            if first.run != run:
                high = int(start or 0) - 1
                break
        last = self.last_in(place, low, high) if high >= low else None
        return last if last is not None and last.run == run else None

    def revisions(self, place: Place, steps: Sequence[Interval]) -> tuple[int, int]:
        """How many messages ranges hold, and how often those were changed since they were added."""
        count = changes = 0
        for step in steps:
            values = self._sql.execute(
                "select count(*), ifnull(sum(revision), 0) from assistant_contents"
                " where key between cast(? as integer) and cast(? as integer)",
                place.base + step.low,
                place.base + step.high,
            )[0]
            count += int(values[0] or 0)
            changes += int(values[1] or 0)
        return count, changes

    def seqs(self, place: Place, steps: Sequence[Interval]) -> list[int]:
        """The sequence numbers of the messages of ranges, in order."""
        found: list[int] = []
        for step in steps:
            for low in range(step.low, step.high + 1, _SEQS_AT_ONCE):
                text = self._sql.execute(
                    f"select group_concat(key % {SESSION_SPAN}) from assistant_contents"
                    " where key between cast(? as integer) and cast(? as integer)",
                    place.base + low,
                    place.base + min(low + _SEQS_AT_ONCE - 1, step.high),
                )[0][0]
                if text is not None:
                    found += sorted(map(int, str(text).split(",")))
        return found

    # -- totals -----------------------------------------------------------------------------

    def totals(self, place: Place, row: MessageRow) -> Totals:
        """The true totals of the path that ends at ``row``."""
        length, tokens, size = row.length, row.path_tokens, row.path_bytes
        if row.as_of == place.edits:
            return Totals(length, tokens, size)
        shifts = self._sql.execute(
            "select run, seq, length, tokens, bytes from assistant_shifts"
            " where session = ? and number > ? and seq < ?",
            place.number,
            row.as_of,
            row.seq,
        )
        if shifts:
            reach = {step.run: step.high for step in self.path(place, row.run, row.seq)}
            for values in shifts:
                run, seq, *change = cast("list[int]", values)
                if seq <= reach.get(run, -1):
                    length += change[0]
                    tokens += change[1]
                    size += change[2]
        return Totals(length, tokens, size)

    def total_of_interval(self, place: Place, interval: Interval) -> Totals:
        """Messages, tokens and bytes of a range of one run."""
        last = self.last_in(place, interval.low, interval.high)
        first = self.first_in(place, interval.low, interval.high)
        if first is None or last is None:
            return Totals(0, 0, 0)
        end, begin = self.totals(place, last), self.totals(place, first)
        return Totals(
            end.length - begin.length + 1,
            end.tokens - begin.tokens + first.tokens,
            end.bytes - begin.bytes + first.bytes,
        )
