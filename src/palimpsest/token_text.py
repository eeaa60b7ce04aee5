"""What the documented token heuristic does not see in a text: scripts, emoji, dense runs.

The heuristic divides characters by four. That holds for words of Latin letters between spaces. It
misses by a factor of two to three for scripts without spaces, Korean, emoji, and for hexadecimal
and base64 runs, of which nearly every second character is a token. The weights below were fitted
to the o200k vocabulary; ``docs/models.md`` has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import filterfalse
from typing import NamedTuple

from palimpsest.letters import LETTER_CLASSES, WORD_CLASSES

_LATIN_AND_PUNCTUATION = r"\x00-\u02ff\u0300-\u036f\u1e00-\u1eff\u2000-\u206f\u20a0-\u20cf"
_OTHER = re.compile(rf"[^{_LATIN_AND_PUNCTUATION}]+|[\u200d\u20e3]+")

_SCRIPTS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"), 0.85),
    (re.compile(r"[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f]+"), 0.66),
    (re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]+"), 0.78),
    (re.compile(r"[\u0400-\u052f\u0370-\u03ff\u1f00-\u1fff]+"), 0.31),
    (re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+"), 0.42),
    (re.compile(r"[\u0900-\u0aff\u0b80-\u0dff]+"), 0.38),
    (re.compile(r"[\u0b00-\u0b7f]+"), 1.0),
    (re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"), 0.58),
    (re.compile(r"[\ufe00-\ufe0f\u200d\u20e3]+"), 0.6),
    (re.compile(r"[\u3000-\u303f\uff00-\uff65\uffe0-\uffef]+"), 0.9),
)
"""Tokens for each character of a script; whatever is in none of them is a symbol."""

_SYMBOL_WEIGHT = 1.9
"""Emoji, arrows, mathematical signs and scripts that vocabularies hardly know."""

_SHORTEST_RUN = 8
_RUN_SIGN = "[A-Za-z0-9_+/=-]"
_RUN = re.compile(f"{_RUN_SIGN}{{{_SHORTEST_RUN},}}")
"""A run that may be an identifier, a digest, a UUID or base64."""

_DIGIT = re.compile("[0-9]")
DIGIT_IN_RUN = re.compile(
    "[0-9](?<![0-9]{2})(?:"
    + "|".join(
        f"(?<={_RUN_SIGN}{{{_SHORTEST_RUN - after}}}){_RUN_SIGN}{{{after}}}"
        for after in range(_SHORTEST_RUN)
    )
    + ")"
)
"""The first of some digits that stand in a run: of so many signs, some before it, some after."""

_RUN_PIECE = re.compile(r"[a-z]+|[A-Z]+|[0-9]+")
_DENSE_PIECE_LENGTH = 2.3
"""Random runs change between small and capital letters and digits more often than words do."""

_DENSE_CHARS_PER_TOKEN = 1.58
_SAMPLE_CHARS = 400

_PIECE = re.compile(r"[A-Za-z]+|[0-9]{1,3}|[!-/:-@\[-`{-~]+")
"""About what tokenizers split text into before they look anything up."""

_SPARSE_SPACES = 7
"""Prose and code have more than one blank among so many characters; data has fewer."""

_FEWEST_DIGITS = 5
"""Data has more than one digit among so many characters."""

SLICE_CHARS = 65_536
"""About how many characters :func:`slices_of` gives at once."""


def slices_of(text: str) -> Iterator[str]:
    """The text in slices that end behind a blank where they can.

    A list of all words of a long text takes ten times the text's own memory, which a Worker does
    not have.
    """
    start = 0
    while start < len(text):
        end = start + SLICE_CHARS
        if end < len(text):
            blank = max(text.rfind(" ", start, end), text.rfind("\n", start, end))
            end = end if blank < start else blank + 1
        yield text[start:end]
        start = end


def count_words(text: str) -> int:
    """How many words there are between blanks: ``len(text.split())`` in little memory."""
    count = 0
    inside = False
    for piece in slices_of(text):
        count += len(piece.split()) - (inside and not piece[0].isspace())
        inside = not piece[-1].isspace()
    return count


def classify_text(text: str) -> tuple[int, int, float, int]:
    """Take a text apart, in time proportional to its length.

    :returns: four counts. Words and characters (UTF-16 units) as the heuristic has them: without
        other scripts and dense runs. Tokens of what is in neither count. Words, digit groups and
        punctuation of the rest, where it has few blanks; else 0.
    """
    tokens, chars = 0.0, len(text)
    rest = text
    data = text.encode(errors="replace")
    classes = data.translate(LETTER_CLASSES)
    digits = classes.count(b"0")
    first, end = 0, len(text)  # where digits can be
    if text.isascii():
        marks = data.translate(WORD_CLASSES)
        words = marks.count(b" x") + marks.startswith(b"x")
        if digits:
            first, end = classes.index(b"0"), classes.rindex(b"0") + _SHORTEST_RUN
    else:
        if found := _OTHER.findall(text):
            other = "".join(found)
            tokens += _script_tokens(other)
            chars -= len(other)
            rest = _OTHER.sub(" ", text)
        words = len(rest.split())
    dense = _NO_RUNS
    if digits and DIGIT_IN_RUN.search(rest, first, end):
        dense = _dense_runs(rest.split())
        words = max(words - dense.runs, 0)
        chars -= dense.chars
        tokens += dense.chars / _DENSE_CHARS_PER_TOKEN
    pieces = 0
    if text.count(" ") * _SPARSE_SPACES <= len(text) or digits * _FEWEST_DIGITS > len(text):
        pieces = max(_count_pieces(rest) - int(dense.pieces), 0)
    return words, chars, tokens, pieces


class _Dense(NamedTuple):
    runs: int
    chars: int
    pieces: float


_NO_RUNS = _Dense(0, 0, 0.0)


def _dense_runs(words: list[str]) -> _Dense:
    runs = chars = 0
    all_pieces = 0.0
    for word in filterfalse(str.isalpha, words):
        if len(word) < _SHORTEST_RUN or not _DIGIT.search(word):
            continue
        for run in _RUN.findall(word):
            sample = run[:_SAMPLE_CHARS]
            if not _DIGIT.search(sample):
                continue
            pieces = len(_RUN_PIECE.findall(sample))
            if len(sample) < pieces * _DENSE_PIECE_LENGTH:
                runs += 1
                chars += len(run)
                all_pieces += pieces * len(run) / len(sample)
    return _Dense(runs, chars, all_pieces) if runs else _NO_RUNS


def _script_tokens(text: str) -> float:
    tokens = 0.0
    left = len(text)
    for pattern, weight in _SCRIPTS:
        found = sum(map(len, pattern.findall(text)))
        tokens += found * weight
        left -= found
        if not left:
            break
    return tokens + left * _SYMBOL_WEIGHT


def _count_pieces(text: str) -> int:
    return sum(
        len(_PIECE.findall(text, start, start + SLICE_CHARS))
        for start in range(0, len(text), SLICE_CHARS)
    )
