"""What searches read of the index: all SQL of finding messages.

The tables and their upkeep are in :mod:`palimpsest.store.search_index`. No word of a query is ever
part of a statement: expressions are bound, and callers quote what they put into them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from palimpsest.errors import LimitError
from palimpsest.hosts.interface import Sql, SqlValue

SESSION_SPAN = 2**32
"""The keys of one session."""

FIRST_PIECE = 2**31
"""Keys from here on, within a session, hold the further pieces of very long messages."""

MAX_SESSION_NUMBER = 2**21 - 1
"""The last session number whose keys cross the JavaScript boundary unchanged (2^53 - 1)."""

POSTINGS = 1_000
"""The most messages that one expression is looked up in, newest first."""

EVERY_POSTING = 2**53 - 1
"""In the place of :data:`POSTINGS` where messages of any age may be the only ones wanted."""

# The keys of one session, or of all (?1 null).
_SPAN = f"""
span (first, last) as (
  select ifnull(min(number), 0) * {SESSION_SPAN}, (ifnull(max(number), -1) + 1) * {SESSION_SPAN} - 1
  from assistant_search_sessions where ?1 is null or session_id = ?1
)"""

# How many messages there are (from the first to the last key of each session), and the keys that
# open a sitting.
_EXTENT = f"""
with {_SPAN},
size (messages) as (
  select ifnull(sum(
    (select rowid from assistant_fts
     where rowid between number * {SESSION_SPAN} and number * {SESSION_SPAN} + {FIRST_PIECE - 1}
     order by rowid desc limit 1)
    - (select rowid from assistant_fts
       where rowid between number * {SESSION_SPAN} and number * {SESSION_SPAN} + {FIRST_PIECE - 1}
       order by rowid limit 1)
    + 1
  ), 0)
  from assistant_search_sessions where ?1 is null or session_id = ?1
)
select
  (select messages from size),
  (select json_group_array(doc - iif(?1 is null, 0, (select first from span)))
   from assistant_search_sittings
   where doc between (select first from span) and (select last from span)),
  iif(?1 is null, 0, (select first from span)),
  exists (select 1 from assistant_fts_grams limit 1)
"""


def _postings(table: str) -> str:
    # An expression is [match, literal]: rows that match and, unless it is null, hold the literal.
    return f"""
with {_SPAN}
select (
  select json_group_array(hit) from (
    select f.rowid - cast(?3 as integer) as hit from {table} f
    where f.{table} match json_extract(wanted.value, '$[0]')
      and f.rowid between (select first from span) and (select last from span)
      and (
        json_extract(wanted.value, '$[1]') is null
        or exists (
          select 1 from assistant_search d where d.doc = f.rowid and (
            instr(lower(d.text), json_extract(wanted.value, '$[1]'))
            or instr(lower(d.tools), json_extract(wanted.value, '$[1]'))
          )
        )
      )
    order by f.rowid desc limit cast(?4 as integer)
  )
)
from json_each(?2) wanted order by wanted.key
"""


_WORD_POSTINGS = _postings("assistant_fts")
_GRAM_POSTINGS = _postings("assistant_fts_grams")


def _passes(first: int) -> str:
    # Three parameters: roles (JSON array or null), since and until (ms or null).
    roles, since, until = f"?{first}", f"?{first + 1}", f"?{first + 2}"
    return (
        f"({roles} is null or d.role in (select value from json_each({roles})))"
        f" and ({since} is null or d.created_at >= {since})"
        f" and ({until} is null or d.created_at < {until})"
    )


_PHRASE = f"""
with {_SPAN}
select
  iif(?1 is null, d.rowid / {SESSION_SPAN} * {SESSION_SPAN}, 0) + cast(d.row as integer)
    as position,
  cast(d.row as integer) as row, d.message_id,
  (
    select session_id from assistant_search_sessions where number = d.rowid / {SESSION_SPAN}
  ) as session_id,
  d.role, cast(d.created_at as integer) as created_at, d.text, d.tools, d.about
from assistant_fts d
where d.assistant_fts match ?2
  and d.rowid between (select first from span) and (select last from span)
  and {_passes(3)}
order by d.rowid desc limit cast(?6 as integer)
"""

_TRAITS = f"""
select json_group_array(json_array(
  wanted.value, d.role, d.speaker, d.said_at, d.words, d.traits, {_passes(3)}
))
from json_each(?1) wanted
cross join assistant_search d on d.doc = wanted.value + cast(?2 as integer)
"""

_CONTENT = f"""
select
  wanted.value as position, d.row, d.message_id, n.session_id, d.role, d.created_at, d.text,
  d.tools, d.about
from json_each(?1) wanted
cross join assistant_search d on d.doc = wanted.value + cast(?2 as integer)
join assistant_search_sessions n on n.number = d.doc / {SESSION_SPAN}
order by wanted.key
"""


def _in_one_value(statement: str) -> str:
    # One JSON text crosses from the platform's SQLite much faster than rows of many columns.
    return f"""
