"""What a query in plain text asks the index for.

No query text is ever syntax of SQL or FTS5. Two forms have a meaning of their own: a phrase in
double quotes, and a word that ends in ``*`` (any word that begins so). A query of quoted phrases
only asks for messages that hold all of them; in any other query all words are alternatives, and
ranking decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from palimpsest.search.words import STOP_WORDS, other_forms
from palimpsest.store.search_text import HAS_UNSPACED, segmented, storable

MAX_QUERY_CHARACTERS = 20_000
"""What lies beyond is not read: a query is a question, not a document."""

MAX_TERMS = 40
"""The most words of one query that are looked up."""

LONGEST_KEPT = 40
"""Longer words, in characters, are read anew each time."""

PHRASE_WORDS = 3
"""From so many words on, messages that hold the whole query word for word are looked for first."""

MAX_PHRASE_WORDS = 100
"""The most words of a query that are looked for word for word."""

_QUOTED = re.compile('["“”„«]([^"“”„«»]+)["“”»]')
_PLAIN_PHRASE = re.compile(r'\s{,9}"([A-Za-z0-9]{1,60}(?: [A-Za-z0-9]{1,60}){,20})"\s{,9}')
_PART = re.compile(r"[^\W_]+")
_EDGES = "\"“”„«»‘’'`()[]{}<>,;:!?…。、，！？；：「」『』.·*"
_POSSESSIVE = re.compile(r"['’](?:s|S)?$")
_NUMBER_QUESTION = re.compile(r"\bhow (?:many|much|long|old|often|far|big|tall)\b")
_TIME_QUESTION = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:date|day|month|year|time|week)\b|\bhow long ago\b"
)
SYNONYM_VALUE = 0.6
"""What a synonym counts beside the word itself."""

MEMBER_VALUE = 0.6
"""What a member of the category that a word names counts."""

PART_VALUE = 0.5
"""What a part of an identifier counts beside the whole."""

LOOSE_VALUE = 0.6
"""What an identifier's words in a row count when other signs part them."""


class Variant(NamedTuple):
    """One way a term may be written."""

    match: str
    """An FTS5 expression, safely quoted."""

    value: float = 1.0
    literal: str | None = None
    """What the text must hold besides, in lower case."""

    grams: bool = False
    """Whether it is looked up in the index of unspaced scripts."""

    @property
    def is_plain(self) -> bool:
        """Whether it is found wherever its words stand."""
        return self.literal is None and not self.grams


class QueryTerm(NamedTuple):
    """One word or phrase of the query."""

    variants: tuple[Variant, ...]
    """The word itself first."""

    shown: tuple[str, ...]
    """What to highlight: words, or phrases with spaces; unspaced scripts as they are."""

    weight: float = 1.0

    name: str = ""
    """The word in lower case where it may be somebody's name (it is written with a capital)."""


@dataclass(slots=True)
class Query:
    """A query as it is looked up."""

    text: str
    terms: list[QueryTerm]
    exact: bool
    """Whether every term must be in a message (a query of quoted phrases only)."""

    phrase: str | None
    """The whole query as one FTS5 phrase, where looking for it first makes sense."""

    @property
    def words(self) -> frozenset[str]:
        """All words of the text, in lower case."""
        return frozenset([part.lower() for part in _PART.findall(self.text)])

    @property
    def phrase_is_whole(self) -> bool:
        """Whether each message with :attr:`phrase` certainly holds every term.

        Of other texts than ASCII, FTS5 may take for a separator what Python takes for a letter.
        """
        return self.text.isascii() and len(_PART.findall(self.text)) <= MAX_PHRASE_WORDS

    @property
    def asks_time(self) -> bool:
        """Whether it asks when."""
        return _TIME_QUESTION.search(self.text.lower()) is not None

    @property
    def asks_number(self) -> bool:
        """Whether it asks how many, how much, how long."""
        return _NUMBER_QUESTION.search(self.text.lower()) is not None


def plain_phrase(text: str) -> str | None:
    """The words of a query that is one quoted phrase of plain words, else None.

    :func:`parse_query` makes one exact term of them, and nothing else.
    """
    plain = _PLAIN_PHRASE.fullmatch(text)
    return None if plain is None else plain[1]


def parse_query(text: str) -> Query | None:
    """Read a query; None if it holds no word (or other sign) that can be searched for."""
    text = storable(text[:MAX_QUERY_CHARACTERS]).strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    quoted = [phrase for phrase in _QUOTED.findall(text) if searchable(phrase)]
    rest = _QUOTED.sub(" ", text) if quoted else text
    phrases = [term for phrase in quoted for term in _phrase_terms(phrase)]
    content, stop = _word_terms(rest)
    terms = [*phrases, *content][:MAX_TERMS] or stop
    if not terms:
        return None
    exact = bool(phrases) and not content and not stop
    phrase = _lean_phrase(phrases, exact, text)
    return Query(text, terms, exact, phrase)


def searchable(text: str) -> bool:
    """Whether the text holds anything that the index holds."""
    return _PART.search(text) is not None or has_unspaced(text)


def has_unspaced(text: str) -> bool:
    """Whether the text holds scripts without spaces between words."""
    return not text.isascii() and HAS_UNSPACED.search(text) is not None


def quote(words: str) -> str:
    """Words as one FTS5 phrase: nothing inside is syntax."""
    return '"' + words.replace('"', '""') + '"'


