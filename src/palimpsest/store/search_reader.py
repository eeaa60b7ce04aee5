"""What searches read of the index: all SQL of finding messages.

The tables and their upkeep are in :mod:`palimpsest.store.search_index`. No word of a query is ever
part of a statement: expressions are bound, and callers quote what they put into them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import compress, repeat
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


def _array(*values: str) -> str:
    """A JSON array of expressions that are JSON themselves, as bytes.

    It is put together as text: whether JSON stays JSON through a subquery depends on the release.
    It is given as bytes, which cross to Python at once; a text crosses character by character.
    """
    return f"""cast('[' || {" || ',' || ".join(values)} || ']' as blob)"""


def _columns(*columns: str) -> list[str]:
    """A JSON array for each column: read faster than one for each row."""
    return [f"json_group_array({column})" for column in columns]


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

_SITTINGS = """(
  select json_group_array(doc - span.first) from assistant_search_sittings
  where doc between span.first and span.last
)"""

_SAID_AT = f"""
select cast(json_group_array({_kept("said_at")}) as blob) as value
from (
  select doc from assistant_search_sittings
  where doc between cast(?1 as integer) and cast(?2 as integer) order by doc
) cross join assistant_fts_content d on d.id = doc
"""
"""When the messages were said that open the sittings from one key to another."""


def _postings(table: str, literals: bool) -> str:
    """A JSON array of the positions for each expression of ?2, with commas between them.

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
    """What is searched, and the postings of the word index; null for an unknown session."""
    found = _array(
        f"ifnull({_WHOLE_SIZE if whole else _ONE_SIZE}, 0)",
        _SITTINGS,
        "span.first",
        "exists (select 1 from assistant_fts_grams_content)",
        f"'[' || ifnull({_postings('assistant_fts', literals)}, '') || ']'",
    )
    return f"{_WHOLE_SPAN if whole else _ONE_SPAN} select (select {found} from span) as value"


def _look_up_grams(whole: bool) -> str:
    """The postings of the index of unspaced scripts."""
    found = _array(_postings("assistant_fts_grams", literals=True))
    return f"{_WHOLE_SPAN if whole else _ONE_SPAN} select (select {found} from span) as value"


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


_CONTENT = tuple(map(_kept, ("row", "message_id", "role", "created_at", "text", "tools", "about")))
"""What a :class:`Content` is made of where one session is searched."""

_WHOLE_CONTENT = (
    f"d.id / {SESSION_SPAN} * {SESSION_SPAN} + {_kept('row')}",
    f"(select session_id from assistant_search_sessions where number = d.id / {SESSION_SPAN})",
    *_CONTENT,
)
"""The same where all are, with the position and the session before it."""


def _phrase_keys(first: str, last: str, filtered: bool) -> str:
    """The keys of the newest messages (?3: how many) that match the expression ?2."""
    passes = _passes(4, "f.role", "cast(f.created_at as integer)") if filtered else "true"
    return f"""
  select f.rowid as doc from assistant_fts f
  where f.assistant_fts match ?2 and f.rowid between {first} and {last} and {passes}
  order by f.rowid desc limit cast(?3 as integer)
"""


_WANTED_KEYS = "select value + cast(?2 as integer) as doc from json_each(?1) order by key"


class _Reading(NamedTuple):
    """Two statements that read the messages at some keys."""

    at_once: str
    """A JSON array for each column, as one value."""

    in_rows: str
    """A row for each message, for texts that together are larger than one value may be."""


def _reading(keys: str, whole: bool, span: str = "") -> _Reading:
    columns = _WHOLE_CONTENT if whole else _CONTENT
    messages = f"from ({keys}) cross join assistant_fts_content d on d.id = doc"
    return _Reading(
        f"{span} select {_array(*_columns(*columns))} as value {messages}",
        f"{span} select {', '.join(columns)} {messages}",
    )


