"""Search: a query in plain words in, the messages that answer it out, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import cast

from palimpsest.errors import InvalidSearchError, SearchError, SqlError
from palimpsest.hosts.interface import MAX_INTEGER
from palimpsest.search.dates import NamedTimes
from palimpsest.search.query import Query, QueryTerm, parse_query, plain_phrase
from palimpsest.search.ranking import (
    BROAD,
    NEARNESS,
    Question,
    Sittings,
    Term,
    Times,
    best_first,
    rank_words,
    role_named,
    turn_factors,
    weigh_lengths,
    weigh_variants,
)
from palimpsest.search.snippets import Excerpt, Highlighter, snippet
from palimpsest.store.search_reader import (
    EVERY_POSTING,
    NO_FILTERS,
    POSTINGS,
    Candidates,
    Content,
    Extent,
    Filters,
    Found,
    SearchReader,
)

MAX_LIMIT = 1000
"""The most results of one search."""

_NOWHERE: list[int] = []
"""Where a variant is found that is not looked up."""

CANDIDATES = 100
"""How many messages are ranked by more than their words, at the least."""

SITTINGS_READ = 1_000
"""How many sittings, the newest, are compared with a time that the query names."""


class SearchResult:
    """One found message; cannot be changed. Equal if message and score are."""

    __slots__ = ("_excerpt", "_found", "_highlighter", "_score")

    def __init__(self, found: Found, score: float, highlighter: Highlighter) -> None:
        """
        :param found: the message as the index holds it.
        :param highlighter: of the query. Snippets are made when they are first asked for.
        """
        self._found = found
        self._score = score
        self._highlighter = highlighter
        self._excerpt: Excerpt | None = None

    @property
    def _content(self) -> Content:
        return Content._make(self._found)

    @property
    def id(self) -> str:
        """The message's id."""
        return self._content.message_id

    @property
    def session_id(self) -> str:
        """The session that the message is in."""
        return self._content.session_id

    @property
    def role(self) -> str:
        """The message's role."""
        return self._content.role

    @property
    def content(self) -> str:
        """The message's text; for a message without text, what its tools took and gave."""
        return self._content.text or self._content.tools

    @property
    def score(self) -> float:
        """The larger the better; comparable within one search only."""
        return self._score

    @property
    def created_at(self) -> int:
        """When the message was stored, in ms since 1970."""
        return self._content.created_at

    @property
    def row(self) -> int:
        """The message's number in its session."""
        return self._content.row

    @property
    def snippet(self) -> str:
        """The best place of the content, as plain text."""
        return self._place()[0]

    @property
    def highlights(self) -> tuple[tuple[int, int], ...]:
        """Where the query's words are in the snippet: (start, end) in characters, ascending."""
        return self._place()[1]

    def marked(self, before: str = "<mark>", after: str = "</mark>") -> str:
        """The snippet for HTML: escaped, with ``before`` and ``after`` around each highlight."""
        snippet, highlights = self._place()
        pieces: list[str] = []
        end = 0
        for start, stop in highlights:
            pieces += (escape(snippet[end:start]), before, escape(snippet[start:stop]), after)
            end = stop
        return "".join((*pieces, escape(snippet[end:])))

    def _place(self) -> Excerpt:
        if self._excerpt is None:
            content = self._content
            self._excerpt = snippet((content.text, content.tools, content.about), self._highlighter)
        return self._excerpt

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SearchResult):
            return NotImplemented
        return (self._found, self._score) == (other._found, other._score)

    def __hash__(self) -> int:
        return hash((self._found, self._score))

    def __repr__(self) -> str:
        fields = ("id", "session_id", "role", "content", "score", "created_at", "row")
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
        return f"SearchResult({shown})"


