"""How messages are ranked for a query: pure functions over what the index found.

A conversation is not a set of documents. Three things are therefore added to the usual weight of
rare words:

- **Neighbours.** A word counts for the messages around it too (:data:`NEARNESS`): an answer seldom
  repeats the words of its question. The nearest occurrence counts most; besides, a message and its
  neighbours are weighed as one text (:data:`SURROUNDINGS_WEIGHT`).
- **The sitting.** Messages of a sitting (talk without a long pause) that holds many of the query's
  rare words are preferred (:data:`SITTING_WEIGHT`).
- **The time.** Messages of sittings at a time that the query names are found by that alone, and
  it counts like a word (:data:`TIME_WEIGHT`).
- **What a turn does.** Turns that report, in answer to a question or at the start of a sitting, are
  preferred to turns that ask or react; so are turns by who is named in the query, turns that tell a
  time or a number when the query asks for one, and turns said when the query says. Each is one
  factor (:data:`FACTORS`), small beside the words'.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, repeat

from palimpsest.store.search_index import SITTING_ROWS
from palimpsest.store.search_reader import Candidates
from palimpsest.store.search_text import (
    ABOUT_OTHER,
    ABOUT_SELF,
    ASKS,
    GREETS,
    HAS_QUESTION,
    TELLS_NUMBER,
    TELLS_TIME,
)

NEARNESS = {0: 1.0, 1: 0.7, -1: 0.3, 2: 0.4, -2: 0.3}
"""What an occurrence counts for a message so many turns after it (negative: before it)."""

SITTING_WEIGHT = 0.8
"""What the words of the whole sitting count beside those of the message and its neighbours."""

TIME_WEIGHT = 1.0
"""What being said at a time that the query names counts, beside holding a word that is as rare."""

BROAD = 400
"""Of a word found in more messages than this only the newest find anything; where rarer words have
found enough messages it only adds to those."""

ENOUGH = 1_000
"""Once so many positions are found, more frequent words only add to those."""

PAUSE = 3_600_000
"""The pause, in ms, after which a message opens a sitting."""

FACTORS = {
    "asks": -0.12,
    "about self": 0.13,
    "about other": -0.10,
    "answers": 0.15,
    "opens": 0.24,
    "speaker": 0.25,
    "time": 0.30,
    "number": 0.18,
    "when": 0.50,
}
"""Natural logarithms of the factors of what a turn does."""

LENGTH_POWER = 0.1
"""How much longer turns are preferred, between 4 and 60 words."""

LENGTH_SHARE = 0.3
"""How much of a word's worth is spread over the length of its message (0: none, 1: all)."""

SURROUNDINGS_WEIGHT = 0.4
"""What the message and its neighbours count as one text, beside the nearest occurrences."""

SATURATION = 2.0
SURROUNDINGS_LENGTH = 0.7
"""BM25's parameters k1 and b for that text."""

LONG = 300
"""Messages of more words than this are held back a little: they hold any word by chance."""

LONG_POWER = 0.1
LONG_LEAST = -0.2
"""The least that length alone takes: the message that holds a word stays before its neighbours."""


NAMED_AT_LEAST = 4
NAMED_MORE = 3
"""How often, and how many times more often, one of two roles says a name that is the other's."""


@dataclass(slots=True)
class Term:
    """One word or phrase of the query and where it was found."""

    hits: dict[int, float]
    """The position of each message that holds it, and how well (1: the very word)."""

    weight: float = 1.0
    """What the term counts beside the others."""

    rarity: float = 1.0
    """How rare its word is among the messages (inverse document frequency), times the weight."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the query asks for besides its words."""

    words: frozenset[str] = frozenset()
    """All its words in lower case, for names of speakers."""

    roles: frozenset[str] = frozenset()
    """The roles whose speaker it names, where messages do not tell their speakers."""

    asks_time: bool = False
    asks_number: bool = False
    times: Sequence[tuple[int, int]] = field(default_factory=lambda: ())
    """Spans of time (ms, end excluded) that it names."""