def _lean_phrase(phrases: list[QueryTerm], exact: bool, text: str) -> str | None:
    if exact:
        variants = [variant for term in phrases for variant in term.variants[:1]]
        if any(variant.grams or variant.literal for variant in variants):
            return None
        return " AND ".join(variant.match for variant in variants)
    words = _PART.findall(text)
    if len(words) < PHRASE_WORDS or has_unspaced(text) or "*" in text:
        return None
    return quote(" ".join(words[:MAX_PHRASE_WORDS]))


def _phrase_terms(phrase: str) -> Iterator[QueryTerm]:
    if has_unspaced(phrase):
        for run in _runs(phrase):
            yield QueryTerm((Variant(quote(" ".join(run)), grams=True),), ("".join(run),))
        return
    parts = _PART.findall(phrase)
    literal = phrase.strip().lower() if _has_bare_sign(phrase) else None
    yield QueryTerm((Variant(quote(" ".join(parts)), literal=literal),), (" ".join(parts),))


def _has_bare_sign(text: str) -> bool:
    # "C++" or "--flag": the signs tell it from "C" and "flag". Signs between words do not matter.
    core = text.strip().strip(_EDGES)
    return core.isascii() and bool(core) and not (core[0].isalnum() and core[-1].isalnum())


def _word_terms(text: str) -> tuple[list[QueryTerm], list[QueryTerm]]:
    """The terms of the words that carry a subject, and those of the others."""
    content: list[QueryTerm] = []
    stop: list[QueryTerm] = []
    seen: set[str] = set()
    for token in text.split():
        lowered = token.lower()
        if lowered in seen or len(content) >= MAX_TERMS:
            continue
        seen.add(lowered)
        terms, is_stop = _token_terms(token) if len(token) <= LONGEST_KEPT else _read_token(token)
        (stop if is_stop else content).extend(terms)
    return content, stop


def _read_token(token: str) -> tuple[tuple[QueryTerm, ...], bool]:
    """The terms of what stands between two spaces, and whether it carries no subject."""
    if has_unspaced(token):
        return tuple(_unspaced_terms(token)), False
    prefix = len(token) > 1 and token[-1] == "*" and token[-2].isalnum()
    core = _POSSESSIVE.sub("", token.strip(_EDGES))
    parts = [part.lower() for part in _PART.findall(core)]
    if not parts:
        return (), True
    words = " ".join(parts)
    if prefix:
        return (QueryTerm((Variant(f"{quote(words)} *"),), (f"{words}*",)),), False
    if len(parts) == 1 and core.lower() == words:
        is_name = core[0].isupper() and not core[1:2].isupper()
        return (_simple_term(words, words if is_name else ""),), words in STOP_WORDS
    is_stop = all(part in STOP_WORDS for part in parts) and not _has_bare_sign(core)
    return (_identifier_term(core, parts),), is_stop


# The words of questions recur: most are stop words.
_token_terms = lru_cache(maxsize=1024)(_read_token)


def _simple_term(word: str, name: str) -> QueryTerm:
    forms, synonyms, members = other_forms(word)
    variants = [Variant(_any_of((word, *forms))), Variant(quote(word), grams=True)]
    if synonyms:
        variants.append(Variant(_any_of(synonyms), SYNONYM_VALUE))
    if members:
        variants.append(Variant(_any_of(members), MEMBER_VALUE))
    return QueryTerm(tuple(variants), (word, *forms, *synonyms, *members), name=name)


def _any_of(words: tuple[str, ...]) -> str:
    return " OR ".join(quote(word) for word in words)


def _identifier_term(core: str, parts: list[str]) -> QueryTerm:
    whole = quote(" ".join(parts))
    literal = core.lower() if core.isascii() else None
    # Signs at an edge ("C++") tell it from the bare word; signs inside are mostly style.
    loose = LOOSE_VALUE / 2 if _has_bare_sign(core) else LOOSE_VALUE
    variants = [Variant(whole, literal=literal)]
    if literal is not None:
        variants.append(Variant(whole, loose))
    if len(parts) > 1:
        joined = "".join(parts)
        if joined.isalpha():
            variants.append(Variant(quote(joined), LOOSE_VALUE))
        alone = tuple(part for part in parts if len(part) > 1 and part not in STOP_WORDS)
        if alone:
            variants.append(Variant(_any_of(alone), PART_VALUE))
    return QueryTerm(tuple(variants), (" ".join(parts), *parts))


def _unspaced_terms(token: str) -> Iterator[QueryTerm]:
    for run in _runs(token):
        if len(run) == 1 and run[0].isascii():
            word = run[0]
            yield QueryTerm((Variant(quote(word)), Variant(quote(word), grams=True)), (word,))
            continue
        if len(run) <= 8:
            yield QueryTerm((Variant(quote(" ".join(run)), grams=True),), ("".join(run),))
        if len(run) > 2:
            for first, second in pairwise(run):
                pair = Variant(quote(f"{first} {second}"), grams=True)
                yield QueryTerm((pair,), (first + second,), weight=0.7)


def _runs(text: str) -> Iterator[list[str]]:
    """The runs of unspaced characters, and the words between them, as the index holds them."""
    for run in segmented(text).split("."):
        characters = run.split()
        held: list[str] = []
        for character in characters:
            if character.isascii():
                if held:
                    yield held
                yield [character]
                held = []
            else:
                held.append(character)
        if held:
            yield held
