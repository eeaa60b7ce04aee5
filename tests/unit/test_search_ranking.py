"""The rules of ranking, one by one, without a database."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.search.dates import AFTERTHOUGHT, DAY, named_times
from palimpsest.search.ranking import (
    BROAD,
    PAUSE,
    Question,
    Sittings,
    Term,
    Times,
    rank_words,
    role_named,
    turn_factor,
    weigh_lengths,
    weigh_variants,
)
from palimpsest.search.snippets import Highlighter, inflections, snippet
from palimpsest.store.search_index import SITTING_ROWS
from palimpsest.store.search_reader import Candidate
from palimpsest.store.search_text import (
    ABOUT_SELF,
    ASKS,
    GREETS,
    HAS_QUESTION,
    TELLS_NUMBER,
    TELLS_TIME,
)
from palimpsest.store.search_times import parse_moment


def candidate(doc: int = 1, **fields: Any) -> Candidate:
    values: dict[str, Any] = {
        "position": doc, "role": "user", "speaker": "", "said_at": 0, "words": 20, "traits": 0,
        "passes": True,
    }  # fmt: skip
    return Candidate(**(values | fields))


def terms(*positions: tuple[int, ...], messages: int = 1000) -> list[Term]:
    return [
        Term(dict.fromkeys(hits, 1.0), rarity=weigh_variants([1.0], [len(hits)], messages)[0])
        for hits in positions
    ]


def best(scores: dict[int, float]) -> int:
    return max(scores, key=lambda position: scores[position])


def test_rare_words_count_more() -> None:
    scores = rank_words(terms((10,), tuple(range(20, 60))), 10)
    assert best(scores) == 10


def test_all_words_in_one_message_beat_the_same_words_apart() -> None:
    scores = rank_words(terms((10, 50), (50, 90)), 10)
    assert best(scores) == 50


def test_a_word_is_as_rare_as_it_is_however_common_its_synonyms() -> None:
    rarity, [own, rarer, commoner] = weigh_variants([1.0, 0.6, 0.6], [5, 2, 300], 1000)
    assert rarity == weigh_variants([1.0], [5], 1000)[0]
    assert (own, rarer) == (1.0, 0.6)
    assert 0 < commoner < 0.3


def test_a_word_that_nobody_used_is_stood_in_for_by_its_synonyms() -> None:
    rarity, [_, few, many] = weigh_variants([1.0, 0.6, 0.6], [0, 2, 300], 1000)
    assert 0 < rarity * many < rarity * few < rarity


def test_words_count_for_the_turns_around_them() -> None:
    scores = rank_words(terms((10,)), 10)
    assert scores[10] > scores[11] > scores[9] > 0
    assert scores[12] > 0
    assert 13 not in scores


def test_repeating_a_word_around_a_message_adds_nothing_at_first() -> None:
    once = rank_words(terms((10,)), 10)[10]
    assert rank_words(terms((10, 11, 12, 9)), 10)[10] <= once


def test_words_found_nearly_everywhere_only_add_to_what_rarer_words_found() -> None:
    everywhere = tuple(range(5_000))
    scores = rank_words(terms((10,), everywhere, messages=5_000), 3)
    assert set(scores) <= set(range(5, 16))
    assert len(rank_words(terms(everywhere, messages=5_000), 10, 5_000)) >= 5_000
    newest = rank_words(terms(tuple(range(5_000, 0, -1)), messages=5_000), 10)
    assert BROAD <= len(newest) <= BROAD + 4
    assert min(newest) > 4_000


def test_the_sitting_counts() -> None:
    sittings = Sittings(terms((10, 40), (12,)), [1, 30, 60])
    assert sittings.score(11) > sittings.score(31) > sittings.score(61) == 0
    assert Sittings(terms((10,)), []).score(10) == 0


def test_long_messages_say_less_of_a_word() -> None:
    known = {place: candidate(place) for place in range(1, 60)}
    known[10] = candidate(10, words=500)
    scores = weigh_lengths(terms((10, 50)), [10, 50], known)
    assert scores[50] > scores[10] > 0
    assert weigh_lengths(terms((10,)), [], {}) == {}
    assert weigh_lengths(terms((10,)), [], known) == {}


@pytest.mark.parametrize(
    ("fields", "before", "question"),
    [
        ({"traits": ABOUT_SELF}, {}, Question()),
        ({}, {"traits": HAS_QUESTION}, Question()),
        ({}, {"said_at": -PAUSE - 1}, Question()),
        ({"traits": TELLS_TIME}, {}, Question(asks_time=True)),
        ({"traits": TELLS_NUMBER}, {}, Question(asks_number=True)),
        ({"speaker": "ana lima"}, {}, Question(words=frozenset({"ana"}))),
        ({"role": "assistant"}, {}, Question(words=frozenset({"assistant"}))),
        ({"said_at": 5}, {"said_at": 5}, Question(times=[(5, 6)])),
    ],
)
def test_what_raises_a_turn(
    fields: dict[str, Any], before: dict[str, Any], question: Question
) -> None:
    plain = turn_factor(candidate(), candidate(), question)
    assert turn_factor(candidate(**fields), candidate(**before), question) > plain


def test_turns_that_ask_are_held_back() -> None:
    asking = candidate(traits=ASKS | HAS_QUESTION)
    assert turn_factor(asking, candidate(), Question()) < turn_factor(
        candidate(), candidate(), Question()
    )


def day(text: str) -> int:
    moment = parse_moment(text)
    assert moment is not None
    return moment


@pytest.mark.parametrize(
    ("query", "inside", "outside"),
    [
        ("in May 2023", "2023-05-20", "2023-07-20"),
        ("on 7 July, 2023", "2023-07-07", "2023-06-07"),
        ("on July 7th", "2023-07-08", "2023-09-08"),
        ("first week of October", "2023-10-03", "2023-12-03"),
        ("on 2023-10-13", "2023-10-13", "2023-09-13"),
        ("during 2022", "2022-06-06", "2023-06-06"),
        ("yesterday", "2023-10-14", "2023-10-16"),
        ("last week", "2023-10-10", "2023-09-20"),
    ],
)
def test_named_times(query: str, inside: str, outside: str) -> None:
    spans = named_times(query, day("2023-10-15"), day("2023-01-01"), day("2023-12-31"))
    assert any(start <= day(inside) < end for start, end in spans)
    assert not any(start <= day(outside) < end for start, end in spans)


@pytest.mark.parametrize("query", ["may I ask", "march on", "second try", "99999", "31 June"])
def test_what_names_no_time(query: str) -> None:
    assert named_times(query, None, day("2023-01-01"), day("2023-12-31")) == []


def test_what_happened_is_told_some_time_later() -> None:
    [(start, end)] = named_times("7 July 2023", None, 0, 0)
    assert start == day("2023-07-07")
    assert end == start + DAY + AFTERTHOUGHT


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("deploy", ["deploys", "deployed", "deploying"]),
        ("running", ["run", "runs", "runner"]),
        ("study", ["studies", "studied"]),
        ("bake", ["baking", "baked"]),
    ],
)
def test_inflections(word: str, forms: list[str]) -> None:
    assert set(forms) <= inflections(word)


def test_words_inside_others_are_not_highlighted() -> None:
    assert Highlighter(["art"]).find("the article on art") == [(15, 18)]
    assert Highlighter(["dep*"]).find("deposit a dept, independent") == [(0, 7), (10, 14)]
    assert Highlighter(["red house"]).find("a red, house") == [(2, 12)]
    assert Highlighter(["cafe"]).find("Café") == [(0, 4)]


def test_a_snippet_shows_the_place_with_most_words() -> None:
    text = "apple " + "x " * 400 + "apple and pear" + " y" * 400
    shown, highlights = snippet([text], Highlighter(["apple", "pear"]))
    assert [shown[start:end] for start, end in highlights] == ["apple", "pear"]
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_a_snippet_without_a_match_is_the_beginning() -> None:
    assert snippet(["", "tools"], Highlighter(["none"])) == ("tools", ())
    assert snippet(["", ""], Highlighter([])) == ("", ())
    shown, highlights = snippet(["word " * 100], Highlighter(["none"]))
    assert shown.startswith("word word")
    assert highlights == ()


def test_a_time_that_the_query_names_finds_the_sittings_held_then() -> None:
    opening = [candidate(1, said_at=100), candidate(5, said_at=200), candidate(9, said_at=300)]
    times = Times(opening, [(200, 300)], 1000)
    scores = {3: 1.0, 6: 1.0}
    times.add_to(scores)
    assert scores.keys() == {3, 5, 6, 7, 8}
    assert scores[3] == 1.0
    assert scores[6] == 1.0 + times.score(6)
    assert times.score(6) == times.score(7) > 0 == times.score(9)
    last = Times(opening, [(300, 301)], 1000)
    assert last.score(9) > 0 == last.score(9 + SITTING_ROWS)


def test_a_broad_time_only_adds_to_what_words_found() -> None:
    opening = [candidate(place, said_at=place) for place in range(1, 2 * BROAD)]
    times = Times(opening, [(0, 2 * BROAD)], 5_000)
    scores = {7: 1.0}
    times.add_to(scores)
    assert scores == {7: 1.0 + times.score(7)}
    assert scores[7] > 1.0


def test_a_greeting_opens_a_sitting_where_times_do_not_tell() -> None:
    plain, greeting, asking = candidate(1), candidate(2, traits=GREETS), Question()
    assert turn_factor(greeting, plain, asking) > turn_factor(plain, plain, asking)
    assert turn_factor(greeting, greeting, asking) == turn_factor(plain, plain, asking)


def test_a_name_that_one_role_says_is_the_other_roles() -> None:
    known = {
        place: candidate(place, role="user" if place % 2 else "assistant") for place in range(1, 41)
    }
    said_by_user = Term(dict.fromkeys(range(1, 20, 2), 1.0))
    assert role_named(said_by_user, known) == "assistant"
    assert role_named(Term({1: 1.0}), known) is None
    assert role_named(Term(dict.fromkeys(range(1, 20), 1.0)), known) is None
    known[3] = candidate(3, speaker="ana")
    assert role_named(said_by_user, known) is None