def weigh_variants(
    values: Sequence[float], counts: Sequence[int], messages: int
) -> tuple[float, list[float]]:
    """How rare a word is, and what each of its variants counts beside it.

    What stands in for the word (a synonym, a member of the category it names) leaves the word as
    rare as it is, and counts less the commoner it is itself.

    :param values: of each variant; 1 for those that are the word itself.
    :param counts: in how many messages each is found.
    :param messages: how many messages there are.
    """
    own = sum(count for value, count in zip(values, counts, strict=True) if value == 1)
    rarity = _rarity(own, messages)
    weighed = [
        value if value == 1 else value * min(1.0, _rarity(count, messages) / rarity)
        for value, count in zip(values, counts, strict=True)
    ]
    return rarity, weighed


def rank_words(terms: Sequence[Term], wanted: int, broad: int = BROAD) -> dict[int, float]:
    """The score of each position by the query's words in it and around it.

    :param wanted: how many positions are enough for broad words to add no more.
    :param broad: from how many messages on a word is broad.
    """
    scores: dict[int, float] = {}
    for term in sorted(terms, key=lambda term: len(term.hits)):
        hits = term.hits
        if not hits:
            continue
        rarity = term.rarity
        if len(scores) >= (wanted if len(hits) > broad else max(wanted, ENOUGH)):
            for position in scores.keys() & hits.keys():
                scores[position] += rarity * hits[position]
            continue
        near = _near(hits if len(hits) <= broad else _newest(hits, broad), rarity)
        for position, value in near.items():
            if position in scores:
                scores[position] += value
            else:
                scores[position] = value
    return scores


def _newest(hits: Mapping[int, float], most: int) -> dict[int, float]:
    return {position: hits[position] for position in sorted(hits, reverse=True)[:most]}


def _by_value(hits: Mapping[int, float]) -> dict[float, list[int]]:
    """The positions with each value: most words have one value, hardly any more than three."""
    values = set(hits.values())
    if len(values) == 1:
        return {values.pop(): list(hits)}
    return {
        value: [position for position, found in hits.items() if found == value] for value in values
    }


def _near(hits: Mapping[int, float], rarity: float) -> dict[int, float]:
    """What the nearest occurrence of a word counts for the positions around them."""
    by_value = _by_value(hits)
    steps = sorted(
        (value * share, offset, value) for value in by_value for offset, share in NEARNESS.items()
    )
    best: dict[int, float] = {}
    for counted, offset, value in steps:  # ascending: a nearer occurrence replaces a farther one
        worth = rarity * counted
        for position in by_value[value]:
            best[position + offset] = worth
    return best


def best_first(scores: Mapping[int, float]) -> list[int]:
    """The positions by their scores; of equal ones the newer first."""
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)


class Sittings:
    """The score of each sitting by the query's words in it.

    :param opening: the positions that open a sitting, ascending.
    """

    def __init__(self, terms: Sequence[Term], opening: Sequence[int]) -> None:
        self._opening = opening
        self._scores: dict[int, float] = {}
        """By the number of sittings that open up to a position."""
        for term in terms if opening else ():
            if 0 < len(term.hits) <= BROAD:
                self._add(term)

    def _add(self, term: Term) -> None:
        found: dict[int, float] = {}
        for position, value in term.hits.items():
            sitting = bisect_right(self._opening, position)
            found[sitting] = found.get(sitting, 0.0) + value
        rarity = _rarity(len(found), len(self._opening)) * term.weight
        for sitting, value in found.items():
            scored = self._scores.get(sitting, 0.0)
            self._scores[sitting] = scored + rarity * 2 * value / (value + 1)

    def scores(self, positions: Sequence[int]) -> list[float]:
        """What its sitting adds to the score of each position."""
        found = self._scores
        sittings = map(bisect_right, repeat(self._opening), positions)
        return [SITTING_WEIGHT * found.get(sitting, 0.0) for sitting in sittings]

    def add_to(self, scores: dict[int, float]) -> None:
        """Add to each position's score what its sitting adds."""
        if not self._scores:
            return
        opening, positions = self._opening, sorted(scores)
        for sitting, score in self._scores.items():
            start = bisect_left(positions, opening[sitting - 1]) if sitting else 0
            end = bisect_left(positions, opening[sitting]) if sitting < len(opening) else None
            added = SITTING_WEIGHT * score
            for position in positions[start:end]:
                scores[position] += added


