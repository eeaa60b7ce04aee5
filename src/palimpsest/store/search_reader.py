"""What searches read of the index: all SQL of finding messages.

The tables and their upkeep are in :mod:`palimpsest.store.search_index`. No word of a query is ever
part of a statement: expressions are bound, and callers quote what they put into them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import repeat
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

_SESSIONS_KNOWN = 256
"""Of how many sessions the first key is remembered."""

EVERY_POSTING = 2**53 - 1
"""In the place of :data:`POSTINGS` where messages of any age may be the only ones wanted."""

CONTENT_COLUMNS = (
    "message_id", "role", "speaker", "created_at", "said_at", "sitting", "words", "traits", "row",
    "tokens", "bytes", "extra", "revision", "text", "tools", "about", "content",
)  # fmt: skip
"""The columns of ``assistant_fts`` in their order. FTS5 keeps them as ``c0``, ``c1``, ... of the
table ``assistant_fts_content``, where a row by its key costs a third of one read through FTS5."""

_INTEGERS = {"created_at", "said_at", "sitting", "words", "traits", "row"}


def _kept(column: str) -> str:
    """A column of the content table ``d``; integers were bound as REAL and are stored so."""
    name = f"d.c{CONTENT_COLUMNS.index(column)}"
    return f"cast({name} as integer)" if column in _INTEGERS else name


def _arrays(columns: Iterable[str]) -> str:
    """A JSON array with an array for each column: read faster than one for each row."""
    return "'[' || " + " || ',' || ".join(f"json_group_array({one})" for one in columns) + " || ']'"


# The first and the last key of one session (?1), or of all of them (?1 null).
_ONE_SPAN = f"""
with span (first, last) as materialized (
  select number * {SESSION_SPAN}, number * {SESSION_SPAN} + {SESSION_SPAN - 1}
  from assistant_search_sessions where session_id = ?1
)
"""
_WHOLE_SPAN = f"""
with span (first, last) as materialized (
  select 0, (max(number) + 1) * {SESSION_SPAN} - 1
  from assistant_search_sessions where ?1 is null having count(*) > 0
)
"""

# How many messages a session has: from its first key to its last.
_MESSAGES = f"""
  (select id from assistant_fts_content
   where id between {{first}} and {{first}} + {FIRST_PIECE - 1} order by id desc limit 1)
  - (select id from assistant_fts_content
     where id between {{first}} and {{first}} + {FIRST_PIECE - 1} order by id limit 1)
  + 1
"""
_ONE_SIZE = _MESSAGES.format(first="span.first")
_WHOLE_SIZE = f"""
(select sum({_MESSAGES.format(first=f"number * {SESSION_SPAN}")}) from assistant_search_sessions)
"""


def _postings(table: str, literals: bool) -> str:
    """One JSON array of the positions for each expression of ?2, with commas between them.

    An expression is text to match or, with ``literals``, [match, literal]: rows that match and,
    unless it is null, hold the literal.
    """
    match = "json_extract(wanted.value, '$[0]')" if literals else "wanted.value"
    holds = """
        and (
          json_extract(wanted.value, '$[1]') is null
          or exists (
            select 1 from assistant_search d where d.doc = f.rowid and (
              instr(lower(d.text), json_extract(wanted.value, '$[1]'))
              or instr(lower(d.tools), json_extract(wanted.value, '$[1]'))
            )
          )
        )"""
    return f"""
(select group_concat(hits) from (
  select (
    select json_group_array(hit) from (
      select f.rowid - span.first as hit from {table} f
      where f.{table} match {match} and f.rowid between span.first and span.last
      {holds if literals else ""}
      order by f.rowid desc limit cast(?3 as integer)
    )
  ) as hits
  from json_each(?2) wanted order by wanted.key
))
"""


def _look_up(whole: bool, literals: bool) -> str:
    """What is searched, and the postings of the word index; null for an unknown session.

    JSON is put together as text: whether it stays JSON through a subquery depends on the release.
    """
    return f"""
{_WHOLE_SPAN if whole else _ONE_SPAN}
select (
  select
    '[' || ifnull({_WHOLE_SIZE if whole else _ONE_SIZE}, 0)
    || ',' || (
      select json_group_array(doc - span.first) from assistant_search_sittings
      where doc between span.first and span.last
    )
    || ',' || span.first
    || ',' || exists (select 1 from assistant_fts_grams_content)
    || ',[' || ifnull({_postings("assistant_fts", literals)}, '') || ']]'
  from span
) as value
"""


def _look_up_grams(whole: bool) -> str:
    """The postings of the index of unspaced scripts."""
    return f"""
{_WHOLE_SPAN if whole else _ONE_SPAN}
select (
  select '[' || {_postings("assistant_fts_grams", literals=True)} || ']' from span
) as value
"""


# By whether all sessions are searched and, of the words, whether there are literals.
_WORDS = {(whole, some): _look_up(whole, some) for whole in (False, True) for some in (False, True)}
_GRAMS = {whole: _look_up_grams(whole) for whole in (False, True)}


def _passes(first: int, role: str, created_at: str) -> str:
    """Whether a message passes filters: three parameters, roles (JSON or null), since, until."""
    roles, since, until = f"?{first}", f"?{first + 1}", f"?{first + 2}"
    return (
        f"({roles} is null or {role} in (select value from json_each({roles})))"
        f" and ({since} is null or {created_at} >= {since})"
        f" and ({until} is null or {created_at} < {until})"
    )


def _phrase(whole: bool, filtered: bool) -> str:
    """The newest messages (?3: how many) that match the expression ?2, as :class:`Content`."""
    number = f"d.rowid / {SESSION_SPAN}"
    position, session_id = "cast(d.row as integer)", "?1"
    if whole:
        position = f"{number} * {SESSION_SPAN} + cast(d.row as integer)"
        session_id = f"(select session_id from assistant_search_sessions where number = {number})"
    passes = _passes(4, "d.role", "cast(d.created_at as integer)") if filtered else "true"
    return f"""
{_WHOLE_SPAN if whole else _ONE_SPAN}
select
  {position} as position, cast(d.row as integer) as row, d.message_id, {session_id} as session_id,
  d.role, cast(d.created_at as integer) as created_at, d.text, d.tools, d.about