def search_messages(
    index: SearchReader,
    query: str,
    *,
    session_id: str | None,
    limit: int = 20,
    role: str | Sequence[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    path_rows: Sequence[int] | None = None,
    clock: Callable[[], int] | None = None,
) -> list[SearchResult]:
    """Find the messages that answer a query, best first.

    :param query: plain text; ``"a phrase"`` and ``begin*`` are all the syntax there is.
    :param session_id: the session to search, or None for all.
    :param limit: the most results, 1 to 1,000.
    :param role: only messages of this role, or of one of these.
    :param since: only messages stored at or after this time (ms since 1970).
    :param until: only messages stored before this time (ms since 1970).
    :param path_rows: only these messages, in the order of their path (a branch of one session).
    :param clock: gives the time that "yesterday" counts from, in ms since 1970.
    :returns: nothing for an empty query, or when no message holds any of its words or was said
        at a time that it names.
    :raises InvalidSearchError: a parameter has no meaning.
    :raises SearchError: the index failed.
    """
    filters = _checked(query, session_id, limit, role, since, until, path_rows)
    words = plain_phrase(query)
    try:
        if words is not None and path_rows is None:
            # A quoted phrase of plain words needs no more than this of what _Search does.
            highlighter = Highlighter((words,))
            found = index.phrase(session_id, f'"{words}"', filters, limit)
            return [SearchResult(message, 1.0, highlighter) for message in found]
        parsed = parse_query(query)
        if parsed is None:
            return []
        return _Search(index, parsed, session_id, limit, filters, path_rows, clock).run()
    except SqlError as error:
        raise SearchError(f"the search index failed: {error}") from error


def _checked(
    query: object,
    session_id: object,
    limit: object,
    role: object,
    since: object,
    until: object,
    path_rows: object,
) -> Filters:
    if not isinstance(query, str):
        raise InvalidSearchError(f"a query is a string, got {type(query).__name__}")
    if session_id is not None and not isinstance(session_id, str):
        raise InvalidSearchError(f"a session id is a string, got {type(session_id).__name__}")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidSearchError(f"a search limit is an integer from 1 to {MAX_LIMIT}: {limit!r}")
    if path_rows is not None and session_id is None:
        raise InvalidSearchError("a path belongs to one session: session_id is needed")
    if role is None and since is None and until is None:
        return NO_FILTERS
    return Filters(_roles(role), _moment("since", since), _moment("until", until))


def _roles(role: object) -> tuple[str, ...] | None:
    if role is None:
        return None
    if isinstance(role, str):
        return (role,)
    if not isinstance(role, Sequence):
        raise InvalidSearchError(f"a role is a string or a list of them: {role!r}")
    roles: list[str] = []
    for one in cast("Sequence[object]", role):
        if not isinstance(one, str):
            raise InvalidSearchError(f"a role is a string: {one!r}")
        roles.append(one)
    return tuple(roles)


def _moment(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_INTEGER:
        raise InvalidSearchError(f"{name!r} is a time in ms since 1970: {value!r}")
    return value


class _Search:
    """One search, from the parsed query to its results."""

    def __init__(
        self,
        index: SearchReader,
        query: Query,
        session_id: str | None,
        limit: int,
        filters: Filters,
        path_rows: Sequence[int] | None,
        clock: Callable[[], int] | None,
    ) -> None:
        self._index = index
        self._query = query
        self._session_id = session_id
        self._limit = limit
        self._wanted = max(CANDIDATES, 2 * limit)
        self._filters = filters
        self._path_rows = path_rows
        self._named = NamedTimes(query.text, None if clock is None else clock())
        # Whether messages of any age may be the only ones that are wanted.
        whole = query.exact or path_rows is not None or filters is not NO_FILTERS
        self._newest = EVERY_POSTING if whole else POSTINGS
        self._highlighter = Highlighter(word for term in query.terms for word in term.shown)

    def run(self) -> list[SearchResult]:
        """The results, best first."""
        query = self._query
        phrase = query.phrase if self._path_rows is None else None
        # A question hardly ever stands in a message word for word: its words are looked up first,
        # and mostly tell that no message holds them all.
        if phrase is None or query.text.endswith("?"):
            return self._ranked(phrase, [])
        verbatim = self._phrase(phrase)
        if query.exact or len(verbatim) >= self._limit:
            return [self._result(message, 1.0) for message in verbatim]
        return self._ranked(None, verbatim)

    def _phrase(self, phrase: str) -> list[Found]:
        return self._index.phrase(self._session_id, phrase, self._filters, self._limit)

    def _ranked(self, phrase: str | None, verbatim: list[Found]) -> list[SearchResult]:
        """All words as alternatives; messages that hold the whole query verbatim come first.

        :param phrase: the whole query, if these are not known yet.
        """
        extent, found = self._look_up()
        path = self._path()
        terms = self._terms(extent, found, path)
        if phrase is not None and self._may_stand_verbatim(terms, found):
            verbatim = self._phrase(phrase)
            if len(verbatim) >= self._limit:
                return [self._result(message, 1.0) for message in verbatim]
        return self._results(extent.base, verbatim, self._scores(extent, terms, path))

    def _scores(
        self, extent: Extent, terms: list[Term], path: dict[int, int] | None
    ) -> dict[int, float]:
        """The best positions with their scores."""
        sittings = Sittings(terms, extent.sittings if path is None else [])
        broad = BROAD if self._newest == POSTINGS else max(extent.messages, BROAD)
        scores = rank_words(terms, self._wanted, broad)
        times = self._times(extent)
        times.add_to(scores)
        if (allowed := self._allowed(terms, path)) is not None:
            scores = {position: score for position, score in scores.items() if position in allowed}
        sittings.add_to(scores)
        known, chosen = self._candidates(extent.base, scores)
        question, subject = self._question(terms, known)
        words = dict(zip(known.positions, known.words, strict=True))
        ranked = {
            position: (by_words + by_sitting + by_time) * factor
            for position, by_words, by_sitting, by_time, factor in zip(
                chosen,
                weigh_lengths(subject, chosen, words),
                sittings.scores(chosen),
                times.scores(chosen),
                turn_factors(chosen, known, question),
                strict=True,
            )
        }
        if len(terms) == 1 and len(self._query.text.split()) == 1:
            _prefer(ranked, terms[0].hits)
        if path is not None:
            rows = list(path)
            ranked = {rows[position]: score for position, score in ranked.items()}
        return ranked

    def _results(
        self, base: int, verbatim: list[Found], ranked: dict[int, float]
    ) -> list[SearchResult]:
        known = {position for position, *_ in verbatim}
        chosen = [position for position in best_first(ranked) if position not in known]
        wanted = chosen[: self._limit - len(verbatim)]
        contents = self._index.contents(self._session_id, base, wanted) if wanted else []
        top = max(ranked.values(), default=0.0)
        return [
            *(self._result(message, top + 1.0) for message in verbatim),
            *(self._result(message, ranked[message[0]]) for message in contents),
        ]

    def _candidates(self, base: int, scores: dict[int, float]) -> tuple[Candidates, list[int]]:
        """What is known of the positions with the best scores and of those around them, and which
        of these positions pass the filters.
        """
        order = best_first(scores)
        known = Candidates([], [], [], [], [], [])
        asked: set[int] = set()
        chosen: list[int] = []
        start, step = 0, self._wanted
        while start < len(order) and len(chosen) < (self._limit if start else self._wanted):
            positions = order[start : start + step]
            around = {position + offset for offset in NEARNESS for position in positions}
            known = known.joined(self._known(base, around - asked))
            asked |= around
            passing = known.passing()
            chosen += [position for position in positions if position in passing]
            start, step = start + step, 4 * step
        return known, chosen

    def _known(self, base: int, positions: Iterable[int]) -> Candidates:
        rows = self._path_rows
        if rows is None:
            return self._index.candidates(base, positions, self._filters)
        places = {rows[place]: place for place in positions if 0 <= place < len(rows)}
        found = self._index.candidates(base, places, self._filters)
        return found._replace(positions=[places[row] for row in found.positions])

    def _look_up(self) -> tuple[Extent, list[list[list[int]]]]:
        """How large what is searched is and, for each term and variant, the positions found."""
        terms = self._query.terms
        wanted = [variant for term in terms for variant in term.variants]
        extent, words = self._index.look_up(
            self._session_id,
            [(variant.match, variant.literal) for variant in wanted if not variant.grams],
            self._newest,
        )
        grams: list[list[int]] = []
        if extent.unspaced and any(variant.grams for variant in wanted):
            grams = self._index.look_up_grams(
                self._session_id,
                extent.base,
                [(variant.match, variant.literal) for variant in wanted if variant.grams],
                self._newest,
            )
        return extent, _by_term(terms, words, grams)

    def _terms(
        self, extent: Extent, lists: list[list[list[int]]], path: dict[int, int] | None
    ) -> list[Term]:
        """The query's terms with where they were found."""
        terms: list[Term] = []
        for term, found in zip(self._query.terms, lists, strict=True):
            rarity, values = weigh_variants(
                [variant.value for variant in term.variants],
                [self._estimate(positions, extent) for positions in found],
                extent.messages,
            )
            terms.append(Term(_combine(found, values, path), term.weight, term.weight * rarity))
        return terms

    def _estimate(self, positions: list[int], extent: Extent) -> int:
        """In how many messages an expression is found; told from the newest if there are more."""
        if len(positions) < self._newest:
            return len(positions)
        if extent.base == 0:  # positions are keys of many sessions
            return max(len(positions), extent.messages // 2)
        span = positions[0] - positions[-1] + 1
        return min(extent.messages, len(positions) * extent.messages // span)

    def _may_stand_verbatim(self, terms: list[Term], lists: list[list[list[int]]]) -> bool:
        """Whether a message may hold the whole query: False only if certainly none does.

        Such a message holds each word. Only where all messages with a word were read, words are
        letters and digits that FTS5 reads as Python does (ASCII), and the phrase has every word.
        """
        if not self._query.phrase_is_whole:
            return True
        holders = sorted(
            (
                term.hits
                for asked, term, found in zip(self._query.terms, terms, lists, strict=True)
                if asked.variants[0].is_plain and len(found[0]) < self._newest
            ),
            key=len,
        )
        if not holders:
            return True
        holding = set(holders[0])
        for hits in holders[1:]:
            holding &= hits.keys()
        return bool(holding)

    def _times(self, extent: Extent) -> Times:
        """The sittings at a time that the query names; none on a branch."""
        if self._path_rows is not None or not self._named.spans(0, 0):
            return Times([], [], [], 0)
        opening = extent.sittings[-SITTINGS_READ:]
        said_at = self._index.said_at(extent.base, opening)
        spans = self._named.spans(min(said_at, default=0), max(said_at, default=0))
        return Times(opening, said_at, spans, extent.messages)

    def _path(self) -> dict[int, int] | None:
        """For a branch: each row of its path, with its position on the path."""
        if self._path_rows is None:
            return None
        return {row: position for position, row in enumerate(self._path_rows)}

    def _allowed(self, terms: list[Term], path: dict[int, int] | None) -> set[int] | None:
        if self._query.exact:
            return set[int].intersection(*(set(term.hits) for term in terms))
        return None if path is None else set(path.values())

    def _question(self, terms: list[Term], known: Candidates) -> tuple[Question, list[Term]]:
        """What the query asks for besides its words, and its terms that name no speaker."""
        query = self._query
        speakers = {word for speaker in set(known.speakers) for word in speaker.split()}
        roles: set[str] = set()
        subject: list[Term] = []
        for asked, term in zip(query.terms, terms, strict=True):
            role = role_named(term, known) if asked.name else None
            if role is not None:
                roles.add(role)
            elif asked.name not in speakers:
                subject.append(term)
        said_at = known.said_at
        question = Question(
            words=query.words,
            roles=frozenset(roles),
            asks_time=query.asks_time,
            asks_number=query.asks_number,
            times=self._named.spans(min(said_at, default=0), max(said_at, default=0)),
        )
        return question, subject or terms

    def _result(self, found: Found, score: float) -> SearchResult:
        return SearchResult(found, score, self._highlighter)


def _by_term(
    terms: Sequence[QueryTerm], words: Sequence[list[int]], grams: Sequence[list[int]]
) -> list[list[list[int]]]:
    """The postings of each term's variants, from those of both indexes in order."""
    found: dict[bool, Iterator[list[int]]] = {False: iter(words), True: iter(grams)}
    return [[next(found[variant.grams], _NOWHERE) for variant in term.variants] for term in terms]


def _combine(
    found: list[list[int]], values: Sequence[float], path: dict[int, int] | None
) -> dict[int, float]:
    """Where any variant of a term was found, with the best variant's value."""
    lists = [
        (value, positions) for positions, value in zip(found, values, strict=True) if positions
    ]
    lists.sort(key=lambda pair: pair[0])
    hits: dict[int, float] = {}
    for value, positions in lists:  # ascending: a better variant replaces another
        hits |= dict.fromkeys(positions, value)
    if path is not None:
        hits = {path[position]: value for position, value in hits.items() if position in path}
    return hits


def _prefer(ranked: dict[int, float], hits: dict[int, float]) -> None:
    """Put the messages that hold the query's only word before those that stand beside it."""
    least = min((ranked[position] for position in ranked.keys() & hits.keys()), default=0.0)
    for position in ranked.keys() - hits.keys():
        ranked[position] *= least / (1 + ranked[position])