class Times:
    """What being said at a time that the query names adds to a message's score.

    So what was said then is found though it repeats no word of the query.

    :param opening: the positions that open a sitting, ascending.
    :param said_at: when the messages there were said.
    :param times: spans of time (ms, end excluded).
    :param messages: how many messages there are.
    """

    def __init__(
        self,
        opening: Sequence[int],
        said_at: Sequence[int],
        times: Sequence[tuple[int, int]],
        messages: int,
    ) -> None:
        inside = {
            place
            for start, end in times
            for place, moment in enumerate(said_at)
            if start <= moment < end
        }
        self._firsts = [opening[place] for place in sorted(inside)]
        self._ends: list[int] = []
        """Where the sittings end, the end excluded."""
        for place in sorted(inside):
            last = opening[place] + SITTING_ROWS
            self._ends.append(min(last, opening[place + 1]) if place + 1 < len(opening) else last)
        self._size = sum(self._ends) - sum(self._firsts)
        self._worth = TIME_WEIGHT * _rarity(self._size, messages)

    def _holds(self, position: int) -> bool:
        place = bisect_right(self._firsts, position)
        return place > 0 and position < self._ends[place - 1]

    def scores(self, positions: Sequence[int]) -> list[float]:
        """What is added to the score of each position."""
        if not self._size:
            return [0.0] * len(positions)
        return [self._worth if self._holds(position) else 0.0 for position in positions]

    def add_to(self, scores: dict[int, float]) -> None:
        """Add it to all scores; a time that is not broad finds messages of its own."""
        if self._size > BROAD:
            found = list(filter(self._holds, scores))
        else:
            found = [*chain.from_iterable(map(range, self._firsts, self._ends))]
        for position in found:
            scores[position] = scores.get(position, 0.0) + self._worth


def _rarity(found: int, messages: int) -> float:
    others = max(messages - found, 0)
    return math.log(1 + (others + 0.5) / (found + 0.5))


def weigh_lengths(
    terms: Sequence[Term], positions: Sequence[int], words: Mapping[int, int]
) -> list[float]:
    """Score the best positions by words anew, now that the lengths of the messages are known.

    A word in a long message says less (:data:`LENGTH_SHARE`). Sittings are not part of this score.

    :param words: how many words the messages have at these positions and around them.
    :returns: the scores in the order of the positions.
    """
    scores = [0.0] * len(positions)
    if not scores:
        return scores
    density = _densities(words)
    crowding = _crowding(positions, words)
    places = {position: place for place, position in enumerate(positions)}
    shares = [(offset, share * share) for offset, share in NEARNESS.items()]
    for term in terms:
        hits = [
            (position, value := term.hits[position], (value * density[words[position]]) ** 2)
            for position in words.keys() & term.hits.keys()
        ]
        near: dict[int, float] = {}
        around: dict[int, float] = {}
        for offset, share in shares:
            for position, value, square in hits:
                place = places.get(position + offset)
                if place is not None:
                    near[place] = near.get(place, 0.0) + square * share
                    around[place] = around.get(place, 0.0) + value
        rarity = term.rarity
        for place, held in around.items():
            surroundings = held * (SATURATION + 1) / (held + crowding[place])
            scores[place] += rarity * (near[place] ** 0.5 + SURROUNDINGS_WEIGHT * surroundings)
    return scores