from assistant_fts d
where d.assistant_fts match ?2
  and d.rowid between (select first from span) and (select last from span) and {passes}
order by d.rowid desc limit cast(?3 as integer)
"""


_FOUND_COLUMNS = ("row", "message_id", "role", "created_at", "text", "tools", "about")

# As above for one session (?4), whose first key (?1) was read before: looking it up for each search
# would take as long as reading what is found. What is found is one JSON array for each column, and
# the character before them tells whether the key is still the session's.
_PHRASE_FROM_KEY = f"""
select exists (
  select 1 from assistant_search_sessions
  where number = cast(?1 as integer) / {SESSION_SPAN} and session_id = ?4
) || (
  select {_arrays(map(_kept, _FOUND_COLUMNS))}
  from (
    select f.rowid as doc from assistant_fts f
    where f.assistant_fts match ?2
      and f.rowid between cast(?1 as integer) and cast(?1 as integer) + {SESSION_SPAN - 1}
    order by f.rowid desc limit cast(?3 as integer)
  ) cross join assistant_fts_content d on d.id = doc
) as value
"""

_CANDIDATE_COLUMNS = ("role", "speaker", "said_at", "words", "traits")


def _candidates(filtered: bool) -> str:
    """One JSON array for each field of :class:`Candidate`."""
    columns = ["wanted.value", *map(_kept, _CANDIDATE_COLUMNS)]
    if filtered:
        columns.append(_passes(3, _kept("role"), _kept("created_at")))
    return f"""
select {_arrays(columns)} as value
from json_each(?1) wanted
cross join assistant_fts_content d on d.id = wanted.value + cast(?2 as integer)
"""


_CONTENT = f"""
select
  wanted.value as position, {_kept("row")} as row, {_kept("message_id")} as message_id,
  n.session_id, {_kept("role")} as role, {_kept("created_at")} as created_at,
  {_kept("text")} as text, {_kept("tools")} as tools, {_kept("about")} as about
from json_each(?1) wanted
cross join assistant_fts_content d on d.id = wanted.value + cast(?2 as integer)
join assistant_search_sessions n on n.number = d.id / {SESSION_SPAN}
order by wanted.key
"""


def _in_one_value(statement: str) -> str:
    # One JSON text crosses from the platform's SQLite much faster than rows of many columns.
    return f"""