def _reading_phrase(whole: bool, filtered: bool) -> _Reading:
    keys = _phrase_keys("(select first from span)", "(select last from span)", filtered)
    return _reading(keys, whole, _WHOLE_SPAN if whole else _ONE_SPAN)


# By whether all sessions are searched, and whether there are filters.
_PHRASES = {
    (whole, some): _reading_phrase(whole, some) for whole in (False, True) for some in (False, True)
}
_CONTENTS = {whole: _reading(_WANTED_KEYS, whole) for whole in (False, True)}

# As above for one session (?4), whose first key (?1) was read before: looking it up for each search
# would take as long as reading what is found. What comes first tells whether the key is still the
# session's.
_KEY = "cast(?1 as integer)"
_IS_KEY = f"""exists (
  select 1 from assistant_search_sessions where number = {_KEY} / {SESSION_SPAN} and session_id = ?4
)"""
_PHRASE_FROM_KEY = f"""
select {_array(_IS_KEY, *_columns(*_CONTENT))} as value
from ({_phrase_keys(_KEY, f"{_KEY} + {SESSION_SPAN - 1}", filtered=False)})
cross join assistant_fts_content d on d.id = doc
"""


def _candidates(filtered: bool) -> str:
    """A JSON array for each field of :class:`Candidates`."""
    columns = ["wanted.value", *map(_kept, ("role", "speaker", "said_at", "words", "traits"))]
    if filtered:
        columns.append(_passes(3, _kept("role"), _kept("created_at")))
    return f"""
select {_array(*_columns(*columns))} as value
from json_each(?1) wanted
cross join assistant_fts_content d on d.id = wanted.value + cast(?2 as integer)
"""


_CANDIDATES = {filtered: _candidates(filtered) for filtered in (False, True)}


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


class Candidates(NamedTuple):
    """What ranking is told of messages: each field has a value for each message."""

    positions: list[int]
    roles: list[str]
    speakers: list[str]
    """In lower case; '' where a message does not tell."""

    said_at: list[int]
    words: list[int]
    traits: list[int]
    passes: list[int] | None = None
    """Whether it passes the filters (others are asked for as neighbours); None if all pass."""

    def joined(self, others: Candidates) -> Candidates:
        """These and others."""
        if not self.positions:
            return others
        passes = self.passes, others.passes
        return Candidates(
            self.positions + others.positions,
            self.roles + others.roles,
            self.speakers + others.speakers,
            self.said_at + others.said_at,
            self.words + others.words,
            self.traits + others.traits,
            None if passes[0] is None or passes[1] is None else passes[0] + passes[1],
        )

    def passing(self) -> set[int]:
        """The positions of those that pass the filters."""
        passes = self.passes
        return set(self.positions if passes is None else compress(self.positions, passes))


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


Found = tuple[int, int, str, str, str, int, str, str, str]
"""The values of a :class:`Content`. To name them takes as long as to read them, so whoever is asked
for one of them does."""

Expression = tuple[str, str | None]
"""An FTS5 expression and a literal (lower case) that the text must hold besides, or None."""


_decode = json.JSONDecoder().raw_decode


def _read(value: SqlValue) -> Any:
    """The JSON of a statement, which comes as bytes."""
    return _decode(value.decode())[0] if isinstance(value, bytes) else None


def _made(session_id: str | None, columns: Sequence[Sequence[Any]]) -> list[Found]:
    """Messages of columns as the statements give them; of no column if nothing is found."""
    if not columns:
        return []
    if session_id is None:
        positions, sessions, rows, ids, *others = columns
        found = zip(positions, rows, ids, sessions, *others, strict=True)
    else:
        rows, ids, *others = columns
        # A message's first row in the index is the one that is searched: its position is its row.
        found = zip(rows, rows, ids, repeat(session_id), *others, strict=False)
    return cast("list[Found]", list(found))


def _one_per_message(found: list[Found]) -> list[Found]:
    """Without further pieces of a message that is found already."""
    kept: dict[int, Found] = {}
    for message in found:
        kept.setdefault(message[0], message)
    return list(kept.values())


