"""What of a message is indexed."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.messages import text_message
from palimpsest.store.search_heading import heading_of
from palimpsest.store.search_text import (
    ABOUT_OTHER,
    ABOUT_SELF,
    ASKS,
    GREETS,
    HAS_QUESTION,
    PIECE_BYTES,
    TELLS_NUMBER,
    TELLS_TIME,
    indexed_message,
    segmented,
    storable,
)
from palimpsest.store.search_times import parse_moment


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2023-05-08T13:56:00Z", 1683554160000),
        ("2023-05-08T13:56:00+02:00", 1683546960000),
        ("2023-05-08T13:56:00", 1683554160000),
        ("2023-05-08", 1683504000000),
        ("1:56 pm on 8 May, 2023", 1683554160000),
        ("12:05 am on 8 May 2023", 1683504300000),
        ("May 8th, 2023", 1683504000000),
        (1683554160, 1683554160000),
        (1683554160000, 1683554160000),
        ("yesterday", None),
        ("8 Foo, 2023", None),
        ("31 February, 2023", None),
        ("", None),
        (None, None),
        (True, None),
        (5, None),
        ({}, None),
    ],
)
def test_moments(value: Any, expected: int | None) -> None:
    assert parse_moment(value) == expected


@pytest.mark.parametrize(
    ("text", "metadata", "speaker"),
    [
        ("Caroline: hello", {}, "caroline"),
        ("Ada Lovelace: hello", {}, "ada lovelace"),
        ("hello", {"speaker": "Ben"}, "ben"),
        ("Ana: hello", {"speaker": "Ben"}, "ben"),
        ("hello", {"name": "  "}, ""),
        ("see https://example.org", {}, ""),
        ("12:30 is fine", {}, ""),
        ("hello", {}, ""),
    ],
)
def test_speakers(text: str, metadata: dict[str, Any], speaker: str) -> None:
    message = text_message("m", "user", text, metadata=metadata)
    assert indexed_message(message).speaker == speaker


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("[8 May 2023] Ana: hello", ("Ana", 1683504000000, 18)),
        ("(1:56 pm on 8 May, 2023) Ana Lee: hello", ("Ana Lee", 1683554160000, 34)),
        ("Ana (2023-05-08): hello", ("Ana", 1683504000000, 18)),
        ("2023-05-08 13:56 Ana: hello", ("Ana", 1683554160000, 22)),
        ("2023-05-08T13:56:00Z - Ana: hello", ("Ana", 1683554160000, 28)),
        ("[2023-05-08] hello", ("", 1683504000000, 13)),
        ("Ana: hello", ("Ana", None, 5)),
        ("[a link](https://example.org) and: more", ("", None, 0)),
        ("(by the way) Ana: hello", ("", None, 0)),
        ("3 apples: red ones", ("", None, 0)),
        ("[8 May 2023", ("", None, 0)),
        ("hello", ("", None, 0)),
        ("", ("", None, 0)),
    ],
)
def test_headings(text: str, heading: tuple[str, int | None, int]) -> None:
    assert heading_of(text) == heading


def test_a_heading_tells_what_the_message_does_not() -> None:
    message = text_message("m", "user", "[8 May 2023] Ana: hello")
    read = indexed_message(message)
    assert (read.speaker, read.said_at, read.traits) == ("ana", 1683504000000, GREETS)
    message["metadata"] = {"speaker": "Ben", "date": "2024-05-08"}
    read = indexed_message(message)
    assert (read.speaker, read.said_at) == ("ben", 1715126400000)


@pytest.mark.parametrize(
    ("key", "indexed"),
    [("caption", True), ("image_caption", True), ("imageCaption", True), ("salt", False)],
)
def test_metadata_that_describes(key: str, indexed: bool) -> None:
    message = text_message("m", "user", "look", metadata={key: "a red kite"})
    assert ("kite" in indexed_message(message).pieces[0].about) is indexed


def test_times_of_the_message_come_before_those_of_its_metadata() -> None:
    message = text_message("m", "user", "x", createdAt="2023-05-08")
    message["metadata"] = {"createdAt": "2024-05-08"}
    assert indexed_message(message).said_at == 1683504000000
    del message["createdAt"]
    assert indexed_message(message).said_at == 1715126400000
    del message["metadata"]
    assert indexed_message(message).said_at is None


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("", 0),
        ("What is it?", ASKS | HAS_QUESTION),
        ("Why? Because.", HAS_QUESTION),
        ("I'm here", ABOUT_SELF),
        ("Did you see our cat?", ASKS | HAS_QUESTION | ABOUT_OTHER | ABOUT_SELF),
        ("it was last Friday", TELLS_TIME),
        ("there are three of them", TELLS_NUMBER),
        ("there are 17 of them", TELLS_NUMBER),
        ("何ですか？", ASKS | HAS_QUESTION),
        ("Hello, Ben!", GREETS),
        ("Good evening to all", GREETS),
        ("Good idea", 0),
        ("He said hi", 0),
        ("Ben: Hey Ana", GREETS),
        ("[8 May 2023] Ben: all is well", 0),
    ],
)
def test_traits(text: str, traits: int) -> None:
    assert indexed_message(text_message("m", "user", text)).traits == traits


def test_words_are_counted_about_right() -> None:
    assert indexed_message(text_message("m", "user", "one two three")).words == 3
    long = indexed_message(text_message("m", "user", "word " * 50_000)).words
    assert 45_000 < long < 55_000
    assert indexed_message(text_message("m", "user", "部署方案" * 10)).words == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", ""),
        ("naïve café", ""),
        ("部署", "部 署"),
        ("部署 方案", "部 署 . 方 案"),
        ("部署itgc方案", "部 署 itgc 方 案"),
        ("ok 部署 ok", "部 署"),
        ("배포는", "배 포 는"),
        ("วันนี้", "วั น นี้"),
        ("ﾃｽﾄ", "テ ス ト"),
        ("か\u3099", "が"),
        ("a🎉b", "a 🎉 b"),
    ],
)
def test_unspaced_scripts_are_parted_into_characters(text: str, expected: str) -> None:
    assert segmented(text) == expected


def test_very_long_texts_are_cut_into_pieces_that_can_be_stored() -> None:
    for text in ("word " * 500_000, "é" * 1_500_000, "部署 " * 700_000):
        pieces = indexed_message(text_message("m", "user", text)).pieces
        assert len(pieces) > 1
        assert "".join(piece.text for piece in pieces) == text
        assert all(len(piece.text.encode()) <= PIECE_BYTES for piece in pieces)


def test_media_never_enter_the_index() -> None:
    data = "iVBORw0KGgo" * 100
    parts = [
        {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{data}"},
        {
            "type": "tool-shot",
            "toolCallId": "1",
            "output": {"mediaType": "image/png", "data": "iVBO"},
        },
        {"type": "tool-shot", "toolCallId": "2", "output": [f"data:image/png;base64,{data}"]},
        {"type": "tool-shot", "toolCallId": "3", "output": {"text": f"see {data} here"}},
    ]
    read = indexed_message({"id": "m", "role": "user", "parts": parts})
    assert "iVBO" not in read.pieces[0].tools
    assert "shot" in read.pieces[0].tools
    assert "here" in read.pieces[0].tools


def test_unstorable_characters_become_spaces() -> None:
    assert storable("a\x00b\ud800c") == "a b c"
    assert storable("plain") == "plain"


def test_odd_parts_are_read_without_failing() -> None:
    deep: Any = "deep"
    for _ in range(300):
        deep = [deep]
    parts: list[Any] = [
        {"type": "text"}, {"type": "text", "text": 5}, {"type": "unknown", "text": "shown"},
        {"type": "tool-x", "input": deep}, {"type": "data-x", "data": None}, {"type": ""}, "text",
    ]  # fmt: skip
    read = indexed_message({"id": "m", "role": "user", "parts": parts, "metadata": 7})
    assert read.pieces[0].text == "shown"
