"""The rules of ranking, one by one, without a database."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.search.dates import AFTERTHOUGHT, DAY, NamedTimes
from palimpsest.search.ranking import (
    BROAD,
    PAUSE,
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
from palimpsest.search.snippets import Highlighter, inflections, snippet
from palimpsest.store.search_index import SITTING_ROWS
from palimpsest.store.search_reader import Candidates
from palimpsest.store.search_text import (
    ABOUT_SELF,
    ASKS,
    GREETS,
    HAS_QUESTION,
    TELLS_NUMBER,
    TELLS_TIME,
)
from palimpsest.store.search_times import parse_moment


def candidates(*messages: dict[str, Any], first: int = 1) -> Candidates:
    """Messages of a user of 20 words each, unless told otherwise, at following positions."""
    return Candidates(
        positions=list(range(first, first + len(messages))),
        roles=[message.get("role", "user") for message in messages],
        speakers=[message.get("speaker", "") for message in messages],
        said_at=[message.get("said_at", 0) for message in messages],
        words=[message.get("words", 20) for message in messages],
        traits=[message.get("traits", 0) for message in messages],
    )


def factor(
    message: dict[str, Any], before: dict[str, Any] | None = None, question: Question | None = None
) -> float:
    """The factor of a message that stands behind another."""
    known = candidates(before or {}, message)
    [found] = turn_factors([2], known, question or Question())
    return found


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
    first, second, third = sittings.scores([11, 31, 61])
    assert first > second > third == 0
    assert Sittings(terms((10,)), []).scores([10]) == [0]


def test_what_sittings_add_is_their_score() -> None:
    sittings = Sittings(terms((5, 10, 40), (12,)), [1, 30, 60])
    scores = dict.fromkeys(range(-1, 70), 1.0)
    sittings.add_to(scores)
    assert scores == {
        place: 1.0 + score
        for place, score in zip(scores, sittings.scores(list(scores)), strict=True)
    }


def test_the_best_come_first_and_of_equal_ones_the_newer() -> None:
    assert best_first({3: 1.0, 5: 2.0, 4: 1.0, 9: 0.5}) == [5, 4, 3, 9]


def test_long_messages_say_less_of_a_word() -> None:
    words = dict.fromkeys(range(1, 60), 20) | {10: 500}
    long, usual = weigh_lengths(terms((10, 50)), [10, 50], words)
    assert usual > long > 0
    assert weigh_lengths(terms((10,)), [30], words) == [0]
    assert weigh_lengths(terms((10,)), [], {}) == []
    assert weigh_lengths(terms((10,)), [], words) == []


def test_all_occurrences_around_a_position_count() -> None:
    words = dict.fromkeys(range(1, 60), 20)
    alone, before, beside = (
        weigh_lengths(terms(hits), [30], words)[0] for hits in ((30,), (29,), (29, 30))
    )
    assert beside > alone > before > 0


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
    assert factor(fields, before, question) > factor({}, {}, question)


def test_turns_that_ask_are_held_back() -> None:
    assert factor({"traits": ASKS | HAS_QUESTION}) < factor({})


def test_the_first_message_that_is_known_opens_a_sitting() -> None:
    [first, second] = turn_factors([1, 2], candidates({}, {}), Question())
    assert first > second


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
    spans = NamedTimes(query, day("2023-10-15")).spans(day("2023-01-01"), day("2023-12-31"))
    assert any(start <= day(inside) < end for start, end in spans)
    assert not any(start <= day(outside) < end for start, end in spans)


@pytest.mark.parametrize("query", ["may I ask", "march on", "second try", "99999", "31 June"])
def test_what_names_no_time(query: str) -> None:
    assert NamedTimes(query, None).spans(day("2023-01-01"), day("2023-12-31")) == []


def test_what_happened_is_told_some_time_later() -> None:
    [(start, end)] = NamedTimes("7 July 2023", None).spans(0, 0)
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
    opening, said_at = [1, 5, 9], [100, 200, 300]
    times = Times(opening, said_at, [(200, 300)], 1000)
    scores = {3: 1.0, 6: 1.0}
    times.add_to(scores)
    assert scores.keys() == {3, 5, 6, 7, 8}
    assert scores[3] == 1.0
    sixth, seventh, ninth = times.scores([6, 7, 9])
    assert scores[6] == 1.0 + sixth
    assert sixth == seventh > 0 == ninth
    last, beyond = Times(opening, said_at, [(300, 301)], 1000).scores([9, 9 + SITTING_ROWS])
    assert last > 0 == beyond


def test_a_broad_time_only_adds_to_what_words_found() -> None:
    opening = list(range(1, 2 * BROAD))
    times = Times(opening, opening, [(0, 2 * BROAD)], 5_000)
    scores = {7: 1.0}
    times.add_to(scores)
    assert scores == {7: 1.0 + times.scores([7])[0]}
    assert scores[7] > 1.0


def test_a_greeting_opens_a_sitting_where_times_do_not_tell() -> None:
    greeting = {"traits": GREETS}
    assert factor(greeting) > factor({})
    assert factor(greeting, greeting) == factor({})


def test_a_name_that_one_role_says_is_the_other_roles() -> None:
    messages = [{"role": "user" if place % 2 else "assistant"} for place in range(1, 41)]
    known = candidates(*messages)
    said_by_user = Term(dict.fromkeys(range(1, 20, 2), 1.0))
    assert role_named(said_by_user, known) == "assistant"
    assert role_named(Term({1: 1.0}), known) is None
    assert role_named(Term(dict.fromkeys(range(1, 20), 1.0)), known) is None
    messages[2]["speaker"] = "ana"
    assert role_named(said_by_user, candidates(*messages)) is None