class SearchReader:
    """Reads the index of one database; every method is one statement, seldom two.

    Numbers are bound as text, which crosses unchanged, and cast in the statement.
    """

    def __init__(self, sql: Sql) -> None:
        self.sql = sql
        # The first keys of sessions searched lately; statements check them.
        self._first_keys: dict[str, str] = {}

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
            str(newest),
        )
        if found is None:
            return Extent(0, [], 0, unspaced=False), [[] for _ in expressions]
        messages, sittings, base, unspaced, postings = _read(found)
        extent = Extent(messages, sittings, base, bool(unspaced))
        return extent, self._first_pieces(postings, base, session_id is None)

    def look_up_grams(
        self, session_id: str | None, base: int, expressions: Sequence[Expression], newest: int
    ) -> list[list[int]]:
        """As :meth:`look_up`, in the index of unspaced scripts.

        :param base: the :class:`Extent`'s.
        """
        wanted = json.dumps(expressions, ensure_ascii=False)
        found = self.sql.value(_GRAMS[session_id is None], session_id, wanted, str(newest))
        postings: list[list[int]] = _read(found)
        return self._first_pieces(postings, base, session_id is None)

    def said_at(self, base: int, opening: Sequence[int]) -> list[int]:
        """When the messages were said that open sittings.

        :param opening: their positions: some of an :class:`Extent`'s, without a gap.
        """
        if not opening:
            return []
        return _read(self.sql.value(_SAID_AT, str(base + opening[0]), str(base + opening[-1])))

    def phrase(
        self, session_id: str | None, match: str, filters: Filters, limit: int
    ) -> list[Found]:
        """The messages that match one FTS5 expression of the word index, newest first."""
        if session_id is not None:
            if filters is NO_FILTERS and (key := self._first_keys.get(session_id)) is not None:
                # The shortest way for the commonest search: no more calls than it needs.
                try:
                    found = self.sql.value(_PHRASE_FROM_KEY, key, match, str(limit), session_id)
                except LimitError:  # together the texts are larger than one value may be
                    found = None
                is_key, *columns = _read(found) or (0,)
                if is_key and len(set(columns[0])) == len(columns[0]):
                    return _made(session_id, columns)
            self._note_first_key(session_id)
        passing = filters.bindings()
        reading = _PHRASES[session_id is None, bool(passing)]
        bindings = (session_id, match, str(limit), *passing)
        return _one_per_message(self._contents(session_id, reading, bindings))

    def candidates(self, base: int, positions: Iterable[int], filters: Filters) -> Candidates:
        """What ranking needs to know of messages; positions without one are left out."""
        passing = filters.bindings()
        found = self.sql.value(
            _CANDIDATES[bool(passing)], str(list(positions)), str(base), *passing
        )
        return Candidates(*_read(found))

    def contents(self, session_id: str | None, base: int, positions: Sequence[int]) -> list[Found]:
        """The words of messages of a session (None: of any), in the order asked for."""
        reading = _CONTENTS[session_id is None]
        return self._contents(session_id, reading, (str(list(positions)), str(base)))

    def _contents(
        self, session_id: str | None, reading: _Reading, bindings: tuple[SqlValue, ...]
    ) -> list[Found]:
        try:
            columns = _read(self.sql.value(reading.at_once, *bindings))
        except LimitError:  # together the texts are larger than one value may be
            columns = list(zip(*self.sql.execute(reading.in_rows, *bindings), strict=True))
        return _made(session_id, columns)

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
            self._first_keys[session_id] = str(number * SESSION_SPAN)

    def number(self, session_id: str) -> int | None:
        """The number of a session, or None for an unknown one."""
        rows = self.sql.execute(
            "select number from assistant_search_sessions where session_id = ?", session_id
        )
        return int(rows[0][0] or 0) if rows else None