def _densities(words: Mapping[int, int]) -> dict[int, float]:
    """By its length, what one word counts in a message: less in one longer than usual."""
    lengths = sorted(words.values())
    middle = max(lengths[len(lengths) // 2], 1)
    return {
        length: 1 / (1 - LENGTH_SHARE + LENGTH_SHARE * min(length / middle, 10))
        for length in set(lengths)
    }


def _crowding(positions: Sequence[int], words: Mapping[int, int]) -> list[float]:
    """BM25's term for the length of each position's surroundings, beside the mean length."""
    lengths = [0] * len(positions)
    for offset in NEARNESS:
        for place, position in enumerate(positions):
            lengths[place] += words.get(position + offset, 0)
    mean = max(sum(lengths) / len(lengths), 1.0)
    return [
        SATURATION * (1 - SURROUNDINGS_LENGTH + SURROUNDINGS_LENGTH * length / mean)
        for length in lengths
    ]


def role_named(name: Term, known: Candidates) -> str | None:
    """The role that bears a name, as far as the messages tell.

    Of two who talk, one calls the other by name and hardly ever themselves: the name belongs to
    the role that does not say it.

    :param name: where the name is said.
    """
    if any(known.speakers):
        return None
    said: dict[str, int] = {}
    unsaid: dict[str, int] = {}
    for position, role in zip(known.positions, known.roles, strict=True):
        counts = said if position in name.hits else unsaid
        counts[role] = counts.get(role, 0) + 1
    roles = sorted(said.keys() | unsaid.keys(), key=lambda role: said.get(role, 0))
    if len(roles) != 2 or said.get(roles[1], 0) < NAMED_AT_LEAST:
        return None
    shares = [said.get(role, 0) / (said.get(role, 0) + unsaid.get(role, 0)) for role in roles]
    return roles[0] if shares[0] * NAMED_MORE <= shares[1] else None


def turn_factors(positions: Sequence[int], known: Candidates, question: Question) -> list[float]:
    """What scores by words are multiplied with for what the turns do.

    :param positions: some of the known ones.
    :param known: these messages and, where there is one, the message before each.
    """
    places = dict(zip(known.positions, range(len(known.positions)), strict=True))
    said_at, traits, times = known.said_at, known.traits, question.times
    # Few combinations of traits occur, and few speakers.
    by_traits = {found: _traits_power(found, question) for found in set(traits)}
    by_speaker = {
        who: _speaker_power(*who, question)
        for who in set(zip(known.speakers, known.roles, strict=True))
    }
    opens, answers = FACTORS["opens"], FACTORS["answers"]
    powers: list[float] = []
    for position in positions:
        place, before = places[position], places.get(position - 1)
        power = _length_power(known.words[place]) + by_traits[traits[place]]
        power += by_speaker[known.speakers[place], known.roles[place]]
        if before is None or _opens(
            traits[place], traits[before], said_at[place] - said_at[before]
        ):
            power += opens
        elif traits[before] & HAS_QUESTION:
            power += answers
        for start, end in times:
            if start <= said_at[place] < end:
                power += FACTORS["when"]
                break
        powers.append(power)
    return list(map(math.exp, powers))


def _traits_power(traits: int, question: Question) -> float:
    power = 0.0
    if traits & ASKS:
        power += FACTORS["asks"]
    if traits & ABOUT_SELF:
        power += FACTORS["about self"]
    if traits & ABOUT_OTHER:
        power += FACTORS["about other"]
    if question.asks_time and traits & TELLS_TIME:
        power += FACTORS["time"]
    if question.asks_number and traits & TELLS_NUMBER:
        power += FACTORS["number"]
    return power


def _speaker_power(speaker: str, role: str, question: Question) -> float:
    named = role in question.roles or not question.words.isdisjoint((speaker or role).split())
    return FACTORS["speaker"] if named else 0.0


def _opens(traits: int, before: int, passed: int) -> bool:
    """Whether a turn opens a sitting: after a pause, or, where times do not tell (a conversation
    that was stored all at once), with a greeting that does not return another.

    :param before: the traits of the turn before.
    :param passed: the time since then, in ms.
    """
    return abs(passed) > PAUSE or bool(traits & GREETS and not before & GREETS)


@lru_cache(maxsize=1024)
def _length_power(words: int) -> float:
    power = LENGTH_POWER * math.log(min(max(words, 4), 60) / 20)
    if words > LONG:
        power += max(LONG_LEAST, -LONG_POWER * math.log(words / LONG))
    return power