select json_group_array(json_array(
  position, row, message_id, session_id, role, created_at, text, tools, about
)) from ({statement})
"""


_PHRASE_IN_ONE = _in_one_value(_PHRASE)
_CONTENT_IN_ONE = _in_one_value(_CONTENT)


@dataclass(frozen=True, slots=True)
class Filters:
    """What messages a search may return."""

    roles: tuple[str, ...] | None = None
    since: int | None = None
    until: int | None = None

    def bindings(self) -> tuple[SqlValue, SqlValue, SqlValue]:
        """As the statements take them."""
        roles = None if self.roles is None else json.dumps(self.roles)
        return roles, self.since, self.until


@dataclass(frozen=True, slots=True)
class Extent:
    """How large what is searched is."""

    messages: int
    """How many messages there are, deleted ones included."""

    sittings: list[int]
    """The positions that open a sitting, ascending."""

    base: int
    """What is added to a position to make a key: positions are row numbers where one session is
    searched, and keys where all are."""

    unspaced: bool
    """Whether the second index holds anything at all."""


class Candidate(NamedTuple):
    """What ranking is told of a message."""

    position: int
    role: str
    speaker: str
    said_at: int
    words: int
    traits: int
    passes: bool
    """Whether it passes the filters; others are asked for as neighbours."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a search result is made of."""

    position: int
    row: int
    message_id: str
    session_id: str
    role: str
    created_at: int
    text: str
    tools: str
    about: str


class SearchReader:
    """Reads the index of one database; every method is one or two statements."""

    def __init__(self, sql: Sql) -> None:
        self.sql = sql

    def base(self, session_id: str) -> int:
        """What is added to a session's row numbers to make keys; 0 for an unknown session."""
        return (self.number(session_id) or 0) * SESSION_SPAN

    def extent(self, session_id: str | None) -> Extent:
        """How large a session (None: every session) is."""
        messages, sittings, base, unspaced = self.sql.execute(_EXTENT, session_id)[0]
        return Extent(int(messages or 0), json.loads(str(sittings)), int(base or 0), bool(unspaced))

    def postings(
        self,
        session_id: str | None,
        base: int,
        expressions: Sequence[tuple[str, str | None]],
        *,
        newest: int = POSTINGS,
        grams: bool = False,
    ) -> list[list[int]]:
        """The positions of the messages that match each expression, newest first.

        :param base: the :class:`Extent`'s.
        :param expressions: FTS5 expressions, each with a literal (lower case) that the text must
            hold besides, or None.
        :param newest: the most messages that are looked up for one expression.
        :param grams: whether they are meant for the index of unspaced scripts.
        """
        if not expressions:
            return []
        statement = _GRAM_POSTINGS if grams else _WORD_POSTINGS
        wanted = json.dumps(expressions, ensure_ascii=False)
        rows = self.sql.execute(statement, session_id, wanted, base, newest)
        found = [json.loads(str(row[0])) for row in rows]
        return self._first_pieces(found, base, session_id is None)

    def phrase(
        self, session_id: str | None, match: str, filters: Filters, limit: int
    ) -> list[Content]:
        """The messages that match one FTS5 expression of the word index, newest first."""
        bindings = (session_id, match, *filters.bindings(), limit)
        return self._read_contents(_PHRASE_IN_ONE, _PHRASE, bindings)

    def candidates(self, base: int, positions: Iterable[int], filters: Filters) -> list[Candidate]:
        """What ranking needs to know of messages; positions without one are left out."""
        wanted = json.dumps(list(positions))
        rows = self.sql.execute(_TRAITS, wanted, base, *filters.bindings())
        return list(map(Candidate._make, json.loads(str(rows[0][0]))))

    def contents(self, base: int, positions: Sequence[int]) -> list[Content]:
        """The words of messages, in the order asked for."""
        return self._read_contents(_CONTENT_IN_ONE, _CONTENT, (json.dumps(positions), base))

    def _read_contents(
        self, in_one: str, in_rows: str, bindings: tuple[SqlValue, ...]
    ) -> list[Content]:
        try:
            rows = json.loads(str(self.sql.execute(in_one, *bindings)[0][0]))
        except LimitError:  # together the texts are larger than one value may be
            rows = self.sql.execute(in_rows, *bindings)
        return [Content(*row) for row in cast("list[list[Any]]", rows)]

    def _first_pieces(self, postings: list[list[int]], base: int, several: bool) -> list[list[int]]:
        """The postings with every further piece replaced by its message's first piece."""
        further: set[int] = set()
        for hits in postings:
            # The keys of further pieces are the last of their session, and postings descend.
            if hits and (several or hits[0] % SESSION_SPAN >= FIRST_PIECE):
                further |= {doc for doc in hits if doc % SESSION_SPAN >= FIRST_PIECE}
        if not further:
            return postings
        rows = self.sql.execute(
            "select wanted.value, d.row from json_each(?) wanted"
            " cross join assistant_search d on d.doc = wanted.value + cast(? as integer)",
            json.dumps(sorted(further)),
            base,
        )
        first = {
            int(doc or 0): int(doc or 0) // SESSION_SPAN * SESSION_SPAN + int(row or 0)
            for doc, row in rows
        }
        return [list(dict.fromkeys(first.get(doc, doc) for doc in hits)) for hits in postings]

    def number(self, session_id: str) -> int | None:
        """The number of a session, or None for an unknown one."""
        rows = self.sql.execute(
            "select number from assistant_search_sessions where session_id = ?", session_id
        )
        return int(rows[0][0] or 0) if rows else None