select json_group_array(json_array(
  position, row, message_id, session_id, role, created_at, text, tools, about
)) as value from ({statement})
"""


# By whether all sessions are searched, and whether there are filters.
_PHRASES = {
    (whole, some): _phrase(whole, some) for whole in (False, True) for some in (False, True)
}
_PHRASES_IN_ONE = {key: _in_one_value(statement) for key, statement in _PHRASES.items()}
_CANDIDATES = {filtered: _candidates(filtered) for filtered in (False, True)}
_CONTENT_IN_ONE = _in_one_value(_CONTENT)


class Filters(NamedTuple):
    """What messages a search may return."""

    roles: tuple[str, ...] | None = None
    since: int | None = None
    until: int | None = None

    def bindings(self) -> tuple[SqlValue, ...]:
        """As the statements take them; nothing where every message passes."""
        if self is NO_FILTERS:
            return ()
        roles = None if self.roles is None else json.dumps(self.roles)
        return roles, self.since, self.until


NO_FILTERS = Filters()
"""Every message passes."""


class Extent(NamedTuple):
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


class Content(NamedTuple):
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


Expression = tuple[str, str | None]
"""An FTS5 expression and a literal (lower case) that the text must hold besides, or None."""


class SearchReader:
    """Reads the index of one database; every method is one statement, seldom two."""

    def __init__(self, sql: Sql) -> None:
        self.sql = sql
        # The first keys of sessions searched lately; statements check them.
        self._first_keys: dict[str, int] = {}

    def look_up(
        self, session_id: str | None, expressions: Sequence[Expression], newest: int = POSTINGS
    ) -> tuple[Extent, list[list[int]]]:
        """How large a session (None: every session) is, and where each expression is found.

        :param newest: the most messages that are looked up for one expression.
        :returns: for each expression the positions of the messages that match, newest first.
        """
        try:
            return self._look_up(session_id, expressions, newest)
        except LimitError:  # together the postings are larger than one value may be
            if len(expressions) < 2:
                raise
        extent = self._look_up(session_id, (), newest)[0]
        each = [self._look_up(session_id, [one], newest)[1][0] for one in expressions]
        return extent, each

    def _look_up(
        self, session_id: str | None, expressions: Sequence[Expression], newest: int
    ) -> tuple[Extent, list[list[int]]]:
        literals = any(literal for _, literal in expressions)
        wanted: Sequence[object] = expressions if literals else [match for match, _ in expressions]
        found = self.sql.value(
            _WORDS[session_id is None, literals],
            session_id,
            json.dumps(wanted, ensure_ascii=False),
            newest,
        )
        if found is None:
            return Extent(0, [], 0, unspaced=False), [[] for _ in expressions]
        messages, sittings, base, unspaced, postings = json.loads(str(found))
        extent = Extent(messages, sittings, base, bool(unspaced))
        return extent, self._first_pieces(postings, base, session_id is None)

    def look_up_grams(
        self, session_id: str | None, base: int, expressions: Sequence[Expression], newest: int
    ) -> list[list[int]]:
        """As :meth:`look_up`, in the index of unspaced scripts.

        :param base: the :class:`Extent`'s.
        """
        wanted = json.dumps(expressions, ensure_ascii=False)
        found = self.sql.value(_GRAMS[session_id is None], session_id, wanted, newest)
        postings: list[list[int]] = json.loads(str(found))
        return self._first_pieces(postings, base, session_id is None)

    def phrase(
        self, session_id: str | None, match: str, filters: Filters, limit: int
    ) -> list[Content]:
        """The messages that match one FTS5 expression of the word index, newest first."""
        first = self._first_keys.get(session_id) if session_id is not None else None
        if first is not None and filters is NO_FILTERS:
            with suppress(LimitError):
                found = str(self.sql.value(_PHRASE_FROM_KEY, first, match, limit, session_id))
                if found[0] == "1":
                    rows, ids, *others = json.loads(found[1:])
                    columns = (rows, rows, ids, repeat(session_id), *others)
                    return list(map(Content._make, zip(*columns, strict=False)))
        if session_id is not None:
            self._note_first_key(session_id)
        passing = filters.bindings()
        kind = session_id is None, bool(passing)
        return self._contents(
            _PHRASES_IN_ONE[kind], _PHRASES[kind], (session_id, match, limit, *passing)
        )

    def candidates(self, base: int, positions: Iterable[int], filters: Filters) -> list[Candidate]:
        """What ranking needs to know of messages; positions without one are left out."""
        wanted = list(positions)
        passing = filters.bindings()
        found = self.sql.value(_CANDIDATES[bool(passing)], str(wanted), base, *passing)
        columns: list[list[Any]] = json.loads(str(found))
        if not passing:
            columns.append([True] * len(columns[0]))
        return list(map(Candidate._make, zip(*columns, strict=True)))

    def contents(self, base: int, positions: Sequence[int]) -> list[Content]:
        """The words of messages, in the order asked for."""
        return self._contents(_CONTENT_IN_ONE, _CONTENT, (json.dumps(positions), base))

    def _contents(self, in_one: str, in_rows: str, bindings: tuple[SqlValue, ...]) -> list[Content]:
        try:
            rows = json.loads(str(self.sql.value(in_one, *bindings)))
        except LimitError:  # together the texts are larger than one value may be
            rows = self.sql.execute(in_rows, *bindings)
        return list(map(Content._make, cast("list[list[Any]]", rows)))

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

    def _note_first_key(self, session_id: str) -> None:
        if len(self._first_keys) >= _SESSIONS_KNOWN:
            self._first_keys.clear()
        number = self.number(session_id)
        if number is not None:
            self._first_keys[session_id] = number * SESSION_SPAN

    def number(self, session_id: str) -> int | None:
        """The number of a session, or None for an unknown one."""
        rows = self.sql.execute(
            "select number from assistant_search_sessions where session_id = ?", session_id
        )
        return int(rows[0][0] or 0) if rows else None
