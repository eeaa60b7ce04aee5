"""The offline model's reading."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palimpsest.messages import text_message
from palimpsest.models import OfflineModel, generate_text
from palimpsest.models.recall import (
    Passage,
    best_answer,
    is_question,
    read_passages,
    search_terms,
)


@pytest.mark.parametrize(
    "text",
    [
        "What is my cat called?",
        "where do I live",
        "Tell me my sister's name",
        "my cat's name?",
        "¿Cómo se llama mi gato?",
        "Wie heißt meine Katze?",
        "我的猫叫什么",
        "私の猫の名前は何ですか",
        "제 고양이 이름이 뭐예요?",
        "Please remind me when the meeting is",
    ],
)
def test_questions(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "My cat is called Minka.",
        "Remember that I hate onions",
        "I know what I like.",
        "我的猫叫小黑。",
        "Merke dir: Montag ist frei",
        "",
    ],
)
def test_statements(text: str) -> None:
    assert not is_question(text)


FACTS = [
    Passage("user", "My cat is called Minka. She is black and sleeps all day."),
    Passage("user", "I live in Bergen, near the harbour."),
    Passage("assistant", "I will remember that: “My dog is called Rex.”"),
    Passage("user", "What is my dog called?"),
    Passage("user", "My name is Ada, by the way."),
    Passage("user", "The deployment of gpt-4o failed with error 38.101 on Tuesday."),
    Passage("user", "我的猫叫小黑。"),
    Passage("user", "제 고양이 이름은 나비예요."),
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is my cat called?", "My cat is called Minka."),
        ("where do i live", "I live in Bergen, near the harbour."),
        ("What's my name?", "My name is Ada, by the way."),
        (
            "What failed with 38.101?",
            "The deployment of gpt-4o failed with error 38.101 on Tuesday.",
        ),
        ("我的猫叫什么？", "我的猫叫小黑。"),
        ("고양이 이름이 뭐예요?", "제 고양이 이름은 나비예요."),
    ],
)
def test_the_sentence_that_answers_is_found(question: str, answer: str) -> None:
    found = best_answer(question, FACTS)
    assert found is not None
    assert found.text == answer


def test_what_was_never_said_is_not_answered() -> None:
    assert best_answer("What is my brother's profession?", FACTS) is None
    assert best_answer("???", FACTS) is None


def test_results_are_read_in_every_form() -> None:
    text = "[user] one\n---\n[assistant 2026-11-30] two"
    assert read_passages(text) == [Passage("user", "one"), Passage("assistant", "two")]
    hits = {"results": [{"role": "user", "text": "<b>one</b>"}, {"snippet": "two"}, 7]}
    assert read_passages(hits) == [Passage("user", "one"), Passage("", "two")]
    assert read_passages("No results found.") == []
    assert read_passages("Error: no such session") == []
    assert read_passages(None) == []


def test_a_failed_search_is_not_shown_as_nothing_found() -> None:
    call: dict[str, Any] = {"type": "tool-session_search", "toolCallId": "c", "input": {}}
    asked = text_message("1", "user", "What is my cat called?")
    for part in (
        {**call, "state": "output-available", "output": "Error: the index is gone"},
        {**call, "state": "output-error", "errorText": "the index is gone"},
    ):
        history = [asked, {"id": "2", "role": "assistant", "parts": [part]}]
        answer = asyncio.run(generate_text(OfflineModel(), history))
        assert answer == "I could not search our conversation: the index is gone"


def test_search_terms_keep_what_carries_meaning() -> None:
    assert search_terms("What is my cat's name?") == "cat"
    assert search_terms("What is my name?") == "name"
    assert search_terms("When did gpt-4o fail with 38.101?") == "gpt-4o fail 38 101"
    assert search_terms("is it?") == "is it?"


def test_without_the_tool_it_answers_from_what_it_sees() -> None:
    history = [
        text_message("1", "user", "My cat is called Minka."),
        text_message("2", "assistant", "I will remember that."),
        text_message("3", "user", "What is my cat called?"),
    ]
    answer = asyncio.run(generate_text(OfflineModel(), history))
    assert answer == "You told me: “My cat is called Minka.”"
    lost = asyncio.run(generate_text(OfflineModel(), "Where is the key?"))
    assert "found nothing" in lost
    empty = asyncio.run(generate_text(OfflineModel(), [{"id": "1", "role": "user", "parts": []}]))
    assert "no text" in empty
