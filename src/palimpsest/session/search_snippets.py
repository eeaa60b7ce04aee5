"""Snippets: the best place of a text for a query, and what to highlight there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from palimpsest.session.search_words import base_forms
from palimpsest.store.search_text import HAS_UNSPACED

SNIPPET_CHARACTERS = 240
"""The longest snippet, in characters, without the marks of a cut."""

READ_CHARACTERS = 200_000
"""How much of a text is looked at for its best place."""

CUT = "…"

Range = tuple[int, int]

_ENDINGS = r"(?:s|es|e|ed|d|ing|er|ers|ion|ions|ly|y|ies|ied)?"


@lru_cache(maxsize=64)
def highlight_pattern(shown: tuple[str, ...]) -> re.Pattern[str] | None:
    """One pattern for all words and phrases of a query; None if there are none."""
    alternatives = [_alternative(word) for word in sorted(shown, key=len, reverse=True)]
    return re.compile("|".join(alternatives), re.IGNORECASE) if alternatives else None


def _alternative(word: str) -> str:
    if HAS_UNSPACED.search(word):
        return re.escape(word)
    if word.endswith("*"):
        return r"\b" + r"[\W_]+".join(map(re.escape, _fold(word[:-1]).split())) + r"\w*"
    words = _fold(word).split()
    if len(words) > 1:
        return r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, words)) + r"(?![^\W_])"
    bases = [base for base in base_forms(words[0]) if len(base) >= 3] or words
    base = min(bases, key=len)
    forms = {re.escape(words[0]), re.escape(base) + _ENDINGS}
    if base[-1].isalpha():
        forms.add(re.escape(base + base[-1]) + "(?:ing|ed|er)")
    if base[-1] == "y":
        forms.add(re.escape(base[:-1]) + "(?:ies|ied)")
    return rf"(?<![^\W_])(?:{'|'.join(sorted(forms, key=len, reverse=True))})(?![^\W_])"


def _fold(text: str) -> str:
    """The text without accents, character for character, as ``unicode61`` compares it."""
    if text.isascii():
        return text
    return "".join(
        unicodedata.normalize("NFD", character)[0] if "\xc0" <= character < "\u2000" else character
        for character in text
    )


def snippet(fields: Sequence[str], shown: Iterable[str]) -> tuple[str, tuple[Range, ...]]:
    """The best place of the first field that holds a word of the query, and the words' ranges.

    Without any, the beginning of the first field that is not empty.
    """
    pattern = highlight_pattern(tuple(dict.fromkeys(shown)))
    for text in fields:
        if not text or pattern is None:
            continue
        found = [match.span() for match in pattern.finditer(_fold(text[:READ_CHARACTERS]))]
        if found:
            return _cut(text, found)
    text = next((text for text in fields if text), "")
    return _cut(text, [])


def _cut(text: str, found: list[Range]) -> tuple[str, tuple[Range, ...]]:
    if len(text) <= SNIPPET_CHARACTERS:
        return text, tuple(found)
    start, end = _place(text, found)
    before = CUT if start > 0 else ""
    after = CUT if end < len(text) else ""
    shift = len(before) - start
    inside = tuple(
        (first + shift, min(last, end) + shift) for first, last in found if start <= first < end
    )
    return before + text[start:end] + after, inside


def _place(text: str, found: list[Range]) -> Range:
    """The stretch of the text with the most different words of the query."""
    best_start, best_count = 0, -1
    for index, (first, _) in enumerate(found[:500]):
        inside: set[str] = set()
        for start, stop in found[index : index + 50]:
            if stop > first + SNIPPET_CHARACTERS * 3 // 4:
                break
            inside.add(text[start:stop].lower())
        if len(inside) > best_count:
            best_start, best_count = first, len(inside)
    start = max(0, best_start - SNIPPET_CHARACTERS // 4)
    end = min(len(text), start + SNIPPET_CHARACTERS)
    start = max(0, end - SNIPPET_CHARACTERS)
    if start > 0:
        space = re.search(r"\s", text[start : start + 30])
        start += space.end() if space and start + space.end() <= best_start else 0
    if end < len(text):
        space = text.rfind(" ", end - 30, end)
        end = space if space > start else end
    return start, end
