"""Snippets: the best place of a text for a query, and what to highlight there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from palimpsest.search.words import base_forms
from palimpsest.store.search_text import HAS_UNSPACED

SNIPPET_CHARACTERS = 240
"""The longest snippet, in characters, without the marks of a cut."""

READ_CHARACTERS = 200_000
"""How much of a text is looked at for its best place."""

CUT = "…"

Range = tuple[int, int]

Excerpt = tuple[str, tuple[Range, ...]]
"""The text of a snippet and the ranges to highlight in it."""

_WORD = re.compile(r"[^\W_]+")
_ACCENTED = re.compile("[\xc0-\u1fff]")
_ENDINGS = ("s", "es", "d", "ed", "ing", "er", "ers", "ion", "ions", "ly", "y")


class Highlighter:
    """Finds the words of one query in texts.

    :param shown: words, phrases with single spaces, beginnings that end in ``*``, and runs of
        unspaced scripts. Words are found in their inflected forms as well.
    """

    def __init__(self, shown: Iterable[str]) -> None:
        self._shown = shown
        self._read = False

    def _prepare(self) -> None:
        # Only now: many results are never shown.
        self._words: set[str] = set()
        self._phrases: dict[str, list[re.Pattern[str]]] = {}
        self._beginnings: tuple[str, ...] = ()
        self._runs: list[str] = []
        for entry in self._shown:
            self._add(entry)
        self._read = True

    def _add(self, entry: str) -> None:
        words = _fold(entry.lower()).rstrip("*").split()
        if HAS_UNSPACED.search(entry):
            self._runs.append(entry)
        elif entry.endswith("*"):
            self._beginnings += ("".join(words),)
        elif len(words) > 1:
            self._phrases.setdefault(words[0], []).append(_phrase_pattern(words))
        elif words:
            self._words |= inflections(words[0])

    def find(self, text: str) -> list[Range]:
        """The ranges of the query's words in a text, ascending and without overlap."""
        if not self._read:
            self._prepare()
        folded = _fold(text.lower())
        if len(folded) != len(text):  # a few characters have a longer lower case
            folded = text
        words = set(_WORD.findall(folded))
        found: list[Range] = []
        for phrase in words & self._phrases.keys():
            for wanted in self._phrases[phrase]:
                found += [match.span() for match in wanted.finditer(folded)]
        shown = words & self._words
        if self._beginnings:
            shown |= {word for word in words if word.startswith(self._beginnings)}
        for word in shown:
            found += _occurrences(word, folded)
        for run in self._runs:
            found += _occurrences(run, text, whole=False)
        return _merged(found)


def _phrase_pattern(words: list[str]) -> re.Pattern[str]:
    between = r"[\W_]+".join(map(re.escape, words))
    return re.compile(rf"(?<![^\W_]){between}(?![^\W_])")


def _occurrences(word: str, text: str, *, whole: bool = True) -> list[Range]:
    """Where a word stands in a text, if ``whole`` not as a part of another."""
    found: list[Range] = []
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not whole or not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            found.append((start, end))
        start = text.find(word, end)
    return found


def _merged(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def inflections(word: str) -> set[str]:
    """The forms in which English may write a word, and the words it may be a form of."""
    forms = {word}
    for base in base_forms(word):
        if len(base) < 3:
            continue
        forms.add(base)
        forms.update(base + ending for ending in _ENDINGS)
        last = base[-1]
        if last == "y":
            forms |= {base[:-1] + "ies", base[:-1] + "ied"}
        elif last == "e":
            forms |= {base[:-1] + "ing", base[:-1] + "ion", base[:-1] + "ions"}
        elif last not in "aeiouwx":
            forms |= {base + last + "ing", base + last + "ed", base + last + "er"}
    return forms


def _fold(text: str) -> str:
    """The text without accents, character for character, as ``unicode61`` compares it."""
    if text.isascii() or not _ACCENTED.search(text):
        return text
    return _ACCENTED.sub(lambda found: unicodedata.normalize("NFD", found[0])[0], text)


def snippet(fields: Sequence[str], highlighter: Highlighter) -> Excerpt:
    """The best place of the first field that holds a word of the query, and the words' ranges.

    Without any, the beginning of the first field that is not empty.
    """
    for text in fields:
        if text and (found := highlighter.find(text[:READ_CHARACTERS])):
            return _cut(text, found)
    return _cut(next((text for text in fields if text), ""), [])


def _cut(text: str, found: list[Range]) -> Excerpt:
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
