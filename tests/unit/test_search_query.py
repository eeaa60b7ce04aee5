"""How a query in plain text is read."""

from __future__ import annotations

import re

import pytest

from palimpsest.search.query import (
    MAX_TERMS,
    Query,
    QueryTerm,
    Variant,
    parse_query,
    plain_phrase,
    quote,
)
from palimpsest.search.tables import CATEGORIES, DERIVED, IRREGULAR, SYNONYMS
from palimpsest.search.words import STOP_WORDS, base_forms, other_forms


def parsed(text: str) -> Query:
    query = parse_query(text)
    assert query is not None
    return query


def wholes(text: str) -> list[str]:
    """The first variant of each term."""
    return [term.variants[0].match for term in parsed(text).terms]


@pytest.mark.parametrize("text", ["", "  ", "?!", "...", '""', '" "', "***", "\x00", "\ud800", "-"])
def test_nothing_to_search_for(text: str) -> None:
    assert parse_query(text) is None


@pytest.mark.parametrize(
    "text",
    [
        '"copper lantern"', ' "Copper Lantern"\n', '"the"', '"when was it"', '"how many 42"',
        '"a b" ', '"two  spaces"', '" edges "', '"C++"', '"café au lait"', '"red" "blue"', '"a" b',
        '"it\'s"', '"snake_case"', '"new\nline"', "a", '"' + "long " * 30 + 'phrase"',
        '"' + "x" * 30_000 + '"', " " * 30_000 + '"a b"',
    ],
)  # fmt: skip
def test_a_plain_phrase_is_what_reading_the_query_makes_of_it(text: str) -> None:
    words = plain_phrase(text)
    if words is not None:
        match = quote(words)
        term = QueryTerm((Variant(match),), (words,))
        assert parse_query(text) == Query(match, [term], exact=True, phrase=match)


def test_which_phrases_are_plain() -> None:
    assert plain_phrase(' "Copper Lantern"\n') == "Copper Lantern"
    assert plain_phrase('"the"') == "the"
    for other in ("copper", '"C++"', '"two  spaces"', '"café"', '"red" "blue"', '"a" b', '"it\'s"'):
        assert plain_phrase(other) is None


def test_stop_words_are_left_out_unless_there_is_nothing_else() -> None:
    assert wholes("what is the weather") == ['"weather"']
    assert wholes("who are you") == ['"who"', '"are"', '"you"']
    assert wholes("don't you") == ['"don t"', '"you"']
    assert wholes("don't panic") == ['"panic"']


def test_a_word_is_looked_up_once() -> None:
    assert wholes("weather weather Weather") == ['"weather"']


def test_phrases() -> None:
    query = parsed('"red house" "blue"')
    assert query.exact
    assert query.phrase == '"red house" AND "blue"'
    mixed = parsed('where is the "red house"')
    assert not mixed.exact
    assert [term.variants[0].match for term in mixed.terms] == ['"red house"']
    assert parsed("“red house”").exact
    assert parsed('"unclosed phrase').exact is False


def test_prefixes() -> None:
    assert wholes("dep*") == ['"dep" *']
    assert wholes("dep**") == ['"dep"']
    assert wholes("*dep") == ['"dep"']


def test_identifiers_whole_loose_and_in_parts() -> None:
    variants = parsed("gpt-4o").terms[0].variants
    assert variants[0] == Variant('"gpt 4o"', literal="gpt-4o")
    assert variants[1].match == '"gpt 4o"'
    assert variants[1].literal is None
    assert variants[-1].match == '"gpt" OR "4o"'
    assert variants[0].value > variants[1].value > 0
    plus = parsed("C++").terms[0].variants
    assert plus[0] == Variant('"c"', literal="c++")
    assert plus[1].value < variants[1].value


def test_possessives_and_edges() -> None:
    assert wholes("(Caroline's) hat?") == ['"caroline"', '"hat"']
    assert wholes("Caroline’s") == ['"caroline"']


def test_unspaced_scripts_are_looked_up_in_pairs() -> None:
    query = parsed("部署方案")
    assert [term.variants[0] for term in query.terms] == [
        Variant('"部 署 方 案"', grams=True),
        Variant('"部 署"', grams=True),
        Variant('"署 方"', grams=True),
        Variant('"方 案"', grams=True),
    ]
    assert wholes("部") == ['"部"']


def test_nothing_of_the_text_becomes_syntax() -> None:
    for text in ('a"b', 'x AND "y', "text:hello", "NEAR(a b)", "^a", "a*b", "(a)"):
        for term in parsed(text).terms:
            for variant in term.variants:
                bare = variant.match.split('"')[::2]
                assert all(part.strip() in ("", "OR", "*") for part in bare), variant.match


def test_what_a_question_asks_for() -> None:
    assert parsed("When did it happen?").asks_time
    assert parsed("what year was it").asks_time
    assert not parsed("whenever").asks_time
    assert parsed("how many dogs").asks_number


def test_very_long_queries_are_bounded() -> None:
    query = parsed(" ".join(f"word{number}" for number in range(10_000)))
    assert len(query.terms) == MAX_TERMS


@pytest.mark.parametrize(
    ("word", "form"),
    [("studies", "study"), ("boxes", "box"), ("dogs", "dog"), ("making", "make"),
     ("running", "run"), ("baked", "bake"), ("stopped", "stop")],
)  # fmt: skip
def test_base_forms(word: str, form: str) -> None:
    assert form in base_forms(word)


def test_other_forms() -> None:
    forms, synonyms, members = other_forms("bought")
    assert forms == ("buy",)
    assert "violin" in other_forms("instruments")[2]
    assert "dad" in other_forms("father")[1]
    assert "purchase" in synonyms
    assert "buy" not in synonyms
    assert members == ()
    assert other_forms("xyzzy") == ((), (), ())


def test_stop_words_are_lower_case_words() -> None:
    assert all(word == word.lower() and word.isalpha() for word in STOP_WORDS)


def test_the_tables_hold_lower_case_words_in_groups_of_two_or_more() -> None:
    for table in (IRREGULAR, DERIVED, SYNONYMS):
        for group in table.split(";"):
            words = group.split()
            assert len(words) > 1, group
            assert all(re.fullmatch("[a-z]+", word) for word in words), group
    for line in CATEGORIES.replace("\n ", " ").strip().splitlines():
        names, members = line.split(":")
        assert names.split(), line
        assert all(re.fullmatch("[a-z0-9]+", word) for word in members.split()), line


def test_one_category_may_have_several_names() -> None:
    assert other_forms("politics")[2]
    assert other_forms("politics")[2] == other_forms("political")[2]
