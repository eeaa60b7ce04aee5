"""The tables of signs say what the plain ways to ask say."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from palimpsest.letters import LETTER_CLASSES, LOWERED, WORD_CLASSES
from palimpsest.token_text import DIGIT_IN_RUN

ASCII = st.text(st.characters(max_codepoint=127), max_size=60)


@given(ASCII)
def test_words_are_those_between_blanks(text: str) -> None:
    marks = text.encode().translate(WORD_CLASSES)
    assert marks.count(b" x") + marks.startswith(b"x") == len(text.split())


@given(ASCII)
def test_lowered_text_holds_letters_and_digits_only(text: str) -> None:
    words = text.encode().translate(LOWERED).decode().split()
    assert words == re.findall("[a-z0-9]+", text.lower())


@given(st.text(max_size=60))
def test_classes_tell_digits_and_humps_in_any_text(text: str) -> None:
    classes = text.encode(errors="replace").translate(LETTER_CLASSES)
    assert classes.count(b"0") == len(re.findall("[0-9]", text))
    assert (b"aA" in classes) is (re.search("[a-z][A-Z]", text) is not None)


@given(st.text(st.sampled_from("ab01+/ é."), max_size=40))
def test_a_digit_in_a_long_run_is_found_wherever_it_stands(text: str) -> None:
    runs = re.findall("[A-Za-z0-9_+/=-]{8,}", text)
    expected = any(re.search("[0-9]", run) for run in runs)
    assert (DIGIT_IN_RUN.search(text) is not None) is expected
